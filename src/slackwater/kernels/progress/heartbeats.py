"""Finds how far every source is complete at the end of a tick, from what rows of other sources and its own guarantee.

Rules have senders and receivers. Of all senders of a rule only the furthest counts, less how far it may be ahead; for
the furthest itself the second. So a rule costs one step for each source and tick, not one for each pair of sources.
What comes to hold after a while stands in a history: when the furthest was where.
Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, Figure 2.

Invariant: heartbeats never fall.
Cost: O(rules * sources).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import int64, void

from slackwater.kernels.compile import kernel
from slackwater.kernels.progress.heartbeat_tables import (
    ALWAYS,
    AND_OWN,
    BEGUN,
    BINDING,
    BY_CLOCK,
    BY_IDLE,
    BY_LULL,
    COUNTS,
    DELAY,
    DELAYED,
    DELTA,
    EVALUATED,
    FIRST,
    FIRST_SENDER,
    FURTHER_ROWS,
    GRID,
    HEARTBEAT,
    HIGH_WATER,
    IDLE,
    LAST_ARRIVAL,
    LAST_TICK,
    LATENCY,
    LENGTH,
    LULL,
    NEWEST,
    NONE,
    OVERALL,
    OWN,
    SECOND,
    SECOND_SENDER,
    SENDER,
    SET_BY,
    SOURCES,
    T1,
    T2,
    TABLES,
    WAIT,
    WAITED_FOR,
)
from slackwater.kernels.progress.tick_history import entry_at
from slackwater.kernels.saturating import GREATEST, LEAST, minus, plus

if TYPE_CHECKING:
    from slackwater.kernels.progress.heartbeat_tables import HeartbeatTables, Table


@kernel(int64(T1, T2, int64, int64, int64), inner=True)
def furthest(kind: Table, history: Table, receiver: int, wait: int, now: int) -> int:
    """How far the senders of a rule had come when the wait of a receiver began; LEAST if none had come."""
    first, sender, second = kind[FIRST], kind[FIRST_SENDER], kind[SECOND]
    if wait:
        at = entry_at(history, kind[LENGTH], now - wait)
        if at == NONE:
            return LEAST
        first, sender, second = history[at, 1], history[at, 2], history[at, 3]
    return second if sender == receiver and not kind[AND_OWN] else first


@kernel(int64(TABLES, int64, int64, int64), inner=True)
def _guaranteed(tables: HeartbeatTables, rule: int, receiver: int, now: int) -> int:
    """Up to where a rule guarantees, by now, that a source is complete; LEAST for nothing."""
    says, kind = tables.rules[rule], tables.kinds[rule]
    delta, wait = says[DELTA, receiver], says[WAIT, receiver]
    if delta == NONE:
        return LEAST
    if says[FURTHER_ROWS, receiver]:
        latency = tables.sources[LATENCY, receiver]
        if latency == 0:
            return minus(tables.counted[kind[COUNTS], receiver, 0], delta)
        wait = latency
    elif not kind[OWN]:
        return minus(furthest(kind, tables.histories[rule], receiver, wait, now), delta)
    elif wait == 0:
        return minus(tables.sources[HIGH_WATER, receiver], delta)
    place = kind[DELAYED]
    at = entry_at(tables.delayed[place, receiver], tables.counted[place, receiver, 1], now - wait)
    return LEAST if at == NONE else minus(tables.delayed[place, receiver, at, 1], delta)


@kernel(void(T2, int64, int64, int64, int64), inlined=True, inner=True)
def _lift(sources: Table, source: int, value: int, by: int, sender: int) -> None:
    """Raise a heartbeat, if this is more, and note why, and by whose row."""
    if value > sources[HEARTBEAT, source]:
        sources[HEARTBEAT, source] = value
        sources[SET_BY, source] = by
        sources[SENDER, source] = sender


@kernel(void(int64, T1, T2, T2, T2, int64, int64), inner=True)
def _lift_by_others(rule: int, kind: Table, says: Table, sources: Table, history: Table, count: int, now: int) -> None:
    """Raise heartbeats by how far the senders of a rule have come; sources that wait as long are looked up once."""
    deltas, waits = says[DELTA], says[WAIT]
    looked_at, first, second, sender, other = NONE, LEAST, LEAST, NONE, NONE
    for j in range(count):
        if deltas[j] == NONE:
            continue
        if waits[j] != looked_at:
            looked_at = waits[j]
            first, second, sender, other = LEAST, LEAST, NONE, NONE
            if looked_at == 0:
                first, second, sender, other = kind[FIRST], kind[SECOND], kind[FIRST_SENDER], kind[SECOND_SENDER]
            else:
                at = entry_at(history, kind[LENGTH], now - looked_at)
                if at != NONE:
                    first, sender, second = history[at, 1], history[at, 2], history[at, 3]
        if j == sender and not kind[AND_OWN]:
            _lift(sources, j, minus(second, deltas[j]), rule, other)
        else:
            _lift(sources, j, minus(first, deltas[j]), rule, sender)


@kernel(void(int64, T2, T2, int64), inner=True)
def _lift_by_own(rule: int, says: Table, sources: Table, count: int) -> None:
    """Raise heartbeats by how far each source has come itself, where nobody waits and nothing is counted."""
    deltas, water = says[DELTA], sources[HIGH_WATER]
    for j in range(count):
        if deltas[j] != NONE:
            _lift(sources, j, minus(water[j], deltas[j]), rule, j)


@kernel(void(T1, T2, int64), inner=True)
def _assume(everything: Table, sources: Table, now: int) -> None:
    """Raise heartbeats by the clock, and by what is assumed of silence."""
    delays, last, newest = sources[DELAY], sources[LAST_TICK], everything[NEWEST]
    grid, idle, lull = everything[GRID], everything[IDLE], everything[LULL]
    clock = plus(now, 1) * grid if now < GREATEST // grid - 1 else GREATEST
    silent = lull != NONE and everything[LAST_ARRIVAL] != LEAST and now - everything[LAST_ARRIVAL] >= lull
    for j in range(everything[SOURCES]):
        if delays[j] != NONE:
            _lift(sources, j, minus(minus(clock, delays[j]), 1), BY_CLOCK, NONE)
        if idle != NONE and everything[BEGUN] != LEAST and now - max(last[j], everything[BEGUN]) >= idle:
            _lift(sources, j, newest, BY_IDLE, NONE)
        if silent:
            _lift(sources, j, newest, BY_LULL, NONE)


@kernel(void(T1, T2), inner=True)
def _bind(everything: Table, sources: Table) -> None:
    """Find the least heartbeat of the sources that are waited for, and whose it is."""
    overall, binding = GREATEST, NONE
    for j in range(everything[SOURCES]):
        if sources[WAITED_FOR, j] == ALWAYS and sources[HEARTBEAT, j] < overall:
            overall, binding = sources[HEARTBEAT, j], j
    everything[BINDING] = binding
    if binding != NONE:
        everything[OVERALL] = max(everything[OVERALL], overall)


@kernel(void(TABLES, int64, int64), inner=True)
def find_heartbeats(tables: HeartbeatTables, rules: int, now: int) -> None:
    """Find the heartbeats at the end of a tick by the first so many rules, and the least of them."""
    everything, sources = tables.everything, tables.sources
    count = everything[SOURCES]
    for rule in range(rules):
        kind = tables.kinds[rule]
        if not kind[OWN] and kind[COUNTS] == NONE:
            if kind[FIRST] != LEAST:
                _lift_by_others(rule, kind, tables.rules[rule], sources, tables.histories[rule], count, now)
            continue
        if kind[COUNTS] == NONE and kind[DELAYED] == NONE:
            _lift_by_own(rule, tables.rules[rule], sources, count)
            continue
        for j in range(count):
            if tables.rules[rule, DELTA, j] != NONE:
                _lift(sources, j, _guaranteed(tables, rule, j, now), rule, j if kind[OWN] else NONE)
    _assume(everything, sources, now)
    _bind(everything, sources)
    everything[EVALUATED] = now
