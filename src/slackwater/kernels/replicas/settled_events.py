"""Holds the events of one revised stream until they are frozen, and lets them go in order, in compiled loops.

Each start and payload has one node, which an index finds. It has an end and how many events have it; where events of
one start and payload differ in their ends, further nodes follow it, in order of end, that the index does not list. (The
lists of counted_ends would cost a look elsewhere for every event, and most have one end.)

Which node goes next is known by a heap, in order of start and, where starts are equal, of the payload's words. That
order depends on nothing but the events, so that streams of the same events come out the same. Events of one
start and payload go in order of end. An event goes when it and all before it in that order are frozen.

Invariants: every listed node that is not gone is in the heap, once. Ends rise along the nodes of one event.
Cost: O(log held) per event that comes or goes, one step for each other end that the same start and payload have;
nothing for what is held.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slackwater.kernels.columns.payload_words import hash_event
from slackwater.kernels.compile import kernel
from slackwater.kernels.replicas.event_index import (
    AT,
    COUNTERS,
    FIELDS,
    HASH,
    INDEX,
    LENGTH,
    LINES,
    LIVE,
    NODES,
    READ,
    START,
    UNLISTED,
    add_event,
    find_event,
    forget_event,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from slackwater.kernels.replicas.event_index import Column, Table

END: Final = FIELDS
"""Column of a node: an end."""
COUNT: Final = FIELDS + 1
"""Column of a node: how many events have it; 0 in a listed node all of whose events were taken back."""
NEXT: Final = FIELDS + 2
"""Column of a node: the node of the next end of the same start and payload, or NOBODY."""
NODE: Final = FIELDS + 3
"""How many columns a node has."""

NOBODY: Final = -1

EVENTS: Final = COUNTERS
"""Place in counters: how many events are held."""
QUEUED: Final = COUNTERS + 1
"""Place in counters: how many nodes are in the heap."""
ALL_COUNTERS: Final = COUNTERS + 2

OUT_AT, OUT_LENGTH, OUT_START, OUT_END, OUT_COUNT = range(5)
OUT: Final = 5
"""Columns of what goes out: where the payload's words are held, how many they are, start, end, and how often."""

ALL_FIT: Final = -1
"""Every adjust concerned an event that is held."""

_INSERT, _ADJUST, _PUNCTUATE = 0, 1, 2  # as in events.kinds


@kernel(f"boolean({LINES}, int64[::1], int64, int64)")
def _goes_before(nodes: Column, held: Column, one: int, other: int) -> bool:
    """Whether a node goes out before another one: by start, then by the words of the payload."""
    if nodes[one, START] != nodes[other, START]:
        return nodes[one, START] < nodes[other, START]
    at, other_at = nodes[one, AT], nodes[other, AT]
    for i in range(min(nodes[one, LENGTH], nodes[other, LENGTH])):
        if held[at + i] != held[other_at + i]:
            return held[at + i] < held[other_at + i]
    return nodes[one, LENGTH] < nodes[other, LENGTH]


@kernel(f"void({LINES}, int64[::1], {LINES}, int64[::1], int64)")
def _queue(nodes: Column, held: Column, heap: Column, counters: Column, node: int) -> None:
    """Put a node into the heap. Beside each node stands its start, so that most comparisons look nowhere else."""
    start, at = nodes[node, START], counters[QUEUED]
    counters[QUEUED] += 1
    while at > 0:
        above = (at - 1) >> 1
        higher = heap[above, 0]
        if higher < start or (higher == start and not _goes_before(nodes, held, node, heap[above, 1])):
            break
        heap[at, 0], heap[at, 1] = higher, heap[above, 1]
        at = above
    heap[at, 0], heap[at, 1] = start, node


@kernel(f"void({LINES}, int64[::1], {LINES}, int64[::1])")
def _unqueue(nodes: Column, held: Column, heap: Column, counters: Column) -> None:
    """Take the first node out of the heap."""
    counters[QUEUED] -= 1
    queued = counters[QUEUED]
    start, node = heap[queued, 0], heap[queued, 1]
    at, below = 0, 1
    while below < queued:
        other = below + 1
        if other < queued:
            one_start, other_start = heap[below, 0], heap[other, 0]
            tied = one_start == other_start
            if other_start < one_start or (tied and _goes_before(nodes, held, heap[other, 1], heap[below, 1])):
                below = other
        lower = heap[below, 0]
        if start < lower or (start == lower and _goes_before(nodes, held, node, heap[below, 1])):
            break
        heap[at, 0], heap[at, 1] = lower, heap[below, 1]
        at, below = below, 2 * below + 1
    heap[at, 0], heap[at, 1] = start, node


@kernel(f"int64({LINES}, int64[::1], int64, int64)")
def _follower(nodes: Column, counters: Column, end: int, following: int) -> int:
    """Make a node for one more end of a start and payload."""
    node = counters[NODES]
    nodes[node, START], nodes[node, AT], nodes[node, LENGTH], nodes[node, HASH] = 0, 0, 0, UNLISTED
    nodes[node, END], nodes[node, COUNT], nodes[node, NEXT] = end, 1, following
    counters[NODES] += 1
    counters[LIVE] += 1
    return node


@kernel(f"void({LINES}, int64[::1], int64, int64)")
def _count_up(nodes: Column, counters: Column, first: int, end: int) -> None:
    """Count one more event with an end, among those of the start and payload of a listed node."""
    if nodes[first, COUNT] == 0:
        nodes[first, END], nodes[first, COUNT] = end, 1
        return
    before, at = NOBODY, first
    while at != NOBODY and nodes[at, END] < end:
        before, at = at, nodes[at, NEXT]
    if at != NOBODY and nodes[at, END] == end:
        nodes[at, COUNT] += 1
    elif before != NOBODY:
        nodes[before, NEXT] = _follower(nodes, counters, end, at)
    else:
        # The listed node is the first of its row and stays it: what it had goes into the new one.
        made = _follower(nodes, counters, nodes[first, END], nodes[first, NEXT])
        nodes[made, COUNT] = nodes[first, COUNT]
        nodes[first, END], nodes[first, COUNT], nodes[first, NEXT] = end, 1, made


@kernel(f"void({LINES}, int64[::1], int64)")
def _drop_first(nodes: Column, counters: Column, first: int) -> None:
    """Leave out the first end of a start and payload: the listed node takes over the second one."""
    second = nodes[first, NEXT]
    if second == NOBODY:
        nodes[first, COUNT] = 0
        return
    nodes[first, END], nodes[first, COUNT] = nodes[second, END], nodes[second, COUNT]
    nodes[first, NEXT] = nodes[second, NEXT]
    forget_event(nodes, counters, second)


@kernel(f"boolean({LINES}, int64[::1], int64, int64)")
def _count_down(nodes: Column, counters: Column, first: int, end: int) -> bool:
    """Count one event with an end less; False if there is none."""
    before, at = NOBODY, first
    while at != NOBODY and nodes[at, END] < end:
        before, at = at, nodes[at, NEXT]
    if at == NOBODY or nodes[at, END] != end or nodes[at, COUNT] == 0:
        return False
    nodes[at, COUNT] -= 1
    if nodes[at, COUNT] == 0:
        if before == NOBODY:
            _drop_first(nodes, counters, first)
        else:
            nodes[before, NEXT] = nodes[at, NEXT]
            forget_event(nodes, counters, at)
    return True


@kernel(f"int64({INDEX}, {LINES}, Array(int8, 1, 'C', readonly=True), {', '.join([READ] * 5)})")
def take_elements(
    nodes: Column,
    table: Table,
    held: Column,
    counters: Column,
    heap: Column,
    kinds: NDArray[np.int8],
    starts: Column,
    prior_ends: Column,
    ends: Column,
    offsets: Column,
    words: Column,
) -> int:
    """Take inserts and adjusts; return the first adjust that concerns no event, or ALL_FIT.

    `offsets` are where the words of each row begin; punctuations have no row, and are passed over. There is room for
    as many nodes and words as the batch may bring.
    """
    row = -1
    for i in range(len(kinds)):
        if kinds[i] == _PUNCTUATE:
            continue
        row += 1
        start, begin = starts[i], offsets[row]
        length = offsets[row + 1] - begin
        hashed = hash_event(start, words, begin, length)
        node = find_event(nodes, table, held, hashed, start, words, begin, length)
        if kinds[i] == _ADJUST:
            if node < 0 or not _count_down(nodes, counters, node, prior_ends[i]):
                return i
            counters[EVENTS] -= 1
            if ends[i] == start:
                continue
        elif node < 0:
            node = add_event(nodes, table, held, counters, -1 - node, hashed, start, words, begin, length)
            nodes[node, COUNT], nodes[node, NEXT] = 0, NOBODY
            _queue(nodes, held, heap, counters, node)
        _count_up(nodes, counters, node, ends[i])
        counters[EVENTS] += 1
    return ALL_FIT


@kernel(f"int64({LINES}, int64[::1], int64[::1], {LINES}, int64, {LINES})")
def release(nodes: Column, held: Column, counters: Column, heap: Column, last: int, out: Column) -> int:
    """Let go of what is frozen, where ends up to `last` do not change any more; return how many lines went out.

    What goes stands in the columns of `out`, in order. There is room for as many lines as there are nodes.
    """
    count = 0
    while counters[QUEUED] > 0 and heap[0, 0] <= last:
        node = heap[0, 1]
        at, length, start = nodes[node, AT], nodes[node, LENGTH], nodes[node, START]
        while nodes[node, COUNT] > 0 and nodes[node, END] <= last:
            out[OUT_AT, count], out[OUT_LENGTH, count], out[OUT_START, count] = at, length, start
            out[OUT_END, count], out[OUT_COUNT, count] = nodes[node, END], nodes[node, COUNT]
            count += 1
            counters[EVENTS] -= nodes[node, COUNT]
            _drop_first(nodes, counters, node)
        if nodes[node, COUNT] > 0:
            break
        forget_event(nodes, counters, node)
        _unqueue(nodes, held, heap, counters)
    return count


@kernel(f"void({LINES}, {LINES}, int64[::1], {READ})")
def renumber(nodes: Column, heap: Column, counters: Column, moved_to: Column) -> None:
    """Put new numbers of nodes in the place of old ones, after nodes were moved."""
    for place in range(counters[QUEUED]):
        heap[place, 1] = moved_to[heap[place, 1]]
    for node in range(counters[NODES]):
        if nodes[node, NEXT] != NOBODY:
            nodes[node, NEXT] = moved_to[nodes[node, NEXT]]
