"""Follows arrivals of which a process has only some rows: the rest it knows by statistics, which all processes know.

A group stands for all rows of one source that arrived in one tick: how many, and the newest time. Groups move the
heartbeats, so that all processes decide the same. The rows that a process has itself move nothing: they are compared
with the heartbeats of their sources, and punctuations get places among them.

Cost: O(rules) for each group, O(rules * sources) for each tick, O(1) for each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.kernels.compile import kernel
from slackwater.kernels.progress.heartbeats import (
    BEGUN,
    EVALUATED,
    OVERALL,
    TICK,
    any_counts,
    compare_with_heartbeat,
    end_of_tick,
    evaluate,
    take_in,
)
from slackwater.kernels.saturating import LEAST

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Table = NDArray[np.int64]

_READ = "Array(int64, 1, 'C', readonly=True)"
_T1, _T2, _T3, _T4 = "int64[::1]", "int64[:, ::1]", "int64[:, :, ::1]", "int64[:, :, :, ::1]"


@kernel(f"int64({_READ}, {_READ}, {_READ}, int64, int64, {_T2})")
def _compare_rows(ticks: Table, codes: Table, times: Table, row: int, tick: int, sources: Table) -> int:
    """Compare the rows of a tick with the heartbeats of their sources; return the first row of a later tick."""
    stop = end_of_tick(ticks, row, tick)
    for one in range(row, stop):
        if times[one] != LEAST:
            compare_with_heartbeat(sources, codes[one], times[one])
    return stop


@kernel(
    f"int64({_READ}, {_READ}, {_READ}, {_READ}, {_READ}, {_READ}, {_READ}, boolean, {_T1}, {_T3}, {_T2}, {_T2}, {_T3}, "
    f"{_T4}, {_T3}, {_T4}, {_T1}, {_T1})"
)
def follow_statistics(
    ticks: Table,
    codes: Table,
    rows: Table,
    newest: Table,
    own_ticks: Table,
    own_codes: Table,
    own_times: Table,
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
) -> int:
    """Take in groups in order of their ticks; return how often the least heartbeat rose, and fill in before which rows.

    Rows are in order of their ticks, too, and every one is in a group. With `closes` the last tick is over after the
    last group. A group whose newest time is LEAST has rows without a time only, and moves nothing but the clock.
    """
    found, counts, group, row = 0, any_counts(kinds), 0, 0
    while group < len(ticks) or closes:
        over = group == len(ticks)
        tick = everything[TICK] + 1 if over else max(ticks[group], everything[TICK])
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
        row = _compare_rows(own_ticks, own_codes, own_times, row, tick, sources)
        stop = end_of_tick(ticks, group, tick)
        for one in range(group, stop):
            if newest[one] != LEAST:
                take_in(
                    codes[one], newest[one], rows[one] - 1, tick, counts, everything, rules, kinds, sources, histories,
                    delayed, counted, queues,
                )  # fmt: skip
        group = stop
    return found
