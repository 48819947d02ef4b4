"""The comparison of streams that tests use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slackwater.events.elements import Adjust, Insert, Punctuate
from slackwater.temporal.table import TemporalEvent, TemporalTable
from slackwater.testing.tables import assert_same_table

if TYPE_CHECKING:
    from slackwater.events.elements import Element


def test_streams_that_say_the_same_pass() -> None:
    """Order, revisions and punctuations do not matter; a table may stand for a stream."""
    a: list[Element] = [Insert("A", 1, 4), Insert("B", 2, 5)]
    b: list[Element] = [Insert("B", 2, 9), Insert("A", 1, 4), Punctuate(3), Adjust("B", 2, 9, 5)]
    assert_same_table(a, b)
    assert_same_table(a, TemporalTable([TemporalEvent("A", 1, 4), TemporalEvent("B", 2, 5)]))


def test_the_message_names_the_events_that_differ() -> None:
    """Missing ones, unexpected ones, and repeated ones as often as they are too many."""
    with pytest.raises(AssertionError) as caught:
        assert_same_table([Insert("A", 1, 4), Insert("C", 3), Insert("C", 3)], [Insert("A", 1, 5), Insert("C", 3)])
    assert str(caught.value).splitlines() == [
        "the temporal tables differ: 3 events, 2 expected",
        "    missing     A [1, 5)",
        "    unexpected  A [1, 4), C [3, forever)",
    ]


def test_a_long_difference_is_cut_short() -> None:
    """Ten events are enough to see what is wrong."""
    with pytest.raises(AssertionError, match="and 15 more"):
        assert_same_table([], [Insert("A", start, start + 1) for start in range(25)])
