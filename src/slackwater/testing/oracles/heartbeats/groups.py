"""Sources taken together: one heartbeat for a group, from bounds that hold of all its members (section 5.2).

Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, section 5.2.

Bounds that count rows are lost, unless they wait for none: among the rows of a group, nobody knows those of one member.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from slackwater.testing.oracles.heartbeats.system import Skew, System

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.testing.oracles.heartbeats.system import Arrival, Source, Tick


def strongest(entry: Sequence[Skew], longest: Tick) -> tuple[Skew, ...]:
    """S+: the strongest bound for each wait up to the longest, those without any left out.

    >>> strongest([Skew(1, 2), Skew(3, 1)], longest=3)
    (Skew(1, 2), Skew(2, 2), Skew(3, 1))
    """
    by_ticks = [(skew.ticks, skew.delta) for skew in entry if skew.ticks is not None]
    known = {wait: [delta for ticks, delta in by_ticks if ticks <= wait] for wait in range(longest + 1)}
    return tuple(Skew(wait, min(deltas)) for wait, deltas in known.items() if deltas)


def joined(one: Sequence[Skew], other: Sequence[Skew]) -> tuple[Skew, ...]:
    """The weaker bound for each wait that both have; both are filled up by `strongest`.

    >>> joined([Skew(1, 2), Skew(2, 2), Skew(3, 1)], [Skew(2, 0), Skew(3, 0)])
    (Skew(2, 2), Skew(3, 1))
    """
    deltas = {skew.wait: skew.delta for skew in other}
    return tuple(Skew(skew.wait, max(skew.delta, deltas[skew.wait])) for skew in one if skew.wait in deltas)


def essential(entry: Sequence[Skew]) -> tuple[Skew, ...]:
    """The bounds by ticks that no other makes redundant.

    >>> essential([Skew(1, 2), Skew(2, 2), Skew(3, 1), Skew(3, 4), Skew(1, 2)])
    (Skew(1, 2), Skew(3, 1))
    """
    kept: list[Skew] = []
    for skew in sorted(Skew(skew.ticks, skew.delta) for skew in entry if skew.ticks is not None):
        if not kept or skew.delta < kept[-1].delta:
            kept.append(skew)
    return tuple(kept)


def grouped(system: System, groups: Sequence[Sequence[Source]]) -> System:
    """The system whose sources are groups of sources; each source is in one of them.

    >>> system = System((1, 4), {(0, 0): (Skew(1, 2),), (0, 1): (Skew(0, 7), Skew(3, 1)), (1, 0): (Skew(2, 0),)})
    >>> grouped(system, [[0, 1]])
    System(latency=(4,), bounds={})
    >>> system = System((1, 4), {**system.bounds, (1, 1): (Skew(0, 1),)})
    >>> grouped(system, [[0, 1]])
    System(latency=(4,), bounds={(0, 0): (Skew(2, 7), Skew(3, 2))})
    """
    if sorted(source for group in groups for source in group) != list(system.sources) or not all(groups):
        raise ValueError(f"each of {len(system.sources)} sources is in one group, and no group is empty: {groups}")
    skews = [skew for entry in system.bounds.values() for skew in entry]
    longest = max((skew.ticks for skew in skews if skew.ticks is not None), default=0)

    def entry(a: Sequence[Source], b: Sequence[Source]) -> tuple[Skew, ...]:
        return reduce(joined, (strongest(system.entry(i, j), longest) for i in a for j in b))

    derived = {(a, b): entry(groups[a], groups[b]) for a in range(len(groups)) for b in range(len(groups))}
    latency = tuple(max(system.latency[source] for source in group) for group in groups)
    return System(latency, {which: pairs for which, pairs in derived.items() if pairs})


def in_groups(arrivals: Sequence[Arrival], groups: Sequence[Sequence[Source]]) -> list[Arrival]:
    """The arrivals with their group for their source.

    >>> in_groups([(0, 2, 50), (1, 1, 60)], [[0, 1], [2]])
    [(0, 1, 50), (1, 0, 60)]
    """
    group_of = {source: number for number, group in enumerate(groups) for source in group}
    return [(tick, group_of[source], time) for tick, source, time in arrivals]
