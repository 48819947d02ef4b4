"""Other ways to sort a stream while it flows, with a punctuation every f events.

Every contender is an object that goes on along a stream: `advance(events)` takes the next events with the punctuations
between them, and hands what each punctuation releases to a sink, in order. All of them start from the same state, the
events that are waiting at `Feed.start`; all decide ties by the order of arrival.

The adaptors are the paper's way to make any sort incremental (Impatience Is a Virtue, ICDE 2018, section VI-B): a
sorted buffer; at a punctuation the new events are sorted and merged into it, and what it releases is cut off.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from compiled_rivals import adapt, merge_backward, push_and_pop
from rivals import numpy_stable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    Column = NDArray[np.int64]
    Chunk = tuple[Column, Column]
    """Times and rows, sorted by time, then row."""

    Sink = Callable[[Chunk], Any]
    """Takes what is released. The chunk is only valid until the contender advances."""

BATCH = 65_536
"""Events of a batch, where a contender is fed batches with several punctuations each, as an operator is."""

BEGINNING, FOREVER = -(2**63), 2**63 - 1
"""Before all times, after all times."""


@dataclass(frozen=True)
class Feed:
    """A stream with its punctuations: after `start`, one every `every` events, the high water minus the latency."""

    times: Column
    order: Column
    """The stable argsort of all times, known beforehand: it tells what every contender must hand out."""

    start: int
    every: int
    latency: int
    ends: bool = False
    """Whether the last punctuation is the end of the stream, which releases everything."""

    @cached_property
    def bounds(self) -> Column:
        """What the punctuations after `start` say is complete."""
        bounds = np.maximum.accumulate(self.times)[self.start + self.every - 1 :: self.every] - self.latency
        if self.ends:
            bounds[-1] = FOREVER
        return bounds

    @cached_property
    def opening(self) -> int:
        """What was complete at `start`."""
        return int(self.times[: self.start].max()) - self.latency if self.start else BEGINNING

    def between(self, begun: int, stop: int) -> Column:
        """The punctuations that come after event number `begun` and not after `stop`."""
        return self.bounds[(begun - self.start) // self.every : (stop - self.start) // self.every]

    @cached_property
    def waiting(self) -> Chunk:
        """What waits at `start`, sorted."""
        return self._from(self.start, self.opening, FOREVER)

    @cached_property
    def most_waiting(self) -> int:
        """The most events that ever wait, the new ones included: what a buffer must have room for."""
        seen = self.start + self.every * np.arange(1, len(self.bounds) + 1)
        released = np.searchsorted(self.times.take(self.order), self.bounds)
        return max(int((seen - released).max()), len(self.waiting[0])) + self.every

    def released(self, stop: int) -> Chunk:
        """What must have been handed to the sink between `start` and event number `stop`."""
        bounds = self.between(self.start, stop)
        return self._from(stop, self.opening, int(bounds[-1]) if len(bounds) else self.opening)

    def _from(self, stop: int, low: int, high: int) -> Chunk:
        """The first `stop` events with times in [low, high), sorted."""
        rows = self.order[self.order < stop]
        times = self.times.take(rows)
        first, last = np.searchsorted(times, [low, high])
        return times[first:last], rows[first:last]


def places_of(bounds: Column, chunks: Sequence[Chunk]) -> Column:
    """Where punctuations fall in what was released: how many events come before each of them."""
    places = np.empty(len(bounds), dtype=np.int64)
    placed, before = 0, 0
    for times, _ in chunks:
        if not len(times):
            continue
        reached = int(np.searchsorted(bounds, times[-1], side="right"))
        places[placed:reached] = before + np.searchsorted(times, bounds[placed:reached])
        placed, before = reached, before + len(times)
    places[placed:] = before
    return places


def _merged(old: Chunk, new: Chunk) -> Chunk:
    """Merge two sorted chunks with NumPy, in the way that is faster for their sizes."""
    (old_times, old_rows), (new_times, new_rows) = old, new
    if 8 * len(new_times) < len(old_times):
        at = np.searchsorted(old_times, new_times, side="right")
        at += np.arange(len(at))
        times = np.empty(len(old_times) + len(new_times), dtype=np.int64)
        rows = np.empty_like(times)
        is_old = np.ones(len(times), dtype=np.bool_)
        is_old[at] = False
        times[at], rows[at] = new_times, new_rows
        times[is_old], rows[is_old] = old_times, old_rows
        return times, rows
    times = np.concatenate((old_times, new_times))
    order = np.argsort(times, kind="stable")  # two ordered runs: timsort merges them, and gallops
    return times.take(order), np.concatenate((old_rows, new_rows)).take(order)


class PaperAdaptor:
    """The paper's adaptor over NumPy: all that is buffered is merged with the new events at every punctuation.

    `step` is how many events are sorted and merged at once: those between two punctuations, as the paper has it, or
    those of a batch. In the second case the punctuations' places in the output are looked up afterwards.
    """

    def __init__(self, feed: Feed, sink: Sink, sort: Callable[[Column], Any] = numpy_stable, step: int = 0) -> None:
        self.at = feed.start
        self.feed = feed
        self.sink = sink
        self.sort = sort
        self.step = step or feed.every
        self.times, self.rows = feed.waiting

    def advance(self, events: int) -> None:
        """Take the next events."""
        for begun in range(self.at, self.at + events, self.step):
            stop = begun + self.step
            times, rows = self.sort(self.feed.times[begun:stop])
            rows += begun
            self.take(times, rows)
            bounds = self.feed.between(begun, stop)
            if not len(bounds):
                continue
            chunk = self.released(bounds[-1])
            if len(chunk[0]):
                if self.step != self.feed.every:
                    places_of(bounds, [chunk])
                self.sink(chunk)
        self.at += events

    def take(self, times: Column, rows: Column) -> None:
        """Merge new events, sorted, into the buffer."""
        self.times, self.rows = _merged((self.times, self.rows), (times, rows))

    def released(self, bound: Any) -> Chunk:
        """Cut off what is complete."""
        cut = int(np.searchsorted(self.times, bound))
        chunk = self.times[:cut], self.rows[:cut]
        self.times, self.rows = self.times[cut:], self.rows[cut:]
        return chunk


class SuffixAdaptor(PaperAdaptor):
    """The adaptor done better: only the part of the buffer that the new events reach into is merged again.

    The buffer is a stretch of a longer array. What was released is never written again, so that it need not be copied;
    when the array is full, what is left goes to the front of a new one.
    """

    def __init__(self, feed: Feed, sink: Sink, sort: Callable[[Column], Any] = numpy_stable, step: int = 0) -> None:
        super().__init__(feed, sink, sort, step)
        self.head, self.tail = 0, len(self.times)
        self.room = max(4 * (feed.most_waiting + self.step), 2**20)
        self._move()

    def _move(self) -> None:
        waiting = self.tail - self.head
        for name in ("times", "rows"):
            longer = np.empty(self.room, dtype=np.int64)
            longer[:waiting] = getattr(self, name)[self.head : self.tail]
            setattr(self, name, longer)
        self.head, self.tail = 0, waiting

    def take(self, times: Column, rows: Column) -> None:
        """Merge new events, sorted, into the end of the buffer."""
        if self.tail + len(times) > self.room:
            self._move()
        old = self.times[self.head : self.tail]
        low = self.head + int(np.searchsorted(old, times[0], side="right"))
        if low < self.tail:
            suffix = self.times[low : self.tail], self.rows[low : self.tail]
            times, rows = _merged(suffix, (times, rows))
        self.tail = low + len(times)
        self.times[low : self.tail], self.rows[low : self.tail] = times, rows

    def released(self, bound: Any) -> Chunk:
        """Cut off what is complete."""
        cut = self.head + int(np.searchsorted(self.times[self.head : self.tail], bound))
        chunk = self.times[self.head : cut], self.rows[self.head : cut]
        self.head = cut
        return chunk


class MixedAdaptor(SuffixAdaptor):
    """The strongest mixture: NumPy's vectorised sort of packed keys for the new events, then a compiled merge."""

    def take(self, times: Column, rows: Column) -> None:
        """Merge new events, sorted, into the end of the buffer."""
        if self.tail + len(times) > self.room:
            self._move()
        merge_backward(self.times, self.rows, self.head, self.tail, times, rows, len(times))
        self.tail += len(times)


class CompiledAdaptor:
    """The adaptor in compiled code: merge sort of the new events, merge in place, every punctuation in one call."""

    def __init__(self, feed: Feed, sink: Sink, slice_events: int) -> None:
        self.at = feed.start
        self.feed = feed
        self.sink = sink
        waiting = len(feed.waiting[0])
        # The buffer wanders through its room and is moved back when it reaches the end: rarely, as there is four times
        # the room that it needs. All memory is touched beforehand, which is the best case for this contender.
        self.buffer = np.ones((2, 4 * (feed.most_waiting + feed.every)), dtype=np.int64)
        self.buffer[0, :waiting], self.buffer[1, :waiting] = feed.waiting
        self.ends = np.array([0, waiting])
        self.scratch = np.ones((4, feed.every), dtype=np.int64)
        self.out = np.ones((2, slice_events + feed.most_waiting), dtype=np.int64)

    def advance(self, events: int) -> None:
        """Take the next events."""
        stop = self.at + events
        bounds = self.feed.between(self.at, stop)
        count = adapt(self.feed.times, self.at, self.feed.every, bounds, self.buffer, self.ends, self.scratch, self.out)
        self.at = stop
        self.sink((self.out[0, :count], self.out[1, :count]))


class CompiledHeap:
    """A binary heap of (time, row) in compiled code, every punctuation in one call."""

    def __init__(self, feed: Feed, sink: Sink, slice_events: int) -> None:
        self.at = feed.start
        self.feed = feed
        self.sink = sink
        self.size = len(feed.waiting[0])
        self.heap = np.ones((2, feed.most_waiting + 1), dtype=np.int64)
        self.heap[0, : self.size], self.heap[1, : self.size] = feed.waiting  # what is sorted is a heap
        self.out = np.ones((2, slice_events + feed.most_waiting), dtype=np.int64)

    def advance(self, events: int) -> None:
        """Take the next events."""
        stop = self.at + events
        bounds = self.feed.between(self.at, stop)
        count = push_and_pop(self.feed.times, self.at, self.feed.every, bounds, self.heap, self.size, self.out)
        self.size += events - count
        self.at = stop
        self.sink((self.out[0, :count], self.out[1, :count]))


class PythonHeap:
    """Plain heapq over (time, row)."""

    def __init__(self, feed: Feed, sink: Sink) -> None:
        self.at = feed.start
        self.feed = feed
        self.sink = sink
        self.heap = list(zip(*(column.tolist() for column in feed.waiting), strict=True))

    def advance(self, events: int) -> None:
        """Take the next events."""
        heap, push, pop = self.heap, heapq.heappush, heapq.heappop
        stop = self.at + events
        times = self.feed.times[self.at : stop].tolist()
        every, bounds = self.feed.every, self.feed.between(self.at, stop).tolist()
        released = []
        for number, bound in enumerate(bounds):
            begun = number * every
            for row, time in enumerate(times[begun : begun + every], self.at + begun):
                push(heap, (time, row))
            while heap and heap[0][0] < bound:
                released.append(pop(heap))
        self.at = stop
        self.sink((np.array([time for time, _ in released]), np.array([row for _, row in released])))
