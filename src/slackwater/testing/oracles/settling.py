"""Settling a revised stream, and comparing replicas, element by element and in plain Python: slow and obvious."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from slackwater.events.elements import Insert, Punctuate
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.temporal.freeze import Freeze, freeze_of
from slackwater.temporal.table import TableBuilder, TemporalEvent, TemporalTable

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from slackwater.events.elements import Element
    from slackwater.progress.instants import Instant

PayloadOrder: TypeAlias = "Callable[[Hashable], Any]"
"""What payloads of one start are ordered by."""


class Settle:
    """Holds a table of all that came, and takes from it what is frozen.

    >>> from slackwater.events.elements import Adjust
    >>> settle = Settle(order=str)
    >>> for element in (Insert("B", 3, 5), Insert("A", 1, 9), Punctuate(7), Adjust("A", 1, 9, 8), Punctuate(9)):
    ...     print(element, "->", *settle.take(element))
    insert(B, 3, 5) ->
    insert(A, 1, 9) ->
    punctuate(7) -> punctuate(1)
    adjust(A, 1, 9, 8) ->
    punctuate(9) -> insert(A, 1, 8) insert(B, 3, 5) punctuate(9)
    """

    def __init__(self, order: PayloadOrder) -> None:
        self._came = TableBuilder()
        self._gone = TemporalTable()
        self._order = order
        self._complete_before = BEGINNING

    def take(self, element: Element) -> list[Element]:
        """Take an element; return what goes out."""
        self._came.add(element)
        return self._let_go(everything=False) if isinstance(element, Punctuate) else []

    def end(self) -> list[Element]:
        """Return all that is left."""
        return self._let_go(everything=True)

    def held(self) -> list[TemporalEvent]:
        """What has not gone out, in the order in which it will as far as that is known."""
        left = self._came.table().minus(self._gone)
        return sorted(left, key=lambda event: (event.start, self._order(event.payload), event.end))

    def _let_go(self, *, everything: bool) -> list[Element]:
        complete_before = FOREVER if everything else self._came.complete_before
        going: list[TemporalEvent] = []
        for event in self.held():
            if not everything and freeze_of(event, complete_before) is not Freeze.FULLY_FROZEN:
                complete_before = min(complete_before, event.start)
                break
            going.append(event)
        self._gone = TemporalTable([*self._gone, *going])
        out: list[Element] = [Insert(event.payload, event.start, event.end) for event in going]
        if complete_before > self._complete_before:
            self._complete_before = complete_before
            out.append(Punctuate(complete_before))
        return out


@dataclass(frozen=True)
class ComparedReplica:
    """What a replica has sent, with its last punctuation, and from when on it is compared."""

    table: TemporalTable
    complete_from: Instant = BEGINNING
    final: bool = False
    """Whether it never revises anything."""

    ended: bool = False
    """Whether all replicas have ended, so that nobody gives an event an end that has none."""

    def takes_part(self, event: TemporalEvent) -> bool:
        """Whether it can be asked about an event: it has that time, and the event is frozen there."""
        return event.start >= self.complete_from and self.is_over(event, self.table.complete_before)

    def is_over(self, event: TemporalEvent, complete_before: Instant) -> bool:
        """Whether it cannot change any more that there is such an event, or none."""
        if self.final or (self.ended and event.end == FOREVER):
            return event.start < complete_before or complete_before == FOREVER
        return is_over(event, complete_before)

    def of_key(self, event: TemporalEvent) -> int:
        """How many events it has of an event's payload and start."""
        return sum(other.key == event.key for other in self.table)


def is_over(event: TemporalEvent, complete_before: Instant) -> bool:
    """Whether nothing can change about an event; a stream that is complete before FOREVER sends nothing more."""
    return complete_before == FOREVER or freeze_of(event, complete_before) is Freeze.FULLY_FROZEN


def contradictions(replicas: Sequence[ComparedReplica], complete_before: Instant) -> Iterator[Insert]:
    """What replicas do not agree on of all that is over, where they have been compared so far.

    >>> a, b = TemporalEvent(("a",), 2, 4), TemporalEvent(("b",), 3, 5)
    >>> sent = [ComparedReplica(TemporalTable(events, 9)) for events in ([a, b], [a, b], [b, b])]
    >>> print(*contradictions(sent, 9))
    insert(('a', 2, 'missing'), 2, 4) insert(('b', 2, 'extra'), 3, 5)
    """
    for event in sorted({event for replica in replicas for event in replica.table}, key=str):
        asked = [number for number, replica in enumerate(replicas) if replica.takes_part(event)]
        if not replicas[0].is_over(event, complete_before) or not asked:
            continue
        usual = _most([replicas[number].table.count(event) for number in asked])
        usual_of_key = _most([replicas[number].of_key(event) for number in asked])
        for number in asked:
            count, of_key = replicas[number].table.count(event), replicas[number].of_key(event)
            if count < usual:
                how = "missing" if of_key < usual_of_key else "missing end"
            elif count > usual:
                how = "extra" if of_key > usual_of_key else "different end"
            else:
                continue
            assert isinstance(event.payload, tuple)
            own = replicas[number]
            if how.endswith(" end") and not own.final and event.end == FOREVER != own.table.complete_before:
                continue  # it might have got another end, had the replica gone on
            yield Insert((*event.payload, number, how), event.start, event.end)


def _most(counts: Sequence[int]) -> int:
    """The count that is there most often; of several the one that comes first."""
    often = Counter(counts)
    return max(often, key=lambda count: (often[count], -counts.index(count)))
