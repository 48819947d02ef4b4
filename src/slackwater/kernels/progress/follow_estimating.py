"""Follows arrivals by bounds that are learnt from the very rows: each tick is learnt from, then heartbeats are found.

What declared bounds alone guarantee is found beside it, so that it is known which rows only an estimate made late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.kernels.compile import kernel
from slackwater.kernels.progress.estimates import (
    BY_SHARES,
    CAME_BEFORE,
    DECLARED,
    DECLARED_BINDING,
    DECLARED_DELAY,
    DECLARED_HEARTBEAT,
    DECLARED_OVERALL,
    DECLARED_SENDER,
    DECLARED_SET_BY,
    apply_cells,
    begin_with_all,
    is_new,
    learn,
    settle,
)
from slackwater.kernels.progress.heartbeats import (
    BEGUN,
    BINDING,
    DELAY,
    EVALUATED,
    HEARTBEAT,
    HIGH_WATER,
    LAST_TICK,
    NONE,
    OVERALL,
    OWN,
    SENDER,
    SET_BY,
    SOURCES,
    TICK,
    UNSEEN,
    WAIT,
    evaluate,
    follow_arrivals,
    furthest,
)
from slackwater.kernels.progress.replay_arrivals import next_change, release
from slackwater.kernels.saturating import GREATEST, LEAST

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Table = NDArray[np.int64]
    Floats = NDArray[np.float64]

_READ = "Array(int64, 1, 'C', readonly=True)"
_T1, _T2, _T3, _T4 = "int64[::1]", "int64[:, ::1]", "int64[:, :, ::1]", "int64[:, :, :, ::1]"
_F1, _F2, _F3 = "float64[::1]", "float64[:, ::1]", "float64[:, :, ::1]"
_GENERATOR = f"{_T1}, {_T3}, {_T2}, {_T2}, {_T3}, {_T4}, {_T3}"
_LEARNT = f"{_T1}, {_F1}, {_T1}, {_T2}, {_F3}, {_F3}, {_F2}, {_T2}"


@kernel(f"void({_T1}, {_T2}, {_T1}, {_T2})")
def _change_sides(everything: Table, sources: Table, numbers: Table, aside: Table) -> None:
    """Change what declared bounds alone guarantee for what all do, or back."""
    for j in range(everything[SOURCES]):
        sources[HEARTBEAT, j], aside[DECLARED_HEARTBEAT, j] = aside[DECLARED_HEARTBEAT, j], sources[HEARTBEAT, j]
        sources[SET_BY, j], aside[DECLARED_SET_BY, j] = aside[DECLARED_SET_BY, j], sources[SET_BY, j]
        sources[SENDER, j], aside[DECLARED_SENDER, j] = aside[DECLARED_SENDER, j], sources[SENDER, j]
        sources[DELAY, j], aside[DECLARED_DELAY, j] = aside[DECLARED_DELAY, j], sources[DELAY, j]
    everything[OVERALL], numbers[DECLARED_OVERALL] = numbers[DECLARED_OVERALL], everything[OVERALL]
    everything[BINDING], numbers[DECLARED_BINDING] = numbers[DECLARED_BINDING], everything[BINDING]


@kernel(f"void({_GENERATOR}, {_LEARNT}, int64)")
def evaluate_estimating(
    everything: Table,
    rules: Table,
    kinds: Table,
    sources: Table,
    histories: Table,
    delayed: Table,
    counted: Table,
    numbers: Table,
    floats: Floats,
    before: Table,  # noqa: ARG001 - all tables are handed on together
    aside: Table,
    cells: Floats,
    weights: Floats,
    totals: Floats,
    slots: Table,
    now: int,
) -> None:
    """Find the heartbeats at the end of a tick: by declared bounds alone, and by all."""
    if numbers[BY_SHARES]:
        settle(everything, rules, sources, numbers, floats, aside, weights, totals, slots)
    else:
        for j in range(everything[SOURCES]):
            if is_new(j, sources, aside):
                begin_with_all(cells, j)
                apply_cells(cells, j, rules, sources, numbers, aside)
    declared = numbers[DECLARED]
    _change_sides(everything, sources, numbers, aside)
    evaluate(
        everything, rules[:declared], kinds[:declared], sources, histories[:declared], delayed, counted, now
    )  # fmt: skip
    _change_sides(everything, sources, numbers, aside)
    evaluate(everything, rules, kinds, sources, histories, delayed, counted, now)


@kernel(f"void(int64, int64, {_T3}, {_T2}, {_T3}, {_T1})")
def _begin_tick(tick: int, declared: int, rules: Table, kinds: Table, histories: Table, before: Table) -> None:
    """Note how far the senders had come that rows of this tick are compared with."""
    for kind in range(len(before)):
        rule = declared + kind
        if rule < len(kinds) and not kinds[rule, OWN]:
            before[kind] = furthest(kinds[rule], histories[rule], NONE, rules[rule, WAIT, UNSEEN], tick - 1)


@kernel(f"int64({_READ}, {_READ}, {_READ}, boolean, {_GENERATOR}, {_T4}, {_LEARNT}, {_T1}, {_T1}, {_T2})")
def follow_estimating(
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
    numbers: Table,
    floats: Floats,
    before: Table,
    aside: Table,
    cells: Floats,
    weights: Floats,
    totals: Floats,
    slots: Table,
    places: Table,
    bounds: Table,
    scratch: Table,
) -> int:
    """Take in rows in order of arrival, as follow_arrivals does, and learn from them."""
    found, row = 0, 0
    while row < len(times) or closes:
        over = row == len(times)
        tick = everything[TICK] + 1 if over else max(ticks[row], everything[TICK])
        if tick > everything[TICK]:
            if everything[BEGUN] != LEAST and everything[EVALUATED] != tick - 1:
                reached = everything[OVERALL]
                evaluate_estimating(
                    everything, rules, kinds, sources, histories, delayed, counted, numbers, floats, before, aside,
                    cells, weights, totals, slots, tick - 1,
                )  # fmt: skip
                if everything[OVERALL] > reached:
                    places[found], bounds[found] = row, everything[OVERALL]
                    found += 1
            if over:
                break
            _begin_tick(tick, numbers[DECLARED], rules, kinds, histories, before)
        stop = row
        while stop < len(times) and ticks[stop] <= tick:
            source = codes[stop]
            if times[stop] != LEAST:
                if sources[LAST_TICK, source] != tick:
                    # Rows of this tick have not been taken in, unless they came in a batch before this one.
                    aside[CAME_BEFORE, source] = sources[HIGH_WATER, source]
                learn(
                    source, times[stop], tick, everything, rules, kinds, sources, numbers, floats, before, aside,
                    cells, weights, totals, slots,
                )  # fmt: skip
            stop += 1
        # The tick before has been looked at: nothing is found here but that its rows are there.
        follow_arrivals(
            ticks[row:stop], codes[row:stop], times[row:stop], False, everything, rules, kinds, sources, histories,
            delayed, counted, queues, scratch[0], scratch[1], scratch[0, :0],
        )  # fmt: skip
        row = stop
    return found


@kernel(
    f"void({_READ}, {_READ}, {_READ}, {_READ}, {_READ}, {_READ}, int64, {_GENERATOR}, {_T4}, {_LEARNT}, {_T1}, {_T2}, "
    f"{_T1}, {_T1})",
)
def replay_estimating(
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
    numbers: Table,
    floats: Floats,
    before: Table,
    aside: Table,
    cells: Floats,
    weights: Floats,
    totals: Floats,
    slots: Table,
    nexts: Table,
    scratch: Table,
    of_all: Table,
    of_own: Table,
) -> None:
    """Fill in at the end of which tick the time of each row was complete, as replay_arrivals does."""
    row, held = 0, 0
    while row < len(times):
        tick, end = ticks[row], row
        if everything[BEGUN] != LEAST and tick - 1 > everything[TICK]:
            everything[TICK] = tick - 1
            evaluate_estimating(
                everything, rules, kinds, sources, histories, delayed, counted, numbers, floats, before, aside, cells,
                weights, totals, slots, tick - 1,
            )  # fmt: skip
            held -= release(
                times, by_time, by_source, begins, nexts, everything, sources, row, tick - 1, of_all, of_own
            )
        while end < len(times) and ticks[end] == tick:
            held += (of_all[end] == GREATEST) + (of_own[end] == GREATEST)
            end += 1
        follow_estimating(
            ticks[row:end], codes[row:end], times[row:end], True, everything, rules, kinds, sources, histories,
            delayed, counted, queues, numbers, floats, before, aside, cells, weights, totals, slots, scratch[0],
            scratch[1], scratch[2:],
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
            evaluate_estimating(
                everything, rules, kinds, sources, histories, delayed, counted, numbers, floats, before, aside, cells,
                weights, totals, slots, now,
            )  # fmt: skip
            held -= release(times, by_time, by_source, begins, nexts, everything, sources, row, now, of_all, of_own)
