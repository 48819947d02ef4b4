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

from slackwater.kernels.compile import kernel
from slackwater.kernels.progress.decayed_histogram import BEYOND, NO_BUCKET, bucket_of, halve, moved_bucket, upper_edge
from slackwater.kernels.progress.heartbeats import (
    DELAY,
    DELTA,
    FROM_FIRST_ROW,
    GRID,
    NEWEST,
    NONE,
    OVERALL,
    OWN,
    SOURCES,
    UNSEEN,
    WAITED_FOR,
)
from slackwater.kernels.saturating import GREATEST, LEAST, plus

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Table = NDArray[np.int64]
    Floats = NDArray[np.float64]

# What is chosen, and what is counted.
DECLARED: Final = 0  # how many rules are declared: they come first
CLOCK: Final = 1  # the kind that the clock is, the last one; or NONE
BY_SHARES: Final = 2
SHIFT: Final = 3
MEMORY: Final = 4  # after how many rows counts are halved
ENOUGH: Final = 5  # after how many rows a source has counts of its own
SLOTS: Final = 6  # how many histograms there are; the first is that of all sources
COUNTED: Final = 7  # rows that declared bounds did not lose
LOST: Final = 8  # those of them that estimates lost
TAKEN_BACK: Final = 9
TIMES_TAKEN_BACK: Final = 10
DECLARED_OVERALL: Final = 11
DECLARED_BINDING: Final = 12
BY_TIME: Final = 13  # whether the window of Figure 4 counts ticks
ADAPTS: Final = 14
SINCE: Final = 15  # the time of the first row
START: Final = 16  # the length that shares come down from
COUNTING: Final = 17  # whether shares hold: enough was seen, and they are not taken back
NUMBERS: Final = 18

# The same that are no whole numbers.
LOSS: Final = 0
LEVEL: Final = 1
ALPHA: Final = 2
WINDOW: Final = 3
RECENT: Final = 4
RECENT_LOST: Final = 5
FLOATS: Final = 6

# For each source: what it is waiting for by declared bounds alone, and how far it had come before this tick.
DECLARED_HEARTBEAT: Final = 0
DECLARED_SET_BY: Final = 1
DECLARED_SENDER: Final = 2
DECLARED_DELAY: Final = 3
CAME_BEFORE: Final = 4
SLOT: Final = 5
SENT: Final = 6
ASIDE_COLUMNS: Final = 7

# An estimate of Figure 4.
ESTIMATE: Final = 0
GREATEST_IN_WINDOW: Final = 1
IN_WINDOW: Final = 2
BEGAN: Final = 3
LENGTH_OF_WINDOW: Final = 4
FALLS: Final = 5  # windows in a row that lowered it
CELL_COLUMNS: Final = 6

# A histogram: rows since counts were halved, whether any has come since it was looked at, and then, kind by kind, the
# estimates, and the buckets that these are the edges of. Its totals are those of all kinds, and of what lies beyond.
FRESH: Final = 0
CHANGED: Final = 1
FIRST_ESTIMATE: Final = 2

FALLS_THAT_SHORTEN: Final = 3
"""After so many windows in a row that lowered an estimate, the window is halved."""

MOST_TIMES_THE_WINDOW: Final = 64.0
"""A window that adapts is so many times as long as the one that was chosen at most, and as short at least."""

_T1, _T2, _T3 = "int64[::1]", "int64[:, ::1]", "int64[:, :, ::1]"
_F1, _F2, _F3 = "float64[::1]", "float64[:, ::1]", "float64[:, :, ::1]"


@kernel("int64(int64, int64)")
def _reach(reference: int, time: int) -> int:
    """How far behind a reference a row is, one more: what a delta must be for the row to keep it; 0 if it is newer."""
    if reference == LEAST or reference < time:
        return 0
    if time < 0 and reference >= GREATEST + time:
        return GREATEST
    return reference - time + 1


@kernel(f"int64(int64, int64, int64, int64, {_T1}, {_T2}, {_T1}, {_T1}, {_T2})")
def _shown(
    kind: int,
    source: int,
    time: int,
    tick: int,
    everything: Table,
    kinds: Table,
    numbers: Table,
    before: Table,
    aside: Table,
) -> int:
    """What a row shows of one kind of bound; NONE if there was nothing to compare it with."""
    if kind == numbers[CLOCK]:
        # A delay of d rules out times of d + 1 and more before the beginning of this tick.
        begins = tick * everything[GRID] if abs(tick) < GREATEST // everything[GRID] else LEAST
        reach = _reach(begins, time)
        return NONE if begins == LEAST else max(reach - 1, 0)
    reference = aside[CAME_BEFORE, source] if kinds[numbers[DECLARED] + kind, OWN] else before[kind]
    return NONE if reference == LEAST else _reach(reference, time)


# ---- Figure 4 -------------------------------------------------------------------------------------------------------


@kernel(f"void({_F2}, int64, float64, int64, {_T1}, {_F1})")
def _take_estimate(cells: Floats, source: int, shown: float, tick: int, numbers: Table, floats: Floats) -> None:
    """Figure 4, for one kind and source; and windows that adapt.

    "Too often": the estimate is exceeded in the very window after it was lowered. Then the window is doubled.
    """
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


@kernel(f"void(int64, int64, int64, {_T3}, {_T2}, {_T1}, {_T2})")
def _apply(kind: int, source: int, delta: int, rules: Table, sources: Table, numbers: Table, aside: Table) -> None:
    """Let an estimate hold for a source; NONE for none."""
    if kind != numbers[CLOCK]:
        rules[numbers[DECLARED] + kind, DELTA, source] = delta
        return
    declared = aside[DECLARED_DELAY, source]
    sources[DELAY, source] = declared if delta == NONE or (declared != NONE and declared <= delta) else delta


@kernel(f"void({_F3}, int64, {_T3}, {_T2}, {_T1}, {_T2})")
def apply_cells(cells: Floats, source: int, rules: Table, sources: Table, numbers: Table, aside: Table) -> None:
    """Let the estimates of Figure 4 hold for a source, fractions rounded up."""
    for kind in range(len(cells)):
        estimate = cells[kind, ESTIMATE, source]
        delta = GREATEST if estimate >= float(GREATEST) else ceil(estimate)
        _apply(kind, source, delta, rules, sources, numbers, aside)


@kernel(f"boolean(int64, {_T2}, {_T2})")
def is_new(source: int, sources: Table, aside: Table) -> bool:
    """Whether nothing was learnt yet of a source that nobody waits for before it has come."""
    return aside[SENT, source] == 0 and sources[WAITED_FOR, source] == FROM_FIRST_ROW


@kernel(f"void({_F3}, int64)")
def begin_with_all(cells: Floats, source: int) -> None:
    """Let a source begin with the estimates of all: what has not come yet is as those that have."""
    for kind in range(len(cells)):
        cells[kind, ESTIMATE, source] = cells[kind, ESTIMATE, UNSEEN]
        cells[kind, LENGTH_OF_WINDOW, source] = cells[kind, LENGTH_OF_WINDOW, UNSEEN]


# ---- shares ---------------------------------------------------------------------------------------------------------


@kernel(f"void(int64, int64, int64, {_F3}, {_F2}, {_T2})")
def _count(slot: int, kind: int, bucket: int, weights: Floats, totals: Floats, slots: Table) -> None:
    """Count a length in a histogram, and whether it lies beyond the bucket of the estimate."""
    weights[slot, kind, bucket] += 1
    totals[slot, kind] += 1
    kinds = totals.shape[1] // 2
    totals[slot, kinds + kind] += bucket > slots[slot, FIRST_ESTIMATE + kinds + kind]


@kernel(f"void(int64, {_T1}, {_F1}, {_F3}, {_F2}, {_T2})")
def _finish_row(slot: int, numbers: Table, floats: Floats, weights: Floats, totals: Floats, slots: Table) -> None:
    """A row is counted in a histogram: after so many all counts are halved."""
    slots[slot, CHANGED] = 1
    slots[slot, FRESH] += 1
    if slots[slot, FRESH] < numbers[MEMORY]:
        return
    slots[slot, FRESH] = 0
    halve(weights[slot])
    for kind in range(totals.shape[1]):
        totals[slot, kind] *= 0.5
    if slot == 0:
        floats[RECENT] *= 0.5
        floats[RECENT_LOST] *= 0.5


@kernel(f"void(int64, {_T1}, {_T2}, {_T2})")
def _give_slot(source: int, numbers: Table, aside: Table, slots: Table) -> None:
    """A source that has sent enough has a histogram of its own from its next row on, while there are any."""
    aside[SENT, source] += 1
    if aside[SENT, source] == numbers[ENOUGH] and numbers[SLOTS] < len(slots):
        aside[SLOT, source] = numbers[SLOTS]
        numbers[SLOTS] += 1


@kernel(f"void({_T1}, {_T3}, {_T2}, {_T1}, {_F1}, {_T2}, {_F3}, {_F2}, {_T2})")
def settle(
    everything: Table,
    rules: Table,
    sources: Table,
    numbers: Table,
    floats: Floats,
    aside: Table,
    weights: Floats,
    totals: Floats,
    slots: Table,
) -> None:
    """At the end of a tick with rows: find what all but the share keep, and let it hold, unless too many were late."""
    if not slots[0, CHANGED]:
        return
    lost, loss, kinds = numbers[LOST], floats[LOSS], totals.shape[1] // 2
    broken = lost > loss * numbers[COUNTED] or floats[RECENT_LOST] > loss * floats[RECENT]
    numbers[TIMES_TAKEN_BACK] += broken and not numbers[TAKEN_BACK]
    numbers[TAKEN_BACK] = broken
    # What is as far behind as it may be cannot have come yet, soon after the beginning.
    counting = not broken and numbers[COUNTED] > 0 and everything[NEWEST] >= plus(numbers[SINCE], numbers[START])
    news = counting != (numbers[COUNTING] != 0)
    numbers[COUNTING] = counting
    for slot in range(numbers[SLOTS]):
        if slots[slot, CHANGED]:
            slots[slot, CHANGED] = 0
            for kind in range(kinds):
                # Before anything is found it lies at the upper end, where nothing is beyond.
                at = slots[slot, FIRST_ESTIMATE + kinds + kind]
                bucket, beyond = moved_bucket(
                    weights[slot, kind], totals[slot, kind], floats[LEVEL], BEYOND if at == NO_BUCKET else at,
                    0.0 if at == NO_BUCKET else totals[slot, kinds + kind],
                )  # fmt: skip
                slots[slot, FIRST_ESTIMATE + kinds + kind] = int(bucket)
                totals[slot, kinds + kind] = beyond
                found = NONE if bucket == NO_BUCKET else upper_edge(int(bucket), numbers[SHIFT])
                found = NONE if found == GREATEST else found
                news |= found != slots[slot, FIRST_ESTIMATE + kind]
                slots[slot, FIRST_ESTIMATE + kind] = found
    if news:
        for source in range(everything[SOURCES]):
            apply_shares(source, rules, sources, numbers, aside, slots)


@kernel(f"void(int64, {_T3}, {_T2}, {_T1}, {_T2}, {_T2})")
def apply_shares(source: int, rules: Table, sources: Table, numbers: Table, aside: Table, slots: Table) -> None:
    """Let what all sources keep hold for a source, or what it keeps itself if that is less, while estimates count."""
    for kind in range((slots.shape[1] - FIRST_ESTIMATE) // 2):
        delta = NONE
        if numbers[COUNTING]:
            # Who is further behind than nearly all rows of all sources is not waited for by more than these are.
            own, delta = aside[SLOT, source], slots[0, FIRST_ESTIMATE + kind]
            if own != NONE and slots[own, FIRST_ESTIMATE + kind] != NONE:
                delta = min(delta, slots[own, FIRST_ESTIMATE + kind])
        _apply(kind, source, delta, rules, sources, numbers, aside)


# ---- a row ----------------------------------------------------------------------------------------------------------


@kernel(f"void(int64, int64, int64, {_T1}, {_T3}, {_T2}, {_T2}, {_T1}, {_F1}, {_T1}, {_T2}, {_F3})")
def _learn_skew(
    source: int,
    time: int,
    tick: int,
    everything: Table,
    rules: Table,
    kinds: Table,
    sources: Table,
    numbers: Table,
    floats: Floats,
    before: Table,
    aside: Table,
    cells: Floats,
) -> None:
    """Figure 4, for all kinds of bounds: of all sources, and of this one."""
    if is_new(source, sources, aside):
        begin_with_all(cells, source)
    aside[SENT, source] += 1
    for kind in range(len(before)):
        shown = float(max(_shown(kind, source, time, tick, everything, kinds, numbers, before, aside), 0))
        _take_estimate(cells[kind], UNSEEN, shown, tick, numbers, floats)
        _take_estimate(cells[kind], source, shown, tick, numbers, floats)
    apply_cells(cells, UNSEEN, rules, sources, numbers, aside)
    apply_cells(cells, source, rules, sources, numbers, aside)


@kernel(f"void(int64, int64, int64, {_T1}, {_T2}, {_T1}, {_F1}, {_T1}, {_T2}, {_F3}, {_F2}, {_T2})")
def _learn_share(
    source: int,
    time: int,
    tick: int,
    everything: Table,
    kinds: Table,
    numbers: Table,
    floats: Floats,
    before: Table,
    aside: Table,
    weights: Floats,
    totals: Floats,
    slots: Table,
) -> None:
    """Count what a row shows in the histogram of all sources, and in that of its own if there is one."""
    own = aside[SLOT, source]
    for kind in range(len(before)):
        shown = _shown(kind, source, time, tick, everything, kinds, numbers, before, aside)
        if shown == NONE:
            continue
        bucket = bucket_of(shown, numbers[SHIFT])
        _count(0, kind, bucket, weights, totals, slots)
        if own != NONE:
            _count(own, kind, bucket, weights, totals, slots)
    _finish_row(0, numbers, floats, weights, totals, slots)
    if own != NONE:
        _finish_row(own, numbers, floats, weights, totals, slots)
    else:
        _give_slot(source, numbers, aside, slots)


@kernel(
    f"void(int64, int64, int64, {_T1}, {_T3}, {_T2}, {_T2}, {_T1}, {_F1}, {_T1}, {_T2}, {_F3}, {_F3}, {_F2}, {_T2})"
)
def learn(
    source: int,
    time: int,
    tick: int,
    everything: Table,
    rules: Table,
    kinds: Table,
    sources: Table,
    numbers: Table,
    floats: Floats,
    before: Table,
    aside: Table,
    cells: Floats,
    weights: Floats,
    totals: Floats,
    slots: Table,
) -> None:
    """Learn from a row, before it counts itself; and whether it was late by an estimate."""
    # A stream is never complete past the last time but one, whatever its heartbeat is.
    lost_anyway = time <= min(numbers[DECLARED_OVERALL], GREATEST - 2)
    if not lost_anyway:
        late = time <= min(everything[OVERALL], GREATEST - 2)
        if numbers[COUNTED] == 0:
            numbers[SINCE] = time
        numbers[COUNTED] += 1
        numbers[LOST] += late
        floats[RECENT] += 1
        floats[RECENT_LOST] += late
    if not numbers[BY_SHARES]:
        _learn_skew(
            source, time, tick, everything, rules, kinds, sources, numbers, floats, before, aside, cells
        )  # fmt: skip
    elif not lost_anyway:
        _learn_share(
            source, time, tick, everything, kinds, numbers, floats, before, aside, weights, totals, slots
        )  # fmt: skip
