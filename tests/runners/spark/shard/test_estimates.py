"""Bounds that are learnt in shards: all learn the same as in process, in any number of shards and of micro-batches."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from without_spark import Segments, all_outputs, cut, cut_at, packed_at

import slackwater as sw
from slackwater.operators.heartbeats.arrival_statistics import ArrivalStatistics
from slackwater.operators.heartbeats.sent_statistics import statistics_as_rows, statistics_of_rows
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.planning.shard_plan import ShardPlan
from slackwater.runners.spark.shard.arrivals import Arrivals
from slackwater.runners.spark.shard.reasons import reasons_together
from slackwater.runners.spark.shard.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slackwater.operators.heartbeats.estimating import EstimatingGenerator
    from slackwater.operators.why import Why

_ROWS = pa.schema({"at": pa.int64(), "who": pa.int64(), "landed": pa.int64(), "n": pa.int64()})
_BY_CLOCK = pa.schema([pa.field("at", pa.timestamp("us", "UTC")), *list(_ROWS)[1:]])

Row = tuple[int | None, int | None, int | None]
"""When it arrived, who sent it, and its time."""

Round = tuple[int, pa.Table]
"""A micro-batch: its timestamp, and its rows."""


class Learnt(NamedTuple):
    """What a generator has learnt, and how far all is complete."""

    estimates: dict[Any, list[int]]
    observed: sw.ObservedLoss
    complete_before: int
    late_by_estimate: int

    @classmethod
    def of(cls, operator: Any) -> Learnt:
        """What an operator has learnt."""
        generator: EstimatingGenerator = operator.generator
        return cls(generator.estimates(), generator.observed(), generator.complete_before, operator.late_by_estimate())


class Ran(NamedTuple):
    """What came out, by output, in one order; how many rows broke bounds; what was learnt."""

    out: dict[str, list[str]]
    broken: int
    learnt: Learnt


def _in_shards(plan: ShardPlan, rounds: Sequence[Round], rng: Random, *, store: bool) -> tuple[Ran, Why]:
    """Run micro-batches, packed by two tasks; if shards are stored each micro-batch is done twice, as after a crash."""
    shards = {key: Shard(plan) for key in shard_keys(plan.shards)}
    segments = {key: Segments() for key in shards}
    (pack,) = packs_of(plan, chunk_rows=7)
    given: dict[str, list[Any]] = {output: [] for output in plan.outputs}
    for now, rows in rounds:
        packed = [one for task, part in enumerate(cut(rows, rng, 2)) for one in packed_at(now, pack, part, task)]
        for key, shard in shards.items():
            before = segments[key].stored(shard) if store else None
            released = _micro_batch(shard, key, packed, rng)
            if store:
                again = Shard(plan, before)
                assert _micro_batch(again, key, packed, rng) == released
                assert again.why() == shard.why()
                shards[key] = Shard(plan, segments[key].stored(again))
            for output, row in released:
                given[output].append(row)
    operators = [step.operator for one in shards.values() for step in one._entries]
    learnt = [Learnt.of(operator) for operator in operators]
    assert all(one == learnt[0] for one in learnt), "all shards learn the same"
    (why,) = reasons_together([one.why() for one in shards.values()])
    return Ran(_sorted(given), sum(one.broken_bounds() for one in shards.values()), learnt[0]), why


def _micro_batch(shard: Shard, key: int, packed: Sequence[Any], rng: Random) -> list[tuple[str, Any]]:
    """What a micro-batch releases in a shard; rows that are released together are in one order."""
    arrivals = Arrivals()
    for row in rng.sample(packed, len(packed)):  # a shuffle keeps no order
        if row.shard == key:
            arrivals.add(row)
    found = [(output, str(row)) for output, rows in shard.on_micro_batch(arrivals) for row in rows.to_pylist()]
    return sorted(found)


def _in_process(build: Callable[[Any], Any], rounds: Sequence[Round], **columns: Any) -> tuple[Ran, Why]:
    """The same in process: every micro-batch is one batch, which arrives at its instant; nothing is flushed."""
    clock, tables = sw.ManualClock(0), [(now, rows) for now, rows in rounds if rows.num_rows]
    schema = rounds[0][1].schema
    batches = [rows.combine_chunks().to_batches()[0] for _, rows in tables]
    pushed = None if "arrived" in columns else sw.PushSource(schema)
    source: Any = pa.RecordBatchReader.from_batches(schema, batches) if pushed is None else pushed
    outputs = all_outputs([build(sw.stream(source, time="at", **columns))])
    given: dict[str, list[Any]] = {output: [] for output in outputs}

    def binding(output: str) -> Callable[[pa.RecordBatch], None]:
        return lambda rows: given[output].extend(map(str, rows.to_pylist()))

    query = sw.Query([(stream, binding(output)) for output, stream in outputs.items()], clock=clock)
    for (now, _), batch in zip(tables, batches, strict=True):
        clock.advance(now - clock.now())
        if pushed is not None:
            pushed.push(batch)
        query.step()
    (why,) = (one for one in query.why() if one.step == "heartbeats#1")
    step = next(step for step in query._runner._graph.steps if step.name == "heartbeats#1")
    ran = Ran(_sorted(given), sum(one.broken_bounds for one in query.counters().values()), Learnt.of(step.operator))
    query.stop()
    return ran, why


def _sorted(given: dict[str, list[Any]]) -> dict[str, list[str]]:
    return {output: sorted(rows) for output, rows in given.items()}


def _plan(stream: Any, shards: int) -> ShardPlan:
    return ShardPlan.of({name: one.node for name, one in all_outputs([stream]).items()}, shards)


def _table(rows: Sequence[Row], schema: pa.Schema = _ROWS) -> pa.Table:
    columns = [{"at": at, "who": who, "landed": landed, "n": n} for n, (landed, who, at) in enumerate(rows)]
    return pa.Table.from_pylist(columns, schema=_ROWS).cast(schema)


def _in_agreed_order(rows: Sequence[Any], grid: int = 1) -> list[Any]:
    """By tick of arrival, time and source; what has none is first."""
    first = BEGINNING - 1
    return sorted(
        rows,
        key=lambda row: (
            first if row[0] is None else row[0] // grid,
            first if row[2] is None else row[2],
            -1 if row[1] is None else row[1],
        ),
    )


@st.composite
def _drawn(draw: st.DrawFn, most: int = 70) -> list[Row]:
    """A few sources whose rows are behind by little, now and then by more; some have no time, some are far off."""
    n = draw(st.integers(1, 4))
    behind = st.sampled_from([0, 0, 0, 0, 1, 1, 2, 3, 9, 20]) | st.integers(-2, 9)
    off = st.one_of(*[st.just(0)] * 8, st.sampled_from([-(2**62), 2**62, None]))
    steps = st.tuples(st.sampled_from([0, 0, 0, 1, 1, 2, 5]), st.integers(0, n - 1), behind, off)
    rows: list[Row] = []
    tick = draw(st.sampled_from([0, 7]))
    for step, who, lag, far in draw(st.lists(steps, min_size=1, max_size=most)):
        tick += step
        rows.append((tick, who, None if far is None else tick - lag + far))
    return rows


def _bounds(unit: Callable[[int], Any]) -> list[sw.Bounds]:
    """Bounds of every kind that is learnt; `unit` makes a length of a number."""
    share = sw.Bounds.estimated(0.5) & sw.Bounds.patience(unit(6)) & sw.Bounds.lull(unit(10**12))
    return [
        sw.Bounds.greatest(after=[0, unit(2)]) & sw.Bounds.lull(unit(30)),
        sw.Bounds.greatest(clock=True, pairs=[0, 1]) & sw.Bounds.idle(unit(20)),
        sw.Bounds.adaptive(2, alpha=0.3, adapts=True) & sw.Bounds.lull(unit(10**12)),
        sw.Bounds.adaptive(sw.Every.time(unit(3)), clock=True) & sw.Bounds.lull(unit(10**12)),
        share,
        share.only(0, 1),
        share & sw.Bounds.in_order(repeats=3),
        share.in_fleets({"even": [0, 2], "odd": [1, 3]}),
        sw.Bounds.estimated(0.2, after=[0, unit(2)]) & sw.Bounds.delay(unit(12)),
    ]


_SHARDS = st.sampled_from([1, 3, 8])
_RANDOM = st.randoms(use_true_random=False)
_COLUMNS: dict[str, Any] = {"origin": "who", "arrived": "landed", "untimed_is_late": True}


@given(_drawn(), st.sampled_from(range(9)), st.sampled_from([1, 3]), _SHARDS, st.booleans(), _RANDOM, st.data())
def test_with_a_column_of_arrivals_all_shards_learn_what_one_run_in_process_does(
    drawn: list[Row], which: int, grid: int, shards: int, store: bool, rng: Random, data: st.DataObject
) -> None:
    """Estimates, late rows and the loss, however a backfill is cut; and when each micro-batch is done again."""
    table = _table(_in_agreed_order(drawn, grid))
    options: Any = {"bounds": _bounds(int)[which], "every": sw.Every.time(grid)}
    options |= data.draw(st.sampled_from([{}, {"ahead": 40}]))

    def build(stream: sw.DisorderedStream) -> Any:
        return stream.deduplicate(on="n", within=0, **options)

    plan = _plan(build(sw.stream(table, time="at", **_COLUMNS)), shards)
    assert plan.shards == shards
    parts = cut_at(table, data.draw(st.lists(st.integers(0, table.num_rows), max_size=4)))
    rounds = [(0, part.take(pa.array(rng.sample(range(len(part)), len(part)), pa.int64()))) for part in parts]
    ran, why = _in_shards(plan, rounds, rng, store=store)
    expected, in_process = _in_process(build, [(0, table)], **_COLUMNS)
    assert ran == expected
    assert (why.estimate, why.ground, why.complete_before) == (
        in_process.estimate,
        in_process.ground,
        in_process.complete_before,
    )


@given(_drawn(), st.sampled_from(range(9)), _SHARDS, st.booleans(), _RANDOM, st.data())
def test_by_the_clock_all_shards_learn_what_the_batches_show_in_process(
    drawn: list[Row], which: int, shards: int, store: bool, rng: Random, data: st.DataObject
) -> None:
    """Each micro-batch comes as one batch, in order of time, when the clock shows its timestamp."""
    bounds = _bounds(lambda length: timedelta(microseconds=length))[which]
    rows = [(tick, who, None if at is None else max(min(at, 10**15), -(10**15))) for tick, who, at in drawn]
    instants = [tick for tick, _, _ in rows if tick is not None]
    stops = [*sorted(data.draw(st.sets(st.sampled_from(instants), max_size=6))), instants[-1]]
    rounds, shuffled = [], []
    for before, now in zip([-1, *stops], stops, strict=False):
        come = [(now, who, at) for tick, who, at in rows if tick is not None and before < tick <= now]
        rounds.append((now, _table(_in_agreed_order(come), _BY_CLOCK)))
        places = pa.array(rng.sample(range(len(come)), len(come)), pa.int64())
        shuffled.append((now, rounds[-1][1].take(places)))

    def build(stream: sw.DisorderedStream) -> Any:
        return stream.deduplicate(on=["n", "landed"], within=timedelta(0), bounds=bounds)

    plan = _plan(build(sw.stream(sw.PushSource(_BY_CLOCK), time="at", origin="who", untimed_is_late=True)), shards)
    ran, why = _in_shards(plan, shuffled, rng, store=store)
    expected, in_process = _in_process(build, rounds, origin="who", untimed_is_late=True)
    assert ran == expected
    assert (why.estimate, why.ground) == (in_process.estimate, in_process.ground)


@given(_drawn(most=40), st.sampled_from(range(9)), _SHARDS, _RANDOM, st.data())
def test_arrivals_that_are_unknown_or_go_back_are_learnt_from_in_order_within_a_micro_batch(
    drawn: list[Row], which: int, shards: int, rng: Random, data: st.DataObject
) -> None:
    """And sources that are null are one source."""
    rows: list[Any] = data.draw(st.permutations(drawn))
    unknown = data.draw(st.sets(st.integers(0, len(rows) - 1), max_size=3))
    nobody = data.draw(st.sampled_from([{}, {0: None}]))
    rows = [
        (None if n in unknown else tick, nobody.get(who, who) if which != 7 else who, at)
        for n, (tick, who, at) in enumerate(rows)
    ]
    options: Any = {"bounds": _bounds(int)[which], "every": sw.Every.time(1)}

    def build(stream: sw.DisorderedStream) -> Any:
        return stream.sort(**options, late=sw.Late.divert())

    edges = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))
    parts = [rows[a:b] for a, b in zip([0, *edges], [*edges, len(rows)], strict=True)]
    plan = _plan(build(sw.stream(_table([]), time="at", **_COLUMNS)), shards)
    ran, _ = _in_shards(plan, [(0, _table(part)) for part in parts], rng, store=False)
    in_order = [(0, _table(_in_agreed_order(part))) for part in parts]
    expected, _ = _in_process(build, in_order, **_COLUMNS)
    assert (ran.learnt, ran.broken) == (expected.learnt, expected.broken)


@given(_drawn(), _RANDOM)
def test_the_greatest_skew_is_the_same_in_whatever_order_rows_of_a_tick_come(drawn: list[Row], rng: Random) -> None:
    """Of sources that are named: others begin with what all had shown when they came."""
    bounds = sw.Bounds.greatest(after=[0, 2]).only(0, 1, 2, 3)

    def build(stream: sw.DisorderedStream) -> Any:
        return stream.deduplicate(on="n", within=0, bounds=bounds, every=sw.Every.time(1))

    table = _table(drawn)
    plan = _plan(build(sw.stream(table, time="at", **_COLUMNS)), 3)
    ran, _ = _in_shards(plan, [(0, table)], rng, store=False)
    assert ran == _in_process(build, [(0, table)], **_COLUMNS)[0]


def _steady(rows: int) -> pa.Table:
    """Three sources, a tenth of whose rows is behind by up to nine; and a storm of rows that are far behind."""
    rng = Random(45)
    drawn = []
    for tick in range(rows):
        stormy = rows // 2 <= tick < rows // 2 + 60
        behind = rng.randrange(20, 90) if stormy else rng.randrange(10) * (rng.random() < 0.1)
        drawn.append((tick, rng.randrange(3), tick - behind))
    return _table(_in_agreed_order(drawn))


@pytest.mark.parametrize("shards", [1, 3])
def test_why_names_the_estimate_and_the_loss_so_far(shards: int) -> None:
    """The storm takes estimates back; long after it they count again; rows that a filter drops are learnt from."""
    table = _steady(4_000)

    def build(stream: sw.DisorderedStream) -> Any:
        bounds = sw.Bounds.estimated(0.02) & sw.Bounds.patience(100)
        return stream.deduplicate(on="n", within=0, bounds=bounds, every=sw.Every.time(1))

    plan = _plan(build(sw.stream(table, time="at", **_COLUMNS)), shards)
    ran, why = _in_shards(plan, [(0, part) for part in cut_at(table, [2_100])], Random(3), store=True)
    expected, in_process = _in_process(build, [(0, table)], **_COLUMNS)
    assert ran == expected
    assert (why.ground, str(why.estimate)) == (sw.Grounds.ESTIMATED, str(in_process.estimate))
    assert why.estimate is not None
    assert why.estimate.rows == 4_000
    assert 0 < why.estimate.late == ran.learnt.late_by_estimate
    assert why.estimate.times_taken_back >= 1
    _, midway = _in_shards(plan, [(0, table.slice(0, 2_030))], Random(3), store=False)
    assert midway.estimate is not None
    assert midway.estimate.taken_back


_EXTREMES = st.sampled_from([BEGINNING, BEGINNING + 1, -1, 0, 1, 2**62, FOREVER - 1, FOREVER])
_NUMBERS = _EXTREMES | st.integers(-(2**40), 2**40) | st.integers(0, 300)


@given(
    st.lists(st.tuples(st.integers(0, 2), _NUMBERS, st.integers(0, 2**40), _NUMBERS), max_size=20),
    st.lists(st.tuples(st.integers(0, 2), _NUMBERS, _NUMBERS, _NUMBERS), max_size=4),
    _NUMBERS,
    st.booleans(),
)
def test_statistics_arrive_as_they_were_sent(groups: list[Any], ahead: list[Any], now: int, by_time: bool) -> None:
    """Differences wrap at the ends of int64, and back again."""
    counted, rows = (np.array(some, dtype=np.int64).reshape(-1, 4).T.copy() for some in (groups, ahead))
    sent = ArrivalStatistics((b"a", b"", b"\xff"), now, counted, rows, by_time)
    read = statistics_of_rows(statistics_as_rows(sent), now)
    assert (read.names, read.now, read.by_time) == (sent.names, sent.now, by_time)
    assert (read.groups.tolist(), read.perhaps_ahead.tolist()) == (sent.groups.tolist(), sent.perhaps_ahead.tolist())


_COUNTED = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), _NUMBERS, st.integers(0, 3), _NUMBERS), max_size=12)
_NEAR = st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.integers(0, 2), st.integers(0, 3), st.integers(0, 3))


@given(st.lists(_COUNTED | st.lists(_NEAR, max_size=12), min_size=1, max_size=3), _RANDOM)
def test_rows_of_all_tasks_are_put_in_order_of_tick_time_and_name(tasks: list[list[Any]], rng: Random) -> None:
    """Whatever order tasks come in, and however far apart times are: one group for each, with all its rows."""
    expected: Counter[tuple[int, int, bytes]] = Counter()
    parts = []
    for rows in tasks:
        names = tuple(rng.sample([b"a", b"b", b"c"], 3))
        groups = np.array([[names.index(who), *numbers] for who, *numbers in rows], dtype=np.int64).reshape(-1, 4).T
        parts.append(ArrivalStatistics(names, 0, groups, by_time=True))
        expected.update({(tick, time, who): 0 for who, tick, _, time in rows})
        for who, tick, count, time in rows:
            expected[tick, time, who] += count
    found = ArrivalStatistics.together(parts)
    together = [(tick, time, found.names[code], count) for code, tick, count, time in found.groups.T.tolist()]
    assert together == [(*group, expected[group]) for group in sorted(expected)]


def test_what_is_sent_of_a_row_is_a_few_bytes() -> None:
    """Where every row has a time of its own: one for its source, one or two for each of the others."""
    rng = np.random.default_rng(5)
    rows = 20_000
    groups = np.array([rng.integers(0, 50, rows), np.arange(rows) // 100, np.ones(rows), np.arange(rows) * 90])
    sent = statistics_as_rows(
        ArrivalStatistics(tuple(map(str.encode, map(str, range(50)))), 0, groups.astype(np.int64))
    )
    assert sent.nbytes / rows < 6
