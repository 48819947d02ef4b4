"""Durations and instants as people write them: read exactly, refused clearly, written to be read again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BadDuration
from slackwater.progress.instants import (
    BEGINNING,
    FOREVER,
    MICROSECONDS,
    as_duration,
    format_duration,
    format_instant,
    parse_duration,
)


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("5s", 5_000_000),
        ("1h30m", 5_400_000_000),
        ("0.5ms", 500),
        ("1us", 1),
        ("0s", 0),
        ("2d", 172_800_000_000),
        ("1w", 604_800_000_000),
        ("1.5h", 5_400_000_000),
        ("0.000001s", 1),
        ("1 h 30 m", 5_400_000_000),
        (" 5s ", 5_000_000),
        ("30m1h", 5_400_000_000),
        ("1m1ms", 60_001_000),
        ("9223372036854775807us", FOREVER),
    ],
)
def test_a_duration_is_read_exactly(text: str, microseconds: int) -> None:
    """Numbers with units add up, whatever their order and the spaces between them."""
    assert parse_duration(text) == microseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "5",
        "s",
        "5 apples",
        "5S",
        "-5s",
        "+5s",
        "1,5s",
        "5s!",
        "x5s",
        "1e3s",
        ".5s",
        "5.s",
        "1y",
        "1mo",
        "1h;30m",
    ],
)
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    """The message repeats what was written and shows how to write it."""
    with pytest.raises(BadDuration, match=r"(?s)not a duration.*1h30m") as refused:
        parse_duration(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize("text", ["0.5us", "0.0001ms", "9223372036854775808us", "99999999999w"])
def test_a_duration_that_is_too_fine_or_too_long_is_refused(text: str) -> None:
    """Nothing is rounded and nothing leaves int64."""
    with pytest.raises(BadDuration):
        parse_duration(text)


@given(st.integers(0, FOREVER))
def test_a_formatted_duration_is_read_back_as_itself(length: int) -> None:
    """Formatting loses nothing, up to the largest duration."""
    assert parse_duration(format_duration(length)) == length


@given(st.dictionaries(st.sampled_from(list(MICROSECONDS)), st.integers(0, 999), min_size=1))
def test_the_parts_of_a_duration_add_up(parts: dict[str, int]) -> None:
    """A text of several parts is the sum of its parts."""
    text = "".join(f"{count}{unit}" for unit, count in parts.items())
    assert parse_duration(text) == sum(count * MICROSECONDS[unit] for unit, count in parts.items())


def test_zero_and_mixed_durations_are_written_in_the_largest_units() -> None:
    """Zero needs a unit too; units that are zero are left out."""
    assert format_duration(0) == "0s"
    assert format_duration(MICROSECONDS["w"] + MICROSECONDS["m"] + 1) == "1w1m1us"


def test_calendar_time_takes_texts_and_timedeltas() -> None:
    """Both mean microseconds."""
    assert as_duration("5s", calendar=True) == 5_000_000
    assert as_duration(timedelta(hours=1, microseconds=1), calendar=True) == 3_600_000_001


def test_sequence_numbers_take_plain_integers() -> None:
    """An int counts numbers."""
    assert as_duration(5, calendar=False) == 5
    assert as_duration(0, calendar=False) == 0


@pytest.mark.parametrize(
    ("length", "calendar", "hint"),
    [
        (5, True, 'write "5s" or a timedelta'),
        ("5s", False, "write a plain int"),
        (timedelta(seconds=5), False, "write a plain int"),
        (True, True, 'write "5s" or a timedelta'),
        (1.5, False, "write a plain int"),
        (1.5, True, 'write "5s" or a timedelta'),
        (None, True, 'write "5s" or a timedelta'),
    ],
)
def test_a_duration_of_the_other_kind_is_refused(length: Any, calendar: bool, hint: str) -> None:
    """A bare 5 on calendar time would silently mean five microseconds, and 1.5 would mean nothing exact."""
    with pytest.raises(BadDuration) as refused:
        as_duration(length, calendar=calendar)
    assert repr(length) in str(refused.value)
    assert hint in str(refused.value)


@pytest.mark.parametrize(("length", "calendar"), [(-1, False), (timedelta(microseconds=-1), True)])
def test_a_negative_duration_is_refused(length: Any, calendar: bool) -> None:
    """Lengths of time have no direction."""
    with pytest.raises(BadDuration, match="must not be negative"):
        as_duration(length, calendar=calendar)


@pytest.mark.parametrize(("length", "calendar"), [(FOREVER + 1, False), (timedelta.max, True)])
def test_a_duration_beyond_int64_is_refused_whatever_it_is_written_as(length: Any, calendar: bool) -> None:
    """What parse_duration refuses in a text is no better as an int or a timedelta."""
    with pytest.raises(BadDuration):
        as_duration(length, calendar=calendar)


def test_instants_are_written_as_iso_8601_in_utc() -> None:
    """Six digits of a second, and a Z."""
    moment = datetime(2026, 11, 15, 10, 0, 1, 800_000, tzinfo=UTC)
    instant = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert format_instant(instant, calendar=True) == "2026-11-15T10:00:01.800000Z"
    assert format_instant(-1, calendar=True) == "1969-12-31T23:59:59.999999Z"


def test_sequence_numbers_are_written_as_themselves() -> None:
    """No unit, no date."""
    assert format_instant(-7, calendar=False) == "-7"


@pytest.mark.parametrize("calendar", [True, False])
def test_the_ends_of_time_have_names(calendar: bool) -> None:
    """Nobody wants to read the largest int64."""
    assert format_instant(BEGINNING, calendar=calendar) == "beginning"
    assert format_instant(FOREVER, calendar=calendar) == "forever"


@pytest.mark.parametrize("instant", [BEGINNING + 1, FOREVER - 1])
def test_instants_outside_the_calendar_are_written_as_microseconds(instant: int) -> None:
    """Years beyond 9999 have no ISO form."""
    assert format_instant(instant, calendar=True) == f"{instant}us"


@given(st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
def test_a_written_instant_can_be_read_back(instant: int) -> None:
    """To the microsecond, over all years that a calendar has."""
    read = datetime.fromisoformat(format_instant(instant, calendar=True))
    assert (read - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) == instant
