"""How much of an event a punctuation fixes, and that this is what the stream's rules allow."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BrokenPunctuation
from slackwater.events.elements import Adjust, Insert, Punctuate
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.temporal.freeze import Freeze, freeze_of, frozen_as
from slackwater.temporal.table import TemporalEvent, TemporalTable, temporal_table_of
from slackwater.testing.strategies import LATEST, LONGEST, temporal_events, temporal_tables

if TYPE_CHECKING:
    from slackwater.events.elements import Element


@pytest.mark.parametrize(
    ("complete_before", "freeze"),
    [
        (BEGINNING, Freeze.UNFROZEN),
        (2, Freeze.UNFROZEN),
        (3, Freeze.HALF_FROZEN),
        (12, Freeze.HALF_FROZEN),
        (13, Freeze.FULLY_FROZEN),
        (FOREVER, Freeze.FULLY_FROZEN),
    ],
)
def test_the_boundaries_are_those_of_the_paper(complete_before: int, freeze: Freeze) -> None:
    """An event [2, 12): half frozen from 3 to 12, both included."""
    assert freeze_of(TemporalEvent("A", 2, 12), complete_before) is freeze


def test_an_event_without_end_is_never_fully_frozen() -> None:
    """Not even a stream that has ended knows its end."""
    assert freeze_of(TemporalEvent("A", 2), FOREVER) is Freeze.HALF_FROZEN


def test_an_event_that_lasts_for_no_time_is_frozen_at_once() -> None:
    """There is no instant at which only its start is fixed."""
    assert [freeze_of(TemporalEvent("A", 2, 2), c) for c in (2, 3)] == [Freeze.UNFROZEN, Freeze.FULLY_FROZEN]


@given(temporal_tables(), st.integers(-1, LATEST + LONGEST))
def test_every_event_is_frozen_in_exactly_one_way(table: TemporalTable, complete_before: int) -> None:
    """The three kinds part the table."""
    parts = [frozen_as(freeze, table, complete_before) for freeze in Freeze]
    assert TemporalTable(chain.from_iterable(parts)) == table


@given(temporal_events(), st.integers(0, LATEST + LONGEST), st.integers(0, 9))
def test_an_event_never_thaws(event: TemporalEvent, complete_before: int, later: int) -> None:
    """A later punctuation fixes as much or more."""
    order = list(Freeze)
    before, after = freeze_of(event, complete_before), freeze_of(event, complete_before + later)
    assert order.index(before) <= order.index(after)


@given(temporal_events(), st.integers(0, LATEST + LONGEST), st.integers(0, LATEST + 2 * LONGEST))
def test_what_is_frozen_is_what_the_stream_refuses_to_change(
    event: TemporalEvent, complete_before: int, end: int
) -> None:
    """An adjust after the punctuation passes just when the event's freeze allows this end."""
    end = max(end, event.start)
    stream: list[Element] = [Insert(event.payload, event.start, event.end), Punctuate(complete_before)]
    allowed = {
        Freeze.UNFROZEN: True,
        Freeze.HALF_FROZEN: end >= complete_before,
        Freeze.FULLY_FROZEN: False,
    }[freeze_of(event, complete_before)]
    adjust = Adjust(event.payload, event.start, event.end, end)
    if allowed:
        temporal_table_of([*stream, adjust])
    else:
        with pytest.raises(BrokenPunctuation):
            temporal_table_of([*stream, adjust])
