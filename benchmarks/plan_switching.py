"""Plans that race: a merge follows the faster one and tells the slower one what is not wanted any more (figure 9).

Two plans select the same rows by functions of their own, each dear where the other is cheap, on a thread of its own.
What dear means decides what there is to gain, so it is measured in two ways:
    waits      for each dear row the plan waits, as for an answer from elsewhere: plans do not share a processor
    computes   for each dear row the plan computes, in NumPy, which lets other threads run: two plans, two cores, and a
               merge that needs one of them, too

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section VI-E3.
"""

from __future__ import annotations

import time
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from measure import Report

    Spend = Callable[[float], None]
    """Spends so many seconds."""


def run(report: Report, *, quick: bool) -> None:
    """Race waiting plans, and computing ones."""
    _plan_switching(report, "waiting", time.sleep, dear=30e-6 if quick else 40e-6)
    _plan_switching(report, "computing", _computing(), dear=5e-6 if quick else 40e-6)


def _computing() -> Spend:
    """Work that takes a processor for so many seconds: sines of an array, as often as one thread alone could."""
    angles = np.linspace(0, 1, 16_384)
    often = 200

    def compute(times: int) -> None:
        made = np.empty_like(angles)
        for _ in range(times):
            np.sin(angles, out=made)

    compute(often)
    begun = time.perf_counter()
    compute(often)
    once = (time.perf_counter() - begun) / often
    return lambda seconds: compute(round(seconds / once))


def _plan_switching(report: Report, kind: str, spend: Spend, dear: float) -> None:
    """Two plans for 200,000 rows, dear for small and for large values; sequences of either take turns ten times."""
    rows = _alternating(np.random.default_rng(30))
    source = sw.stream(rows, time="at").assume_ordered()
    plans = [source.where(partial(_costly, small_is_dear, spend, dear)) for small_is_dear in (True, False)]
    expected = int(np.count_nonzero(rows["x"].to_numpy() % 2 == 0))
    alone = [_seconds(plan.run, expected) for plan in plans]
    merged = {feedback: _seconds(partial(_raced, plans, feedback=feedback), expected) for feedback in (False, True)}
    report.table(
        f"plan switching, {kind} plans, {1e6 * dear:.0f} microseconds for each dear row: seconds (figure 9)",
        ("UDF0", "UDF1", "merged", "merged, with feedback"),
        [[*alone, *merged.values()]],
    )
    report.figures[f"feedback_speedup_{kind}_plans"] = round(min(alone) / merged[True], 2)
    report.figures[f"speedup_without_feedback_{kind}_plans"] = round(min(alone) / merged[False], 2)


def _alternating(rng: np.random.Generator) -> pa.Table:
    """Sequences of 10,000 to 30,000 rows, of small values and of large ones in turn: 200,000 rows, nine switches."""
    lengths = rng.integers(10_000, 30_000, 10)
    lengths = np.diff(np.round(np.cumsum([0, *lengths]) * (200_000 / lengths.sum())).astype(np.int64))
    large = np.repeat(np.arange(10) % 2, lengths)
    values = large * 1_000 + rng.integers(0, 1_000, len(large))
    return pa.table({"at": np.arange(len(values)), "x": values})


def _costly(small_is_dear: bool, spend: Spend, dear: float, rows: pa.RecordBatch) -> pa.Array:
    """Keep even values; spend time on each that is dear."""
    values = rows.column("x").to_numpy()
    spend(dear * np.count_nonzero((values < 1_000) == small_is_dear))
    return pa.array(values % 2 == 0)


def _raced(plans: Sequence[sw.OrderedStream], *, feedback: bool) -> sw.Result:
    race = sw.Race(*plans, feedback=feedback)
    threads = [Thread(target=race.run_plan, args=[number]) for number in range(len(plans))]
    for thread in threads:
        thread.start()
    result = race.merged.run()
    for thread in threads:
        thread.join()
    return result


def _seconds(work: Callable[[], sw.Result], expected: int) -> float:
    """How long something takes, which must give so many rows."""
    begun = time.perf_counter()
    found = work().table.num_rows
    taken = time.perf_counter() - begun
    assert found == expected, (found, expected)
    return taken
