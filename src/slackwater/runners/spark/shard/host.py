"""Hosts a shard inside Spark: over a stream, with state between micro-batches, or over a DataFrame that ends."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import pandas as pd
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from slackwater.progress.instants import MICROSECONDS
from slackwater.runners.spark.failures import with_users_lines
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.shard.arrivals import Arrivals
from slackwater.runners.spark.shard.metrics import METRICS, METRICS_SPARK, Metrics
from slackwater.runners.spark.shard.shard import Shard
from slackwater.runners.spark.shard.shard_state import codec_of
from slackwater.runners.spark.state.memory import MOST_BY_DEFAULT, Spilling, block_bytes
from slackwater.runners.spark.state.segment_cache import keep_resident, take_resident
from slackwater.runners.spark.state.segment_store import Head, SegmentStore
from slackwater.runners.spark.wire.arrow_bytes import to_buffer
from slackwater.runners.spark.wire.chunks import CHUNK_BYTES, CHUNK_ROWS, in_chunks
from slackwater.runners.spark.wire.packed_rows import PackedRow
from slackwater.runners.spark.wire.prompt_answers import answer_at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        MapState,
        StatefulProcessorHandle,
        TimerValues,
    )

    from slackwater.progress.instants import Duration
    from slackwater.runners.spark.planning.shard_plan import ShardPlan
    from slackwater.runners.spark.state.segment_cache import Place

_Output: TypeAlias = "tuple[str, pa.RecordBatch]"
"""Rows, with the output they belong to."""

SEGMENTS: Final = "segments"
"""The name of the state that segments are in."""

_MILLISECOND: Final = MICROSECONDS["ms"]
"""Spark's clock counts in these."""

RELEASED_SPARK: Final = f"output string, body binary, {METRICS_SPARK}"
"""What a shard gives out: packed rows, with the output they belong to, and one row of metrics without a body."""

_RELEASED: Final = pa.schema({
    "output": pa.string(), "body": pa.binary(),
    "counts": pa.list_(pa.int64()), "seconds": pa.list_(pa.float64()), "why": pa.string(),
})  # fmt: skip
_NO_METRICS: Final = {"counts": None, "seconds": None, "why": None}


class ShardHost(StatefulProcessor):
    """Runs a shard as a stateful step of a stream.

    With a timeout Spark's time mode must be "ProcessingTime"; without one nothing here needs a clock.
    """

    STORED: ClassVar = (SEGMENTS, "number long", "segment binary")
    """The name and the types of the map that all state is in."""

    def __init__(self, plan: ShardPlan, timeout: Duration | None = None, memory: int = MOST_BY_DEFAULT) -> None:
        self._plan = plan
        self._timeout = timeout
        self._memory = memory
        self._codec = codec_of(plan)  # on the driver: operators are built to learn it, and every task would do so

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Say what is stored."""
        self.attach(handle, handle.getMapState(*self.STORED))

    def attach(self, handle: StatefulProcessorHandle, segments: MapState) -> None:
        """Take what Spark gives of the state."""
        self._handle, self._segments = handle, StoredSegments(segments)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Any],
        timerValues: TimerValues,  # noqa: N803 - Spark's name
    ) -> Iterator[Any]:
        """Take a micro-batch; yield what it releases, then store what is left."""
        metrics, arrivals = self._metrics(key), Arrivals()
        with metrics.timed("decode"):
            for frame in rows:
                for row in frame.itertuples(index=False):
                    arrivals.add(PackedRow(*row))
        metrics.rows_in = arrivals.rows
        now = None if self._timeout is None else timerValues.getCurrentProcessingTimeInMs() * _MILLISECOND
        yield from _in_frames(self._run_shard(key, metrics, lambda shard: shard.on_micro_batch(arrivals, now)))

    def handleExpiredTimer(  # noqa: N802 - Spark's name
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: ARG002, N803 - Spark's name
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803 - Spark's name
    ) -> Iterator[Any]:
        """Yield what is held back for silent sources, as of the instant that the timer was set to, then store the rest.

        That instant, and not the present: what a query slept through is no silence of its sources.
        """
        now = expiredTimerInfo.getExpiryTimeInMs() * _MILLISECOND
        yield from _in_frames(self._run_shard(key, self._metrics(key), lambda shard: shard.on_timer(now)))

    def _metrics(self, key: Any) -> Metrics:
        return Metrics(shard_keys(self._plan.shards).index(int(key[0])))

    def _run_shard(
        self, key: Any, metrics: Metrics, work: Callable[[Shard], Iterator[_Output]]
    ) -> Iterator[dict[str, Any]]:
        """Resume the shard and let it work; yield what that releases, then store what is left."""
        place = (_query_of_task(), repr(self._plan.described()), str(key[0]))
        self._segments.written_bytes = 0
        with metrics.timed("state"):
            store, shard = self._resumed(place)
        with closing(shard):
            with with_users_lines():
                yield from _given_out(shard, work(shard), metrics)
            with metrics.timed("state"):
                store.save(self._segments, shard.snapshot())
                keep_resident(place, store.leaves())
                self._set_timer(shard)
        metrics.state_bytes = self._segments.written_bytes
        yield {"output": METRICS, "body": None, **metrics.as_row()}

    def _set_timer(self, shard: Shard) -> None:
        """Let Spark wake the shard when it wants to look again, and at no other time."""
        if self._timeout is None:
            return
        for earlier in list(self._handle.listTimers()):
            self._handle.deleteTimer(earlier)
        if shard.look_again_at is not None:
            self._handle.registerTimer(-(-shard.look_again_at // _MILLISECOND))  # not before

    def close(self) -> None:
        """Nothing is open."""

    def _resumed(self, place: Place) -> tuple[SegmentStore, Shard]:
        head = Head.read(self._segments)
        if head is None:
            store, snapshot = SegmentStore(self._codec), None
        else:
            store, snapshot = SegmentStore.load(self._codec, self._segments, head, take_resident(place))
        spillway = store.spillway(self._segments, block_bytes(self._memory))
        return store, Shard(self._plan, snapshot, self._timeout, Spilling(spillway, self._memory))


def _in_frames(released: Iterable[dict[str, Any]]) -> Iterator[pd.DataFrame]:
    """Hand on what is released in frames of about a chunk, or of all there is if that is less.

    A frame costs Spark more than what is in it, where that is little.
    """
    waiting: list[dict[str, Any]] = []
    held = 0
    for row in released:
        waiting.append(row)
        held += len(row["body"] or b"")
        if held >= CHUNK_BYTES // 2:
            yield pd.DataFrame(waiting)
            waiting, held = [], 0
    if waiting:
        yield pd.DataFrame(waiting)


def _query_of_task() -> str:
    """The name that Spark gives to a query, in all its lives; nothing outside of tasks."""
    context = TaskContext.get()
    return str(None if context is None else context.getLocalProperty("sql.streaming.queryId"))


@dataclass(frozen=True)
class BatchHost:
    """Runs shards over a DataFrame that ends, to its end: one micro-batch, then the flush. For mapInArrow."""

    plan: ShardPlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take all rows; yield all that they give."""
        answer_at_once()
        arrived: dict[int, Arrivals] = {}
        for batch in batches:
            for packed in batch.to_pylist():
                row = PackedRow(**packed)
                arrived.setdefault(row.shard, Arrivals()).add(row)
        for arrivals in arrived.values():
            with closing(Shard(self.plan)) as shard, with_users_lines():
                for released in _given_out(shard, chain(shard.on_micro_batch(arrivals), shard.flush()), Metrics()):
                    yield pa.RecordBatch.from_pylist([released], schema=_RELEASED)


def _given_out(shard: Shard, outputs: Iterable[_Output], metrics: Metrics) -> Iterator[dict[str, Any]]:
    """Pack what comes out of a shard into chunks, as few as there can be, and measure it."""
    waiting: dict[str, list[pa.RecordBatch]] = defaultdict(list)
    rows_waiting: Counter[str] = Counter()
    bytes_waiting: Counter[str] = Counter()
    for output, rows in metrics.timing("operate", outputs):
        metrics.rows_out += rows.num_rows
        waiting[output].append(rows)
        rows_waiting[output] += rows.num_rows
        bytes_waiting[output] += rows.nbytes
        if rows_waiting[output] >= CHUNK_ROWS or bytes_waiting[output] >= CHUNK_BYTES:
            yield from _encoded(output, waiting.pop(output), metrics)
            del rows_waiting[output], bytes_waiting[output]
    for output, batches in waiting.items():
        yield from _encoded(output, batches, metrics)
    totals = shard.totals()
    metrics.rows_in_total, metrics.rows_out_total = totals.rows_in, totals.rows_out
    metrics.late_total, metrics.duplicates_total = shard.late(), shard.duplicates()
    metrics.late = metrics.late_total - shard.late_before
    metrics.duplicates = metrics.duplicates_total - shard.duplicates_before
    metrics.broken_bounds_total, metrics.why = shard.broken_bounds(), shard.why()
    metrics.late_by_estimate_total = shard.late_by_estimate()
    metrics.in_time_from = tuple(shard.in_time_from())
    metrics.held, metrics.runs, metrics.spilled = shard.buffered(), shard.runs(), shard.spilled()
    metrics.complete_before = totals.complete_before
    metrics.replicas, metrics.replicas_waiting, metrics.replicas_taken_over = shard.replicas()
    metrics.leave_out(shard.left_out())
    metrics.shared, metrics.only_some = shard.overlap()
    metrics.open_events, metrics.open_events_from = shard.open_events()


def _encoded(output: str, batches: Iterable[pa.RecordBatch], metrics: Metrics) -> Iterator[dict[str, Any]]:
    for chunk in in_chunks(batches):
        with metrics.timed("encode"):
            body = to_buffer(chunk).to_pybytes()
        yield {"output": output, "body": body, **_NO_METRICS}


def stored_segments(handle: StatefulProcessorHandle) -> StoredSegments:
    """The segments of a shard, as Spark keeps them."""
    return StoredSegments(handle.getMapState(*ShardHost.STORED))


@dataclass
class StoredSegments:
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
