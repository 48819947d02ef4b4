"""Goes from one tick of arrivals to the next: what all loops over arrivals share.

Rows of a tick arrive together. When the next one begins the one before is over: heartbeats are found by all that has
come until then. Where bounds are learnt that is done twice: what declared bounds alone guarantee is found beside it, so
that it is known which rows only an estimate made late.

    tick = next_tick(...) ──> finish_tick(...) ──> begin_tick(...) ──> rows of this tick are taken in ──> ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import int64, none, void

from slackwater.kernels.compile import kernel
from slackwater.kernels.progress.estimates import settle
from slackwater.kernels.progress.heartbeat_tables import (
    BEGUN,
    BINDING,
    DELAY,
    EVALUATED,
    GIVEN,
    HEARTBEAT,
    NONE,
    OVERALL,
    OWN,
    READ,
    SENDER,
    SET_BY,
    SOURCES,
    T1,
    TABLES,
    TICK,
    UNSEEN,
    WAIT,
    HeartbeatTables,
)
from slackwater.kernels.progress.heartbeats import find_heartbeats, furthest
from slackwater.kernels.progress.learnt_tables import (
    DECLARED,
    DECLARED_BINDING,
    DECLARED_DELAY,
    DECLARED_HEARTBEAT,
    DECLARED_OVERALL,
    DECLARED_SENDER,
    DECLARED_SET_BY,
    GIVEN_LEARNT,
    LEARNT,
    LearntTables,
)
from slackwater.kernels.saturating import LEAST, minus, plus

if TYPE_CHECKING:
    from slackwater.kernels.progress.heartbeat_tables import Table


@kernel(void(READ, int64, T1))
def ticks_of(arrivals: Table, grid: int, ticks: Table) -> None:
    """Fill in the tick of each arrival; a division is only done where an arrival is in another tick than the last.

    >>> import numpy as np
    >>> ticks = np.empty(4, dtype=np.int64)
    >>> ticks_of(np.array([19, 20, 25, -1]), 10, ticks)
    >>> ticks.tolist()
    [1, 2, 2, -1]
    """
    tick, begins, ends = 0, 1, 0
    for i in range(len(arrivals)):
        arrival = arrivals[i]
        if arrival < begins or arrival > ends:
            tick = arrival // grid
            begins = minus(arrival, arrival % grid)
            ends = plus(begins, grid - 1)
        ticks[i] = tick


@kernel(int64(READ, int64, int64), inner=True)
def end_of_tick(ticks: Table, row: int, tick: int) -> int:
    """The first row from here on that arrives after a tick."""
    while row < len(ticks) and ticks[row] <= tick:
        row += 1
    return row


@kernel(void(TABLES, LEARNT), inner=True)
def _change_sides(tables: HeartbeatTables, learnt: LearntTables) -> None:
    """Change what declared bounds alone guarantee for what all do, or back."""
    everything, sources, numbers, aside = tables.everything, tables.sources, learnt.numbers, learnt.aside
    for j in range(everything[SOURCES]):
        sources[HEARTBEAT, j], aside[DECLARED_HEARTBEAT, j] = aside[DECLARED_HEARTBEAT, j], sources[HEARTBEAT, j]
        sources[SET_BY, j], aside[DECLARED_SET_BY, j] = aside[DECLARED_SET_BY, j], sources[SET_BY, j]
        sources[SENDER, j], aside[DECLARED_SENDER, j] = aside[DECLARED_SENDER, j], sources[SENDER, j]
        sources[DELAY, j], aside[DECLARED_DELAY, j] = aside[DECLARED_DELAY, j], sources[DELAY, j]
    everything[OVERALL], numbers[DECLARED_OVERALL] = numbers[DECLARED_OVERALL], everything[OVERALL]
    everything[BINDING], numbers[DECLARED_BINDING] = numbers[DECLARED_BINDING], everything[BINDING]


@kernel(void(TABLES, none, int64), void(TABLES, LEARNT, int64), inner=True)
def evaluate(tables: HeartbeatTables, learnt: LearntTables | None, now: int) -> None:
    """Find the heartbeats at the end of a tick, and the least of them; by declared bounds alone, too, if need be."""
    if learnt is not None:
        settle(tables, learnt)
        _change_sides(tables, learnt)
        find_heartbeats(tables, learnt.numbers[DECLARED], now)
        _change_sides(tables, learnt)
    find_heartbeats(tables, len(tables.kinds), now)


@kernel(int64(T1, READ, int64), inner=True)
def next_tick(everything: Table, ticks: Table, at: int) -> int:
    """The tick of the arrival at a place, no earlier than the last; behind the last arrival, the one after the last."""
    return everything[TICK] + 1 if at == len(ticks) else max(ticks[at], everything[TICK])


@kernel(
    int64(TABLES, none, int64, int64, int64, T1, T1), int64(TABLES, LEARNT, int64, int64, int64, T1, T1), inner=True
)
def finish_tick(
    tables: HeartbeatTables, learnt: LearntTables | None, tick: int, row: int, found: int, places: Table, bounds: Table
) -> int:
    """Find the heartbeats before a tick, if it is another than the last, and that was not done.

    Where the least of them rose, note it behind those that were found so far, and before which row; return how many
    there are then.
    """
    everything = tables.everything
    if tick > everything[TICK] and everything[BEGUN] != LEAST and everything[EVALUATED] != tick - 1:
        before = everything[OVERALL]
        evaluate(tables, learnt, tick - 1)
        if everything[OVERALL] > before:
            places[found], bounds[found] = row, everything[OVERALL]
            found += 1
    return found


@kernel(void(TABLES, LEARNT, int64), inner=True)
def _note_senders(tables: HeartbeatTables, learnt: LearntTables, tick: int) -> None:
    """Note how far the senders had come that rows of this tick are compared with."""
    for kind in range(len(learnt.before)):
        rule = learnt.numbers[DECLARED] + kind
        if rule < len(tables.kinds) and not tables.kinds[rule, OWN]:
            wait = tables.rules[rule, WAIT, UNSEEN]
            learnt.before[kind] = furthest(tables.kinds[rule], tables.histories[rule], NONE, wait, tick - 1)


@kernel(void(TABLES, none, int64), void(TABLES, LEARNT, int64), inner=True)
def begin_tick(tables: HeartbeatTables, learnt: LearntTables | None, tick: int) -> None:
    """Go on to a tick with rows, if it is another."""
    everything = tables.everything
    if tick > everything[TICK]:
        everything[TICK] = tick
        if everything[BEGUN] == LEAST:
            everything[BEGUN] = tick
        if learnt is not None:
            _note_senders(tables, learnt, tick)
    everything[EVALUATED] = LEAST


@kernel(void(GIVEN, int64))
def evaluate_declared(given: tuple[Table, ...], now: int) -> None:
    """Find the heartbeats at the end of a tick without rows, where nothing is learnt."""
    evaluate(HeartbeatTables(*given), None, now)


@kernel(void(GIVEN, GIVEN_LEARNT, int64))
def evaluate_estimating(given: tuple[Table, ...], learnt: tuple[Any, ...], now: int) -> None:
    """Find the heartbeats at the end of a tick without rows, where bounds are learnt."""
    evaluate(HeartbeatTables(*given), LearntTables(*learnt), now)
