"""The sort's kernel while the stream flows, with a punctuation every f events (Impatience paper, figure 8).

Every contender goes on along the same stream from the same state, with its buffer filled; each round takes the next
slice. Contenders that are too slow for a slice take as much of it as fits into a time budget. Ours is the sorter that
the operator uses, fed batches of 65,536 events; what the operator itself costs is in sort_batches.py.
"""

from __future__ import annotations

import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from measure import interleaved, least, medians, times_slower
from online_contenders import ALL, BATCHED, MIXED, OURS, PACKED, PAPER, RIVALS, elsewhere
from online_rivals import BATCH, Feed
from other_numpy import SUFFIX
from sort_streams import latency_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from measure import Report
    from online_contenders import Contender, Entry
    from online_rivals import Chunk
    from other_numpy import OtherNumpy

    Column = NDArray[np.int64]

_KINDS = {"rivals": RIVALS, "paper": PAPER, "packed": PACKED, "batched": BATCHED, "mixed": MIXED}
"""The contenders by what they stand for; the best of each kind is compared with ours."""


def run(
    report: Report, streams: Mapping[str, Column], frequencies: list[int], other: OtherNumpy | None, *, quick: bool
) -> None:
    """Measure every stream at every punctuation frequency."""
    entries = {**ALL, **elsewhere(other)}
    if quick:
        for name in ("heapq", "numpy suffix", "numpy adaptor/batch", "numpy suffix/batch", "mixed"):  # seldom the best
            entries = {shown: entry for shown, entry in entries.items() if shown.removesuffix(SUFFIX) != name}
    rows: list[list[Any]] = []
    ratios: dict[str, dict[int, dict[str, float]]] = {}
    speeds: dict[str, dict[int, dict[str, float]]] = {}
    for name, times in streams.items():
        order = np.argsort(times, kind="stable")
        if other is not None:
            other.give({"at": times, "order": order})
        feeds = [_feed(times, order, every) for every in frequencies]
        _check(feeds, entries)
        ratios[name], speeds[name] = {}, {}
        for feed in feeds:
            rounds, shortened = _measure(feed, entries, rounds=3 if quick else 5, budget=0.02 if quick else 0.4)
            nanoseconds, slower = medians(rounds), {r: times_slower(rounds[r], rounds[OURS]) for r in rounds}
            speeds[name][feed.every] = {name: float(f"{1e3 / taken:.4g}") for name, taken in nanoseconds.items()}
            ratios[name][feed.every] = {
                kind: min((v for rival, v in slower.items() if rival.removesuffix(SUFFIX) in of), default=float("inf"))
                for kind, of in _KINDS.items()
            }
            best = min(RIVALS, key=lambda rival: slower.get(rival, float("inf")))
            cells = [_speed(nanoseconds.get(contender), contender in shortened) for contender in entries]
            rows.append([name, f"{feed.every:,}", nanoseconds[OURS], *cells, best, ratios[name][feed.every]["rivals"]])
    report.table(
        f"the kernel online, batches of {BATCH:,}, M events/s with a punctuation every f events"
        " (~: on a part of the slice, for it is slow)",
        ("data", "f", "ns/event", *entries, "best rival", "ratio"),
        rows,
    )
    report.series["online"] = speeds
    _figures(report, ratios)
    for name, by_frequency in speeds.items():
        report.figures[f"kernel_online_ns_{name}_f1000"] = round(1e3 / by_frequency[1_000][OURS], 2)


def _figures(report: Report, ratios: Mapping[str, Mapping[int, Mapping[str, float]]]) -> None:
    every = [(name, f, ratio) for name, by_frequency in ratios.items() for f, ratio in by_frequency.items()]
    report.figures |= {
        "kernel_online_min_ratio_f1000_up": least(ratio["rivals"] for _, f, ratio in every if f >= 1_000),
        "kernel_online_min_ratio_small_f": least(ratio["rivals"] for _, f, ratio in every if f < 1_000),
        "kernel_online_min_ratio_android_like": least(r["rivals"] for name, _, r in every if name == "android_like"),
        "kernel_online_min_ratio_vs_paper_impatience": least(ratio["paper"] for *_, ratio in every),
        "kernel_online_max_ratio_vs_paper_impatience": round(max(ratio["paper"] for *_, ratio in every), 2),
        "kernel_online_min_ratio_vs_packed_adaptor": least(ratio["packed"] for *_, ratio in every),
        "kernel_online_min_ratio_vs_batched_adaptor": least(ratio["batched"] for *_, ratio in every),
        "kernel_online_min_ratio_vs_mixed": least(ratio["mixed"] for *_, ratio in every),
    }


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
        if name.endswith(SUFFIX):
            continue  # the same code in another process: what it hands out stays there
        for feed in (feeds[0], feeds[-1]) if name == OURS else (middle,):
            if name != OURS and entry.batched and feed.every > BATCH:
                continue
            unit = entry.unit(feed)
            most = len(feed.times) - feed.start if name == OURS else 200_000
            check_one(name, entry, feed, max(most // unit, 1) * unit)


def check_one(name: str, entry: Entry, feed: Feed, events: int) -> None:
    """Compare what a contender hands out with the stable argsort."""
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
    work: dict[str, Callable[[], Any]] = {}
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
