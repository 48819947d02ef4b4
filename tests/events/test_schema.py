"""The way from user tables to event batches and back: every kind of time, and payloads that come back untouched."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slackwater.errors import BackwardInterval, BadTime, SchemaMismatch
from slackwater.events.batch import EventBatch
from slackwater.events.schema import EventSchema, TimeColumn
from slackwater.progress.instants import BEGINNING, FOREVER, UNTIMED

_DAY = 86_400_000_000

_KINDS_OF_TIME: dict[str, tuple[pa.DataType, int]] = {
    "timestamp[s]": (pa.timestamp("s"), 1_000_000),
    "timestamp[ms]": (pa.timestamp("ms"), 1_000),
    "timestamp[us]": (pa.timestamp("us"), 1),
    "timestamp[ns]": (pa.timestamp("ns"), 1),
    "timestamp[s, UTC]": (pa.timestamp("s", "UTC"), 1_000_000),
    "timestamp[ms, Asia/Tokyo]": (pa.timestamp("ms", "Asia/Tokyo"), 1_000),
    "timestamp[us, Europe/Zurich]": (pa.timestamp("us", "Europe/Zurich"), 1),
    "timestamp[ns, +05:30]": (pa.timestamp("ns", "+05:30"), 1),
    "date32": (pa.date32(), _DAY),
    "date64": (pa.date64(), _DAY),
    **{
        f"{sign}int{bits}": (pa.type_for_alias(f"{sign}int{bits}"), 1) for bits in (8, 16, 32, 64) for sign in ("", "u")
    },
}
"""Types that can serve as time, and what one unit of our test values is in instants."""


def _column(kind: pa.DataType, values: list[int | None]) -> pa.Array:
    """A column of a kind of time, whose values are whole units: seconds, days, or whole microseconds of nanoseconds."""
    if pa.types.is_date64(kind):
        return pa.array([None if v is None else v * 86_400_000 for v in values], pa.int64()).cast(kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return pa.array([None if v is None else v * 1_000 for v in values], pa.int64()).cast(kind)
    return pa.array(values, pa.int64()).cast(kind)


@pytest.mark.parametrize("name", _KINDS_OF_TIME)
def test_every_kind_of_time_is_read_exactly_and_shown_in_its_own_type(name: str) -> None:
    """Instants are microseconds for calendar time; a null end is FOREVER and null again when shown."""
    kind, unit = _KINDS_OF_TIME[name]
    schema = EventSchema.of(pa.schema({"from": kind, "x": pa.string(), "to": kind}), time="from", until="to")
    table = pa.record_batch(
        [_column(kind, [3, 1, 2]), pa.array(["a", None, "c"]), _column(kind, [4, None, 2])], schema=schema.shown
    )
    batch = schema.read(table, "test")
    batch.check()
    assert batch.start.tolist() == [3 * unit, unit, 2 * unit]
    assert batch.ends().tolist() == [4 * unit, FOREVER, 2 * unit]
    assert batch.payload.column_names == ["x"]
    assert schema.show(batch).equals(table)
    assert schema.calendar == (not pa.types.is_integer(kind))


@pytest.mark.parametrize("name", _KINDS_OF_TIME)
def test_every_kind_of_time_may_be_empty(name: str) -> None:
    """No rows, with and without an end."""
    kind, _ = _KINDS_OF_TIME[name]
    schema = EventSchema.of(pa.schema({"from": kind, "to": kind}), time="from", until="to")
    table = pa.RecordBatch.from_pylist([], schema=schema.shown)
    assert schema.show(schema.read(table, "test")).equals(table)


@pytest.mark.parametrize("kind", [pa.timestamp("s"), pa.timestamp("ms", "UTC"), pa.timestamp("us"), pa.date32()])
def test_times_before_1970_are_times_like_any_other(kind: pa.DataType) -> None:
    """Negative instants are exact too."""
    schema = EventSchema.of(pa.schema({"at": kind}), time="at")
    table = pa.record_batch({"at": _column(kind, [-3, -1, 0])})
    assert schema.show(schema.read(table, "test")).equals(table)


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.int64()])
def test_microseconds_and_int64_are_not_copied(kind: pa.DataType) -> None:
    """Reading a large column of them costs nothing."""
    column = pa.array([1, 2, 3], pa.int64()).view(kind)
    times = TimeColumn("at", kind).read(column, "test")
    assert np.shares_memory(times, np.frombuffer(column.buffers()[1], dtype=np.int64))


def test_a_slice_of_a_table_is_read_from_its_own_rows() -> None:
    """Offsets into shared memory are minded."""
    schema = EventSchema.of(pa.schema({"at": pa.int64(), "to": pa.int64(), "x": pa.string()}), time="at", until="to")
    table = pa.record_batch({"at": [1, 2, 3, 4], "to": [None, 5, None, 7], "x": ["a", "b", "c", "d"]})
    cut = table.slice(1, 2)
    batch = schema.read(cut, "test")
    assert (batch.start.tolist(), batch.ends().tolist()) == ([2, 3], [5, FOREVER])
    assert schema.show(batch).equals(cut)


_PAYLOADS: dict[str, pa.Array] = {
    "nested list": pa.array([[1, None], None, []]),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}]),
    "list of structs": pa.array([[{"a": 1}], [], None]),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "dictionary": pa.array(["x", "y", None]).dictionary_encode(),
    "decimal": pa.array([Decimal("1.50"), None, Decimal("-2.25")]),
    "all null": pa.nulls(3),
    "time zone": pa.array([1, None, 3], pa.timestamp("ns", "America/New_York")),
    "boolean": pa.array([True, None, False]),
    "binary": pa.array([b"\x00", None, b""]),
    "float": pa.array([1.5, None, float("inf")]),
    "duration": pa.array([1, None, 3], pa.duration("ms")),
    "time of day": pa.array([dt.time(1, 2, 3), None, dt.time(0, 0)]),
    "large string": pa.array(["a", None, ""], pa.large_string()),
}


@pytest.mark.parametrize("name", _PAYLOADS)
def test_payload_columns_come_back_unchanged(name: str) -> None:
    """The same values, type and place, and the same memory."""
    table = pa.record_batch({"before": _PAYLOADS[name], "at": [3, 1, 2], "after": _PAYLOADS[name]})
    schema = EventSchema.of(table.schema, time="at")
    shown = schema.show(schema.read(table, "test"))
    assert shown.equals(table)
    assert shown.schema.equals(table.schema)
    assert [buffer and buffer.address for buffer in shown.column("after").buffers()] == [
        buffer and buffer.address for buffer in table.column("after").buffers()
    ]


def test_fields_keep_what_was_stated_about_them() -> None:
    """Columns that cannot be null stay such, the time column too."""
    fields = [pa.field("at", pa.int64(), nullable=False), pa.field("x", pa.string(), nullable=False)]
    schema = EventSchema.of(pa.schema(fields), time="at")
    table = pa.record_batch([pa.array([1]), pa.array(["a"])], schema=pa.schema(fields))
    assert schema.shown.equals(table.schema)
    assert schema.show(schema.read(table, "test")).equals(table)


def test_punctuations_are_not_shown() -> None:
    """Users see rows."""
    schema = EventSchema.of(pa.schema({"at": pa.int64(), "x": pa.string()}), time="at")
    batch = schema.read(pa.record_batch({"at": [3, 5], "x": ["a", "b"]}), "test")
    both = EventBatch.concat([batch, batch.punctuation(5), batch.slice(1, 2)])
    assert schema.show(both).to_pydict() == {"at": [3, 5, 5], "x": ["a", "b", "b"]}


def test_a_time_that_is_missing_names_the_column_and_the_row() -> None:
    """The first null is named."""
    schema = EventSchema.of(pa.schema({"at": pa.int64()}), time="at")
    with pytest.raises(BadTime, match=r"(?s)source 'a' got a row without a time.*column  at.*row     2.*hint"):
        schema.read(pa.record_batch({"at": [1, 2, None, None]}), "source 'a'")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, 2**63], pa.uint64()),
        pa.array([2**62], pa.timestamp("s")),
        pa.array([-(2**62)], pa.timestamp("ms")),
        pa.array([FOREVER], pa.int64()),
        pa.array([FOREVER], pa.timestamp("us")),
    ],
    ids=str,
)
def test_a_time_that_does_not_fit_is_refused(column: pa.Array) -> None:
    """Nothing wraps around, and the last instant is kept for FOREVER."""
    schema = EventSchema.of(pa.schema({"at": column.type}), time="at")
    with pytest.raises(BadTime, match=r"(?s)source 'a'.*int64.*at"):
        schema.read(pa.record_batch({"at": column}), "source 'a'")


def test_the_first_and_last_possible_times_are_read() -> None:
    """Every instant before FOREVER is one."""
    schema = EventSchema.of(pa.schema({"at": pa.int64()}), time="at")
    table = pa.record_batch({"at": [-(2**63), FOREVER - 1]})
    assert schema.show(schema.read(table, "test")).equals(table)


def test_nanoseconds_between_two_microseconds_are_refused() -> None:
    """The row and its value are named, and what to do about it."""
    schema = EventSchema.of(pa.schema({"at": pa.timestamp("ns")}), time="at")
    with pytest.raises(BadTime, match=r"(?s)finer than a microsecond.*row          1.*1001.*floor_temporal"):
        schema.read(pa.record_batch({"at": pa.array([1_000, 1_001], pa.timestamp("ns"))}), "source 'a'")


def test_a_date_between_two_days_is_refused_as_a_bad_time() -> None:
    """date64 counts milliseconds; one that is not a whole day is no date, and says so like any other bad time."""
    schema = EventSchema.of(pa.schema({"at": pa.date64()}), time="at")
    with pytest.raises(BadTime, match=r"(?s)source 'a'.*at"):
        schema.read(pa.record_batch({"at": pa.array([86_400_001], pa.int64()).view(pa.date64())}), "source 'a'")


def test_an_interval_that_runs_backward_names_its_row() -> None:
    """The first such row, with its values; an interval of no length is fine."""
    schema = EventSchema.of(pa.schema({"a": pa.int64(), "b": pa.int64(), "x": pa.string()}), time="a", until="b")
    table = pa.record_batch({"a": [1, 5, 9], "b": [1, 4, 8], "x": ["p", "q", "r"]})
    with pytest.raises(BackwardInterval, match=r"(?s)source 'a'.*row 1: \{'a': 5, 'b': 4, 'x': 'q'\}"):
        schema.read(table, "source 'a'")
    assert schema.read(table.slice(0, 1), "test").ends().tolist() == [1]


def test_two_columns_of_one_name_are_refused() -> None:
    """Nobody could say which one is meant."""
    twice = pa.schema([("at", pa.int64()), ("x", pa.int64()), ("x", pa.string())])
    with pytest.raises(SchemaMismatch, match=r"(?s)two columns of one name.*x.*hint: rename"):
        EventSchema.of(twice, time="at")


def test_a_time_column_that_is_not_there_is_refused() -> None:
    """The columns that are there are listed."""
    with pytest.raises(SchemaMismatch, match=r"(?s)asked for  when.*there are  at, x"):
        EventSchema.of(pa.schema({"at": pa.int64(), "x": pa.string()}), time="when")


@pytest.mark.parametrize("kind", [pa.string(), pa.float64(), pa.time64("us"), pa.duration("s"), pa.bool_()])
def test_a_column_that_is_no_time_is_refused(kind: pa.DataType) -> None:
    """With what it is and what is wanted."""
    with pytest.raises(SchemaMismatch, match=r"(?s)column  at.*wanted  a timestamp, a date or an integer.*hint: parse"):
        EventSchema.of(pa.schema({"at": kind}), time="at")


def test_ends_of_another_kind_of_time_are_refused() -> None:
    """A sequence number is no end of a calendar interval."""
    schema = pa.schema({"at": pa.timestamp("us"), "to": pa.int64()})
    with pytest.raises(SchemaMismatch, match=r"(?s)column  to.*the same kind of time as 'at'"):
        EventSchema.of(schema, time="at", until="to")


def test_one_column_cannot_be_both_ends_of_an_interval() -> None:
    """Every event would last for no time at all, and the user surely meant something else."""
    with pytest.raises(SchemaMismatch, match="at"):
        EventSchema.of(pa.schema({"at": pa.int64()}), time="at", until="at")


def test_start_and_end_may_be_of_different_units() -> None:
    """A date and a timestamp are both calendar time."""
    schema = EventSchema.of(pa.schema({"day": pa.date32(), "to": pa.timestamp("ms")}), time="day", until="to")
    table = pa.record_batch({"day": _column(pa.date32(), [1]), "to": _column(pa.timestamp("ms"), [86_400_001])})
    batch = schema.read(table, "test")
    assert (batch.start.tolist(), batch.ends().tolist()) == ([_DAY], [_DAY + 1_000])
    assert schema.show(batch).equals(table)


def test_new_time_columns_stand_in_front_and_the_old_ones_become_payload() -> None:
    """As windows do it; the old times are shown in their own types."""
    schema = EventSchema.of(pa.schema({"x": pa.string(), "at": pa.date32()}), time="at")
    renamed = schema.with_times(schema.time.renamed("start"), schema.time.renamed("end"), "window")
    assert renamed.columns == ("start", "end", "x", "at")
    assert renamed.shown.field("start").type == pa.timestamp("us")
    batch = schema.read(pa.record_batch({"x": ["a"], "at": _column(pa.date32(), [2])}), "test")
    kept = EventBatch(schema.keep_times(batch), batch.start, batch.start + _DAY)
    row: dict[str, Any] = renamed.show(kept).to_pylist()[0]
    assert row["at"] == dt.date(1970, 1, 3)
    assert row["end"] - row["start"] == dt.timedelta(days=1)
    again = renamed.with_times(TimeColumn("start", pa.int64()), None, "window")
    assert again.columns == ("start", "start_before", "end", "x", "at")
    with pytest.raises(SchemaMismatch, match=r"(?s)window.*start_before.*select"):
        again.with_times(TimeColumn("start", pa.int64()), None, "window")


def test_computed_times_are_fine_enough_for_every_instant() -> None:
    """Microseconds in the same time zone, or int64."""
    assert TimeColumn("at", pa.timestamp("s", "UTC")).renamed("w").type == pa.timestamp("us", "UTC")
    assert TimeColumn("at", pa.date64()).renamed("w").type == pa.timestamp("us")
    assert TimeColumn("at", pa.int8()).renamed("w").type == pa.int64()


# ---- rows without a time --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", _KINDS_OF_TIME)
def test_a_missing_time_is_untimed_and_missing_again_when_shown(name: str) -> None:
    """Where rows may come without one; their ends stay as they are, and are no intervals that run backward."""
    kind, unit = _KINDS_OF_TIME[name]
    columns = pa.schema([pa.field("from", kind, nullable=False), pa.field("to", kind)])
    schema = EventSchema.of(columns, time="from", until="to").with_untimed_rows()
    table = pa.record_batch([_column(kind, [None, 1, None]), _column(kind, [4, 2, None])], schema=schema.shown)
    batch = schema.read(table, "test")
    batch.check()
    assert batch.start.tolist() == [UNTIMED, unit, UNTIMED]
    assert batch.ends().tolist() == [4 * unit, 2 * unit, FOREVER]
    assert schema.show(batch).equals(table)
    assert schema.shown.field("from").nullable


@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("us")], ids=str)
def test_the_number_of_no_time_is_refused_as_a_time_only_where_it_means_none(kind: pa.DataType) -> None:
    """Elsewhere it is a time like any other."""
    schema = EventSchema.of(pa.schema({"at": kind}), time="at")
    table = pa.record_batch({"at": pa.array([BEGINNING, None], pa.int64()).cast(kind)})
    with pytest.raises(BadTime, match=r"(?s)range of int64.*very beginning"):
        schema.with_untimed_rows().read(table, "test")
    assert schema.read(table.slice(0, 1), "test").start.tolist() == [BEGINNING]
    assert schema.show(schema.read(table.slice(0, 1), "test")).equals(table.slice(0, 1))


def test_streams_with_and_without_such_rows_have_the_same_columns() -> None:
    """So that they can be put together."""
    schema = EventSchema.of(pa.schema({"at": pa.int64()}), time="at")
    assert schema.with_untimed_rows() == schema
    assert schema.with_untimed_rows().time.renamed("window_start").untimed
