"""Holds the events of several replicas until they are fully frozen in all, and finds those that differ, compiled.

Each start and payload has one node, which an index finds and all replicas share. For each replica it has a list of
counted ends, and how many events there are in all, those that were compared before included.

Each block of nodes has two bounds: no end of it is less than the one, no start of it less than the other. So a
comparison opens only the blocks with something due.

Where replicas never revise (`final`), an event is frozen when its start is; otherwise its end must be. An event without
an end is frozen by no punctuation but FOREVER. When all replicas have ended, one that is complete past its start is
asked whether there is such an event; its end is not compared, for the event might have got one.

Invariant: what is left in lists is not before the last comparison.
Cost: one look-up per element and a step for each other end of the same start and payload; a comparison costs what it
compares, and a look at each block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slackwater.kernels.columns.payload_words import hash_event
from slackwater.kernels.compile import kernel
from slackwater.kernels.replicas.counted_ends import NO_ENTRY, count_down, count_up, first_end, take_first
from slackwater.kernels.replicas.event_index import (
    AT,
    BLOCK,
    COUNTERS,
    FIELDS,
    GONE,
    INDEX,
    LENGTH,
    LINES,
    NODES,
    READ,
    START,
    add_event,
    find_event,
    forget_event,
    lower_bound,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from slackwater.kernels.replicas.event_index import Column, Table

FIRST: Final = FIELDS
"""Column of a node: the first entry of the first replica's list of ends."""
TOTAL: Final = FIELDS + 1
"""Column of a node: how many events of this start and payload the first replica has sent and not taken back."""
OF_REPLICA: Final = 2
"""How many columns further those of the next replica stand."""

EVENTS: Final = COUNTERS
"""Place in counters: how many events are held."""
ALL_COUNTERS: Final = COUNTERS + 1

LEAST_END, LEAST_START = 0, 1
BOUNDS: Final = 2
"""Columns of a block's bounds."""

MISSING, MISSING_END, EXTRA, DIFFERENT_END = range(4)
"""How a replica differs from the others; see operators.replicas.compare."""

OUT_AT, OUT_LENGTH, OUT_START, OUT_END, OUT_REPLICA, OUT_HOW = range(6)
OUT: Final = 6
"""Columns of what is reported: where the payload's words are held, how many they are, start, end, replica and how."""

COMPLETE_FROM, COMPLETE_BEFORE = 0, 1
STANDING: Final = 2
"""Columns of a replica's standing: from when on its events are compared, and its last punctuation."""

ALL_FIT: Final = -1
"""Every adjust concerned an event that is held."""

_INSERT, _ADJUST, _PUNCTUATE = 0, 1, 2  # as in events.kinds
_FOREVER: Final = 2**63 - 1
_NOBODY: Final = -1
"""How many events are agreed on before anybody was asked."""


@kernel(
    f"int64({INDEX}, {LINES}, {LINES}, int64, int64, boolean, Array(int8, 1, 'C', readonly=True), "
    f"{', '.join([READ] * 5)})"
)
def take_elements(
    nodes: Column,
    table: Table,
    held: Column,
    counters: Column,
    entries: Column,
    bounds: Column,
    replica: int,
    complete_from: int,
    final: bool,
    kinds: NDArray[np.int8],
    starts: Column,
    prior_ends: Column,
    ends: Column,
    offsets: Column,
    words: Column,
) -> int:
    """Take a replica's inserts and adjusts; return the first adjust that concerns no event, or ALL_FIT.

    Events that start before `complete_from` are passed over, and so are punctuations, which have no row. `offsets` are
    where the words of each row begin. There is room for as many nodes, words and entries as the batch may bring.
    """
    row, first, total = -1, FIRST + OF_REPLICA * replica, TOTAL + OF_REPLICA * replica
    for i in range(len(kinds)):
        if kinds[i] == _PUNCTUATE:
            continue
        row += 1
        start, end = starts[i], ends[i]
        if start < complete_from:
            continue
        begin = offsets[row]
        length = offsets[row + 1] - begin
        hashed = hash_event(start, words, begin, length)
        node = find_event(nodes, table, held, hashed, start, words, begin, length)
        if kinds[i] == _ADJUST:
            if node < 0 or not count_down(nodes, node, first, entries, prior_ends[i]):
                return i
        else:
            if node < 0:
                node = add_event(nodes, table, held, counters, -1 - node, hashed, start, words, begin, length)
                for column in range(FIRST, nodes.shape[1], OF_REPLICA):
                    nodes[node, column], nodes[node, column + 1] = NO_ENTRY, 0
            nodes[node, total] += 1
            counters[EVENTS] += 1
        if kinds[i] == _ADJUST and end == start:
            nodes[node, total] -= 1
            counters[EVENTS] -= 1
        else:
            count_up(nodes, node, first, entries, end)
        # An event that was taken back has its start for its end: then it is over for its node, too.
        lower_bound(bounds, node, LEAST_END, start if final else end)
        lower_bound(bounds, node, LEAST_START, start)
    return ALL_FIT


@kernel(f"int64({READ}, Array(boolean, 1, 'C', readonly=True))")
def _most_frequent(counts: Column, takes_part: NDArray[np.bool_]) -> int:
    """The count that most of those who take part have; of several as frequent ones that of the first."""
    most, found = 0, 0
    for one in range(len(counts)):
        if not takes_part[one]:
            continue
        alike = 0
        for other in range(len(counts)):
            alike += takes_part[other] and counts[other] == counts[one]
        if alike > most:
            most, found = alike, counts[one]
    return found


@kernel(f"int64({LINES}, int64, int64, boolean, {LINES}, {READ}, int64[::1], boolean[::1], int64[::1], {LINES}, int64)")
def _report(
    nodes: Column,
    node: int,
    end: int,
    final: bool,
    standing: Column,
    counts: Column,
    totals: Column,
    takes_part: NDArray[np.bool_],
    tally: Column,
    out: Column,
    count: int,
) -> int:
    """Write a line for each replica that has an event another number of times than most; return the count of lines.

    A replica that is not complete past the end of an event that has none may still give it one: nothing is reported
    about ends then.
    """
    for replica in range(len(counts)):
        totals[replica] = nodes[node, TOTAL + OF_REPLICA * replica]
    usual, usual_total = _most_frequent(counts, takes_part), _most_frequent(totals, takes_part)
    for replica in range(len(counts)):
        if not takes_part[replica] or counts[replica] == usual:
            continue
        if counts[replica] < usual:
            how = MISSING if totals[replica] < usual_total else MISSING_END
        else:
            how = EXTRA if totals[replica] > usual_total else DIFFERENT_END
        may_get_an_end = end == _FOREVER and standing[replica, COMPLETE_BEFORE] != _FOREVER and not final
        if may_get_an_end and how in (MISSING_END, DIFFERENT_END):
            continue
        out[OUT_AT, count], out[OUT_LENGTH, count] = nodes[node, AT], nodes[node, LENGTH]
        out[OUT_START, count], out[OUT_END, count] = nodes[node, START], end
        out[OUT_REPLICA, count], out[OUT_HOW, count] = replica, how
        tally[replica] += 1
        count += 1
    return count


@kernel(f"int64({LINES}, int64, {LINES})")
def _first_end(nodes: Column, node: int, entries: Column) -> int:
    """The least end that any replica gives a node; _FOREVER if there is none."""
    least = _FOREVER
    for column in range(FIRST, nodes.shape[1], OF_REPLICA):
        if nodes[node, column] != NO_ENTRY:
            least = min(least, first_end(nodes, node, column, entries))
    return least


@kernel(f"boolean({LINES}, int64)")
def _is_empty(nodes: Column, node: int) -> bool:
    """Whether no replica has an event of a node any more."""
    for column in range(FIRST, nodes.shape[1], OF_REPLICA):  # noqa: SIM110 - the compiler knows loops, not generators
        if nodes[node, column] != NO_ENTRY:
            return False
    return True


@kernel(
    f"int64({LINES}, int64, {LINES}, int64[::1], int64, boolean, boolean, {LINES}, int64[::1], int64[::1], "
    f"boolean[::1], int64[::1], {LINES}, int64)"
)
def _compare_node(
    nodes: Column,
    node: int,
    entries: Column,
    counters: Column,
    complete: int,
    final: bool,
    ended: bool,
    standing: Column,
    counts: Column,
    totals: Column,
    takes_part: NDArray[np.bool_],
    tally: Column,
    out: Column,
    count: int,
) -> int:
    """Compare the events of a node that are frozen in all replicas; return the count of lines.

    It stops early when there may be no room for the next event's lines.
    """
    while not _is_empty(nodes, node):
        end = _first_end(nodes, node, entries)
        known_at = nodes[node, START] if final else end
        if (known_at >= complete and complete < _FOREVER) or count + len(counts) > out.shape[1]:
            break
        agreed, differ = _NOBODY, False
        for replica in range(len(counts)):
            first, own = FIRST + OF_REPLICA * replica, standing[replica, COMPLETE_BEFORE]
            counts[replica] = 0
            if first_end(nodes, node, first, entries) == end:
                counts[replica] = take_first(nodes, node, first, entries)
                counters[EVENTS] -= counts[replica]
            frozen = known_at < own or own == _FOREVER
            exists = ended and end == _FOREVER and nodes[node, START] < own
            takes_part[replica] = (frozen or exists) and nodes[node, START] >= standing[replica, COMPLETE_FROM]
            if takes_part[replica]:
                differ = differ or (agreed != _NOBODY and counts[replica] != agreed)
                agreed = counts[replica]
        if differ:
            count = _report(nodes, node, end, final, standing, counts, totals, takes_part, tally, out, count)
    return count


@kernel(
    f"UniTuple(int64, 2)({LINES}, int64[::1], {LINES}, {LINES}, int64, boolean, boolean, {LINES}, int64[::1], "
    f"int64[::1], boolean[::1], int64[::1], {LINES})"
)
def compare(
    nodes: Column,
    counters: Column,
    entries: Column,
    bounds: Column,
    complete: int,
    final: bool,
    ended: bool,
    standing: Column,
    counts: Column,
    totals: Column,
    takes_part: NDArray[np.bool_],
    tally: Column,
    out: Column,
) -> tuple[int, int]:
    """Compare all events that are frozen, where all replicas are complete before an instant: FOREVER stands for all.

    `ended`: no replica goes on. Return how many lines were written, and whether that is all; if not, it is called
    again. `counts`, `totals` and `takes_part` have a place for each replica and are written to; `tally` counts the
    lines of each replica.
    """
    count = 0
    for block in range((counters[NODES] + BLOCK - 1) // BLOCK):
        if bounds[block, LEAST_END] >= complete and complete < _FOREVER:
            continue
        least_end = least_start = _FOREVER
        for node in range(block * BLOCK, min((block + 1) * BLOCK, counters[NODES])):
            if nodes[node, LENGTH] == GONE:
                continue
            count = _compare_node(
                nodes,
                node,
                entries,
                counters,
                complete,
                final,
                ended,
                standing,
                counts,
                totals,
                takes_part,
                tally,
                out,
                count,
            )
            start = nodes[node, START]
            end = start if final else _first_end(nodes, node, entries)
            if _is_empty(nodes, node):
                if start < complete:
                    forget_event(nodes, counters, node)
                    continue
                end = start
            elif end < complete or complete == _FOREVER:
                return count, 0
            least_end, least_start = min(least_end, end), min(least_start, start)
        bounds[block, LEAST_END], bounds[block, LEAST_START] = least_end, least_start
    return count, 1


@kernel(f"void({LINES}, {LINES}, int64[::1], {LINES}, int64)")
def forget_replica(nodes: Column, entries: Column, counters: Column, bounds: Column, replica: int) -> None:
    """Take everything back that a replica has sent. Cost: O(nodes)."""
    first = FIRST + OF_REPLICA * replica
    for node in range(counters[NODES]):
        if nodes[node, LENGTH] == GONE:
            continue
        while nodes[node, first] != NO_ENTRY:
            counters[EVENTS] -= take_first(nodes, node, first, entries)
        nodes[node, first + 1] = 0
        lower_bound(bounds, node, LEAST_END, nodes[node, START])
