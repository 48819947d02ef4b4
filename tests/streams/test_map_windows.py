"""map_windows as users type it: alone, in bands beside ready aggregates, live, and when a function fails."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import NeedsOrder, PlanError, RunError, SchemaMismatch, StepFailed

if TYPE_CHECKING:
    from collections.abc import Callable

_CLICKS = pa.schema({"at": pa.int64(), "ad": pa.string(), "price": pa.int64()})


def count_clicks(rows: pa.RecordBatch) -> pa.Table:
    """How often each ad of a window was clicked, and what the clicks cost."""
    counted = (
        pa.Table.from_batches([rows]).group_by("ad", use_threads=False).aggregate([([], "count_all"), ("price", "sum")])
    )
    return counted.rename_columns(["ad", "n", "cost"])


def add_counts(rows: pa.RecordBatch) -> pa.Table:
    """Put partial counts of one window together."""
    added = pa.Table.from_batches([rows]).group_by("ad", use_threads=False).aggregate([("n", "sum"), ("cost", "sum")])
    return added.rename_columns(["ad", "n", "cost"])


def _clicks(*times: int) -> pa.Table:
    columns = [list(times), ["xyz"[at % 3] for at in times], [at * at for at in times]]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, _CLICKS, strict=True)], schema=_CLICKS
    )


def _ordered(*times: int) -> sw.OrderedStream:
    return sw.stream(_clicks(*times), time="at").assume_ordered()


def _listed(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"times": [rows.column("at").to_pylist()]})


def _rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


# ---- alone ----------------------------------------------------------------------------------------------------------


def test_a_function_over_tumbling_windows_equals_the_ready_aggregate() -> None:
    """Counting by hand and counting with sw.count()."""
    windows = _ordered(*range(0, 100, 3)).tumbling(10)
    by_hand = windows.map_windows(count_clicks).run().table
    ready = windows.group_by("ad").aggregate(n=sw.count(), cost=sw.sum("price")).run().table
    assert by_hand.schema.equals(ready.schema)
    assert _rows(by_hand) == _rows(ready)


def test_a_function_over_hopping_windows_gets_each_event_in_each_of_its_windows() -> None:
    """They come punctuated and not ordered; the answers are ordered again."""
    table = _ordered(1, 4, 6, 11).hopping(10, 5).map_windows(_listed).run().table
    assert table.select(["window_start", "times"]).to_pylist() == [
        {"window_start": -5, "times": [1, 4]},
        {"window_start": 0, "times": [1, 4, 6]},
        {"window_start": 5, "times": [6, 11]},
        {"window_start": 10, "times": [11]},
    ]


def test_without_a_window_events_of_one_time_are_handed_over_together() -> None:
    """A stream of points."""
    table = _ordered(1, 1, 2, 5, 5).map_windows(lambda rows: pa.table({"n": [rows.num_rows]})).run().table
    assert table.to_pydict() == {"at": [1, 2, 5], "n": [2, 1, 2]}


def test_lifetimes_are_handed_over_together_where_both_ends_are_the_same() -> None:
    """They are not cut, as an aggregate would; an open end stays open."""
    rows = [{"at": 1, "to": 4, "x": "a"}, {"at": 1, "to": None, "x": "b"}, {"at": 1, "to": 4, "x": "c"}]
    flights = sw.stream(rows, time="at", until="to").assume_ordered()
    table = flights.map_windows(lambda rows: pa.table({"all": ["".join(rows.column("x").to_pylist())]})).run().table
    assert table.to_pylist() == [{"at": 1, "to": 4, "all": "ac"}, {"at": 1, "to": None, "all": "b"}]


def test_latent_events_get_their_times_first() -> None:
    """As before every step that needs times."""
    stream = sw.unstamped([{"v": 1}, {"v": 2}]).map_windows(lambda rows: rows.select(["v"]))
    assert "stamp#1" in stream.explain()
    assert stream.run(clock=sw.ManualClock(7)).table.column("v").to_pylist() == [1, 2]


def test_every_step_may_follow() -> None:
    """The answers are a stream like any other."""
    counted = _ordered(*range(30)).tumbling(10).map_windows(count_clicks)
    assert isinstance(counted, sw.OrderedStream)
    hourly = counted.tumbling(20).aggregate(n=sw.sum("n")).run().table
    assert hourly.column("n").to_pylist() == [20, 10]


def test_a_live_window_is_handed_over_as_soon_as_it_is_complete() -> None:
    """By a guarantee of the source, though no event comes."""
    clock, source = sw.ManualClock(0), sw.PushSource({"at": pa.timestamp("us", "UTC"), "v": pa.int64()})
    punctuations = sw.Punctuations.on_demand(skew="1s")
    windows = sw.stream(source, time="at", punctuations=punctuations).tumbling("10s")
    seen: list[int] = []
    answers = windows.map_windows(lambda rows: pa.table({"n": [rows.num_rows]}))
    take = lambda rows: seen.extend(rows.column("n").to_pylist())  # noqa: E731
    query = answers.open(take, clock=clock, on_late=lambda _: None)
    source.push([{"at": datetime(1970, 1, 1, 0, 0, second, tzinfo=UTC), "v": second} for second in (3, 1, 2)])
    query.work()
    assert seen == []
    assert query.counters()["map_windows#1"].buffered == 3
    clock.advance(12_000_000)
    query.work()
    assert seen == [3]
    query.close()


# ---- in bands -------------------------------------------------------------------------------------------------------

_TIMES = st.lists(st.integers(0, 60), max_size=40)


@given(times=_TIMES)
def test_a_pair_of_functions_in_bands_equals_ready_aggregates(times: list[int]) -> None:
    """Each band answers the same rows: partial counts are made once, and added up from band to band."""
    windows = sw.stream(_clicks(*times), time="at").tumbling(10)
    by_hand = windows.in_bands(
        2, 10, 50, partial=lambda s: s.map_windows(count_clicks), merge=lambda s: s.map_windows(add_counts)
    )
    ready = windows.group_by("ad").in_bands(2, 10, 50, n=sw.count(), cost=sw.sum("price"))
    for mine, theirs in zip(by_hand.run(), ready.run(), strict=True):
        assert mine.table.schema.names == theirs.table.schema.names
        assert mine.table.schema.types == theirs.table.schema.types
        assert _rows(mine.table) == _rows(theirs.table)
        assert {name: _rows(table) for name, table in mine.late_by_source.items()} == {
            name: _rows(table) for name, table in theirs.late_by_source.items()
        }


def test_between_bands_partial_answers_wait_and_not_events() -> None:
    """The union before a merge holds a row per window and ad, however many events there were (section V-B)."""
    times = [at // 10 for at in range(3_000)]
    table = pa.table({"at": times, "ad": ["x"] * len(times), "price": times}, schema=_CLICKS)
    early, late = (
        sw.stream(table, time="at")
        .tumbling(10)
        .in_bands(5, 1_000, partial=lambda s: s.map_windows(count_clicks), merge=lambda s: s.map_windows(add_counts))
    )
    _, result = sw.run_together(early, late)
    assert result.counters["union#1"].peak_buffered == 30
    assert result.table.column("n").to_pylist() == [100] * 30


def test_a_merge_that_answers_other_columns_is_refused_when_a_third_band_needs_them() -> None:
    """A merge must be able to go on from its own answers."""

    def renamed(rows: pa.RecordBatch) -> pa.Table:
        return add_counts(rows).rename_columns(["ad", "count", "cost"])

    windows = sw.stream(_clicks(1, 2), time="at").tumbling(10)
    with pytest.raises(SchemaMismatch, match=r"(?s)union takes streams of the same columns.*count.*n"):
        windows.in_bands(1, 2, 3, partial=lambda s: s.map_windows(count_clicks), merge=lambda s: s.map_windows(renamed))


# ---- failures -------------------------------------------------------------------------------------------------------


def _failing_at(start: int, how: Callable[[], Any]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """A function that goes wrong on one window."""

    def count(rows: pa.RecordBatch) -> Any:
        return how() if rows.column("window_start")[0].as_py() == start else pa.record_batch({"n": [rows.num_rows]})

    return count


def _divide() -> float:
    return 1 / 0


_WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "it raises": (_divide, "ZeroDivisionError: division by zero"),
    "it answers something else": (lambda: 7, "TypeError: the function answered int"),
    "it answers other columns": (lambda: pa.table({"m": [1]}), "the columns m; planned were n"),
    "it answers another type": (lambda: pa.table({"n": ["?"]}), "ArrowInvalid: Failed to parse string: '\\?'"),
}


@pytest.mark.parametrize("name", _WRONG)
def test_a_function_that_fails_on_one_window_stops_the_query_and_names_it(name: str) -> None:
    """What was sent before stays sent, and nothing is sent after it."""
    how, cause = _WRONG[name]
    seen: list[int] = []
    answers = _ordered(*range(0, 50, 5)).tumbling(10).map_windows(_failing_at(20, how))
    query = answers.open(lambda rows: seen.extend(rows.column("window_start").to_pylist()), batch_rows=1)
    text = rf"(?s)step 'map_windows#1' failed\n    window  \[20, 30\)\n    rows    .*\n    cause   .*{cause}"
    with pytest.raises(StepFailed, match=text):
        query.run_to_end()
    assert seen == [0, 10]
    with pytest.raises(RunError, match="this query has failed"):
        query.work()


def test_a_failing_run_keeps_what_was_emitted() -> None:
    """In the error, as for every failing step; windows of calendar time are named as such."""
    seconds = [datetime(2026, 11, 15, 10, 0, second, tzinfo=UTC) for second in (1, 12)]

    def fail(_: pa.RecordBatch) -> pa.RecordBatch:
        raise LookupError("no such ad")

    answers = sw.stream([{"at": at} for at in seconds], time="at").assume_ordered().tumbling("10s")
    with pytest.raises(StepFailed, match=r"\[2026-11-15T10:00:00\.000000Z, 2026-11-15T10:00:10\.000000Z\)") as failed:
        answers.map_windows(fail, schema=pa.schema({"n": pa.int64()})).run()
    assert isinstance(failed.value.__cause__, LookupError)
    assert [result.table.num_rows for result in failed.value.emitted] == [0]  # type: ignore[attr-defined]


def test_a_function_that_takes_no_made_up_values_needs_a_schema() -> None:
    """With one it is not tried."""

    def parse(rows: pa.RecordBatch) -> pa.RecordBatch:
        days = [datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC) for text in rows.column("day").to_pylist()]
        return pa.record_batch({"latest": [max(days).toordinal()]})

    stream = sw.stream([{"at": 1, "day": "2026-11-15"}, {"at": 1, "day": "2026-11-14"}], time="at").assume_ordered()
    with pytest.raises(PlanError, match=r"(?s)map_windows cannot be computed.*%Y-%m-%d.*hint: .*schema=pa\.schema"):
        stream.map_windows(parse)
    answers = stream.map_windows(parse, schema=pa.schema({"latest": pa.int32()}))
    assert answers.run().table.to_pylist() == [{"at": 1, "latest": datetime(2026, 11, 15, tzinfo=UTC).toordinal()}]
    assert answers.schema.field("latest").type == pa.int32()


def test_a_stream_that_never_says_what_is_complete_is_refused() -> None:
    """With the line of the plan at fault; sorted it will do."""
    disordered = sw.stream(_clicks(3, 1, 2), time="at").tumbling(10)
    with pytest.raises(NeedsOrder, match=r"(?s)map_windows needs an ordered.*stream  tumbling size=10"):
        disordered.map_windows(count_clicks)
    total = disordered.sort().map_windows(lambda rows: pa.table({"cost": [pc.sum(rows.column("price"))]}))
    assert total.run().table.column("cost").to_pylist() == [14]


# ---- snapshots ------------------------------------------------------------------------------------------------------


def test_a_query_resumed_in_the_middle_of_a_window_hands_it_over_whole() -> None:
    """Rows from before the snapshot and from after it."""
    seen: list[list[int]] = []

    def opened(source: sw.PushSource, **options: Any) -> sw.Query:
        answers = sw.stream(source, time="at").assume_ordered().tumbling(10).map_windows(_listed)
        return answers.open(lambda rows: seen.extend(rows.column("times").to_pylist()), **options)

    first, second = sw.PushSource(_CLICKS), sw.PushSource(_CLICKS)
    query = opened(first)
    first.push(_clicks(1, 12, 13))
    query.work()
    resumed = opened(second, resume=query.snapshot())
    second.push(_clicks(14, 21))
    resumed.close()
    assert seen == [[1], [12, 13, 14], [21]]
