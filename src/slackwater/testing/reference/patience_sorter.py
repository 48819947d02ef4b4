"""Impatience sort as its paper has it, event by event: the reference for sorters that work on blocks.

Paper: Chandramouli, Goldstein, Li. Impatience Is a Virtue: Revisiting Disorder in High-Performance Log Analytics.
ICDE 2018, section III. Its two optimizations can be switched off: Huffman merge (III-E1) merges the two smallest heads
first, speculative run selection (III-E2) tries the run of the last event before it searches. Without both, and with one
punctuation at the end, this is Patience sort. The paper's punctuation T, no more events <= T, is complete_before T + 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.testing.reference.patience_loops import (
    APPENDED,
    BUFFERED,
    CHUNK,
    CHUNKS,
    DONE,
    DUE,
    EARLIEST,
    FREE,
    FRESH,
    HEAD,
    LATEST,
    LINK,
    MOVES,
    NEXT,
    NODE_LINES,
    NOWHERE,
    ROW,
    RUN_LINES,
    RUNS,
    TAIL,
    TALLIED,
    TIME,
    WRITTEN,
    append_to_runs,
    cut,
    sort,
)

if TYPE_CHECKING:
    from slackwater.testing.reference.patience_loops import Column, Table


class PatienceSorter:
    """Sorts events by time while they come: Impatience sort; with one punctuation, at the end, Patience sort.

    `huffman` merges the smallest heads first, `speculate` tries the run of the last event first; neither changes what
    comes out. An event that is older than the last punctuation is not lost: it goes out with the next one.

    >>> sorter = PatienceSorter()
    >>> sorter.push(np.array([2, 6, 5, 1]))
    >>> [column.tolist() for column in sorter.punctuate(3)]
    [[1, 2], [3, 0]]
    >>> sorter.runs, sorter.buffered
    (2, 2)
    """

    __slots__ = ("_arena", "_huffman", "_nodes", "_row", "_runs", "_scratch", "_speculate", "_tally")

    def __init__(self, *, huffman: bool = True, speculate: bool = True) -> None:
        self._huffman = huffman
        self._speculate = speculate
        self._row = 0
        self._tally = np.zeros(TALLIED, dtype=np.int64)
        self._tally[FREE] = NOWHERE
        self._runs = np.zeros((RUN_LINES, 8), dtype=np.int64)
        self._nodes = np.zeros((NODE_LINES, 16), dtype=np.int64)
        self._arena = np.zeros(16 * CHUNK, dtype=np.int64)
        self._scratch = np.zeros((2, 8 * CHUNK), dtype=np.int64)

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return int(self._tally[RUNS])

    @property
    def buffered(self) -> int:
        """How many events are held."""
        return int(self._tally[BUFFERED])

    @property
    def moves(self) -> int:
        """How many events merges have written so far: what Huffman merge makes least."""
        return int(self._tally[MOVES])

    def memory_bytes(self) -> int:
        """How much memory is held now; what events have left is kept for those to come."""
        return sum(array.nbytes for array in (self._tally, self._runs, self._nodes, self._arena, self._scratch))

    def push(self, times: Column, first_row: int | None = None) -> None:
        """Take events in order of arrival. Their rows are numbered from `first_row`, or on from those before.

        Row numbers must not go back: ties are released in the order of rows. Cost: O(log runs) per event.
        """
        if first_row is not None:
            self._row = first_row
        done, n = 0, len(times)
        while (
            done := append_to_runs(times, done, n, self._row, self._speculate, self._tally, self._runs, self._arena)
        ) < n:
            self._make_room()
        self._row += n

    def punctuate(self, complete_before: int) -> tuple[Column, Column]:
        """Release all events before an instant: their times in order, and their rows.

        Cost: O(runs + heads log heads), and O(log heads) per event released; what stays is not looked at.
        """
        complete_before = max(complete_before, EARLIEST)
        cut(complete_before, self._tally, self._runs, self._arena, self._nodes)
        nothing, due = np.empty(0, dtype=np.int64), self._tally[DUE]
        return self._sort(nothing, np.array([0]), np.array([complete_before]), int(due))

    def flush(self) -> tuple[Column, Column]:
        """Release all events, for the stream has ended: it is complete before the end of time."""
        return self.punctuate(LATEST)

    def sort_stream(self, times: Column, *, every: int, latency: int) -> tuple[Column, Column]:
        """Push all events, with a punctuation after every so many, and flush; in one compiled loop.

        The punctuations are complete before (high water - latency). What they release is returned end to end.

        >>> PatienceSorter().sort_stream(np.array([2, 6, 5, 1]), every=2, latency=1)[0].tolist()
        [2, 1, 5, 6]
        """
        punctuations = np.append(_punctuations(times, every, latency), LATEST)
        stops = np.minimum(every * np.arange(1, len(punctuations) + 1), len(times))
        return self.push_punctuated(times, stops, punctuations)

    def push_punctuated(self, times: Column, stops: Column, complete_before: Column) -> tuple[Column, Column]:
        """Push events with punctuations between them, in one compiled loop; return what they release, end to end.

        Punctuation i comes after event number `stops[i]`; the last one comes after the last event.

        >>> sorter = PatienceSorter()
        >>> sorter.push_punctuated(np.array([2, 6, 5, 1]), np.array([2, 4]), np.array([3, 6]))[0].tolist()
        [2, 1, 5]
        >>> sorter.buffered
        1
        """
        released = self._sort(times, stops, complete_before, self.buffered + len(times))
        written = int(self._tally[WRITTEN])
        return released[0][:written], released[1][:written]

    def _sort(self, times: Column, stops: Column, complete_before: Column, due: int) -> tuple[Column, Column]:
        """Push events and punctuate; there is room for what is due."""
        released = np.empty((2, due), dtype=np.int64)
        self._tally[[APPENDED, DONE, WRITTEN]] = 0
        while not sort(
            times,
            self._row,
            stops,
            complete_before,
            self._huffman,
            self._speculate,
            self._tally,
            self._runs,
            self._arena,
            self._nodes,
            self._scratch,
            released,
        ):
            self._make_room()
        self._row += len(times)
        return released[TIME], released[ROW]

    def _make_room(self) -> None:
        """Double what is full."""
        tally = self._tally
        if tally[RUNS] == self._runs.shape[1]:
            self._runs = _doubled(self._runs)
            self._nodes = _doubled(self._nodes)
        if tally[FREE] == NOWHERE and tally[FRESH] == len(self._arena):
            self._arena = _doubled(self._arena)
        if tally[DUE] > self._scratch.shape[1]:
            self._scratch = np.empty((2, max(tally[DUE], 2 * self._scratch.shape[1])), dtype=np.int64)

    def spelled_out(self) -> list[list[tuple[int, int]]]:
        """The runs as they are now, each a list of (time, row). Slow: for tests and for the curious."""
        return [self._run(run) for run in range(self.runs)]

    def _run(self, run: int) -> list[tuple[int, int]]:
        place, end = int(self._runs[HEAD, run]), int(self._runs[NEXT, run])
        events: list[tuple[int, int]] = []
        while place != end:
            if place & LINK == LINK:
                place = int(self._arena[place])
            events.append((int(self._arena[place]), int(self._arena[place + CHUNK])))
            place += 1
        return events

    def check(self) -> None:
        """Assert every invariant. Slow."""
        runs = self.spelled_out()
        tails = self._runs[TAIL, : self.runs].tolist()
        assert tails == sorted(set(tails), reverse=True), f"tails are not strictly decreasing: {tails}"
        assert tails == [run[-1][0] for run in runs], f"tails are not the last times: {tails}, {runs}"
        assert all(run == sorted(run) for run in runs), f"a run is not in order: {runs}"
        assert self.buffered == sum(map(len, runs)), f"{self.buffered} events are counted in {runs}"
        free, chunk = 0, int(self._tally[FREE])
        while chunk != NOWHERE:
            free, chunk = free + 1, int(self._arena[chunk + LINK])
        used = int(self._runs[CHUNKS, : self.runs].sum())
        assert 2 * CHUNK * (free + used) == self._tally[FRESH], f"a chunk is lost: {free} are free, {used} are used"


def _doubled(table: Table) -> Table:
    """The table with twice as many columns; the new ones are zero, and take no memory before they are written."""
    doubled = np.zeros((*table.shape[:-1], 2 * table.shape[-1]), dtype=np.int64)
    doubled[..., : table.shape[-1]] = table
    return doubled


def _punctuations(times: Column, every: int, latency: int) -> Column:
    """(high water - latency) after every so many events and after the last; never before the earliest instant."""
    if every < 1 or latency < 0:
        raise ValueError(f"a punctuation every {every} events, {latency} behind high water: at least 1 and 0 is needed")
    if not len(times):
        return np.empty(0, dtype=np.int64)
    high_water = np.maximum.accumulate(np.maximum.reduceat(times, np.arange(0, len(times), every)))
    return np.maximum(high_water, EARLIEST + latency) - latency


def runs_over_time(times: Column, every: int, latency: int, *, incremental: bool) -> Column:
    """How many runs there are after every so many events and after the last: figure 5 of the paper.

    Impatience sort (`incremental`) has a punctuation then, complete before (high water - latency); Patience sort has
    none before the end, so that its runs never become fewer.

    >>> runs_over_time(np.array([2, 6, 5, 1, 4, 3, 7, 8]), 2, 2, incremental=True).tolist()
    [1, 2, 3, 1]
    >>> runs_over_time(np.array([2, 6, 5, 1, 4, 3, 7, 8]), 2, 2, incremental=False).tolist()
    [1, 3, 4, 4]
    """
    sorter = PatienceSorter()
    counts = []
    for start, complete_before in zip(range(0, len(times), every), _punctuations(times, every, latency), strict=True):
        sorter.push(times[start : start + every])
        if incremental:
            sorter.punctuate(int(complete_before))
        counts.append(sorter.runs)
    return np.array(counts, dtype=np.int64)
