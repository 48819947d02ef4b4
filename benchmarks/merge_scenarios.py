"""Bursts and congestion, which a merge of replicas hides.

Elements have arrival times of their own making (a virtual clock), so that the picture is the same on
every machine: every replica is due to send 5,000 elements per second, is held up now and then, and then catches up as
fast as it can. What has arrived in a slice of time is merged, replica by replica, and counted where it goes out.

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section VI-E, figures 7 and 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from replicated import Generator
from slackwater.operators.replicas.revised_with_key import MergeRevisedWithKey

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


# ---- rates -----------------------------------------------------------------------------------------------------------


def _rate(arrivals: Seconds, edges: Seconds) -> Seconds:
    return _rate_of_counts(np.histogram(arrivals, edges)[0])


def _rate_of_counts(counts: NDArray[np.int64]) -> Seconds:
    """Elements per second, without the first and the last stretch, which are not whole."""
    together = round(_SHOWN / _SLICE)
    whole = counts[: len(counts) // together * together].reshape(-1, together).sum(axis=1)
    return whole[1:-1] / _SHOWN
