"""Merges replicas whose events may be revised, where start and payload are a key: LMerge's case R3, in compiled loops.

Each event that is not frozen yet has one node (see merged_events) with one end for each replica and one for the output
(the paper's in2t).

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section IV-C, algorithm R3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numba import int64, uint64

from slackwater.kernels.columns.payload_words import hash_event
from slackwater.kernels.compile import kernel
from slackwater.kernels.replicas.event_index import (
    AT,
    BLOCK,
    FREE,
    GONE,
    HASH,
    LENGTH,
    LINES,
    NODES,
    READ,
    START,
    forget_event,
    lower_bound,
)
from slackwater.kernels.replicas.merged_events import (
    COMPLETE,
    ENDS,
    KINDS,
    MOST,
    NOBODY,
    NOWHERE,
    OTHER_ENDS,
    OUT_END,
    RANKED,
    SETTLED,
    STATE,
    node_of,
    punctuate_output,
)
from slackwater.kernels.replicas.output_lines import (
    ADJUST,
    CONTRADICTED_EVENT,
    HELD,
    INSERT,
    PUNCTUATE,
    pass_over,
    write_line,
)
from slackwater.kernels.replicas.replica_standing import (
    CONTRADICTED,
    DIVERTS,
    DUPLICATES,
    FIRST_RULE,
    LIVE_EVENTS,
    NEWEST,
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

    from slackwater.kernels.replicas.event_index import Column, Table

AHEAD: Final = 64
"""Elements that are looked at before the first of them is taken."""


@kernel(f"int64({LINES}, int64, int64)", inlined=True)
def _due(nodes: Column, node: int, replica: int) -> int:
    """The time that a replica's punctuation must pass for a node to need attention."""
    start, given, out = nodes[node, START], nodes[node, ENDS + replica], nodes[node, OUT_END]
    return min(start if given == NOWHERE else given, start if out == NOWHERE else out)


@kernel(f"int64({LINES}, int64)")
def _replicas_with(nodes: Column, node: int) -> int:
    """How many replicas have an event."""
    having = 0
    for place in range(ENDS, nodes.shape[1]):
        having += nodes[node, place] != NOWHERE
    return having


@kernel(f"boolean({LINES}, int64, {RANKED})")
def _may_go_out(nodes: Column, node: int, replica: int, rules: Column, standing: Column) -> bool:
    """Whether an event that a replica sends now goes out by the rule for the first time."""
    if rules[FIRST_RULE] == WHEN_QUORUM:
        return _replicas_with(nodes, node) >= rules[QUORUM]
    return is_believed(rules, standing, replica)


@kernel(f"int64({LINES}, {LINES}, int64, int64[::1], {RANKED}, {LINES}, int64)")
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
        for other in range(len(standing)):
            lower_bound(bounds, node, other, _due(nodes, node, other))
    return count


@kernel(f"int64({LINES}, int64)", inlined=True)
def _first_with(nodes: Column, node: int) -> int:
    """The first replica that has an event, or NOBODY."""
    for replica in range(nodes.shape[1] - ENDS):
        if nodes[node, ENDS + replica] != NOWHERE:
            return replica
    return NOBODY


@kernel(f"void({LINES}, int64, int64, int64, {LINES})", inlined=True)
def _count_in(nodes: Column, node: int, kind: int, replica: int, standing: Column) -> None:
    """Count an element that was taken in: as one more event, or by what it is instead."""
    if kind == INSERT:
        standing[replica, DUPLICATES] += nodes[node, MOST]
        nodes[node, MOST] = 1
    else:
        most = int64(nodes[node, OUT_END] != NOWHERE or _first_with(nodes, node) != NOBODY)
        standing[replica, REVISED] += 1 + nodes[node, MOST] - most
        nodes[node, MOST] = most


@kernel(f"int64({LINES}, int64, int64[::1], {RANKED}, {LINES}, int64)")
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
    forget_event(nodes, counters, node)
    for replica in range(len(standing)):
        standing[replica, LIVE_EVENTS] -= nodes[node, ENDS + replica] != NOWHERE
    return count


@kernel(f"int64({LINES}, int64, int64[::1], {RANKED}, int64, {LINES}, int64)")
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


@kernel(f"UniTuple(int64, 3)({LINES}, {LINES}, int64[::1], {RANKED}, int64, {LINES}, int64)")
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


@kernel(f"void({LINES}, int32[::1], {KINDS}, {', '.join([READ] * 3)}, int64, int64, int64[::1])", inlined=True)
def look_ahead(
    nodes: Column,
    table: Table,
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


@kernel(f"UniTuple(int64, 2)({STATE}, {RANKED}, {KINDS}, {', '.join([READ] * 4)}, int64, int64, int64[::1], {LINES})")
def merge_elements(
    nodes: Column,
    table: Table,
    held: Column,
    counters: Column,
    bounds: Column,
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
            t = settled_by(rules, standing, replica, start)
            if t > counters[SETTLED]:
                count, complete, all_fit = _freeze(nodes, bounds, counters, replica, rules, standing, t, lines, count)
                if not all_fit or count == lines.shape[1]:
                    return i, count
                count = punctuate_output(counters, t, complete, lines, count)
            continue
        row += 1
        begin, length = offsets[row], offsets[row + 1] - offsets[row]
        node = node_of(nodes, table, held, counters, bounds, kinds[i], hashes[ahead], start, words, begin, length)
        if node < 0:
            count = pass_over(standing, replica, rules, lines, count, kinds[i], start, ends[i], row, length)
            continue
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
        lower_bound(bounds, node, replica, _due(nodes, node, replica))
    return len(kinds), count
