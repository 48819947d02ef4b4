"""Streams of opens and closes, turned into inserts and adjusts and back.

    open(A, 1)   A begins at 1               insert(A, 1, forever)
    close(A, 6)  A ends at 6                 adjust(A, 1, forever, 6)
    close(A, 5)  no, it ended at 5 already   adjust(A, 1, 6, 5)

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section II, example 2.

A close carries no start, so it must be clear which event it means: the last of its payload that starts before it.
So a close may revise an event even after its payload was opened again, as long as the two stay apart. Closing at
FOREVER takes a close back. Punctuations go through unchanged.

Invariant: the events of one payload never overlap, in no prefix; hence each payload is opened in order of time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from slackwater.errors import BadPairing
from slackwater.events.elements import Adjust, Insert, Punctuate
from slackwater.progress.instants import FOREVER, format_instant
from slackwater.temporal.table import TableBuilder

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from slackwater.events.elements import Element
    from slackwater.progress.instants import Instant


@dataclass(frozen=True, slots=True)
class Open:
    """An event begins; its end is not known yet."""

    payload: Hashable
    start: Instant

    def __str__(self) -> str:
        return f"open({self.payload}, {self.start})"


@dataclass(frozen=True, slots=True)
class Close:
    """An event ends; a later close of the same event revises this."""

    payload: Hashable
    end: Instant

    def __str__(self) -> str:
        return f"close({self.payload}, {format_instant(self.end, calendar=False)})"


OpenClose: TypeAlias = Open | Close | Punctuate
"""One element of a stream in this model."""


class _Lifetimes:
    """The ends of the events of one payload by their start, apart from each other and in order of time."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[Instant] = []
        self._ends: dict[Instant, Instant] = {}

    def active_until(self) -> Instant | None:
        """The end of the last event; None when there was no event yet."""
        return self._ends[self._starts[-1]] if self._starts else None

    def open(self, start: Instant) -> None:
        self._starts.append(start)
        self._ends[start] = FOREVER

    def close(self, start: Instant, end: Instant) -> Instant:
        """Set the end of an event; return the one it had."""
        prior_end = self._ends[start]
        self._ends[start] = end
        return prior_end

    def last_before(self, end: Instant) -> Instant | None:
        """The start of the event that a close means. Cost: O(1) for the last, O(events) for the first."""
        return next((start for start in reversed(self._starts) if start < end), None)


def from_open_close(elements: Iterable[OpenClose]) -> list[Element]:
    """Turn opens and closes into inserts and adjusts, one for one.

    >>> stream = [Open("B", 2), Close("B", 6), Close("B", 5)]
    >>> [str(element) for element in from_open_close(stream)]
    ['insert(B, 2, forever)', 'adjust(B, 2, forever, 6)', 'adjust(B, 2, 6, 5)']
    """
    events: dict[Hashable, _Lifetimes] = {}
    turned: list[Element] = []
    for position, element in enumerate(elements):
        where = f"from_open_close, at position {position} of the stream,"
        match element:
            case Open(payload, start):
                lifetimes = events.setdefault(payload, _Lifetimes())
                _check_inactive(lifetimes, start, where, element)
                lifetimes.open(start)
                turned.append(Insert(payload, start, FOREVER))
            case Close(payload, end):
                meant = events[payload].last_before(end) if payload in events else None
                if meant is None:
                    hint = "a close comes after the open of its event, and later in time"
                    raise BadPairing.by(where, element, "no event of this payload was opened before that time", hint)
                turned.append(Adjust(payload, meant, events[payload].close(meant, end), end))
            case Punctuate():
                turned.append(element)
    return turned


def to_open_close(elements: Iterable[Element]) -> list[OpenClose]:
    """Turn inserts and adjusts into opens and closes; refuse what opens and closes cannot express.

    They cannot remove an event, nor have an event that lasts for no time, nor two of one payload that overlap, not
    even in passing: a payload whose events come in another order than that of time is refused, too.

    >>> [str(element) for element in to_open_close([Insert("A", 1, 4), Adjust("A", 1, 4, 3)])]
    ['open(A, 1)', 'close(A, 4)', 'close(A, 3)']
    """
    builder = TableBuilder()
    events: dict[Hashable, _Lifetimes] = {}
    turned: list[OpenClose] = []
    for position, element in enumerate(elements):
        builder.add(element)
        where = f"to_open_close, at position {position} of the stream,"
        match element:
            case Insert(payload, start, end):
                lifetimes = events.setdefault(payload, _Lifetimes())
                _check_lasting(start, end, where, element)
                _check_inactive(lifetimes, start, where, element)
                lifetimes.open(start)
                lifetimes.close(start, end)
                turned.append(Open(payload, start))
                turned += [Close(payload, end)] if end < FOREVER else []
            case Adjust(payload, start, _, end):
                _check_lasting(start, end, where, element)
                if events[payload].last_before(end) != start:
                    raise BadPairing.by(where, element, "it would overlap the next event of its payload")
                events[payload].close(start, end)
                turned.append(Close(payload, end))
            case Punctuate():
                turned.append(element)
    return turned


def _check_inactive(lifetimes: _Lifetimes, start: Instant, where: str, element: object) -> None:
    active_until = lifetimes.active_until()
    if active_until is not None and start < active_until:
        shown = format_instant(active_until, calendar=False)
        reason = f"an event of the same payload is active until {shown}"
        raise BadPairing.by(
            where, element, reason, "a payload is opened again only when it was closed, in order of time"
        )


def _check_lasting(start: Instant, end: Instant, where: str, element: object) -> None:
    if end == start:
        hint = "keep the stream as inserts and adjusts"
        raise BadPairing.by(where, element, "opens and closes cannot remove an event or let it last for no time", hint)
