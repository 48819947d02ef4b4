"""Heartbeats in a stream: what is complete before each row, what is late, and what silence lets go."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import narwhals as nw
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.operators.heartbeats.heartbeats import HeartbeatsOperator
from slackwater.progress.instants import BEGINNING
from slackwater.testing.oracles.heartbeats import NOTHING_YET, Skew, System, figure_2, overall
from slackwater.testing.oracles.heartbeats.simulate import Sent, arrivals_of
from slackwater.testing.oracles.heartbeats.strategies import simulations, systems

_ROWS = pa.schema({"at": pa.int64(), "who": pa.int64(), "landed": pa.int64(), "n": pa.int64()})


def _bounds(system: System) -> sw.Bounds:
    entries = {
        both: [
            sw.Bound(skew.delta, skew.ticks or 0, skew.wait if skew.ticks is None else 0, strictly=True)
            for skew in pairs
        ]
        for both, pairs in system.bounds.items()
        if pairs
    }
    return sw.Bounds(entries, latency=dict(enumerate(system.latency))).only(*system.sources)


def _table(arrivals: list[tuple[int, int, int]]) -> pa.Table:
    rows = [{"at": time, "who": who, "landed": tick, "n": n} for n, (tick, who, time) in enumerate(arrivals)]
    return pa.Table.from_pylist(rows, schema=_ROWS)


def _late_by_the_paper(system: System, arrivals: list[tuple[int, int, int]]) -> list[int]:
    """Rows at or behind the least heartbeat of the tick before their own."""
    least = overall(figure_2(system, arrivals, max(tick for tick, _, _ in arrivals)))
    before = [least[tick - 1] if tick else NOTHING_YET for tick, _, _ in arrivals]
    return [n for n, ((_, _, time), beat) in enumerate(zip(arrivals, before, strict=True)) if time <= beat]


_SMALL = simulations(systems(most_sources=3, missing=False), most_rows=30)


@given(_SMALL, st.booleans(), st.data())
def test_late_is_what_the_paper_rules_out_and_nothing_else(
    drawn: tuple[System, list[Sent]], broken: bool, data: st.DataObject
) -> None:
    """Where bounds hold nothing is late; where a source breaks them the rows behind the least heartbeat are."""
    system, sent = drawn
    arrivals = arrivals_of(sent)
    if broken:
        drift = data.draw(st.lists(st.integers(-9, 9), min_size=len(arrivals), max_size=len(arrivals)))
        arrivals = [(tick, who, time + off) for (tick, who, time), off in zip(arrivals, drift, strict=True)]
    stream = sw.stream(_table(arrivals), time="at", origin="who", arrived="landed")
    result = stream.sort(bounds=_bounds(system), every=sw.Every.time(1)).run()
    late = sorted(result.late["n"].to_pylist())
    assert late == _late_by_the_paper(system, arrivals)
    assert broken or not late
    in_time = sorted((row for n, row in enumerate(arrivals) if n not in set(late)), key=lambda row: row[2])
    assert result.table["at"].to_pylist() == [time for _, _, time in in_time]
    assert sum(one.broken_bounds for one in result.counters.values()) >= len(late)


def _by_clock(skew: Skew) -> sw.Bound:
    """A bound on a stream whose rows arrive by the clock, which counts microseconds."""
    if skew.ticks is None:
        return sw.Bound(skew.delta, rows=skew.wait, strictly=True)
    return sw.Bound(skew.delta, timedelta(microseconds=skew.ticks), strictly=True)


@given(_SMALL)
def test_a_live_stream_is_complete_at_each_instant_as_far_as_the_paper_says(drawn: tuple[System, list[Sent]]) -> None:
    """A batch is an instant of the clock; between batches the clock alone moves what waits."""
    system, sent = drawn
    arrivals = arrivals_of(sent)
    until = arrivals[-1][0] + 8
    least = overall(figure_2(system, arrivals, until))
    clock, source = sw.ManualClock(0), sw.PushSource(_ROWS)
    micro = {both: [_by_clock(skew) for skew in pairs] for both, pairs in system.bounds.items()}
    latency: dict[Any, Any] = {who: timedelta(microseconds=ticks) for who, ticks in enumerate(system.latency)}
    bounds = sw.Bounds(micro, latency=latency).only(*system.sources)
    stream = sw.stream(source, time="at", origin="who").sort(bounds=bounds & sw.Bounds.lull("1d"))
    query = stream.open(id, clock=clock, on_late=id)
    for tick in range(until + 1):
        rows = [{"at": time, "who": who, "landed": 0, "n": 0} for at, who, time in arrivals if at == tick]
        if rows:
            source.push(rows)
        query.work()
        beat = least[tick]
        expected = BEGINNING if beat == NOTHING_YET else beat + 1
        step = next(step for step in query._runner._graph.steps if step.name == "heartbeats#1")
        assert isinstance(step.operator, HeartbeatsOperator)
        assert step.operator.generator.complete_before == expected
        clock.advance(1)
    query.stop()


def _stream(rows: list[tuple[int, str, int]], **options: Any) -> sw.DisorderedStream:
    table = pa.Table.from_pylist([{"landed": landed, "who": who, "at": at} for landed, who, at in rows])
    return sw.stream(table, time="at", origin="who", arrived="landed", **options)


@pytest.mark.parametrize("tick", [1, 4])
def test_rows_ahead_of_the_clock_move_nothing_and_go_to_the_late_output(tick: int) -> None:
    """One fast clock makes no honest row late."""
    rows = [(10, "a", 9), (11, "b", 5_000), (12, "a", 11), (13, "b", 12)]
    bounds = sw.Bounds.delay(5)
    result = _stream(rows).sort(bounds=bounds, patience=5, ahead=3, every=sw.Every.time(tick)).run()
    assert result.table["at"].to_pylist() == [9, 11, 12]
    ahead = next(table for table in result.late_by_source.values() if table.num_rows)
    assert ahead.to_pylist() == [{"landed": 11, "who": "b", "at": 5_000, "latest_allowed": 14, "ahead_by": 4_986}]
    without = _stream(rows).sort(bounds=bounds, patience=5, every=sw.Every.time(1)).run()
    assert without.table["at"].to_pylist() == [9, 5_000], "which is what the guard is for"


@pytest.mark.parametrize("late", [sw.Late.raise_error(), sw.Late.adjust()])
def test_rows_ahead_of_the_clock_are_diverted_or_dropped(late: sw.Late) -> None:
    """There is no bound that they could be moved to; and one broken clock should not end a query."""
    with pytest.raises(PlanError, match="diverted or dropped"):
        _stream([(1, "a", 1)]).sort(bounds=sw.Bounds.delay(5), ahead=3, late=late)
    dropped = _stream([(1, "a", 50)]).sort(bounds=sw.Bounds.delay(5), ahead=3, late=sw.Late.drop()).run()
    assert (dropped.table.num_rows, dropped.counters["heartbeats#1"].late) == (0, 1)


def _one_by_one(rows: list[tuple[int, str, int]]) -> sw.DisorderedStream:
    """The same, every row in a batch of its own."""
    table = pa.Table.from_pylist([{"landed": landed, "who": who, "at": at} for landed, who, at in rows])
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=1))
    return sw.stream(reader, time="at", origin="who", arrived="landed")


def test_a_filter_does_not_make_a_source_look_silent() -> None:
    """Heartbeats are made of all rows, those that a later step drops included."""
    rows = [(2 * tick + (who == "b"), who, tick) for tick in range(1, 40) for who in ("a", "b")]
    stream = _one_by_one(rows).where(nw.col("who") == "a").sort(bounds=sw.Bounds.in_order().only("a", "b"))
    result = stream.run()
    assert result.table["at"].to_pylist() == list(range(1, 40))
    assert result.counters["sort#1"].peak_buffered < 5


def test_silence_lets_the_last_rows_go_while_the_query_runs() -> None:
    """By a delay of the clock, though no row ever comes again."""
    clock, source = sw.ManualClock(0), sw.PushSource({"at": pa.timestamp("us", "UTC"), "x": pa.int64()})
    stream = sw.stream(source, time="at").sort(bounds=sw.Bounds.delay("5s"))
    got: list[int] = []
    query = stream.open(lambda rows: got.extend(rows["x"].to_pylist()), clock=clock, on_late=print)
    clock.advance(3_000_000)
    source.push([{"at": datetime(1970, 1, 1, 0, 0, second, tzinfo=UTC), "x": x} for second, x in ((2, 1), (1, 2))])
    query.work()
    assert got == []
    for _ in range(8):
        clock.advance(500_000)
        query.work()
    assert got == [2, 1]
    query.stop()


def test_a_source_that_never_sent_anything_does_not_stall_the_others() -> None:
    """Where an assumption covers it, or another source's rows do."""
    rows = [(tick, "a", tick) for tick in range(1, 30)]
    idle = sw.Bounds.in_order() & sw.Bounds.idle(5)
    stalled = _one_by_one(rows).sort(bounds=(sw.Bounds.in_order() & sw.Bounds.lull(1_000)).only("a", "b"))
    covered = _one_by_one(rows).sort(bounds=idle.only("a", "b"))
    got: dict[str, int] = {}
    for name, stream in (("stalled", stalled), ("covered", covered)):
        result = stream.run()
        got[name] = result.counters["sort#1"].peak_buffered
    assert got["covered"] < got["stalled"] == 29


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        (sw.Bounds({("a", "a"): [sw.Bound()], ("a", "b"): [sw.Bound(3)]}) & sw.Bounds.in_order(), ""),
        (sw.Bounds({("a", "b"): [sw.Bound(3)]}), "nothing would ever be complete"),
    ],
)
def test_bounds_that_never_let_anything_be_complete_are_refused(bounds: sw.Bounds, says: str) -> None:
    """With the source of which nothing is known."""
    stream = _stream([(1, "a", 1)])
    if not says:
        stream.sort(bounds=bounds)
        return
    with pytest.raises(PlanError, match=says):
        stream.sort(bounds=bounds)


def test_bounds_that_need_a_clock_are_refused_on_a_source_that_ends() -> None:
    """A file does not say when its rows came, unless a column does."""
    table = pa.table({"at": pa.array([1], pa.timestamp("us")), "who": ["a"]})
    with pytest.raises(PlanError, match="when rows arrived"):
        sw.stream(table, time="at", origin="who").sort(bounds=sw.Bounds.delay("5s"))
    assert sw.stream(table, time="at", origin="who").sort(bounds=sw.Bounds.uniform("5s")).run().table.num_rows == 1


def test_bounds_on_streams_without_origin_name_no_sources() -> None:
    """Nobody could know whose rows are whose."""
    with pytest.raises(PlanError, match="nobody says which row is whose"):
        sw.stream([{"at": 1}], time="at").sort(bounds=sw.Bounds.sensors({"a": 1}))


def test_a_source_that_the_column_cannot_hold_is_refused_when_the_plan_is_made() -> None:
    """A name where the column has numbers is a mistake, not a source that never sends."""
    table = pa.table({"at": [1], "who": pa.array([7], pa.int16()), "landed": [1]})
    stream = sw.stream(table, time="at", origin="who", arrived="landed")
    with pytest.raises(PlanError, match="cannot hold"):
        stream.sort(bounds=sw.Bounds.delay(5, JFK=9))
    with pytest.raises(PlanError, match="cannot hold"):
        stream.sort(bounds=sw.Bounds.sensors({7: 3}).in_fleets({"all": [7, 100_000]}))


def test_fleets_are_waited_for_and_named_as_one() -> None:
    """Whatever type the column has; a source that is in none is one by itself, of which nothing is known."""
    rows = [{"landed": tick, "who": who, "at": tick} for tick, who in enumerate([1, 2, 3, 1, 2, 1, 9], 1)]
    table = pa.Table.from_pylist(rows, schema=pa.schema({"landed": pa.int64(), "who": pa.int16(), "at": pa.int64()}))
    fleets = {"north": [1, 2], "south": [3]}
    bounds = sw.Bounds.sensors({1: 0, 2: 1, 3: 2}).in_fleets(fleets)
    query = sw.stream(table, time="at", origin="who", arrived="landed").sort(bounds=bounds).open(id, on_late=id)
    query.step()
    (why,) = query.why()
    # The last tick is not over. Of "south" it is known that it is at most 1 + 2 behind the sixth row.
    assert (why.source, why.complete_before) == ("south", 3)
    query.close()
    assert query.counters()["sort#1"].rows_out == 7


def test_a_live_stream_whose_last_rows_would_be_held_is_warned_of() -> None:
    """Theorem 3.3, when the plan is made."""
    source = sw.PushSource({"at": pa.int64()})
    with pytest.warns(UserWarning, match="the last rows"):
        sw.stream(source, time="at").sort(bounds=sw.Bounds.in_order())


@pytest.mark.parametrize(
    ("bounds", "whose"),
    [
        (sw.Bounds.in_order(), "of any source are"),
        (sw.Bounds.in_order(strictly=True), "of any source, waiting for another source, are"),
        (sw.Bounds.disorder(5).only("a", "b"), "of a are"),
        (sw.Bounds.in_order(strictly=True).only("a", "b"), "of a, waiting for b, are"),
    ],
)
def test_the_warning_names_whose_rows_are_held_and_who_is_waited_for(bounds: sw.Bounds, whose: str) -> None:
    """In words that fit bounds that name sources and such that name none."""
    source = sw.PushSource({"at": pa.int64(), "who": pa.string()})
    with pytest.warns(UserWarning, match=f"the last rows {whose} "):
        sw.stream(source, time="at", origin="who").sort(bounds=bounds)


def test_why_names_the_source_the_bound_the_row_and_what_is_held() -> None:
    """While a query runs, as a value and as text."""
    rows = [(10, "a", 5), (11, "b", 3), (12, "a", 9)]
    bounds = sw.Bounds({("a", "a"): [sw.Bound()], ("b", "b"): [sw.Bound()], ("a", "b"): [sw.Bound(1, after=4)]})
    query = _stream(rows).sort(bounds=bounds, every=sw.Every.time(1)).open(id, on_late=id)
    query.step()
    (why,) = query.why()
    assert (why.complete_before, why.newest, why.source, why.sender, why.time) == (3, 9, "b", "b", 3)
    assert (why.ground, why.rule, why.arrived, why.moves_next_at) == (sw.Grounds.PROVEN, "b -> b: not older", 11, 14)
    assert "waits for  b" in str(why)
    assert why.held == {"sort#1": 3}
    query.stop()


def test_a_row_that_breaks_a_bound_is_counted_with_its_entry_late_or_not() -> None:
    """B is a strictly ordered source whose rows come twice; the stream is not past them, since a lags."""
    rows = [(1, "a", 1), (2, "b", 9), (3, "b", 9), (4, "a", 2)]
    bounds = sw.Bounds({("a", "a"): [sw.Bound()], ("b", "b"): [sw.Bound(strictly=True)]})
    query = _stream(rows).sort(bounds=bounds, every=sw.Every.time(1)).open(id, on_late=id)
    query.step()
    (why,) = query.why()
    assert why.broken == {"b": "1 rows, the last at 9: b -> b: newer"}
    query.close()
    counters = query.counters()
    assert counters["heartbeats#1"].broken_bounds == 1
    assert sum(one.late for one in counters.values()) == 0


@pytest.mark.parametrize(
    ("bounds", "ground", "rule"),
    [
        (sw.Bounds.delay(5, b=9), sw.Grounds.PROVEN, "rows arrive at most 5 to 9 after their time"),
        (
            sw.Bounds.in_order() & sw.Bounds.idle(2),
            sw.Grounds.ASSUMED,
            "a source that is silent for 2 has nothing older",
        ),
    ],
)
def test_why_says_by_the_clock_or_by_an_assumption_and_how_long(
    bounds: sw.Bounds, ground: sw.Grounds, rule: str
) -> None:
    """Whoever reads it must be able to say whether that is true."""
    rows = [(10, "a", 5), (10, "b", 3), (20, "a", 19)]
    query = _stream(rows).sort(bounds=bounds.only("a", "b"), every=sw.Every.time(1)).open(id, on_late=id)
    query.step()
    (why,) = query.why()
    assert (why.ground, why.rule) == (ground, rule)
    query.stop()


def test_a_patience_says_why_too() -> None:
    """A stream without bounds waits for as long as the patience."""
    query = sw.stream([{"at": 1}, {"at": 9}], time="at").sort(patience=3).open(id, on_late=id)
    query.step()
    (why,) = query.why()
    assert (why.complete_before, why.ground, why.rule) == (6, sw.Grounds.PATIENCE, "patience 3")


def test_a_source_that_punctuates_is_why_and_not_the_patience() -> None:
    """What the input says to be complete nobody waits for."""
    clock, source = sw.ManualClock(0), sw.PushSource({"at": pa.timestamp("us", "UTC")})
    stream = sw.stream(source, time="at", punctuations=sw.Punctuations.periodic("1s", skew="2s"))
    query = stream.sort("1h").open(id, on_late=id, clock=clock)
    source.push({"at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)})
    query.work()
    clock.advance(9_000_000)
    query.work()
    assert [why.ground for why in query.why()] == [sw.Grounds.PUNCTUATED]
    query.stop()


def _cut_off() -> list[tuple[int, str, int]]:
    """B is silent for a while, then sends what it has had all the time, in order."""
    a = [(tick, "a", tick) for tick in range(100)]
    b = [(tick if tick < 20 or tick >= 60 else 60, "b", tick) for tick in range(100)]
    return sorted([*a, *b])


_CUT_OFF_FOR = sw.Bounds.delay({"a": 0, "b": 40})


def test_bounds_make_patient_bands_complete_sooner_and_lose_nothing() -> None:
    """What is proven complete no band waits for; the first band stays as soon as its patience lets it be."""
    windows = _stream(_cut_off()).tumbling(10)
    soon, final = windows.in_bands(5, 10_000, bounds=_CUT_OFF_FOR, n=sw.count(), late=sw.Late.divert()).run()
    assert final.table["n"].to_pylist() == [20] * 10
    assert sum(soon.table["n"].to_pylist()) < 200
    held = windows.in_bands(5, 10_000, n=sw.count()).run()[1]
    assert final.counters["in_bands#1"].peak_buffered <= held.counters["in_bands#1"].peak_buffered


def test_early_answers_are_final_when_bounds_say_so() -> None:
    """And are the same in the end as with all rows at hand."""
    windows = _stream(_cut_off()).tumbling(10)
    early = windows.group_by("who").aggregate_early(bounds=_CUT_OFF_FOR, n=sw.count()).settle().run()
    assert early.table["n"].to_pylist() == [10] * 20
    assert early.late.num_rows == 0


def test_deduplicate_waits_as_bounds_say() -> None:
    """Rows of the source that was cut off repeat those of the other, and are no more late than any."""
    named = _stream(_cut_off()).select("landed", "who", frame=nw.col("at"))
    result = named.deduplicate(on="frame", within=50, bounds=_CUT_OFF_FOR).run()
    assert result.table["at"].to_pylist() == list(range(100))
    assert result.late.num_rows == 0


def test_an_idle_timeout_loses_what_bounds_keep() -> None:
    """The complaint that all this answers: the rows of the pause."""
    rows = _cut_off()
    kept = _stream(rows).sort(bounds=_CUT_OFF_FOR).run()
    idle = _stream(rows).sort(bounds=sw.Bounds.in_order() & sw.Bounds.idle(10)).run()
    assert (kept.table.num_rows, kept.late.num_rows) == (200, 0)
    assert idle.late.num_rows > 20
    assert idle.table.num_rows + idle.late.num_rows == 200


def test_in_silence_each_tick_is_looked_at() -> None:
    """Where a tick is as long as anybody wants to wait between two looks."""
    kind = pa.timestamp("us", "UTC")
    source = sw.PushSource(pa.schema({"at": kind, "landed": kind}))
    stream = sw.stream(source, time="at", arrived="landed").sort(bounds=sw.Bounds.delay("1h"))
    query = stream.open(id, clock=sw.ManualClock(100_000_000), on_late=id)
    for landed in (100, 1_000):
        source.push([{"at": datetime.fromtimestamp(99, UTC), "landed": datetime.fromtimestamp(landed, UTC)}])
        query.step()
    (operator,) = (one.operator for one in query._runner._graph.steps if isinstance(one.operator, HeartbeatsOperator))
    grid = operator._settings.grid
    assert operator._settings.wakes_every == grid
    assert operator.wakes_at() == (operator.generator.tick + 1) * grid
    query.stop()
