"""Replays recorded arrivals through the heartbeat generator, and finds when each row could have been given out.

Heartbeats never fall: the tick at which one passes the time of a row is found by going through the rows in order of
time once. Ticks without rows are gone through one by one while rows are held and a heartbeat may still rise.

Cost: that of the generator for each tick in which something is held, and O(1) for each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.kernels.compile import kernel
from slackwater.kernels.progress.heartbeats import (
    BEGUN,
    HEARTBEAT,
    NONE,
    OVERALL,
    SOURCES,
    TICK,
    evaluate,
    follow_arrivals,
)
from slackwater.kernels.saturating import GREATEST, LEAST

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
def _release(
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

    Rows that are never complete keep what is there, GREATEST. `longest` is for how many ticks without rows heartbeats
    may still rise; NONE for ever. `nexts` has the beginnings of the sources in `by_source`, and 0 at its end.
    """
    row, held = 0, 0
    while row < len(times):
        tick, end = ticks[row], row
        if everything[BEGUN] != LEAST and tick - 1 > everything[TICK]:
            # The end of the silence: what comes too late now is late.
            everything[TICK] = tick - 1
            evaluate(everything, rules, kinds, sources, histories, delayed, counted, tick - 1)
            held -= _release(
                times, by_time, by_source, begins, nexts, everything, sources, row, tick - 1, of_all, of_own
            )
        while end < len(times) and ticks[end] == tick:
            held += (of_all[end] == GREATEST) + (of_own[end] == GREATEST)
            end += 1
        follow_arrivals(
            ticks[row:end], codes[row:end], times[row:end], True, everything, rules, kinds, sources, histories,
            delayed, counted, queues, scratch[0], scratch[1],
        )  # fmt: skip
        row = end
        held -= _release(times, by_time, by_source, begins, nexts, everything, sources, row, tick, of_all, of_own)
        until = ticks[row] - 1 if row < len(times) else GREATEST
        if longest != NONE:
            until = min(until, tick + longest)
        while held > 0 and everything[TICK] < until:
            now = everything[TICK] + 1
            everything[TICK] = now
            evaluate(everything, rules, kinds, sources, histories, delayed, counted, now)
            held -= _release(times, by_time, by_source, begins, nexts, everything, sources, row, now, of_all, of_own)
