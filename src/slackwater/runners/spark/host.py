"""Hosts a shard inside Spark: over a stream, with state between micro-batches, or over a DataFrame that ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from slackwater.runners.spark.arrow_bytes import to_buffer
from slackwater.runners.spark.packing import CHUNK_ROWS, Arrivals, PackedRow
from slackwater.runners.spark.resident import keep_resident, take_resident
from slackwater.runners.spark.segment_store import Head, SegmentStore
from slackwater.runners.spark.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle, TimerValues

    from slackwater.runners.spark.shard import ShardPlan

RELEASED: Final = pa.schema({"output": pa.string(), "body": pa.binary()})
"""What a shard gives out: packed rows, and the output they belong to."""

RELEASED_SPARK: Final = "output string, body binary"
"""The same in Spark's words."""


class ShardHost(StatefulProcessor):
    """Runs a shard as a stateful step of a stream. `query` is a name that no other query has."""

    def __init__(self, plan: ShardPlan, query: str) -> None:
        self._plan = plan
        self._query = query

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Say what is stored."""
        self._segments = _StoredSegments(handle.getMapState("segments", "number long", "segment binary"))

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: ARG002, N803 - Spark's name
    ) -> Iterator[Any]:
        """Take a micro-batch; yield what it releases, then store what is left."""
        place = (self._query, int(key[0]))
        store, shard = self._resumed(place)
        arrivals = Arrivals()
        for frame in rows:
            for row in frame.itertuples(index=False):
                arrivals.add(PackedRow(*row))
        for output, body in _bodies(shard.take(arrivals.chunks(), arrivals.high_water)):
            yield pd.DataFrame({"output": [output], "body": [body]})
        store.save(self._segments, shard.snapshot())
        keep_resident(place, store.leaves())

    def close(self) -> None:
        """Nothing is open."""

    def _resumed(self, place: tuple[str, int]) -> tuple[SegmentStore, Shard]:
        head = Head.read(self._segments)
        if head is None:
            return SegmentStore(), Shard(self._plan)
        store, snapshot = SegmentStore.load(self._segments, head, take_resident(place))
        return store, Shard(self._plan, snapshot)


@dataclass(frozen=True)
class HostAll:
    """Runs shards over a DataFrame that ends, to its end: one micro-batch, then the flush. For mapInArrow."""

    plan: ShardPlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take all rows; yield all that they give."""
        arrived: dict[int, Arrivals] = {}
        for batch in batches:
            for packed in batch.to_pylist():
                row = PackedRow(**packed)
                arrived.setdefault(row.shard, Arrivals()).add(row)
        for arrivals in arrived.values():
            shard = Shard(self.plan)
            yield from map(_released, _bodies(shard.take(arrivals.chunks(), arrivals.high_water)))
            yield from map(_released, _bodies(shard.end()))


@dataclass(frozen=True)
class _StoredSegments:
    """Segments in a map state of Spark."""

    state: MapState

    def read(self, number: int) -> bytes | None:
        """Return a segment; None if there is none."""
        value = self.state.getValue((number,))
        return None if value is None else value[0]

    def write(self, number: int, segment: bytes) -> None:
        """Put a segment in its place."""
        self.state.updateValue((number,), (segment,))

    def remove(self, number: int) -> None:
        """Forget a segment."""
        self.state.removeKey((number,))


def _bodies(released: Iterable[tuple[str, pa.RecordBatch]]) -> Iterator[tuple[str, bytes]]:
    """Pack rows into chunks."""
    for output, rows in released:
        for first in range(0, rows.num_rows, CHUNK_ROWS):
            yield output, to_buffer(rows.slice(first, CHUNK_ROWS)).to_pybytes()


def _released(row: tuple[str, bytes]) -> pa.RecordBatch:
    output, body = row
    return pa.record_batch([[output], [body]], schema=RELEASED)
