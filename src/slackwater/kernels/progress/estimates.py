"""Learns bounds from the rows that arrive: the greatest skew so far, one that adapts, or one that most rows keep.

For every kind of bound a row shows how far behind it would have had to reach: behind its own source, behind the
furthest of all sources a while ago, behind the clock. Rows of one tick never count against each other.

- *Figure 4*: an estimate is what was shown last that exceeded it; it is lowered towards the greatest of a window of
  rows (or of time) in which nothing exceeded it. With a window that never ends this is the greatest (section 6.1).
- *shares*: an estimate is what all but a share of the rows keep, by a histogram in which older rows weigh less: of all
  sources, and of each that has sent enough. What the declared bounds lose anyway is not counted.

Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, sections 6.1 and 6.2.
Cost: O(kinds) for each row; for shares O(kinds) for each source of a tick with rows, and O(kinds * sources) where an
estimate changes.
"""

from __future__ import annotations

from math import ceil, isnan
from typing import TYPE_CHECKING, Final

from numba import boolean, float64, int64, void

from slackwater.kernels.compile import kernel
from slackwater.kernels.progress.decayed_histogram import BEYOND, NO_BUCKET, bucket_of, halve, moved_bucket, upper_edge
from slackwater.kernels.progress.heartbeat_tables import (
    DELAY,
    DELTA,
    FROM_FIRST_ROW,
    GRID,
    NEWEST,
    NONE,
    OVERALL,
    OWN,
    SOURCES,
    TABLES,
    UNSEEN,
    WAITED_FOR,
)
from slackwater.kernels.progress.learnt_tables import (
    ADAPTS,
    ALPHA,
    BEGAN,
    BY_SHARES,
    BY_TIME,
    CAME_BEFORE,
    CHANGED,
    CLOCK,
    COUNTED,
    COUNTING,
    DECLARED,
    DECLARED_DELAY,
    DECLARED_OVERALL,
    ENOUGH,
    ESTIMATE,
    F2,
    FALLS,
    FIRST_ESTIMATE,
    FRESH,
    GREATEST_IN_WINDOW,
    IN_WINDOW,
    LEARNT,
    LENGTH_OF_WINDOW,
    LEVEL,
    LOSS,
    LOST,
    MEMORY,
    RECENT,
    RECENT_LOST,
    SENT,
    SHIFT,
    SINCE,
    SLOT,
    SLOTS,
    START,
    TAKEN_BACK,
    TIMES_TAKEN_BACK,
    WINDOW,
)
from slackwater.kernels.saturating import GREATEST, LEAST, plus

if TYPE_CHECKING:
    from slackwater.kernels.progress.heartbeat_tables import HeartbeatTables
    from slackwater.kernels.progress.learnt_tables import Floats, LearntTables

FALLS_THAT_SHORTEN: Final = 3
"""After so many windows in a row that lowered an estimate, the window is halved."""

MOST_TIMES_THE_WINDOW: Final = 64.0
"""A window that adapts is so many times as long as the one that was chosen at most, and as short at least."""


@kernel(int64(int64, int64), inner=True)
def _reach(reference: int, time: int) -> int:
    """How far behind a reference a row is, one more: what a delta must be for the row to keep it; 0 if it is newer."""
    if reference == LEAST or reference < time:
        return 0
    if time < 0 and reference >= GREATEST + time:
        return GREATEST
    return reference - time + 1


@kernel(int64(TABLES, LEARNT, int64, int64, int64, int64), inner=True)
def _shown(tables: HeartbeatTables, learnt: LearntTables, kind: int, source: int, time: int, tick: int) -> int:
    """What a row shows of one kind of bound; NONE if there was nothing to compare it with."""
    if kind == learnt.numbers[CLOCK]:
        # A delay of d rules out times of d + 1 and more before the beginning of this tick.
        grid = tables.everything[GRID]
        begins = tick * grid if abs(tick) < GREATEST // grid else LEAST
        reach = _reach(begins, time)
        return NONE if begins == LEAST else max(reach - 1, 0)
    own = tables.kinds[learnt.numbers[DECLARED] + kind, OWN]
    reference = learnt.aside[CAME_BEFORE, source] if own else learnt.before[kind]
    return NONE if reference == LEAST else _reach(reference, time)


@kernel(void(TABLES, LEARNT, int64, int64, int64), inner=True)
def _apply(tables: HeartbeatTables, learnt: LearntTables, kind: int, source: int, delta: int) -> None:
    """Let an estimate hold for a source; NONE for none."""
    if kind != learnt.numbers[CLOCK]:
        tables.rules[learnt.numbers[DECLARED] + kind, DELTA, source] = delta
        return
    declared = learnt.aside[DECLARED_DELAY, source]
    tables.sources[DELAY, source] = declared if delta == NONE or (declared != NONE and declared <= delta) else delta


# ---- Figure 4 -------------------------------------------------------------------------------------------------------


@kernel(void(LEARNT, F2, int64, float64, int64), inner=True)
def _take_estimate(learnt: LearntTables, cells: Floats, source: int, shown: float, tick: int) -> None:
    """Figure 4, for one kind and source; and windows that adapt.

    "Too often": the estimate is exceeded in the very window after it was lowered. Then the window is doubled.
    """
    numbers, floats = learnt.numbers, learnt.floats
    cells[IN_WINDOW, source] += 1
    if isnan(cells[BEGAN, source]):
        cells[BEGAN, source] = tick
    window = cells[LENGTH_OF_WINDOW, source]
    if shown > cells[ESTIMATE, source]:
        cells[ESTIMATE, source] = shown
        if numbers[ADAPTS] and cells[FALLS, source] > 0:
            cells[LENGTH_OF_WINDOW, source] = min(2 * window, MOST_TIMES_THE_WINDOW * floats[WINDOW])
        cells[FALLS, source] = 0
    else:
        cells[GREATEST_IN_WINDOW, source] = max(cells[GREATEST_IN_WINDOW, source], shown)
        if (tick - cells[BEGAN, source] if numbers[BY_TIME] else cells[IN_WINDOW, source]) <= window:
            return
        alpha, highest, old = floats[ALPHA], cells[GREATEST_IN_WINDOW, source], cells[ESTIMATE, source]
        cells[ESTIMATE, source] = alpha * old + (1 - alpha) * highest
        fell = cells[ESTIMATE, source] < old
        cells[FALLS, source] = cells[FALLS, source] + 1 if fell else 0
        if numbers[ADAPTS] and cells[FALLS, source] >= FALLS_THAT_SHORTEN:
            cells[LENGTH_OF_WINDOW, source] = max(window / 2, floats[WINDOW] / MOST_TIMES_THE_WINDOW)
            cells[FALLS, source] = 0
    cells[GREATEST_IN_WINDOW, source], cells[IN_WINDOW, source], cells[BEGAN, source] = 0, 0, tick


@kernel(void(TABLES, LEARNT, int64), inner=True)
def _apply_cells(tables: HeartbeatTables, learnt: LearntTables, source: int) -> None:
    """Let the estimates of Figure 4 hold for a source, fractions rounded up."""
    for kind in range(len(learnt.cells)):
        estimate = learnt.cells[kind, ESTIMATE, source]
        delta = GREATEST if estimate >= float(GREATEST) else ceil(estimate)
        _apply(tables, learnt, kind, source, delta)


@kernel(boolean(TABLES, LEARNT, int64), inner=True)
def _is_new(tables: HeartbeatTables, learnt: LearntTables, source: int) -> bool:
    """Whether nothing was learnt yet of a source that nobody waits for before it has come."""
    return learnt.aside[SENT, source] == 0 and tables.sources[WAITED_FOR, source] == FROM_FIRST_ROW


@kernel(void(LEARNT, int64), inner=True)
def _begin_with_all(learnt: LearntTables, source: int) -> None:
    """Let a source begin with the estimates of all: what has not come yet is as those that have."""
    cells = learnt.cells
    for kind in range(len(cells)):
        cells[kind, ESTIMATE, source] = cells[kind, ESTIMATE, UNSEEN]
        cells[kind, LENGTH_OF_WINDOW, source] = cells[kind, LENGTH_OF_WINDOW, UNSEEN]


@kernel(void(TABLES, LEARNT, int64, int64, int64), inner=True)
def _learn_skew(tables: HeartbeatTables, learnt: LearntTables, source: int, time: int, tick: int) -> None:
    """Figure 4, for all kinds of bounds: of all sources, and of this one."""
    if _is_new(tables, learnt, source):
        _begin_with_all(learnt, source)
    learnt.aside[SENT, source] += 1
    for kind in range(len(learnt.before)):
        shown = float(max(_shown(tables, learnt, kind, source, time, tick), 0))
        _take_estimate(learnt, learnt.cells[kind], UNSEEN, shown, tick)
        _take_estimate(learnt, learnt.cells[kind], source, shown, tick)
    _apply_cells(tables, learnt, UNSEEN)
    _apply_cells(tables, learnt, source)


# ---- shares ---------------------------------------------------------------------------------------------------------


@kernel(void(LEARNT, int64, int64, int64), inner=True)
def _count(learnt: LearntTables, slot: int, kind: int, bucket: int) -> None:
    """Count a length in a histogram, and whether it lies beyond the bucket of the estimate."""
    learnt.weights[slot, kind, bucket] += 1
    learnt.totals[slot, kind] += 1
    kinds = learnt.totals.shape[1] // 2
    learnt.totals[slot, kinds + kind] += bucket > learnt.slots[slot, FIRST_ESTIMATE + kinds + kind]


@kernel(void(LEARNT, int64), inner=True)
def _finish_row(learnt: LearntTables, slot: int) -> None:
    """A row is counted in a histogram: after so many all counts are halved."""
    slots, totals, floats = learnt.slots, learnt.totals, learnt.floats
    slots[slot, CHANGED] = 1
    slots[slot, FRESH] += 1
    if slots[slot, FRESH] < learnt.numbers[MEMORY]:
        return
    slots[slot, FRESH] = 0
    halve(learnt.weights[slot])
    for kind in range(totals.shape[1]):
        totals[slot, kind] *= 0.5
    if slot == 0:
        floats[RECENT] *= 0.5
        floats[RECENT_LOST] *= 0.5


@kernel(void(LEARNT, int64), inner=True)
def _give_slot(learnt: LearntTables, source: int) -> None:
    """A source that has sent enough has a histogram of its own from its next row on, while there are any."""
    aside, numbers = learnt.aside, learnt.numbers
    aside[SENT, source] += 1
    if aside[SENT, source] == numbers[ENOUGH] and numbers[SLOTS] < len(learnt.slots):
        aside[SLOT, source] = numbers[SLOTS]
        numbers[SLOTS] += 1


@kernel(void(TABLES, LEARNT, int64, int64, int64), inner=True)
def _learn_share(tables: HeartbeatTables, learnt: LearntTables, source: int, time: int, tick: int) -> None:
    """Count what a row shows in the histogram of all sources, and in that of its own if there is one."""
    own = learnt.aside[SLOT, source]
    for kind in range(len(learnt.before)):
        shown = _shown(tables, learnt, kind, source, time, tick)
        if shown == NONE:
            continue
        bucket = bucket_of(shown, learnt.numbers[SHIFT])
        _count(learnt, 0, kind, bucket)
        if own != NONE:
            _count(learnt, own, kind, bucket)
    _finish_row(learnt, 0)
    if own != NONE:
        _finish_row(learnt, own)
    else:
        _give_slot(learnt, source)


@kernel(boolean(LEARNT, int64), inner=True)
def _find_shares(learnt: LearntTables, slot: int) -> bool:
    """Find what all but the share of a histogram keep; return whether that is news."""
    slots, totals, kinds, news = learnt.slots, learnt.totals, learnt.totals.shape[1] // 2, False
    for kind in range(kinds):
        # Before anything is found it lies at the upper end, where nothing is beyond.
        at = slots[slot, FIRST_ESTIMATE + kinds + kind]
        bucket, beyond = moved_bucket(
            learnt.weights[slot, kind], totals[slot, kind], learnt.floats[LEVEL], BEYOND if at == NO_BUCKET else at,
            0.0 if at == NO_BUCKET else totals[slot, kinds + kind],
        )  # fmt: skip
        slots[slot, FIRST_ESTIMATE + kinds + kind] = int(bucket)
        totals[slot, kinds + kind] = beyond
        found = NONE if bucket == NO_BUCKET else upper_edge(int(bucket), learnt.numbers[SHIFT])
        found = NONE if found == GREATEST else found
        news |= found != slots[slot, FIRST_ESTIMATE + kind]
        slots[slot, FIRST_ESTIMATE + kind] = found
    return news


@kernel(void(TABLES, LEARNT), inner=True)
def _settle(tables: HeartbeatTables, learnt: LearntTables) -> None:
    """At the end of a tick with rows: find what all but the share keep, and let it hold, unless too many were late."""
    numbers, floats, slots = learnt.numbers, learnt.floats, learnt.slots
    if not slots[0, CHANGED]:
        return
    lost, loss = numbers[LOST], floats[LOSS]
    broken = lost > loss * numbers[COUNTED] or floats[RECENT_LOST] > loss * floats[RECENT]
    numbers[TIMES_TAKEN_BACK] += broken and not numbers[TAKEN_BACK]
    numbers[TAKEN_BACK] = broken
    # What is as far behind as it may be cannot have come yet, soon after the beginning.
    started = tables.everything[NEWEST] >= plus(numbers[SINCE], numbers[START])
    counting = not broken and numbers[COUNTED] > 0 and started
    news = counting != (numbers[COUNTING] != 0)
    numbers[COUNTING] = counting
    for slot in range(numbers[SLOTS]):
        if slots[slot, CHANGED]:
            slots[slot, CHANGED] = 0
            news |= _find_shares(learnt, slot)
    if news:
        for source in range(tables.everything[SOURCES]):
            _apply_shares(tables, learnt, source)


@kernel(void(TABLES, LEARNT, int64), inner=True)
def _apply_shares(tables: HeartbeatTables, learnt: LearntTables, source: int) -> None:
    """Let what all sources keep hold for a source, or what it keeps itself if that is less, while estimates count."""
    slots = learnt.slots
    for kind in range((slots.shape[1] - FIRST_ESTIMATE) // 2):
        delta = NONE
        if learnt.numbers[COUNTING]:
            # Who is further behind than nearly all rows of all sources is not waited for by more than these are.
            own, delta = learnt.aside[SLOT, source], slots[0, FIRST_ESTIMATE + kind]
            if own != NONE and slots[own, FIRST_ESTIMATE + kind] != NONE:
                delta = min(delta, slots[own, FIRST_ESTIMATE + kind])
        _apply(tables, learnt, kind, source, delta)


# ---- both -----------------------------------------------------------------------------------------------------------


@kernel(void(TABLES, LEARNT, int64, int64, int64), inner=True)
def learn(tables: HeartbeatTables, learnt: LearntTables, source: int, time: int, tick: int) -> None:
    """Learn from a row, before it counts itself; and whether it was late by an estimate."""
    numbers, floats = learnt.numbers, learnt.floats
    # A stream is never complete past the last time but one, whatever its heartbeat is.
    lost_anyway = time <= min(numbers[DECLARED_OVERALL], GREATEST - 2)
    if not lost_anyway:
        late = time <= min(tables.everything[OVERALL], GREATEST - 2)
        if numbers[COUNTED] == 0:
            numbers[SINCE] = time
        numbers[COUNTED] += 1
        numbers[LOST] += late
        floats[RECENT] += 1
        floats[RECENT_LOST] += late
    if not numbers[BY_SHARES]:
        _learn_skew(tables, learnt, source, time, tick)
    elif not lost_anyway:
        _learn_share(tables, learnt, source, time, tick)


@kernel(void(TABLES, LEARNT), inner=True)
def settle(tables: HeartbeatTables, learnt: LearntTables) -> None:
    """At the end of a tick: let what was learnt hold, also for sources of which nothing was learnt yet."""
    if learnt.numbers[BY_SHARES]:
        _settle(tables, learnt)
        return
    for j in range(tables.everything[SOURCES]):
        if _is_new(tables, learnt, j):
            _begin_with_all(learnt, j)
            _apply_cells(tables, learnt, j)


@kernel(void(TABLES, LEARNT, int64))
def apply_learnt(tables: HeartbeatTables, learnt: LearntTables, source: int) -> None:
    """Let what was learnt hold for a source."""
    if learnt.numbers[BY_SHARES]:
        _apply_shares(tables, learnt, source)
    else:
        _apply_cells(tables, learnt, source)
