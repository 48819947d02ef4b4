"""The columns of matched events, and the streams that cannot be matched."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from slackwater.errors import SchemaMismatch
from slackwater.events.schema import EventSchema
from slackwater.operators.match.matched_schema import kept_of_right, matched_schema


def stream(until: str | None = None, **columns: pa.DataType) -> EventSchema:
    """A stream whose first column is its time."""
    return EventSchema.of(pa.schema(columns), time=next(iter(columns)), until=until)


def matched(left: EventSchema, right: EventSchema, *on: str, interval: bool = False) -> EventSchema:
    """The matched schema, for a step called join."""
    return matched_schema(left, right, on, interval, "join")


CLICKS = stream(clicked=pa.timestamp("ms", "UTC"), user=pa.string(), page=pa.string())
BUYS = stream(bought=pa.date32(), user=pa.string(), page=pa.int64())


def test_matched_events_show_when_then_left_then_right_without_keys() -> None:
    """Keys appear once, a taken name gets _right, times of both streams stay as they were."""
    schema = matched(CLICKS, BUYS, "user")
    assert schema.columns == ("matched_at", "clicked", "user", "page", "bought", "page_right")
    assert schema.shown.types == [
        pa.timestamp("us", "UTC"),
        pa.timestamp("ms", "UTC"),
        pa.string(),
        pa.string(),
        pa.date32(),
        pa.int64(),
    ]
    assert schema.payload.names == ["clicked", "user", "page", "bought", "page_right"]


def test_overlaps_show_when_they_end() -> None:
    """An interval result has a second time column."""
    schema = matched(CLICKS, BUYS, interval=True)
    assert schema.columns[:2] == ("matched_at", "matched_until")
    assert schema.until is not None


def test_kept_of_right_lists_what_the_right_stream_adds() -> None:
    """By the names the right stream uses."""
    assert kept_of_right(BUYS, ["user"]) == ["bought", "page"]


def test_fields_keep_their_nullability_and_metadata() -> None:
    """Renaming a field changes nothing else."""
    field = pa.field("x", pa.int64(), nullable=False, metadata={"unit": "m"})
    one = EventSchema.of(pa.schema([pa.field("at", pa.int64()), field]), time="at")
    assert matched(one, one).payload.field("x_right").equals(field.with_name("x_right"), check_metadata=True)


def test_a_right_column_called_matched_at_is_renamed() -> None:
    """The new time column takes the name, on either side."""
    left, right = stream(at=pa.int64()), stream(matched_at=pa.int64())
    assert matched(left, right).columns == ("matched_at", "at", "matched_at_right")
    assert matched(right, left).columns == ("matched_at", "matched_at_before", "at")


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_clash_that_renaming_does_not_solve_is_refused(side: str) -> None:
    """Columns x and x_right on one side leave no name for x of the other."""
    left, right = stream(at=pa.int64(), x=pa.int8()), stream(when=pa.int64(), x=pa.int8())
    more = {"x_right": pa.int8()}
    if side == "left":
        left = stream(at=pa.int64(), x=pa.int8(), **more)
    else:
        right = stream(when=pa.int64(), x=pa.int8(), **more)
    with pytest.raises(SchemaMismatch, match="x_right"):
        matched(left, right)


@pytest.mark.parametrize("streams", [(CLICKS, stream(at=pa.date32())), (stream(at=pa.date32()), CLICKS)])
def test_a_key_must_be_on_both_sides(streams: tuple[EventSchema, EventSchema]) -> None:
    """The message names the step and the column."""
    with pytest.raises(SchemaMismatch, match=r"join names a column that is not there\n    asked for  user"):
        matched(*streams, "user")


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        (pa.int64(), pa.int32(), "int64, as on the left"),
        (pa.string(), pa.large_string(), "string, as on the left"),
        (pa.list_(pa.int8()), pa.list_(pa.int8()), "a type without parts"),
        (pa.struct({"x": pa.int8()}), pa.int8(), "a type without parts"),
        (pa.dictionary(pa.int8(), pa.string()), pa.int8(), "string, as on the left"),
    ],
    ids=str,
)
def test_keys_of_unequal_or_nested_types_are_refused(left: Any, right: Any, wanted: str) -> None:
    """Two types are never compared by casting in silence."""
    with pytest.raises(SchemaMismatch, match=wanted):
        matched(stream(at=pa.int64(), k=left), stream(at=pa.int64(), k=right), "k")


def test_a_dictionary_key_may_meet_a_plain_one() -> None:
    """Encoding is no difference of type."""
    left, right = stream(at=pa.int64(), k=pa.dictionary(pa.int8(), pa.string())), stream(to=pa.int64(), k=pa.string())
    assert matched(left, right, "k").columns == ("matched_at", "at", "k", "to")


def test_calendar_time_does_not_meet_sequence_numbers() -> None:
    """The kinds of time must agree."""
    with pytest.raises(SchemaMismatch, match="the same kind of time as 'clicked'"):
        matched(CLICKS, stream(n=pa.int64()))
