"""Shards, without Spark around them: however many there are, together they give what one process gives."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from effort import FEWER
from hypothesis import given
from hypothesis import strategies as st
from without_spark import Segments, cut, in_process, in_shards, packed_by_tasks, shard_plan

import slackwater as sw
from slackwater.errors import PlanError, RunError
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.shard.arrivals import Arrivals
from slackwater.runners.spark.shard.shard import Shard
from slackwater.runners.spark.shard.shard_state import codec_of
from slackwater.runners.spark.state import state_codec
from slackwater.runners.spark.state.segment_store import Head, SegmentStore
from slackwater.runners.spark.wire.packed_rows import FLUSH, PackedRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from slackwater.runners.spark.planning.shard_plan import ShardPlan

_SCHEMA = pa.schema({"at": pa.int64(), "k": pa.string(), "x": pa.float64(), "n": pa.int64()})
_BATCH = sw.Every.batch()
_PATIENT = 16
"""No row is late for this: replicas of which one has lost rows contradict each other."""

_Streams = list[sw.DisorderedStream]


def _sorted(stream: sw.DisorderedStream, patience: int = 6) -> sw.OrderedStream:
    return stream.sort(patience=patience, every=_BATCH)


def _doubled(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"k": rows["k"], "twice": pa.array([2 * n for n in rows["n"].to_pylist()], pa.int64())})


_SUMS: dict[str, Any] = {
    "n": sw.count("x"),
    "m": sw.sum("m"),
    "x": sw.sum("x"),
    "mean": sw.mean("x"),
    "least": sw.min("n"),
    "different": sw.count_distinct("x"),
    "top": sw.top_k("n", 2),
}

_SUMS_OF_ROWS: dict[str, Any] = {name: what if name != "m" else sw.sum("n") for name, what in _SUMS.items()}

PLANS: dict[str, Callable[[_Streams], Sequence[Any]]] = {
    "sort": lambda s: [_sorted(s[0])],
    "where, select and sort": lambda s: [_sorted(s[0].where(nw.col("n") % 3 > 0).select("k", m=nw.col("n") + 1))],
    "sort, then where": lambda s: [_sorted(s[0]).where(nw.col("n") % 2 == 0)],
    "a function over rows": lambda s: [_sorted(s[0].map_batches(_doubled))],
    "counts of windows": lambda s: [_sorted(s[0]).tumbling(5).group_by().aggregate(n=sw.count())],
    "counts of windows and keys": lambda s: [
        _sorted(s[0]).tumbling(5).group_by("k").aggregate(n=sw.count(), m=sw.max("n"), top=sw.top_k("x", 2))
    ],
    "hopping windows": lambda s: [_sorted(s[0]).hopping(8, 4).group_by("k").aggregate(n=sw.sum("n"))],
    "sliding windows": lambda s: [_sorted(s[0]).sliding(4).group_by("k").aggregate(n=sw.count())],
    "counts of fewer keys": lambda s: [
        _sorted(s[0])
        .tumbling(4)
        .group_by("k", "n")
        .aggregate(c=sw.count())
        .tumbling(8)
        .group_by("k")
        .aggregate(n=sw.sum("c"))
    ],
    "union": lambda s: [sw.union(_sorted(s[0]), _sorted(s[1], 3)).tumbling(5).group_by("k").aggregate(n=sw.count())],
    "join": lambda s: [_sorted(s[0]).select("k", "n").join(_sorted(s[1]).select("k", other="n"), on="k", within=3)],
    "followed_by": lambda s: [
        _sorted(s[0]).select("k", "n").followed_by(_sorted(s[1]).select("k", other="n"), on="k", within=4)
    ],
    "each event once": lambda s: [s[0].deduplicate("k", within=4, patience=6, every=_BATCH)],
    "the last row of each event": lambda s: [
        s[0].deduplicate(["x", "k"], within=3, keep="last", patience=6, every=_BATCH).select("k", "n")
    ],
    "counts of events of two sources, each once": lambda s: [
        sw.union(_sorted(s[0]), _sorted(s[1], 3))
        .deduplicate(["k", "n"], within=8)
        .tumbling(5)
        .group_by("k")
        .aggregate(n=sw.count())
    ],
    "values of keys": lambda s: [sw.upserts(s[0], key="k", patience=6, every=_BATCH).settle()],
    "values of keys that are deleted, of two sources": lambda s: [
        sw.upserts(
            sw.union(*(_sorted(one, 9).select("k", "x", "n", gone=nw.col("n") > 1) for one in s)),
            key=["k", "x"],
            deleted="gone",
        )
        .where(nw.col("n") != 0)
        .settle()
        .select("k", "n", "until")
    ],
    "bands of counts": lambda s: list(s[0].tumbling(5).group_by("k").in_bands(2, 6, 12, every=_BATCH, n=sw.count())),
    "bands of sums, late rows dropped": lambda s: list(
        s[0]
        .tumbling(5, offset=2)
        .select("k", "x", "n", m=nw.col("n") * 2)
        .group_by("k")
        .in_bands(2, 6, every=_BATCH, late=sw.Late.drop(), **_SUMS)
    ),
    "bands of sums, late rows seen": lambda s: list(
        s[0]
        .tumbling(5, offset=2)
        .select("k", "x", "n", m=nw.col("n") * 2)
        .group_by("k", "x")
        .in_bands(2, 6, every=_BATCH, count=sw.count(), most=sw.max("m"), top=sw.top_k("n", 2))
    ),
    "bands of sums, late rows moved": lambda s: list(
        s[0].tumbling(5).group_by("k").in_bands(2, 6, every=_BATCH, late=sw.Late.adjust(), **_SUMS_OF_ROWS)
    ),
    "one count of all, late rows seen": lambda s: list(s[0].tumbling(7).in_bands(3, 8, every=_BATCH, n=sw.count())),
    "bands of a key that is computed": lambda s: list(
        s[0].tumbling(5).select(k=nw.col("n") * 2).group_by("k").in_bands(2, 6, every=_BATCH, n=sw.count())
    ),
    "one count of all, late rows dropped": lambda s: list(
        s[0].tumbling(7).in_bands(3, every=_BATCH, late=sw.Late.drop(), n=sw.count())
    ),
    "bands of events": lambda s: list(s[0].in_bands(2, 6, every=_BATCH)),
    "replicas": lambda s: [sw.merge_replicas(_sorted(s[0], _PATIENT), _sorted(s[1], _PATIENT))],
    "replicas of counts": lambda s: [
        sw.merge_replicas(*(_sorted(one, _PATIENT).tumbling(5).group_by("k").aggregate(n=sw.count()) for one in s))
    ],
}


def _rows(rng: Random, rows: int) -> pa.Table:
    """Times that go back and tie, keys that are missing, zeros of both signs and NaNs."""
    at, made = 0, []
    for _ in range(rows):
        at += rng.choice([0, 0, 1, 2])
        time = max(0, at - rng.choice([0, 0, 0, 3, 9, 15]))
        k, x = rng.choice(["a", "b", "c", "", None]), rng.choice([0.0, -0.0, 1.5, float("nan"), None])
        made.append({"at": time, "k": k, "x": x, "n": rng.randint(-3, 3)})
    return pa.Table.from_pylist(made, _SCHEMA)


def _shard_plan(make: Callable[[_Streams], Sequence[Any]], sources: int, shards: int) -> ShardPlan:
    plan: ShardPlan = shard_plan(make, [_SCHEMA] * sources, shards)
    return plan


def _so_far(rounds: Iterable[dict[str, list[Any]]]) -> Iterator[Counter[str]]:
    """All rows that have come out after each round, with their outputs."""
    given: Counter[str] = Counter()
    for outputs in rounds:
        given.update(f"{output}: {row}" for output, rows in outputs.items() for row in rows)
        yield Counter(given)


@pytest.mark.parametrize("name", PLANS)
@FEWER
@given(seed=st.integers(0, 10**6), shards=st.sampled_from([1, 3, 8]), cuts=st.integers(1, 5), store=st.booleans())
def test_shards_together_give_what_one_process_gives(name: str, seed: int, shards: int, cuts: int, store: bool) -> None:
    """After every micro-batch, and after the last flush, the same rows and late rows, whatever goes to which shard.

    Where rows wait for those of other keys that began before them, they come earlier in a shard that has not all keys.
    """
    rng = Random(seed)
    sources = 2
    plan = _shard_plan(PLANS[name], sources, shards)
    read = len(plan.pipelines)
    tables = [_rows(rng, rng.randint(0, 60)) for _ in range(sources)]
    if "replicas" in name:
        tables = [tables[0]] * sources
    turns = [cut(table, rng, cuts) for table in tables]
    expected = _so_far(in_process(PLANS[name], turns))
    got = _so_far(in_shards(plan, turns[:read], Random(seed), store=store))
    for turn, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
        assert ours >= theirs
        assert ours == theirs or (turn < cuts and (name == "sliding windows" or "values" in name))


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("sort", None),
        ("where, select and sort", None),
        ("counts of windows", None),
        ("counts of windows and keys", [("k",)]),
        ("counts of fewer keys", [("k",)]),
        ("union", [("k",), ("k",)]),
        ("join", [("k",), ("k",)]),
        ("followed_by", [("k",), ("k",)]),
        ("each event once", [("k",)]),
        ("the last row of each event", [("x", "k")]),
        ("counts of events of two sources, each once", [("k",), ("k",)]),
        ("values of keys", [("k",)]),
        ("bands of counts", [("k",)]),
        ("bands of sums, late rows dropped", [("k",)]),
        ("bands of events", None),
        ("replicas", [("at", "k", "x", "n")] * 2),
        ("replicas of counts", [("k",), ("k",)]),
    ],
)
def test_columns_that_all_steps_have_for_keys_decide_the_shard(name: str, columns: list[Any] | None) -> None:
    """Where there are none, one shard takes all."""
    plan = _shard_plan(PLANS[name], 2, 8)
    assert (None if plan.columns is None else list(plan.columns.values())) == columns
    assert plan.shards == (1 if columns is None else 8)


@given(seed=st.integers(0, 10**6), shards=st.sampled_from([1, 3]), cuts=st.integers(1, 5))
def test_groups_count_as_the_events_they_stand_for(seed: int, shards: int, cuts: int) -> None:
    """Where they come in and where they are late, though no shard sees an event."""
    plan, rng = _shard_plan(PLANS["bands of sums, late rows dropped"], 1, shards), Random(seed)
    turns = cut(_rows(rng, rng.randint(0, 60)), rng, cuts)
    made = {key: Shard(plan) for key in shard_keys(plan.shards)}
    came = 0
    for turn in turns:
        arrivals = {key: Arrivals() for key in made}
        for row in packed_by_tasks(plan, [turn], rng):
            arrivals[row.shard].add(row)
        for key, shard in made.items():
            list(shard.on_micro_batch(arrivals[key]))
        came += sum(one.rows for one in arrivals.values())
    assert came == sum(turn.num_rows for turn in turns)
    source = sw.PushSource(_SCHEMA)
    late = 0
    with sw.Query(
        [(one, len) for one in PLANS["bands of sums, late rows dropped"]([sw.stream(source, time="at")])]
    ) as q:
        for turn in turns:
            if turn.num_rows:
                source.push(turn.combine_chunks())
            q.work()
        late = sum(step.late for step in q.counters().values())
    assert sum(shard.late() for shard in made.values()) == late


def test_rows_are_spread_over_all_shards() -> None:
    """Evenly, as far as their keys are."""
    plan = _shard_plan(PLANS["counts of windows and keys"], 1, 8)
    (pack,) = packs_of(plan)
    table = pa.table({"at": [0] * 8_000, "k": [str(n) for n in range(8_000)], "x": [0.0] * 8_000, "n": [0] * 8_000})
    rows: Counter[int] = Counter()
    for one in pack.packed(0, table.cast(_SCHEMA).to_batches()):
        rows[one.shard] += one.rows if one.body else 0
    assert sorted(rows) == sorted(shard_keys(8))
    assert min(rows.values()) > 800


def test_what_a_plan_is_can_be_written_down() -> None:
    """It says how many shards there are: with another number the rows of a key would look for their state in vain."""
    described = _shard_plan(PLANS["counts of windows and keys"], 1, 3).described()
    assert described["shards"] == "3, reads k of punctuate#1"
    assert json.loads(json.dumps(described)) == described


@pytest.mark.parametrize("name", PLANS)
def test_a_micro_batch_that_is_done_twice_is_stored_as_the_same_bytes(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a shard that stayed in memory, and by one that was read: Spark may mix what two attempts have stored."""
    monkeypatch.setattr(state_codec, "_SMALL", 1)  # so that few rows are columns of their own
    plan, rng = _shard_plan(PLANS[name], 2, 2), Random(5)
    tables = [_rows(rng, 120)] * 2 if "replicas" in name else [_rows(rng, 120) for _ in range(2)]
    turns = zip(*(cut(table, rng, 6) for table in tables[: len(plan.pipelines)]), strict=True)
    codec = codec_of(plan)
    kept = {key: (SegmentStore(codec), Shard(plan), Segments()) for key in shard_keys(plan.shards)}
    most = 0
    for turn in turns:
        packed = packed_by_tasks(plan, turn, rng)
        for key, (store, shard, segments) in kept.items():
            other = Segments(segments)
            head = Head.read(other)
            store_read, snapshot = (
                (SegmentStore(codec), None) if head is None else SegmentStore.load(codec, other, head, {})
            )
            for one, by, into in ((shard, store, segments), (Shard(plan, snapshot), store_read, other)):
                arrivals = Arrivals()
                for row in rng.sample(packed, len(packed)):
                    if row.shard == key:
                        arrivals.add(row)
                list(one.on_micro_batch(arrivals))
                by.save(into, one.snapshot())
            assert segments == other
            most = max(most, len(segments))
    assert most > 1, "an example without columns shows little"


# ---- flushed ---------------------------------------------------------------------------------------------------------


def _flush(key: int) -> PackedRow:
    return PackedRow(key, -1, 0, FLUSH, 0, 0, None)


@pytest.mark.parametrize("name", PLANS)
def test_a_flush_gives_out_what_the_end_gives_and_is_the_last_that_is_taken(name: str) -> None:
    """From memory or from what was stored, at once with the last rows or after them; later rows are refused."""
    plan, rng = _shard_plan(PLANS[name], 2, 2), Random(11)
    tables = [_rows(rng, 90)] * 2 if "replicas" in name else [_rows(rng, 90) for _ in range(2)]
    packed = packed_by_tasks(plan, tables[: len(plan.pipelines)], rng)
    for key in shard_keys(plan.shards):
        expected, at_once, after = Shard(plan), Shard(plan), Shard(plan)
        ended = _shown([*expected.on_micro_batch(_arrivals(packed, key)), *expected.flush()])
        assert _shown(at_once.on_micro_batch(_arrivals([*packed, _flush(key)], key))) == ended
        given = _shown(after.on_micro_batch(_arrivals(packed, key)))
        stored = Segments()
        after = Shard(plan, stored.stored(after))
        given += _shown(after.on_micro_batch(_arrivals([_flush(key)], key)))
        assert given == ended
        assert after.buffered() == 0
        totals = after.totals()
        assert totals.ended
        assert totals.rows_in == sum(row.rows for row in packed if row.shard == key and row.number >= 0)
        assert totals.rows_out == len(given)
        over = Shard(plan, stored.stored(after))
        assert over.totals() == totals
        assert not list(over.on_micro_batch(_arrivals([_flush(key)], key))), "a flush that comes again gives nothing"
        if totals.rows_in:
            with pytest.raises(RunError, match=r"(?s)rows came after a query was flushed.*another checkpoint"):
                list(over.on_micro_batch(_arrivals(packed, key)))


def _shown(released: Iterable[tuple[str, pa.RecordBatch]]) -> list[str]:
    return [f"{output}: {row}" for output, rows in released for row in rows.to_pylist()]


def _arrivals(packed: Iterable[PackedRow], key: int) -> Arrivals:
    arrivals = Arrivals()
    for row in packed:
        if row.shard == key:
            arrivals.add(row)
    return arrivals


@pytest.mark.parametrize("before", [lambda s: s, lambda s: s.where(nw.col("n") > 0)], ids=["source", "where"])
def test_an_output_before_the_shards_is_refused_beside_one_that_waits(
    before: Callable[[sw.DisorderedStream], sw.DisorderedStream],
) -> None:
    """No shard would give it any rows, though the same rows go on to the sort."""

    def planned(streams: _Streams) -> Sequence[Any]:
        shared = before(streams[0])
        return [_sorted(shared), shared]

    with pytest.raises(PlanError, match="on Spark a source needs a patience before this step"):
        shard_plan(planned, [_SCHEMA], 1)
