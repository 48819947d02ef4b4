"""What is stored of a shard: it comes back at any time, and a micro-batch writes what changed and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import PlanError, RunError
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.schema import EventSchema
from slackwater.operators.aggregate.aggregate import AggregateOperator
from slackwater.operators.aggregate.banded import BandedAggregateOperator
from slackwater.operators.aggregate.early import EarlyAggregateOperator
from slackwater.operators.emission import LATE
from slackwater.operators.sort import SortOperator
from slackwater.operators.union import UnionOperator
from slackwater.plan.node import SideOutput, SourceNode
from slackwater.plan.nodes.ordering import Punctuate
from slackwater.plan.properties import Properties
from slackwater.policies.punctuations import Punctuations
from slackwater.runners.snapshot import Snapshot
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.planning.shard_plan import ShardPlan
from slackwater.runners.spark.shard.arrivals import Arrivals
from slackwater.runners.spark.shard.shard import Shard
from slackwater.runners.spark.shard.totals import Totals
from slackwater.runners.spark.source import SparkFeed
from slackwater.runners.spark.state import segment_cache as resident
from slackwater.runners.spark.state import segment_store
from slackwater.runners.spark.state.segment_store import Head, SegmentStore
from slackwater.runners.spark.state.state_codec import StateCodec
from slackwater.runners.spark.wire.chunks import CHUNK_BYTES
from slackwater.testing.cases import AGGREGATES, CASES, INTERVALS, POINTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from slackwater.operators.emission import Emission
    from slackwater.operators.operator import Operator

_SCHEMA = pa.schema({"at": pa.int64(), "word": pa.string()})
_CHUNK = 40_000


@dataclass
class _Segments:
    """Segments in memory, and how much was written since the last look."""

    stored: dict[int, bytes] = field(default_factory=dict)
    written: int = 0

    def read(self, number: int) -> bytes | None:
        """Return a segment."""
        return self.stored.get(number)

    def write(self, number: int, segment: bytes) -> None:
        """Keep a segment, and count its bytes."""
        self.stored[number] = segment
        self.written += len(segment)

    def remove(self, number: int) -> None:
        """Forget a segment, which must be there."""
        del self.stored[number]


def _plan(patience: int = 100_000) -> ShardPlan:
    feed = SparkFeed("frame", _SCHEMA, live=True)
    node = SourceNode("frame", feed, EventSchema.of(_SCHEMA, "at"), Properties(), Punctuations.none())
    ordered = sw.DisorderedStream(node).sort(patience=patience, every=sw.Every.batch())
    (punctuate,) = (step for step in ordered.node.inputs if isinstance(step, Punctuate))
    return ShardPlan({"main": ordered.node, LATE: SideOutput(punctuate, LATE)}, 1)


def _chunks(number: int) -> list[pa.RecordBatch]:
    """The chunks of a micro-batch; one row in a hundred is late by up to three micro-batches, so some too late."""
    random = np.random.default_rng(number)
    at = np.arange(number * _CHUNK, (number + 1) * _CHUNK)
    at -= random.integers(0, 3 * _CHUNK, _CHUNK) * (random.random(_CHUNK) < 0.01)
    rows = pa.record_batch([pa.array(at), pa.array([f"row {time}" for time in at])], schema=_SCHEMA)
    return [rows.slice(0, 30_000), rows.slice(30_000)]


def _take(shard: Shard, number: int) -> list[tuple[str, list[Any]]]:
    return _shown(shard.on_micro_batch(_arrivals(_chunks(number))))


def _arrivals(chunks: list[pa.RecordBatch]) -> Arrivals:
    (pack,) = packs_of(_plan())
    arrivals = Arrivals()
    for row in pack.packed(0, chunks):
        arrivals.add(row)
    return arrivals


_CODEC = StateCodec([Totals, *(one for case in CASES for one in case.operator.state_types)])
"""For the states of all operators."""


def _shown(released: Iterable[tuple[str, pa.RecordBatch]]) -> list[tuple[str, list[Any]]]:
    return [(output, rows.to_pylist()) for output, rows in released]


def test_a_shard_that_is_stored_and_read_after_each_micro_batch_gives_the_same() -> None:
    """Rows in order and late rows, up to the last."""
    whole, segments = Shard(_plan()), _Segments()
    SegmentStore(_CODEC).save(segments, whole.snapshot())
    late = 0
    for number in range(8):
        head = Head.read(segments)
        assert head is not None
        store, snapshot = SegmentStore.load(_CODEC, segments, head, {})
        shard = Shard(_plan(), snapshot)
        given = _take(shard, number)
        assert given == _take(whole, number)
        late += sum(len(rows) for output, rows in given if output == LATE)
        store.save(segments, shard.snapshot())
    assert late > 0
    assert _shown(shard.flush()) == _shown(whole.flush())


@pytest.mark.parametrize("resumed", [False, True], ids=["kept in memory", "read each time"])
def test_a_micro_batch_writes_as_much_however_much_is_held(*, resumed: bool) -> None:
    """What came and what was released decide how much; what was taken is forgotten."""
    (little, held_little), (much, held_much) = (_written_and_held(batches, resumed=resumed) for batches in (4, 16))
    assert held_much > 3 * held_little
    assert much < 1.2 * little


def _written_and_held(batches: int, *, resumed: bool) -> tuple[int, int]:
    """The bytes written by eight micro-batches when as many rows go as come, and the bytes stored then."""
    plan = _plan(patience=batches * _CHUNK)
    shard, store, segments = Shard(plan), SegmentStore(_CODEC), _Segments()
    for number in range(batches + 10):
        if resumed and (head := Head.read(segments)) is not None:
            store, snapshot = SegmentStore.load(_CODEC, segments, head, {})
            shard = Shard(plan, snapshot)
        if number == batches + 2:
            segments.written = 0
        _take(shard, number)
        store.save(segments, shard.snapshot())
    return segments.written, sum(map(len, segments.stored.values()))


def test_what_is_stored_is_forgotten_at_the_end() -> None:
    """Only the head is left of a shard that holds nothing."""
    shard, store, segments = Shard(_plan()), SegmentStore(_CODEC), _Segments()
    _take(shard, 0)
    store.save(segments, shard.snapshot())
    assert len(segments.stored) > 1
    _shown(shard.flush())
    store.save(segments, shard.snapshot())
    assert len(segments.stored) == 1


def test_a_missing_or_damaged_segment_is_refused() -> None:
    """With its number, and before anything is made of it."""
    shard, store, segments = Shard(_plan()), SegmentStore(_CODEC), _Segments()
    _take(shard, 0)
    store.save(segments, shard.snapshot())
    head = Head.read(segments)
    assert head is not None
    last = max(segments.stored)
    sound = segments.stored[last]
    segments.stored[last] = sound[:-9]
    with pytest.raises(RunError, match=rf"(?s)truncated or damaged.*segment +{last}"):
        SegmentStore.load(_CODEC, segments, head, {})
    del segments.stored[last]
    with pytest.raises(RunError, match=rf"(?s)lacks a segment.*{last}"):
        SegmentStore.load(_CODEC, segments, head, {})


def test_state_of_another_plan_is_refused() -> None:
    """And the message says what differs."""
    snapshot = Shard(_plan(patience=5)).snapshot()
    with pytest.raises(PlanError, match=r"(?s)different plan.*patience=5 .*patience=6 "):
        Shard(_plan(patience=6), snapshot)


def _loaded(segments: _Segments) -> tuple[SegmentStore, Snapshot]:
    head = Head.read(segments)
    assert head is not None
    return SegmentStore.load(_CODEC, segments, head, {})


_HOLDERS: dict[str, Callable[[Any], Operator[Any]]] = {
    "union": lambda state: UnionOperator(2, INTERVALS.no_rows, resume=state),
    "sort": lambda state: SortOperator(INTERVALS, resume=state),
    "aggregate": lambda state: AggregateOperator(INTERVALS, ("k",), AGGREGATES, ordered=False, resume=state),
    "aggregate_early": lambda state: EarlyAggregateOperator(INTERVALS, ("k",), AGGREGATES, resume=state),
    "in_bands": lambda state: BandedAggregateOperator(INTERVALS, ("k",), AGGREGATES, 2, resume=state),
}


@pytest.mark.parametrize("resumed", [False, True], ids=["kept in memory", "read each time"])
@pytest.mark.parametrize("holder", _HOLDERS)
def test_what_an_operator_holds_is_not_written_again(holder: str, *, resumed: bool) -> None:
    """A few rows more cost a few bytes more, however many wait."""
    build, store, segments = _HOLDERS[holder], SegmentStore(_CODEC), _Segments()
    operator, first = build(None), 0
    for rows in (20_000, 100, 100, 100):
        start = np.arange(first, first + rows)
        payload = pa.record_batch([pa.array(["a", "b"] * (rows // 2)), pa.array(start)], schema=INTERVALS.payload)
        operator.on_batch(0, EventBatch.inserts(payload, start, start + 10))
        first, segments.written = first + rows, 0
        store.save(segments, Snapshot({"step": operator.snapshot()}, {}))
        assert rows > 100 or segments.written < sum(map(len, segments.stored.values())) / 10
        if resumed:
            store, snapshot = _loaded(segments)
            operator = build(snapshot["step"])


def test_columns_that_several_steps_hold_are_stored_once_and_as_long_as_one_holds_them() -> None:
    """As when a stream is joined with itself."""
    column, store, segments = np.arange(1_000), SegmentStore(_CODEC), _Segments()
    store.save(segments, Snapshot({"left": (column,), "right": (column,)}, {}))
    assert len(segments.stored) == 2
    store, snapshot = _loaded(segments)
    assert snapshot["left"][0] is snapshot["right"][0]
    store.save(segments, Snapshot({"left": snapshot["left"], "right": ()}, {}))
    store, snapshot = _loaded(segments)
    assert snapshot["left"][0].tolist() == column.tolist()
    store.save(segments, Snapshot({"left": (), "right": ()}, {}))
    assert len(segments.stored) == 1


def test_columns_in_memory_are_not_read_again() -> None:
    """Even if others have worked on the shard since: what they stored is read, and no more."""
    shard, store, segments = Shard(_plan()), SegmentStore(_CODEC), _Segments()
    for number in (0, 1):
        _take(shard, number)
        store.save(segments, shard.snapshot())
    known = store.leaves()
    _take(shard, 2)
    store.save(segments, shard.snapshot())
    head = Head.read(segments)
    assert head is not None
    for number in {number for numbers in known for number in numbers} & segments.stored.keys():
        segments.stored[number] = b"nobody reads this"
    again, snapshot = SegmentStore.load(_CODEC, segments, head, known)
    assert len(again.leaves().keys() & known.keys()) > 1
    assert len(again.leaves().keys() - known.keys()) > 1
    assert _take(Shard(_plan(), snapshot), 3) == _take(shard, 3)


def test_the_number_of_a_segment_says_what_is_in_it() -> None:
    """Equal columns have one segment, as long as one of them is held; of another type, or in other words, another."""
    store, segments = SegmentStore(_CODEC), _Segments()
    states = {"left": (np.arange(1_000),), "right": (np.arange(1_000),)}
    store.save(segments, Snapshot(states, {}))
    assert len(segments.stored) == 2
    assert segments.written == sum(map(len, segments.stored.values())), "it is written once"
    (number,) = segments.stored.keys() - {0}
    store.save(segments, Snapshot({"left": (), "right": states["right"]}, {}))
    assert number in segments.stored
    store.save(segments, Snapshot({"left": (np.arange(1_000),), "right": ()}, {}))
    assert number in segments.stored, "what goes and comes again in one micro-batch stays"
    store.save(segments, Snapshot({"left": (np.arange(1_000).view(np.uint64),), "right": ()}, {}))
    assert number not in segments.stored
    store, snapshot = _loaded(segments)
    assert snapshot["left"][0].dtype == np.uint64


def test_no_segment_takes_the_place_of_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the digest of its bytes: here the least there is, which is also the one of all others."""
    monkeypatch.setattr(segment_store, "_NUMBER_BITS", 0)
    store, segments = SegmentStore(_CODEC), _Segments()
    store.save(segments, Snapshot({"step": (np.arange(1_000),)}, {}))
    assert set(segments.stored) == {0, 1}
    _, snapshot = _loaded(segments)
    assert snapshot["step"][0].tolist() == list(range(1_000))


def test_no_segment_is_much_larger_than_a_chunk() -> None:
    """Wide rows and long columns are stored in parts, and come back whole; of those that grow, the rest is written."""
    store, segments = SegmentStore(_CODEC), _Segments()
    wide = pa.record_batch({"text": ["x" * 100_000] * 100})
    long = np.arange(1_500_000).reshape(-1, 2)
    store.save(segments, Snapshot({"step": (wide, long)}, {}))
    assert len(segments.stored) > 1 + 2 + 2
    assert max(map(len, segments.stored.values())) < CHUNK_BYTES + 101_000
    store, snapshot = _loaded(segments)
    assert snapshot["step"][0].equals(wide)
    assert (snapshot["step"][1] == long).all()
    segments.written = 0
    store.save(segments, Snapshot({"step": (snapshot["step"][0], np.concatenate([long, long[:2]]))}, {}))
    assert segments.written < CHUNK_BYTES
    assert _loaded(segments)[1]["step"][1].shape == (750_002, 2)
    store.save(segments, Snapshot({}, {}))
    assert len(segments.stored) == 1


def test_small_segments_of_wide_rows_are_not_put_together() -> None:
    """What a sort holds, and stores as it holds it, is no larger than what came."""
    operator = SortOperator(EventSchema.of(_SCHEMA, "at"))
    rows = pa.record_batch({"word": ["x" * 10_000] * 300})
    for first in range(0, 3_000, 300):
        operator.on_batch(0, EventBatch.inserts(rows, np.arange(first, first + 300)))
    held = operator.snapshot().rows.segments
    assert len(held) == 10
    assert max(rows.nbytes for _, rows, _ in held) < CHUNK_BYTES


# ---- spilled ---------------------------------------------------------------------------------------------------------


def _spilled(store: SegmentStore, segments: _Segments, *starts: int) -> SortOperator:
    """A sort all of whose rows are spilled; a spillway takes them, block by block."""
    operator, first = SortOperator(POINTS), 0
    for start in starts:
        times = np.arange(start, start + 1_000)
        payload = pa.record_batch([pa.array(["a", "b"] * 500), pa.array(times)], schema=POINTS.payload)
        operator.on_batch(0, EventBatch.inserts(payload, times))
        operator.spill(store.spillway(segments, 10_000), 0)
        first += 1_000
    return operator


def _numbers_out(operator: SortOperator) -> list[int]:
    emission: Emission | None = operator.on_end(0)
    found: list[int] = []
    while emission is not None:
        found += [value for batch in emission.batches if batch.rows for value in batch.start.tolist()]
        emission = operator.send_more()
    return found


def test_what_is_spilled_is_written_at_once_and_read_when_it_is_due() -> None:
    """Equal rows are written once; a state is read without them; when none waits any more nothing is stored."""
    store, segments = SegmentStore(_CODEC), _Segments()
    operator = _spilled(store, segments, 0, 500, 500)
    assert operator.spilled() == 3_000
    written, blocks = segments.written, len(segments.stored)
    assert 4 < blocks < 30
    store.save(segments, Snapshot({"step": operator.snapshot()}, {}))
    assert segments.written - written < 10_000, "the head alone"
    assert len(segments.stored) == blocks + 1
    sound = dict(segments.stored)
    segments.stored.update({number: b"nobody reads this" for number in sound if number})
    store, snapshot = _loaded(segments)
    assert list(store.leaves()) == []
    segments.stored.update(sound)
    again = SortOperator(POINTS, resume=snapshot["step"])
    assert _numbers_out(again) == sorted([*range(1_000), *range(500, 1_500), *range(500, 1_500)])
    store.save(segments, Snapshot({"step": again.snapshot()}, {}))
    assert len(segments.stored) == 1


def test_a_block_that_is_open_stays_in_memory_and_in_the_store() -> None:
    """It is neither read nor written again, as long as it waits."""
    store, segments = SegmentStore(_CODEC), _Segments()
    operator = _spilled(store, segments, 0)
    operator.on_batch(0, punctuation_like(POINTS.no_rows, 10))
    store.save(segments, Snapshot({"step": operator.snapshot()}, {}))
    known = store.leaves()
    assert [type(leaf) for leaf in known.values()] == [pa.RecordBatch]
    ((number,),) = known
    sound, segments.stored[number] = segments.stored[number], b"nobody reads this"
    head, segments.written = Head.read(segments), 0
    assert head is not None
    store, snapshot = SegmentStore.load(_CODEC, segments, head, known)
    operator = SortOperator(POINTS, resume=snapshot["step"])
    (rows, _) = operator.on_batch(0, punctuation_like(POINTS.no_rows, 20)).batches
    assert rows.start.tolist() == list(range(10, 20))
    store.save(segments, Snapshot({"step": operator.snapshot()}, {}))
    assert segments.written < 10_000, "the head alone"
    segments.stored[number] = sound
    _, snapshot = _loaded(segments)
    assert _numbers_out(SortOperator(POINTS, resume=snapshot["step"])) == list(range(20, 1_000))


def test_what_was_spilled_elsewhere_comes_along_when_it_is_stored() -> None:
    """As when shards become others: nothing names what is not there."""
    one, other = _Segments(), _Segments()
    operator = _spilled(SegmentStore(_CODEC), one, 0, 300)
    SegmentStore(_CODEC).save(other, Snapshot({"step": operator.snapshot()}, {}))
    one.stored.clear()
    _, snapshot = _loaded(other)
    assert _numbers_out(SortOperator(POINTS, resume=snapshot["step"])) == sorted([*range(1_000), *range(300, 1_300)])


def test_spilled_rows_that_are_lost_are_named_when_they_are_due() -> None:
    """With the number of their segment."""
    store, segments = SegmentStore(_CODEC), _Segments()
    operator = _spilled(store, segments, 0)
    store.save(segments, Snapshot({"step": operator.snapshot()}, {}))
    _, snapshot = _loaded(segments)
    number = max(segments.stored)
    del segments.stored[number]
    with pytest.raises(RunError, match=rf"(?s)lacks a segment.*{number}"):
        _numbers_out(SortOperator(POINTS, resume=snapshot["step"]))


# ---- done twice ------------------------------------------------------------------------------------------------------


class _Executor:
    """What one executor has of a shard: its segments, and, in a worker, columns in memory."""

    def __init__(self, stored: dict[int, bytes]) -> None:
        self.segments = _Segments(dict(stored))
        self._known: dict[tuple[int, ...], Any] = {}

    def work(self, number: int) -> tuple[list[tuple[str, list[Any]]], dict[int, bytes | None]]:
        """Do a micro-batch; return what it gives, and what changed in the state, which is what Spark stores."""
        before = dict(self.segments.stored)
        head = Head.read(self.segments)
        store, shard = SegmentStore(_CODEC), Shard(_plan())
        if head is not None:
            store, snapshot = SegmentStore.load(_CODEC, self.segments, head, self._known)
            shard = Shard(_plan(), snapshot)
        given = _take(shard, number)
        store.save(self.segments, shard.snapshot())
        self._known = store.leaves()
        after = self.segments.stored
        return given, {key: after.get(key) for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def _replayed(changes: list[dict[int, bytes | None]]) -> dict[int, bytes]:
    stored: dict[int, bytes] = {}
    for change in changes:
        stored |= {key: value for key, value in change.items() if value is not None}
        for key in (key for key, value in change.items() if value is None):
            del stored[key]
    return stored


def test_a_task_that_is_done_twice_stores_the_same_bytes() -> None:
    """By an executor that has the columns in memory, and by another one that reads them."""
    one = _Executor({})
    logged: list[dict[int, bytes | None]] = []
    for number in range(6):
        given, changed = one.work(number)
        assert _Executor(_replayed(logged)).work(number) == (given, changed)
        logged.append(changed)
    assert len(one.segments.stored) > 3, "an example without columns shows little"


def test_one_executor_goes_on_where_another_one_has_stored() -> None:
    """As after a task that was tried again elsewhere, where the other executor is lost: Spark mixes what they stored.

    The first goes on from what it has; a restart reads what the second stored, and then what the first did.
    """
    one, expected = _Executor({}), _Executor({})
    logged: list[dict[int, bytes | None]] = []
    logged.append(one.work(0)[1])
    one.work(1)
    logged.append(_Executor(_replayed(logged)).work(1)[1])  # stored in place of what the first attempt had stored
    logged.append(one.work(2)[1])
    for number in range(3):
        expected.work(number)
    again = _Executor(_replayed(logged))
    for number in range(3, 6):
        assert again.work(number)[0] == expected.work(number)[0]


def test_a_process_keeps_the_columns_of_the_shards_that_it_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much as the limit allows, and in any case the last; they are handed over once."""
    monkeypatch.setattr(resident, "_resident", {})
    monkeypatch.setattr(resident, "_MOST_BYTES", 2 * 800)
    column = np.arange(100)
    for number in range(3):
        resident.keep_resident(("query", str(number)), {(number,): column})
    assert resident.take_resident(("query", "0")) == {}
    assert resident.take_resident(("query", "1")) == {(1,): column}
    assert resident.take_resident(("query", "1")) == {}
    resident.keep_resident(("query", "3"), {(3,): np.arange(1_000)})
    assert list(resident._resident) == [("query", "3")]
