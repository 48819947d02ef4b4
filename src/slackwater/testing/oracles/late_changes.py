"""Which changes of a log are late, found with a list of its events, each of which knows whether it was passed on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.events.elements import Adjust, Insert, Punctuate
from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.events.elements import Element


@dataclass
class _Event:
    """An event of the log as it is now, and whether what is passed on has it just so."""

    payload: Any
    start: int
    end: int
    passed_on: bool


def late_changes(elements: Sequence[Element]) -> list[bool]:
    """Whether each element is late: it concerns complete time, or an event that is not in the output as it is."""
    events: list[_Event] = []
    punctuated, late = BEGINNING, []
    for element in elements:
        match element:
            case Punctuate(complete_before):
                punctuated = max(punctuated, complete_before)
                late.append(False)
            case Insert(payload, start, end):
                late.append(start < punctuated)
                events.append(_Event(payload, start, end, passed_on=start >= punctuated))
            case Adjust(payload, start, prior_end, end):
                alike = [e for e in events if (e.payload, e.start, e.end) == (payload, start, prior_end)]
                changed = min(alike, key=lambda event: event.passed_on)  # strays first
                behind = min(prior_end, end) < punctuated
                late.append(behind or not changed.passed_on)
                changed.end, changed.passed_on = end, changed.passed_on and not behind
                if end == start:
                    events.remove(changed)
    return late
