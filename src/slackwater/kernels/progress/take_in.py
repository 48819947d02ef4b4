"""Takes in the rows of a tick: how far their sources have come, and with them the furthest senders of each rule.

Heartbeats do not move here: rows of one tick never count against each other.
Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, Figure 2.

Cost: O(rules) for each row that is the newest of its source; where many rows come in a tick and none are counted, O(1)
for each row, and O(rules) for each source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import boolean, int64, void

from slackwater.kernels.compile import kernel
from slackwater.kernels.progress.heartbeat_tables import (
    AHEAD,
    ALWAYS,
    AND_OWN,
    BROKEN_BY,
    BROKEN_RULE,
    COUNTS,
    DELAYED,
    DELTA,
    FIRST,
    FIRST_SENDER,
    FROM_FIRST_ROW,
    FURTHER_ROWS,
    HAS_HISTORY,
    HEARTBEAT,
    HIGH_WATER,
    HIGH_WATER_TICK,
    LAST_ARRIVAL,
    LAST_TICK,
    LATENCY,
    LENGTH,
    NEVER,
    NEWEST,
    NONE,
    OWN,
    READ,
    ROWS,
    SECOND,
    SECOND_SENDER,
    SET_BY,
    SOURCES,
    SPACING,
    T1,
    T2,
    TABLES,
    VIOLATIONS,
    WAITED_FOR,
)
from slackwater.kernels.progress.tick_history import entry_at, note
from slackwater.kernels.saturating import LEAST, minus

if TYPE_CHECKING:
    from slackwater.kernels.progress.heartbeat_tables import HeartbeatTables, Table


@kernel(boolean(T2), inner=True)
def any_counts(kinds: Table) -> bool:
    """Whether any rule counts rows."""
    found = False
    for rule in range(len(kinds)):
        found |= kinds[rule, COUNTS] != NONE
    return found


@kernel(int64(TABLES, int64, int64, int64), inner=True)
def _sent_before(tables: HeartbeatTables, rule: int, source: int, tick: int) -> int:
    """What a row of a source shows that comes now: how far those had come that its rule is about; LEAST for nothing."""
    kind, lag = tables.kinds[rule], tables.sources[LATENCY, source]
    if not kind[OWN]:
        history = tables.histories[rule]
        at = entry_at(history, kind[LENGTH], tick - 1 - lag)
        if at == NONE:
            return LEAST
        return history[at, 3] if history[at, 2] == source and not kind[AND_OWN] else history[at, 1]
    if lag == 0:
        return tables.sources[HIGH_WATER, source]
    place = kind[DELAYED] + 1
    at = entry_at(tables.delayed[place, source], tables.counted[place, source, 1], tick - 1 - lag)
    return LEAST if at == NONE else tables.delayed[place, source, at, 1]


@kernel(void(TABLES, int64, int64), inner=True)
def _count_rows(tables: HeartbeatTables, source: int, tick: int) -> None:
    """Before the first row of a source in a tick: what waits for further rows of it begins to count with this one."""
    for rule in range(len(tables.kinds)):
        place, need = tables.kinds[rule, COUNTS], tables.rules[rule, FURTHER_ROWS, source]
        if place == NONE or need == 0 or tables.rules[rule, DELTA, source] == NONE:
            continue
        value, queue, counted = _sent_before(tables, rule, source, tick), tables.queues[place, source], tables.counted
        length = counted[place, source, 2]
        last = queue[length - 1, 1] if length else counted[place, source, 0]
        if value > last:
            queue[length, 0] = tables.sources[ROWS, source] + need
            queue[length, 1] = value
            counted[place, source, 2] = length + 1


@kernel(void(TABLES, int64, int64, int64, int64, int64), inner=True)
def _note_own(tables: HeartbeatTables, place: int, source: int, tick: int, spacing: int, value: int) -> None:
    """Note in the history of a source how far it has come."""
    history, counted = tables.delayed[place, source], tables.counted
    there = note(history, counted[place, source, 1], tick, spacing, 2)
    counted[place, source, 1] = there
    history[there - 1, 1] = value


@kernel(void(TABLES, int64, int64), inner=True)
def _mature(tables: HeartbeatTables, source: int, tick: int) -> None:
    """After rows of a source: take what has waited for as many rows as have come."""
    counted = tables.counted
    for rule in range(len(tables.kinds)):
        kind = tables.kinds[rule]
        place = kind[COUNTS]
        if place == NONE or tables.rules[rule, FURTHER_ROWS, source] == 0:
            continue
        queue = tables.queues[place, source]
        length, due = counted[place, source, 2], 0
        while due < length and queue[due, 0] <= tables.sources[ROWS, source]:
            counted[place, source, 0] = max(counted[place, source, 0], queue[due, 1])
            due += 1
        if due:
            for i in range(length - due):
                queue[i, 0] = queue[i + due, 0]
                queue[i, 1] = queue[i + due, 1]
            counted[place, source, 2] = length - due
            if tables.sources[LATENCY, source]:
                _note_own(tables, kind[DELAYED], source, tick, kind[SPACING], counted[place, source, 0])


@kernel(void(TABLES, int64, int64), inner=True)
def _note_senders(tables: HeartbeatTables, rule: int, tick: int) -> None:
    """Note in the history of a rule, if it has one, how far its senders have come."""
    kind = tables.kinds[rule]
    if kind[HAS_HISTORY]:
        history = tables.histories[rule]
        there = note(history, kind[LENGTH], tick, kind[SPACING], 4)
        kind[LENGTH] = there
        history[there - 1, 1] = kind[FIRST]
        history[there - 1, 2] = kind[FIRST_SENDER]
        history[there - 1, 3] = kind[SECOND]


@kernel(boolean(T1, int64, int64), inlined=True, inner=True)
def _raise_furthest(kind: Table, source: int, value: int) -> bool:
    """Let a sender of a rule be the furthest, or the second, if it has come so far; return whether it is."""
    if value <= kind[SECOND]:
        return False
    if source == kind[FIRST_SENDER]:
        if value <= kind[FIRST]:
            return False
        kind[FIRST] = value
    elif value > kind[FIRST]:
        kind[SECOND], kind[SECOND_SENDER] = kind[FIRST], kind[FIRST_SENDER]
        kind[FIRST], kind[FIRST_SENDER] = value, source
    else:
        kind[SECOND], kind[SECOND_SENDER] = value, source
    return True


@kernel(void(TABLES, int64, int64, int64), inner=True)
def _note_sent(tables: HeartbeatTables, rule: int, source: int, tick: int) -> None:
    """Note how far a source has come, for a rule about own rows that waits."""
    kind = tables.kinds[rule]
    if kind[DELAYED] != NONE and tables.rules[rule, DELTA, source] != NONE:
        # Rules that count rows keep what they delay in the first place, and what was sent in the second.
        place = kind[DELAYED] + (kind[COUNTS] != NONE)
        _note_own(tables, place, source, tick, kind[SPACING], tables.sources[HIGH_WATER, source])


@kernel(void(TABLES, int64, int64), inner=True)
def _raise_senders(tables: HeartbeatTables, source: int, tick: int) -> None:
    """A source has come further: so may the furthest sender of every rule it sends in."""
    for rule in range(len(tables.kinds)):
        kind, ahead = tables.kinds[rule], tables.rules[rule, AHEAD, source]
        if kind[OWN]:
            _note_sent(tables, rule, source, tick)
        elif ahead != NONE and _raise_furthest(kind, source, minus(tables.sources[HIGH_WATER, source], ahead)):
            _note_senders(tables, rule, tick)


@kernel(void(TABLES, int64, int64, int64, int64, boolean), inner=True)
def take_in(tables: HeartbeatTables, source: int, time: int, more_rows: int, tick: int, counts: bool) -> None:
    """Take in rows of one source and tick, of which one is the newest; `counts` says whether any rule counts rows."""
    everything, sources = tables.everything, tables.sources
    if counts and sources[LAST_TICK, source] != tick:
        _count_rows(tables, source, tick)
    sources[LAST_TICK, source] = tick
    sources[ROWS, source] += 1 + more_rows
    if sources[WAITED_FOR, source] == FROM_FIRST_ROW:
        sources[WAITED_FOR, source] = ALWAYS
    everything[LAST_ARRIVAL] = tick
    if counts:
        _mature(tables, source, tick)
    if time > sources[HIGH_WATER, source]:
        sources[HIGH_WATER, source] = time
        sources[HIGH_WATER_TICK, source] = tick
        everything[NEWEST] = max(everything[NEWEST], time)
        _raise_senders(tables, source, tick)


@kernel(void(T2, int64, int64), inner=True)
def _note_violation(sources: Table, source: int, time: int) -> None:
    """Count a row at or behind the heartbeat of its source, and note what that was set by."""
    sources[VIOLATIONS, source] += 1
    sources[BROKEN_BY, source] = time
    sources[BROKEN_RULE, source] = sources[SET_BY, source]


@kernel(void(T2, int64, int64), inlined=True, inner=True)
def compare_with_heartbeat(sources: Table, source: int, time: int) -> None:
    """Note a row that is at or behind the heartbeat of its source, before the rows of its tick move anything."""
    if time <= sources[HEARTBEAT, source]:
        _note_violation(sources, source, time)


@kernel(void(READ, int64, T2, int64, int64, T1), inner=True)
def note_own_heartbeats(codes: Table, overall: int, sources: Table, row: int, stop: int, own: Table) -> None:
    """Fill in how far the source of each row is complete before the rows of its tick count.

    One that nobody waits for is at least as far as all others are together.
    """
    heartbeats, waited_for = sources[HEARTBEAT], sources[WAITED_FOR]
    for one in range(row, stop):
        source = codes[one]
        own[one] = heartbeats[source] if waited_for[source] != NEVER else max(heartbeats[source], overall)


@kernel(void(TABLES, READ, READ, int64), inner=True)
def _take_many(tables: HeartbeatTables, codes: Table, times: Table, tick: int) -> None:
    """Take in many rows of one tick, where no rule counts rows; senders are raised when all are in."""
    everything, sources = tables.everything, tables.sources
    heartbeats, water, water_tick = sources[HEARTBEAT], sources[HIGH_WATER], sources[HIGH_WATER_TICK]
    last, newest, any_row = sources[LAST_TICK], everything[NEWEST], False
    for row in range(len(times)):
        source, time = codes[row], times[row]
        if time == LEAST:
            continue
        if time <= heartbeats[source]:
            _note_violation(sources, source, time)
        any_row = True
        last[source] = tick
        if time > water[source]:
            water[source] = time
            water_tick[source] = tick
            newest = max(newest, time)
    everything[NEWEST] = newest
    if any_row:
        everything[LAST_ARRIVAL] = tick
    raise_all(tables, tick)


@kernel(void(TABLES, int64, int64), inner=True)
def _raise_rule(tables: HeartbeatTables, rule: int, tick: int) -> None:
    """Raise the furthest senders of a rule by all sources that have come further in a tick."""
    kind, aheads, news = tables.kinds[rule], tables.rules[rule, AHEAD], False
    water, water_tick = tables.sources[HIGH_WATER], tables.sources[HIGH_WATER_TICK]
    for j in range(tables.everything[SOURCES]):
        if water_tick[j] == tick and aheads[j] != NONE:
            news |= _raise_furthest(kind, j, minus(water[j], aheads[j]))
    if news:
        # Several entries of one tick are one: only where the senders are at its end counts.
        _note_senders(tables, rule, tick)


@kernel(void(TABLES, int64), inner=True)
def raise_all(tables: HeartbeatTables, tick: int) -> None:
    """Raise the senders that have come further in a tick, and wait for those who have come at all."""
    last, water_tick, waited_for = (
        tables.sources[LAST_TICK],
        tables.sources[HIGH_WATER_TICK],
        tables.sources[WAITED_FOR],
    )
    count = tables.everything[SOURCES]
    for j in range(count):
        if waited_for[j] == FROM_FIRST_ROW and last[j] == tick:
            waited_for[j] = ALWAYS
    for rule in range(len(tables.kinds)):
        if not tables.kinds[rule, OWN]:
            _raise_rule(tables, rule, tick)
        elif tables.kinds[rule, DELAYED] != NONE:
            for j in range(count):
                if water_tick[j] == tick:
                    _note_sent(tables, rule, j, tick)


@kernel(void(TABLES, READ, READ, int64, boolean), inner=True)
def take_tick(tables: HeartbeatTables, codes: Table, times: Table, tick: int, counts: bool) -> None:
    """Take in the rows of a tick, all at once if they are many; a row whose time is LEAST has none."""
    if not counts and len(times) > tables.everything[SOURCES] // 4:
        _take_many(tables, codes, times, tick)
        return
    for row in range(len(times)):
        if times[row] != LEAST:
            compare_with_heartbeat(tables.sources, codes[row], times[row])
            take_in(tables, codes[row], times[row], 0, tick, counts)
