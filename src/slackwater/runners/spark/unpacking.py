"""Unpack: packed rows of one output become rows again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.runners.spark.arrow_bytes import from_buffer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def rows_of_output(released: DataFrame, output: str, schema: StructType) -> DataFrame:
    """The rows of one output among all that shards released, in the order in which they were."""
    return released.where(released["output"] == output).select("body").mapInArrow(_Unpack(), schema)


@dataclass(frozen=True)
class _Unpack:
    """Unpacks chunks, for mapInArrow."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a batch for each chunk."""
        for batch in batches:
            for body in batch.column(0):
                yield from_buffer(body.as_buffer())
