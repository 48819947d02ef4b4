"""The largest heartbeat that the arrivals allow, by trying all that may have happened and all that may come.

The paper calls its heartbeat the maximum (section 3.2, property 2). That holds where there is no latency, and where
time-based bounds are closed under composition; elsewhere rows that overtake each other reveal when they were emitted.

One row that may still come decides. Bounds only ever forbid, so a future of several rows is possible only if each row
of it is possible alone, with what was seen. And a row emitted after now comes behind all that were seen: the later it
is emitted, the more waits have ended, and nothing new is allowed.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from slackwater.testing.oracles.heartbeats.system import NOTHING_YET, Emitted, check_arrivals, obeys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.testing.oracles.heartbeats.system import Arrival, Source, System, Tick, Time


def literal_largest(system: System, arrivals: Sequence[Arrival], tick: Tick) -> list[Time]:
    """The largest true heartbeat of each source at a tick, by the definitions word for word.

    Cost: all emission times of all rows seen, (L + 1) to the power of their number. For a few rows only.

    >>> from slackwater.testing.oracles.heartbeats.system import Skew, System
    >>> system = System((0, 4), {(0, 1): (Skew(1, 1),), (1, 0): (Skew(3, 0),), (1, 1): (Skew(0, 1),)})
    >>> literal_largest(system, [(1, 0, 3), (3, 1, 0)], tick=5)[0]
    0
    """
    check_arrivals(system, arrivals)
    seen = [arrival for arrival in arrivals if arrival[0] <= tick]
    worlds = [rows for rows in product(*(_emissions(system, arrival) for arrival in seen)) if obeys(system, rows)]
    if not worlds:
        raise ValueError(f"no emission times of these rows keep to the bounds: {seen}")
    return [_least_possible(system, worlds, j, tick) - 1 for j in system.sources]


def times_that_matter(system: System, rows: Sequence[Emitted] | Sequence[Arrival], j: Source) -> list[Time]:
    """All least times that a row of j can be bound to by rows there are, in order; before the first, all are alike.

    Between two of them every comparison of a bound has the same outcome.

    >>> from slackwater.testing.oracles.heartbeats.system import Skew, System
    >>> times_that_matter(System((0, 0), {(0, 1): (Skew(3, 0), Skew(0, 5))}), [(7, 0, 20)], 1)
    [16, 21]
    """
    return sorted({time - skew.delta + 1 for _, source, time in rows for skew in system.entry(source, j)})


def _emissions(system: System, arrival: Arrival) -> list[Emitted]:
    """All ways in which a row may have been emitted."""
    tick, source, time = arrival
    return [Emitted(tick - transit, source, time) for transit in range(system.latency[source] + 1)]


def _least_possible(system: System, worlds: Sequence[tuple[Emitted, ...]], j: Source, tick: Tick) -> Time:
    """The least time that a row of j can have that arrives after a tick."""
    matter = times_that_matter(system, worlds[0], j)
    emissions = range(tick + 1 - system.latency[j], tick + 2)

    def is_possible(time: Time) -> bool:
        rows = (Emitted(emitted, j, time) for emitted in emissions)
        return any(obeys(system, [*world, row]) for row in rows for world in worlds)

    older_than_all = min([row.time for row in worlds[0]] + matter, default=0) - 1
    if is_possible(older_than_all):
        return NOTHING_YET + 1
    return next(time for time in matter if is_possible(time))
