"""The fluent API as users type it: frozen streams, ways to run them, and columns that survive."""

from __future__ import annotations

import dataclasses
import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import slackwater as sw
from slackwater.errors import BadDuration, PlanError, SlackwaterError, StepFailed
from slackwater.sources.tables import ROWS_PER_CHUNK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from slackwater.streams.stream import Stream

_ROWS = [{"at": 1, "k": "a", "v": 5}, {"at": 2, "k": "b", "v": 6}, {"at": 7, "k": "a", "v": 7}]


def _ordered(rows: list[dict[str, Any]] | None = None) -> sw.OrderedStream:
    return sw.stream(rows or _ROWS, time="at").assume_ordered()


# ---- frozen handles -------------------------------------------------------------------------------------------------

_METHODS: dict[str, Callable[[sw.OrderedStream], Any]] = {
    "release": lambda stream: stream.union(_ordered()).release(sw.Release.by_query()),
    "where": lambda stream: stream.where(nw.col("v") > 5),
    "select": lambda stream: stream.select("v"),
    "map_batches": lambda stream: stream.map_batches(lambda rows: rows.select(["v"])),
    "tumbling": lambda stream: stream.tumbling(5),
    "hopping": lambda stream: stream.hopping(5, 2),
    "sliding": lambda stream: stream.sliding(5),
    "union": lambda stream: stream.union(stream),
    "join": lambda stream: stream.join(stream, on="k", within=1),
    "followed_by": lambda stream: stream.followed_by(stream, on="k", within=1),
    "deduplicate": lambda stream: stream.deduplicate(on="k", within=1),
    "group_by": lambda stream: stream.group_by("k"),
    "aggregate": lambda stream: stream.aggregate(n=sw.count()),
    "map_windows": lambda stream: stream.map_windows(lambda rows: rows.select(["v"])),
    "top_rows": lambda stream: stream.top_rows(1, by="v"),
    "assume_keyed": lambda stream: stream.assume_keyed(),
}

_METHODS_OF_DISORDERED: dict[str, Callable[[sw.DisorderedStream], Any]] = {
    "assume_ordered": lambda stream: stream.assume_ordered(),
    "sort": lambda stream: stream.sort(3),
    "sort_within_origins": lambda stream: stream.sort_within_origins(bounds=sw.Bounds.disorder(3)),
    "in_bands": lambda stream: stream.in_bands(1, 3),
    "merge_replicas": lambda stream: stream.merge_replicas(by="k", patience=3),
}


@pytest.mark.parametrize("name", [*_METHODS, *_METHODS_OF_DISORDERED])
def test_a_method_returns_a_new_frozen_stream_and_changes_nothing(name: str) -> None:
    """The stream it was called on says and gives what it did before."""
    disordered = sw.stream(_ROWS, time="at", origin="k")
    stream: sw.OrderedStream | sw.DisorderedStream = disordered if name in _METHODS_OF_DISORDERED else _ordered()
    before, rows = stream.explain(), stream.run().table
    made = _METHODS[name](stream) if isinstance(stream, sw.OrderedStream) else _METHODS_OF_DISORDERED[name](stream)
    parts: list[Any] = [*made] if isinstance(made, sw.PatienceBands) else [made]
    for one in parts:
        assert one is not stream
        assert one.node is not stream.node or name == "group_by"
        with pytest.raises(dataclasses.FrozenInstanceError):
            one.node = stream.node
    assert stream.explain() == before
    assert stream.run().table.equals(rows)


def test_every_public_method_is_tried() -> None:
    """A new method needs a line above.

    `late` and `left_out` need a step that diverts, and are tried in test_late_rows.py and test_left_out_rows.py;
    `settle`, which returns the stream itself, in test_revised.py.
    """
    ways_out = {"batches", "disorder", "explain", "for_each", "open", "properties", "run", "schema", "write_parquet"}
    ways_out |= {"shown_as", "start", "to_spark"}
    public = {name for name in dir(sw.OrderedStream) if not name.startswith("_")}
    assert public - ways_out - {"node", "late", "left_out", "settle"} == set(_METHODS)
    of_disordered = {name for name in dir(sw.DisorderedStream) if not name.startswith("_")}
    assert of_disordered - public == set(_METHODS_OF_DISORDERED)


def test_every_public_method_of_several_streams_and_of_groups_is_known() -> None:
    """A new one needs a test of its own, and its name here."""
    of_streams = {name for name in dir(sw.PatienceBands) if not name.startswith("_")}
    assert of_streams - {"count", "index"} == {"explain", "open", "run", "start"}
    of_groups = {name for name in dir(type(_ordered().group_by("k"))) if not name.startswith("_")}
    assert of_groups == {"aggregate", "aggregate_early", "in_bands"}


def test_row_steps_keep_the_kind_of_stream() -> None:
    """A disordered stream stays disordered, an ordered one ordered; hopping loses the order."""
    disordered = sw.stream(_ROWS, time="at")
    assert type(disordered.where(nw.col("v") > 5)) is sw.DisorderedStream
    assert type(disordered.select("v").tumbling(5)) is sw.DisorderedStream
    assert type(_ordered().select("v").where(nw.col("v") > 5)) is sw.OrderedStream
    assert type(_ordered().hopping(5, 2)) is sw.DisorderedStream
    assert type(disordered.assume_ordered()) is sw.OrderedStream
    assert (
        type(disordered.sort()) is type(disordered.sort(5)) is type(disordered.tumbling(5).sort(5)) is sw.OrderedStream
    )
    assert all(type(stream) is sw.OrderedStream for stream in disordered.in_bands(1, 5))
    assert type(disordered.sort(5).late) is sw.DisorderedStream
    by_origin = sw.stream(_ROWS, time="at", origin="k").sort_within_origins(bounds=sw.Bounds.disorder(5))
    assert type(by_origin.where(nw.col("v") > 5).tumbling(5)) is sw.StreamByOrigin
    assert type(by_origin.hopping(5, 2).group_by("k").aggregate(n=sw.count())) is sw.StreamByOrigin


def test_nothing_runs_until_asked() -> None:
    """Building a pipeline reads no row."""
    read = False

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal read
        read = True
        yield pa.record_batch({"at": [1]})

    reader = pa.RecordBatchReader.from_batches(pa.schema({"at": pa.int64()}), batches())
    stream = sw.stream(reader, time="at").assume_ordered().tumbling(5).aggregate(n=sw.count())
    stream.explain()
    assert not read
    stream.run()
    assert read


# ---- ways to run ----------------------------------------------------------------------------------------------------


def test_run_gives_a_table_and_counters() -> None:
    """All rows, in the order they were sent; what each step did, by its name in explain()."""
    result = _ordered().where(nw.col("v") > 5).run()
    assert result.table.to_pylist() == _ROWS[1:]
    assert list(result.counters) == ["source#1", "assume_ordered#1", "where#1"]
    assert result.counters["where#1"].rows_in == 3
    assert str(result).startswith("2 rows\nsource#1")


def test_a_run_without_rows_gives_an_empty_table_of_the_right_columns() -> None:
    """Types included."""
    stream = _ordered().where(nw.col("v") > 99).tumbling(5).aggregate(n=sw.count())
    table = stream.run().table
    assert table.num_rows == 0
    assert table.schema.equals(stream.schema)


def test_batches_hands_out_the_rows() -> None:
    """All of them, in order."""
    batches = list(_ordered().batches())
    assert pa.Table.from_batches(batches).to_pylist() == _ROWS


def test_batches_hands_out_rows_before_the_source_is_at_its_end() -> None:
    """As they come: a long source is neither read to its end nor held in memory before the first row is seen."""
    taken = 0

    def endless() -> Iterator[dict[str, int]]:
        nonlocal taken
        while taken < 200 * ROWS_PER_CHUNK:
            taken += 1
            yield {"at": taken}

    first = next(sw.stream(endless(), time="at").batches())
    assert first.num_rows > 0
    assert taken < 100 * ROWS_PER_CHUNK


def _in_time(work: Callable[[], None]) -> None:
    """Do something in a thread that is not waited for longer than it should ever take."""
    failures: list[BaseException] = []

    def noted() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again below
            failures.append(error)

    thread = threading.Thread(target=noted, daemon=True)
    thread.start()
    thread.join(5.0)
    assert not thread.is_alive(), "still waiting"
    if failures:
        raise failures[0]


def test_batches_of_a_live_source_come_out_before_the_query_waits_for_more() -> None:
    """Rows that are there are handed out at once, although the source stays open and silent."""
    source = sw.PushSource({"v": pa.int64()})
    source.push({"v": 1})
    seen: list[int] = []

    def take_one() -> None:
        seen.extend(next(sw.arrivals(source).batches(clock=sw.ManualClock())).column("v").to_pylist())

    _in_time(take_one)
    assert seen == [1]


def test_stopping_early_closes_the_sources() -> None:
    """Leaving the loop is enough; a push source that is left takes no more rows."""
    source = sw.PushSource({"v": pa.int64()})
    for value in range(3):
        source.push({"v": value})

    def take_one() -> None:
        batches = sw.arrivals(source).batches(clock=sw.ManualClock())
        for rows in batches:
            assert rows.num_rows
            break
        del batches

    _in_time(take_one)
    with pytest.raises(SlackwaterError, match="closed source"):
        source.push({"v": 9})


def test_batches_that_fail_hand_out_first_what_was_emitted_before() -> None:
    """Nothing that was already emitted is lost."""

    def fussy(rows: pa.RecordBatch) -> pa.Array:
        if 7 in rows.column("v").to_pylist():
            raise ValueError("seven")
        return pa.array([True] * rows.num_rows, pa.bool_())

    source = sw.PushSource({"v": pa.int64()})
    for value in (5, 6, 7):
        source.push({"v": value})
    source.close()
    seen: list[int] = []

    def read_all() -> None:
        for rows in sw.arrivals(source).where(fussy).batches(clock=sw.ManualClock()):
            seen.extend(rows.column("v").to_pylist())

    with pytest.raises(StepFailed, match="seven"):
        read_all()
    assert seen == [5, 6]


def test_for_each_calls_back_with_every_batch() -> None:
    """The result has the counters and no rows: they went to the callback."""
    seen: list[dict[str, Any]] = []
    result = _ordered().for_each(lambda rows: seen.extend(rows.to_pylist()))
    assert seen == _ROWS
    assert result.table.num_rows == 0
    assert result.counters["source#1"].rows_out == 3


def test_write_parquet_writes_all_rows_to_one_file(tmp_path: Path) -> None:
    """Which reads back as the stream it was."""
    path = tmp_path / "out.parquet"
    _ordered().write_parquet(path)
    assert pa.parquet.read_table(path).to_pylist() == _ROWS
    assert sw.stream(path, time="at").run().table.to_pylist() == _ROWS


def test_write_parquet_of_no_rows_leaves_a_readable_file(tmp_path: Path) -> None:
    """With the columns."""
    path = tmp_path / "out.parquet"
    _ordered().where(nw.col("v") > 99).write_parquet(str(path))
    assert pa.parquet.read_table(path).schema.names == ["at", "k", "v"]


def test_open_gives_a_query_that_is_driven_by_hand() -> None:
    """Nothing happens before work()."""
    seen: list[dict[str, Any]] = []
    query = _ordered().open(lambda rows: seen.extend(rows.to_pylist()), clock=sw.ManualClock())
    assert seen == []
    query.work()
    assert seen == _ROWS
    assert query.finished


# ---- columns that survive -------------------------------------------------------------------------------------------

_ODD_COLUMNS: dict[str, pa.Array] = {
    "nulls": pa.array([None, 1, None]),
    "strings": pa.array(["a", None, ""]),
    "string_views": pa.array(["a", None, "longer than twelve bytes"], pa.string_view()),
    "time_zone": pa.array([1, None, 3], pa.timestamp("ns", "America/New_York")),
    "nested": pa.array([[{"a": 1, "b": ["x"]}], None, []]),
    "struct": pa.array([{"a": 1}, None, {"a": None}]),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "dictionary": pa.array(["x", None, "y"]).dictionary_encode(),
    "decimal": pa.array([Decimal("1.50"), None, Decimal("-2.25")]),
    "boolean": pa.array([True, None, False]),
    "calendar_interval": pa.array([pa.MonthDayNano([1, 2, 3]), None, pa.MonthDayNano([4, 5, 6])]),
    "all_null": pa.nulls(3),
}


@pytest.mark.parametrize("name", _ODD_COLUMNS)
def test_columns_survive_a_union_a_where_and_a_run_unchanged(name: str) -> None:
    """Values and types, from both sides."""
    column = _ODD_COLUMNS[name]
    one = pa.table({"at": [1, 3, 5], name: column, "n": [1, 2, 3]})
    other = pa.table({"at": [2, 4, 6], name: column, "n": [4, 5, 6]})
    streams = [sw.stream(table, time="at").assume_ordered() for table in (one, other)]
    result = sw.union(*streams).where(nw.col("n") != 2).run().table
    values = column.to_pylist()
    assert result.schema.equals(one.schema)
    assert result.column("n").to_pylist() == [1, 4, 5, 3, 6]
    assert result.column(name).to_pylist() == [values[0], values[0], values[1], values[2], values[2]]


def test_categories_of_two_frames_survive_a_union() -> None:
    """A frame numbers a hundred categories in an int8; those of two frames together are more than that can number."""
    streams = []
    for side in range(2):
        words = [f"{side}-{i}" for i in range(100)]
        frame = pd.DataFrame({"at": [2 * i + side for i in range(100)], "word": pd.Categorical(words)})
        streams.append(sw.stream(frame, time="at").assume_ordered())
    table = sw.union(*streams).run().table
    assert table.column("word").to_pylist() == [f"{i % 2}-{i // 2}" for i in range(200)]


def test_columns_that_cannot_be_null_survive() -> None:
    """Also the time column itself."""
    schema = pa.schema([pa.field("at", pa.int64(), nullable=False), pa.field("v", pa.int64(), nullable=False)])
    table = pa.table({"at": [1, 2], "v": [3, 4]}, schema=schema)
    result = sw.union(*(sw.stream(table, time="at").assume_ordered() for _ in range(2))).run().table
    assert result.schema.equals(schema)


def test_ends_that_are_not_known_yet_survive_as_nulls() -> None:
    """Null in, null out."""
    rows = [{"at": 1, "to": None}, {"at": 2, "to": 4}]
    stream = sw.stream(rows, time="at", until="to", schema=pa.schema({"at": pa.int64(), "to": pa.int64()}))
    assert sw.union(stream.assume_ordered(), stream.assume_ordered()).run().table.to_pylist() == [
        rows[0], rows[0], rows[1], rows[1],
    ]  # fmt: skip


# ---- windows on calendar time ---------------------------------------------------------------------------------------


def _calendar(*minutes: int) -> sw.OrderedStream:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    at = pa.array([start + timedelta(minutes=m) for m in minutes], pa.timestamp("us", "UTC"))
    return sw.stream(pa.table({"at": at}), time="at").assume_ordered()


@pytest.mark.parametrize("size", ["1h", timedelta(hours=1), "60m"])
def test_tumbling_windows_on_calendar_time_start_on_the_hour(size: Any) -> None:
    """Counted from 1970 in UTC."""
    table = _calendar(5, 59, 60).tumbling(size).aggregate(n=sw.count()).run().table
    assert [(row["window_start"].hour, row["n"]) for row in table.to_pylist()] == [(0, 2), (1, 1)]


def test_an_offset_moves_the_windows() -> None:
    """Windows from a quarter past to a quarter past; an event exactly on the border is in the later one."""
    table = _calendar(5, 14, 15, 74, 75).tumbling("1h", offset="15m").aggregate(n=sw.count()).run().table
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert [((row["window_start"] - start) // timedelta(minutes=1), row["n"]) for row in table.to_pylist()] == [
        (-45, 2),
        (15, 2),
        (75, 1),
    ]


@pytest.mark.parametrize(
    "build",
    [
        lambda: _calendar(1).tumbling(60),
        lambda: _calendar(1).tumbling("1h", offset=5),
        lambda: _calendar(1).hopping("1h", 5),
        lambda: _calendar(1).sliding(5),
        lambda: _calendar(1).join(_calendar(1), within=5),
        lambda: _calendar(1).followed_by(_calendar(1), within=5),
        lambda: _ordered().tumbling("1h"),
        lambda: _ordered().hopping(5, "2s"),
        lambda: _ordered().sliding(timedelta(seconds=1)),
        lambda: _ordered().join(_ordered(), within="5s"),
        lambda: _ordered().tumbling(5, offset="1s"),
        lambda: _ordered().tumbling("an hour"),
        lambda: _ordered().tumbling(1.5),  # type: ignore[arg-type]
        lambda: _calendar(1).tumbling(1.5),  # type: ignore[arg-type]
        lambda: sw.Punctuations.on_demand(skew=5),
        lambda: sw.Punctuations.periodic(5),
    ],
)
def test_a_duration_in_the_wrong_place_is_refused_when_the_pipeline_is_built(build: Callable[[], Stream]) -> None:
    """Numbers for sequence numbers, texts and timedeltas for calendar time."""
    with pytest.raises(BadDuration, match=r"hint|above zero"):
        build()


def test_windows_of_an_int_are_for_sequence_numbers() -> None:
    """Plain integers count."""
    table = _ordered().tumbling(5).group_by("k").aggregate(n=sw.count(), most=sw.max("v")).run().table
    assert table.to_pylist() == [
        {"window_start": 0, "window_end": 5, "k": "a", "n": 1, "most": 5},
        {"window_start": 0, "window_end": 5, "k": "b", "n": 1, "most": 6},
        {"window_start": 5, "window_end": 10, "k": "a", "n": 1, "most": 7},
    ]


# ---- unions ---------------------------------------------------------------------------------------------------------


def test_a_union_of_a_stream_with_itself_doubles_its_rows() -> None:
    """The stream runs once."""
    stream = _ordered()
    result = stream.union(stream).run()
    assert result.table.column("v").to_pylist() == [5, 5, 6, 6, 7, 7]
    assert result.counters["source#1"].rows_out == 3


def test_a_union_of_many_streams_is_in_order() -> None:
    """By function or by method, it is the same."""
    streams = [_ordered([{"at": at, "n": n} for at in range(n, 40, 7)]) for n in range(7)]
    assert sw.union(*streams).run().table.column("at").to_pylist() == list(range(40))
    assert streams[0].union(*streams[1:]).run().table.num_rows == 40


def test_streams_of_nothing_but_times_can_be_united() -> None:
    """Whether they interleave or follow each other."""
    for other in ([5, 6], [2, 9]):
        one, two = (_ordered([{"at": at} for at in starts]) for starts in ([1, 3], other))
        assert sw.union(one, two).run().table.column("at").to_pylist() == sorted([1, 3, *other])


def test_an_overlapping_join_needs_no_within() -> None:
    """Lifetimes that share an instant meet for as long as both last."""
    one = sw.stream([{"a": 1, "b": 5, "k": "x"}], time="a", until="b").assume_ordered()
    two = sw.stream([{"c": 4, "d": 9, "k": "x"}], time="c", until="d").assume_ordered()
    (row,) = one.join(two, on="k").run().table.to_pylist()
    assert (row["matched_at"], row["matched_until"]) == (4, 5)


def test_a_key_may_be_given_as_text_or_as_several() -> None:
    """One column or a sequence of them."""
    stream = _ordered()
    by_text = stream.join(stream, on="k", within=0).run().table
    by_list = stream.join(stream, on=["k"], within=0).run().table
    assert by_text.equals(by_list)
    assert stream.join(stream, on=("k", "v"), within=0).run().table.num_rows == 3


def test_no_streams_cannot_run_together() -> None:
    """There is nothing to do, and it says so."""
    with pytest.raises((PlanError, TypeError)):
        sw.run_together()


def _endless(step: int) -> Iterator[dict[str, int]]:
    at = 0
    while True:
        yield {"at": at}
        at += step


def test_batches_of_a_union_of_endless_sources_come_out_step_by_step() -> None:
    """A union that always waits for one of them does not read on for ever before the first row is handed out."""
    fast, slow = (sw.stream(_endless(step), time="at").assume_ordered() for step in (1, 50))
    batches = sw.union(fast, slow).batches()
    starts = [at for _ in range(20) for at in next(batches).column("at").to_pylist()]
    batches.close()
    assert starts == sorted(starts)


def test_batches_of_an_aggregate_over_an_endless_source_come_out_step_by_step() -> None:
    """An open window waits for more, but not for all."""
    batches = sw.stream(_endless(1), time="at").assume_ordered().tumbling(10).aggregate(n=sw.count()).batches()
    assert set(next(batches).column("n").to_pylist()) == {10}
    batches.close()


def test_a_union_reads_only_what_it_waits_for() -> None:
    """Of two tables whose times advance differently, the one that is ahead is left unread: little waits."""
    tables = [pa.table({"at": [i * step for i in range(2_000)]}) for step in (1, 100)]
    streams = [sw.stream(table, time="at").assume_ordered() for table in tables]
    query = sw.union(*streams).open(lambda _: None, batch_rows=10)
    query.run_to_end()
    assert query.counters()["union#1"].rows_out == 4_000
    assert query.counters()["union#1"].peak_buffered <= 20


def test_counts_per_minute_can_be_rolled_up_to_counts_per_hour() -> None:
    """A window after an aggregate after a window."""
    rows = [{"at": at} for at in (1, 2, 11, 25)]
    per_ten = sw.stream(rows, time="at").assume_ordered().tumbling(10).aggregate(n=sw.count())
    per_twenty = per_ten.tumbling(20).aggregate(n=sw.sum("n"), parts=sw.count())
    assert per_twenty.run().table.column("n").to_pylist() == [3, 1]
    assert per_twenty.run().table.column("parts").to_pylist() == [2, 1]


def test_three_streams_can_be_joined_one_after_the_other() -> None:
    """The first match stays as a column of its own."""
    a, b, c = (
        sw.stream([{"at": at, "k": 1, name: at}], time="at").assume_ordered()
        for at, name in ((1, "x"), (2, "y"), (3, "z"))
    )
    row = (
        a.join(b, on="k", within=5)
        .select("matched_at", "k", "x", "y")
        .join(c, on="k", within=5)
        .run()
        .table.to_pylist()
    )
    assert [(one["matched_at"], one["matched_at_before"], one["x"], one["y"], one["z"]) for one in row] == [
        (3, 2, 1, 2, 3)
    ]


@pytest.mark.parametrize("wrong", [None, [1], "stream"])
def test_what_is_no_stream_is_refused_with_a_hint(wrong: Any) -> None:
    """In every step that takes another stream."""
    ordered = _ordered()
    for step in (lambda: ordered.union(wrong), lambda: ordered.join(wrong), lambda: sw.run_together(wrong)):
        with pytest.raises(PlanError, match=r"(?s)takes streams.*hint"):
            step()


@pytest.mark.parametrize("wrong", [sw.count, 1, "count"])
def test_what_is_no_aggregate_is_refused_with_a_hint(wrong: Any) -> None:
    """Forgotten parentheses, above all."""
    with pytest.raises(PlanError, match=r"(?s)not an aggregate.*hint: for example aggregate\(n=sw.count\(\)\)"):
        _ordered().aggregate(n=wrong)


@pytest.mark.parametrize("make", [sw.sum, sw.min, sw.max, sw.mean, sw.count_distinct])
def test_an_aggregate_without_its_column_is_refused(make: Any) -> None:
    """None is no column."""
    with pytest.raises(PlanError, match="needs a column"):
        make(None)


def test_a_piece_that_starts_where_a_finer_time_ends_is_shown_exactly() -> None:
    """Starts in seconds and ends in milliseconds: what begins at an end must not be cut to a second."""
    table = pa.table(
        {
            "at": pa.array([0, 1], pa.timestamp("s")),
            "to": pa.array([1_500, 3_000], pa.timestamp("ms")),
        }
    )
    counted = sw.stream(table, time="at", until="to").assume_ordered().aggregate(n=sw.count()).run().table
    assert counted.column("at").cast(pa.int64()).to_pylist() == [0, 1_000_000, 1_500_000]
    assert counted.column("n").to_pylist() == [1, 2, 1]
