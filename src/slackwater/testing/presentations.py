"""Turns one temporal table into many physically different streams, by seed.

Each event gets a short story (an insert, perhaps with a wrong end, and the adjusts that put it right); the stories
are told at once, each element at an instant of its own; then punctuations are put wherever they are true.

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section VI-B (a generator
of streams with given disorder, revisions and punctuation frequency).

Invariant: without `gap`, `late_start` and `repeats` the stream says exactly the table; no element ever contradicts
a punctuation. Repeats are no exception to the latter: an element is said again only while it may be said.
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
    """How a table is told. The default tells it plainly: in order of start, each event once, no punctuation.

    Times are in the units of the table. Fractions are probabilities between 0 and 1.
    """

    disorder: Duration = 0
    """An element is told up to this much application time after its turn."""

    shuffle_ties: bool = False
    """Whether events of one start are told in random order, even without disorder."""

    early_values: float = 0.0
    """The fraction of events that are told with another end first, and adjusted later, once or twice."""

    revision_delay: Duration = 5
    """A revision is told up to this much application time after what it revises."""

    removed_extras: float = 0.0
    """How many events that are not in the table are told and removed later, as a fraction of its events."""

    punctuations: float = 0.0
    """The fraction of places between elements that have a punctuation."""

    repeats: float = 0.0
    """The fraction of elements that are told twice. Only for receivers that tolerate redelivery."""

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
"""What is told of one event, in order."""

_Turn: TypeAlias = "tuple[Instant, int, float]"
"""When an element is told: its instant, its place in its story, and a lot that decides between equals."""


def present(table: TemporalTable, seed: int, options: Presentation | None = None) -> list[Element]:
    """Tell a table as a stream of elements; the same arguments give the same stream. Cost: O(n log n).

    The stream ends with the table's own punctuation, if it has one, and says none beyond it.

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
    told = _interleaved(stories, random, chosen)
    return list(_with_punctuations(told, table.complete_before, random, chosen))


def present_batch(
    table: TemporalTable, payload: pa.Schema, seed: int, options: Presentation | None = None
) -> EventBatch:
    """Tell a table as a batch; its payloads must be rows of the given schema."""
    return batch_of(present(table, seed, options), payload)


def _story(event: TemporalEvent, random: Random, options: Presentation) -> _Story:
    """Tell an event, with other ends first if the lot falls on it."""
    # An event that lasts for no time is only ever inserted: an adjust to its end would remove it. And one that begins
    # at the last instant can have no other end.
    revised = random.random() < options.early_values and event.start < event.end and event.start < FOREVER - 1
    ends = [_another_end(event, random) for _ in range(random.randint(1, 2))] if revised else []
    return _telling(event, [*ends, event.end])


def _extra_stories(events: list[TemporalEvent], random: Random, options: Presentation) -> Iterator[_Story]:
    """Tell events that are not in the table, and take them back; none has payload and start of another event."""
    taken = {event.key for event in events}
    for like in events:
        start = min(max(like.start + random.randint(-2, 2), BEGINNING + 1), FOREVER - 1)
        if random.random() < options.removed_extras and (like.payload, start) not in taken:
            taken.add((like.payload, start))
            extra = TemporalEvent(like.payload, start, start)
            yield _telling(extra, [_another_end(extra, random), start])


def _another_end(event: TemporalEvent, random: Random) -> Instant:
    lasting = FOREVER if event.end == FOREVER else event.end - event.start
    ends = {min(event.start + random.randint(1, min(lasting, 9) + 3), FOREVER) for _ in range(2)} | {FOREVER}
    return random.choice(sorted(ends - {event.end}) or [event.start + 1])


def _telling(event: TemporalEvent, ends: list[Instant]) -> _Story:
    story: _Story = [Insert(event.payload, event.start, ends[0])]
    for prior_end, end in pairwise(ends):
        if prior_end != end:
            story.append(Adjust(event.payload, event.start, prior_end, end))
    return story


def _interleaved(stories: list[_Story], random: Random, options: Presentation) -> list[Insert | Adjust]:
    """Tell all stories at once: each element at its instant, each story in its order."""
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
    return [element for _, element in sorted(turns, key=lambda told: told[0])]


def _with_punctuations(
    told: list[Insert | Adjust], complete_before: Instant, random: Random, options: Presentation
) -> Iterator[Element]:
    """Put punctuations where the lot falls, none beyond what a later element concerns."""
    most = FOREVER if complete_before == BEGINNING else complete_before
    true_until = [most]
    for element in reversed(told):
        true_until.append(min(true_until[-1], earliest_concerned(element)))
    said = BEGINNING
    for element, true in zip(told, reversed(true_until), strict=False):
        if random.random() < options.punctuations:
            said = random.randint(max(said, true - 3), true)
            yield Punctuate(said)
        yield element
    if complete_before > BEGINNING:
        yield Punctuate(complete_before)
