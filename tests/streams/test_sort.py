"""sort() as users type it: patience, late rows, how often the bound moves, live sources, and what is refused."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import BadDuration, LateEvent, NeedsOrder, PlanError, SchemaMismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SCHEMA = pa.schema({"at": pa.int64(), "n": pa.int64()})
_START = datetime(2026, 11, 15, 10, tzinfo=UTC)
_DATED = pa.schema({"at": pa.timestamp("us", "UTC"), "n": pa.int64()})


def _rows(*times: int) -> pa.Table:
    """Numbered rows with these times, in this order."""
    return pa.table({"at": times, "n": list(range(len(times)))}, schema=_SCHEMA)


def _numbers(*times: int) -> sw.DisorderedStream:
    return sw.stream(_rows(*times), time="at")


def _times(table: pa.Table) -> list[int]:
    return table.column("at").to_pylist()


def _late(result: sw.Result) -> list[tuple[int, int, int]]:
    table = result.late
    return [(row["at"], row["late_bound"], row["late_by"]) for row in table.to_pylist()]


def _dated(*seconds: float) -> list[dict[str, Any]]:
    return [{"at": _START + timedelta(seconds=second), "n": n} for n, second in enumerate(seconds)]


def _seconds(rows: Iterable[dict[str, Any]]) -> list[float]:
    return [(row["at"] - _START).total_seconds() for row in rows]


# ---- patience -------------------------------------------------------------------------------------------------------


def test_an_event_exactly_at_the_bound_is_on_time_and_one_before_it_is_late() -> None:
    """The newest time is 20 and the patience 5: complete before 15."""
    result = _numbers(20, 15, 14).sort(patience=5, every=sw.Every.rows(1)).run()
    assert _times(result.table) == [15, 20]
    assert _late(result) == [(14, 15, 1)]


def test_a_patience_of_zero_takes_nothing_but_ties() -> None:
    """Equal times are not late against each other, and keep the order in which they came."""
    result = _numbers(3, 3, 5, 4, 5, 5).sort(patience=0).run()
    assert _times(result.table) == [3, 3, 5, 5, 5]
    assert result.table.column("n").to_pylist() == [0, 1, 2, 4, 5]
    assert _late(result) == [(4, 5, 1)]


@pytest.mark.parametrize("patience", ["5s", timedelta(seconds=5), "5000ms"])
def test_patience_for_calendar_time_is_a_text_or_a_timedelta(patience: Any) -> None:
    """Late rows say when the bound was and how much too late they were, in the stream's own kind of time."""
    ordered = sw.stream(_dated(0, 9, 4, 3.5), time="at", schema=_DATED).sort(patience, every=sw.Every.rows(1))
    result = ordered.run()
    assert _seconds(result.table.to_pylist()) == [0, 4, 9]
    assert result.late.to_pylist() == [
        {
            "at": _START + timedelta(seconds=3.5),
            "n": 3,
            "late_bound": _START + timedelta(seconds=4),
            "late_by": timedelta(milliseconds=500),
        }
    ]


def test_by_default_the_bound_moves_ten_times_in_a_patience() -> None:
    """A row may come a tenth of the patience later than it must, but never be refused for less than the patience."""
    ordered = _numbers(99, 108, 95, 109, 98, 110, 9, 10, 8).sort(patience=100)
    assert "patience=100 every 10, " in ordered.explain()
    result = ordered.run()
    assert _late(result) == [(9, 10, 1), (8, 10, 2)]


def test_rows_come_out_while_the_stream_flows() -> None:
    """As soon as the newest time is a patience past them, and not before."""
    source = sw.PushSource(_SCHEMA)
    seen: list[int] = []
    query = (
        sw.stream(source, time="at")
        .sort(patience=5, every=sw.Every.rows(1))
        .open(lambda rows: seen.extend(rows.column("at").to_pylist()), clock=sw.ManualClock(), on_late=lambda _: None)
    )
    for at, expected in ((10, []), (12, []), (8, []), (15, [8]), (16, [8, 10]), (30, [8, 10, 12, 15, 16])):
        source.push({"at": at, "n": 0})
        query.work()
        assert seen == expected
        assert query.counters()["sort#1"].buffered == query.counters()["sort#1"].rows_in - len(expected)
    query.close()
    assert seen == [8, 10, 12, 15, 16, 30]


def test_the_newest_time_counts_whatever_becomes_of_its_row() -> None:
    """A filter behind the sort, though it runs before it, does not change what is late."""
    ordered = _numbers(1, 20, 3, 19).sort(patience=5, every=sw.Every.rows(1))
    small = ordered.where(nw.col("at") < 20).run()
    assert (_times(small.table), _late(small)) == ([1, 19], [(3, 15, 12)])
    before = _numbers(1, 20, 3, 19).where(nw.col("at") < 20).sort(patience=5, every=sw.Every.rows(1)).run()
    assert (_times(before.table), _late(before)) == ([1, 3, 19], [])


# ---- how often ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("every", "late"),
    [
        (sw.Every.rows(1), [(16, 23, 7), (24, 25, 1)]),
        (sw.Every.rows(3), []),
        (sw.Every.rows(4), [(24, 25, 1)]),
        (sw.Every.time(1), [(16, 23, 7), (24, 25, 1)]),
        (sw.Every.time(30), [(24, 25, 1)]),
        (sw.Every.time(100), []),
        (sw.Every.batch(), []),
    ],
    ids=str,
)
def test_rows_are_checked_by_the_bound_of_the_last_instant(every: sw.Every, late: list[tuple[int, int, int]]) -> None:
    """Instants come with rows, with times that pass into another multiple, or with the end of a batch."""
    ordered = _numbers(20, 28, 16, 30, 24).sort(patience=5, every=every)
    result = ordered.run()
    assert _late(result) == late
    assert f"patience=5 {every}, " in ordered.explain()
    assert _times(result.table) == sorted({20, 28, 16, 30, 24}.difference(at for at, _, _ in late))


@pytest.mark.parametrize(("batch_rows", "late"), [(1, [16, 24]), (2, [16, 24]), (3, []), (4, [24]), (5, [])])
def test_rows_of_a_batch_are_simultaneous_if_the_cadence_is_the_batch(batch_rows: int, late: list[int]) -> None:
    """Which rows are late depends on the cuts then, and on nothing else."""
    seen: list[int] = []
    ordered = _numbers(20, 28, 16, 30, 24).sort(patience=5, every=sw.Every.batch())
    query = ordered.open(
        lambda _: None, on_late=lambda rows: seen.extend(rows.column("at").to_pylist()), batch_rows=batch_rows
    )
    query.run_to_end()
    assert seen == late


# ---- late rows ------------------------------------------------------------------------------------------------------


def test_late_rows_are_diverted_by_default() -> None:
    """With all their columns; the stream `late` gives the same rows."""
    ordered = _numbers(20, 3, 21, 4).sort(patience=5)
    result = ordered.run()
    expected = [{"at": 3, "n": 1, "late_bound": 15, "late_by": 12}, {"at": 4, "n": 3, "late_bound": 16, "late_by": 12}]
    assert result.late.to_pylist() == expected
    assert ordered.late.run().table.to_pylist() == expected
    assert result.counters["punctuate#1"].late == 2
    assert str(result).startswith("2 rows, 2 came too late")


def test_late_rows_can_be_dropped_and_are_counted() -> None:
    """Nobody need take them."""
    ordered = _numbers(20, 3, 21, 4).sort(patience=5, late=sw.Late.drop())
    result = ordered.run()
    assert (_times(result.table), result.late) == ([20, 21], {})
    assert result.counters["punctuate#1"].late == 2
    assert [at for rows in ordered.batches() for at in rows.column("at").to_pylist()] == [20, 21]


def test_late_rows_can_be_adjusted_to_the_bound_they_missed() -> None:
    """They come in order, and nothing is late."""
    result = _numbers(20, 3, 15, 21, 4).sort(patience=5, late=sw.Late.adjust()).run()
    assert result.table.to_pylist() == [
        {"at": 15, "n": 1}, {"at": 15, "n": 2}, {"at": 16, "n": 4}, {"at": 20, "n": 0}, {"at": 21, "n": 3},
    ]  # fmt: skip
    assert result.counters["punctuate#1"].late == 0


def test_an_adjusted_lifetime_keeps_its_end_and_one_that_was_over_is_dropped() -> None:
    """Nothing would be left of it."""
    rows = [{"at": 20, "to": 30}, {"at": 3, "to": 16}, {"at": 3, "to": 15}]
    result = sw.stream(rows, time="at", until="to").sort(patience=5, late=sw.Late.adjust()).run()
    assert result.table.to_pylist() == [{"at": 15, "to": 16}, {"at": 20, "to": 30}]
    assert result.counters["punctuate#1"].late == 1


def test_the_first_late_row_can_stop_the_query() -> None:
    """It is named with its time and the bound; a stream without late rows is not disturbed."""
    ordered = _numbers(1, 2, 20, 3).sort(patience=5, every=sw.Every.rows(1), late=sw.Late.raise_error())
    with pytest.raises(LateEvent, match=r"(?s)step 'punctuate#1'.*'n': 3.*complete before  15.*Late\.divert\(\)"):
        ordered.run()
    assert _times(_numbers(1, 2, 20, 16).sort(patience=5, late=sw.Late.raise_error()).run().table) == [1, 2, 16, 20]


def test_late_rows_of_a_stream_that_nobody_takes_are_refused() -> None:
    """Before anything runs."""
    with pytest.raises(PlanError, match=r"(?s)would be lost.*punctuate#1 patience=5 .*Late\.drop\(\)"):
        _numbers(1).sort(patience=5).open(lambda _: None)


def test_late_rows_can_be_sorted_with_more_patience_or_to_the_end() -> None:
    """They are a stream like any; the two columns that say how late they were must go first, or not be made again."""
    late = _numbers(20, 9, 3, 30, 8).sort(patience=5).late
    assert _times(late.sort().run().table) == [3, 8, 9]
    again = late.select("n").sort(patience=5)
    assert (_times(again.run().table), _times(again.late.run().table)) == ([8, 9], [3])
    with pytest.raises(SchemaMismatch, match=r"(?s)late_bound.*select\(\)"):
        late.sort(patience=5)
    assert _times(late.sort(patience=5, late=sw.Late.drop()).run().table) == [8, 9]


# ---- without patience -----------------------------------------------------------------------------------------------


def test_a_table_is_sorted_at_its_end() -> None:
    """Everything waits for everything; nothing is late, and equal times keep their order."""
    ordered = _numbers(5, 1, 9, 1, -3).sort()
    result = ordered.run()
    assert result.table.to_pylist() == [
        {"at": -3, "n": 4}, {"at": 1, "n": 1}, {"at": 1, "n": 3}, {"at": 5, "n": 0}, {"at": 9, "n": 2},
    ]  # fmt: skip
    assert result.late == {}
    assert result.counters["sort#1"].peak_buffered == 5


def test_a_sorted_table_can_be_cut_anywhere() -> None:
    """Batches of one row or of a thousand."""
    times = [(7_919 * n) % 1_000 for n in range(3_000)]
    for batch_rows in (7, 1_000, 100_000):
        collected: list[pa.RecordBatch] = []
        _numbers(*times).sort().open(collected.append, batch_rows=batch_rows).run_to_end()
        numbers = pa.Table.from_batches(collected).column("n").to_pylist()
        assert numbers == sorted(range(3_000), key=times.__getitem__)


def test_an_empty_stream_is_sorted() -> None:
    """To the right columns."""
    for ordered in (_numbers().sort(), _numbers().sort(patience=5)):
        assert ordered.run().table.equals(_rows())


@pytest.mark.parametrize("window", [False, True])
def test_categories_of_many_batches_are_sorted(window: bool) -> None:
    """Each batch numbers its words in an int8; all words together are more than that can number."""
    kind = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema({"at": pa.int64(), "word": kind})
    source = sw.PushSource(schema)
    for part in range(3):
        words = pa.array([f"{part}-{i}" for i in range(100)]).cast(kind)
        source.push(pa.record_batch({"at": [300 - 3 * i - part for i in range(100)], "word": words}, schema=schema))
    source.close()
    stream = sw.stream(source, time="at")
    ordered = (stream.tumbling(1) if window else stream).sort(patience=297)
    result = ordered.run()
    assert result.late.column("word").to_pylist() == ["1-99", "2-99"]
    expected = [f"{part}-{i}" for i in range(100) for part in range(3) if (part, i) not in {(1, 99), (2, 99)}]
    words = result.table.column("word").to_pylist()
    assert sorted(words) == sorted(expected)
    assert window or words == expected[::-1]


def test_windows_that_lost_their_order_get_it_back() -> None:
    """An ordered stream put into hopping windows has punctuations, and these are obeyed: no patience is needed."""
    source = sw.PushSource(_SCHEMA)
    hopped = sw.stream(source, time="at").assume_ordered().hopping(10, 5).sort()
    seen: list[int] = []
    query = hopped.open(lambda rows: seen.extend(rows.column("window_start").to_pylist()), clock=sw.ManualClock())
    source.push([{"at": at, "n": 0} for at in (7, 8, 12)])
    query.work()
    assert seen == [0, 0]
    query.close()
    assert seen == [0, 0, 5, 5, 5, 10]


# ---- live sources that punctuate ------------------------------------------------------------------------------------


def _live(punctuations: sw.Punctuations | None) -> tuple[sw.PushSource, sw.DisorderedStream]:
    source = sw.PushSource(_DATED, name="sensor")
    return source, sw.stream(source, time="at", punctuations=punctuations)


def _opened(stream: sw.OrderedStream, clock: sw.ManualClock) -> tuple[sw.Query, list[float]]:
    seen: list[float] = []
    return stream.open(lambda rows: seen.extend(_seconds(rows.to_pylist())), clock=clock, on_late=lambda _: None), seen


def test_a_source_that_guarantees_on_demand_is_asked_while_rows_wait() -> None:
    """With a skew of two seconds: a row goes out when two seconds have passed by the clock."""
    clock = sw.ManualClock(1_000_000_000)
    source, stream = _live(sw.Punctuations.on_demand(skew="2s"))
    query, seen = _opened(stream.sort(), clock)
    source.push(_dated(5, 4, 5))
    query.work()
    assert seen == []
    clock.advance(1_000_000)
    query.work()
    assert seen == []
    source.push(_dated(4.5))
    clock.advance(1_000_001)
    query.work()
    assert seen == [4, 4.5, 5, 5]
    assert query.counters()["sort#1"].buffered == 0
    source.push(_dated(4.9))
    query.work()
    assert query.counters()["source_lateness#1"].late == 1
    query.close()
    assert seen == [4, 4.5, 5, 5]


def test_a_source_that_guarantees_by_the_clock_is_obeyed() -> None:
    """Every ten seconds, needed or not."""
    clock = sw.ManualClock(1_000_000_000)
    source, stream = _live(sw.Punctuations.periodic("10s", skew="2s"))
    query, seen = _opened(stream.sort(), clock)
    source.push(_dated(5, 4))
    for advance, expected in ((0, []), (9_000_000, []), (1_000_000, [4, 5])):
        clock.advance(advance)
        query.work()
        assert seen == expected


def test_patience_and_guarantees_of_the_source_go_together() -> None:
    """Whichever says more: patience while rows come, the clock while they do not."""
    clock = sw.ManualClock(1_000_000_000)
    source, stream = _live(sw.Punctuations.on_demand(skew="20s"))
    ordered = stream.sort(patience="5s", every=sw.Every.rows(1))
    query, seen = _opened(ordered, clock)
    source.push(_dated(0, 8))
    query.work()
    assert seen == [0]
    clock.advance(20_000_001)
    query.work()
    assert seen == [0, 8]
    source.push(_dated(8.1))
    query.work()
    assert query.counters()["punctuate#1"].late == 0
    query.close()
    assert seen == [0, 8, 8.1]


def test_arrivals_are_ordered_already() -> None:
    """Sorting them is not even offered; grouping them in bands is, and works."""
    clock = sw.ManualClock(100)
    source = sw.PushSource({"k": pa.string()})
    stream = sw.arrivals(source)
    assert not hasattr(stream, "sort")
    (counted,) = stream.tumbling("1s").group_by("k").in_bands("0s", n=sw.count())
    rows: list[dict[str, Any]] = []
    query = counted.open(lambda batch: rows.extend(batch.to_pylist()), clock=clock, on_late=lambda _: None)
    source.push([{"k": "a"}, {"k": "b"}, {"k": "a"}])
    query.close()
    assert [(row["k"], row["n"]) for row in rows] == [("a", 2), ("b", 1)]


# ---- windows before the sort ----------------------------------------------------------------------------------------


def test_patience_counts_by_the_times_before_a_window() -> None:
    """A window moves events to its start, which is older than they are: by that they would be late too soon.

    An event is late when its window is complete: that of 0 to 10 when 15 has been seen, the next when 25 has.
    """
    result = _numbers(8, 14, 7, 19, 6, 21, 15, 25, 12).tumbling(10).sort(patience=5, every=sw.Every.rows(1)).run()
    assert result.table.to_pylist() == [
        {"window_start": 0, "window_end": 10, "at": 8, "n": 0},
        {"window_start": 0, "window_end": 10, "at": 7, "n": 2},
        {"window_start": 10, "window_end": 20, "at": 14, "n": 1},
        {"window_start": 10, "window_end": 20, "at": 19, "n": 3},
        {"window_start": 10, "window_end": 20, "at": 15, "n": 6},
        {"window_start": 20, "window_end": 30, "at": 21, "n": 5},
        {"window_start": 20, "window_end": 30, "at": 25, "n": 7},
    ]
    assert result.late.to_pylist() == [
        {"at": 6, "n": 4, "late_bound": 10, "late_by": 4},
        {"at": 12, "n": 8, "late_bound": 20, "late_by": 8},
    ]


def test_a_row_of_several_windows_is_late_once() -> None:
    """It is checked before it is put into them."""
    result = _numbers(8, 19, 3).hopping(10, 5).sort(patience=5, every=sw.Every.rows(1)).run()
    assert result.table.column("window_start").to_pylist() == [0, 5, 10, 15]
    assert _late(result) == [(3, 14, 11)]


def test_windows_of_sorted_events_are_counted() -> None:
    """Before the sort or behind it: the same windows; before it, they are checked whole and fewer rows are late."""
    times = [(7_919 * n) % 97 + n for n in range(500)]
    before = _numbers(*times).tumbling(10).sort(patience=40).aggregate(n=sw.count()).run()
    behind = _numbers(*times).sort(patience=40).tumbling(10).aggregate(n=sw.count()).run()
    assert before.table["window_start"].equals(behind.table["window_start"])
    for result in (before, behind):
        assert sum(result.table.column("n").to_pylist()) + len(_late(result)) == 500
    late, times_checked = ({row[0] for row in _late(result)} for result in (before, behind))
    assert late < times_checked
    assert late


# ---- refusals -------------------------------------------------------------------------------------------------------


def test_a_live_source_without_punctuations_needs_a_patience() -> None:
    """Nothing would ever come out; a table has an end."""
    source = sw.PushSource(_SCHEMA, name="clicks")
    stream = sw.stream(source, time="at").where(nw.col("n") > 0)
    with pytest.raises(NeedsOrder, match=r"(?s)would never emit a row.*stream  where.*hint: .*patience="):
        stream.sort()
    stream.sort(patience=5)


@pytest.mark.parametrize(
    "options",
    [{"every": sw.Every.rows(5)}, {"late": sw.Late.drop()}, {"every": sw.Every.batch(), "late": sw.Late.adjust()}],
    ids=["every", "late", "both"],
)
def test_choices_that_go_with_a_patience_are_refused_without_one(options: dict[str, Any]) -> None:
    """They would be ignored silently."""
    with pytest.raises(PlanError, match=r"(?s)need a patience.*hint: sort\(patience="):
        _numbers(1).sort(**options)


@pytest.mark.parametrize(
    "build",
    [
        lambda: _numbers(1).sort("5s"),
        lambda: _numbers(1).sort(timedelta(seconds=1)),
        lambda: _numbers(1).sort(-1),
        lambda: _numbers(1).sort(1.5),  # type: ignore[arg-type]
        lambda: _numbers(1).sort(5, every=sw.Every.time("1s")),
        lambda: sw.stream(_dated(1), time="at").sort(5),
        lambda: sw.stream(_dated(1), time="at").sort("soon"),
        lambda: sw.stream(_dated(1), time="at").sort("5s", every=sw.Every.time(5)),
    ],
)
def test_a_patience_or_cadence_that_does_not_fit_the_stream_is_refused(build: Callable[[], object]) -> None:
    """When it is written, not when it runs."""
    with pytest.raises(BadDuration):
        build()


@pytest.mark.parametrize("wrong", [{"every": "1s"}, {"every": 5}, {"late": "drop"}, {"late": None}])
def test_what_is_no_policy_is_refused_with_the_choices_there_are(wrong: dict[str, Any]) -> None:
    """Not a bare word, not a bare length."""
    with pytest.raises(PlanError, match=r"hint: choose (Every|Late)\."):
        _numbers(1).sort(5, **wrong)


@pytest.mark.parametrize("name", ["late_bound", "late_by"])
def test_columns_that_the_late_output_needs_are_refused(name: str) -> None:
    """When it is written; another policy needs none."""
    stream = sw.stream(pa.table({"at": [1], name: [2]}), time="at")
    with pytest.raises(SchemaMismatch, match=name):
        stream.sort(5)
    assert stream.sort(5, late=sw.Late.drop()).run().table.num_rows == 1


# ---- going on -------------------------------------------------------------------------------------------------------


def test_a_query_resumed_in_the_middle_loses_and_doubles_nothing() -> None:
    """Rows that wait, the newest time, the place in the cadence and the count of late rows; stored in between."""
    times = [(7_919 * n) % 31 + n for n in range(60)]
    table = _rows(*times)

    def ordered(source: Any) -> sw.OrderedStream:
        return sw.stream(source, time="at").sort(patience=10, every=sw.Every.rows(3)).where(nw.col("n") >= 0)

    expected = ordered(table).run()
    assert expected.late.num_rows > 5
    for when in range(0, 61, 5):
        collected: list[pa.RecordBatch] = []
        late: list[pa.RecordBatch] = []
        state = None
        for part in (table.slice(0, when), table.slice(when)):
            source = sw.PushSource(_SCHEMA)
            query = ordered(source).open(collected.append, sw.ManualClock(), resume=state, on_late=late.append)
            source.push(part)
            query.work()
            state = pickle.loads(pickle.dumps(query.snapshot()))  # noqa: S301 - our own bytes
        query.close()
        assert pa.Table.from_batches(collected, schema=expected.table.schema).equals(expected.table)
        late_schema = expected.late.schema
        assert pa.Table.from_batches(late, schema=late_schema).equals(expected.late)
        assert query.counters()["punctuate#1"].late == expected.counters["punctuate#1"].late
