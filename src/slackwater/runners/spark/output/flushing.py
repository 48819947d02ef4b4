"""The end of a query that has taken all there is: whatever its shards still hold comes out as final, once.

A flush is asked for by rows, one for each shard, of a source that the query has besides those of its plan: a folder in
its checkpoint. So it is a micro-batch like any other. Spark writes down that it has begun, runs it again after a crash,
and never twice to its end.

    run while rows are there ── ask ── run once more ── mark the checkpoint as finished

Each arrow may be the last thing that happens: started again, the query does what is left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from slackwater.errors import PlanError, message
from slackwater.progress.instants import FOREVER
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.wire.packed_rows import FLUSH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

AT_END: Final = "flush"
"""What users write for it."""

_ASKED: Final = "shard long"
_PACKED: Final = (
    *("shard", "CAST(-1 AS INT) AS pipeline", "0L AS task", f"CAST({FLUSH} AS LONG) AS number"),
    *("0L AS rows", "0L AS high_water", "CAST(NULL AS BINARY) AS body"),
    *(f"CAST({FOREVER} AS LONG) AS since", "0L AS now"),
)
"""A packed row that asks a shard to give out what it holds."""


@dataclass(frozen=True)
class Flush:
    """The flush of one query, by its checkpoint."""

    session: SparkSession
    checkpoint: str
    shards: int

    def prepare(self) -> None:
        """Make the folder of the source; refuse a query that has been flushed."""
        if self._rows_in("flushed") is not None:
            facts, hint = {"checkpoint": self.checkpoint}, "start anew with another checkpoint, for what has come since"
            raise PlanError(message("this query has been flushed: it has come to its end", facts, hint))
        self.session.createDataFrame([], _ASKED).write.mode("ignore").parquet(self._folder("flush"))

    def rows(self) -> DataFrame:
        """The source, as packed rows."""
        return self.session.readStream.schema(_ASKED).parquet(self._folder("flush")).selectExpr(*_PACKED)

    def ask(self) -> None:
        """Let the next micro-batch be the last, unless an earlier life has done so."""
        if not self._rows_in("flush"):
            self._all_shards().write.mode("append").parquet(self._folder("flush"))

    def finish(self) -> None:
        """Mark the checkpoint: nothing can be added any more."""
        self._all_shards().write.mode("ignore").parquet(self._folder("flushed"))

    def _all_shards(self) -> DataFrame:
        keys = [(key,) for key in shard_keys(self.shards)]
        return self.session.createDataFrame(keys, _ASKED).coalesce(1)  # one file, so that it is there or not

    def _rows_in(self, folder: str) -> int | None:
        """How many rows a folder has; None if it is not there."""
        from pyspark.errors import AnalysisException

        try:
            return self.session.read.schema(_ASKED).parquet(self._folder(folder)).count()
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return None

    def _folder(self, name: str) -> str:
        return f"{self.checkpoint}/{name}"


def refuse_at_end(at_end: object, trigger: Mapping[str, object]) -> None:
    """Refuse an end that nobody knows, or that never comes."""
    if at_end != AT_END:
        facts, hint = {"at_end": repr(at_end)}, f"write at_end={AT_END!r}, or leave it out"
        raise PlanError(message("at_end= takes 'flush' or nothing", facts, hint))
    if not trigger.get("availableNow"):
        facts, hint = {"trigger": str(dict(trigger))}, 'say trigger={"availableNow": True}, or leave at_end= out'
        raise PlanError(message("at_end= needs a query that ends: trigger availableNow", facts, hint))
