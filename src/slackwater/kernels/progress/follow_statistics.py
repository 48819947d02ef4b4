"""Follows arrivals of which a process has only some rows: the rest it knows by statistics, which all processes know.

A group stands for all rows of one source that arrived in one tick: how many, and the newest time. Groups move the
heartbeats, so that all processes decide the same. The rows that a process has itself move nothing: they are compared
with the heartbeats of their sources, and punctuations get places among them.

Where bounds are learnt all rows of a group have the same time, and groups are learnt from in the order in which they
are given: that of their ticks and times, so that all processes learn the same.

Cost: O(rules) for each group, O(rules * sources) for each tick, O(1) for each row; that of learning for all rows.
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
    T2,
    TABLES,
    HeartbeatTables,
)
from slackwater.kernels.progress.learnt_tables import CAME_BEFORE, GIVEN_LEARNT, LEARNT, LearntTables
from slackwater.kernels.progress.take_in import any_counts, compare_with_heartbeat, note_own_heartbeats, take_in
from slackwater.kernels.progress.ticks import begin_tick, end_of_tick, finish_tick, next_tick
from slackwater.kernels.saturating import LEAST

if TYPE_CHECKING:
    from slackwater.kernels.progress.heartbeat_tables import Table


@kernel(int64(READ, READ, READ, int64, int64, T2), inner=True)
def _compare_rows(ticks: Table, codes: Table, times: Table, row: int, tick: int, sources: Table) -> int:
    """Compare the rows of a tick with the heartbeats of their sources; return the first row of a later tick."""
    stop = end_of_tick(ticks, row, tick)
    for one in range(row, stop):
        if times[one] != LEAST:
            compare_with_heartbeat(sources, codes[one], times[one])
    return stop


@kernel(void(TABLES, LEARNT, READ, READ, READ, int64), inner=True)
def _learn_groups(
    tables: HeartbeatTables, learnt: LearntTables, codes: Table, rows: Table, times: Table, tick: int
) -> None:
    """Learn from the rows of a tick, of which none is taken in unless it came in a micro-batch before this one."""
    for group in range(len(codes)):
        source = codes[group]
        if times[group] != LEAST:
            if tables.sources[LAST_TICK, source] != tick:
                learnt.aside[CAME_BEFORE, source] = tables.sources[HIGH_WATER, source]
            for _ in range(rows[group]):
                learn(tables, learnt, source, times[group], tick)


_COLUMNS: Final = (READ, READ, READ, READ, READ, READ, READ, boolean, T1, T1, T1)


@kernel(int64(TABLES, none, *_COLUMNS), int64(TABLES, LEARNT, *_COLUMNS), inner=True)
def _follow(
    tables: HeartbeatTables,
    learnt: LearntTables | None,
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
        found = finish_tick(tables, learnt, tick, row, found, places, bounds)
        if group == len(ticks):
            break
        begin_tick(tables, learnt, tick)
        first, row = row, _compare_rows(own_ticks, own_codes, own_times, row, tick, tables.sources)
        note_own_heartbeats(own_codes, tables.everything[OVERALL], tables.sources, first, min(row, len(own)), own)
        stop = end_of_tick(ticks, group, tick)
        if learnt is not None:
            _learn_groups(tables, learnt, codes[group:stop], rows[group:stop], newest[group:stop], tick)
        for at in range(stop - group):
            # Where groups are in order of time the newest is first: those that follow it raise nothing.
            one = group + at if learnt is None else stop - 1 - at
            if newest[one] != LEAST:
                take_in(tables, codes[one], newest[one], rows[one] - 1, tick, counts)
        group = stop
    return found


@kernel(int64(GIVEN, *_COLUMNS))
def follow_statistics(
    given: tuple[Table, ...],
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
    """Follow groups by declared bounds; see `_follow`."""
    return _follow(
        HeartbeatTables(*given), None, ticks, codes, rows, newest, own_ticks, own_codes, own_times, closes, places,
        bounds, own,
    )  # fmt: skip


@kernel(int64(GIVEN, GIVEN_LEARNT, *_COLUMNS))
def estimate_statistics(
    given: tuple[Table, ...],
    learnt: tuple[Any, ...],
    ticks: Table,
    codes: Table,
    rows: Table,
    times: Table,
    own_ticks: Table,
    own_codes: Table,
    own_times: Table,
    closes: bool,
    places: Table,
    bounds: Table,
    own: Table,
) -> int:
    """Follow groups, whose rows have one time each, by bounds some of which are learnt from them; see `_follow`."""
    return _follow(
        HeartbeatTables(*given), LearntTables(*learnt), ticks, codes, rows, times, own_ticks, own_codes, own_times,
        closes, places, bounds, own,
    )  # fmt: skip
