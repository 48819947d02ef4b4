"""The whole operator while the stream flows, by the size of the batches that come in.

`sw.stream(reader, time="at").sort(patience, every=rows of a batch).for_each(...)`: the reader hands over batches of a
size, each with a punctuation at its end. The clock runs from the moment that the first batch is asked for, with the
buffer filled by a stretch of the stream as long as the patience, until the next is asked for after the last.

Rivals sort each batch and merge it into a sorted buffer (see online_rivals.py), and take the four columns of what is
released from the whole columns, which lie in memory for them: they need no plan, no rows held, no Arrow. "kernel" is
our sorter fed like them, "paper" the paper's Impatience sort: what the operator would cost without all around it.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import disordered
import slackwater as sw
from measure import Taken, interleaved, times_slower
from online_rivals import CompiledAdaptor, CompiledHeap, Feed, MixedAdaptor, PaperAdaptor, SuffixAdaptor
from other_numpy import SUFFIX, held
from paper_impatience import PaperImpatience
from polars_buffer import PolarsBuffer
from rivals import numpy_packed
from slackwater.kernels.sorting.impatience_sort import ImpatienceSorter
from sort_streams import latency_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from measure import Report
    from online_rivals import Chunk, Sink
    from other_numpy import OtherNumpy

    Columns = Mapping[str, NDArray[Any]]

OURS = "slackwater"
SIZES = (64, 256, 1_024, 4_096, 65_536, 262_144)
"""Rows of a batch; the runner never takes more than the last at once."""

_PAYLOAD = ("group", "a", "b", "c")
_PREFIX = 65_536  # rows of the batches that fill the buffer


class Kernel:
    """The library's sorter fed as the others are: a batch, then a release."""

    def __init__(self, feed: Feed, sink: Sink) -> None:
        self.at, self.feed, self.sink = feed.start, feed, sink
        self.sorter = ImpatienceSorter()
        self.sorter.add(feed.times[: feed.start])
        self.sorter.release(feed.opening)

    def advance(self, events: int) -> None:
        """Take the next batch."""
        stop = self.at + events
        self.sorter.add(self.feed.times[self.at : stop])
        for chunk in self.sorter.release(int(self.feed.between(self.at, stop)[-1])):
            self.sink(chunk)
        self.at = stop


RIVALS: dict[str, Callable[[Feed, Sink], Any]] = {
    "numpy adaptor": PaperAdaptor,
    "numpy suffix": SuffixAdaptor,
    "packed suffix": partial(SuffixAdaptor, sort=numpy_packed),
    "compiled adaptor": lambda feed, sink: CompiledAdaptor(feed, sink, feed.every),
    "compiled heap": lambda feed, sink: CompiledHeap(feed, sink, feed.every),
    "mixed": partial(MixedAdaptor, sort=numpy_packed),
}
"""Adaptors and a heap, called once for a batch."""

_VECTORISED = ("packed suffix", "mixed")
"""Those that NumPy's vectorised sort decides on: measured with and without AVX-512, where NumPy uses it."""

MARKS: dict[str, Callable[[Feed, Sink], Any]] = {"paper": PaperImpatience, "kernel": Kernel}
"""Parts of this library without the operator around them: shown, and not counted as rivals."""


def run(
    report: Report,
    streams: Mapping[str, NDArray[np.int64]],
    sizes: Sequence[int],
    other: OtherNumpy | None,
    *,
    rounds: int,
    budget: float,
) -> None:
    """Measure streams with batches of every size; each contender gets about so many seconds for a round."""
    rows = []
    speeds: dict[str, dict[int, dict[str, float]]] = {}
    ratios: dict[int, list[float]] = {size: [] for size in sizes}
    for name, times in streams.items():
        columns: Columns = {"at": times, **disordered.payload(len(times), groups=100)}
        order = np.argsort(times, kind="stable")
        speeds[name] = {}
        _check(_feed(times, order, 1_000), pa.table(columns))
        if other is not None:
            other.give({**columns, "order": order})
        for size in sizes:
            taken = _measured(_feed(times, order, size), columns, other, rounds, budget)
            slower = {rival: times_slower(taken[rival], taken[OURS]) for rival in taken}
            best = min((r for r in slower if r != OURS and r not in MARKS), key=slower.__getitem__)
            ratios[size].append(slower[best])
            speeds[name][size] = {c: float(f"{1e3 / np.median(ns):.4g}") for c, ns in taken.items()}
            rows.append([name, f"{size:,}", *speeds[name][size].values(), best, slower[best]])
    contenders = tuple(next(iter(speeds.values()))[sizes[0]])
    report.table(
        "the whole operator online, a punctuation at the end of each batch, five columns, M events/s",
        ("data", "batch", *contenders, "best rival", "ratio"),
        rows,
    )
    report.series["whole_online"] = speeds
    for size, found in ratios.items():
        report.figures[f"whole_online_min_ratio_batches_{size}"] = round(min(found), 3)
        mevents = [by_size[size][OURS] for by_size in speeds.values()]
        report.figures[f"whole_online_mevents_per_s_batches_{size}_least"] = round(min(mevents), 2)
        report.figures[f"whole_online_mevents_per_s_batches_{size}_most"] = round(max(mevents), 2)


def _feed(times: NDArray[np.int64], order: NDArray[np.int64], size: int) -> Feed:
    latency = latency_of(times)
    filled = int(np.argmax(np.maximum.accumulate(times) >= times[0] + latency))
    return Feed(times, order, (filled // _PREFIX + 1) * _PREFIX, size, latency)


def _measured(
    feed: Feed, columns: Columns, other: OtherNumpy | None, rounds: int, budget: float
) -> dict[str, list[float]]:
    """Nanoseconds per event of each contender in each round; every round goes on where the last one ended."""
    batches = _whole_batches(feed, rounds, budget)
    events = batches * feed.every
    gather = partial(_gathered, columns)
    rivals: dict[str, Any] = {
        **{name: make(feed, gather) for name, make in RIVALS.items()},
        **({f"{name}{SUFFIX}": Elsewhere(other, name, feed) for name in _VECTORISED} if other else {}),
        "polars": PolarsBuffer(feed, columns),
        **{name: make(feed, gather) for name, make in MARKS.items()},
    }
    portions = {name: _portion(rival, feed.every, batches, budget) for name, rival in rivals.items()}
    work: dict[str, Callable[[], Any]] = {OURS: partial(_ours, feed, pa.table(dict(columns)), batches)}
    work |= {name: partial(_advance, rival, feed.every, portions[name]) for name, rival in rivals.items()}
    taken = interleaved(work, rounds, warm_up=0)
    per = {name: feed.every * portions.get(name, batches) for name in work}
    assert events <= len(feed.times) - feed.start
    return {name: [1e9 * seconds / per[name] for seconds in by] for name, by in taken.items()}


def _whole_batches(feed: Feed, rounds: int, budget: float) -> int:
    """How many batches a round has: what fits into the budget at 100 microseconds each, and into the stream."""
    room = len(feed.bounds) // (rounds + 2)
    return max(1, min(room, int(budget / 100e-6)))


def _portion(rival: Any, size: int, batches: int, budget: float) -> int:
    """How many batches of a round a rival takes, of which the first warmed it up: as many as fit into its budget."""
    begun = time.perf_counter()
    rival.advance(size)
    taken = time.perf_counter() - begun
    return max(1, min(batches, int(budget / taken)))


def _advance(rival: Any, size: int, batches: int) -> Taken | None:
    if isinstance(rival, Elsewhere):
        return rival.advance(size, batches)
    for _ in range(batches):
        rival.advance(size)
    return None


def _gathered(columns: Columns, chunk: Chunk) -> None:
    for name in _PAYLOAD:
        columns[name].take(chunk[1])


class Elsewhere:
    """A rival in the process of the other NumPy, which has been given the columns and the order of the times."""

    def __init__(self, other: OtherNumpy, name: str, feed: Feed) -> None:
        self.other, self.name = other, name
        other.call(_make_here, name, feed.start, feed.every, feed.latency)

    def advance(self, size: int, batches: int = 1) -> Taken:
        """Take the next batches; the time is measured there."""
        taken: Taken = self.other.call(_advance_here, self.name, size, batches)
        return taken


def _make_here(name: str, start: int, every: int, latency: int) -> None:
    columns = held()["columns"]
    feed = Feed(columns["at"], columns["order"], start, every, latency)
    held()[name] = RIVALS[name](feed, partial(_gathered, columns))


def _advance_here(name: str, size: int, batches: int) -> Taken:
    begun = time.perf_counter()
    _advance(held()[name], size, batches)
    return Taken(time.perf_counter() - begun)


def _check(feed: Feed, table: pa.Table) -> None:
    """The operator must hand out what the stable argsort says, columns and all."""
    made: list[pa.RecordBatch] = []
    _ours(feed, table, batches=20, sink=made.append)
    some = table.slice(0, feed.start + 20 * feed.every)
    right = some.take(pa.array(np.argsort(some["at"].to_numpy(), kind="stable")))
    assert pa.Table.from_batches(made).select(some.column_names).equals(right), "the operator hands out something else"


def _ours(feed: Feed, table: pa.Table, batches: int, sink: Callable[[pa.RecordBatch], Any] = lambda _: None) -> Taken:
    """The operator on the same stretch of the stream: the time from the first whole batch to the end of the last."""
    marks: list[float] = []

    def handed_over() -> Iterator[pa.RecordBatch]:
        yield from table.slice(0, feed.start).to_batches(_PREFIX)
        rows = table.slice(feed.start, feed.every * batches).to_batches(feed.every)
        marks.append(time.perf_counter())
        yield from rows
        marks.append(time.perf_counter())

    reader = pa.RecordBatchReader.from_batches(table.schema, handed_over())
    every = sw.Every.rows(feed.every)
    sw.stream(reader, time="at").sort(feed.latency, every=every).for_each(sink)
    return Taken(marks[1] - marks[0])
