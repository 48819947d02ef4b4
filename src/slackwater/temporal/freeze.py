"""What a punctuation fixes: which events may still change, in which part.

    complete before c         may still change       called
    c <= start                anything, removal too  unfrozen
    start < c <= end          the end, down to c     half frozen
    end < c                   nothing                fully frozen

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section III-B.

Invariant: an event only ever moves down this table, because punctuations never go back.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from slackwater.progress.instants import Instant
    from slackwater.temporal.table import TemporalEvent


class Freeze(StrEnum):
    """How much of an event is fixed."""

    UNFROZEN = "unfrozen"
    """Nothing: it may be revised or removed."""

    HALF_FROZEN = "half frozen"
    """Payload and start: some event with them is there for ever, but its end may be revised."""

    FULLY_FROZEN = "fully frozen"
    """Everything: no later element can touch it."""


def freeze_of(event: TemporalEvent, complete_before: Instant) -> Freeze:
    """How much of an event is fixed when its stream is complete before an instant.

    An event that ends exactly there is half frozen: an adjust may still name its end, which is not before it.

    >>> from slackwater.temporal.table import TemporalEvent
    >>> [str(freeze_of(TemporalEvent("A", 2, 12), c)) for c in (2, 12, 13)]
    ['unfrozen', 'half frozen', 'fully frozen']
    """
    if event.end < complete_before:
        return Freeze.FULLY_FROZEN
    return Freeze.HALF_FROZEN if event.start < complete_before else Freeze.UNFROZEN


def frozen_as(freeze: Freeze, events: Iterable[TemporalEvent], complete_before: Instant) -> Iterator[TemporalEvent]:
    """The events among these that are just so much fixed, when their stream is complete before an instant."""
    return (event for event in events if freeze_of(event, complete_before) is freeze)
