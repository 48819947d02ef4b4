"""in_bands() as users type it: a stream for each patience, of events, ready aggregates, or a query of their own."""

from __future__ import annotations

import dataclasses
import pickle
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import BadDuration, LateEvent, PlanError, SchemaMismatch
from slackwater.events.elements import Insert
from slackwater.testing.oracles.punctuate import punctuate_oracle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from slackwater.events.elements import Element

_SCHEMA = pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64()})
_ROW = sw.Every.rows(1)
_START = datetime(2026, 11, 15, 10, tzinfo=UTC)


def _rows(*times: int) -> pa.Table:
    """Rows with these times, in this order, with keys in turn and numbered."""
    n = len(times)
    return pa.table({"at": times, "k": ["abc"[i % 3] for i in range(n)], "v": list(range(n))}, schema=_SCHEMA)


def _stream(*times: int) -> sw.DisorderedStream:
    return sw.stream(_rows(*times), time="at")


def _disordered(n: int, seed: int = 5) -> list[int]:
    """Times of which some are late by a few, some by tens and some by hundreds."""
    rng = Random(seed)
    lateness = [0, 0, 0, 3, 30, 300]
    return [10 * i - rng.randrange(1 + rng.choice(lateness)) for i in range(n)]


def _times(table: pa.Table) -> list[int]:
    return table.column("at").to_pylist()


def _as_multiset(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    return Counter(map(repr, rows))


def _without_band(table: pa.Table) -> pa.Table:
    return table.drop_columns(["band"])


def _split(times: Sequence[int], patiences: Sequence[int], every: sw.Every, late: sw.Late) -> list[list[int]]:
    """The numbers of the rows that the oracle gives to each band, and to no band last."""
    rows = [Insert((n,), at, at + 1) for n, at in enumerate(times)]
    split = punctuate_oracle([rows], patiences, every.resolved(calendar=False), late, points=True)
    outputs: list[Sequence[Element]] = [*split.bands, split.diverted]
    return [[_number(element) for element in emitted if isinstance(element, Insert)] for emitted in outputs]


def _number(row: Insert) -> int:
    assert isinstance(row.payload, tuple)
    return int(row.payload[0])


# ---- bands of events ------------------------------------------------------------------------------------------------


def test_each_stream_has_the_events_that_are_no_later_than_its_patience() -> None:
    """In order; exactly at a bound is on time for it. What is later than all goes to the late output."""
    soon, fuller, final = _stream(1_000, 999, 998, 940, 939, 900, 899).in_bands(1, 60, 100, every=_ROW)
    results = sw.run_together(soon, fuller, final)
    assert [_times(result.table) for result in results] == [
        [999, 1_000],
        [940, 998, 999, 1_000],
        [900, 939, 940, 998, 999, 1_000],
    ]
    for result in results:
        assert result.late.to_pylist() == [{"at": 899, "k": "a", "v": 6, "late_bound": 900, "late_by": 1}]


@given(
    times=st.lists(st.integers(0, 60), max_size=40),
    patiences=st.sets(st.integers(0, 50), min_size=1, max_size=4).map(sorted),
    every=st.sampled_from([_ROW, sw.Every.rows(4), sw.Every.time(7), None]),
)
def test_every_stream_has_what_the_oracle_splits_to_its_band_and_those_before(
    times: list[int], patiences: list[int], every: sw.Every | None
) -> None:
    """In order of time, and ties of one band in order of arrival; together nothing is lost or doubled."""
    streams = _stream(*times).in_bands(*patiences, every=every)
    results = streams.run()
    cadence = every or sw.Every.time(max(1, patiences[0] // 10))
    *bands, late = _split(times, patiences, cadence, sw.Late.divert())
    for band, result in enumerate(results):
        numbers = result.table.column("v").to_pylist()
        assert _times(result.table) == sorted(_times(result.table))
        assert sorted(numbers) == sorted(number for split in bands[: band + 1] for number in split)
        for split in bands[: band + 1]:
            ours = [number for number in numbers if number in split]
            assert ours == sorted(split, key=times.__getitem__)
        assert result.late.column("v").to_pylist() == late


def test_one_band_is_a_sort() -> None:
    """The same rows, the same late rows."""
    times = _disordered(200)
    (band,) = _stream(*times).in_bands(40)
    one, other = band.run(), _stream(*times).sort(40).run()
    assert one.table.equals(other.table)
    assert one.late.equals(other.late)


def test_events_come_as_early_as_their_patience_allows() -> None:
    """A live stream, row by row: stream 0 is a second behind, stream 1 a minute."""
    source = sw.PushSource(_SCHEMA)
    soon, final = sw.stream(source, time="at").in_bands(1, 60, every=_ROW)
    seen: tuple[list[int], list[int]] = ([], [])
    query = sw.Query(
        [(stream, _into(times)) for stream, times in zip((soon, final), seen, strict=True)],
        clock=sw.ManualClock(),
        on_late=lambda _: None,
    )
    for at, early, full in (
        (100, [], []),
        (101, [], []),
        (102, [100], []),
        (50, [100], []),
        (130, [100, 101, 102], [50]),
        (162, [100, 101, 102, 130], [50, 100, 101, 102]),
    ):
        source.push({"at": at, "k": "a", "v": 0})
        query.work()
        assert seen == (early, full)
    query.close()
    assert seen == ([100, 101, 102, 130, 162], [50, 100, 101, 102, 130, 162])


def _into(seen: list[int]) -> Callable[[pa.RecordBatch], None]:
    return lambda rows: seen.extend(rows.column("at").to_pylist())


# ---- bands of ready aggregates --------------------------------------------------------------------------------------

_AGGREGATES: dict[str, Any] = {
    "n": sw.count(),
    "total": sw.sum("v"),
    "least": sw.min("v"),
    "most": sw.max("v"),
    "mean": sw.mean("v"),
    "kinds": sw.count_distinct("k"),
    "top": sw.top_k("v", 3),
}


@pytest.mark.parametrize("keys", [(), ("k",)], ids=str)
@pytest.mark.parametrize("every", [_ROW, sw.Every.time(25), None], ids=str)
def test_every_band_sums_up_what_the_stream_of_its_events_has(keys: tuple[str, ...], every: sw.Every | None) -> None:
    """All aggregates, by window and key: as if each stream of the basic framework were aggregated by itself."""
    stream = _stream(*_disordered(400)).tumbling(50)
    ready = stream.group_by(*keys).in_bands(10, 100, 250, every=every, **_AGGREGATES)
    basic = stream.in_bands(10, 100, 250, every=every)
    for band, (one, other) in enumerate(zip(ready.run(), basic, strict=True)):
        expected = other.group_by(*keys).aggregate(**_AGGREGATES).run()
        assert set(one.table.column("band").to_pylist()) == {band}
        assert _as_multiset(_without_band(one.table).to_pylist()) == _as_multiset(expected.table.to_pylist())
        starts = one.table.column("window_start").to_pylist()
        assert starts == sorted(starts)
        # Alone, a stream takes for late what comes too late for it; together, what is too late for the last.
        alone, together = expected.late.num_rows, one.late.num_rows
        assert alone == together > 0 if band == len(basic) - 1 else alone > together


def test_the_last_band_is_the_answer_over_all_events_if_it_waits_long_enough() -> None:
    """Nothing is late then, and the early bands differ from it."""
    stream = _stream(*_disordered(300))
    early, final = stream.tumbling(50).group_by("k").in_bands(5, 1_000, n=sw.count(), total=sw.sum("v"))
    expected = stream.sort().tumbling(50).group_by("k").aggregate(n=sw.count(), total=sw.sum("v")).run().table
    first, last = sw.run_together(early, final)
    assert _as_multiset(_without_band(last.table).to_pylist()) == _as_multiset(expected.to_pylist())
    assert last.late.num_rows == 0
    assert sum(first.table.column("n").to_pylist()) < sum(last.table.column("n").to_pylist()) == 300


def test_hopping_windows_are_counted_in_bands() -> None:
    """An event falls into several windows, and is checked once."""
    stream = _stream(*_disordered(200))
    results = stream.hopping(60, 20).in_bands(10, 90, n=sw.count()).run()
    for result, band in zip(results, stream.in_bands(10, 90), strict=True):
        expected = band.hopping(60, 20).aggregate(n=sw.count()).run().table
        assert _without_band(result.table).to_pylist() == expected.to_pylist()


def test_events_without_windows_are_counted_per_instant() -> None:
    """A point is a window of its own."""
    early, final = _stream(5, 5, 9, 5, 4).in_bands(0, 10, every=_ROW, n=sw.count())
    assert [(row["at"], row["n"]) for row in early.run().table.to_pylist()] == [(5, 2), (9, 1)]
    assert [(row["at"], row["n"]) for row in final.run().table.to_pylist()] == [(4, 1), (5, 3), (9, 1)]


def test_early_answers_come_early_and_memory_holds_counts() -> None:
    """Window by window while the stream flows; of a thousand events one group waits for the last band."""
    source = sw.PushSource(_SCHEMA)
    streams = sw.stream(source, time="at").tumbling(10).in_bands(2, 500, every=_ROW, n=sw.count())
    rows: list[tuple[int, int, int]] = []
    query = streams.open(
        lambda batch: rows.extend((row["band"], row["window_start"], row["n"]) for row in batch.to_pylist()),
        on_late=lambda _: None,
        clock=sw.ManualClock(),
    )
    source.push([{"at": i % 10, "k": "a", "v": 0} for i in range(1_000)])
    source.push({"at": 11, "k": "a", "v": 0})
    query.work()
    assert rows == []
    source.push({"at": 12, "k": "a", "v": 0})
    query.work()
    ((band, start, early),) = rows
    assert (band, start) == (0, 0)
    assert query.counters()["in_bands#1"].buffered < 8
    source.push([{"at": at, "k": "a", "v": 0} for at in (3, 510)])
    query.work()
    assert rows[1:] == [(0, 10, 2), (1, 0, 1_001)]
    assert early == 1_000
    query.close()


def test_rows_of_a_window_that_come_late_correct_its_answer() -> None:
    """The answer of the greater band replaces the other."""
    early, final = _stream(1, 12, 3, 25, 14, 2, 31, 8).tumbling(10).in_bands(5, 20, n=sw.count())
    answers: dict[int, int] = {}
    for result in sw.run_together(early, final):
        for row in result.table.to_pylist():
            answers[row["window_start"]] = row["n"]
    assert answers == {0: 3, 10: 2, 20: 1, 30: 1}
    assert final.late.run().table.to_pylist() == [{"at": 8, "k": "b", "v": 7, "late_bound": 10, "late_by": 2}]


# ---- bands of a query of one's own ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ready", "merged"),
    [
        (sw.count(), sw.sum("x")),
        (sw.sum("v"), sw.sum("x")),
        (sw.min("v"), sw.min("x")),
        (sw.max("v"), sw.max("x")),
    ],
    ids=["count", "sum", "min", "max"],
)
@pytest.mark.parametrize("window_first", [True, False])
def test_a_sub_plan_gives_what_the_ready_aggregate_gives(ready: Any, merged: Any, window_first: bool) -> None:
    """Partial results of each band, merged after each union; windows before the bands or inside the sub-plan.

    Before the bands they are checked whole. Inside of it they are windows of a band's events.
    """
    stream = _stream(*_disordered(300))
    windowed = stream.tumbling(50) if window_first else stream

    def partial(band: sw.OrderedStream) -> sw.OrderedStream:
        return (band if window_first else band.tumbling(50)).group_by("k").aggregate(x=ready)

    own = windowed.in_bands(10, 100, 250, partial=partial, merge=lambda both: both.group_by("k").aggregate(x=merged))
    if window_first:
        expected: list[Any] = stream.tumbling(50).group_by("k").in_bands(10, 100, 250, x=ready).run()
    else:
        bands = stream.in_bands(10, 100, 250)
        expected = sw.run_together(*(band.tumbling(50).group_by("k").aggregate(x=ready) for band in bands))
    for one, other in zip(own.run(), expected, strict=True):
        assert one.table.schema.names == [*other.table.drop_columns(["band"] * window_first).schema.names, "band"]
        assert _as_multiset(_without_band(one.table).to_pylist()) == _as_multiset(
            other.table.drop_columns(["band"] * window_first).to_pylist()
        )
        assert one.late.equals(other.late)


def test_a_sub_plan_that_does_nothing_gives_the_events() -> None:
    """The advanced framework is then the basic one (section V-B), and says from which band a stream is."""
    stream = _stream(*_disordered(100))
    own = stream.in_bands(10, 90, partial=lambda band: band, merge=lambda both: both)
    for band, (one, other) in enumerate(zip(own.run(), stream.in_bands(10, 90).run(), strict=True)):
        assert _without_band(one.table).to_pylist() == other.table.to_pylist()
        assert one.table.column("band").to_pylist() == [band] * one.table.num_rows
        assert one.table.schema.field("band").type == pa.int32()


def test_a_sub_plan_may_use_any_step() -> None:
    """Here it finds the greatest value of each key and filters it, in bands and again after each union."""

    def best(both: sw.OrderedStream) -> sw.OrderedStream:
        return both.group_by("k").aggregate(v=sw.max("v")).where(nw.col("v") > 20)

    stream = _stream(*_disordered(100)).tumbling(100)
    own = stream.in_bands(10, 300, partial=best, merge=best)
    for one, other in zip(own.run(), stream.in_bands(10, 300), strict=True):
        expected = other.group_by("k").aggregate(v=sw.max("v")).where(nw.col("v") > 20).run().table
        assert _as_multiset(_without_band(one.table).to_pylist()) == _as_multiset(expected.to_pylist())


# ---- the queries of the paper, section V-C --------------------------------------------------------------------------


def _clicks(*clicks: tuple[float, str, str]) -> sw.DisorderedStream:
    rows = [{"at": _START + timedelta(seconds=second), "user": user, "ad": ad} for second, user, ad in clicks]
    schema = pa.schema({"at": pa.timestamp("us", "UTC"), "user": pa.string(), "ad": pa.string()})
    return sw.stream(rows, time="at", schema=schema)


def test_clicks_per_ad_and_second_with_two_latencies() -> None:
    """The paper's first query: partial counts per ad in each band, and a merge that adds them up."""
    clicks = _clicks(
        (0.1, "u", "A"), (0.2, "v", "B"), (0.3, "w", "A"), (2.5, "u", "A"), (0.4, "x", "A"), (1.8, "y", "B"),
        (70.0, "u", "B"), (69.5, "v", "B"), (12.0, "z", "A"), (9.9, "z", "A"),
    )  # fmt: skip
    by_second = clicks.select("ad").tumbling("1s")
    own = by_second.in_bands(
        "1s",
        "1m",
        every=_ROW,
        partial=lambda band: band.group_by("ad").aggregate(n=sw.count()),
        merge=lambda both: both.group_by("ad").aggregate(n=sw.sum("n")),
    )
    ready = by_second.group_by("ad").in_bands("1s", "1m", every=_ROW, n=sw.count())
    expected = [
        [(0, "A", 2), (0, "B", 1), (1, "B", 1), (2, "A", 1), (69, "B", 1), (70, "B", 1)],
        [(0, "A", 3), (0, "B", 1), (1, "B", 1), (2, "A", 1), (12, "A", 1), (69, "B", 1), (70, "B", 1)],
    ]
    for streams in (own, ready):
        for result, answers in zip(streams.run(), expected, strict=True):
            rows = result.table.to_pylist()
            seconds = [(row["window_start"] - _START) // timedelta(seconds=1) for row in rows]
            assert [(second, row["ad"], row["n"]) for second, row in zip(seconds, rows, strict=True)] == answers
            (late,) = result.late.to_pylist()
            assert late["late_by"] == timedelta(milliseconds=100)


def test_users_who_click_x_and_then_y_within_a_minute() -> None:
    """The paper's second query: a pattern over each stream of the basic framework."""
    clicks = _clicks(
        (0, "ann", "X"), (10, "bob", "X"), (20, "ann", "Z"), (30, "ann", "Y"), (400, "cat", "Y"), (40, "bob", "Y"),
        (380, "cat", "X"), (390, "dan", "X"), (460, "dan", "Y"),
    )  # fmt: skip
    some = clicks.where((nw.col("ad") == "X") | (nw.col("ad") == "Y"))
    matches = []
    for stream in some.in_bands("5m", "1h", every=_ROW):
        x, y = (stream.where(nw.col("ad") == ad) for ad in "XY")
        matches.append(x.followed_by(y, on="user", within="1m"))
    early, final = sw.run_together(*matches)
    assert early.table.column("user").to_pylist() == ["ann", "cat"]
    assert final.table.column("user").to_pylist() == ["ann", "bob", "cat"]


# ---- PatienceBands ---------------------------------------------------------------------------------------------------


def test_streams_are_a_sequence_of_ordered_streams() -> None:
    """To be unpacked, indexed, sliced and counted; frozen like a stream."""
    streams = _stream(1).in_bands(1, 5, 9)
    assert isinstance(streams, sw.PatienceBands)
    assert isinstance(streams, Sequence)
    early, fuller, final = streams
    assert len(streams) == 3
    assert all(isinstance(stream, sw.OrderedStream) for stream in streams)
    assert (streams[0], streams[-1]) == (early, final)
    assert list(streams[1:]) == [fuller, final]
    assert final in streams
    assert list(reversed(streams)) == [final, fuller, early]
    with pytest.raises(IndexError):
        _ = streams[3]
    with pytest.raises(dataclasses.FrozenInstanceError):
        streams.streams = ()  # type: ignore[misc]


def test_streams_say_how_long_each_waits() -> None:
    """In the words of the stream's own time."""
    assert _stream(1).in_bands(1, 60).patiences == ("1", "60")
    assert _clicks((0, "u", "A")).in_bands("1s", timedelta(minutes=1), "90m").patiences == ("1s", "1m", "1h30m")


def test_streams_run_together_and_share_their_work() -> None:
    """One pass over the source, whatever is asked of each."""
    streams = _stream(*_disordered(50)).tumbling(10).in_bands(5, 50, n=sw.count())
    results = streams.run()
    assert len(results) == 2
    assert results[0].counters["source#1"].rows_out == 50
    assert results[0].counters == results[1].counters
    assert [result.table.to_pylist() for result in results] == [stream.run().table.to_pylist() for stream in streams]


def test_streams_explain_themselves_together() -> None:
    """What they share is shown once."""
    text = _stream(1).tumbling(10).in_bands(5, 50, n=sw.count()).explain()
    assert text.count("source#1 table") == 1
    assert text.count("punctuate#1 patience=5, 50 every 1, late rows diverted") == 1
    assert text.count("in_bands#1 n=count()") == 1
    assert text.splitlines()[-1].strip().startswith("└─ in_bands#1")


def test_open_calls_back_with_the_rows_of_every_stream() -> None:
    """Late rows go to their own callback, which must be there if they are diverted."""
    streams = _stream(20, 5, 26, 1).tumbling(10).in_bands(2, 16, every=_ROW, n=sw.count())
    rows: list[tuple[int, int]] = []
    late: list[int] = []
    query = streams.open(
        lambda batch: rows.extend((row["band"], row["window_start"]) for row in batch.to_pylist()), on_late=_into(late)
    )
    query.run_to_end()
    assert sorted(rows) == [(0, 20), (1, 0), (1, 20)]
    assert late == [1]
    with pytest.raises(PlanError, match="would be lost"):
        streams.open(lambda _: None)


def test_each_stream_goes_on_like_any_ordered_stream() -> None:
    """Steps behind one of them do not disturb the others, nor the late rows."""
    soon, final = _stream(*_disordered(100)).in_bands(10, 100)
    many = final.where(nw.col("v") > 50).tumbling(100).aggregate(n=sw.count())
    counted, events = sw.run_together(many, soon)
    assert counted.table.equals(many.run().table)
    assert events.table.equals(soon.run().table)
    assert final.late.run().table.equals(soon.late.run().table)


# ---- late rows ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", ["events", "aggregates", "sub-plan"])
def test_what_is_too_late_for_the_last_band_is_treated_as_by_sort(make: str) -> None:
    """Diverted, dropped, adjusted into the last band, or refused."""

    def banded(late: sw.Late) -> sw.PatienceBands:
        stream = _stream(100, 98, 50, 10).tumbling(10)
        if make == "events":
            return stream.in_bands(5, 60, every=_ROW, late=late)
        if make == "aggregates":
            return stream.in_bands(5, 60, every=_ROW, late=late, n=sw.count())
        return stream.in_bands(
            5, 60, every=_ROW, late=late,
            partial=lambda band: band.aggregate(n=sw.count()), merge=lambda both: both.aggregate(n=sw.sum("n")),
        )  # fmt: skip

    for late, starts, counted in (
        (sw.Late.divert(), [50, 90, 100], 1),
        (sw.Late.drop(), [50, 90, 100], 1),
        (sw.Late.adjust(), [40, 50, 90, 100], 0),
    ):
        early, final = banded(late).run()
        assert early.table.column("window_start").to_pylist() == [90, 100]
        assert final.table.column("window_start").to_pylist() == starts
        assert final.counters["punctuate#1"].late == counted
        assert sum(table.num_rows for table in final.late_by_source.values()) == (late == sw.Late.divert())
    with pytest.raises(LateEvent, match=r"(?s)step 'punctuate#1'.*complete before  40"):
        banded(sw.Late.raise_error()).run()


# ---- refusals -------------------------------------------------------------------------------------------------------


def test_at_least_one_patience_is_needed() -> None:
    """With a hint how to write it."""
    builds: list[Callable[[], object]] = [
        lambda: _stream(1).in_bands(),
        lambda: _stream(1).tumbling(5).in_bands(n=sw.count()),
        lambda: _stream(1).group_by("k").in_bands(n=sw.count()),
        lambda: _stream(1).in_bands(partial=lambda band: band, merge=lambda both: both),
    ]
    for build in builds:
        with pytest.raises(PlanError, match=r"(?s)at least one patience.*hint: .*in_bands\(\"1s\""):
            build()


@pytest.mark.parametrize("patiences", [(5, 1), (5, 5), (-1, 5), ("1s",), (timedelta(seconds=1),), (1.5,)])
def test_patiences_that_do_not_rise_or_do_not_fit_are_refused(patiences: tuple[Any, ...]) -> None:
    """When they are written."""
    builds: list[Callable[[], object]] = [
        lambda: _stream(1).in_bands(*patiences),
        lambda: _stream(1).group_by("k").in_bands(*patiences, n=sw.count()),
    ]
    for build in builds:
        with pytest.raises(BadDuration):
            build()
    with pytest.raises(BadDuration):
        _clicks((0, "u", "A")).in_bands("1m", "60s")


@pytest.mark.parametrize("wrong", [{"every": "1s"}, {"late": "drop"}])
def test_what_is_no_policy_is_refused(wrong: dict[str, Any]) -> None:
    """With the choices there are."""
    with pytest.raises(PlanError, match=r"hint: choose (Every|Late)\."):
        _stream(1).in_bands(1, 5, **wrong)


def test_aggregates_of_lifetimes_that_overlap_freely_are_refused() -> None:
    """Events of sliding windows can be taken in bands, and each band be aggregated."""
    sliding = _stream(1, 2, 4).sliding(3)
    with pytest.raises(PlanError, match=r"(?s)lifetimes overlap.*hint: "):
        sliding.in_bands(1, 5, n=sw.count())
    _, final = sliding.in_bands(1, 5)
    assert final.aggregate(n=sw.count()).run().table.column("n").to_pylist() == [1, 2, 2, 1]


@pytest.mark.parametrize(
    "options",
    [
        {"partial": lambda band: band},
        {"merge": lambda both: both},
        {"partial": lambda band: band, "n": sw.count()},
        {"partial": lambda band: band, "merge": lambda both: both, "n": sw.count()},
        {"merge": lambda both: both, "n": sw.count()},
    ],
    ids=" and ".join,
)
def test_half_a_sub_plan_or_two_answers_are_refused(options: dict[str, Any]) -> None:
    """How parts are put together must be declared once."""
    with pytest.raises(PlanError, match=r"(?s)partial= together with merge=.*hint: give aggregates, or both"):
        _stream(1).in_bands(1, 5, **options)


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: None,
        lambda band: band.node,
        lambda band: band.hopping(10, 5),
        lambda band: band.group_by("k"),
        lambda band: [band],
    ],
    ids=["nothing", "a node", "disordered", "groups", "a list"],
)
def test_a_sub_plan_that_returns_something_else_is_refused(answer: Callable[[Any], Any]) -> None:
    """The half at fault is named, with what it returned."""
    with pytest.raises(PlanError, match=r"(?s)partial= must be a function .*returned  \w+"):
        _stream(1).in_bands(1, 5, partial=answer, merge=lambda both: both)
    with pytest.raises(PlanError, match=r"(?s)merge= must be a function .*returned  \w+"):
        _stream(1).in_bands(1, 5, partial=lambda band: band, merge=answer)


def test_a_merge_that_gives_other_columns_than_its_parts_is_refused() -> None:
    """Its answers would have to be merged with those of the next band."""
    with pytest.raises(PlanError):
        _stream(1).tumbling(10).in_bands(
            1, 5, 9, partial=lambda band: band.aggregate(n=sw.count()), merge=lambda both: both.aggregate(m=sw.sum("n"))
        )


def test_a_column_that_is_called_band_is_refused_where_answers_need_it() -> None:
    """Events keep theirs."""
    stream = sw.stream(pa.table({"at": [1, 2], "band": [3, 4]}), time="at")
    builds: list[Callable[[], object]] = [
        lambda: stream.group_by("band").in_bands(1, 5, n=sw.count()),
        lambda: stream.in_bands(1, 5, band=sw.count()),
        lambda: stream.in_bands(1, 5, partial=lambda band: band, merge=lambda both: both),
    ]
    for build in builds:
        with pytest.raises(SchemaMismatch, match=r"(?s)two columns of one name.*band.*another name"):
            build()
    assert stream.in_bands(1, 5)[1].run().table.column("band").to_pylist() == [3, 4]


@pytest.mark.parametrize("wrong", [sw.count, 5, "count"])
def test_what_is_no_aggregate_is_refused_with_an_example_in_bands(wrong: Any) -> None:
    """Forgotten parentheses, above all."""
    for grouped in (_stream(1), _stream(1).group_by("k")):
        with pytest.raises(PlanError, match=r"(?s)not an aggregate.*hint: for example in_bands\(.*n=sw.count\(\)\)"):
            grouped.in_bands(1, 5, n=wrong)
    with pytest.raises(PlanError, match=r"(?s)in_bands was given no aggregates.*hint: for example in_bands\("):
        _stream(1).group_by("k").in_bands(1, 5)


def test_events_without_times_are_stamped_first() -> None:
    """By the clock, when they are processed: nothing older can come, so that no band needs its patience."""
    clock = sw.ManualClock(5_000_000)
    source = sw.PushSource({"k": pa.string()})
    streams = sw.unstamped(source).tumbling("1s").group_by("k").in_bands("1s", "1m", n=sw.count())
    assert "stamp#1" in streams.explain()
    rows: list[tuple[int, str, int]] = []
    query = streams.open(
        lambda batch: rows.extend((row["band"], row["k"], row["n"]) for row in batch.to_pylist()),
        on_late=lambda _: None,
        clock=clock,
    )
    source.push([{"k": "a"}, {"k": "b"}, {"k": "a"}])
    query.work()
    clock.advance(3_000_000)
    source.push({"k": "a"})
    query.work()
    assert rows == [(0, "a", 2), (0, "b", 1), (1, "a", 2), (1, "b", 1)]
    query.close()
    assert rows[4:] == [(0, "a", 1), (1, "a", 1)]


# ---- going on -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", ["events", "aggregates", "sub-plan"])
def test_a_query_with_bands_resumed_in_the_middle_goes_on_undisturbed(make: str) -> None:
    """Rows and groups that wait in every band, and late rows; stored in between, at several places."""
    table = _rows(*_disordered(60))

    def streams(source: Any) -> sw.PatienceBands:
        stream = sw.stream(source, time="at").where(nw.col("v") >= 0)
        if make == "events":
            return stream.in_bands(10, 60, 200, every=_ROW)
        if make == "aggregates":
            return (
                stream.tumbling(50).group_by("k").in_bands(10, 60, 200, every=_ROW, n=sw.count(), top=sw.top_k("v", 2))
            )
        return stream.in_bands(
            10, 60, 200, every=_ROW,
            partial=lambda band: band.tumbling(50).aggregate(v=sw.max("v")),
            merge=lambda both: both.aggregate(v=sw.max("v")),
        )  # fmt: skip

    expected = streams(table).run()
    assert expected[0].late.num_rows > 0
    for when in (0, 1, 13, 30, 31, 59, 60):
        collected: list[list[dict[str, Any]]] = [[] for _ in expected]
        late: list[dict[str, Any]] = []
        state = None
        for part in (table.slice(0, when), table.slice(when)):
            source = sw.PushSource(_SCHEMA)
            outputs = [(stream, _keep(rows)) for stream, rows in zip(streams(source), collected, strict=True)]
            query = sw.Query(outputs, sw.ManualClock(), resume=state, on_late=_keep(late))
            source.push(part)
            query.work()
            state = pickle.loads(pickle.dumps(query.snapshot()))  # noqa: S301 - our own bytes
        query.close()
        assert [_as_multiset(rows) for rows in collected] == [
            _as_multiset(result.table.to_pylist()) for result in expected
        ]
        assert late == expected[0].late.to_pylist()
    assert query.counters()["punctuate#1"].late == expected[0].counters["punctuate#1"].late


def _keep(kept: list[dict[str, Any]]) -> Callable[[pa.RecordBatch], None]:
    return lambda rows: kept.extend(rows.to_pylist())
