"""Where the rows of a query on Spark go: each micro-batch is written whole, and again in the same place on replay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from slackwater.runners.spark.unpacking import rows_of_output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class Sink(Protocol):
    """Takes the rows of one output, micro-batch by micro-batch.

    After a crash Spark runs the last micro-batch again: a number that has been there before replaces what was written.
    """

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Write the rows of a micro-batch."""
        ...


@dataclass(frozen=True)
class ParquetSink:
    """Writes a folder of Parquet files for each micro-batch: `batch_id=7` in the folder given."""

    path: str

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Write, or write anew, the folder of a micro-batch."""
        rows.write.mode("overwrite").parquet(f"{self.path}/batch_id={batch_id}")


@dataclass(frozen=True)
class WriteOutputs:
    """Serves several sinks from one evaluation, for foreachBatch."""

    sinks: Mapping[str, tuple[StructType, Sink]]
    """The columns of each output, and who takes it."""

    def __call__(self, released: DataFrame, batch_id: int) -> None:
        """Hand each sink its rows."""
        # Without it every sink would run the stateful step again.
        kept = released.persist()
        try:
            for output, (schema, sink) in self.sinks.items():
                sink.write(rows_of_output(kept, output, schema), batch_id)
        finally:
            kept.unpersist()
