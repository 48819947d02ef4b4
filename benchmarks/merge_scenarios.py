"""Bursts and congestion, which a merge of replicas hides; and plans that race, of which it follows the faster.

In the first two elements have arrival times of their own making (a virtual clock), so that the picture is the same on
every machine: every replica is due to send 5,000 elements per second, is held up now and then, and then catches up as
fast as it can. What has arrived in a slice of time is merged, replica by replica, and counted where it goes out.

In the race two plans select the same rows by functions of their own, each dear where the other is cheap, on a thread of
its own; dear means to wait, as for an answer from elsewhere, so that they do not share a processor. Times are real.

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section VI-E, figures 7 to 9.
"""

from __future__ import annotations

import time
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import slackwater as sw
from replicated import Generator
from slackwater.operators.merging.revised_with_key import MergeRevisedWithKey

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from measure import Report
    from replicated import Replica

    Seconds = NDArray[np.float64]
    Holdups = Callable[[int, int], Seconds]

RATE = 5_000
"""Elements per second that each replica is due to send."""

_FASTEST = 1 / 50_000
"""Seconds from one element to the next while a replica catches up."""

_SLICE = 0.01
"""Seconds of arrivals that are merged at once."""

_SHOWN = 0.1
"""Seconds that elements are counted over: the rate of a stream is told ten times in a second."""


def run(report: Report, *, quick: bool) -> None:
    """Measure both scenarios."""
    seconds = 6 if quick else 30
    _scenario(report, "bursts", seconds, replicas=4, holdups=_bursts)
    _scenario(report, "congestion", seconds, replicas=3, holdups=_congestion)
    _plan_switching(report, dear=30e-6 if quick else 40e-6)


def _bursts(replica: int, elements: int) -> Seconds:
    """Now and then, before an element in two to three hundred, a delay around 20 milliseconds."""
    rng = np.random.default_rng(10 + replica)
    hit = rng.random(elements) < rng.uniform(0.003, 0.005)
    return np.where(hit, np.clip(rng.normal(0.020, 0.005, elements), 0, None), 0.0)


def _congestion(replica: int, elements: int) -> Seconds:
    """A stretch of a sixth of the stream in which every element is delayed; those of two replicas overlap."""
    rng = np.random.default_rng(20 + replica)
    begin = int(elements * (0.15, 0.5, 0.58)[replica])
    delays = np.zeros(elements)
    congested = slice(begin, begin + elements // 6)
    delays[congested] = np.clip(rng.normal(2 / RATE, 1 / RATE, elements // 6), 0, None)
    return delays


def _arrivals(holdups: Seconds) -> Seconds:
    """When each element arrives: when it is due, or as soon after the one before it as delays and speed allow."""
    due = np.arange(len(holdups)) / RATE
    # a[i] = max(due[i], a[i-1] + fastest) + holdup[i], written without a loop: less what always adds up, it only rises.
    steady = np.cumsum(holdups + _FASTEST)
    return steady + np.maximum.accumulate(due - (steady - holdups))


def _scenario(report: Report, name: str, seconds: int, replicas: int, holdups: Holdups) -> None:
    generator = Generator(seconds * RATE, stable_freq=0.01, alive=2_000)
    told = [generator.replica(seed) for seed in range(1, replicas + 1)]
    arrivals = [_arrivals(holdups(number, len(replica))) for number, replica in enumerate(told)]
    edges = np.arange(0, max(one[-1] for one in arrivals) + _SLICE, _SLICE)
    out = _merged(told, arrivals, edges)
    rates = {f"replica {number}": _rate(one, edges) for number, one in enumerate(arrivals)}
    rates["merged"] = _rate_of_counts(out)
    variation = {who: float(np.std(rate) / np.mean(rate)) for who, rate in rates.items()}
    report.table(
        f"{name}: elements per second, told ten times a second",
        ("stream", "mean", "least", "greatest", "deviation / mean"),
        [[who, rate.mean(), rate.min(), rate.max(), variation[who]] for who, rate in rates.items()],
    )
    report.figures[f"{name}_output_variation"] = round(variation["merged"], 3)
    least = min(value for who, value in variation.items() if who != "merged")
    report.figures[f"{name}_least_input_variation"] = round(least, 3)
    report.series[name] = {who: np.round(rate).tolist() for who, rate in rates.items()}


def _merged(told: Sequence[Replica], arrivals: Sequence[Seconds], edges: Seconds) -> NDArray[np.int64]:
    """Merge what arrives in each slice of time; return how many events went out in it for the first time."""
    slices = [
        replica.cut_at([0, *np.searchsorted(times, edges[1:]).tolist()])
        for replica, times in zip(told, arrivals, strict=True)
    ]
    merge = MergeRevisedWithKey(len(told), slices[0][0].payload.slice(0, 0))
    out = np.zeros(len(edges) - 1, dtype=np.int64)
    for place, together in enumerate(zip(*slices, strict=True)):
        for port, batch in enumerate(together):
            out[place] += sum(released.rows for released in merge.on_batch(port, batch).batches)
    return out


# ---- plans that race -------------------------------------------------------------------------------------------------


def _plan_switching(report: Report, dear: float) -> None:
    """Two plans for 200,000 rows, dear for small and for large values; sequences of either take turns ten times."""
    rows = _alternating(np.random.default_rng(30))
    source = sw.stream(rows, time="at").assume_ordered()
    plans = [source.where(partial(_costly, small_is_dear, dear)) for small_is_dear in (True, False)]
    expected = int(np.count_nonzero(rows["x"].to_numpy() % 2 == 0))
    alone = [_seconds(plan.run, expected) for plan in plans]
    merged = {feedback: _seconds(partial(_raced, plans, feedback=feedback), expected) for feedback in (False, True)}
    report.table(
        f"plan switching, {1e6 * dear:.0f} microseconds for each dear row: seconds (figure 9)",
        ("UDF0", "UDF1", "merged", "merged, with feedback"),
        [[*alone, *merged.values()]],
    )
    report.figures["feedback_speedup"] = round(min(alone) / merged[True], 2)
    report.figures["speedup_without_feedback"] = round(min(alone) / merged[False], 2)


def _alternating(rng: np.random.Generator) -> pa.Table:
    """Sequences of 10,000 to 30,000 rows, of small values and of large ones in turn: 200,000 rows, nine switches."""
    lengths = rng.integers(10_000, 30_000, 10)
    lengths = np.diff(np.round(np.cumsum([0, *lengths]) * (200_000 / lengths.sum())).astype(np.int64))
    large = np.repeat(np.arange(10) % 2, lengths)
    values = large * 1_000 + rng.integers(0, 1_000, len(large))
    return pa.table({"at": np.arange(len(values)), "x": values})


def _costly(small_is_dear: bool, dear: float, rows: pa.RecordBatch) -> pa.Array:
    """Keep even values; wait for each that is dear."""
    values = rows.column("x").to_numpy()
    time.sleep(dear * np.count_nonzero((values < 1_000) == small_is_dear))
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


# ---- rates -----------------------------------------------------------------------------------------------------------


def _rate(arrivals: Seconds, edges: Seconds) -> Seconds:
    return _rate_of_counts(np.histogram(arrivals, edges)[0])


def _rate_of_counts(counts: NDArray[np.int64]) -> Seconds:
    """Elements per second, without the first and the last stretch, which are not whole."""
    together = round(_SHOWN / _SLICE)
    whole = counts[: len(counts) // together * together].reshape(-1, together).sum(axis=1)
    return whole[1:-1] / _SHOWN
