"""Sorting while the stream flows, with a punctuation every f events (Impatience paper, figure 8).

Every contender goes on along the same stream from the same state, with its buffer filled; each round takes the next
slice. Contenders that are too slow for a slice take as much of it as fits into a time budget.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from measure import interleaved, medians, times_slower
from online_rivals import (
    BATCH,
    CompiledAdaptor,
    CompiledHeap,
    Feed,
    MixedAdaptor,
    PaperAdaptor,
    PythonHeap,
    SuffixAdaptor,
    places_of,
)
from rivals import numpy_packed, numpy_stable
from slackwater.kernels.impatience_sort import ImpatienceSorter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from measure import Report
    from online_rivals import Chunk, Sink

    Column = NDArray[np.int64]


class Contender(Protocol):
    """Something that goes on along a stream."""

    def advance(self, events: int) -> None:
        """Take the next events, hand out what their punctuations release."""


class Ours:
    """The library's sorter, fed as the sort operator feeds it: batches, with all punctuations of a batch at once."""

    def __init__(self, feed: Feed, sink: Sink) -> None:
        self.at = feed.start
        self.feed = feed
        self.sink = sink
        self.sorter = ImpatienceSorter()
        self.sorter.add(feed.times[: feed.start])
        self.sorter.release(feed.opening)

    def advance(self, events: int) -> None:
        """Take the next events."""
        end = self.at + events
        for begun in range(self.at, end, BATCH):
            stop = min(begun + BATCH, end)
            self.sorter.add(self.feed.times[begun:stop])
            bounds = self.feed.between(begun, stop)
            if len(bounds):
                chunks = self.sorter.release(int(bounds[-1]))
                places_of(bounds, chunks)
                for chunk in chunks:
                    self.sink(chunk)
        self.at = end


@dataclass(frozen=True)
class Entry:
    """How a contender is made (for a feed, a sink, and the most events of an advance), and how it is fed."""

    make: Callable[[Feed, Sink, int], Contender]
    batched: bool = False

    def unit(self, feed: Feed) -> int:
        """The events that one advance must be a multiple of, so that every advance has its share of punctuations."""
        return -(-feed.every // BATCH) * BATCH if self.batched else feed.every


OURS = "slackwater"
CONTENDERS = {OURS: Entry(lambda feed, sink, _: Ours(feed, sink), batched=True)}
"""What all others are compared with."""

RIVALS = {
    "numpy adaptor": Entry(lambda feed, sink, _: PaperAdaptor(feed, sink)),
    "numpy suffix": Entry(lambda feed, sink, _: SuffixAdaptor(feed, sink)),
    "compiled adaptor": Entry(CompiledAdaptor),
    "compiled heap": Entry(CompiledHeap),
    "heapq": Entry(lambda feed, sink, _: PythonHeap(feed, sink)),
}
"""Rivals that do their work at every punctuation, as the paper has it."""

PACKED = {"packed suffix": Entry(lambda feed, sink, _: SuffixAdaptor(feed, sink, numpy_packed))}
"""The same with packed keys, which NumPy sorts with all that the processor has."""

BATCHED = {
    "numpy adaptor/batch": Entry(lambda feed, sink, _: PaperAdaptor(feed, sink, numpy_stable, BATCH), batched=True),
    "numpy suffix/batch": Entry(lambda feed, sink, _: SuffixAdaptor(feed, sink, numpy_stable, BATCH), batched=True),
    "packed suffix/batch": Entry(lambda feed, sink, _: SuffixAdaptor(feed, sink, numpy_packed, BATCH), batched=True),
}
"""The NumPy adaptors with our way of feeding: one sort and merge for a batch, punctuations looked up afterwards."""

MIXED = {
    "mixed": Entry(lambda feed, sink, _: MixedAdaptor(feed, sink, numpy_packed)),
    "mixed/batch": Entry(lambda feed, sink, _: MixedAdaptor(feed, sink, numpy_packed, BATCH), batched=True),
}
"""NumPy's sort with a compiled merge: nobody has it ready-made; it marks how far an adaptor can be driven."""


def latency_of(times: Column) -> int:
    """The greatest lateness: with this latency no event is late, and all contenders hand out all events."""
    return int((np.maximum.accumulate(times) - times).max())


def run(report: Report, streams: Mapping[str, Column], frequencies: list[int], *, quick: bool) -> None:
    """Measure every stream at every punctuation frequency."""
    entries = {**CONTENDERS, **RIVALS, **PACKED, **BATCHED, **MIXED}
    if quick:
        for name in ("heapq", "numpy suffix", "numpy adaptor/batch", "numpy suffix/batch", "mixed"):  # seldom the best
            del entries[name]
    rows: list[list[Any]] = []
    ratios: dict[str, dict[int, dict[str, float]]] = {}
    speeds: dict[str, dict[int, dict[str, float]]] = {}
    for name, times in streams.items():
        order = np.argsort(times, kind="stable")
        feeds = [_feed(times, order, every) for every in frequencies]
        _check(feeds, entries)
        ratios[name], speeds[name] = {}, {}
        for feed in feeds:
            rounds, shortened = _measure(feed, entries, rounds=5, budget=0.02 if quick else 0.4)
            nanoseconds, slower = medians(rounds), {r: times_slower(rounds[r], rounds[OURS]) for r in rounds}
            speeds[name][feed.every] = {name: float(f"{1e3 / taken:.4g}") for name, taken in nanoseconds.items()}
            ratios[name][feed.every] = {
                kind: min((slower[rival] for rival in rivals if rival in slower), default=float("inf"))
                for kind, rivals in (("rivals", RIVALS), ("packed", PACKED), ("batched", BATCHED), ("mixed", MIXED))
            }
            best = min(RIVALS, key=lambda rival: slower.get(rival, float("inf")))
            cells = [_speed(nanoseconds.get(contender), contender in shortened) for contender in entries]
            rows.append([name, f"{feed.every:,}", nanoseconds[OURS], *cells, best, ratios[name][feed.every]["rivals"]])
    report.table(
        "online, M events/s with a punctuation every f events (~: on a part of the slice, for it is slow)",
        ("data", "f", "ns/event", *entries, "best rival", "ratio"),
        rows,
    )
    report.series["online"] = speeds
    _figures(report, ratios)
    for name, by_frequency in speeds.items():
        report.figures[f"online_ns_{name}_f1000"] = round(1e3 / by_frequency[1_000][OURS], 2)


def _figures(report: Report, ratios: Mapping[str, Mapping[int, Mapping[str, float]]]) -> None:
    every = [(name, f, ratio) for name, by_frequency in ratios.items() for f, ratio in by_frequency.items()]
    report.figures |= {
        "online_min_ratio_f1000_up": _least(ratio["rivals"] for _, f, ratio in every if f >= 1_000),
        "online_min_ratio_small_f": _least(ratio["rivals"] for _, f, ratio in every if f < 1_000),
        "android_online_min_ratio": _least(ratio["rivals"] for name, _, ratio in every if name == "android_like"),
        "online_min_ratio_vs_packed_adaptor": _least(ratio["packed"] for *_, ratio in every),
        "online_min_ratio_vs_batched_adaptor": _least(ratio["batched"] for *_, ratio in every),
        "online_min_ratio_vs_mixed": _least(ratio["mixed"] for *_, ratio in every),
    }


def _least(ratios: Any) -> float:
    return round(min(ratios), 2)


def _speed(nanoseconds: float | None, shortened: bool) -> str:
    return "-" if nanoseconds is None else f"{'~' if shortened else ''}{1e3 / nanoseconds:.3g}"


def _feed(times: Column, order: Column, every: int) -> Feed:
    """The stream from where its buffer is full: a latency after its beginning, and at a whole number of batches."""
    latency = latency_of(times)
    filled = int(np.argmax(np.maximum.accumulate(times) >= times[0] + latency))
    return Feed(times, order, (filled // BATCH + 1) * BATCH, every, latency)


def _check(feeds: list[Feed], entries: Mapping[str, Entry]) -> None:
    """Compare what is handed out with the stable argsort: ours on the whole stream, rivals on the beginning."""
    middle = min(feeds, key=lambda feed: abs(feed.every - 10_000))
    for name, entry in entries.items():
        for feed in (feeds[0], feeds[-1]) if name == OURS else (middle,):
            if name != OURS and entry.batched and feed.every > BATCH:
                continue
            unit = entry.unit(feed)
            most = len(feed.times) - feed.start if name == OURS else 200_000
            _check_one(name, entry, feed, max(most // unit, 1) * unit)


def _check_one(name: str, entry: Entry, feed: Feed, events: int) -> None:
    kept: list[Chunk] = []
    contender = entry.make(feed, lambda chunk: kept.append((chunk[0].copy(), chunk[1].copy())), events)
    contender.advance(events)
    expected = feed.released(feed.start + events)
    for made, right in zip(zip(*kept, strict=True), expected, strict=True):
        assert np.array_equal(np.concatenate(made), right), f"{name} hands out something else than the stable argsort"


def _measure(
    feed: Feed, entries: Mapping[str, Entry], rounds: int, budget: float
) -> tuple[dict[str, list[float]], set[str]]:
    """Nanoseconds per event of each contender in each round, and who was measured on less than the slice."""
    taking_part = {
        name: entry
        for name, entry in entries.items()
        # With fewer punctuations than batches, batches have nothing to gain.
        if name == OURS or not entry.batched or feed.every < BATCH
    }
    # One slice for each round, one for the warm-up, one to spare for what whole units round up.
    slice_events = len(feed.bounds) * feed.every // (rounds + 2)
    portions: dict[str, int] = {}
    work: dict[str, Callable[[], None]] = {}
    shortened = set()
    for name, entry in taking_part.items():
        contender = entry.make(feed, deque[Any](maxlen=1).append, max(slice_events, feed.every))
        unit = entry.unit(feed)
        whole = max(slice_events // unit, 1) * unit
        portions[name] = min(whole, max(int(budget * _warm_up(contender, unit, whole)) // unit, 1) * unit)
        work[name] = partial(contender.advance, portions[name])
        if portions[name] < whole:
            shortened.add(name)
    seconds = interleaved(work, repeats=rounds, warm_up=0)
    return {name: [1e9 * one / portions[name] for one in taken] for name, taken in seconds.items()}, shortened


def _warm_up(contender: Contender, unit: int, most: int) -> float:
    """Let a contender run for a while, on at most so many events; return its events per second."""
    events, done = unit, 0
    while True:
        begun = time.perf_counter()
        contender.advance(events)
        taken = time.perf_counter() - begun
        done += events
        if taken > 0.01 or done + 2 * events > most:
            return events / taken
        events *= 2


def real(report: Report, streams: Mapping[str, Column]) -> None:
    """Measure whole short streams, from the first event to the end, with a punctuation every thousand events."""
    entries = {**CONTENDERS, **RIVALS, **MIXED}
    for name in ("heapq", "mixed"):
        del entries[name]
    rounds = 9
    rows = []
    for name, stream in streams.items():
        times = stream[: len(stream) // 1_000 * 1_000]
        feed = Feed(times, np.argsort(times, kind="stable"), 0, 1_000, latency_of(times), ends=True)
        work = {}
        for contender, entry in entries.items():
            _check_one(contender, entry, feed, len(times))
            # A fresh one for every round, made beforehand: memory is not part of what is measured here.
            made = [entry.make(feed, deque[Any](maxlen=1).append, len(times)) for _ in range(rounds + 1)]
            work[contender] = partial(_advance_next, made, len(times))
        nanoseconds = {
            contender: 1e9 * taken / len(times)
            for contender, taken in medians(interleaved(work, repeats=rounds)).items()
        }
        best = min((rival for rival in RIVALS if rival in nanoseconds), key=nanoseconds.__getitem__)
        ratio = nanoseconds[best] / nanoseconds[OURS]
        rows.append([name, len(times), nanoseconds[OURS], *(1e3 / v for v in nanoseconds.values()), best, ratio])
    report.table(
        "real streams online, f = 1,000, M events/s",
        ("data", "events", "ns/event", *entries, "best rival", "ratio"),
        rows,
    )


def _advance_next(made: list[Contender], events: int) -> None:
    made.pop().advance(events)


def memory(report: Report, streams: Mapping[str, Column]) -> None:
    """The most that our sorter holds, looked at after every batch; the process holds the whole streams, too."""
    rows = []
    for name, times in streams.items():
        sorter = ImpatienceSorter()
        latency, high_water = latency_of(times), np.maximum.accumulate(times)
        held, waiting, resident = 0, 0, 0
        for begun in range(0, len(times), BATCH):
            # A copy, because a batch that is a view would count as the whole stream that it shows a part of.
            batch = times[begun : begun + BATCH].copy()
            sorter.add(batch)
            held, waiting = max(held, sorter.memory_bytes()), max(waiting, sorter.buffered)
            resident = max(resident, _resident_bytes())
            sorter.release(int(high_water[begun + len(batch) - 1]) - latency)
        rows.append([name, f"{waiting:,}", held / 2**20, held / waiting, resident / 2**20])
        report.figures[f"online_peak_mib_{name}"] = round(held / 2**20, 2)
    report.table(
        f"memory online, a punctuation for every batch of {BATCH:,} events",
        ("data", "most events waiting", "MiB held", "bytes per event", "whole process, MiB"),
        rows,
    )


def _resident_bytes() -> int:
    """What the process has in memory now; 0 where the system does not tell."""
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)
