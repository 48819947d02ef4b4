"""Figure 5 of the heartbeat paper while its third source lags: what is held, and how long results take, by release.

Two sources in step are joined, and their pairs with a third, which is a fixed number of rounds behind. A round pushes
rows of the two, and then those of the third: the time from there until nothing is left to do is the latency, for the
results of these rows could not come before. Of a first join that proliferates 16 rows become 64 pairs, of one that
selects one. Memory is what the query holds at the end of a round, at most, and, in a long run, by how much a fresh
process grows.
Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, section 7.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import slackwater as sw
from held import growth, held_bytes, in_fresh_process

if TYPE_CHECKING:
    from measure import Report

ROWS = 4_096
"""Rows of each source in a round."""

GROUP = 8
"""So many rows of each of two sources have a key in common, where their join proliferates."""

ROW = pa.schema({"at": pa.int64(), "k": pa.int64(), "v": pa.int64()})

RELEASES = {
    "operator": sw.Release.by_operator(),
    "query": sw.Release.by_query(),
    "memory": sw.Release.by_memory(),
}
"""The strategies of the paper; growth is measured while the query runs."""

VARIANTS = ("proliferates", "selects")


@dataclass(frozen=True)
class Figures:
    """What one run gave."""

    latency_ms: float
    peak_rows: int
    peak_mib: float
    pairs: int
    results: int


def run(report: Report, *, quick: bool) -> None:
    """All releases, with both kinds of first join, interleaved."""
    lag, rounds, repeats = (8, 20, 1) if quick else (50, 150, 5)
    lines: list[list[Any]] = []
    drawn: dict[str, dict[str, list[float]]] = {}
    for variant in VARIANTS:
        for release in RELEASES:
            simulated(variant, release, lag=2, rounds=4)  # loads what is loaded once
        runs: dict[str, list[Figures]] = {release: [] for release in RELEASES}
        for _ in range(repeats):
            for release, found in runs.items():
                found.append(simulated(variant, release, lag, rounds))
        assert len({(one.pairs, one.results) for found in runs.values() for one in found}) == 1, "the same comes out"
        for release, found in runs.items():
            grown = 0.0 if quick else in_fresh_process(_grown, variant, release, lag, rounds) / 2**20
            latency, last = statistics.median(one.latency_ms for one in found), found[-1]
            _note(report, f"release_{variant}_{release}", latency, last, grown)
            drawn.setdefault(variant, {})[release] = [latency, last.peak_mib]
            lines.append([variant, release, latency, last.peak_rows, last.peak_mib, grown or "-"])
        _compare(report, variant, runs)
    report.series["releases"] = drawn
    header = ("first join", "by", "latency, ms", "most rows held", "MiB", "process grows, MiB")
    report.table(f"Figure 5, the third source {lag} rounds of {ROWS:,} rows behind", header, lines)


def _note(report: Report, name: str, latency: float, last: Figures, grown: float) -> None:
    report.figures[f"{name}_latency_ms"] = round(latency, 2)
    report.figures[f"{name}_peak_rows"] = last.peak_rows
    report.figures[f"{name}_peak_mib"] = round(last.peak_mib, 1)
    if grown:
        report.figures[f"{name}_process_growth_mib"] = round(grown, 1)


def _compare(report: Report, variant: str, runs: dict[str, list[Figures]]) -> None:
    """What memory-aware labels save against each of the others; runs of one round met the same mood."""
    for other in ("operator", "query"):
        pairs = list(zip(runs[other], runs["memory"], strict=True))
        latency = statistics.median(one.latency_ms / ours.latency_ms for one, ours in pairs)
        report.figures[f"release_{variant}_{other}_over_memory_latency"] = round(latency, 2)
        report.figures[f"release_{variant}_{other}_over_memory_peak"] = round(
            pairs[0][0].peak_mib / pairs[0][1].peak_mib, 2
        )


def _grown(variant: str, release: str, lag: int, rounds: int) -> int:
    simulated(variant, release, lag=2, rounds=4)
    return growth(partial(simulated, variant, release, lag, rounds, watched=False))


def simulated(variant: str, release: str, lag: int, rounds: int, *, watched: bool = True) -> Figures:
    """Run the plan for some rounds, and let the third source come to its end."""
    sources = [sw.PushSource(ROW, name=name) for name in ("s1", "s2", "s3")]
    s1, s2, s3 = (sw.stream(source, time="at").assume_ordered() for source in sources)
    first = s1.join(s2, on="k", within=GROUP).select("k", "v", "v_right")
    plan = first.join(s3.select("k"), on="k", within=GROUP).release(RELEASES[release])
    results = 0

    def count(rows: pa.RecordBatch) -> None:
        nonlocal results
        results += rows.num_rows

    query = plan.open(count, clock=sw.ManualClock())
    latencies, peak_rows, peak_bytes = [], 0, 0
    for number in range(rounds):
        for source, of_first in ((sources[0], True), (sources[1], False)):
            source.push(_rows(number, variant, of_first=of_first))
        query.work()
        if watched:
            peak_rows = max(peak_rows, sum(query.progress().held.values()))
            if number % 5 == 4:
                peak_bytes = max(peak_bytes, held_bytes(dict(query.snapshot())))
        if number >= lag:
            sources[2].push(_third(number - lag))
            begun = time.perf_counter()
            query.work()
            latencies.append(time.perf_counter() - begun)
    query.close()
    pairs = query.counters()["join#1"].rows_out
    return Figures(1e3 * statistics.median(latencies), peak_rows, peak_bytes / 2**20, pairs, results)


def _rows(number: int, variant: str, *, of_first: bool) -> pa.RecordBatch:
    """Rows of the first two sources: all of a group share a key, or one of each does."""
    at = np.arange(number * ROWS, (number + 1) * ROWS)
    keys = at // GROUP
    if variant == "selects":
        keys = np.where(at % GROUP == 0, keys, -1 - 2 * at - of_first)
    return pa.record_batch([pa.array(at), pa.array(keys), pa.array(at)], schema=ROW)


def _third(number: int) -> pa.RecordBatch:
    """Rows of the third source: one in four groups has a partner."""
    at = np.arange(number * ROWS, (number + 1) * ROWS)
    keys = np.where(at % (4 * GROUP) == 0, at // GROUP, -1 - at)
    return pa.record_batch([pa.array(at), pa.array(keys), pa.array(at)], schema=ROW)
