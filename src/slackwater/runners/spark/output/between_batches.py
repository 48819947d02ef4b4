"""Holds a query on Spark between two micro-batches, so that it can be stopped there.

Spark's own stop() interrupts whatever runs: nothing is lost by that, but what was done of a micro-batch is done again
when the query is started again. Here the next micro-batch is held up before anything of it is done:

    micro-batch 7  ── written ── committed ──┬── micro-batch 8: its offsets are noted, and it is held
                                             └── stopped; started again, the query begins with micro-batch 8

Where micro-batches are written by another process, as over Spark Connect, nobody can be held; then a query is stopped
while no micro-batch runs, if it ever is seen so.
"""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_AGAIN: Final = 0.01
"""Seconds between two looks at a query."""

_A_DAY_MS: Final = 86_400_000


class BetweenBatches:
    """Lets micro-batches pass until it is asked to hold the next one. A copy in another process lets all pass."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._held = threading.Event()

    def __reduce__(self) -> tuple[type[BetweenBatches], tuple[()]]:
        return BetweenBatches, ()

    def pass_on(self, rows: DataFrame) -> None:
        """Go on with a micro-batch; where the query is to be stopped, sleep until it is."""
        if self._asked.is_set():
            self._held.set()
            java: Any = rows.sparkSession
            while True:
                # In Java, on the thread of the query: Spark interrupts this, and knows it as the end of a query.
                java._jvm.java.lang.Thread.sleep(_A_DAY_MS)  # noqa: SLF001 - pyspark has no other way

    def stop(self, query: StreamingQuery, seconds: float | None) -> bool:
        """Stop a query when it is between two micro-batches; after so many seconds, wherever it is.

        Say whether it was between them.
        """
        self._asked.set()
        looks = None if seconds is None else math.ceil(seconds / _LOOK_AGAIN)
        while not (between := self._held.wait(_LOOK_AGAIN) or not _runs_a_batch(query)) and looks != 0:
            looks = None if looks is None else looks - 1
        query.stop()
        return between


def _runs_a_batch(query: StreamingQuery) -> bool:
    return query.isActive and bool(query.status["isTriggerActive"])
