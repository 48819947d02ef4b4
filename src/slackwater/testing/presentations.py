"""Turns one temporal table into many physically different streams, by seed.

Each event gets a short story (an insert, perhaps with a wrong end, and the adjusts that put it right); the stories
are interleaved, each element at an instant of its own; then punctuations are put wherever they are true.

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section VI-B (a generator
of streams with given disorder, revisions and punctuation frequency).

Invariant: without `gap`, `late_start` and `repeats` the stream is exactly the table; no element ever contradicts
a punctuation. Repeats are no exception to the latter: an element is repeated only while it may still come.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, TypeAlias

from slackwater.events.elements import Adjust, Insert, Punctuate, batch_of
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.temporal.table import TemporalEvent, earliest_concerned

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from slackwater.events.batch import EventBatch
    from slackwater.events.elements import Element
    from slackwater.progress.instants import Duration, Instant
    from slackwater.temporal.table import TemporalTable


@dataclass(frozen=True, slots=True)
class Presentation:
    """How a table becomes a stream. The default is plain: in order of start, each event once, no punctuation.

    Times are in the units of the table. Fractions are probabilities between 0 and 1.
    """

    disorder: Duration = 0
    """An element comes up to this much application time after its turn."""

    shuffle_ties: bool = False
    """Whether events of one start come in random order, even without disorder."""

    early_values: float = 0.0
    """The fraction of events that come with another end first, and adjusted later, once or twice."""

    revision_delay: Duration = 5
    """A revision comes up to this much application time after what it revises."""

    removed_extras: float = 0.0
    """How many events that are not in the table are inserted and removed later, as a fraction of its events."""

    punctuations: float = 0.0
    """The fraction of places between elements that have a punctuation."""

    repeats: float = 0.0
    """The fraction of elements that come twice. Only for receivers that tolerate redelivery."""

    gap: tuple[Instant, Instant] | None = None
    """Events that start in [from, to) are left out: the replica was down."""

    late_start: Instant | None = None
    """Events that end before this are left out: the replica joined then and knows what lasts until then."""

    def __post_init__(self) -> None:
        for name in ("early_values", "removed_extras", "punctuations", "repeats"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a fraction between 0 and 1, not {getattr(self, name)}")
        if self.disorder < 0 or self.revision_delay < 0:
            raise ValueError("disorder and revision_delay must not be negative")

    def leaves_out(self, event: TemporalEvent) -> bool:
        """Whether the gap or the late start hides the event."""
        if self.gap is not None and self.gap[0] <= event.start < self.gap[1]:
            return True
        return self.late_start is not None and event.end < self.late_start


_Story: TypeAlias = "list[Insert | Adjust]"
"""The elements of one event, in order."""

_Turn: TypeAlias = "tuple[Instant, int, float]"
"""When an element comes: its instant, its place in its story, and a lot that decides between equals."""


def present(table: TemporalTable, seed: int, options: Presentation | None = None) -> list[Element]:
    """Present a table as a stream of elements; the same arguments give the same stream. Cost: O(n log n).

    The stream ends with the table's own punctuation, if it has one, and has none beyond it.

    >>> from slackwater.temporal.table import TemporalTable
    >>> table = TemporalTable([TemporalEvent("A", 6, 12), TemporalEvent("B", 8, 10)], complete_before=11)
    >>> options = Presentation(disorder=4, early_values=0.5, punctuations=0.3)
    >>> print(*present(table, seed=80, options=options), sep="; ")
    insert(B, 8, 10); punctuate(5); insert(A, 6, forever); adjust(A, 6, forever, 12); punctuate(11)
    """
    chosen = Presentation() if options is None else options
    random = Random(seed)
    events = [event for event in table if not chosen.leaves_out(event)]
    stories = [_story(event, random, chosen) for event in events]
    stories += _extra_stories(events, random, chosen)
    elements = _interleaved(stories, random, chosen)
    return list(_with_punctuations(elements, table.complete_before, random, chosen))


def present_batch(
    table: TemporalTable, payload: pa.Schema, seed: int, options: Presentation | None = None
) -> EventBatch:
    """Present a table as a batch; its payloads must be rows of the given schema."""
    return batch_of(present(table, seed, options), payload)


def _story(event: TemporalEvent, random: Random, options: Presentation) -> _Story:
    """Present an event, with other ends first if the lot falls on it."""
    # An event that lasts for no time is only ever inserted: an adjust to its end would remove it. And one that begins
    # at the last instant can have no other end.
    revised = random.random() < options.early_values and event.start < event.end and event.start < FOREVER - 1
    ends = [_another_end(event, random) for _ in range(random.randint(1, 2))] if revised else []
    return _elements_of(event, [*ends, event.end])


def _extra_stories(events: list[TemporalEvent], random: Random, options: Presentation) -> Iterator[_Story]:
    """Insert events that are not in the table, and take them back; none has payload and start of another event."""
    taken = {event.key for event in events}
    for like in events:
        start = min(max(like.start + random.randint(-2, 2), BEGINNING + 1), FOREVER - 1)
        if random.random() < options.removed_extras and (like.payload, start) not in taken:
            taken.add((like.payload, start))
            extra = TemporalEvent(like.payload, start, start)
            yield _elements_of(extra, [_another_end(extra, random), start])


def _another_end(event: TemporalEvent, random: Random) -> Instant:
    lasting = FOREVER if event.end == FOREVER else event.end - event.start
    ends = {min(event.start + random.randint(1, min(lasting, 9) + 3), FOREVER) for _ in range(2)} | {FOREVER}
    return random.choice(sorted(ends - {event.end}) or [event.start + 1])


def _elements_of(event: TemporalEvent, ends: list[Instant]) -> _Story:
    story: _Story = [Insert(event.payload, event.start, ends[0])]
    for prior_end, end in pairwise(ends):
        if prior_end != end:
            story.append(Adjust(event.payload, event.start, prior_end, end))
    return story


def _interleaved(stories: list[_Story], random: Random, options: Presentation) -> list[Insert | Adjust]:
    """Interleave all stories: each element at its instant, each story in its order."""
    turns: list[tuple[_Turn, Insert | Adjust]] = []
    for story in stories:
        instant = story[0].start + random.randint(0, options.disorder)
        for place, element in enumerate(story):
            instant += random.randint(0, options.revision_delay) if place else 0
            lot = random.random() if options.disorder or options.shuffle_ties else 0.0
            turns.append(((instant, place, lot), element))
            if random.random() < options.repeats:
                again = instant + random.randint(0, options.revision_delay)
                turns.append(((again, len(story), lot), element))
    return [element for _, element in sorted(turns, key=lambda turn: turn[0])]


def _with_punctuations(
    elements: list[Insert | Adjust], complete_before: Instant, random: Random, options: Presentation
) -> Iterator[Element]:
    """Put punctuations where the lot falls, none beyond what a later element concerns."""
    most = FOREVER if complete_before == BEGINNING else complete_before
    true_until = [most]
    for element in reversed(elements):
        true_until.append(min(true_until[-1], earliest_concerned(element)))
    punctuated = BEGINNING
    for element, true in zip(elements, reversed(true_until), strict=False):
        if random.random() < options.punctuations:
            punctuated = random.randint(max(punctuated, true - 3), true)
            yield Punctuate(punctuated)
        yield element
    if complete_before > BEGINNING:
        yield Punctuate(complete_before)
