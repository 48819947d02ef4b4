"""Follows arrivals of which a process has only some rows: the rest it knows by statistics, which all processes know.

A group stands for all rows of one source that arrived in one tick: how many, and the newest time. Groups move the
heartbeats, so that all processes decide the same. The rows that a process has itself move nothing: they are compared
with the heartbeats of their sources, and punctuations get places among them.

Cost: O(rules) for each group, O(rules * sources) for each tick, O(1) for each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import boolean, int64

from slackwater.kernels.compile import kernel
from slackwater.kernels.progress.heartbeat_tables import OVERALL, READ, T1, T2, TABLES
from slackwater.kernels.progress.take_in import any_counts, compare_with_heartbeat, note_own_heartbeats, take_in
from slackwater.kernels.progress.ticks import begin_tick, end_of_tick, finish_tick, next_tick
from slackwater.kernels.saturating import LEAST

if TYPE_CHECKING:
    from slackwater.kernels.progress.heartbeat_tables import HeartbeatTables, Table


@kernel(int64(READ, READ, READ, int64, int64, T2), inner=True)
def _compare_rows(ticks: Table, codes: Table, times: Table, row: int, tick: int, sources: Table) -> int:
    """Compare the rows of a tick with the heartbeats of their sources; return the first row of a later tick."""
    stop = end_of_tick(ticks, row, tick)
    for one in range(row, stop):
        if times[one] != LEAST:
            compare_with_heartbeat(sources, codes[one], times[one])
    return stop


@kernel(int64(TABLES, READ, READ, READ, READ, READ, READ, READ, boolean, T1, T1, T1))
def follow_statistics(
    tables: HeartbeatTables,
    ticks: Table,
    codes: Table,
    rows: Table,
    newest: Table,
    own_ticks: Table,
    own_codes: Table,
    own_times: Table,
    closes: bool,
    places: Table,
    bounds: Table,
    own: Table,
) -> int:
    """Take in groups in order of their ticks; return how often the least heartbeat rose, and fill in before which rows.

    Rows are in order of their ticks, too, and every one is in a group. With `closes` the last tick is over after the
    last group. A group whose newest time is LEAST has rows without a time only, and moves nothing but the clock. `own`
    is filled with how far the source of each row was complete when the row came, unless there is no room in it.
    """
    found, counts, group, row = 0, any_counts(tables.kinds), 0, 0
    while group < len(ticks) or closes:
        tick = next_tick(tables.everything, ticks, group)
        found = finish_tick(tables, None, tick, row, found, places, bounds)
        if group == len(ticks):
            break
        begin_tick(tables, None, tick)
        first, row = row, _compare_rows(own_ticks, own_codes, own_times, row, tick, tables.sources)
        note_own_heartbeats(own_codes, tables.everything[OVERALL], tables.sources, first, min(row, len(own)), own)
        stop = end_of_tick(ticks, group, tick)
        for one in range(group, stop):
            if newest[one] != LEAST:
                take_in(tables, codes[one], newest[one], rows[one] - 1, tick, counts)
        group = stop
    return found
