"""The host of a shard as it travels: whoever only asks what is stored need not open it.

When a query starts, Spark asks its stateful step, in a Python of its own, for the names and types of its state. To open
the plan there would import all that a shard runs by, and take that process a second or more, before the first
micro-batch. So what travels is a class that is written out itself, not named by its module, and has the host as bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from slackwater.runners.spark.wire.prompt_answers import answering

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slackwater.runners.spark.shard.host import ShardHost


def unopened(host: ShardHost) -> StatefulProcessor:
    """A step of Spark's that is the host, once it gets rows."""
    pickled: Any = CloudPickleSerializer
    packed, stored, answer_at_once = pickled().dumps(host), host.STORED, answering()

    # A class inside of a function is written out when it travels. It must name nothing of this library.
    class UnopenedHost(StatefulProcessor):
        def __init__(self) -> None:
            self._host: Any = None

        def __setstate__(self, state: dict[str, Any]) -> None:
            # When a worker has read what to do, and waits for the first row.
            self.__dict__.update(state)
            answer_at_once()

        def init(self, handle: Any) -> None:
            self._handle, self._segments = handle, handle.getMapState(*stored)

        def _opened(self) -> Any:
            if self._host is None:
                self._host = pickled().loads(packed)
                self._host.attach(self._handle, self._segments)
            return self._host

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803 - Spark's
            return self._opened().handleInputRows(key, rows, timerValues)

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803 - the same
            return self._opened().handleExpiredTimer(key, timerValues, expiredTimerInfo)

        def close(self) -> None:
            """Nothing is open."""

    return UnopenedHost()
