"""Where the rows of a query on Spark go: each micro-batch is written whole, and again in the same place on replay."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from slackwater.errors import PlanError, message
from slackwater.runners.spark.metrics import METRIC_COLUMNS, METRICS
from slackwater.runners.spark.unpacking import local_rows, rows_of_output

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


_FEW_BYTES: Final = 1 << 20
"""What an output may have of a micro-batch to be taken through the driver."""


class Sink(Protocol):
    """Takes the rows of one output, micro-batch by micro-batch.

    After a crash Spark runs the last micro-batch again: a number that has been there before replaces what was written.
    """

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Write the rows of a micro-batch."""
        ...


AnySink: TypeAlias = "Sink | str | Callable[[DataFrame, int], object]"
"""A sink, the path of a folder for Parquet files, or a function of the rows and the number of a micro-batch."""


@dataclass(frozen=True)
class FolderSink:
    """Writes files of any format that Spark has, a folder for each micro-batch: `batch_id=7` in the folder given."""

    path: str
    format: str = "parquet"
    options: Mapping[str, Any] = field(default_factory=dict)

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Write, or write anew, the folder of a micro-batch."""
        writer = rows.write.mode("overwrite").format(self.format).options(**self.options)
        writer.save(f"{self.path}/batch_id={batch_id}")


@dataclass(frozen=True)
class FunctionSink:
    """Calls a function with the rows and the number of each micro-batch; on replay with the same number again."""

    function: Callable[[DataFrame, int], object]

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Call it."""
        self.function(rows, batch_id)


def as_sink(given: AnySink) -> Sink:
    """Make a sink of what users write for one.

    >>> as_sink("counts")
    FolderSink(path='counts', format='parquet', options={})
    """
    if isinstance(given, str):
        return FolderSink(given)
    if hasattr(given, "write"):
        return given
    if callable(given):
        return FunctionSink(given)
    hint = "give a path, a FolderSink, or a function of rows and batch number"
    raise PlanError(message("this is nothing that rows could be written to", {"got": repr(given)}, hint))


@dataclass(frozen=True)
class WriteOutputs:
    """Serves several sinks from one evaluation, for foreachBatch."""

    sinks: Mapping[str, Sink]
    columns: Mapping[str, StructType]
    """The columns of each output."""

    def __call__(self, released: DataFrame, batch_id: int) -> None:
        """Hand each sink its rows."""
        # Without it every sink would run the stateful step again.
        kept = released.persist()
        try:
            sizes = self._sizes(kept)
            for output, sink in self.sinks.items():
                sink.write(self._rows(kept, output, sizes[output]), batch_id)
        finally:
            kept.unpersist()

    def _sizes(self, kept: DataFrame) -> Counter[str]:
        """How many bytes there are for each output. This is the pass in which everything is computed."""
        sizes: Counter[str] = Counter()
        for output, size in kept.selectExpr("output", "length(body)").collect():
            sizes[output] += size or 0
        return sizes

    def _rows(self, kept: DataFrame, output: str, size: int) -> DataFrame:
        if output == METRICS:
            return kept.where(kept["output"] == METRICS).select(*METRIC_COLUMNS)
        schema = self.columns[output]
        if size > _FEW_BYTES:
            return rows_of_output(kept, output, schema)
        # A pass through Python workers costs more than to take a few rows to the driver and back.
        bodies = [] if not size else [row.body for row in kept.where(kept["output"] == output).select("body").collect()]
        return local_rows(bodies, schema, kept.sparkSession)
