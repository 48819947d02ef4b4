"""Follows rows in the order of their arrival, tick by tick: where the stream is complete further, and up to where.

Where bounds are learnt each tick is learnt from before its rows count.
Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, Figure 2.

Invariants: heartbeats never fall. Rows of one tick never count against each other.
Cost: O(rules) for each row, O(rules * sources) for each tick with rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numba import boolean, int64, none, void

from slackwater.kernels.compile import kernel
from slackwater.kernels.progress.estimates import learn
from slackwater.kernels.progress.heartbeat_tables import (
    GIVEN,
    HIGH_WATER,
    LAST_TICK,
    OVERALL,
    READ,
    T1,
    TABLES,
    HeartbeatTables,
)
from slackwater.kernels.progress.learnt_tables import CAME_BEFORE, GIVEN_LEARNT, LEARNT, LearntTables
from slackwater.kernels.progress.take_in import any_counts, note_own_heartbeats, take_tick
from slackwater.kernels.progress.ticks import begin_tick, end_of_tick, finish_tick, next_tick
from slackwater.kernels.saturating import LEAST

if TYPE_CHECKING:
    from slackwater.kernels.progress.heartbeat_tables import Table


@kernel(void(TABLES, LEARNT, READ, READ, int64), inner=True)
def _learn_rows(tables: HeartbeatTables, learnt: LearntTables, codes: Table, times: Table, tick: int) -> None:
    """Learn from the rows of a tick, of which none is taken in unless it came in a batch before this one."""
    for row in range(len(times)):
        source = codes[row]
        if times[row] != LEAST:
            if tables.sources[LAST_TICK, source] != tick:
                learnt.aside[CAME_BEFORE, source] = tables.sources[HIGH_WATER, source]
            learn(tables, learnt, source, times[row], tick)


_COLUMNS: Final = (READ, READ, READ, boolean, T1, T1, T1)


@kernel(int64(TABLES, none, *_COLUMNS), int64(TABLES, LEARNT, *_COLUMNS), inner=True)
def follow(
    tables: HeartbeatTables,
    learnt: LearntTables | None,
    ticks: Table,
    codes: Table,
    times: Table,
    closes: bool,
    places: Table,
    bounds: Table,
    own: Table,
) -> int:
    """Take in rows in order of arrival; return how often the least heartbeat rose, and fill in before which rows.

    With `closes` the last tick is over after the last row. A row whose time is LEAST has none, and moves nothing. `own`
    is filled with how far the source of each row was complete when the row came, unless there is no room in it.
    """
    everything = tables.everything
    found, row, counts = 0, 0, any_counts(tables.kinds)
    while row < len(times) or closes:
        tick = next_tick(everything, ticks, row)
        found = finish_tick(tables, learnt, tick, row, found, places, bounds)
        if row == len(times):
            break
        begin_tick(tables, learnt, tick)
        stop = end_of_tick(ticks, row, tick)
        note_own_heartbeats(codes, everything[OVERALL], tables.sources, row, min(stop, len(own)), own)
        if learnt is not None:
            _learn_rows(tables, learnt, codes[row:stop], times[row:stop], tick)
        take_tick(tables, codes[row:stop], times[row:stop], tick, counts)
        row = stop
    return found


@kernel(int64(GIVEN, *_COLUMNS))
def follow_arrivals(
    given: tuple[Table, ...],
    ticks: Table,
    codes: Table,
    times: Table,
    closes: bool,
    places: Table,
    bounds: Table,
    own: Table,
) -> int:
    """Follow rows by declared bounds; see `follow`."""
    return follow(HeartbeatTables(*given), None, ticks, codes, times, closes, places, bounds, own)


@kernel(int64(GIVEN, GIVEN_LEARNT, *_COLUMNS))
def follow_estimating(
    given: tuple[Table, ...],
    learnt: tuple[Any, ...],
    ticks: Table,
    codes: Table,
    times: Table,
    closes: bool,
    places: Table,
    bounds: Table,
    own: Table,
) -> int:
    """Follow rows by bounds some of which are learnt from these very rows; see `follow`."""
    return follow(HeartbeatTables(*given), LearntTables(*learnt), ticks, codes, times, closes, places, bounds, own)
