"""Where the rows of a query on Spark go: each micro-batch is written whole, and again in the same place on replay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from slackwater.errors import PlanError, message
from slackwater.runners.spark.metrics import METRIC_COLUMNS, METRICS
from slackwater.runners.spark.unpacking import rows_of_output

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


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
            for output, sink in self.sinks.items():
                if output == METRICS:
                    rows = kept.where(kept["output"] == METRICS).select(*METRIC_COLUMNS)
                else:
                    rows = rows_of_output(kept, output, self.columns[output])
                sink.write(rows, batch_id)
        finally:
            kept.unpersist()
