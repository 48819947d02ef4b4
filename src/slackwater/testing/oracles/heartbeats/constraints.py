"""The largest heartbeat by difference constraints: as `literal_largest`, in polynomial time, for time-based bounds.

A row that arrived at a was emitted at some e with a - L <= e <= a. A row with time x' <= x - delta was emitted no more
than t after the row of time x, or the bound (t, delta) would be broken: e' <= e + t. Such constraints have a greatest
solution, which Bellman-Ford finds; a time is possible for a row that has not come yet if in the greatest solution no
row has travelled for longer than its latency.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from slackwater.testing.oracles.heartbeats.largest import times_that_matter
from slackwater.testing.oracles.heartbeats.system import NOTHING_YET, check_arrivals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.testing.oracles.heartbeats.system import Arrival, Source, System, Tick, Time


def by_constraints(system: System, arrivals: Sequence[Arrival], tick: Tick) -> list[Time]:
    """The largest true heartbeat of each source at a tick. Bounds that count rows are refused.

    Cost: for each source and each time that matters, O(rows^3) comparisons of bounds.

    >>> from slackwater.testing.oracles.heartbeats.system import Skew, System
    >>> system = System((0, 4), {(0, 1): (Skew(1, 1),), (1, 0): (Skew(3, 0),), (1, 1): (Skew(0, 1),)})
    >>> by_constraints(system, [(1, 0, 3), (3, 1, 0)], tick=5)[0]
    0
    """
    check_arrivals(system, arrivals)
    if not system.is_time_based():
        raise ValueError("bounds that count rows are no difference constraints: ask literal_largest")
    seen = [arrival for arrival in arrivals if arrival[0] <= tick]
    if not _is_possible(system, seen, []):
        raise ValueError(f"no emission times of these rows keep to the bounds: {seen}")
    return [_least_possible(system, seen, j, tick) - 1 for j in system.sources]


def _least_possible(system: System, seen: Sequence[Arrival], j: Source, tick: Tick) -> Time:
    matter = times_that_matter(system, seen, j)
    older_than_all = min([time for _, _, time in seen] + matter, default=0) - 1
    if _is_possible(system, seen, [(tick + 1, j, older_than_all)]):
        return NOTHING_YET + 1
    return next(time for time in matter if _is_possible(system, seen, [(tick + 1, j, time)]))


def _is_possible(system: System, seen: Sequence[Arrival], coming: Sequence[Arrival]) -> bool:
    """Whether there are emission times of some rows seen and of some that arrive at their tick or later."""
    rows = [*seen, *coming]
    latest: list[float] = [*(tick for tick, _, _ in seen), *(math.inf for _ in coming)]
    constraints = [
        (row, first, skew.ticks)
        for first, (_, i, time) in enumerate(rows)
        for row, (_, j, other) in enumerate(rows)
        for skew in system.entry(i, j)
        if skew.ticks is not None and other <= time - skew.delta
    ]
    while any(latest[row] > latest[first] + wait for row, first, wait in constraints):
        for row, first, wait in constraints:
            latest[row] = min(latest[row], latest[first] + wait)
    return all(latest[row] >= tick - system.latency[source] for row, (tick, source, _) in enumerate(rows))
