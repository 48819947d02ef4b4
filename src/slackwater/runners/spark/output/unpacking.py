"""Unpack: packed rows of outputs become rows again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from slackwater.runners.spark.wire.arrow_bytes import from_buffer
from slackwater.runners.spark.wire.prompt_answers import answer_at_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def rows_of_outputs(released: DataFrame, outputs: Sequence[str], schema: StructType) -> DataFrame:
    """The rows of some outputs, alike in columns, among all that shards released, in the order in which they were."""
    return released.where(released["output"].isin(*outputs)).select("body").mapInArrow(_Unpack(), schema)


def local_rows(tables: Sequence[pa.Table], schema: StructType, session: SparkSession) -> DataFrame:
    """The rows of some tables as a frame that needs no Python worker: for rows that are few."""
    if not tables:
        return session.createDataFrame([], schema)  # an empty Arrow table has no types over Connect
    return session.createDataFrame(pa.concat_tables(tables))


@dataclass(frozen=True)
class _Unpack:
    """Unpacks chunks, for mapInArrow."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a batch for each chunk."""
        answer_at_once()
        for batch in batches:
            for body in batch.column(0):
                yield from_buffer(body.as_buffer())
