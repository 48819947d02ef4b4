"""Rows and groups that go by the heartbeat of their own source: which are late, and when each comes out."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import narwhals as nw
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.events.batch import punctuation_like
from slackwater.operators.by_origin.by_origin import ByOriginOperator
from slackwater.testing.oracles.by_origin import release_within_origins
from slackwater.testing.oracles.heartbeats import Skew, System, figure_2
from slackwater.testing.oracles.heartbeats.simulate import Sent, arrivals_of
from slackwater.testing.oracles.heartbeats.strategies import simulations, systems

if TYPE_CHECKING:
    from collections.abc import Callable

    from slackwater.testing.oracles.heartbeats.system import Arrival

_ROWS = pa.schema({"at": pa.int64(), "who": pa.int64(), "landed": pa.int64(), "n": pa.int64()})
_SMALL = simulations(systems(most_sources=3, missing=False), most_rows=30)
_WINDOW = 4


def _row(n: int, arrival: Arrival) -> dict[str, int]:
    landed, who, at = arrival
    return {"at": at, "who": who, "landed": landed, "n": n}


def _disturbed(arrivals: list[Arrival], data: st.DataObject) -> list[Arrival]:
    """The same rows with other times, so that bounds are broken."""
    drift = data.draw(st.lists(st.integers(-9, 9), min_size=len(arrivals), max_size=len(arrivals)))
    return [(tick, who, time + off) for (tick, who, time), off in zip(arrivals, drift, strict=True)]


# ---- while rows come -------------------------------------------------------------------------------------------------


def _by_clock(system: System) -> sw.Bounds:
    """Bounds on a stream whose rows arrive by the clock, which counts microseconds."""

    def bound(skew: Skew) -> sw.Bound:
        if skew.ticks is None:
            return sw.Bound(skew.delta, rows=skew.wait, strictly=True)
        return sw.Bound(skew.delta, timedelta(microseconds=skew.ticks), strictly=True)

    entries = {both: [bound(skew) for skew in pairs] for both, pairs in system.bounds.items()}
    latency: dict[Any, Any] = {who: timedelta(microseconds=ticks) for who, ticks in enumerate(system.latency)}
    return sw.Bounds(entries, latency=latency).only(*system.sources) & sw.Bounds.lull("1d")


def _tick_by_tick(
    plan: Callable[[sw.StreamByOrigin], Any], system: System, arrivals: list[Arrival], until: int, *, windows: bool
) -> tuple[list[list[dict[str, Any]]], list[dict[str, Any]]]:
    """What a live query sends at every tick, and its late rows."""
    clock, source = sw.ManualClock(0), sw.PushSource(_ROWS)
    stream = sw.stream(source, time="at", origin="who")
    stream = stream.tumbling(_WINDOW) if windows else stream
    sent: list[dict[str, Any]] = []
    late: list[dict[str, Any]] = []
    query = plan(stream.sort_within_origins(bounds=_by_clock(system))).open(
        lambda rows: sent.extend(rows.to_pylist()), clock=clock, on_late=lambda rows: late.extend(rows.to_pylist())
    )
    found = []
    for tick in range(until + 1):
        rows = [_row(n, arrival) for n, arrival in enumerate(arrivals) if arrival[0] == tick]
        if rows:
            source.push(rows)
        query.work()
        found.append(sent[:])
        sent.clear()
        clock.advance(1)
    query.close()
    return [*found, sent], late


@given(_SMALL, st.booleans())
def test_every_row_comes_out_at_the_tick_at_which_its_own_source_is_past_it(
    drawn: tuple[System, list[Sent]], windows: bool
) -> None:
    """And not one sooner, whoever else is behind; each source is in order. While bounds hold none is late."""
    system, sent = drawn
    arrivals = arrivals_of(sent)
    until = arrivals[-1][0] + 8
    released = release_within_origins(figure_2(system, arrivals, until), arrivals, _WINDOW if windows else 1)
    found, late = _tick_by_tick(lambda stream: stream, system, arrivals, until, windows=windows)
    assert not late
    for n in range(len(arrivals)):
        if n not in released.late:
            assert n in [row["n"] for row in found[released.at.get(n, until + 1)]]
    in_order = [(row["at"], row["n"]) for rows in found for row in rows]
    for source in system.sources:
        of_source = [
            one for one, who in zip(in_order, (arrivals[n][1] for _, n in in_order), strict=True) if who == source
        ]
        assert of_source == sorted(of_source)
    for rows in found:
        assert [row["at"] for row in rows] == sorted(row["at"] for row in rows), "what goes out together is in order"


@given(_SMALL)
def test_every_group_comes_out_at_the_tick_at_which_its_own_source_is_past_its_window(
    drawn: tuple[System, list[Sent]],
) -> None:
    """With all its rows, once."""
    system, sent = drawn
    arrivals = arrivals_of(sent)
    until = arrivals[-1][0] + 8
    released = release_within_origins(figure_2(system, arrivals, until), arrivals, _WINDOW)
    found, late = _tick_by_tick(
        lambda stream: stream.group_by("who").aggregate(n=sw.count(), most=sw.max("at")),
        system,
        arrivals,
        until,
        windows=True,
    )
    assert not late
    expected: list[dict[tuple[int, int], list[int]]] = [{} for _ in range(until + 2)]
    for n, (_, who, at) in enumerate(arrivals):
        if n not in released.late:
            group = (at - at % _WINDOW, who)
            expected[released.at.get(n, until + 1)].setdefault(group, []).append(at)
    answers = [{(row["window_start"], row["who"]): (row["n"], row["most"]) for row in rows} for rows in found]
    assert answers == [{group: (len(ats), max(ats)) for group, ats in of.items()} for of in expected]
    assert sum(map(len, found)) == sum(map(len, expected))


@given(_SMALL, st.integers(0, 3), st.integers(1, 5))
def test_bands_go_by_the_newest_row_of_their_own_source(
    drawn: tuple[System, list[Sent]], patience: int, longer: int
) -> None:
    """Each band as if how far rows may be behind those of their source were a bound like the others."""
    system, sent = drawn
    arrivals = arrivals_of(sent)
    until = arrivals[-1][0] + 8
    patiences = (patience, patience + longer)
    found, late = _tick_by_tick(
        lambda stream: stream.group_by("who").in_bands(*patiences, n=sw.count()), system, arrivals, until, windows=True
    )
    for band, wait in enumerate(patiences):
        # A patience counts from when rows arrive, however long they were under way.
        own = System((0,) * len(system.latency), {(i, i): (Skew(0, wait + 1),) for i in system.sources})
        beats = _furthest(figure_2(system, arrivals, until), figure_2(own, arrivals, until))
        released = release_within_origins(beats, arrivals, _WINDOW)
        expected: list[dict[tuple[int, int], int]] = [{} for _ in range(until + 2)]
        for n, (_, who, at) in enumerate(arrivals):
            if n not in released.late:
                group, when = (at - at % _WINDOW, who), expected[released.at.get(n, until + 1)]
                when[group] = when.get(group, 0) + 1
        answers = [
            {(row["window_start"], row["who"]): row["n"] for row in rows if row["band"] == band} for rows in found
        ]
        assert answers == expected
    assert {row["n"] for row in late} == released.late


def _furthest(one: list[list[int]], other: list[list[int]]) -> list[list[int]]:
    return [[max(both) for both in zip(*of_tick, strict=True)] for of_tick in zip(one, other, strict=True)]


# ---- by the clock, where bounds are broken ---------------------------------------------------------------------------


def _live(
    bounds: sw.Bounds, schema: pa.Schema = _ROWS
) -> tuple[sw.PushSource, sw.ManualClock, sw.Query, list[int], list[int]]:
    """A live query, and the numbers of the rows that it sends, and of those that are late."""
    clock, source = sw.ManualClock(0), sw.PushSource(schema)
    sent: list[int] = []
    late: list[int] = []
    stream = sw.stream(source, time="at", origin="who").sort_within_origins(bounds=bounds)
    query = stream.open(
        lambda rows: sent.extend(rows["n"].to_pylist()),
        clock=clock,
        on_late=lambda rows: late.extend(rows["n"].to_pylist()),
    )
    return source, clock, query, sent, late


@given(_SMALL, st.booleans(), st.data())
def test_by_the_clock_a_row_is_late_by_how_far_its_source_was_when_somebody_last_looked(
    drawn: tuple[System, list[Sent]], awake: bool, data: st.DataObject
) -> None:
    """That is at the last batch or, in a query that is awake, at the last wake; a row that breaks a bound may be late.

    Then it is counted, and its source is named. What nobody looked at in between makes no row late.
    """
    system, obeying = drawn
    arrivals = sorted(_disturbed(arrivals_of(obeying), data), key=lambda arrival: arrival[0])
    source, clock, query, sent, late = _live(_by_clock(system))
    looks: list[int] = []
    waking = ByOriginOperator.on_wake

    def on_wake(operator: ByOriginOperator, now: int) -> Any:
        looks.append(now)
        return waking(operator, now)

    last_look: dict[int, int | None] = {}
    with patch.object(ByOriginOperator, "on_wake", on_wake):
        for tick in range(arrivals[-1][0] + 1):
            rows = [_row(n, arrival) for n, arrival in enumerate(arrivals) if arrival[0] == tick]
            last_look |= dict.fromkeys((row["n"] for row in rows), max(looks, default=None))
            if rows:
                source.push(rows)
                query.step()
                looks.append(tick)
            if awake:
                query.work()
            clock.advance(1)
    beats = figure_2(system, arrivals, arrivals[-1][0])
    expected = {
        n for n, (_, who, at) in enumerate(arrivals) if (look := last_look[n]) is not None and at <= beats[look][who]
    }
    counters, (why,) = query.counters()["sort_within_origins#1"], query.why()
    query.close()
    assert set(late) == expected
    assert sorted([*sent, *late]) == list(range(len(arrivals)))
    assert counters.late == counters.broken_bounds == len(expected)
    whose = Counter(str(arrivals[n][1]) for n in expected)
    assert {name: int(what.split()[0]) for name, what in why.broken.items()} == whose


_TIMES = pa.schema({"at": pa.timestamp("us", "UTC"), "who": pa.string(), "n": pa.int64()})


def _timed(who: str, seconds: int, n: int) -> dict[str, Any]:
    return {"at": datetime.fromtimestamp(seconds, UTC), "who": who, "n": n}


@pytest.mark.parametrize("awake", [True, False])
def test_a_query_that_stood_still_takes_its_own_delay_for_no_silence(awake: bool) -> None:
    """A row breaks its bound, 10 s by the clock: it is late where somebody saw that time pass, and only there."""
    source, clock, query, sent, late = _live(sw.Bounds.delay("10s"), _TIMES)
    source.push([_timed("a", 0, 0)])
    query.step()
    clock.advance(60_000_000)
    if awake:
        query.work()
    source.push([_timed("a", 1, 1), _timed("a", 55, 2)])
    query.step()
    query.close()
    assert (late, sorted(sent)) == (([1], [0, 2]) if awake else ([], [0, 1, 2]))


def test_a_source_that_nobody_waits_for_goes_on_with_the_clock_of_the_others() -> None:
    """In silence, too: it waits for them alone, and the clock moves these."""
    source, clock, query, sent, _ = _live(sw.Bounds.delay(a="10s").only("a"), _TIMES)
    source.push([_timed("a", 0, 0), _timed("stranger", 20, 1)])
    query.work()
    clock.advance(15_000_000)
    query.work()
    assert sent == [0]
    clock.advance(60_000_000)
    query.work()
    assert sent == [0, 1]
    query.close()


# ---- with a column of arrivals ---------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:when all is silent")
def test_in_silence_each_band_is_looked_at_when_it_moves() -> None:
    """The stranger goes by the slowest of the others: in the first band by a and the clock, in the last by b."""
    after = sw.Bound(timedelta(seconds=5), timedelta(seconds=30))
    bounds = (sw.Bounds({("b", "b"): [after]}) & sw.Bounds.delay(a="10s")).only("a", "b")
    clock, source = sw.ManualClock(100_000_000), sw.PushSource(_TIMES)
    stream = sw.stream(source, time="at", origin="who").tumbling("1s")
    by_origin = stream.sort_within_origins(bounds=bounds, late=sw.Late.drop()).group_by("who")
    soon, later = by_origin.in_bands("1s", "60s", n=sw.count())
    sent: list[tuple[str, int]] = []
    query = sw.Query(
        [
            (soon, lambda rows: sent.extend((who, clock.now() // 1_000_000) for who in rows["who"].to_pylist())),
            (later, id),
        ],
        clock=clock,
    )
    source.push([_timed("a", 90, 0), _timed("b", 99, 0), _timed("stranger", 95, 0)])
    for _ in range(10):
        query.work()
        clock.advance(1_000_000)
    query.stop()
    assert sent == [("a", 101), ("stranger", 106)]


def _bounds(system: System) -> sw.Bounds:
    entries = {
        both: [
            sw.Bound(skew.delta, skew.ticks or 0, skew.wait if skew.ticks is None else 0, strictly=True)
            for skew in pairs
        ]
        for both, pairs in system.bounds.items()
    }
    return sw.Bounds(entries, latency=dict(enumerate(system.latency))).only(*system.sources)


def _stream(arrivals: list[Arrival], rows_of_a_batch: int = 1_000) -> sw.DisorderedStream:
    table = pa.Table.from_pylist([_row(n, arrival) for n, arrival in enumerate(arrivals)], schema=_ROWS)
    reader = pa.RecordBatchReader.from_batches(_ROWS, table.to_batches(max_chunksize=rows_of_a_batch))
    return sw.stream(reader, time="at", origin="who", arrived="landed")


@given(_SMALL, st.sampled_from([1, 3, 1_000]), st.data())
def test_late_rows_do_not_depend_on_how_arrivals_are_cut(
    drawn: tuple[System, list[Sent]], size: int, data: st.DataObject
) -> None:
    """A filter between source and sort makes no source look silent, and is no part of the late output."""
    system, sent = drawn
    arrivals = _disturbed(arrivals_of(sent), data)
    until = max(tick for tick, _, _ in arrivals)
    late = release_within_origins(figure_2(system, arrivals, until), arrivals).late
    kept = _stream(arrivals, size).where(nw.col("n") % 3 != 0)
    result = kept.sort_within_origins(bounds=_bounds(system), every=sw.Every.time(1)).run()
    rows = {n for n in range(len(arrivals)) if n % 3}
    assert set(result.late["n"].to_pylist()) == late & rows
    assert sorted(result.table["n"].to_pylist()) == sorted(rows - late)
    counters = result.counters["sort_within_origins#1"]
    assert (counters.late, counters.broken_bounds >= len(late)) == (len(late & rows), True)
    for row in result.late.to_pylist():
        assert row["late_by"] == row["late_bound"] - row["at"] > 0


@given(_SMALL, st.sampled_from([1, 3, 1_000]))
def test_where_bounds_hold_the_answers_are_those_of_one_order(drawn: tuple[System, list[Sent]], size: int) -> None:
    """Progress by origin changes when answers come, never what they are; in hopping windows, too."""
    system, sent = drawn
    arrivals, bounds = arrivals_of(sent), _bounds(system)
    one_order = _stream(arrivals).sort(bounds=bounds).hopping(6, 4).group_by("who").aggregate(n=sw.count())
    by_origin = _stream(arrivals, size).sort_within_origins(bounds=bounds).hopping(6, 4).group_by("who")
    found = by_origin.aggregate(n=sw.count()).run()
    assert sorted(map(str, found.table.to_pylist())) == sorted(map(str, one_order.run().table.to_pylist()))
    assert found.late.num_rows == 0


@given(_SMALL, st.integers(0, 30))
def test_a_snapshot_goes_on_as_if_nothing_had_happened(drawn: tuple[System, list[Sent]], at: int) -> None:
    """Of rows and of groups that wait, and of what is known of every source."""
    system, sent = drawn
    arrivals, bounds = arrivals_of(sent), _bounds(system)

    def plan(first: int, *, grouped: bool) -> sw.StreamByOrigin:
        stream = _stream(arrivals, 1) if first == 0 else _stream(arrivals[first:], 1)
        by_origin = stream.tumbling(3).sort_within_origins(bounds=bounds, every=sw.Every.time(1))
        return by_origin.group_by("who").aggregate(n=sw.count()) if grouped else by_origin.select("who", "at")

    for grouped in (True, False):
        undisturbed = plan(0, grouped=grouped).run().table.to_pylist()
        got: list[pa.RecordBatch] = []
        query = plan(0, grouped=grouped).open(got.append, on_late=id)
        steps = min(at, len(arrivals))
        for _ in range(steps):
            query.step()
        snapshot = query.snapshot()
        query.stop()
        resumed = plan(steps, grouped=grouped).open(got.append, on_late=id, resume=snapshot)
        resumed.close()
        assert [row for rows in got for row in rows.to_pylist()] == undisturbed


# ---- small examples --------------------------------------------------------------------------------------------------


def _sent(*rows: tuple[int, str, int], size: int = 1) -> sw.DisorderedStream:
    table = pa.Table.from_pylist([{"landed": landed, "who": who, "at": at} for landed, who, at in rows])
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=size))
    return sw.stream(reader, time="at", origin="who", arrived="landed")


_PAUSES = [(1, "b", 3), *((tick, "a", tick + 2) for tick in range(2, 40))]
"""One source pauses after its first row, and the other goes on."""


def test_a_source_that_pauses_holds_up_nobody_else() -> None:
    """In one order all rows wait for it; by origin, none but its own."""
    one_order = _sent(*_PAUSES).sort(bounds=sw.Bounds.in_order()).run()
    by_origin = _sent(*_PAUSES).sort_within_origins(bounds=sw.Bounds.in_order()).run()
    assert one_order.counters["sort#1"].peak_buffered > 30
    assert by_origin.counters["sort_within_origins#1"].peak_buffered < 5
    assert sorted(by_origin.table["at"].to_pylist()) == one_order.table["at"].to_pylist()


def test_sources_of_which_nothing_is_known_go_by_all_the_others() -> None:
    """They hold up nobody, and are late when all others are past them: nothing contradicts a punctuation."""
    rows = [(1, "a", 1), (2, "stranger", 9), (3, "a", 10), (4, "stranger", 4), (5, "a", 11), (6, "a", 20)]
    bounds = sw.Bounds({("a", "a"): [sw.Bound()]}).only("a")
    result = _sent(*rows).sort_within_origins(bounds=bounds, every=sw.Every.time(1)).run()
    assert result.late["at"].to_pylist() == [4]
    assert result.table["at"].to_pylist() == [1, 9, 10, 11, 20]
    query = _sent(*rows[:2], size=10).sort_within_origins(bounds=bounds, every=sw.Every.time(1)).open(id, on_late=id)
    query.step()
    stranger = query.why()[0].origins[1]
    assert (stranger.rule, stranger.ground) == ("as far as all sources that are waited for", sw.Grounds.PROVEN)
    query.stop()


def test_groups_that_go_out_with_their_batch_were_held_meanwhile() -> None:
    """The peak counts them."""
    query = _sent(*((tick, "a", 10 * tick) for tick in range(5)), size=5).tumbling(10)
    counts = query.sort_within_origins(bounds=sw.Bounds.in_order()).group_by("who").aggregate(n=sw.count())
    assert counts.run().counters["aggregate#1"].peak_buffered == 5


def test_a_punctuation_of_the_input_is_about_all_sources() -> None:
    """Whoever sent something releases what is older; one that is behind another changes nothing."""
    stream = _sent((1, "a", 3))
    ordered: Any = stream.sort_within_origins(bounds=sw.Bounds.in_order(), late=sw.Late.drop()).node
    operator = ordered.build("sort#1")
    columns = {"landed": [1, 1, 1, 1], "who": ["a", "b", "c", "d"], "at": [3, 8, 5, 9]}
    rows = stream.node.schema.read(pa.record_batch(columns), "here")
    found = []
    for batch in (rows, *(punctuation_like(rows.payload.slice(0, 0), bound) for bound in (6, 2, 9))):
        batches = operator.on_batch(0, batch).batches
        found.append([int(at) for one in batches for at in one.data().start])
    assert found == [[], [3, 5], [], [8]]
    assert operator.snapshot().complete_before == 9


def test_a_source_that_comes_later_may_begin_before_all_others() -> None:
    """Nothing was known of it, so nothing is late, and nothing may be punctuated before it came; in one order it is."""
    rows = [(1, "a", 10), (2, "a", 12), (3, "b", 3), (4, "a", 13), (5, "b", 4)]
    bounds, every = sw.Bounds.in_order(), sw.Every.time(1)
    by_origin = _sent(*rows).sort_within_origins(bounds=bounds, every=every).run()
    assert (sorted(by_origin.table["at"].to_pylist()), by_origin.late.num_rows) == ([3, 4, 10, 12, 13], 0)
    assert _sent(*rows).sort(bounds=bounds, every=every).run().late["at"].to_pylist() == [3, 4]


def test_the_whole_is_complete_up_to_the_slowest_source() -> None:
    """Where all sources are known, or something is known of those that have not come."""
    rows = [(1, "a", 10), (2, "b", 8), (3, "a", 12), (4, "a", 20)]
    for bounds in (sw.Bounds.in_order().only("a", "b"), sw.Bounds.in_order() & sw.Bounds.uniform(12)):
        query = _sent(*rows, size=10).sort_within_origins(bounds=bounds, every=sw.Every.time(1)).open(id, on_late=id)
        query.step()
        assert query.progress().complete_before == (8 if bounds.expected else 0)
        query.stop()


def test_why_names_the_slowest_sources_of_which_rows_wait() -> None:
    """Each with its own bound; those that hold nothing are not named, and of many the slowest five."""
    names = "abcdefgh"
    rows = [(1, who, place) for place, who in enumerate(names)] + [
        (2, who, 20 + place) for place, who in enumerate(names)
    ]
    rows.append((3, "z", 100))
    query = _sent(*rows, size=100).sort_within_origins(bounds=sw.Bounds.disorder(10)).open(id, on_late=id)
    query.step()
    (why,) = query.why()
    assert [origin.origin for origin in why.origins] == ["z", "a", "b", "c", "d"]
    first = why.origins[1]
    assert (first.complete_before, first.held, first.ground, first.sender) == (10, 1, sw.Grounds.PROVEN, "a")
    # The tick of z is not over, so nothing is known of it.
    assert (why.origins[0].ground, why.origins[0].held) == (sw.Grounds.NOTHING, 1)
    assert why.more_origins == 4
    shown = [line for line in str(why).splitlines() if line.startswith("  by origin")]
    bound = "proven by bounds: rows at most 10 behind those of the same source"
    assert shown[0] == "  by origin  z nothing complete, holds 1; nothing is complete yet"
    assert shown[1] == f"  by origin  a complete before 10, holds 1; {bound}; by a row of a at 20"
    assert shown[-1] == "  by origin  and 4 more hold something"
    query.stop()


def test_fleets_go_together() -> None:
    """Members of a fleet go by the heartbeat of the fleet, which is one source to bounds."""
    rows = [(1, "a", 5), (2, "b", 9), (3, "c", 1), (4, "a", 12), (5, "b", 12)]
    bounds = sw.Bounds.sensors({"a": 0, "b": 1, "c": 1}).in_fleets({"ab": ["a", "b"], "c": ["c"]})
    result = _sent(*rows).sort_within_origins(bounds=bounds, every=sw.Every.time(1)).run()
    assert result.table.num_rows + result.late.num_rows == 5
    bands = _sent(*rows).tumbling(5).sort_within_origins(bounds=bounds).group_by("who").in_bands(1, n=sw.count())
    (of_band,) = bands.run()
    assert sum(of_band.table["n"].to_pylist()) + of_band.late.num_rows == 5


@pytest.mark.parametrize("kind", [pa.dictionary(pa.int8(), pa.string()), pa.string_view(), pa.large_string()])
def test_the_origin_may_be_a_column_of_any_kind(kind: pa.DataType) -> None:
    """Narrow dictionaries, which are widened on the way, too."""
    table = pa.table({"at": [1, 2, 12], "who": pa.array(["a", None, "a"]).cast(kind), "landed": [1, 2, 3]})
    by_origin = (
        sw.stream(table, time="at", origin="who", arrived="landed")
        .tumbling(10)
        .sort_within_origins(bounds=sw.Bounds.in_order())
    )
    answers = by_origin.group_by("who").aggregate(n=sw.count()).run().table
    assert sorted(map(str, answers["who"].to_pylist())) == ["None", "a", "a"]


def test_rows_without_a_time_are_late() -> None:
    """Whatever their source has reached; they move nothing."""
    table = pa.table({"at": pa.array([5, None, 9]), "who": ["a", "a", "a"], "landed": [1, 2, 3]})
    stream = sw.stream(table, time="at", origin="who", arrived="landed", untimed_is_late=True)
    result = stream.sort_within_origins(bounds=sw.Bounds.in_order()).run()
    assert result.table["at"].to_pylist() == [5, 9]
    assert result.late.to_pylist() == [{"at": None, "who": "a", "landed": 2, "late_bound": None, "late_by": None}]


def test_late_rows_may_be_dropped_or_refused() -> None:
    """As in one order."""
    rows = [(1, "a", 9), (2, "a", 12), (3, "a", 2)]
    bounds = sw.Bounds.in_order()
    dropped = _sent(*rows).sort_within_origins(bounds=bounds, every=sw.Every.time(1), late=sw.Late.drop()).run()
    assert (dropped.table["at"].to_pylist(), dropped.counters["sort_within_origins#1"].late) == ([9, 12], 1)
    with pytest.raises(sw.errors.LateEvent):
        _sent(*rows).sort_within_origins(bounds=bounds, every=sw.Every.time(1), late=sw.Late.raise_error()).run()
