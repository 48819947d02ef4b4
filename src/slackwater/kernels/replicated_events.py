"""Merges replicas whose events may be revised, where start and payload are a key: LMerge's case R3, in compiled loops.

Each event that is not frozen yet has one node, shared by all replicas: its start, its payload's bytes, the end that
each replica gives it, and the end that the output gives it (the paper's in2t). A hash table finds nodes by start and
payload, which are compared exactly.

A punctuation must find the nodes that it freezes, not look at all that live. Nodes lie in blocks, as they came. For
each block and replica a bound is kept: no node of the block needs attention before a punctuation of that replica
passes it. So only blocks with something due are opened. (The paper keeps a tree by start, which costs more per insert.)

Nodes are only ever appended. Those that are done with stay until they are as many as the others; then all is moved
together, so that each node is moved once, on average.

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section IV-C, algorithm R3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numba import int64, uint64

from slackwater.kernels.compile import kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

BLOCK: Final = 128
"""Nodes of a block."""

START: Final = 0
"""Place in a node: the start of the event."""
OUT_END: Final = 1
"""Place in a node: the end that was told, or NOWHERE."""
AT: Final = 2
"""Place in a node: where the bytes of its payload begin."""
LENGTH: Final = 3
"""Place in a node: how many bytes they are; GONE for a node that is done with."""
HASH: Final = 4
"""Place in a node: the hash of start and payload."""
ENDS: Final = 5
"""Place in a node: the end that the first replica gives it, or NOWHERE; those of the others follow."""

NOWHERE: Final = -(2**63)
"""The end of an event that a replica has not told, or that was not told to anybody."""
GONE: Final = -1

NODES: Final = 0
"""Place in counters: how many nodes there are, those that are done with included."""
LIVE: Final = 1
"""Place in counters: how many are not done with."""
BYTES: Final = 2
"""Place in counters: how many bytes their payloads take."""
COMPLETE: Final = 3
"""Place in counters: the last punctuation of the output."""
IGNORED: Final = 4
"""Place in counters: elements that came when all was said about their time."""
CONTRADICTED: Final = 5
"""Place in counters: ends that could not be told, because the output had promised otherwise."""

KIND: Final = 0
"""Place in an output line: the kind of the element."""
OUT_START: Final = 1
OUT_PRIOR: Final = 2
OUT_NEW: Final = 3
OUT_FROM: Final = 4
"""Place in an output line: the row of the batch whose payload it has, or HELD."""
OUT_AT: Final = 5
OUT_LENGTH: Final = 6
LINE: Final = 7

HELD: Final = -1
"""The payload of a line is among those that are held, at OUT_AT."""

_INSERT, _ADJUST, _PUNCTUATE = 0, 1, 2  # as in events.kinds
_FREE: Final = -1
_SPREAD: Final = 0x9E3779B97F4A7C15
_SPREAD_AGAIN: Final = 0xD6E8FEB86659FD93

_READ = "Array(int64, 1, 'C', readonly=True)"
_BYTES_READ = "Array(uint8, 1, 'C', readonly=True)"
_STATE = "int64[:, ::1], int64[:, ::1], int32[::1], uint8[::1], int64[::1]"


@kernel(f"int64(int64, {_BYTES_READ}, int64, int64)")
def _hash(start: int, data: NDArray[np.uint8], begin: int, length: int) -> np.int64:
    """Mix a start and a payload: eight bytes at a time."""
    mixed = uint64(start) * uint64(_SPREAD)
    at, stop = begin, begin + length
    while at + 8 <= stop:
        word = uint64(0)
        for byte in range(8):
            word |= uint64(data[at + byte]) << uint64(8 * byte)
        mixed = (mixed ^ word) * uint64(_SPREAD_AGAIN)
        mixed ^= mixed >> uint64(32)
        at += 8
    word = uint64(stop - at)
    while at < stop:
        word = (word << uint64(8)) | uint64(data[at])
        at += 1
    mixed = (mixed ^ word) * uint64(_SPREAD_AGAIN)
    return int64((mixed ^ (mixed >> uint64(32))) >> uint64(1))


@kernel(f"boolean({_BYTES_READ}, int64, {_BYTES_READ}, int64, int64)")
def _same(a: NDArray[np.uint8], at_a: int, b: NDArray[np.uint8], at_b: int, length: int) -> bool:
    one, other = a[at_a : at_a + length], b[at_b : at_b + length]
    different = 0
    for i in range(length):
        different |= one[i] ^ other[i]
    return different == 0


@kernel(f"int64(int64[:, ::1], int32[::1], uint8[::1], int64, int64, {_BYTES_READ}, int64, int64)")
def _find(
    nodes: Column,
    table: NDArray[np.int32],
    held: NDArray[np.uint8],
    hashed: int,
    start: int,
    data: NDArray[np.uint8],
    begin: int,
    length: int,
) -> np.int64:
    """The node of an event; if there is none, the free place in the table where it would be: -1 less that place."""
    mask = uint64(len(table) - 1)
    at = uint64(hashed) & mask
    while table[at] != _FREE:
        node = nodes[table[at]]
        alike = node[HASH] == hashed and node[START] == start and node[LENGTH] == length
        if alike and _same(held, node[AT], data, begin, length):
            return int64(table[at])
        at = (at + uint64(1)) & mask
    return -1 - int64(at)


@kernel(f"int64({_STATE}, int64, int64, int64, {_BYTES_READ}, int64, int64)")
def _add(
    nodes: Column,
    bounds: Column,
    table: NDArray[np.int32],
    held: NDArray[np.uint8],
    counters: Column,
    place: int,
    hashed: int,
    start: int,
    data: NDArray[np.uint8],
    begin: int,
    length: int,
) -> int:
    """Make a node for an event that nobody has told before; return its number."""
    number, at = counters[NODES], counters[BYTES]
    table[place] = number
    node = nodes[number]
    node[START], node[OUT_END], node[HASH], node[AT], node[LENGTH] = start, NOWHERE, hashed, at, length
    copied, payload = held[at : at + length], data[begin : begin + length]
    for k in range(length):
        copied[k] = payload[k]
    for replica in range(nodes.shape[1] - ENDS):
        node[ENDS + replica] = NOWHERE
        # Whoever has not told the event by then says that there is none.
        bounds[number // BLOCK, replica] = min(bounds[number // BLOCK, replica], start)
    counters[NODES] += 1
    counters[LIVE] += 1
    counters[BYTES] += length
    return number


@kernel("void(int64[:, ::1], int64, int64, int64, int64, int64, int64, int64, int64)")
def _tell(
    lines: Column, count: int, kind: int, start: int, prior: int, end: int, row: int, at: int, length: int
) -> None:
    line = lines[count]
    line[KIND], line[OUT_START], line[OUT_PRIOR], line[OUT_NEW] = kind, start, prior, end
    line[OUT_FROM], line[OUT_AT], line[OUT_LENGTH] = row, at, length


@kernel("int64(int64[::1], int64)")
def _due(node: Column, replica: int) -> int:
    """The time that a replica's punctuation must pass for a node to need attention."""
    given, told = node[ENDS + replica], node[OUT_END]
    return min(node[START] if given == NOWHERE else given, node[START] if told == NOWHERE else told)


@kernel("int64(int64[::1])")
def _told_by(node: Column) -> int:
    """How many replicas have told an event."""
    told = 0
    for place in range(ENDS, len(node)):
        told += node[place] != NOWHERE
    return told


@kernel("int64(int64[::1], int64[::1], int64, int64, int64[:, ::1], int64)")
def _settle(node: Column, counters: Column, replica: int, t: int, lines: Column, count: int) -> int:
    """Make the output agree with a replica on an event that its punctuation freezes; return the count of lines."""
    start, told, given = node[START], node[OUT_END], node[ENDS + replica]
    end = start if given == NOWHERE else given
    if told == NOWHERE:
        if given != NOWHERE:
            _tell(lines, count, _INSERT, start, end, end, HELD, node[AT], node[LENGTH])
            count += 1
            node[OUT_END] = end
    elif end != told and end < counters[COMPLETE]:
        # The output has promised that the event lasts longer: this replica contradicts those before it.
        counters[CONTRADICTED] += 1
        end = node[ENDS + replica] = told
    elif end != told:
        _tell(lines, count, _ADJUST, start, told, end, HELD, node[AT], node[LENGTH])
        count += 1
        node[OUT_END] = end
    if end < t:
        node[LENGTH] = GONE
        counters[LIVE] -= 1
    return count


@kernel("UniTuple(int64, 2)(int64[:, ::1], int64[:, ::1], int64[::1], int64, int64, int64[:, ::1], int64)")
def _freeze(
    nodes: Column, bounds: Column, counters: Column, replica: int, t: int, lines: Column, count: int
) -> tuple[int, int]:
    """Settle all events that a punctuation freezes; return the count of lines, and whether all fitted.

    Where they did not, it is called again: what was settled is not due any more.
    """
    for block in range((counters[NODES] + BLOCK - 1) // BLOCK):
        if bounds[block, replica] >= t:
            continue
        least = 2**63 - 1
        for number in range(block * BLOCK, min((block + 1) * BLOCK, counters[NODES])):
            node = nodes[number]
            if node[LENGTH] == GONE:
                continue
            if _due(node, replica) < t and node[START] < t:
                if count == len(lines):
                    return count, 0
                count = _settle(node, counters, replica, t, lines, count)
            if node[LENGTH] != GONE:
                least = min(least, _due(node, replica))
        bounds[block, replica] = least
    return count, 1


@kernel(
    f"UniTuple(int64, 2)({_STATE}, int64, int64, Array(int8, 1, 'C', readonly=True), "
    f"{_READ}, {_READ}, {_READ}, {_READ}, {_BYTES_READ}, int64, int64[:, ::1])"
)
def merge_elements(
    nodes: Column,
    bounds: Column,
    table: NDArray[np.int32],
    held: NDArray[np.uint8],
    counters: Column,
    replica: int,
    quorum: int,
    kinds: NDArray[np.int8],
    starts: Column,
    ends: Column,
    rows: Column,
    offsets: Column,
    data: NDArray[np.uint8],
    first: int,
    lines: Column,
) -> tuple[int, int]:
    """Take a replica's elements from the first one given on; return where it stopped, and how many lines were told.

    It stops early when the lines are full. There is room for as many nodes and bytes as the batch may bring.
    """
    count = 0
    for i in range(first, len(kinds)):
        if count == len(lines):
            return i, count
        start, end = starts[i], ends[i]
        if kinds[i] == _PUNCTUATE:
            if start > counters[COMPLETE]:
                count, all_fit = _freeze(nodes, bounds, counters, replica, start, lines, count)
                if not all_fit or count == len(lines):
                    return i, count
                counters[COMPLETE] = start
                _tell(lines, count, _PUNCTUATE, start, start, start, HELD, 0, 0)
                count += 1
            continue
        begin, length = offsets[rows[i]], offsets[rows[i] + 1] - offsets[rows[i]]
        hashed = _hash(start, data, begin, length)
        number = _find(nodes, table, held, hashed, start, data, begin, length)
        if number < 0:
            if kinds[i] == _ADJUST or start < counters[COMPLETE]:
                counters[IGNORED] += 1
                continue
            number = _add(nodes, bounds, table, held, counters, -1 - number, hashed, start, data, begin, length)
        node = nodes[number]
        node[ENDS + replica] = NOWHERE if kinds[i] == _ADJUST and end == start else end
        if node[OUT_END] == NOWHERE and start >= counters[COMPLETE] and _told_by(node) >= quorum:
            node[OUT_END] = end
            _tell(lines, count, _INSERT, start, end, end, rows[i], 0, 0)
            count += 1
        bounds[number // BLOCK, replica] = min(bounds[number // BLOCK, replica], _due(node, replica))
    return len(kinds), count


@kernel(f"void(int64[:, ::1], int64[:, ::1], uint8[::1], int64[::1], {_STATE.rsplit(',', 1)[0]})")
def move_together(
    nodes: Column,
    bounds: Column,
    held: NDArray[np.uint8],
    counters: Column,
    new_nodes: Column,
    new_bounds: Column,
    new_table: NDArray[np.int32],
    new_held: NDArray[np.uint8],
) -> None:
    """Move the nodes that are not done with into new memory, which is large enough for them."""
    moved, at = 0, 0
    new_table[:] = _FREE
    new_bounds[:, :] = 2**63 - 1
    mask = uint64(len(new_table) - 1)
    for number in range(counters[NODES]):
        if nodes[number, LENGTH] == GONE:
            continue
        node = new_nodes[moved]
        for place in range(nodes.shape[1]):
            node[place] = nodes[number, place]
        begin = nodes[number, AT]
        copied, payload = new_held[at : at + node[LENGTH]], held[begin : begin + node[LENGTH]]
        for k in range(len(payload)):
            copied[k] = payload[k]
        node[AT] = at
        at += node[LENGTH]
        for replica in range(bounds.shape[1]):
            new_bounds[moved // BLOCK, replica] = min(
                new_bounds[moved // BLOCK, replica], bounds[number // BLOCK, replica]
            )
        place = uint64(node[HASH]) & mask
        while new_table[place] != _FREE:
            place = (place + uint64(1)) & mask
        new_table[place] = moved
        moved += 1
    counters[NODES], counters[BYTES] = moved, at
