"""Merges replicas of events with a key by an index for each replica and one for the output: LMerge's naive case R3.

Where replicated_events has one node for an event, with the ends that all replicas give it, here every replica's index
has a node of its own, with its own copy of the payload, and so has the index of what was emitted. So an element is
looked up twice, a punctuation looks up what it may freeze, and what is done with is looked up in the index of every
replica.

It exists to be compared with the other. All else is alike: nodes of what was emitted lie in blocks of BLOCK, and for
each block and replica a bound is kept: no node of it needs attention before a punctuation of that replica passes it.

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section VI-A (LMR3-).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slackwater.kernels.columns.payload_words import hash_event
from slackwater.kernels.compile import kernel
from slackwater.kernels.replicas.event_index import (
    AT,
    BLOCK,
    COUNTERS,
    FIELDS,
    GONE,
    HASH,
    INDEX,
    LENGTH,
    LINES,
    NODES,
    READ,
    START,
    WORDS,
    add_event,
    find_event,
    forget_event,
    lower_bound,
)
from slackwater.kernels.replicas.output_lines import ADJUST, HELD, INSERT, PUNCTUATE, write_line
from slackwater.kernels.replicas.replica_standing import is_frozen

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from slackwater.kernels.replicas.event_index import Column, Table

END: Final = FIELDS
"""Column of a node: the end that was emitted; of a replica that had the event and took it back, NOWHERE."""
NODE: Final = FIELDS + 1
"""How many columns a node has."""

NOWHERE: Final = -(2**63)
"""The end of an event that a replica has not sent, or has taken back."""

COMPLETE: Final = COUNTERS
"""Place in the output's counters: its last punctuation."""
IGNORED: Final = COUNTERS + 1
"""Place in the output's counters: elements that came when the output was complete past their time."""
CONTRADICTED: Final = COUNTERS + 2
"""Place in the output's counters: ends that were not emitted, because a punctuation of the output rules them out."""
OUTPUT_COUNTERS: Final = COUNTERS + 3

GONE_NODE, GONE_LENGTH = 0, 1
"""Columns of what is done with: the node of the output's index, and how many words its payload has."""

_FOREVER: Final = 2**63 - 1
_NO_ROOM: Final = -1


@kernel(f"int64({INDEX}, int64, int64, {READ}, int64, int64)")
def _node_of(
    nodes: Column,
    table: Table,
    held: Column,
    counters: Column,
    hashed: int,
    start: int,
    words: Column,
    begin: int,
    length: int,
) -> int:
    """The node of an event in a replica's index, which is made if there is none; _NO_ROOM if it cannot be made."""
    found = find_event(nodes, table, held, hashed, start, words, begin, length)
    if found >= 0:
        return found
    if counters[NODES] == len(nodes) or counters[WORDS] + length > len(held):
        return _NO_ROOM
    return add_event(nodes, table, held, counters, -1 - found, hashed, start, words, begin, length)


@kernel(f"int64({LINES}, {READ}, int64[::1], {INDEX}, int64, int64, {LINES}, int64)")
def _agree(
    out_nodes: Column,
    out_held: Column,
    out_counters: Column,
    own_nodes: Column,
    own_table: Table,
    own_held: Column,
    own_counters: Column,
    node: int,
    end: int,
    lines: Column,
    count: int,
) -> int:
    """Make the output agree with a replica on the end of an event; return the count of lines, or _NO_ROOM."""
    start, out, at, length = out_nodes[node, START], out_nodes[node, END], out_nodes[node, AT], out_nodes[node, LENGTH]
    if end == out:
        return count
    if end >= out_counters[COMPLETE]:
        write_line(lines, count, ADJUST, start, out, end, HELD, at, length)
        out_nodes[node, END] = end
        return count + 1
    # By its punctuations the output has an event that lasts longer: this replica contradicts those before it.
    hashed = out_nodes[node, HASH]
    mine = _node_of(own_nodes, own_table, own_held, own_counters, hashed, start, out_held, at, length)
    if mine == _NO_ROOM:
        return _NO_ROOM
    own_nodes[mine, END] = out
    out_counters[CONTRADICTED] += 1
    return count


@kernel(
    f"UniTuple(int64, 3)({LINES}, {READ}, int64[::1], {LINES}, {INDEX}, int64, int64, {LINES}, int64, {LINES}, int64)"
)
def _freeze(
    out_nodes: Column,
    out_held: Column,
    out_counters: Column,
    bounds: Column,
    own_nodes: Column,
    own_table: Table,
    own_held: Column,
    own_counters: Column,
    replica: int,
    t: int,
    lines: Column,
    count: int,
    gone: Column,
    leaving: int,
) -> tuple[int, int, int]:
    """Make the output agree with a replica on all that its punctuation freezes.

    Return the counts of lines and of nodes that are done with, and whether all fitted. Where they did not, it is
    called again: what was settled is not due any more.
    """
    for block in range((out_counters[NODES] + BLOCK - 1) // BLOCK):
        if not is_frozen(bounds[block, replica], t):
            continue
        least = _FOREVER
        for node in range(block * BLOCK, min((block + 1) * BLOCK, out_counters[NODES])):
            length = out_nodes[node, LENGTH]
            if length == GONE:
                continue
            start, at, out = out_nodes[node, START], out_nodes[node, AT], out_nodes[node, END]
            found = find_event(own_nodes, own_table, own_held, out_nodes[node, HASH], start, out_held, at, length)
            given = own_nodes[found, END] if found >= 0 else NOWHERE
            end = start if given == NOWHERE else given
            if start >= t or not is_frozen(min(end, out), t):
                least = min(least, end, out)
                continue
            if count == lines.shape[1] or leaving == len(gone):
                return count, leaving, 0
            agreed = _agree(
                out_nodes, out_held, out_counters, own_nodes, own_table, own_held, own_counters, node, end, lines, count
            )
            if agreed == _NO_ROOM:
                return count, leaving, 0
            count, end = agreed, out_nodes[node, END]
            if is_frozen(end, t):
                gone[leaving, GONE_NODE], gone[leaving, GONE_LENGTH] = node, length
                leaving += 1
                forget_event(out_nodes, out_counters, node)
            else:
                least = min(least, end)
        bounds[block, replica] = least
    return count, leaving, 1


@kernel(
    f"UniTuple(int64, 3)({INDEX}, {LINES}, {INDEX}, int64, Array(int8, 1, 'C', readonly=True), "
    f"{', '.join([READ] * 4)}, int64, int64, {LINES}, {LINES})"
)
def merge_elements(
    out_nodes: Column,
    out_table: Table,
    out_held: Column,
    out_counters: Column,
    bounds: Column,
    own_nodes: Column,
    own_table: Table,
    own_held: Column,
    own_counters: Column,
    replica: int,
    kinds: NDArray[np.int8],
    starts: Column,
    ends: Column,
    offsets: Column,
    words: Column,
    first: int,
    row: int,
    lines: Column,
    gone: Column,
) -> tuple[int, int, int]:
    """Take a replica's elements from the first one given on; `row` is the last row before it.

    Return where it stopped, how many lines were written, and how many nodes are done with. It stops early when lines,
    those nodes or the replica's own index are full: one that contradicts others is given what they sent. The index of
    what was emitted has room for as many nodes and words as the batch may bring.
    """
    count, leaving = 0, 0
    for i in range(first, len(kinds)):
        if count == lines.shape[1]:
            return i, count, leaving
        start = starts[i]
        if kinds[i] == PUNCTUATE:
            if start <= out_counters[COMPLETE]:
                continue
            count, leaving, all_fit = _freeze(
                out_nodes, out_held, out_counters, bounds, own_nodes, own_table, own_held, own_counters, replica,
                start, lines, count, gone, leaving,
            )  # fmt: skip
            if not all_fit or count == lines.shape[1]:
                return i, count, leaving
            out_counters[COMPLETE] = start
            write_line(lines, count, PUNCTUATE, start, start, start, HELD, 0, 0)
            count += 1
            continue
        row += 1
        begin = offsets[row]
        length = offsets[row + 1] - begin
        hashed = hash_event(start, words, begin, length)
        out = find_event(out_nodes, out_table, out_held, hashed, start, words, begin, length)
        if out < 0 and (kinds[i] == ADJUST or start < out_counters[COMPLETE]):
            out_counters[IGNORED] += 1
            continue
        mine = _node_of(own_nodes, own_table, own_held, own_counters, hashed, start, words, begin, length)
        if mine == _NO_ROOM:
            return i, count, leaving
        if out < 0:
            place = -1 - out
            out = add_event(out_nodes, out_table, out_held, out_counters, place, hashed, start, words, begin, length)
            out_nodes[out, END] = ends[i]
            for other in range(bounds.shape[1]):
                # For a replica that does not have the event by then there is none.
                lower_bound(bounds, out, other, start)
            write_line(lines, count, INSERT, start, ends[i], ends[i], row, 0, 0)
            count += 1
        taken_back = kinds[i] == ADJUST and ends[i] == start
        own_nodes[mine, END] = NOWHERE if taken_back else ends[i]
        lower_bound(bounds, out, replica, min(ends[i], out_nodes[out, END]))
    return len(kinds), count, leaving


@kernel(f"void({INDEX}, {LINES}, {READ}, {LINES}, int64)")
def forget(
    nodes: Column,
    table: Table,
    held: Column,
    counters: Column,
    emitted: Column,
    words: Column,
    gone: Column,
    leaving: int,
) -> None:
    """Be done, in a replica's index, with the events that the index of what was emitted is done with."""
    for i in range(leaving):
        node = gone[i, GONE_NODE]
        start, at, hashed = emitted[node, START], emitted[node, AT], emitted[node, HASH]
        found = find_event(nodes, table, held, hashed, start, words, at, gone[i, GONE_LENGTH])
        if found >= 0:
            forget_event(nodes, counters, found)
