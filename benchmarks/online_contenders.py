"""Who sorts while the stream flows: our sorter, and all that it is compared with (figure 8)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from measure import Taken
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
from other_numpy import SUFFIX, held
from paper_impatience import PaperImpatience
from rivals import numpy_packed, numpy_stable
from slackwater.kernels.sorting.impatience_sort import ImpatienceSorter

if TYPE_CHECKING:
    from collections.abc import Callable

    from online_rivals import Sink
    from other_numpy import OtherNumpy


class Contender(Protocol):
    """Something that goes on along a stream."""

    def advance(self, events: int) -> Taken | None:
        """Take the next events, hand out what their punctuations release; say how long it took if done elsewhere."""


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


OURS = "kernel"
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

PAPER = {"paper's Impatience": Entry(lambda feed, sink, _: PaperImpatience(feed, sink))}
"""The algorithm that ours is made after."""

ALL = {**CONTENDERS, **RIVALS, **PAPER, **PACKED, **BATCHED, **MIXED}
"""Everybody."""

_VECTORISED = (*PACKED, *MIXED, "packed suffix/batch")


# ---- NumPy without AVX-512 -------------------------------------------------------------------------------------------


class Elsewhere:
    """A contender in the process of the other NumPy, which has been given the times and their order."""

    def __init__(self, other: OtherNumpy, name: str, feed: Feed, slice_events: int) -> None:
        self.other, self.name = other, name
        other.call(_make_here, name, feed.start, feed.every, feed.latency, slice_events)

    def advance(self, events: int) -> Taken:
        """Take the next events; the time is measured there."""
        taken: Taken = self.other.call(_advance_here, self.name, events)
        return taken


def elsewhere(other: OtherNumpy | None) -> dict[str, Entry]:
    """The contenders that NumPy's vectorised sort decides on, once more without AVX-512."""
    if other is None:
        return {}

    def entry(name: str) -> Entry:
        return Entry(lambda feed, _, events: Elsewhere(other, name, feed, events), ALL[name].batched)

    return {f"{name}{SUFFIX}": entry(name) for name in _VECTORISED}


def _make_here(name: str, start: int, every: int, latency: int, slice_events: int) -> None:
    times, order = held()["columns"]["at"], held()["columns"]["order"]
    held()[name] = ALL[name].make(Feed(times, order, start, every, latency), lambda _: None, slice_events)


def _advance_here(name: str, events: int) -> Taken:
    begun = time.perf_counter()
    held()[name].advance(events)
    return Taken(time.perf_counter() - begun)
