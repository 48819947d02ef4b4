"""Aggregates behind a sort get sums that were made where rows are read: what comes out is the same as without."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from effort import FEWER
from hypothesis import given
from hypothesis import strategies as st
from summing_up import KNOWN, SCHEMA, SUMS, arrivals_of, packed_with, rows_of, run_shards
from without_spark import all_outputs, cut, in_process, shard_plan

import slackwater as sw
from slackwater.errors import LateEvent, RunError
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.planning.plan_lines import plan_lines
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.planning.shard_plan import ShardPlan
from slackwater.runners.spark.shard.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Callable

_PATIENCE = 8


def _sorted(stream: Any, late: sw.Late) -> Any:
    return stream.sort(_PATIENCE, every=sw.Every.batch(), late=late)


def _summed(windows: Any, *keys: str) -> Any:
    return windows.group_by(*keys).aggregate(**SUMS)


def _doubled(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"k": rows["k"], "v": pc.multiply(rows["v"], 2), "x": rows["x"]})


_PLANS: dict[str, Callable[[Any, sw.Late], Any]] = {
    "rows in time": lambda s, late: _summed(_sorted(s, late).tumbling(5, offset=2), "k"),
    "windows in time": lambda s, late: _summed(_sorted(s.tumbling(5, offset=2), late), "k"),
    "no keys": lambda s, late: _summed(_sorted(s, late).tumbling(5)),
    "windows without keys": lambda s, late: _summed(_sorted(s.tumbling(5), late)),
    "panes": lambda s, late: _summed(_sorted(s, late).hopping(12, 4, offset=1)),
    "windows that overlap, without panes": lambda s, late: _summed(_sorted(s, late).hopping(37, 32)),
    "windows with gaps": lambda s, late: _summed(_sorted(s, late).hopping(3, 5)),
    "steps before and behind": lambda s, late: _summed(
        _sorted(s.where(nw.col("v") < 3).map_batches(_doubled), late).where(nw.col("v") > -3).tumbling(5), "k"
    ),
    "a filter behind the window": lambda s, late: _summed(
        _sorted(s.tumbling(5), late).where(nw.col("v") > -3).select("k", "v", x=nw.col("x") * 3), "k"
    ),
    "a key by another name": lambda s, late: _summed(
        _sorted(s, late).tumbling(5).select("v", "x", who="k", odd=nw.col("v") % 2), "odd", "who"
    ),
    "windows of windows": lambda s, late: (
        _summed(_sorted(s, late).tumbling(5), "k")
        .tumbling(10)
        .group_by("k")
        .aggregate(n=sw.sum("n"), m=sw.max("least"))
    ),
}
_FATES = {"seen": sw.Late.divert(), "moved": sw.Late.adjust(), "dropped": sw.Late.drop()}


def _plan(name: str, fate: str, shards: int) -> ShardPlan:
    return shard_plan(lambda streams: [_PLANS[name](streams[0], _FATES[fate])], [SCHEMA], shards)


def _of_rows(plan: ShardPlan) -> ShardPlan:
    """The same plan, in which nothing is summed up before the shuffle."""
    plan.__dict__["pipelines"] = tuple(replace(one, sums=None) for one in plan.pipelines)
    return plan


def _turns(seed: int, cuts: int) -> tuple[Random, list[pa.Table]]:
    rng = Random(seed)
    return rng, cut(rows_of(rng, rng.randint(0, 70)), rng, cuts)


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("fate", _FATES)
@FEWER
@given(
    name=st.sampled_from(list(_PLANS)),
    seed=st.integers(0, 10**6),
    shards=st.sampled_from([1, 3, 8]),
    cuts=st.integers(1, 5),
)
def test_what_comes_out_is_what_rows_give(known: str, fate: str, name: str, seed: int, shards: int, cuts: int) -> None:
    """The same answers in the same order, late rows, counters, totals and reasons, whatever tasks know."""
    rng, turns = _turns(seed, cuts)
    plan = _plan(name, fate, shards)
    assert plan.pipelines[0].sums is not None
    summed_up = run_shards(plan, turns, known, rng)
    of_rows = run_shards(_of_rows(_plan(name, fate, shards)), turns, "nothing", rng)
    assert summed_up.keys() == of_rows.keys()
    for what, rows in summed_up.items():
        # What a task takes for the bound is one and the same for all in a query: groups keep their order by that alone.
        in_order = known != "too late a time"
        ours, theirs = (list(map(repr, some)) for some in (rows, of_rows[what]))  # which knows -0.0 and NaN
        assert (ours if in_order else Counter(ours)) == (theirs if in_order else Counter(theirs)), what


@pytest.mark.parametrize("fate", _FATES)
@FEWER
@given(name=st.sampled_from(list(_PLANS)), seed=st.integers(0, 10**6), cuts=st.integers(1, 5))
def test_what_comes_out_is_what_comes_in_process(fate: str, name: str, seed: int, cuts: int) -> None:
    """Round by round, in the same order where there is one shard."""
    rng, turns = _turns(seed, cuts)
    given = run_shards(_plan(name, fate, 1), turns, "what holds", rng)
    rounds = list(in_process(lambda streams: [_PLANS[name](streams[0], _FATES[fate])], [turns]))
    for number, expected in enumerate(rounds):
        for output, rows in expected.items():
            key = (0, number, output) if number < len(turns) else (0, output)
            assert repr(given.get(key, [])) == repr(rows), (number, output)


def test_a_late_row_stops_a_query_that_refuses_them() -> None:
    """Though all others are summed up; what came out before is what came out in process."""
    table = rows_of(Random(5), 60)
    turns = cut(table, Random(5), 4)

    def planned(streams: Any) -> Any:
        return [_PLANS["rows in time"](streams[0], sw.Late.raise_error())]

    with pytest.raises(LateEvent) as alone:
        list(in_process(planned, [turns]))
    with pytest.raises(LateEvent) as summed_up:
        run_shards(shard_plan(planned, [SCHEMA], 1), turns, "what holds", Random(1))
    assert str(summed_up.value) == str(alone.value)


@pytest.mark.parametrize(("oldest", "refused"), [(51, True), (52, False)])
def test_a_sum_that_may_have_a_late_row_is_refused(oldest: int, refused: bool) -> None:
    """At the very bound a row is in time; its window, which began before, may still be answered."""
    plan, rng = _plan("rows in time", "seen", 1), Random(1)
    shard, (key,) = Shard(plan), shard_keys(1)

    def packed(since: int, *times: int) -> Any:
        table = pa.Table.from_pylist([{"at": at, "k": 1.0, "v": 1, "x": 1.0} for at in times], SCHEMA)
        return arrivals_of(packed_with(plan, table, lambda: since, rng), key)

    list(shard.on_micro_batch(packed(BEGINNING, 3, 60)))
    assert shard.in_time_from() == [60 - _PATIENCE]
    stale = packed(oldest, oldest, 61)
    if refused:
        with pytest.raises(RunError, match=r"(?s)got a sum of rows that may be late.*52.*51.*start the query again"):
            list(shard.on_micro_batch(stale))
    else:
        assert list(shard.on_micro_batch(stale)) == []
        assert shard.late() == 0


def test_the_plan_is_that_of_rows() -> None:
    """So a query goes on from what was stored before there were sums: its lines are what they were."""
    for name in _PLANS:
        plan = _plan(name, "seen", 3)
        assert plan_lines(plan) == plan_lines(_of_rows(_plan(name, "seen", 3))), name
        assert "preaggregate" not in " ".join(plan.lines)


@pytest.mark.parametrize("fate", ["seen", "dropped"])
@pytest.mark.parametrize("known", [True, False])
def test_a_hot_key_is_one_group_of_each_task_and_window(known: bool, fate: str) -> None:
    """Nine rows of ten have one key: its shard gets a few groups, and not all the rows; the answers are the same."""
    plan = _plan("rows in time", fate, 8)
    made = [{"at": n // 1_000, "k": 7.0 if n % 10 else 100.0 + n % 97, "v": n, "x": 0.0} for n in range(10_000)]
    table = pa.Table.from_pylist(made, SCHEMA)
    (pack,) = packs_of(plan)
    packed = [
        row
        for task, part in enumerate(cut(table, Random(3), 4))
        for row in pack.packed(task, part.to_batches(), BEGINNING if known else FOREVER)
        if row.number >= 0
    ]
    sizes = {key: sum(len(row.body or b"") for row in packed if row.shard == key) for key in shard_keys(8)}
    assert sum(row.rows for row in packed) == 10_000
    assert (max(sizes.values()) < 40_000) == known
    counted = [
        n
        for key in shard_keys(8)
        for shard in [Shard(plan)]
        for _, rows in [*shard.on_micro_batch(arrivals_of(packed, key)), *shard.flush()]
        for n in rows.column("n").to_pylist()
    ]
    assert sum(counted) == 10_000
    assert max(counted) == 4_500  # of a window with five thousand


@pytest.mark.parametrize(("keys", "chunks_of_rows"), [(3, 0), (1_000, 12 - 2)])
def test_rows_that_would_be_as_many_groups_go_on_as_rows(keys: int, chunks_of_rows: int) -> None:
    """But for a chunk now and then, which is tried; groups keep their order."""
    plan = _plan("rows in time", "seen", 1)
    made = [{"at": 10 * (n // 40), "k": float(n * 7 % keys), "v": n, "x": 0.0} for n in range(120)]
    (pack,) = packs_of(plan, chunk_rows=10)
    batches = pa.Table.from_pylist(made, SCHEMA).to_batches()
    answers = []
    for since in (BEGINNING, FOREVER):
        packed = [row for row in pack.packed(0, batches, since) if row.number >= 0]
        assert sum(row.rows for row in packed) == len(made)
        if since == BEGINNING:
            assert sum(row.rows for row in packed if row.since == FOREVER) == 10 * chunks_of_rows
        shard = Shard(plan)
        assert list(shard.on_micro_batch(arrivals_of(packed, 0))) == []
        answers.append([row for _, rows in shard.flush() for row in rows.to_pylist()])
    assert answers[0] == answers[1]


def test_rows_of_a_late_sum_are_counted_one_by_one() -> None:
    """Where whole windows are late and nobody sees late rows: they come as sums, too."""
    plan = _plan("windows in time", "dropped", 1)
    shard = Shard(plan)
    for times in ((60,), (3, 3, 4, 52)):
        table = pa.Table.from_pylist([{"at": at, "k": 1.0, "v": 1, "x": 1.0} for at in times], SCHEMA)
        (pack,) = packs_of(plan)
        list(shard.on_micro_batch(arrivals_of(list(pack.packed(0, table.to_batches())), 0)))
    assert shard.late() == 3  # the window from 52 on is open at 60, less the patience
    assert shard.totals().rows_in == 5


# ---- where bounds say which rows are late ----------------------------------------------------------------------------


_MICROSECONDS = SCHEMA.set(0, pa.field("at", pa.timestamp("us")))
_BOUNDS = {
    "in order": sw.Bounds.in_order() & sw.Bounds.lull("1d"),
    "disorder": sw.Bounds.uniform("9us") & sw.Bounds.disorder("5us") & sw.Bounds.lull("1d"),
    "by the clock": sw.Bounds.delay("7us"),
    "silence": sw.Bounds.in_order() & sw.Bounds.idle("15us"),
    "learnt": sw.Bounds.estimated(loss=0.2) & sw.Bounds.lull("1d"),
}


def _bounded(stream: Any, bounds: str, late: sw.Late) -> Any:
    return stream.sort(patience="20us", bounds=_BOUNDS[bounds], late=late).tumbling("5us").group_by("k")


def _planned(stream: Any, bounds: str, fate: str) -> dict[str, Any]:
    return all_outputs([_bounded(stream, bounds, _FATES[fate]).aggregate(**SUMS)])


def _with_bounds(bounds: str, fate: str, shards: int) -> ShardPlan:
    stream = sw.stream(sw.PushSource(_MICROSECONDS, name="source 0"), time="at", origin="v")
    return ShardPlan.of({name: one.node for name, one in _planned(stream, bounds, fate).items()}, shards)


@pytest.mark.parametrize("bounds", _BOUNDS)
@FEWER
@given(
    fate=st.sampled_from(list(_FATES)),
    known=st.sampled_from(list(KNOWN)),
    seed=st.integers(0, 10**6),
    shards=st.sampled_from([1, 3]),
    cuts=st.integers(1, 5),
)
def test_no_row_is_summed_up_that_is_late_or_breaks_a_bound(
    bounds: str, fate: str, known: str, seed: int, shards: int, cuts: int
) -> None:
    """What comes out is what rows give, late rows and counters of broken bounds among it."""
    rng, turns = _turns(seed, cuts)
    turns = [turn.cast(_MICROSECONDS) for turn in turns]
    plan = _with_bounds(bounds, fate, shards)
    assert plan.pipelines[0].sums is not None
    summed_up = run_shards(plan, turns, known, rng)
    of_rows = run_shards(_of_rows(_with_bounds(bounds, fate, shards)), turns, "nothing", rng)
    assert summed_up.keys() == of_rows.keys()
    for what, rows in summed_up.items():
        in_order = known not in {"too late a time", "some of it"}
        ours, theirs = (list(map(repr, some)) for some in (rows, of_rows[what]))
        assert (ours if in_order else Counter(ours)) == (theirs if in_order else Counter(theirs)), what


@pytest.mark.parametrize("bounds", _BOUNDS)
@FEWER
@given(fate=st.sampled_from(list(_FATES)), seed=st.integers(0, 10**6), cuts=st.integers(1, 5))
def test_with_bounds_the_answers_are_those_of_one_process(bounds: str, fate: str, seed: int, cuts: int) -> None:
    """To which each micro-batch comes as one batch, when the clock shows its timestamp."""
    rng, turns = _turns(seed, cuts)
    turns = [turn.cast(_MICROSECONDS) for turn in turns]
    found = run_shards(_with_bounds(bounds, fate, 1), turns, "what holds", rng)
    clock, source = sw.ManualClock(0), sw.PushSource(_MICROSECONDS)
    given_out: dict[str, list[Any]] = {}

    def binding(output: str) -> Callable[[pa.RecordBatch], None]:
        given_out[output] = []
        return lambda rows: given_out[output].extend(rows.to_pylist())

    outputs = _planned(sw.stream(source, time="at", origin="v"), bounds, fate)
    with sw.Query([(stream, binding(name)) for name, stream in outputs.items()], clock=clock) as query:
        for number, turn in enumerate(turns):
            clock.advance(10 * (number + 1) - clock.now())
            if turn.num_rows:
                source.push(turn.combine_chunks().to_batches()[0])
                query.step()
            for output, rows in given_out.items():
                assert list(map(repr, found.get((0, number, output), []))) == list(map(repr, rows)), (number, output)
                rows.clear()
