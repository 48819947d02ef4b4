"""Heartbeats in shards: the rows that are late in process are, in any number of shards and of micro-batches."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals as nw
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from without_spark import Segments, all_outputs, cut, cut_at, packed_at, resharded

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.operators.heartbeats.heartbeats import HeartbeatsOperator
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.planning.shard_plan import ShardPlan
from slackwater.runners.spark.shard.arrivals import Arrivals
from slackwater.runners.spark.shard.reasons import reasons_together
from slackwater.runners.spark.shard.shard import Shard
from slackwater.testing.oracles.heartbeats.simulate import Sent, arrivals_of
from slackwater.testing.oracles.heartbeats.strategies import simulations, systems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from slackwater.testing.oracles.heartbeats import Skew, System

_ROWS = pa.schema({"at": pa.int64(), "who": pa.int64(), "landed": pa.int64(), "n": pa.int64()})


class Ran(NamedTuple):
    """What came out, by output, in one order; how many rows broke bounds; where all came to."""

    out: dict[str, list[str]]
    broken: int
    complete_before: set[int]


Round = tuple[int, pa.Table]
"""A micro-batch: its timestamp, and its rows."""


def _in_shards(
    plan: ShardPlan, rounds: Iterable[Round], rng: Random, *, store: bool, then: ShardPlan | None = None
) -> Ran:
    """Run micro-batches, packed by two tasks in small chunks; between two of them shards are stored, if they are to be.

    What was given out before a flush is what counts here: the rest is still held. With `then` shards become those of
    that plan after each micro-batch, and in turn those that they were.
    """
    shards = {key: Shard(plan) for key in shard_keys(plan.shards)}
    segments = {key: Segments() for key in shards}
    given: dict[str, list[Any]] = {output: [] for output in plan.outputs}
    for now, rows in rounds:
        (pack,) = packs_of(plan, chunk_rows=7)
        packed = [one for task, part in enumerate(cut(rows, rng, 2)) for one in packed_at(now, pack, part, task)]
        arrivals = {key: Arrivals() for key in shards}
        for row in rng.sample(packed, len(packed)):  # a shuffle keeps no order
            arrivals[row.shard].add(row)
        for key, shard in shards.items():
            for output, released in shard.on_micro_batch(arrivals[key]):
                given[output] += released.to_pylist()
            if store:
                shards[key] = Shard(plan, segments[key].stored(shard))
        if then is not None:
            shards = resharded(then, shards)
            plan, then, segments = then, plan, {key: Segments() for key in shards}
    operators: list[Any] = [step.operator for one in shards.values() for step in one._entries]
    complete = {one.generator.complete_before for one in operators}
    return Ran(_sorted(given), sum(one.broken_bounds() for one in shards.values()), complete)


def _sorted(given: dict[str, list[Any]]) -> dict[str, list[str]]:
    return {output: sorted(map(str, rows)) for output, rows in given.items()}


def _plan(streams: Any, shards: int) -> ShardPlan:
    return ShardPlan.of({name: one.node for name, one in all_outputs(_as_list(streams)).items()}, shards)


def _as_list(streams: Any) -> list[Any]:
    return [streams] if isinstance(streams, sw.OrderedStream) else list(streams)


def _in_process(build: Callable[[sw.DisorderedStream], Any], rounds: Sequence[Round], **columns: str) -> Ran:
    """The same in process: every micro-batch is one batch, which arrives at its instant; nothing is flushed."""
    clock, tables = sw.ManualClock(0), [(now, rows) for now, rows in rounds if rows.num_rows]
    schema = rounds[0][1].schema
    batches = [rows.combine_chunks().to_batches()[0] for _, rows in tables]
    pushed = None if "arrived" in columns else sw.PushSource(schema)
    source: Any = pa.RecordBatchReader.from_batches(schema, batches) if pushed is None else pushed
    outputs = all_outputs(_as_list(build(sw.stream(source, time="at", **columns))))  # type: ignore[arg-type]
    given: dict[str, list[Any]] = {output: [] for output in outputs}

    def binding(output: str) -> Callable[[pa.RecordBatch], None]:
        return lambda rows: given[output].extend(rows.to_pylist())

    query = sw.Query([(stream, binding(output)) for output, stream in outputs.items()], clock=clock)
    for (now, _), batch in zip(tables, batches, strict=True):
        clock.advance(now - clock.now())
        if pushed is not None:
            pushed.push(batch)
        query.step()
    step = next(step for step in query._runner._graph.steps if step.name == "heartbeats#1")
    assert isinstance(step.operator, HeartbeatsOperator)
    broken = sum(one.broken_bounds for one in query.counters().values())
    complete = step.operator.generator.complete_before
    query.stop()
    return Ran(_sorted(given), broken, {complete})


def _entries(system: System, of: Callable[[Skew], sw.Bound], latency: Callable[[int], Any]) -> sw.Bounds:
    entries = {both: [of(skew) for skew in pairs] for both, pairs in system.bounds.items() if pairs}
    return sw.Bounds(entries, latency={who: latency(one) for who, one in enumerate(system.latency)}).only(
        *system.sources
    )


def _by_column(skew: Skew) -> sw.Bound:
    return sw.Bound(skew.delta, skew.ticks or 0, skew.wait if skew.ticks is None else 0, strictly=True)


def _by_clock(skew: Skew) -> sw.Bound:
    if skew.ticks is None:
        return sw.Bound(skew.delta, rows=skew.wait, strictly=True)
    return sw.Bound(skew.delta, timedelta(microseconds=skew.ticks), strictly=True)


_SENT = simulations(systems(most_sources=3, missing=False), most_rows=30)
_SHARDS = st.sampled_from([1, 3, 8])


def _table(arrivals: Sequence[tuple[int | None, int, int]]) -> pa.Table:
    rows = [{"at": time, "who": who, "landed": tick, "n": n} for n, (tick, who, time) in enumerate(arrivals)]
    return pa.Table.from_pylist(rows, schema=_ROWS)


def _drifted(data: st.DataObject, arrivals: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Some rows break bounds; some are far ahead."""
    off = st.one_of(st.just(0), st.integers(-9, 9), st.sampled_from([-1_000, 1_000, 2**62]))
    drift = data.draw(st.lists(off, min_size=len(arrivals), max_size=len(arrivals)))
    return [(tick, who, time + one) for (tick, who, time), one in zip(arrivals, drift, strict=True)]


def _rounds_by_arrival(data: st.DataObject, table: pa.Table) -> list[Round]:
    """Micro-batches one after the other; a tick may be cut in two, and rows of one may come in any order."""
    edges = data.draw(st.lists(st.integers(0, table.num_rows), max_size=4))
    parts = cut_at(table, edges)
    orders = [data.draw(st.permutations(range(part.num_rows))) for part in parts]
    return [(0, part.take(pa.array(order, pa.int64()))) for part, order in zip(parts, orders, strict=True)]


@given(_SENT, st.booleans(), _SHARDS, st.booleans(), st.randoms(use_true_random=False), st.data())
def test_with_a_column_of_arrivals_the_same_rows_are_late_however_they_are_cut(
    drawn: tuple[System, list[Sent]], ahead: bool, shards: int, store: bool, rng: Random, data: st.DataObject
) -> None:
    """In one run over everything in process, and in any micro-batches, shards and restarts: a backfill."""
    system, sent = drawn
    table = _table(_drifted(data, arrivals_of(sent)))
    bounds = _entries(system, _by_column, int)
    options: Any = {"bounds": bounds, "every": sw.Every.time(data.draw(st.sampled_from([1, 3])))}
    options |= {"ahead": 40} if ahead else {}

    def build(stream: sw.DisorderedStream) -> Any:
        return stream.deduplicate(on="n", within=0, **options)

    columns: dict[str, str] = {"origin": "who", "arrived": "landed"}
    expected = _in_process(build, [(0, table)], **columns)
    plan = _plan(build(sw.stream(table, time="at", **columns)), shards)  # type: ignore[arg-type]
    assert plan.shards == shards
    assert _in_shards(plan, _rounds_by_arrival(data, table), rng, store=store) == expected


@given(_SENT, _SHARDS, st.booleans(), st.randoms(use_true_random=False), st.data())
def test_by_the_clock_a_micro_batch_is_one_instant_in_every_shard(
    drawn: tuple[System, list[Sent]], shards: int, store: bool, rng: Random, data: st.DataObject
) -> None:
    """As in process, where each micro-batch comes as one batch when the clock shows its timestamp."""
    system, sent = drawn
    table = _table(_drifted(data, arrivals_of(sent)))
    ticks = sorted(set(table["landed"].to_pylist()))
    chosen = sorted(data.draw(st.sets(st.sampled_from(ticks))))
    rounds = _rounds_at(table, [*chosen, ticks[-1]])
    bounds = _entries(system, _by_clock, lambda ticks: timedelta(microseconds=ticks)) & sw.Bounds.lull("1d")

    def build(stream: sw.DisorderedStream) -> Any:
        return stream.deduplicate(on="n", within=0, bounds=bounds)

    expected = _in_process(build, rounds, origin="who")
    plan = _plan(build(sw.stream(sw.PushSource(_ROWS), time="at", origin="who")), shards)
    assert _in_shards(plan, rounds, rng, store=store) == expected


@pytest.mark.parametrize("shards", [1, 3])
def test_rows_at_heartbeats_break_bounds_in_any_shard(shards: int) -> None:
    """Of the source that is complete the furthest and of another; those next to them do not, nor others' rows there."""
    first = [(0, 0, 10), (0, 1, 20)]  # so that source 0 is complete up to 10, and source 1 up to 20
    for time, who in ((9, 0), (10, 0), (19, 1), (20, 1), (20, 0), (15, 0), (15, 1)):
        rounds = [(1, _table(first)), (2, _table([(0, who, time), (0, 0, 99)]))]

        def build(stream: sw.DisorderedStream) -> Any:
            return stream.deduplicate(on="n", within=0, bounds=sw.Bounds.in_order() & sw.Bounds.lull("1d"))

        expected = _in_process(build, rounds, origin="who")
        plan = _plan(build(sw.stream(sw.PushSource(_ROWS), time="at", origin="who")), shards)
        assert _in_shards(plan, rounds, Random(1), store=False) == expected
        assert expected.broken == (time < (10, 20)[who])


def _rounds_at(table: pa.Table, instants: Sequence[int]) -> list[Round]:
    """The rows that had arrived by each instant."""
    rounds, before, landed = [], -1, table["landed"].to_pylist()
    for now in dict.fromkeys(instants):
        places = [place for place, tick in enumerate(landed) if before < tick <= now]
        rounds.append((now, table.take(pa.array(places, pa.int64()))))
        before = now
    return rounds


@given(_SENT, _SHARDS, st.booleans(), st.randoms(use_true_random=False), st.data())
def test_arrivals_that_are_unknown_or_go_back_are_taken_in_order_within_a_micro_batch(
    drawn: tuple[System, list[Sent]], shards: int, store: bool, rng: Random, data: st.DataObject
) -> None:
    """As in process, where each micro-batch comes as one batch in the order of arrival, unknown ones first."""
    system, sent = drawn
    arrivals: list[Any] = data.draw(st.permutations(_drifted(data, arrivals_of(sent))))
    unknown = data.draw(st.sets(st.integers(0, len(arrivals) - 1), max_size=3))
    table = _table([(None if n in unknown else tick, who, time) for n, (tick, who, time) in enumerate(arrivals)])
    options: Any = {"bounds": _entries(system, _by_column, int), "every": sw.Every.time(1)}
    options |= data.draw(st.sampled_from([{}, {"ahead": 40}]))

    def build(stream: sw.DisorderedStream) -> Any:
        return stream.deduplicate(on="n", within=0, **options)

    columns: dict[str, str] = {"origin": "who", "arrived": "landed"}
    rounds = [(0, part) for part in cut_at(table, data.draw(st.lists(st.integers(0, table.num_rows), max_size=3)))]
    in_order = [(0, _in_order_of_arrival(part)) for _, part in rounds]
    plan = _plan(build(sw.stream(table, time="at", **columns)), shards)  # type: ignore[arg-type]
    assert _in_shards(plan, rounds, rng, store=store) == _in_process(build, in_order, **columns)


@pytest.mark.parametrize("shards", [1, 3])
def test_a_row_is_ahead_of_how_far_the_clock_has_come_not_of_a_column_that_lags(shards: int) -> None:
    """Its arrival is unknown, or long ago: it counts as arrived with those before it, and moves what follows."""

    def build(stream: sw.DisorderedStream) -> Any:
        return stream.deduplicate(on="n", within=0, bounds=sw.Bounds.in_order(), ahead=40, every=sw.Every.time(1))

    columns: dict[str, str] = {"origin": "who", "arrived": "landed"}
    table = _table([(100, 0, 90), (None, 0, 130), (10, 0, 120), (None, 0, 141), (140, 0, 131), (200, 0, 200)])
    rounds = [(0, part) for part in cut_at(table, [1, 4, 5])]
    ran = _in_shards(_plan(build(sw.stream(table, time="at", **columns)), shards), rounds, Random(3), store=True)  # type: ignore[arg-type]
    assert ran == _in_process(build, rounds, **columns)
    assert ran.complete_before == {131}


def _in_order_of_arrival(table: pa.Table) -> pa.Table:
    landed = table["landed"].to_pylist()
    places = sorted(range(len(landed)), key=lambda place: (landed[place] is not None, landed[place] or 0))
    return table.take(pa.array(places, pa.int64()))


def _bands(stream: sw.DisorderedStream, bounds: sw.Bounds) -> Any:
    kept = stream.where(nw.col("n") != 3).tumbling(4).group_by("who")
    return kept.in_bands(3, 20, bounds=bounds, every=sw.Every.batch(), n=sw.count())


def _early(stream: sw.DisorderedStream, bounds: sw.Bounds) -> Any:
    return stream.tumbling(4).group_by("who").aggregate_early(bounds=bounds, n=sw.count()).settle()


def _computed(stream: sw.DisorderedStream, bounds: sw.Bounds) -> Any:
    """Behind a step that drops the columns which heartbeats look at."""
    left = stream.select(k="n", third=nw.col("n") % 3).where(nw.col("third") > 0)
    return left.tumbling(4).sort(bounds=bounds).group_by("k").aggregate(n=sw.count())


@pytest.mark.parametrize("planned", [_bands, _early, _computed])
@given(_SENT, _SHARDS, st.booleans(), st.sampled_from([None, 1, 2, 8]), st.randoms(use_true_random=False), st.data())
def test_all_steps_with_bounds_give_the_same_in_shards(
    planned: Callable[[sw.DisorderedStream, sw.Bounds], Any],
    drawn: tuple[System, list[Sent]],
    shards: int,
    store: bool,
    others: int | None,
    rng: Random,
    data: st.DataObject,
) -> None:
    """Answers, late rows and how far all is complete; a filter in front takes no row from the statistics.

    Also where shards become more and fewer meanwhile; then broken bounds go on being counted, too.
    """
    system, sent = drawn
    table = _table(_drifted(data, arrivals_of(sent)))
    bounds = _entries(system, _by_column, int)

    def build(stream: sw.DisorderedStream) -> Any:
        return planned(stream, bounds)

    columns: dict[str, str] = {"origin": "who", "arrived": "landed"}
    parts = cut_at(table, data.draw(st.lists(st.integers(0, table.num_rows), max_size=3)))
    rounds = [(0, part) for part in parts]
    plan = _plan(build(sw.stream(table, time="at", **columns)), shards)  # type: ignore[arg-type]
    assert plan.shards == shards
    then = None
    if others is not None and planned is not _early:
        then = _plan(build(sw.stream(table, time="at", **columns)), others)  # type: ignore[arg-type]
    got, expected = _in_shards(plan, rounds, rng, store=store, then=then), _in_process(build, rounds, **columns)
    assert (got.out, got.complete_before) == (expected.out, expected.complete_before)
    assert got.broken == _in_shards(plan, rounds, rng, store=False).broken


def _recorded(rows: Sequence[tuple[int, int, int]]) -> sw.DisorderedStream:
    return sw.stream(_table(rows), time="at", origin="who", arrived="landed")


def test_a_source_whose_rows_a_filter_drops_is_not_silent() -> None:
    """The filter is done before rows travel, the statistics before the filter."""
    rows = [(tick, who, tick) for tick in range(1, 40) for who in (0, 1)]
    stream = _recorded(rows).where(nw.col("who") == 0).sort(bounds=sw.Bounds.in_order().only(0, 1))
    plan = _plan(stream, 1)
    (way,) = plan.pipelines
    assert [step.verb for step in way.steps] == ["where"]
    assert way.may_be_native == ()
    ran = _in_shards(plan, [(0, _table(rows))], Random(1), store=False)
    assert len(ran.out["main 0"]) == 37


def test_what_heartbeats_look_at_keeps_steps_behind_them_and_unread_columns_do_not_travel() -> None:
    """A select that drops the origin is done in shards; one that keeps it, and a filter, before."""
    bounds = sw.Bounds.in_order()
    kept = _recorded([(1, 0, 1)]).select("who", "landed", m=nw.col("n") + 1).where(nw.col("m") > 0)
    dropped = _recorded([(1, 0, 1)]).select(m=nw.col("n") + 1)
    counted = _recorded([(1, 0, 1)]).tumbling(5).sort(bounds=bounds, late=sw.Late.drop())
    steps = [
        [step.verb for step in _plan(stream, 1).pipelines[0].steps]
        for stream in (kept.sort(bounds=bounds), dropped.sort(bounds=bounds), counted.aggregate(n=sw.count()))
    ]
    assert steps == [["select", "where"], [], ["select"]]
    (way,) = _plan(counted.aggregate(n=sw.count()), 1).pipelines
    assert way.steps[0].schema.payload.names == ["who", "landed"]


@pytest.mark.parametrize(
    ("planned", "says"),
    [
        (
            lambda rows: rows.where(nw.col("n") > 0).in_bands(3, 9, bounds=sw.Bounds.delay(5), ahead=3),
            "hides the newest rows",
        ),
        (lambda rows: [rows.sort(bounds=sw.Bounds.in_order()).tumbling(5).aggregate(n=sw.count())], None),
        (
            lambda rows: rows.in_bands(3, 9, bounds=sw.Bounds.delay(5), every=sw.Every.rows(3)),
            "once for each micro-batch",
        ),
    ],
)
def test_what_shards_could_not_decide_alike_is_refused_with_the_reason(planned: Any, says: str | None) -> None:
    """Before Spark starts."""
    streams = planned(_recorded([(1, 0, 1)]))
    if says is None:
        assert _plan(streams, 1).shards == 1
        return
    with pytest.raises(PlanError, match=says):
        _plan(streams, 1)


_TIMES = pa.schema({"at": pa.timestamp("us", "UTC"), "who": pa.int64(), "n": pa.int64()})
_DAY = 24 * 3_600 * 1_000_000


def _at(seconds: Sequence[float], now: int) -> Round:
    rows = {"at": [int(one * 1_000_000) for one in seconds], "who": [0] * len(seconds), "n": range(len(seconds))}
    return now * 1_000_000, pa.table(rows).cast(_TIMES)


def _delayed(shards: int = 1, **options: Any) -> ShardPlan:
    stream = sw.stream(sw.PushSource(_TIMES), time="at").sort(bounds=sw.Bounds.delay("10s"), **options)
    return _plan(stream, shards)


def test_rows_that_waited_for_the_query_are_not_late() -> None:
    """After an hour in which it stood still; in process as in shards. What silence shows after that is complete."""
    rounds = [_at([1, 2], now=3), _at([20, 2_000, 3_590], now=3_600), _at([3_595, 3_580], now=3_601)]
    ran = _in_shards(_delayed(), rounds, Random(2), store=True)
    late = [row for output, rows in ran.out.items() if "main" not in output for row in rows]
    assert len(late) == 1
    assert "late_by" in late[0]

    def build(stream: sw.DisorderedStream) -> Any:
        return stream.sort(bounds=sw.Bounds.delay("10s"))

    assert _in_process(build, rounds) == ran


def test_timers_let_out_what_silence_shows_to_be_complete() -> None:
    """With a timeout shards look at the clock as often as that while something waits, and then no more."""
    plan = _delayed()
    shard = Shard(plan, timeout=5_000_000)
    (pack,) = packs_of(plan)
    now, rows = _at([98, 99], now=100)
    arrivals = Arrivals()
    for packed in packed_at(now, pack, rows):
        arrivals.add(packed)
    out = [batch.num_rows for _, batch in shard.on_micro_batch(arrivals, now)]
    looks = []
    while shard.look_again_at is not None:
        looks.append(shard.look_again_at // 1_000_000)
        (why,) = reasons_together([shard.why()])
        assert why.moves_next_at == shard.look_again_at
        out += [batch.num_rows for _, batch in shard.on_timer(shard.look_again_at)]
    assert (sum(out), looks) == (2, [105, 110])


@pytest.mark.parametrize("shards", [1, 3])
def test_timers_close_the_last_window_and_then_ring_no_more(shards: int) -> None:
    """It ends past the newest row; which shard has one open nobody else knows, so that all look until none can be."""
    stream = sw.stream(sw.PushSource(_TIMES), time="at").tumbling("1m").sort(bounds=sw.Bounds.delay("10s"))
    plan = _plan(stream.group_by("n").aggregate(of=sw.count()), shards)
    running = {key: Shard(plan, timeout=5_000_000) for key in shard_keys(shards)}
    (pack,) = packs_of(plan)
    now, rows = _at([98, 99], now=100)
    arrivals = {key: Arrivals() for key in running}
    for packed in packed_at(now, pack, rows):
        arrivals[packed.shard].add(packed)
    out = [batch for key, shard in running.items() for batch in shard.on_micro_batch(arrivals[key], now)]
    looks, came_out = [], []
    while (look := next(iter({shard.look_again_at for shard in running.values()}))) is not None:
        assert {shard.look_again_at for shard in running.values()} == {look}, "all look at the same instants"
        looks.append(look // 1_000_000)
        for shard in running.values():
            came_out += [(looks[-1], batch["of"].to_pylist()) for _, batch in shard.on_timer(look)]
    assert not out
    assert {at for at, _ in came_out} == {130}, "the window ends at 120, and rows come 10 s after their time"
    assert sum(sum(counts) for _, counts in came_out) == 2
    assert (looks[:2], looks[-1] < 100 + 10 + 2 * 60 + 10) == ([105, 110], True)


@pytest.mark.parametrize("first", ["bounds", "patience"])
def test_in_total_silence_a_stream_with_bounds_and_one_with_a_patience_wait_for_neither(first: str) -> None:
    """Whichever is behind: the one is complete as the clock shows, of the other the timeout takes it for so."""
    sources = [sw.PushSource(_TIMES, name=name) for name in ("bounds", "patience")]
    a, b = (sw.stream(source, time="at", name=source.name) for source in sources)
    union = a.sort(bounds=sw.Bounds.delay("1m"), late=sw.Late.drop()).union(b.sort("1s", late=sw.Late.drop()))
    plan = _plan(union, 1)
    shard, arrivals, out = Shard(plan, timeout=5_000_000), Arrivals(), []
    for pack, pipeline in zip(packs_of(plan), plan.pipelines, strict=True):
        now, rows = _at([90 if pipeline.source.name == first else 500], now=505)
        for packed in packed_at(now, pack, rows):
            arrivals.add(packed)
    out += [batch.num_rows for _, batch in shard.on_micro_batch(arrivals, now)]
    for _ in range(1_000):
        if shard.look_again_at is None:
            break
        out += [batch.num_rows for _, batch in shard.on_timer(shard.look_again_at)]
    assert (sum(out), shard.look_again_at) == (2, None)


def test_a_source_without_rows_is_silent_by_the_micro_batch_of_another() -> None:
    """The one that has rows brings the clock along."""
    sources = [sw.PushSource(_TIMES, name=name) for name in ("a", "b")]
    a, b = (sw.stream(one, time="at").sort(bounds=sw.Bounds.delay("10s"), late=sw.Late.drop()) for one in sources)
    plan = _plan(a.union(b), 1)
    shard = Shard(plan)
    packs = packs_of(plan)
    out = []
    for ways, seconds, when in ((packs, [98], 100), (packs[:1], [118], 120)):
        now, rows = _at(seconds, now=when)
        arrivals = Arrivals()
        for pack in ways:
            for packed in packed_at(now, pack, rows):
                arrivals.add(packed)
        out.append(sum(batch.num_rows for _, batch in shard.on_micro_batch(arrivals)))
    assert out == [0, 2]
