"""Heartbeats as the paper makes them: a slot per tick, set ahead when a row arrives (Figure 2).

Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, Figure 2, sections 3.1 and 3.3.

As printed, a slot may be set below an earlier one, and a heartbeat would fall. By its definition it cannot, so here it
is the greatest of the slots up to now. The paper has no formula for bounds that count rows where there is latency: a
row that arrives after a + L was certainly emitted after a, so the n-th of those, at tick b, ends the wait, and whatever
was emitted by b has arrived by b + L.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from slackwater.testing.oracles.heartbeats.system import NOTHING_YET, check_arrivals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.testing.oracles.heartbeats.system import Arrival, Skew, Source, System, Tick, Time

    Slots: TypeAlias = list[dict[Tick, Time]]
    """The paper's infinite arrays: for each source, the slots that were set."""


def figure_2(system: System, arrivals: Sequence[Arrival], until: Tick, timeout: Tick | None = None) -> list[list[Time]]:
    """The heartbeat of each source at each tick from 0 to `until`, as `heartbeats[tick][source]`.

    A heartbeat of x at tick c: all rows that arrive after c are newer than x, so the source is complete before x + 1.
    `timeout`: when no row of any source has come for so many ticks, the greatest time seen is the heartbeat of all; an
    assumption, not a conclusion.

    >>> from slackwater.testing.oracles.heartbeats.system import Skew, System
    >>> system = System((2, 0), {(0, 0): (Skew(0, 1),), (0, 1): (Skew(1, 3),), (1, 1): (Skew.rows(1, 0),)})
    >>> beats = figure_2(system, [(0, 0, 10), (3, 1, 12), (4, 1, 13)], until=5)
    >>> [["-" if beat == NOTHING_YET else beat for beat in both] for both in beats]
    [['-', '-'], ['-', 7], [9, 7], [9, 7], [9, 12], [9, 12]]
    """
    check_arrivals(system, arrivals)
    slots: Slots = [{0: NOTHING_YET} for _ in system.sources]
    for arrival in arrivals:
        for j in system.sources:
            for skew in system.entry(arrival[1], j):
                _set(slots[j], _ready(system, arrivals, arrival, j, skew), arrival[2] - skew.delta)
    if timeout is not None:
        _assume_all_paused(slots, arrivals, timeout, until)
    return [[_beat(slots[j], tick) for j in system.sources] for tick in range(until + 1)]


def overall(heartbeats: Sequence[Sequence[Time]]) -> list[Time]:
    """The heartbeat of all sources together, tick by tick: the least of theirs.

    >>> overall([[3, 5], [6, 5]])
    [3, 5]
    """
    return [min(beats) for beats in heartbeats]


def _ready(system: System, arrivals: Sequence[Arrival], arrival: Arrival, j: Source, skew: Skew) -> Tick | None:
    """The slot of source j that an arrival sets by a bound; none while the wait has not ended."""
    arrived, latency = arrival[0], system.latency[j]
    if skew.ticks is not None:
        return arrived + skew.ticks + latency
    further = [tick for tick, source, _ in arrivals if source == j and tick > arrived + latency]
    return further[skew.wait - 1] + latency if len(further) >= skew.wait else None


def _set(slots: dict[Tick, Time], slot: Tick | None, time: Time) -> None:
    if slot is not None:
        slots[slot] = max(slots.get(slot, NOTHING_YET), time)


def _assume_all_paused(slots: Slots, arrivals: Sequence[Arrival], timeout: Tick, until: Tick) -> None:
    """Section 3.3: at each tick, look whether nothing came for the time-out."""
    for now in range(until + 1):
        seen = [arrival for arrival in arrivals if arrival[0] <= now]
        if seen and now - seen[-1][0] >= timeout:
            for of_source in slots:
                _set(of_source, now, max(time for _, _, time in seen))


def _beat(slots: dict[Tick, Time], now: Tick) -> Time:
    return max(time for slot, time in slots.items() if slot <= now)
