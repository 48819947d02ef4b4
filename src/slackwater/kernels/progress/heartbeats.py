"""Finds how far every source is complete, tick by tick, from what rows of other sources and its own guarantee.

Rules have senders and receivers. Of all senders of a rule only the furthest counts, less how far it may be ahead; for
the furthest itself the second. So a rule costs one step for each row that arrives, and one for each source and tick,
not one for each pair of sources. What comes to hold after a while stands in a history: when the furthest was where. A
history has so many places; where rows come faster than that, some are put together with the next, and hold a little
later than they might (section 5.1: a tick of x costs a delay of x at most).
Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, Figure 2.

Invariants: heartbeats never fall. Rows of one tick never count against each other.
Cost: O(rules) for each row, O(rules * sources) for each tick with rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slackwater.kernels.compile import kernel
from slackwater.kernels.saturating import GREATEST, LEAST, minus, plus

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Table = NDArray[np.int64]

# Columns of a source.
HIGH_WATER: Final = 0
HIGH_WATER_TICK: Final = 1
LAST_TICK: Final = 2
ROWS: Final = 3  # counted where a rule counts rows
HEARTBEAT: Final = 4
LATENCY: Final = 5
DELAY: Final = 6
WAITED_FOR: Final = 7
VIOLATIONS: Final = 8
BROKEN_RULE: Final = 9
BROKEN_BY: Final = 10
SET_BY: Final = 11
SENDER: Final = 12
SOURCE_COLUMNS: Final = 13

# Whether a source is waited for: never, always, or from its first row on.
NEVER: Final = 0
ALWAYS: Final = 1
FROM_FIRST_ROW: Final = 2

# What a heartbeat was set by, where it is not the number of a rule.
BY_NOTHING: Final = -1
BY_CLOCK: Final = -2
BY_IDLE: Final = -3
BY_LULL: Final = -4

# Columns of what a rule says of a source.
AHEAD: Final = 0
DELTA: Final = 1
WAIT: Final = 2
FURTHER_ROWS: Final = 3
RULE_COLUMNS: Final = 4

# Columns of what kind a rule is, and how far its senders have come.
OWN: Final = 0
AND_OWN: Final = 1
HAS_HISTORY: Final = 2
DELAYED: Final = 3
COUNTS: Final = 4
FIRST: Final = 5
FIRST_SENDER: Final = 6
SECOND: Final = 7
SECOND_SENDER: Final = 8
LENGTH: Final = 9
SPACING: Final = 10
KIND_COLUMNS: Final = 11

# What is known of all sources together.
TICK: Final = 0
NEWEST: Final = 1
LAST_ARRIVAL: Final = 2
IDLE: Final = 3
LULL: Final = 4
GRID: Final = 5
SOURCES: Final = 6
BINDING: Final = 7
OVERALL: Final = 8
BEGUN: Final = 9
EVALUATED: Final = 10  # the tick at whose end heartbeats were found, if no row has come since
ALL_COLUMNS: Final = 11

NONE: Final = -1
"""No sender, no receiver, no delay, no assumption, no history."""

UNSEEN: Final = 0
"""The place of the source that stands for all that have not come yet."""

_READ = "Array(int64, 1, 'C', readonly=True)"
_T1, _T2, _T3, _T4 = "int64[::1]", "int64[:, ::1]", "int64[:, :, ::1]", "int64[:, :, :, ::1]"


@kernel(f"int64({_T2}, int64, int64, int64, int64)")
def _note(history: Table, length: int, tick: int, spacing: int, width: int) -> int:
    """Make room for an entry at a tick, the last one; return how many there are then. Its values are not filled in.

    The last entry is put off to this tick while it is nearer to the one before it than the spacing.
    """
    if length and history[length - 1, 0] == tick:
        return length
    if length > 1 and history[length - 1, 0] - history[length - 2, 0] < spacing:
        history[length - 1, 0] = tick
        return length
    if length == len(history):
        # Half of the places reach as far back as anybody looks.
        kept = length - length // 4
        for i in range(kept):
            for k in range(width):
                history[i, k] = history[i + length - kept, k]
        length = kept
    history[length, 0] = tick
    return length + 1


@kernel(f"int64({_T2}, int64, int64)")
def _entry_at(history: Table, length: int, tick: int) -> int:
    """The last entry that is not after a tick; NONE if there is none."""
    low, high = 0, length
    while low < high:
        middle = (low + high) // 2
        if history[middle, 0] <= tick:
            low = middle + 1
        else:
            high = middle
    return low - 1


@kernel(f"int64({_T1}, {_T2}, int64, int64, int64)")
def furthest(kind: Table, history: Table, receiver: int, wait: int, now: int) -> int:
    """How far the senders of a rule had come when the wait of a receiver began; LEAST if none had come."""
    first, sender, second = kind[FIRST], kind[FIRST_SENDER], kind[SECOND]
    if wait:
        at = _entry_at(history, kind[LENGTH], now - wait)
        if at == NONE:
            return LEAST
        first, sender, second = history[at, 1], history[at, 2], history[at, 3]
    return second if sender == receiver and not kind[AND_OWN] else first


@kernel(f"int64(int64, int64, {_T3}, {_T2}, {_T2}, {_T3}, {_T4}, {_T3}, int64)")
def _guaranteed(
    rule: int,
    receiver: int,
    rules: Table,
    kinds: Table,
    sources: Table,
    histories: Table,
    delayed: Table,
    counted: Table,
    now: int,
) -> int:
    """Up to where a rule guarantees, by now, that a source is complete; LEAST for nothing."""
    delta, wait = rules[rule, DELTA, receiver], rules[rule, WAIT, receiver]
    if delta == NONE:
        return LEAST
    kind = kinds[rule]
    if rules[rule, FURTHER_ROWS, receiver]:
        latency = sources[LATENCY, receiver]
        if latency == 0:
            return minus(counted[kind[COUNTS], receiver, 0], delta)
        wait = latency
    elif not kind[OWN]:
        return minus(furthest(kind, histories[rule], receiver, wait, now), delta)
    elif wait == 0:
        return minus(sources[HIGH_WATER, receiver], delta)
    place = kind[DELAYED]
    at = _entry_at(delayed[place, receiver], counted[place, receiver, 1], now - wait)
    return LEAST if at == NONE else minus(delayed[place, receiver, at, 1], delta)


@kernel(f"void({_T2}, int64, int64, int64, int64)", inlined=True)
def _lift(sources: Table, source: int, value: int, by: int, sender: int) -> None:
    """Raise a heartbeat, if this is more, and note why, and by whose row."""
    if value > sources[HEARTBEAT, source]:
        sources[HEARTBEAT, source] = value
        sources[SET_BY, source] = by
        sources[SENDER, source] = sender


@kernel(f"void(int64, {_T1}, {_T2}, {_T2}, {_T2}, int64, int64)")
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
                at = _entry_at(history, kind[LENGTH], now - looked_at)
                if at != NONE:
                    first, sender, second = history[at, 1], history[at, 2], history[at, 3]
        if j == sender and not kind[AND_OWN]:
            _lift(sources, j, minus(second, deltas[j]), rule, other)
        else:
            _lift(sources, j, minus(first, deltas[j]), rule, sender)


@kernel(f"void(int64, {_T2}, {_T2}, int64)")
def _lift_by_own(rule: int, says: Table, sources: Table, count: int) -> None:
    """Raise heartbeats by how far each source has come itself, where nobody waits and nothing is counted."""
    deltas, water = says[DELTA], sources[HIGH_WATER]
    for j in range(count):
        if deltas[j] != NONE:
            _lift(sources, j, minus(water[j], deltas[j]), rule, j)


@kernel(f"void({_T1}, {_T2}, int64)")
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


@kernel(f"void({_T1}, {_T2})")
def _bind(everything: Table, sources: Table) -> None:
    """Find the least heartbeat of the sources that are waited for, and whose it is."""
    overall, binding = GREATEST, NONE
    for j in range(everything[SOURCES]):
        if sources[WAITED_FOR, j] == ALWAYS and sources[HEARTBEAT, j] < overall:
            overall, binding = sources[HEARTBEAT, j], j
    everything[BINDING] = binding
    if binding != NONE:
        everything[OVERALL] = max(everything[OVERALL], overall)


@kernel(f"void({_T1}, {_T3}, {_T2}, {_T2}, {_T3}, {_T4}, {_T3}, int64)")
def evaluate(
    everything: Table,
    rules: Table,
    kinds: Table,
    sources: Table,
    histories: Table,
    delayed: Table,
    counted: Table,
    now: int,
) -> None:
    """Find the heartbeats at the end of a tick, and the least of them."""
    count = everything[SOURCES]
    for rule in range(len(kinds)):
        kind = kinds[rule]
        if not kind[OWN] and kind[COUNTS] == NONE:
            if kind[FIRST] != LEAST:
                _lift_by_others(rule, kind, rules[rule], sources, histories[rule], count, now)
            continue
        if kind[COUNTS] == NONE and kind[DELAYED] == NONE:
            _lift_by_own(rule, rules[rule], sources, count)
            continue
        for j in range(count):
            if rules[rule, DELTA, j] != NONE:
                value = _guaranteed(rule, j, rules, kinds, sources, histories, delayed, counted, now)
                _lift(sources, j, value, rule, j if kind[OWN] else NONE)
    _assume(everything, sources, now)
    _bind(everything, sources)
    everything[EVALUATED] = now


@kernel(f"void({_T3}, {_T2}, {_T2}, {_T3}, {_T4}, {_T3}, {_T4}, int64, int64)")
def _count_rows(
    rules: Table,
    kinds: Table,
    sources: Table,
    histories: Table,
    delayed: Table,
    counted: Table,
    queues: Table,
    source: int,
    tick: int,
) -> None:
    """Before the first row of a source in a tick: what waits for further rows of it begins to count with this one."""
    for rule in range(len(kinds)):
        kind = kinds[rule]
        need = rules[rule, FURTHER_ROWS, source]
        if kind[COUNTS] == NONE or need == 0 or rules[rule, DELTA, source] == NONE:
            continue
        lag = sources[LATENCY, source]
        if not kind[OWN]:
            at = _entry_at(histories[rule], kind[LENGTH], tick - 1 - lag)
            value = LEAST
            if at != NONE:
                excluded = histories[rule, at, 2] == source and not kind[AND_OWN]
                value = histories[rule, at, 3] if excluded else histories[rule, at, 1]
        elif lag == 0:
            value = sources[HIGH_WATER, source]
        else:
            at = _entry_at(delayed[kind[DELAYED] + 1, source], counted[kind[DELAYED] + 1, source, 1], tick - 1 - lag)
            value = LEAST if at == NONE else delayed[kind[DELAYED] + 1, source, at, 1]
        queue, place = queues[kind[COUNTS], source], kind[COUNTS]
        length = counted[place, source, 2]
        last = queue[length - 1, 1] if length else counted[place, source, 0]
        if value > last:
            queue[length, 0] = sources[ROWS, source] + need
            queue[length, 1] = value
            counted[place, source, 2] = length + 1


@kernel(f"void({_T3}, {_T2}, {_T2}, {_T4}, {_T3}, {_T4}, int64, int64)")
def _mature(
    rules: Table,
    kinds: Table,
    sources: Table,
    delayed: Table,
    counted: Table,
    queues: Table,
    source: int,
    tick: int,
) -> None:
    """After rows of a source: take what has waited for as many rows as have come."""
    for rule in range(len(kinds)):
        kind = kinds[rule]
        if kind[COUNTS] == NONE or rules[rule, FURTHER_ROWS, source] == 0:
            continue
        queue, place = queues[kind[COUNTS], source], kind[COUNTS]
        length, due = counted[place, source, 2], 0
        while due < length and queue[due, 0] <= sources[ROWS, source]:
            counted[place, source, 0] = max(counted[place, source, 0], queue[due, 1])
            due += 1
        if due:
            for i in range(length - due):
                queue[i, 0] = queue[i + due, 0]
                queue[i, 1] = queue[i + due, 1]
            counted[place, source, 2] = length - due
            if sources[LATENCY, source]:
                history = delayed[kind[DELAYED], source]
                there = _note(history, counted[kind[DELAYED], source, 1], tick, kind[SPACING], 2)
                counted[kind[DELAYED], source, 1] = there
                history[there - 1, 1] = counted[place, source, 0]


@kernel(f"void({_T2}, {_T3}, {_T3}, {_T4}, {_T3}, int64, int64, int64)")
def _raise_senders(
    kinds: Table,
    rules: Table,
    histories: Table,
    delayed: Table,
    counted: Table,
    source: int,
    time: int,
    tick: int,
) -> None:
    """A source has come further: so may the furthest sender of every rule it sends in."""
    for rule in range(len(kinds)):
        kind = kinds[rule]
        if kind[OWN]:
            place = kind[DELAYED]
            if place != NONE and rules[rule, DELTA, source] != NONE:
                # Rules that count rows keep what they delay in the first place, and what was sent in the second.
                place = place + (kind[COUNTS] != NONE)
                history = delayed[place, source]
                there = _note(history, counted[place, source, 1], tick, kind[SPACING], 2)
                counted[place, source, 1] = there
                history[there - 1, 1] = time
            continue
        ahead = rules[rule, AHEAD, source]
        if ahead == NONE:
            continue
        value = minus(time, ahead)
        if source == kind[FIRST_SENDER]:
            if value <= kind[FIRST]:
                continue
            kind[FIRST] = value
        elif value > kind[FIRST]:
            kind[SECOND], kind[SECOND_SENDER] = kind[FIRST], kind[FIRST_SENDER]
            kind[FIRST], kind[FIRST_SENDER] = value, source
        elif value > kind[SECOND]:
            kind[SECOND], kind[SECOND_SENDER] = value, source
        else:
            continue
        if kind[HAS_HISTORY]:
            there = _note(histories[rule], kind[LENGTH], tick, kind[SPACING], 4)
            kind[LENGTH] = there
            histories[rule, there - 1, 1] = kind[FIRST]
            histories[rule, there - 1, 2] = kind[FIRST_SENDER]
            histories[rule, there - 1, 3] = kind[SECOND]


@kernel(f"void({_T2}, int64, int64)")
def _note_violation(sources: Table, source: int, time: int) -> None:
    """Count a row at or behind the heartbeat of its source, and note what that was set by."""
    sources[VIOLATIONS, source] += 1
    sources[BROKEN_BY, source] = time
    sources[BROKEN_RULE, source] = sources[SET_BY, source]


@kernel(f"void(int64, int64, int64, int64, boolean, {_T1}, {_T3}, {_T2}, {_T2}, {_T3}, {_T4}, {_T3}, {_T4})")
def take_in(
    source: int,
    time: int,
    more_rows: int,
    tick: int,
    counts: bool,
    everything: Table,
    rules: Table,
    kinds: Table,
    sources: Table,
    histories: Table,
    delayed: Table,
    counted: Table,
    queues: Table,
) -> None:
    """Take in rows of one source and tick, of which one is the newest; `counts` says whether any rule counts rows."""
    if counts and sources[LAST_TICK, source] != tick:
        _count_rows(rules, kinds, sources, histories, delayed, counted, queues, source, tick)
    sources[LAST_TICK, source] = tick
    sources[ROWS, source] += 1 + more_rows
    if sources[WAITED_FOR, source] == FROM_FIRST_ROW:
        sources[WAITED_FOR, source] = ALWAYS
    everything[LAST_ARRIVAL] = tick
    if counts:
        _mature(rules, kinds, sources, delayed, counted, queues, source, tick)
    if time > sources[HIGH_WATER, source]:
        sources[HIGH_WATER, source] = time
        sources[HIGH_WATER_TICK, source] = tick
        everything[NEWEST] = max(everything[NEWEST], time)
        _raise_senders(kinds, rules, histories, delayed, counted, source, time, tick)


@kernel(f"void({_T2}, int64, int64)", inlined=True)
def compare_with_heartbeat(sources: Table, source: int, time: int) -> None:
    """Note a row that is at or behind the heartbeat of its source, before the rows of its tick move anything."""
    if time <= sources[HEARTBEAT, source]:
        _note_violation(sources, source, time)


@kernel(f"void({_READ}, {_READ}, int64, {_T1}, {_T2})")
def _take_many(codes: Table, times: Table, tick: int, everything: Table, sources: Table) -> None:
    """Take in many rows of one tick, where no rule counts rows; senders are raised when all are in."""
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


@kernel(f"void({_T1}, {_T3}, {_T2}, {_T2}, {_T3}, {_T4}, {_T3}, int64)")
def _raise_all(
    everything: Table,
    rules: Table,
    kinds: Table,
    sources: Table,
    histories: Table,
    delayed: Table,
    counted: Table,
    tick: int,
) -> None:
    """Raise the senders that have come further in a tick, and wait for those who have come at all."""
    for j in range(everything[SOURCES]):
        if sources[LAST_TICK, j] == tick and sources[WAITED_FOR, j] == FROM_FIRST_ROW:
            sources[WAITED_FOR, j] = ALWAYS
        if sources[HIGH_WATER_TICK, j] == tick:
            _raise_senders(kinds, rules, histories, delayed, counted, j, sources[HIGH_WATER, j], tick)


@kernel(f"boolean({_T2})")
def any_counts(kinds: Table) -> bool:
    """Whether any rule counts rows."""
    found = False
    for rule in range(len(kinds)):
        found |= kinds[rule, COUNTS] != NONE
    return found


@kernel(f"int64({_READ}, int64, int64)")
def end_of_tick(ticks: Table, row: int, tick: int) -> int:
    """The first row from here on that arrives after a tick."""
    while row < len(ticks) and ticks[row] <= tick:
        row += 1
    return row


@kernel(f"void({_READ}, int64, {_T2}, int64, int64, {_T1})")
def _note_own(codes: Table, overall: int, sources: Table, row: int, stop: int, own: Table) -> None:
    """Fill in how far the source of each row is complete before the rows of its tick count.

    One that nobody waits for is at least as far as all others are together.
    """
    heartbeats, waited_for = sources[HEARTBEAT], sources[WAITED_FOR]
    for one in range(row, stop):
        source = codes[one]
        own[one] = heartbeats[source] if waited_for[source] != NEVER else max(heartbeats[source], overall)


@kernel(
    f"int64({_READ}, {_READ}, {_READ}, boolean, {_T1}, {_T3}, {_T2}, {_T2}, {_T3}, {_T4}, {_T3}, {_T4}, {_T1}, {_T1},"
    f"{_T1})"
)
def follow_arrivals(
    ticks: Table,
    codes: Table,
    times: Table,
    closes: bool,
    everything: Table,
    rules: Table,
    kinds: Table,
    sources: Table,
    histories: Table,
    delayed: Table,
    counted: Table,
    queues: Table,
    places: Table,
    bounds: Table,
    own: Table,
) -> int:
    """Take in rows in order of arrival; return how often the least heartbeat rose, and fill in before which rows.

    With `closes` the last tick is over after the last row. A row whose time is LEAST has none, and moves nothing. `own`
    is filled with how far the source of each row was complete when the row came, unless there is no room in it.
    """
    found, counts = 0, any_counts(kinds)
    few = everything[SOURCES] // 4
    row = 0
    while row < len(times) or closes:
        over = row == len(times)
        tick = everything[TICK] + 1 if over else max(ticks[row], everything[TICK])
        if tick > everything[TICK]:
            if everything[BEGUN] != LEAST and everything[EVALUATED] != tick - 1:
                before = everything[OVERALL]
                evaluate(everything, rules, kinds, sources, histories, delayed, counted, tick - 1)
                if everything[OVERALL] > before:
                    places[found], bounds[found] = row, everything[OVERALL]
                    found += 1
            if over:
                break
            everything[TICK] = tick
            if everything[BEGUN] == LEAST:
                everything[BEGUN] = tick
        everything[EVALUATED] = LEAST
        stop = end_of_tick(ticks, row, tick)
        _note_own(codes, everything[OVERALL], sources, row, min(stop, len(own)), own)
        if counts or stop - row <= few:
            for one in range(row, stop):
                if times[one] != LEAST:
                    compare_with_heartbeat(sources, codes[one], times[one])
                    take_in(
                        codes[one], times[one], 0, tick, counts, everything, rules, kinds, sources, histories, delayed,
                        counted, queues,
                    )  # fmt: skip
        else:
            _take_many(codes[row:stop], times[row:stop], tick, everything, sources)
            _raise_all(everything, rules, kinds, sources, histories, delayed, counted, tick)
        row = stop
    return found


@kernel(f"void({_READ}, int64, {_T1})")
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
