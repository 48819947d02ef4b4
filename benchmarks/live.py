"""Feeds live sources in real time from a thread of its own, and watches what comes out of a query, and when."""

from __future__ import annotations

import gc
import random
import statistics
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROW = pa.schema({"pushed_ns": pa.int64(), "draw": pa.float64(), "key": pa.int64()})
"""What is sent: when it was pushed, a uniform draw for the selection, and a key to match on."""


@dataclass(frozen=True, order=True)
class Arrival:
    """A row to come: when, on which stream, its draw and its key."""

    at: float
    stream: int
    draw: float
    key: int


def poisson(rates: Sequence[float], seconds: float, seed: int) -> list[Arrival]:
    """Arrivals of independent Poisson streams; the number of the stream is the key of its rows."""
    rng = random.Random(seed)

    def one(stream: int, rate: float) -> Iterator[Arrival]:
        at = rng.expovariate(rate)
        while at < seconds:
            yield Arrival(at, stream, rng.random(), stream)
            at += rng.expovariate(rate)

    return sorted(arrival for stream, rate in enumerate(rates) for arrival in one(stream, rate))


@dataclass
class Watched:
    """What was seen of one live run."""

    latencies_ms: list[float] = field(default_factory=list)
    idle_fraction: float = 0.0
    peak_queue: int = 0

    @property
    def mean_ms(self) -> float:
        """The mean time from the push of a row to its appearance at the sink."""
        return statistics.fmean(self.latencies_ms)

    def see(self, rows: pa.RecordBatch) -> None:
        """Take rows at the sink; a pair is as old as the younger of its rows."""
        now = time.time_ns()
        columns = [rows.column(name).to_pylist() for name in rows.schema.names if name.startswith("pushed_ns")]
        self.latencies_ms += [(now - max(pushed)) / 1e6 for pushed in zip(*columns, strict=True)]


@dataclass(frozen=True)
class Scenario:
    """A stream to watch, the live sources that feed it, and what is to arrive on them."""

    stream: sw.OrderedStream
    sources: Sequence[sw.PushSource]
    arrivals: Sequence[Arrival]


def watch(scenarios: Sequence[Scenario], seconds: float, verb: str) -> list[Watched]:
    """Run scenarios side by side in one query, in real time, fed by another thread.

    They share nothing but the machine and its mood, so that small differences between them can be seen. `verb` names
    the step of each, in their order, whose idle-waiting is measured.
    """
    watched = [Watched() for _ in scenarios]
    query = sw.Query([(scenario.stream, seen.see) for scenario, seen in zip(scenarios, watched, strict=True)])
    query.work()
    fed = threading.Event()
    feeder = threading.Thread(target=_feed, args=(scenarios, seconds, fed))
    gc.collect()
    gc.freeze()
    begun = time.perf_counter()
    feeder.start()
    while not fed.is_set():
        query.work()
        query.wait_for_more()
    elapsed = time.perf_counter() - begun
    counters = query.counters()
    for number, seen in enumerate(watched, start=1):
        seen.idle_fraction = counters[f"{verb}#{number}"].idle_waiting / 1e6 / elapsed
        seen.peak_queue = query.peak_queued
    query.close()
    feeder.join()
    gc.unfreeze()
    return watched


def _feed(scenarios: Sequence[Scenario], seconds: float, fed: threading.Event) -> None:
    due = sorted(
        ((arrival, scenario) for scenario in scenarios for arrival in scenario.arrivals), key=lambda pair: pair[0]
    )
    begun = time.perf_counter()
    for arrival, scenario in due:
        _sleep_until(begun + arrival.at)
        row = pa.record_batch([[time.time_ns()], [arrival.draw], [arrival.key]], schema=ROW)
        scenario.sources[arrival.stream].push(row)
    _sleep_until(begun + seconds)
    fed.set()
    for scenario in scenarios:
        for source in scenario.sources:
            source.close()


def _sleep_until(instant: float) -> None:
    left = instant - time.perf_counter()
    if left > 0:
        time.sleep(left)
