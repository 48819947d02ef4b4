"""Pack: rows become one Spark row per chunk, which Spark moves as it moves a number.

Every task also says, to every shard, what arrived with it: how many rows, and their greatest time. So all shards know
the same of a micro-batch, whichever rows they have, and need not ask each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from slackwater.progress.instants import BEGINNING, Instant
from slackwater.runners.spark.arrow_bytes import from_buffer, to_buffer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from slackwater.events.schema import EventSchema

CHUNK_ROWS: Final = 65_536
"""Rows packed together: enough to make Spark's cost for a row small, and a block of the sort."""

SHARD: Final = 0
"""The one shard there is."""

PACKED: Final = pa.schema({
    "shard": pa.int64(), "task": pa.int64(), "number": pa.int64(),
    "rows": pa.int64(), "high_water": pa.int64(), "body": pa.binary(),
})  # fmt: skip
"""What a packed row is, in Arrow. Spark takes what Python gives without a cast, so that types must be these."""

PACKED_SPARK: Final = "shard long, task long, number long, rows long, high_water long, body binary"
"""The same in Spark's words."""


class PackedRow(NamedTuple):
    """A chunk of rows, or, without a body, the statistics of all rows of a task."""

    shard: int
    task: int
    number: int
    """Its place among the chunks of its task."""

    rows: int
    high_water: Instant
    """The greatest time of its rows."""

    body: bytes | None


@dataclass(frozen=True)
class Pack:
    """Packs the rows of a task, in their order; to be used with mapInArrow."""

    schema: EventSchema
    where: str
    chunk_rows: int = CHUNK_ROWS

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row per chunk, then the statistics."""
        context = TaskContext.get()
        assert context is not None, "pack runs in a task of Spark"
        task, rows, high_water = context.partitionId(), 0, BEGINNING
        for number, chunk in enumerate(_gathered(batches, self.chunk_rows)):
            # Read here for the time alone; it also refuses rows that have none before they go any further.
            newest = int(self.schema.read(chunk, self.where).start.max())
            high_water = max(high_water, newest)
            rows += chunk.num_rows
            body = to_buffer(chunk).to_pybytes()
            yield _packed(PackedRow(SHARD, task, number, chunk.num_rows, newest, body))
        if rows:
            yield _packed(PackedRow(SHARD, task, -1, rows, high_water, None))


@dataclass
class Arrivals:
    """What arrived with one micro-batch at one shard. The order in which it came says nothing."""

    high_water: Instant = BEGINNING
    """The greatest time of all rows of the micro-batch, whichever shard they went to."""

    _chunks: list[PackedRow] = field(default_factory=list)

    def add(self, row: PackedRow) -> None:
        """Take in a packed row."""
        if row.body is None:
            self.high_water = max(self.high_water, row.high_water)
        else:
            self._chunks.append(row)

    def chunks(self) -> Iterator[pa.RecordBatch]:
        """The rows, task by task, each in its order: the same after a restart, if Spark cuts the source the same."""
        for row in sorted(self._chunks, key=lambda row: (row.task, row.number)):
            assert row.body is not None
            yield from_buffer(row.body)


def _packed(row: PackedRow) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row._asdict()], schema=PACKED)


def _gathered(batches: Iterable[pa.RecordBatch], chunk_rows: int) -> Iterator[pa.RecordBatch]:
    """Put batches together, and cut them, to chunks of so many rows; only the last may have fewer."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        left = batch
        while rows + left.num_rows >= chunk_rows:
            fits = chunk_rows - rows
            yield pa.concat_batches([*waiting, left.slice(0, fits)])
            left, waiting, rows = left.slice(fits), [], 0
        if left.num_rows:
            waiting.append(left)
            rows += left.num_rows
    if waiting:
        yield pa.concat_batches(waiting)
