"""How long an event waits in a merge, in milliseconds: R3, which sends at once, and Cleanse before R1 (section VI-D).

Two replicas send 5,000 elements per second each, on a clock of their own making; what has arrived is merged two hundred
times a second, in batches of 25 elements. How long a merge takes is measured, and the clock goes on by that much: who
is too slow falls behind. The latency of an event runs from the arrival of its first insert, in whichever replica, to
the moment that it has gone out; up to five milliseconds of it are waiting for the batch. Cleanse holds an event until
it is frozen, so that its latency grows with the lifetime of events.
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

import numpy as np

from merge_feeding import REVISED, empty_like
from replicated import Generator
from slackwater.events.kinds import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from measure import Report
    from merge_feeding import Merge
    from replicated import Replica
    from slackwater.events.batch import EventBatch

    Seconds = NDArray[np.float64]

RATE = 5_000
"""Elements per second of each replica."""

TICK = 0.005
"""Seconds of arrivals that make a batch."""

LIFETIMES = {"20ms": 100, "200ms": 1_000, "2s": 10_000}
"""How long events last, and how many are alive then."""

_REPLICAS = 2


def run(report: Report, seconds: int) -> None:
    """Measure both ways with events of each lifetime."""
    rows = []
    series: dict[str, dict[str, list[float]]] = {}
    for lifetime, alive in LIFETIMES.items():
        generator = Generator(seconds * RATE, stable_freq=0.01, alive=alive, disorder=0.2)
        replicas = [generator.replica(seed) for seed in range(1, _REPLICAS + 1)]
        for name in ("R3", "C+R1"):
            waited = 1e3 * _latencies(REVISED[name], replicas)
            found = [float(waited.mean()), *(float(np.percentile(waited, part)) for part in (50, 99))]
            rows.append([lifetime, name, *found, f"{len(waited) / generator.events:.1%}"])
            series.setdefault(name, {})[lifetime] = [round(value, 3) for value in found]
    report.table(
        f"latency of events of two replicas, {RATE:,} elements/s each, merged every {1e3 * TICK:.0f} ms: milliseconds",
        ("lifetime", "variant", "mean", "median", "99 %", "events that went out"),
        rows,
    )
    for name, figure in (("R3", "r3"), ("C+R1", "cleanse")):
        for lifetime in LIFETIMES:
            report.figures[f"{figure}_latency_ms_mean_lifetime_{lifetime}"] = round(series[name][lifetime][0], 2)
    report.figures["r3_latency_ms_99pct_lifetime_2s"] = round(series["R3"]["2s"][2], 2)
    report.series["latency"] = series


def _latencies(variant: Callable[..., Merge], replicas: Sequence[Replica]) -> Seconds:
    """The latency of every event that has gone out, in seconds."""
    came, starts = _first_arrivals(replicas)
    ticks = max(map(len, replicas)) // round(RATE * TICK) + 1
    edges = [np.minimum(np.arange(ticks + 1) * round(RATE * TICK), len(replica)).tolist() for replica in replicas]
    slices = [replica.cut_at(edge) for replica, edge in zip(replicas, edges, strict=True)]
    warm = variant(len(replicas), empty_like(slices[0][0]))
    for together in zip(*(batches[:20] for batches in slices), strict=True):
        for port, batch in enumerate(together):
            warm.on_batch(port, batch)  # compiled loops are loaded when they are called first
    merge, now = variant(len(replicas), empty_like(slices[0][0])), 0.0
    went = np.full(len(came), np.nan)
    gc.collect()
    for tick, together in enumerate(zip(*slices, strict=True)):
        now = max(now, (tick + 1) * TICK)
        for port, batch in enumerate(together):
            begun = time.perf_counter()
            outs = merge.on_batch(port, batch).batches
            now += time.perf_counter() - begun
            for out in outs:
                went[np.searchsorted(starts, _inserted(out))] = now
    waited = went - came
    return waited[~np.isnan(waited)]


def _first_arrivals(replicas: Sequence[Replica]) -> tuple[Seconds, NDArray[np.int64]]:
    """When each event came in first, in seconds, and its start, which no other event has."""
    events = max(int(replica.row.max()) for replica in replicas) + 1
    came, starts = np.full(events, np.inf), np.zeros(events, dtype=np.int64)
    for replica in replicas:
        places = np.flatnonzero(replica.kind != Kind.PUNCTUATE)
        inserts = replica.kind[places] == Kind.INSERT
        rows = replica.row[inserts]
        came[rows] = np.minimum(came[rows], places[inserts] / RATE)
        starts[rows] = replica.start[places[inserts]]
    return came, starts


def _inserted(batch: EventBatch) -> NDArray[np.int64]:
    """The starts of the events that a batch inserts."""
    data = batch.data()
    return data.start if data.kind is None else data.start[data.kinds() == Kind.INSERT]
