"""What can be known of a system before any row comes: whether heartbeats are the largest, and whether they can stop.

Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, sections 3.2 and 3.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.testing.oracles.heartbeats.systems import compose, is_covered

if TYPE_CHECKING:
    from slackwater.testing.oracles.heartbeats.system import System


def closed_under_composition(system: System) -> bool:
    """Whether what follows of k from i by way of a row of j follows directly, too; then Figure 2 is the largest.

    For all (t, delta) of i on j and (u, epsilon) of j on k, some bound of i on k waits no longer than t + u, and has a
    difference no greater than delta + epsilon. Systems with bounds that count rows are not.

    >>> from slackwater.testing.oracles.heartbeats.system import Skew
    >>> from slackwater.testing.oracles.heartbeats.systems import sensors, uniform
    >>> closed_under_composition(uniform(3, Skew(0, 6), latency=9))
    True
    >>> closed_under_composition(sensors([3, 1, 3], [0, 0, 0], rates=[1, 1, 1]))
    False
    """
    return system.is_time_based() and all(
        is_covered(compose(first, second), system.entry(i, k))
        for i in system.sources
        for j in system.sources
        for k in system.sources
        for first in system.entry(i, j)
        for second in system.entry(j, k)
    )


def needs_timeout(system: System) -> bool:
    """Whether rows can be stuck when all sources pause: Theorem 3.3, corrected.

    None is needed if and only if each entry has a bound with a difference of 0 that needs no further rows: when all
    pause, none come.

    >>> from slackwater.testing.oracles.heartbeats.system import Skew
    >>> from slackwater.testing.oracles.heartbeats.systems import global_counter, repeating, uniform
    >>> needs_timeout(global_counter([(1, 3), (2, 5)], [0, 0])), needs_timeout(uniform(2, Skew(0, 1)))
    (False, True)
    >>> needs_timeout(repeating(3))
    True
    """
    return not all(
        any(skew.delta == 0 and skew.ticks is not None for skew in system.entry(i, j))
        for i in system.sources
        for j in system.sources
    )


def can_stall(system: System) -> bool:
    """Whether one source that pauses for ever can stop all, though others go on; no time-out helps, as not all pause.

    So it is where an entry is missing: nothing follows of j from rows of i alone. An entry that only counts further
    rows of another source is as good as missing then, as that source sends none.

    >>> from slackwater.testing.oracles.heartbeats.system import Skew, System
    >>> can_stall(System((0, 0), {(0, 0): (Skew(0, 1),), (1, 1): (Skew(0, 1),)}))
    True
    >>> from slackwater.testing.oracles.heartbeats.systems import repeating
    >>> can_stall(repeating(3))
    False
    """
    return not all(
        any(i == j or skew.ticks is not None for skew in system.entry(i, j))
        for i in system.sources
        for j in system.sources
    )
