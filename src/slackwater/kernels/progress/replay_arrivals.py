"""Replays recorded arrivals through the heartbeat generator, and finds when each row could have been given out.

Heartbeats never fall: the tick at which one passes the time of a row is found by going through the rows in order of
time once. Of ticks without rows only those are looked at in which a heartbeat may pass a row.

Cost: that of the generator for each tick in which something is held, and O(1) for each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.kernels.compile import kernel
from slackwater.kernels.progress.heartbeats import (
    ALWAYS,
    BEGUN,
    DELAY,
    GRID,
    HEARTBEAT,
    IDLE,
    LAST_ARRIVAL,
    LAST_TICK,
    LULL,
    NONE,
    OVERALL,
    SOURCES,
    TICK,
    WAITED_FOR,
    evaluate,
    follow_arrivals,
)
from slackwater.kernels.saturating import GREATEST, LEAST, plus

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Table = NDArray[np.int64]

_READ = "Array(int64, 1, 'C', readonly=True)"
_T1, _T2, _T3, _T4 = "int64[::1]", "int64[:, ::1]", "int64[:, :, ::1]", "int64[:, :, :, ::1]"


@kernel(f"int64({_READ}, {_READ}, {_T1}, int64, int64, int64, int64, int64, {_T1})")
def _pass(
    times: Table,
    order: Table,
    nexts: Table,
    which: int,
    end: int,
    heartbeat: int,
    arrived: int,
    tick: int,
    found: Table,
) -> int:
    """Note the tick for all rows up to a heartbeat; return how many of them had arrived."""
    released, at = 0, nexts[which]
    while at < end and times[order[at]] <= heartbeat:
        found[order[at]] = tick
        released += order[at] < arrived
        at += 1
    nexts[which] = at
    return released


@kernel(
    f"int64({_READ}, {_READ}, {_READ}, {_READ}, {_T1}, {_T1}, {_T2}, int64, int64, {_T1}, {_T1})",
)
def release(
    times: Table,
    by_time: Table,
    by_source: Table,
    begins: Table,
    nexts: Table,
    everything: Table,
    sources: Table,
    arrived: int,
    tick: int,
    of_all: Table,
    of_own: Table,
) -> int:
    """Let out what heartbeats have passed at the end of a tick; return how many of the rows that have arrived.

    Twice: of all sources, and of its own. The last of `nexts` is the place in the order of all.
    """
    released = 0
    if everything[OVERALL] != LEAST:
        last = len(nexts) - 1
        released += _pass(times, by_time, nexts, last, len(times), everything[OVERALL], arrived, tick, of_all)
    for j in range(everything[SOURCES]):
        if sources[HEARTBEAT, j] != LEAST:
            end = begins[j + 1]
            released += _pass(times, by_source, nexts, j, end, sources[HEARTBEAT, j], arrived, tick, of_own)
    return released


@kernel("int64(int64, int64, int64)", inlined=True)
def _by_clock(time: int, delay: int, grid: int) -> int:
    """The tick at the end of which the clock passes a time by a delay; GREATEST if there is no delay."""
    return GREATEST if delay == NONE else -(-plus(plus(time, delay), 1) // grid) - 1


@kernel(f"int64({_READ}, {_READ}, {_READ}, {_READ}, {_T1}, {_T1}, {_T2})")
def next_change(
    times: Table, by_time: Table, by_source: Table, begins: Table, nexts: Table, everything: Table, sources: Table
) -> int:
    """The next tick without rows at which the clock, or an assumption, may let something out; GREATEST for none."""
    now, grid, found = everything[TICK], everything[GRID], GREATEST
    at = nexts[len(nexts) - 1]
    if at < len(times):
        # The next row in order of time is let out when all sources that are waited for have passed it.
        last = now
        for j in range(everything[SOURCES]):
            if sources[WAITED_FOR, j] == ALWAYS and sources[HEARTBEAT, j] < times[by_time[at]]:
                last = max(last, _by_clock(times[by_time[at]], sources[DELAY, j], grid))
        found = last if last > now else GREATEST
    for j in range(everything[SOURCES]):
        if nexts[j] < begins[j + 1]:
            passes = _by_clock(times[by_source[nexts[j]]], sources[DELAY, j], grid)
            found = min(found, passes) if passes > now else found
        if everything[IDLE] != NONE:
            idle = max(sources[LAST_TICK, j], everything[BEGUN]) + everything[IDLE]
            found = min(found, idle) if idle > now else found
    lull = everything[LAST_ARRIVAL] + everything[LULL]
    return min(found, lull) if everything[LULL] != NONE and lull > now else found


@kernel(
    f"void({_READ}, {_READ}, {_READ}, {_READ}, {_READ}, {_READ}, int64, {_T1}, {_T3}, {_T2}, {_T2}, {_T3}, {_T4}, "
    f"{_T3}, {_T4}, {_T1}, {_T2}, {_T1}, {_T1})",
)
def replay_arrivals(
    ticks: Table,
    codes: Table,
    times: Table,
    by_time: Table,
    by_source: Table,
    begins: Table,
    longest: int,
    everything: Table,
    rules: Table,
    kinds: Table,
    sources: Table,
    histories: Table,
    delayed: Table,
    counted: Table,
    queues: Table,
    nexts: Table,
    scratch: Table,
    of_all: Table,
    of_own: Table,
) -> None:
    """Fill in at the end of which tick the time of each row was complete: of all sources, and of its own.

    Rows that are never complete keep what is there, GREATEST. `longest` is for how many ticks without rows something
    may come to hold that rows guaranteed. `nexts` has the beginnings of the sources in `by_source`, and 0 at its end.
    """
    row, held = 0, 0
    while row < len(times):
        tick, end = ticks[row], row
        if everything[BEGUN] != LEAST and tick - 1 > everything[TICK]:
            # The end of the silence: what comes too late now is late.
            everything[TICK] = tick - 1
            evaluate(everything, rules, kinds, sources, histories, delayed, counted, tick - 1)
            held -= release(
                times, by_time, by_source, begins, nexts, everything, sources, row, tick - 1, of_all, of_own
            )
        while end < len(times) and ticks[end] == tick:
            held += (of_all[end] == GREATEST) + (of_own[end] == GREATEST)
            end += 1
        follow_arrivals(
            ticks[row:end], codes[row:end], times[row:end], True, everything, rules, kinds, sources, histories,
            delayed, counted, queues, scratch[0], scratch[1], scratch[0, :0],
        )  # fmt: skip
        row = end
        held -= release(times, by_time, by_source, begins, nexts, everything, sources, row, tick, of_all, of_own)
        until = ticks[row] - 1 if row < len(times) else GREATEST
        while held > 0 and everything[TICK] < until:
            now = everything[TICK] + 1
            if now > tick + longest:
                now = next_change(times, by_time, by_source, begins, nexts, everything, sources)
            if now > until or now == GREATEST:
                break
            everything[TICK] = now
            evaluate(everything, rules, kinds, sources, histories, delayed, counted, now)
            held -= release(times, by_time, by_source, begins, nexts, everything, sources, row, now, of_all, of_own)
