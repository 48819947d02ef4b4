"""Cadences: what may be written, what is refused, and what it means in the units of a stream."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from slackwater.errors import BadDuration, PlanError
from slackwater.policies.cadence import Cadence, CadenceUnit, Every, default_cadence
from slackwater.progress.instants import FOREVER


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "5", None, FOREVER + 1])
def test_only_a_whole_number_of_rows_above_zero_is_taken(n: Any) -> None:
    """Anything else is refused where it is written."""
    with pytest.raises(PlanError, match=r"Every\.rows needs a whole number of rows above zero"):
        Every.rows(n)


@pytest.mark.parametrize("length", [0, "0s", timedelta(0)])
def test_a_time_of_no_length_is_refused(length: Any) -> None:
    """In any way it can be written."""
    with pytest.raises(BadDuration, match=r"Every\.time needs a length above zero"):
        Every.time(length)


@pytest.mark.parametrize("length", [-1, timedelta(-1), "soon", 1.5, True, None, FOREVER + 1])
def test_what_is_no_duration_is_refused(length: Any) -> None:
    """Where it is written, not when the stream is known."""
    with pytest.raises(BadDuration):
        Every.time(length)


def test_a_cadence_is_resolved_in_the_units_of_the_stream() -> None:
    """Rows and batches are the same on all streams."""
    assert Every.time("1s").resolved(calendar=True) == Cadence(CadenceUnit.TIME, 1_000_000)
    assert Every.time(timedelta(milliseconds=5)).resolved(calendar=True) == Cadence(CadenceUnit.TIME, 5_000)
    assert Every.time(7).resolved(calendar=False) == Cadence(CadenceUnit.TIME, 7)
    for calendar in (True, False):
        assert Every.rows(3).resolved(calendar=calendar) == Cadence(CadenceUnit.ROWS, 3)
        assert Every.batch().resolved(calendar=calendar) == Cadence(CadenceUnit.BATCH, 1)


@pytest.mark.parametrize(("length", "calendar"), [("1s", False), (timedelta(1), False), (7, True)])
def test_a_length_of_the_other_kind_of_time_does_not_fit(length: Any, calendar: bool) -> None:
    """A bare 7 on a calendar stream would silently mean seven microseconds."""
    with pytest.raises(BadDuration, match="does not fit a stream of"):
        Every.time(length).resolved(calendar=calendar)


def test_cadences_describe_themselves() -> None:
    """As explain() shows them."""
    every = [Every.rows(100), Every.time("0.5s"), Every.time(timedelta(minutes=90)), Every.time(7), Every.batch()]
    assert [str(one) for one in every] == ["every 100 rows", "every 500ms", "every 1h30m", "every 7", "every batch"]


@pytest.mark.parametrize(("patience", "units"), [(0, 1), (9, 1), (19, 1), (20, 2), (FOREVER, FOREVER // 10)])
def test_the_default_is_ten_instants_per_patience_and_one_unit_at_least(patience: int, units: int) -> None:
    """In either kind of time, exactly."""
    for calendar in (True, False):
        cadence = default_cadence(patience, calendar=calendar).resolved(calendar=calendar)
        assert cadence == Cadence(CadenceUnit.TIME, units)


def test_cadences_are_equal_by_value() -> None:
    """Frozen values, usable as keys."""
    assert {Every.rows(3), Every.rows(3), Every.batch()} == {Every.batch(), Every.rows(3)}
