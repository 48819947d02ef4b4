"""A listener of Spark for queries of this library: each micro-batch as a value, to whoever wants to keep or show it."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from slackwater.runners.spark.micro_batch import micro_batch_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.listener import QueryProgressEvent, QueryStartedEvent, QueryTerminatedEvent

    from slackwater.runners.spark.micro_batch import MicroBatch


class QueryListener(StreamingQueryListener):
    """Calls a function with each micro-batch of every query of this library in a session; other queries are left alone.

    It is added and removed as Spark's listeners are, on classic sessions and over Spark Connect. Spark calls it on a
    thread of its own, some time after a micro-batch. What the function raises goes to `threading.excepthook`, which
    prints it: neither the query nor other listeners notice. Derive from it for Spark's other events, such as
    `onQueryTerminated`.

    >>> import queue, slackwater as sw
    >>> spark.createDataFrame([(1,), (3,), (2,)], "at long").coalesce(1).write.parquet(f"{folder}/in")
    >>> rows = sw.stream(spark.readStream.schema("at long").parquet(f"{folder}/in"), time="at")
    >>> seen = queue.Queue()
    >>> listener = sw.QueryListener(seen.put)
    >>> spark.streams.addListener(listener)
    >>> query = rows.sort(patience=1).start(
    ...     checkpoint=f"{folder}/checkpoint", main=f"{folder}/rows", late=f"{folder}/late", shards=1, name="rows"
    ... )
    >>> query.work()
    >>> batch = seen.get()
    >>> batch, batch.rows_out, batch.progress.complete_before, batch.why[0].held
    (<MicroBatch 0 of rows, 3 rows in>, 1, 2, {'sort#1': 2})
    >>> query.stop()
    >>> spark.streams.removeListener(listener)
    """

    def __init__(self, on_micro_batch: Callable[[MicroBatch], object]) -> None:
        super().__init__()
        self._on_micro_batch = on_micro_batch

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Hand on a micro-batch, if it is of a query of this library."""
        try:
            batch = micro_batch_of(event.progress)
            if batch is not None:
                self._on_micro_batch(batch)
        except Exception:  # noqa: BLE001 - whatever a user's function raises must not reach Spark
            threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing; Spark wants it to be there."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing; Spark wants it to be there."""
