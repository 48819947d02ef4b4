"""Merges replicas whose events may be revised, where start and payload are a key: LMerge's case R3, in compiled loops.

Each event that is not frozen yet has one node, shared by all replicas: its start, its payload's bytes, the end that
each replica gives it, and the end that the output gives it (the paper's in2t). A hash table finds nodes by start and
payload, which are compared exactly, word by word.

A punctuation must find the nodes that it freezes, not look at all that live. Nodes lie in blocks, as they came. For
each block and replica a bound is kept: no node of the block needs attention before a punctuation of that replica
passes it. So only blocks with something due are opened. (The paper keeps a tree by start, which costs more per insert.)

Nodes are only ever appended. Those that are done with stay until they are as many as the others; then all is moved
together, so that each node is moved once, on average.

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section IV-C, algorithm R3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numba import int64, uint64

from slackwater.kernels.columns.payload_words import copy_words, hash_event, same_words
from slackwater.kernels.compile import kernel
from slackwater.kernels.replicas.replica_standing import (
    CONTRADICTED,
    DIVERTS,
    DUPLICATES,
    FIRST_RULE,
    LIVE_EVENTS,
    NEWEST,
    PASSED_OVER,
    QUORUM,
    REVISE_WHEN_FROZEN,
    REVISED,
    REVISION_RULE,
    WHEN_FINAL,
    WHEN_FROZEN,
    WHEN_QUORUM,
    is_believed,
    is_frozen,
    may_revise,
    settled_by,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

BLOCK: Final = 128
"""Nodes of a block."""

AHEAD: Final = 64
"""Elements that are looked at before the first of them is taken."""

START: Final = 0
"""Place in a node: the start of the event."""
OUT_END: Final = 1
"""Place in a node: the end that was emitted, or NOWHERE."""
AT: Final = 2
"""Place in a node: where the words of its payload begin."""
LENGTH: Final = 3
"""Place in a node: how many words they are; GONE for a node that is done with."""
HASH: Final = 4
"""Place in a node: the hash of start and payload."""
MOST: Final = 5
"""Place in a node: how many events of its start and payload there are, in the output or in the replica that has most;
what is not in the output of these is still to be emitted, or will be left out."""
ENDS: Final = 6
"""Place in a node: the end that the first replica gives it, or NOWHERE; those of the others follow."""

NOWHERE: Final = -(2**63)
"""The end of an event that a replica does not have, or that was not emitted."""
GONE: Final = -1

NODES: Final = 0
"""Place in counters: how many nodes there are, those that are done with included."""
LIVE: Final = 1
"""Place in counters: how many are not done with."""
WORDS: Final = 2
"""Place in counters: how many words their payloads take."""
COMPLETE: Final = 3
"""Place in counters: the last punctuation of the output."""
SETTLED: Final = 4
"""Place in counters: the last punctuation of a replica that was settled; the output's may be held back behind it."""
OTHER_ENDS: Final = 5
"""Place in counters: ends that could not be emitted, because a punctuation of the output rules them out."""
CORRECTIONS: Final = 6
"""Place in counters: lines that add no event to the output: adjusts, and the inserts that some of them take back."""

PEAK: Final = 7
"""Place in counters: the most nodes that were not done with at once, since whoever merges was built."""

COUNTERS: Final = 8

KIND: Final = 0
"""Place in an output line: the kind of the element. Lines are laid out by column: one row of numbers for each place."""
OUT_START: Final = 1
OUT_PRIOR: Final = 2
OUT_NEW: Final = 3
OUT_FROM: Final = 4
"""Place in an output line: the row of the batch whose payload it has, or HELD."""
OUT_AT: Final = 5
"""Place in an output line: where the words of its payload are held; they are, for all but punctuations."""
OUT_LENGTH: Final = 6
LINE: Final = 7

NOBODY: Final = -1
"""The replica that has an event which none has."""

HELD: Final = -1
"""The payload of a line is among those that are held, at OUT_AT."""

INSERT, ADJUST, PUNCTUATE = 0, 1, 2  # as in events.kinds
PASSED_OVER_INSERT, PASSED_OVER_ADJUST, CONTRADICTED_EVENT = 3, 4, 5
"""Kinds of lines that do not go out: rows that are left out. They have the replica at OUT_PRIOR."""
FREE: Final = -1
"""A place in the table that no node has."""

_READ = "Array(int64, 1, 'C', readonly=True)"
_KINDS = "Array(int8, 1, 'C', readonly=True)"
_NODES = "int64[:, ::1]"
_STATE = f"{_NODES}, int64[:, ::1], int32[::1], int64[::1], int64[::1]"


@kernel(f"int64({_NODES}, int32[::1], int64[::1], int64, int64, {_READ}, int64, int64)", inlined=True)
def find_node(
    nodes: Column,
    table: NDArray[np.int32],
    held: Column,
    hashed: int,
    start: int,
    words: Column,
    begin: int,
    length: int,
) -> Any:
    """The node of an event; if there is none, the free place in the table where it would be: -1 less that place."""
    mask = uint64(len(table) - 1)
    at = uint64(hashed) & mask
    while table[at] != FREE:
        node = table[at]
        alike = nodes[node, HASH] == hashed and nodes[node, START] == start and nodes[node, LENGTH] == length
        if alike and same_words(held, nodes[node, AT], words, begin, length):
            return int64(node)
        at = (at + uint64(1)) & mask
    return -1 - int64(at)


@kernel(f"int64({_STATE}, int64, int64, int64, {_READ}, int64, int64)", inlined=True)
def add_node(
    nodes: Column,
    bounds: Column,
    table: NDArray[np.int32],
    held: Column,
    counters: Column,
    place: int,
    hashed: int,
    start: int,
    words: Column,
    begin: int,
    length: int,
) -> Any:
    """Make a node for an event that no replica had before; return its number."""
    node, at = counters[NODES], counters[WORDS]
    table[place] = node
    nodes[node, START], nodes[node, OUT_END], nodes[node, HASH] = start, NOWHERE, hashed
    nodes[node, AT], nodes[node, LENGTH], nodes[node, MOST] = at, length, 0
    copy_words(words, begin, held, at, length)
    for replica in range(nodes.shape[1] - ENDS):
        nodes[node, ENDS + replica] = NOWHERE
        # For a replica that does not have the event by then there is none.
        bounds[node // BLOCK, replica] = min(bounds[node // BLOCK, replica], start)
    counters[NODES] += 1
    counters[LIVE] += 1
    counters[PEAK] = max(counters[PEAK], counters[LIVE])
    counters[WORDS] += length
    return int64(node)


@kernel("void(int64[:, ::1], int64, int64, int64, int64, int64, int64, int64, int64)", inlined=True)
def write_line(
    lines: Column, count: int, kind: int, start: int, prior: int, end: int, row: int, at: int, length: int
) -> None:
    """Write a line of output."""
    lines[KIND, count], lines[OUT_START, count], lines[OUT_PRIOR, count] = kind, start, prior
    lines[OUT_NEW, count], lines[OUT_FROM, count] = end, row
    lines[OUT_AT, count], lines[OUT_LENGTH, count] = at, length


@kernel(f"int64({_NODES}, int64, {_READ}, {_NODES}, int64, int8, int64, int64, int64, int64)", inlined=True)
def pass_over(
    standing: Column,
    replica: int,
    rules: Column,
    lines: Column,
    count: int,
    kind: int,
    start: int,
    end: int,
    row: int,
    length: int,
) -> int:
    """Leave an element out whose time is over; return the count of lines."""
    standing[replica, PASSED_OVER] += 1
    if rules[DIVERTS]:
        write_line(lines, count, PASSED_OVER_INSERT + kind, start, replica, end, row, 0, length)
        count += 1
    return count


@kernel("UniTuple(int64, 3)(int64[:, :], int8[::1], int64[:, ::1])")
def sum_up(lines: Column, kinds: NDArray[np.int8], payloads: Column) -> tuple[int, int, int]:
    """Write the kind of each line, and, for those that are not punctuations, where their payloads are.

    Return how many payloads there are, how many of them are held and not of the batch, and how many lines are adjusts.
    """
    rows, held, adjusts = 0, 0, 0
    for i in range(len(kinds)):
        kinds[i] = lines[KIND, i]
        adjusts += lines[KIND, i] == ADJUST
        if lines[KIND, i] != PUNCTUATE:
            payloads[0, rows], payloads[1, rows] = lines[OUT_FROM, i], lines[OUT_AT, i]
            payloads[2, rows] = lines[OUT_LENGTH, i]
            held += lines[OUT_FROM, i] == HELD
            rows += 1
    return rows, held, adjusts


@kernel(f"int64({_NODES}, int64, int64)", inlined=True)
def _due(nodes: Column, node: int, replica: int) -> int:
    """The time that a replica's punctuation must pass for a node to need attention."""
    start, given, out = nodes[node, START], nodes[node, ENDS + replica], nodes[node, OUT_END]
    return min(start if given == NOWHERE else given, start if out == NOWHERE else out)


@kernel(f"int64({_NODES}, int64)")
def _replicas_with(nodes: Column, node: int) -> int:
    """How many replicas have an event."""
    having = 0
    for place in range(ENDS, nodes.shape[1]):
        having += nodes[node, place] != NOWHERE
    return having


@kernel(f"boolean({_NODES}, int64, int64, {_READ}, int64[:, ::1])")
def _may_go_out(nodes: Column, node: int, replica: int, rules: Column, standing: Column) -> bool:
    """Whether an event that a replica sends now goes out by the rule for the first time."""
    if rules[FIRST_RULE] == WHEN_QUORUM:
        return _replicas_with(nodes, node) >= rules[QUORUM]
    return is_believed(rules, standing, replica)


@kernel(f"int64({_NODES}, {_NODES}, int64, int64[::1], int64, {_READ}, {_NODES}, {_NODES}, int64)")
def _revise(
    nodes: Column,
    bounds: Column,
    node: int,
    counters: Column,
    replica: int,
    rules: Column,
    standing: Column,
    lines: Column,
    count: int,
) -> int:
    """Emit another end of an event, if the rule for revisions and the output's punctuations allow it."""
    if not may_revise(rules, standing, replica):
        return count
    start, out, given = nodes[node, START], nodes[node, OUT_END], nodes[node, ENDS + replica]
    end = start if given == NOWHERE else given
    if end != out and min(end, out) >= counters[COMPLETE]:
        write_line(lines, count, ADJUST, start, out, end, HELD, nodes[node, AT], nodes[node, LENGTH])
        count += 1
        nodes[node, OUT_END] = NOWHERE if given == NOWHERE else end
        block = node // BLOCK
        for other in range(len(standing)):
            bounds[block, other] = min(bounds[block, other], _due(nodes, node, other))
    return count


@kernel(f"int64({_NODES}, int64)", inlined=True)
def _first_with(nodes: Column, node: int) -> int:
    """The first replica that has an event, or NOBODY."""
    for replica in range(nodes.shape[1] - ENDS):
        if nodes[node, ENDS + replica] != NOWHERE:
            return replica
    return NOBODY


@kernel(f"void({_NODES}, int64, int64, int64, int64[:, ::1])", inlined=True)
def _count_in(nodes: Column, node: int, kind: int, replica: int, standing: Column) -> None:
    """Count an element that was taken in: as one more event, or by what it is instead."""
    if kind == INSERT:
        standing[replica, DUPLICATES] += nodes[node, MOST]
        nodes[node, MOST] = 1
    else:
        most = int64(nodes[node, OUT_END] != NOWHERE or _first_with(nodes, node) != NOBODY)
        standing[replica, REVISED] += 1 + nodes[node, MOST] - most
        nodes[node, MOST] = most


@kernel(f"int64({_NODES}, int64, int64[::1], int64, {_READ}, int64[:, ::1], int64[:, ::1], int64)")
def _let_go(
    nodes: Column,
    node: int,
    counters: Column,
    leader: int,
    rules: Column,
    standing: Column,
    lines: Column,
    count: int,
) -> int:
    """Be done with a node; count an event that the output does not have. Return the count of lines."""
    start = nodes[node, START]
    if nodes[node, OUT_END] == NOWHERE or nodes[node, OUT_END] == start:
        holder = _first_with(nodes, node)
        if holder != NOBODY:
            standing[holder, CONTRADICTED] += nodes[node, MOST]
            if rules[DIVERTS] and nodes[node, MOST]:
                end, at, length = nodes[node, ENDS + holder], nodes[node, AT], nodes[node, LENGTH]
                write_line(lines, count, CONTRADICTED_EVENT, start, holder, end, HELD, at, length)
                count += 1
        else:
            standing[leader, REVISED] += nodes[node, MOST]
    nodes[node, LENGTH] = GONE
    counters[LIVE] -= 1
    for replica in range(len(standing)):
        standing[replica, LIVE_EVENTS] -= nodes[node, ENDS + replica] != NOWHERE
    return count


@kernel(f"int64({_NODES}, int64, int64[::1], int64, {_READ}, int64[:, ::1], int64, int64[:, ::1], int64)")
def _settle(
    nodes: Column,
    node: int,
    counters: Column,
    replica: int,
    rules: Column,
    standing: Column,
    t: int,
    lines: Column,
    count: int,
) -> int:
    """Make the output agree with a replica on an event that its punctuation freezes; return the count of lines."""
    start, out, given = nodes[node, START], nodes[node, OUT_END], nodes[node, ENDS + replica]
    end = start if given == NOWHERE else given
    if out == NOWHERE:
        if given != NOWHERE and (is_frozen(end, t) or rules[FIRST_RULE] != WHEN_FROZEN):
            write_line(lines, count, INSERT, start, end, end, HELD, nodes[node, AT], nodes[node, LENGTH])
            count += 1
            nodes[node, OUT_END] = end
    elif end != out and end < counters[COMPLETE]:
        # By its punctuations the output has an event that lasts longer: this replica contradicts those before it.
        counters[OTHER_ENDS] += 1
        standing[replica, LIVE_EVENTS] += given == NOWHERE
        end = nodes[node, ENDS + replica] = out
    elif end != out:
        write_line(lines, count, ADJUST, start, out, end, HELD, nodes[node, AT], nodes[node, LENGTH])
        count += 1
        nodes[node, OUT_END] = end
    if is_frozen(end, t) or rules[FIRST_RULE] == WHEN_FINAL:
        count = _let_go(nodes, node, counters, replica, rules, standing, lines, count)
    return count


@kernel(f"UniTuple(int64, 3)({_NODES}, {_NODES}, int64[::1], int64, {_READ}, {_NODES}, int64, {_NODES}, int64)")
def _freeze(
    nodes: Column,
    bounds: Column,
    counters: Column,
    replica: int,
    rules: Column,
    standing: Column,
    t: int,
    lines: Column,
    count: int,
) -> tuple[int, int, int]:
    """Settle all events that a punctuation freezes.

    Return the count of lines, how far the output is complete then, and whether all fitted. Where they did not, it is
    called again: what was settled is not due any more.
    """
    complete = t
    for block in range((counters[NODES] + BLOCK - 1) // BLOCK):
        if not is_frozen(bounds[block, replica], t):
            continue
        least = 2**63 - 1
        for node in range(block * BLOCK, min((block + 1) * BLOCK, counters[NODES])):
            if nodes[node, LENGTH] == GONE:
                continue
            if is_frozen(_due(nodes, node, replica), t) and nodes[node, START] < t:
                if count + 2 > lines.shape[1]:  # one of what goes out, and one of what is left out
                    return count, complete, 0
                count = _settle(nodes, node, counters, replica, rules, standing, t, lines, count)
            if nodes[node, LENGTH] != GONE:
                least = min(least, _due(nodes, node, replica))
                if nodes[node, OUT_END] == NOWHERE:
                    complete = min(complete, nodes[node, START])  # it is still to be emitted
        bounds[block, replica] = least
    return count, complete, 1


@kernel(f"UniTuple(int64, 2)({_NODES}, {_NODES}, int64[::1], int64, {_READ}, {_NODES}, int64, {_NODES}, int64)")
def _punctuate(
    nodes: Column,
    bounds: Column,
    counters: Column,
    replica: int,
    rules: Column,
    standing: Column,
    punctuation: int,
    lines: Column,
    count: int,
) -> tuple[int, int]:
    """Pass a replica's punctuation on, as far as it is news; return the count of lines, and whether all fitted."""
    t = settled_by(rules, standing, replica, punctuation)
    if t <= counters[SETTLED]:
        return count, 1
    count, complete, all_fit = _freeze(nodes, bounds, counters, replica, rules, standing, t, lines, count)
    if not all_fit or count == lines.shape[1]:
        return count, 0
    counters[SETTLED] = t
    if complete > counters[COMPLETE]:
        counters[COMPLETE] = complete
        write_line(lines, count, PUNCTUATE, complete, complete, complete, HELD, 0, 0)
        count += 1
    return count, 1


@kernel(f"void({_NODES}, int32[::1], {_KINDS}, {', '.join([_READ] * 3)}, int64, int64, int64[::1])", inlined=True)
def look_ahead(
    nodes: Column,
    table: NDArray[np.int32],
    kinds: NDArray[np.int8],
    starts: Column,
    offsets: Column,
    words: Column,
    first: int,
    row: int,
    hashes: Column,
) -> None:
    """Hash the next elements, and touch the nodes they may concern.

    The processor fetches them all at the same time. When they are needed, one after the other, they are there.
    """
    stop = min(first + AHEAD, len(kinds))
    for i in range(first, stop):
        if kinds[i] != PUNCTUATE:
            hashes[i - first] = hash_event(starts[i], words, offsets[row], offsets[row + 1] - offsets[row])
            row += 1
    mask, touched = uint64(len(table) - 1), int64(0)
    for i in range(stop - first):
        node = table[uint64(hashes[i]) & mask]
        if node != FREE:
            touched ^= nodes[node, HASH]
    hashes[AHEAD] = touched  # or the compiler would see that nobody needs it


@kernel(
    f"UniTuple(int64, 2)({_STATE}, int64, {_READ}, int64[:, ::1], {_KINDS}, "
    f"{', '.join([_READ] * 4)}, int64, int64, int64[::1], int64[:, ::1])"
)
def merge_elements(
    nodes: Column,
    bounds: Column,
    table: NDArray[np.int32],
    held: Column,
    counters: Column,
    replica: int,
    rules: Column,
    standing: Column,
    kinds: NDArray[np.int8],
    starts: Column,
    ends: Column,
    offsets: Column,
    words: Column,
    first: int,
    row: int,
    hashes: Column,
    lines: Column,
) -> tuple[int, int]:
    """Take a replica's elements from the first one given on; return where it stopped, and how many lines were written.

    `row` is the row of the first of them, `offsets` are where the words of each row's payload begin, `hashes` is room
    to work in. It stops early when the lines are full. There is room for as many nodes and words as the batch brings.
    """
    count, row = 0, row - 1
    # Asked for here, because calls with so many arrays are dear, and most merges do without.
    revises = rules[REVISION_RULE] != REVISE_WHEN_FROZEN
    at_once = rules[FIRST_RULE] == WHEN_QUORUM and rules[QUORUM] == 1
    for i in range(first, len(kinds)):
        if count == lines.shape[1]:
            return i, count
        ahead = (i - first) % AHEAD
        if ahead == 0:
            look_ahead(nodes, table, kinds, starts, offsets, words, i, row + 1, hashes)
        start = starts[i]
        if kinds[i] == PUNCTUATE:
            count, all_fit = _punctuate(nodes, bounds, counters, replica, rules, standing, start, lines, count)
            if not all_fit:
                return i, count
            continue
        row += 1
        begin, length = offsets[row], offsets[row + 1] - offsets[row]
        hashed = hashes[ahead]
        node = find_node(nodes, table, held, hashed, start, words, begin, length)
        if node < 0:
            if kinds[i] == ADJUST or start < counters[SETTLED]:
                count = pass_over(standing, replica, rules, lines, count, kinds[i], start, ends[i], row, length)
                continue
            node = add_node(nodes, bounds, table, held, counters, -1 - node, hashed, start, words, begin, length)
        end = NOWHERE if kinds[i] == ADJUST and ends[i] == start else ends[i]
        standing[replica, LIVE_EVENTS] += (end != NOWHERE) - (nodes[node, ENDS + replica] != NOWHERE)
        standing[replica, NEWEST] = max(standing[replica, NEWEST], start)
        nodes[node, ENDS + replica] = end
        is_out = nodes[node, OUT_END] != NOWHERE
        may_go_out = not is_out and end != NOWHERE and start >= counters[SETTLED]
        if is_out and revises:
            count = _revise(nodes, bounds, node, counters, replica, rules, standing, lines, count)
        elif may_go_out and (at_once or _may_go_out(nodes, node, replica, rules, standing)):
            nodes[node, OUT_END] = end
            write_line(lines, count, INSERT, start, end, end, row, nodes[node, AT], length)
            count += 1
        _count_in(nodes, node, kinds[i], replica, standing)
        block = node // BLOCK
        bounds[block, replica] = min(bounds[block, replica], _due(nodes, node, replica))
    return len(kinds), count


@kernel(f"void({_NODES}, int64[:, ::1], int64[::1], int64[::1], {_STATE.rsplit(',', 1)[0]})")
def move_together(
    nodes: Column,
    bounds: Column,
    held: Column,
    counters: Column,
    new_nodes: Column,
    new_bounds: Column,
    new_table: NDArray[np.int32],
    new_held: Column,
) -> None:
    """Move the nodes that are not done with into new memory, which is large enough for them."""
    moved, at = 0, 0
    new_table[:] = FREE
    new_bounds[:, :] = 2**63 - 1
    mask = uint64(len(new_table) - 1)
    for node in range(counters[NODES]):
        begin, length = nodes[node, AT], nodes[node, LENGTH]
        if length == GONE:
            continue
        for place in range(nodes.shape[1]):
            new_nodes[moved, place] = nodes[node, place]
        copy_words(held, begin, new_held, at, length)
        new_nodes[moved, AT] = at
        at += length
        block, was = moved // BLOCK, node // BLOCK
        for replica in range(bounds.shape[1]):
            new_bounds[block, replica] = min(new_bounds[block, replica], bounds[was, replica])
        place = uint64(nodes[node, HASH]) & mask
        while new_table[place] != FREE:
            place = (place + uint64(1)) & mask
        new_table[place] = moved
        moved += 1
    counters[NODES], counters[WORDS] = moved, at
