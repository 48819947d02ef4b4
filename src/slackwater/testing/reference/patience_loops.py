"""The loops of Impatience sort as its paper has it: events are dealt onto runs one by one, heads of runs are merged.

To deal, the word of the paper, is to append each event to one of several runs: see append_to_runs.

Partition: each event goes to the first run whose last time is not above its own, or founds a run. Merge: a punctuation
cuts the head off every run, the heads are merged two at a time, and runs that are empty then are removed.
Paper: Chandramouli, Goldstein, Li. Impatience Is a Virtue: Revisiting Disorder in High-Performance Log Analytics.
ICDE 2018, section III. PatienceSorter, in patience_sorter.py, is the way to use these loops.

Invariant: the last times of the runs, their tails, are strictly decreasing, so binary search finds the run.
Ties keep the order of arrival. Huffman merge joins runs that are not neighbours, so merges compare (time, row).

Loops that call no other and end in one place count no references to their arrays. With punctuations after every few
events such counting would cost more than sorting: hence `continue` for `break`, and calls that are written out twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.kernels.compile import kernel

if TYPE_CHECKING:
    from typing import Final, TypeAlias

    import numpy as np
    from numpy.typing import NDArray

    Column: TypeAlias = NDArray[np.int64]
    Table: TypeAlias = NDArray[np.int64]

# Runs are chains of chunks in one arena. A chunk has CHUNK places for times and as many for rows behind them; instead
# of a last time it has a link, the place of the next chunk of its run or of the free list. Chunks are small because a
# descending stream founds a run, and takes a chunk, with every event.
CHUNK: Final = 32
LINK: Final = CHUNK - 1
NOWHERE: Final = -1

# Lines of the table of runs.
TAIL: Final = 0  # the last time
HEAD: Final = 1  # the place of the first event
NEXT: Final = 2  # the place of the next event, or of the link when the last chunk is full
CHUNKS: Final = 3  # how many chunks it has
CUT: Final = 4  # how many events the punctuation at hand releases
STAY: Final = 5  # the place of the first event that stays, or NEXT
LEFT: Final = 6  # how many chunks are left behind
LEFT_LINK: Final = 7  # the link of the last of these
RUN_LINES: Final = 8

# Lines of the table of nodes. A node is a head, or what two nodes are merged to; nodes are numbered as they are merged.
SIZE: Final = 0  # how many events it has
FEW: Final = 1  # the smaller of the nodes it is merged of; of a head: its run
MANY: Final = 2  # the larger one; of a head: COPIED, or WOVEN with the one it is merged with
FROM: Final = 3  # where its events begin, in the output as in the scratch space
DEPTH: Final = 4  # how many merges its events have before them; if odd, it stands in the scratch space
NODE_LINES: Final = 5

# Lines of events that stand outside of chunks.
TIME: Final = 0
ROW: Final = 1

# Places in the tally.
RUNS: Final = 0  # how many runs there are
LAST: Final = 1  # the run that took the last event, or the last one if that was removed
FREE: Final = 2  # the first chunk of the free list
FRESH: Final = 3  # the first chunk that was never used
BUFFERED: Final = 4  # how many events the runs have
MOVES: Final = 5  # how many events merges have written
DUE: Final = 6  # how many events the punctuation at hand releases
HEADS: Final = 7  # of how many runs
APPENDED: Final = 8  # of one call: how many events are appended
DONE: Final = 9  # of one call: how many punctuations are done
WRITTEN: Final = 10  # of one call: how many events are released
TALLIED: Final = 11

EARLIEST: Final = -(2**63)
LATEST: Final = 2**63 - 1

# A head that is nearly all of a merge is woven straight from its chunks: that saves a copy, and to guess who is next is
# mostly right there. Other heads are copied out of their chunks first.
COPIED: Final = -1
WOVEN: Final = -2
NEARLY_ALL: Final = 8  # at most one event of so many is from the others

_READ = "Array(int64, 1, 'C', readonly=True)"
_STATE = "int64[::1], int64[:, ::1], int64[::1]"


@kernel(f"int64({_READ}, int64, int64, int64, boolean, {_STATE})")
def append_to_runs(
    times: Column, start: int, stop: int, first_row: int, speculate: bool, tally: Column, runs: Table, arena: Column
) -> int:
    """Append times[start:stop] to runs while there is room; return the first that was not."""
    known, last = tally[RUNS], tally[LAST]
    floor, ceiling = runs[TAIL, last], runs[TAIL, last - 1] - 1 if last > 0 else LATEST
    i = start
    while i < stop:
        time, run = times[i], last
        if not (speculate and floor <= time <= ceiling):
            run, high = 0, known
            while run < high:
                middle = (run + high) // 2
                if runs[TAIL, middle] <= time:
                    high = middle
                else:
                    run = middle + 1
            if run == runs.shape[1]:  # no room: this is where appending stops
                stop = i
                continue
            ceiling = runs[TAIL, run - 1] - 1 if run > 0 else LATEST
        place = runs[NEXT, run]
        if run == known or place & LINK == LINK:
            chunk = tally[FREE]
            if chunk != NOWHERE:
                tally[FREE] = arena[chunk + LINK]
            elif tally[FRESH] < len(arena):
                chunk = tally[FRESH]
                tally[FRESH] += 2 * CHUNK
            else:
                stop = i
                continue
            if run == known:
                runs[HEAD, run] = chunk
                runs[CHUNKS, run] = 0
                known += 1
            else:
                arena[place] = chunk
            runs[CHUNKS, run] += 1
            place = chunk
        arena[place] = time
        arena[place + CHUNK] = first_row + i
        runs[NEXT, run] = place + 1
        runs[TAIL, run] = floor = time
        last = run
        i += 1
    tally[RUNS] = known
    tally[LAST] = last
    tally[BUFFERED] += i - start
    return i


@kernel(f"void(int64, {_STATE}, int64[:, ::1])")
def cut(complete_before: int, tally: Column, runs: Table, arena: Column, nodes: Table) -> None:
    """Find the head of each run: its events before an instant. Runs that go as a whole are not looked into."""
    due, heads = 0, 0
    for run in range(tally[RUNS]):
        place, end = runs[HEAD, run], runs[NEXT, run]
        count, left, left_link = 0, 0, NOWHERE
        if runs[TAIL, run] < complete_before or complete_before == LATEST:
            left, left_link = runs[CHUNKS, run], end | LINK
            count = (left - 1) * LINK + (end & LINK) - (place & LINK)
            place = end
        else:
            link = place | LINK
            while not place <= end <= link and arena[link - 1] < complete_before:
                count += link - place
                left += 1
                left_link = link
                place = arena[link]
                link = place | LINK
            while arena[place] < complete_before:  # the tail is not, so this ends
                count += 1
                place += 1
        runs[CUT, run] = count
        runs[STAY, run] = place
        runs[LEFT, run] = left
        runs[LEFT_LINK, run] = left_link
        due += count
        if count > 0:
            nodes[SIZE, heads] = count
            nodes[FEW, heads] = run
            nodes[MANY, heads] = COPIED
            heads += 1
    tally[DUE] = due
    tally[HEADS] = heads


@kernel(f"void({_STATE})")
def _remove_heads(tally: Column, runs: Table, arena: Column) -> None:
    """Take the heads off the runs, put the chunks they filled on the free list, and remove the runs that are empty.

    Tails are decreasing, so the empty runs are the last ones.
    """
    kept = 0
    for run in range(tally[RUNS]):
        if runs[LEFT, run] > 0:
            arena[runs[LEFT_LINK, run]] = tally[FREE]
            tally[FREE] = (runs[HEAD, run] | LINK) - LINK
        runs[HEAD, run] = runs[STAY, run]
        runs[CHUNKS, run] -= runs[LEFT, run]
        kept += runs[STAY, run] != runs[NEXT, run]
    tally[RUNS] = kept
    tally[LAST] = min(tally[LAST], max(kept - 1, 0))
    tally[BUFFERED] -= tally[DUE]


@kernel("void(int64[:, ::1], int64)")
def _sort_heads(nodes: Table, heads: int) -> None:
    """Number the heads by their size, the smallest first: Shellsort."""
    gap = heads
    while gap > 1:
        gap = max(gap * 5 // 11, 1)
        for i in range(gap, heads):
            size, run, j = nodes[SIZE, i], nodes[FEW, i], i
            while j >= gap and nodes[SIZE, j - gap] > size:
                nodes[SIZE, j] = nodes[SIZE, j - gap]
                nodes[FEW, j] = nodes[FEW, j - gap]
                j -= gap
            nodes[SIZE, j] = size
            nodes[FEW, j] = run


@kernel("void(int64[::1], int64[:, ::1], int64, boolean)")
def _plan(tally: Column, nodes: Table, heads: int, huffman: bool) -> None:
    """Decide which nodes are merged to which, and where their events stand.

    Huffman merge needs no heap: heads are in order of size and merged nodes come in order of size, so the smallest node
    is the next of these or the next of those. Patience sort merges in rounds: first come, first merged.
    """
    head, merged, root = 0, heads, max(2 * heads - 2, 0)
    for node in range(heads, root + 1):
        for side in range(FEW, MANY + 1):
            if head < heads and (not huffman or merged == node or nodes[SIZE, head] <= nodes[SIZE, merged]):
                nodes[side, node] = head
                head += 1
            else:
                nodes[side, node] = merged
                merged += 1
        few, many = nodes[FEW, node], nodes[MANY, node]
        if nodes[SIZE, few] > nodes[SIZE, many]:
            few, many = many, few
        nodes[FEW, node], nodes[MANY, node] = few, many
        nodes[SIZE, node] = nodes[SIZE, few] + nodes[SIZE, many]
        tally[MOVES] += nodes[SIZE, node]
        if many < heads and nodes[SIZE, few] * NEARLY_ALL <= nodes[SIZE, node]:
            nodes[MANY, many] = WOVEN
    # Two that are merged stand side by side in the place of the merged one, but in the other of the two spaces.
    nodes[FROM, root] = nodes[DEPTH, root] = 0
    for node in range(root, heads - 1, -1):
        few, many = nodes[FEW, node], nodes[MANY, node]
        nodes[FROM, few] = nodes[FROM, node]
        nodes[FROM, many] = nodes[FROM, node] + nodes[SIZE, few]
        nodes[DEPTH, few] = nodes[DEPTH, many] = nodes[DEPTH, node] + 1


@kernel("void(int64, int64[:, ::1], int64[::1], int64[:, ::1], int64, int64, int64[:, ::1], int64)")
def _take(run: int, runs: Table, arena: Column, others: Table, other: int, stop: int, taken: Table, at: int) -> None:
    """Copy the head of a run, if there is one, from its chunks to taken[at:], merged with others[other:stop]."""
    place, left = (runs[HEAD, run], runs[CUT, run]) if run != NOWHERE else (0, 0)
    while left > 0:
        here = min(left, (place | LINK) - place)
        for i in range(place, place + here):
            time, row = arena[i], arena[i + CHUNK]
            while other < stop and (
                others[TIME, other] < time or (others[TIME, other] == time and others[ROW, other] < row)
            ):
                taken[TIME, at] = others[TIME, other]
                taken[ROW, at] = others[ROW, other]
                other += 1
                at += 1
            taken[TIME, at] = time
            taken[ROW, at] = row
            at += 1
        left -= here
        place = arena[place | LINK]
    for i in range(other, stop):
        taken[TIME, at + i - other] = others[TIME, i]
        taken[ROW, at + i - other] = others[ROW, i]


@kernel("void(int64[:, ::1], int64, int64, int64, int64[:, ::1], int64)")
def _merge(source: Table, a: int, b: int, stop: int, merged: Table, at: int) -> None:
    """Merge source[a:b] and source[b:stop] to merged[at:].

    Each step writes one event at the front and one at the back: two independent chains of comparisons keep the
    processor busy where one would wait for itself. All four candidates are read and the choice is a move, not a branch
    that is guessed wrong half the time. While both sides hold more than the steps can use, no bound needs testing.
    """
    last, last_a, last_b = at + stop - a - 1, b - 1, stop - 1
    steps = min(b - a, stop - b) // 2
    while steps > 0:
        for _ in range(steps):
            time_a, row_a, time_b, row_b = source[TIME, a], source[ROW, a], source[TIME, b], source[ROW, b]
            take_b = (time_b < time_a) | ((time_b == time_a) & (row_b < row_a))
            merged[TIME, at] = time_b if take_b else time_a
            merged[ROW, at] = row_b if take_b else row_a
            b += take_b
            a += not take_b
            at += 1
            time_a, row_a = source[TIME, last_a], source[ROW, last_a]
            time_b, row_b = source[TIME, last_b], source[ROW, last_b]
            take_b = (time_b > time_a) | ((time_b == time_a) & (row_b > row_a))
            merged[TIME, last] = time_b if take_b else time_a
            merged[ROW, last] = row_b if take_b else row_a
            last_b -= take_b
            last_a -= not take_b
            last -= 1
        steps = min(last_a - a + 1, last_b - b + 1) // 2
    while at <= last:
        take_b = a > last_a or (
            b <= last_b
            and (
                source[TIME, b] < source[TIME, a]
                or (source[TIME, b] == source[TIME, a] and source[ROW, b] < source[ROW, a])
            )
        )
        least = b if take_b else a
        merged[TIME, at] = source[TIME, least]
        merged[ROW, at] = source[ROW, least]
        b += take_b
        a += not take_b
        at += 1


@kernel(
    f"boolean({_READ}, int64, {_READ}, {_READ}, boolean, boolean,"
    f" {_STATE}, int64[:, ::1], int64[:, ::1], int64[:, ::1])"
)
def sort(
    arrivals: Column,
    first_row: int,
    stops: Column,
    complete_before: Column,
    huffman: bool,
    speculate: bool,
    tally: Column,
    runs: Table,
    arena: Column,
    nodes: Table,
    scratch: Table,
    released: Table,
) -> bool:
    """Append arrivals up to each stop, then release what is before its punctuation; return False for want of room."""
    while tally[DONE] < len(stops):
        stop = stops[tally[DONE]]
        tally[APPENDED] = append_to_runs(arrivals, tally[APPENDED], stop, first_row, speculate, tally, runs, arena)
        if tally[APPENDED] < stop:
            return False
        cut(complete_before[tally[DONE]], tally, runs, arena, nodes)
        if tally[DUE] > scratch.shape[1]:
            return False
        heads, written = tally[HEADS], tally[WRITTEN]
        if huffman:
            _sort_heads(nodes, heads)
        _plan(tally, nodes, heads, huffman)
        for node in range(2 * heads - 1):
            low, few, many = nodes[FROM, node], nodes[FEW, node], nodes[MANY, node]
            run, woven, middle, high = NOWHERE, low, low, low
            if node < heads:
                run = few if many == COPIED else NOWHERE
            elif nodes[MANY, many] == WOVEN:
                run, woven = nodes[FEW, many], low + nodes[SIZE, few]
            else:
                middle, high = low + nodes[SIZE, few], low + nodes[SIZE, node]
            if nodes[DEPTH, node] % 2 == 0:
                _take(run, runs, arena, scratch, low, woven, released, low + written)
                _merge(scratch, low, middle, high, released, low + written)
            else:
                _take(run, runs, arena, released, low + written, woven + written, scratch, low)
                _merge(released, low + written, middle + written, high + written, scratch, low)
        _remove_heads(tally, runs, arena)
        tally[WRITTEN] += tally[DUE]
        tally[DONE] += 1
    return True
