"""Replays recorded arrivals through the heartbeat generator, and finds when each row could have been given out.

Heartbeats never fall: the tick at which one passes the time of a row is found by going through the rows in order of
time once. Of ticks without rows only those are looked at in which a heartbeat may pass a row.

Cost: that of the generator for each tick in which something is held, and O(1) for each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from numba import int64, none, void

from slackwater.kernels.compile import handed_as_one, kernel
from slackwater.kernels.progress.follow_arrivals import follow
from slackwater.kernels.progress.heartbeat_tables import (
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
    T1,
    T2,
    TABLES,
    TICK,
    WAITED_FOR,
)
from slackwater.kernels.progress.learnt_tables import LEARNT
from slackwater.kernels.progress.ticks import evaluate
from slackwater.kernels.saturating import GREATEST, LEAST, plus

if TYPE_CHECKING:
    from slackwater.kernels.progress.heartbeat_tables import HeartbeatTables, Table
    from slackwater.kernels.progress.learnt_tables import LearntTables


class Replayed(NamedTuple):
    """Rows in order of their arrival, and when each of them could have been given out."""

    ticks: Table
    codes: Table
    times: Table
    by_time: Table
    """The rows in order of time."""

    by_source: Table
    """The rows of one source after those of another, each in order of time."""

    begins: Table
    """Where the rows of each source begin there, and behind them all where the last end."""

    nexts: Table
    """The next row of each source that is held, by its place there; at the end, that of all in order of time."""

    of_all: Table
    """At the end of which tick the time of a row was complete, by all sources that are waited for."""

    of_own: Table
    """The same by its own source."""


REPLAYED: Final = handed_as_one(Replayed, *[T1] * len(Replayed._fields))
"""The same as compiled loops know it."""


@kernel(int64(REPLAYED, T1, int64, int64, int64, int64, int64, T1), inner=True)
def _pass(
    rows: Replayed, order: Table, which: int, end: int, heartbeat: int, arrived: int, tick: int, found: Table
) -> int:
    """Note the tick for all rows up to a heartbeat; return how many of them had arrived."""
    released, at = 0, rows.nexts[which]
    while at < end and rows.times[order[at]] <= heartbeat:
        found[order[at]] = tick
        released += order[at] < arrived
        at += 1
    rows.nexts[which] = at
    return released


@kernel(int64(TABLES, REPLAYED, int64, int64), inner=True)
def _release(tables: HeartbeatTables, rows: Replayed, arrived: int, tick: int) -> int:
    """Let out what heartbeats have passed at the end of a tick; return how many of the rows that have arrived.

    Twice: of all sources, and of its own.
    """
    everything, heartbeats, released = tables.everything, tables.sources[HEARTBEAT], 0
    if everything[OVERALL] != LEAST:
        last, end = len(rows.nexts) - 1, len(rows.times)
        released += _pass(rows, rows.by_time, last, end, everything[OVERALL], arrived, tick, rows.of_all)
    for j in range(everything[SOURCES]):
        if heartbeats[j] != LEAST:
            released += _pass(rows, rows.by_source, j, rows.begins[j + 1], heartbeats[j], arrived, tick, rows.of_own)
    return released


@kernel(int64(int64, int64, int64), inlined=True, inner=True)
def _by_clock(time: int, delay: int, grid: int) -> int:
    """The tick at the end of which the clock passes a time by a delay; GREATEST if there is no delay."""
    return GREATEST if delay == NONE else -(-plus(plus(time, delay), 1) // grid) - 1


@kernel(int64(TABLES, REPLAYED), inner=True)
def _next_change(tables: HeartbeatTables, rows: Replayed) -> int:
    """The next tick without rows at which the clock, or an assumption, may let something out; GREATEST for none."""
    everything, sources, times = tables.everything, tables.sources, rows.times
    now, grid, found = everything[TICK], everything[GRID], GREATEST
    at = rows.nexts[len(rows.nexts) - 1]
    if at < len(times):
        # The next row in order of time is let out when all sources that are waited for have passed it.
        last, time = now, times[rows.by_time[at]]
        for j in range(everything[SOURCES]):
            if sources[WAITED_FOR, j] == ALWAYS and sources[HEARTBEAT, j] < time:
                last = max(last, _by_clock(time, sources[DELAY, j], grid))
        found = last if last > now else GREATEST
    for j in range(everything[SOURCES]):
        if rows.nexts[j] < rows.begins[j + 1]:
            passes = _by_clock(times[rows.by_source[rows.nexts[j]]], sources[DELAY, j], grid)
            found = min(found, passes) if passes > now else found
        if everything[IDLE] != NONE:
            idle = max(sources[LAST_TICK, j], everything[BEGUN]) + everything[IDLE]
            found = min(found, idle) if idle > now else found
    lull = everything[LAST_ARRIVAL] + everything[LULL]
    return min(found, lull) if everything[LULL] != NONE and lull > now else found


@kernel(int64(TABLES, none, REPLAYED, int64, int64), int64(TABLES, LEARNT, REPLAYED, int64, int64), inner=True)
def _pass_silence(tables: HeartbeatTables, learnt: LearntTables | None, rows: Replayed, arrived: int, now: int) -> int:
    """Go on to the end of a tick without rows, and let out what that lets out; return how many rows."""
    tables.everything[TICK] = now
    evaluate(tables, learnt, now)
    return _release(tables, rows, arrived, now)


@kernel(void(TABLES, none, REPLAYED, int64, T2), void(TABLES, LEARNT, REPLAYED, int64, T2), inner=True)
def _replay(tables: HeartbeatTables, learnt: LearntTables | None, rows: Replayed, longest: int, scratch: Table) -> None:
    """Fill in at the end of which tick the time of each row was complete: of all sources, and of its own.

    Rows that are never complete keep what is there, GREATEST. `longest` is for how many ticks without rows something
    may come to hold that rows guaranteed. `nexts` has the beginnings of the sources in `by_source`, and 0 at its end.
    """
    everything, ticks, row, held = tables.everything, rows.ticks, 0, 0
    while row < len(ticks):
        tick, end = ticks[row], row
        if everything[BEGUN] != LEAST and tick - 1 > everything[TICK]:
            # The end of the silence: what comes too late now is late.
            held -= _pass_silence(tables, learnt, rows, row, tick - 1)
        while end < len(ticks) and ticks[end] == tick:
            held += (rows.of_all[end] == GREATEST) + (rows.of_own[end] == GREATEST)
            end += 1
        follow(
            tables, learnt, ticks[row:end], rows.codes[row:end], rows.times[row:end], True, scratch[0], scratch[1],
            scratch[0, :0],
        )  # fmt: skip
        row = end
        held -= _release(tables, rows, row, tick)
        until = ticks[row] - 1 if row < len(ticks) else GREATEST
        while held > 0 and everything[TICK] < until:
            now = everything[TICK] + 1
            if now > tick + longest:
                now = _next_change(tables, rows)
            if now > until or now == GREATEST:
                break
            held -= _pass_silence(tables, learnt, rows, row, now)


@kernel(void(TABLES, REPLAYED, int64, T2))
def replay_arrivals(tables: HeartbeatTables, rows: Replayed, longest: int, scratch: Table) -> None:
    """Replay rows by declared bounds; see `_replay`."""
    _replay(tables, None, rows, longest, scratch)


@kernel(void(TABLES, LEARNT, REPLAYED, int64, T2))
def replay_estimating(
    tables: HeartbeatTables, learnt: LearntTables, rows: Replayed, longest: int, scratch: Table
) -> None:
    """Replay rows by bounds some of which are learnt from them; see `_replay`."""
    _replay(tables, learnt, rows, longest, scratch)
