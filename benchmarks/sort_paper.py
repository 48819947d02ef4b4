"""The paper's own algorithm, event by event: what its two optimizations bring, and how many runs it keeps.

Paper: Chandramouli, Goldstein, Li. Impatience Is a Virtue. ICDE 2018, section VI-B, figures 2, 5 and 7.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from measure import interleaved, medians
from rivals import check
from slackwater.testing.reference.patience_sorter import PatienceSorter, runs_over_time
from sort_streams import GENERATORS, latency_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from measure import Report

    Column = NDArray[np.int64]

_VARIANTS = {"full": (True, True), "no HM": (False, True), "no HM, no SRS": (False, False)}
"""Huffman merge and speculative run selection, switched off one after the other, as in figure 7."""


def ablations(report: Report, events: int, repeats: int) -> None:
    """What the paper's two optimizations bring its own algorithm, event by event, offline."""
    rows = []
    for name in ("s1_64", "s30_64", "s100_1024", "cloud_like", "android_like"):
        times = GENERATORS[name](events)
        order = np.argsort(times, kind="stable")
        work = {}
        for variant, (huffman, speculate) in _VARIANTS.items():
            # Each keeps its memory from one sort to the next: what is compared is the work, not the growth of arrays.
            sorter = PatienceSorter(huffman=huffman, speculate=speculate)
            check(variant, partial(_pushed_and_flushed, sorter), times, order)
            work[variant] = partial(_pushed_and_flushed, sorter, times)
        taken = {v: 1e9 / events * s for v, s in medians(interleaved(work, repeats, warm_up=0)).items()}
        merging, speculation = taken["no HM"] / taken["full"], taken["no HM, no SRS"] / taken["no HM"]
        rows.append([name, *taken.values(), merging, speculation])
        report.figures[f"hm_speedup_{name}"] = round(merging, 2)
        report.figures[f"srs_speedup_{name}"] = round(speculation, 2)
    report.table(
        f"the paper's algorithm offline, {events:,} events, ns/event: what its optimizations bring",
        ("data", *_VARIANTS, "Huffman merge", "speculation"),
        rows,
    )


def _pushed_and_flushed(sorter: PatienceSorter, times: Column) -> tuple[Column, Column]:
    sorter.push(times, 0)
    return sorter.flush()


def pictures(report: Report, cloud: Column, real: Mapping[str, Column]) -> None:
    """The series of figures 5 (runs over time) and 2 (event time by arrival), thinned."""
    watched = {"cloud_like": (cloud, 10_000)}
    if "winlogs_multihost" in real:
        watched["winlogs_multihost"] = (real["winlogs_multihost"], 2_000)
    report.series["runs"] = {}
    for name, (times, every) in watched.items():
        latency = latency_of(times)
        counts = {
            algorithm: runs_over_time(times, every, latency, incremental=incremental)
            for algorithm, incremental in (("patience", False), ("impatience", True))
        }
        report.series["runs"][name] = {"every": every, **{a: _thinned(c, 200) for a, c in counts.items()}}
        report.figures[f"impatience_mean_runs_{name}"] = round(float(counts["impatience"].mean()), 1)
        report.figures[f"patience_runs_{name}"] = int(counts["patience"][-1])
    report.series["arrivals"] = {}
    for name, times in real.items():
        first, stop = _longest_stretch(times)
        seconds = (times[first:stop] - times[first]) // 1_000_000
        report.series["arrivals"][name] = {"first": first, **_thinned(seconds, 500)}


def _longest_stretch(times: Column) -> tuple[int, int]:
    """Where a stream runs longest without a gap of a tenth of its time: some files are recordings from many days."""
    first, stop = 0, len(times)
    while True:
        high_water = np.maximum.accumulate(times[first:stop])
        gaps = np.flatnonzero(np.diff(high_water) > (high_water[-1] - high_water[0]) // 10) + 1
        if not len(gaps):
            return first, stop
        edges = np.array([0, *gaps, stop - first])
        longest = int(np.diff(edges).argmax())
        first, stop = first + int(edges[longest]), first + int(edges[longest + 1])


def _thinned(values: Column, most: int) -> dict[str, Any]:
    """At most so many of the values, evenly spaced, and the distance between them."""
    stride = -(-len(values) // most)
    return {"stride": stride, "values": values[::stride].tolist()}
