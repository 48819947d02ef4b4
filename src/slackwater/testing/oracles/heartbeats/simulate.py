"""Rows of sources that keep to given bounds and latencies, drawn at random and often exactly at the bound.

Rows are drawn in the order of their emission. A bound concerns what comes after, so the least time a new row may have
follows from the rows there are; then each travels for 0 ticks up to the latency of its source, and may be overtaken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from slackwater.testing.oracles.heartbeats.system import Emitted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from random import Random

    from slackwater.testing.oracles.heartbeats.system import Arrival, Skew, Source, System, Tick, Time


class Sent(NamedTuple):
    """A row and the tick of its arrival."""

    row: Emitted
    arrived: Tick


@dataclass(frozen=True)
class Pace:
    """How fast ticks and times go: the gaps between ticks at which rows may be emitted, and the clock of all times."""

    gaps: tuple[Tick, ...] = (1, 1, 1, 1, 2, 3, 12)
    a_tick: Time = 2
    spread: Time = 12
    """How far off the clock times may lie, where no bound forbids it; ahead it may be three times as much."""

    start: Time = 0


USUAL = Pace()
"""With pauses in which every small wait ends."""

CROWDED = Pace(gaps=(0, 1, 1, 2), a_tick=1, spread=3)
"""Few ticks and few times, so that rows overtake each other often."""


def simulate(system: System, rng: Random, rows: int, pace: Pace = USUAL) -> list[Sent]:
    """Draw rows that keep to all bounds, in the order of their emission.

    Sources pause and resume, now and then all of them for long; several rows may be emitted at one tick; some times
    leap ahead, so that all that are bound by them must follow.

    >>> from random import Random
    >>> from slackwater.testing.oracles.heartbeats.system import Skew, System, obeys
    >>> system = System((1, 3), {(0, 0): (Skew(0, 1),), (0, 1): (Skew(1, 2), Skew.rows(2, 0))})
    >>> sent = simulate(system, Random(5), 12)
    >>> len(sent), obeys(system, [row for row, _ in sent])
    (12, True)
    """
    awake = [_happens(rng, 0.8) for _ in system.sources]
    emitted: list[Emitted] = []
    now = 0
    while len(emitted) < rows:
        now += rng.choice(pace.gaps)
        awake = [one != _happens(rng, 0.15) for one in awake]
        senders = [j for j in system.sources if awake[j] and _happens(rng, 0.7)]
        drawn = [j for j in senders for _ in range(rng.choice((1, 1, 1, 2)))]
        emitted += [_row(system, rng, emitted, j, now, pace) for j in drawn]
    return [Sent(row, row.emitted + transit(rng, system.latency[row.source])) for row in emitted[:rows]]


def arrivals_of(sent: Iterable[Sent]) -> list[Arrival]:
    """The rows as their receiver sees them, in the order of their arrival.

    >>> arrivals_of([Sent(Emitted(1, 0, 40), arrived=3), Sent(Emitted(2, 1, 50), arrived=2)])
    [(2, 1, 50), (3, 0, 40)]
    """
    arrivals = [(arrived, row.source, row.time) for row, arrived in sent]
    return sorted(arrivals, key=lambda arrival: arrival[0])


def _happens(rng: Random, probability: float) -> bool:
    return rng.random() < probability


def _row(system: System, rng: Random, emitted: Sequence[Emitted], j: Source, now: Tick, pace: Pace) -> Emitted:
    least = _least_time(system, emitted, j, now)
    off = rng.choice(((-1, 1), (-pace.spread, pace.spread), (0, 3 * pace.spread)))
    free = pace.start + pace.a_tick * now + rng.randint(*off)
    if least is None:
        return Emitted(now, j, free)
    return Emitted(now, j, rng.choice((least, least + rng.randint(0, 2), max(least, free))))


def _least_time(system: System, emitted: Sequence[Emitted], j: Source, now: Tick) -> Time | None:
    """The least time that a row of j may have now; none while nothing bounds it."""
    bounded = [
        first.time - skew.delta + 1
        for first in emitted
        for skew in system.entry(first.source, j)
        if _has_waited(skew, first, emitted, j, now)
    ]
    return max(bounded, default=None)


def _has_waited(skew: Skew, first: Emitted, emitted: Sequence[Emitted], j: Source, now: Tick) -> bool:
    if skew.ticks is not None:
        return now > first.emitted + skew.ticks
    return sum(row.source == j and first.emitted < row.emitted < now for row in emitted) >= skew.wait


def transit(rng: Random, latency: Tick) -> Tick:
    """How long a row travels: often not at all, or for as long as it may.

    >>> from random import Random
    >>> transit(Random(1), 0)
    0
    """
    return rng.choice((0, latency, rng.randint(0, latency)))
