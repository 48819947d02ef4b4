"""Hosts a shard inside Spark: over a stream, with state between micro-batches, or over a DataFrame that ends."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from slackwater.runners.spark.arrow_bytes import to_buffer
from slackwater.runners.spark.metrics import METRICS, METRICS_SPARK, Metrics
from slackwater.runners.spark.packing import CHUNK_ROWS, Arrivals, PackedRow
from slackwater.runners.spark.resident import keep_resident, take_resident
from slackwater.runners.spark.segment_store import Head, SegmentStore
from slackwater.runners.spark.shard import Shard
from slackwater.runners.spark.spreading import shard_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql.streaming.stateful_processor import MapState, StatefulProcessorHandle, TimerValues

    from slackwater.runners.spark.shard_plan import ShardPlan

RELEASED_SPARK: Final = f"output string, body binary, {METRICS_SPARK}"
"""What a shard gives out: packed rows, with the output they belong to, and one row of metrics without a body."""

_NO_METRICS: Final = Metrics().as_row()
_RELEASED: Final = pa.schema({
    "output": pa.string(),
    "body": pa.binary(),
    **{name: pa.float64() if isinstance(value, float) else pa.int64() for name, value in _NO_METRICS.items()},
})  # fmt: skip


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
        metrics = Metrics(shard_keys(self._plan.shards).index(place[1]))
        with metrics.timed("decode"):
            arrivals = Arrivals()
            for frame in rows:
                for row in frame.itertuples(index=False):
                    arrivals.add(PackedRow(*row))
        with metrics.timed("state"):
            store, shard = self._resumed(place)
        for released in _given_out(shard, arrivals, metrics):
            yield pd.DataFrame([released])
        with metrics.timed("state"):
            self._segments.written_bytes = 0
            store.save(self._segments, shard.snapshot())
            keep_resident(place, store.leaves())
        metrics.state_bytes = self._segments.written_bytes
        yield pd.DataFrame([{"output": METRICS, "body": None, **metrics.as_row()}])

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
            for released in _given_out(Shard(self.plan), arrivals, Metrics(), to_the_end=True):
                yield pa.RecordBatch.from_pylist([released], schema=_RELEASED)


def _given_out(
    shard: Shard, arrivals: Arrivals, metrics: Metrics, *, to_the_end: bool = False
) -> Iterator[dict[str, Any]]:
    """Let a shard take a micro-batch, and all that is left if it is the last; pack what comes out into chunks."""
    metrics.rows_in = arrivals.rows
    for output, rows in metrics.timing("operate", chain(shard.take(arrivals), shard.end() if to_the_end else ())):
        metrics.rows_out += rows.num_rows
        for first in range(0, rows.num_rows, CHUNK_ROWS):
            with metrics.timed("encode"):
                body = to_buffer(rows.slice(first, CHUNK_ROWS)).to_pybytes()
            yield {"output": output, "body": body, **_NO_METRICS}
    metrics.late, metrics.buffered, metrics.runs = shard.late(), shard.buffered(), shard.runs()
    metrics.complete_before = shard.complete_before


@dataclass
class _StoredSegments:
    """Segments in a map state of Spark."""

    state: MapState
    written_bytes: int = 0

    def read(self, number: int) -> bytes | None:
        """Return a segment; None if there is none."""
        value = self.state.getValue((number,))
        return None if value is None else value[0]

    def write(self, number: int, segment: bytes) -> None:
        """Put a segment in its place."""
        self.state.updateValue((number,), (segment,))
        self.written_bytes += len(segment)

    def remove(self, number: int) -> None:
        """Forget a segment."""
        self.state.removeKey((number,))
