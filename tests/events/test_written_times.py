"""Instants as users write them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import PlanError
from slackwater.events.schema import TimeColumn
from slackwater.events.written_times import as_instant
from slackwater.progress.instants import BEGINNING, FOREVER

_NUMBERS = TimeColumn("n", pa.int64())
_ZONED = TimeColumn("at", pa.timestamp("s", "Europe/Berlin"))


@given(moment=st.datetimes(timezones=st.just(UTC), min_value=datetime(1900, 1, 1), max_value=datetime(2100, 1, 1)))  # noqa: DTZ001 - Hypothesis wants bounds without a zone
def test_a_datetime_is_the_instant_that_its_column_has_for_it(moment: datetime) -> None:
    """In every zone in which it is written, and without one in UTC."""
    column = TimeColumn("at", pa.timestamp("us", "UTC"))
    expected = int(column.read(pa.array([moment], column.type), "test")[0])
    assert as_instant(moment, column, "since") == expected
    elsewhere = moment.astimezone(timezone(timedelta(hours=-7)))
    assert as_instant(elsewhere, _ZONED, "since") == expected
    assert as_instant(moment.replace(tzinfo=None), _ZONED, "since") == expected


def test_days_and_numbers_are_instants_of_their_own_kind_of_time() -> None:
    """The beginning and the end of time are those of both."""
    assert as_instant(date(1970, 1, 2), TimeColumn("day", pa.date32()), "since") == 86_400_000_000
    assert as_instant(-7, _NUMBERS, "since") == -7
    assert as_instant(np.int32(7), _NUMBERS, "since") == 7  # type: ignore[arg-type]
    for column in (_NUMBERS, _ZONED):
        assert as_instant(BEGINNING, column, "since") == BEGINNING
        assert as_instant(FOREVER, column, "since") == FOREVER


@pytest.mark.parametrize(
    ("moment", "column"),
    [
        (5, _ZONED),
        (True, _NUMBERS),
        (2**63, _NUMBERS),
        (1.5, _NUMBERS),
        ("noon", _ZONED),
        (datetime(2026, 1, 1, tzinfo=UTC), _NUMBERS),
        (None, _NUMBERS),
    ],
)
def test_what_does_not_fit_the_kind_of_time_is_refused(moment: Any, column: TimeColumn) -> None:
    """With what was written, and what to write."""
    with pytest.raises(PlanError) as refused:
        as_instant(moment, column, "complete_from")
    assert str(refused.value).startswith("complete_from does not fit a stream of")
    assert repr(moment) in str(refused.value)
