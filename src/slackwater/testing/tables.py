"""Compares the tables of streams, and names the events that differ."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from slackwater.errors import message
from slackwater.temporal.table import TemporalEvent, TemporalTable, equivalent, temporal_table_of

if TYPE_CHECKING:
    from slackwater.temporal.table import Stream

__all__ = ["TemporalEvent", "TemporalTable", "assert_same_table", "equivalent", "temporal_table_of"]

_MOST_SHOWN = 10
"""How many differing events a message names on each side."""


def assert_same_table(actual: Stream | TemporalTable, expected: Stream | TemporalTable) -> None:
    """Fail unless both have the same events, in whatever way; the message names the events that only one side has.

    >>> from slackwater.events.elements import Insert
    >>> assert_same_table([Insert("A", 1, 4), Insert("B", 2, 5)], [Insert("B", 2, 5), Insert("A", 1, 4)])
    """
    one, other = (_table(side) for side in (actual, expected))
    if one == other:
        return
    facts = {"missing": _listed(other.minus(one)), "unexpected": _listed(one.minus(other))}
    text = message(
        f"the temporal tables differ: {len(one)} events, {len(other)} expected",
        {name: events for name, events in facts.items() if events},
    )
    raise AssertionError(text)


def _table(side: Stream | TemporalTable) -> TemporalTable:
    return side if isinstance(side, TemporalTable) else temporal_table_of(side)


def _listed(table: TemporalTable) -> str:
    shown = [str(event) for event in islice(table, _MOST_SHOWN)]
    more = len(table) - len(shown)
    return ", ".join([*shown, f"and {more} more"] if more else shown)
