"""Sorting: the whole operator as users call it first; then its kernel beside the paper's algorithm, and its memory.

    sort_whole     a table in memory, sort(patience).run(), beside NumPy, Polars, Arrow and DuckDB
    sort_batches   the operator while the stream flows, by the size of batches
    sort_memory    what it holds, and by how much a process grows
    sort_kernel    times in, times and rows out: the algorithm alone (figure 7)
    sort_online    the same with a punctuation every f events (figure 8)
    sort_paper     the paper's algorithm, event by event (figures 2, 5 and 7)

Paper: Chandramouli, Goldstein, Li. Impatience Is a Virtue. ICDE 2018, section VI-B.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sort_batches
import sort_kernel
import sort_memory
import sort_online
import sort_online_real
import sort_paper
import sort_whole
from other_numpy import OtherNumpy, avx512
from sort_streams import CHOSEN, GENERATORS, QUICKLY, describe, real_streams

if TYPE_CHECKING:
    from measure import Report

_EVENTS = 5_000_000
"""Events of the full run: 200 MB as a table, which no cache holds, and all shapes are done within a coffee break."""

_FLOWING = 6_000_000
"""Events of the streams that flow: phones fill a buffer with 1.7 million before anything is measured."""


def run(report: Report, *, quick: bool) -> None:
    """Measure everything, NumPy with and without AVX-512 where it uses that."""
    other = OtherNumpy(avx512()) if avx512() else None
    report.figures["numpy_measured_twice"] = int(other is not None)
    try:
        (_short if quick else _full)(report, other)
    finally:
        if other is not None:
            other.close()


def _short(report: Report, other: OtherNumpy | None) -> None:
    real = real_streams()
    # Phones fill a buffer with 1.7 million events before anything is measured.
    short = {"android_like": 4_500_000}
    streams = {name: GENERATORS[name](short.get(name, 2_000_000)) for name in CHOSEN}
    sort_whole.run(report, QUICKLY, 1_000_000, 3, other)
    sort_whole.real(report, real, 3, other)
    flowing = {name: streams[name] for name in ("s30_64", "cloud_like")}
    sort_batches.run(report, flowing, sort_batches.SIZES[:-1], other, rounds=3, budget=0.01)
    sort_memory.run(report, ("cloud_like", "android_like"), 2_000_000)
    sort_kernel.run(report, QUICKLY, 1_000_000, 3, other, slow=False)
    sort_kernel.real(report, real, 3, other)
    sort_online.run(report, streams, [10, 100, 1_000, 100_000], other, quick=True)
    sort_paper.ablations(report, 500_000, 3)
    sort_paper.pictures(report, streams["cloud_like"], real)


def _full(report: Report, other: OtherNumpy | None) -> None:
    real = real_streams()
    streams = {name: GENERATORS[name](_FLOWING) for name in CHOSEN}
    describe(report, "the streams", ((n, make(_EVENTS)) for n, make in GENERATORS.items()), CHOSEN)
    describe(report, "the real streams (lateness in microseconds)", real.items(), real)
    sort_whole.run(report, tuple(GENERATORS), _EVENTS, 5, other)
    sort_whole.real(report, real, 15, other)
    sort_batches.run(report, streams, sort_batches.SIZES, other, rounds=5, budget=0.1)
    sort_memory.run(report, CHOSEN, _FLOWING)
    sort_kernel.run(report, tuple(GENERATORS), _EVENTS, 5, other, slow=True)
    sort_kernel.real(report, real, 15, other)
    sort_online.run(report, streams, [10, 100, 1_000, 100_000], other, quick=False)
    sort_online_real.run(report, real)
    sort_paper.ablations(report, _EVENTS, 3)
    sort_paper.pictures(report, streams["cloud_like"], real)
