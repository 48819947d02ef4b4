"""The temporal table: the events of a stream, in whatever order and with whatever revisions they come.

Any prefix of a physical stream reconstitutes to a multiset of events (payload, [start, end)). Two streams are
equivalent when their tables are equal, whatever the order, the revisions and the punctuations on the way.

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section II (there: TDB).

Invariant: no event of a table was ever touched by an element that an earlier punctuation had ruled out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from slackwater.errors import BackwardInterval, BrokenPunctuation, UnknownEvent
from slackwater.events.batch import EventBatch
from slackwater.events.elements import Adjust, Insert, Punctuate, elements_of
from slackwater.progress.instants import BEGINNING, FOREVER, Instant, format_instant

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from slackwater.events.elements import Element

Stream: TypeAlias = "EventBatch | Iterable[Element | EventBatch]"
"""A physical stream, in any form: elements, one batch, or batches in order."""

Key: TypeAlias = tuple["Hashable", Instant]
"""Payload and start: what identifies an event while its end is being revised."""


@dataclass(frozen=True, slots=True)
class TemporalEvent:
    """A payload that is true for [start, end)."""

    payload: Hashable
    start: Instant
    end: Instant = FOREVER

    @property
    def key(self) -> Key:
        """Payload and start."""
        return self.payload, self.start

    def __str__(self) -> str:
        return f"{self.payload} [{_shown(self.start)}, {_shown(self.end)})"


class TemporalTable:
    """An immutable multiset of events, and the last punctuation of them.

    Equality compares the events only: how far a stream is complete is no part of its events.

    >>> print(TemporalTable([TemporalEvent("B", 8, 10), TemporalEvent("A", 6, 12)], complete_before=11))
    complete before 11
        A [6, 12)
        B [8, 10)
    """

    __slots__ = ("_complete_before", "_counts")

    def __init__(self, events: Iterable[TemporalEvent] = (), complete_before: Instant = BEGINNING) -> None:
        self._counts: Counter[TemporalEvent] = Counter(events)
        self._complete_before = complete_before

    @property
    def complete_before(self) -> Instant:
        """The last punctuation; BEGINNING when there was none."""
        return self._complete_before

    def __iter__(self) -> Iterator[TemporalEvent]:
        """Go through the events in order of start, repeated ones repeatedly. Cost: O(n log n)."""
        return iter(sorted(self._counts.elements(), key=_order))

    def __len__(self) -> int:
        return self._counts.total()

    def __contains__(self, event: object) -> bool:
        return event in self._counts

    def count(self, event: TemporalEvent) -> int:
        """How many times the event is in the table."""
        return self._counts[event]

    def is_keyed(self) -> bool:
        """Whether no two events have the same payload and start."""
        return len({event.key for event in self._counts}) == len(self)

    def minus(self, other: TemporalTable) -> TemporalTable:
        """Return the events that this table has more often than the other, as often as that."""
        return TemporalTable((self._counts - other._counts).elements(), self.complete_before)

    def __eq__(self, other: object) -> bool:
        return self._counts == other._counts if isinstance(other, TemporalTable) else NotImplemented

    def __hash__(self) -> int:
        return hash(frozenset(self._counts.items()))

    def __repr__(self) -> str:
        return f"TemporalTable({list(self)!r}, complete_before={self.complete_before})"

    def __str__(self) -> str:
        lines = [f"    {event}" for event in self] or ["    no events"]
        return "\n".join([f"complete before {_shown(self.complete_before)}", *lines])


class TableBuilder:
    """Reconstitutes a stream element by element, and refuses what contradicts the elements before.

    >>> builder = TableBuilder()
    >>> for element in (Insert("A", 6, 20), Adjust("A", 6, 20, 30), Adjust("A", 6, 30, 25)):
    ...     builder.add(element)
    >>> builder.table()
    TemporalTable([TemporalEvent(payload='A', start=6, end=25)], complete_before=-9223372036854775808)
    """

    __slots__ = ("_counts", "_position", "complete_before")

    def __init__(self, table: TemporalTable | None = None) -> None:
        self._counts: Counter[TemporalEvent] = Counter(table)
        self._position = 0
        self.complete_before: Instant = BEGINNING if table is None else table.complete_before

    def table(self) -> TemporalTable:
        """Return what has come so far. Cost: O(events)."""
        return TemporalTable(self._counts.elements(), self.complete_before)

    def add(self, element: Element) -> None:
        """Apply the next element. Cost: O(1). An element that is refused changes nothing."""
        self._check(element)
        match element:
            case Insert(payload, start, end):
                self._counts[TemporalEvent(payload, start, end)] += 1
            case Adjust(payload, start, prior_end, end):
                self._remove(TemporalEvent(payload, start, prior_end))
                if end > start:
                    self._counts[TemporalEvent(payload, start, end)] += 1
            case Punctuate(complete_before):
                self.complete_before = complete_before
        self._position += 1

    def _check(self, element: Element) -> None:
        # The position counts from 0, so that upto=position gives the table before the element.
        where = f"the temporal table, at position {self._position} of the stream,"
        if not isinstance(element, Punctuate) and element.end < element.start:
            raise BackwardInterval.of(where, element)
        if earliest_concerned(element) < self.complete_before:
            raise BrokenPunctuation.by(where, element, _shown(self.complete_before))
        if isinstance(element, Adjust):
            adjusted = TemporalEvent(element.payload, element.start, element.prior_end)
            if not self._counts[adjusted]:
                raise UnknownEvent.adjusted_by(where, element)

    def _remove(self, event: TemporalEvent) -> None:
        self._counts[event] -= 1
        if not self._counts[event]:
            del self._counts[event]


def earliest_concerned(element: Element) -> Instant:
    """The earliest instant that an element changes something at; no punctuation beyond it may come before it.

    An insert concerns its start. An adjust concerns the earlier of its two ends and nothing before, so an event
    whose start is closed may still be revised; but a removal ends at its start, so such an event stays for ever.
    """
    match element:
        case Insert(_, start, _):
            return start
        case Adjust(_, _, prior_end, end):
            return min(prior_end, end)
        case Punctuate(complete_before):
            return complete_before


def temporal_table_of(stream: Stream, upto: int | None = None) -> TemporalTable:
    """Reconstitute a stream, or the prefix of its first `upto` elements. Cost: O(elements).

    >>> stream = [Insert("B", 8), Insert("A", 6, 12), Adjust("B", 8, FOREVER, 10), Punctuate(11)]
    >>> print(temporal_table_of(stream))
    complete before 11
        A [6, 12)
        B [8, 10)
    """
    builder = TableBuilder()
    for element in islice(elements_in(stream), upto):
        builder.add(element)
    return builder.table()


def equivalent(a: Stream, b: Stream, upto: tuple[int, int] | None = None) -> bool:
    """Whether two streams, or the prefixes of their first upto[0] and upto[1] elements, have the same events."""
    upto_a, upto_b = (None, None) if upto is None else upto
    return temporal_table_of(a, upto_a) == temporal_table_of(b, upto_b)


def elements_in(stream: Stream) -> Iterator[Element]:
    """Spell out a stream of any form, element by element."""
    for part in [stream] if isinstance(stream, EventBatch) else stream:
        if isinstance(part, EventBatch):
            yield from elements_of(part)
        else:
            yield part


def _order(event: TemporalEvent) -> tuple[Instant, str, Instant]:
    # Payloads of one stream may hold None, so they are compared as text; the order is for readers only.
    return event.start, repr(event.payload), event.end


def _shown(instant: Instant) -> str:
    return format_instant(instant, calendar=False)
