"""Merges replicas that may tell the same event any number of times, and revise each: LMerge's case R4, compiled.

As in replicated_events there is one node for each start and payload, in blocks with a bound for each replica. Where
that has one end for each replica and for the output, here are short lists of (end, count), in order of end (the paper's
in3t). The lists of all nodes lie in one array of entries; entries that are done with are used again.

When a punctuation passes the start of an event, the output gets as many of it as the replica has (AdjustOutputCount).
When it passes ends, the output gets exactly the replica's (AdjustOutput): surplus ends are moved to those that lack.
Paper: the technical report of Physically Independent Stream Merging, section IV-E.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slackwater.kernels.compile import kernel
from slackwater.kernels.payload_words import hash_event
from slackwater.kernels.replicated_events import (
    ADJUST,
    AT,
    BLOCK,
    COMPLETE,
    CONTRADICTED,
    ENDS,
    GONE,
    HELD,
    IGNORED,
    INSERT,
    LENGTH,
    LIVE,
    NODES,
    OUT_END,
    PUNCTUATE,
    SETTLED,
    START,
    add_node,
    find_node,
    tell,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

ENTRIES: Final = 6
"""Place in counters: how many entries there are, those that can be used again included."""
UNUSED: Final = 7
"""Place in counters: the first entry that can be used again; the next one stands in it."""

END: Final = 0
"""Place in an entry: an end."""
COUNT: Final = 1
"""Place in an entry: how many events have it."""
NEXT: Final = 2
"""Place in an entry: the next one of its list, with a later end."""
ENTRY: Final = 3

_NONE: Final = -1
_FOREVER: Final = 2**63 - 1
_NOWHERE: Final = -(2**63)

_READ = "Array(int64, 1, 'C', readonly=True)"
_TWO = "int64[:, ::1]"
_STATE = f"{_TWO}, {_TWO}, int32[::1], int64[::1], int64[::1], {_TWO}"


@kernel(f"int64({_TWO}, int64[::1], int64, int64)")
def _entry(entries: Column, counters: Column, end: int, following: int) -> int:
    """Take an entry that is not used."""
    entry = counters[UNUSED]
    if entry == _NONE:
        entry = counters[ENTRIES]
        counters[ENTRIES] += 1
    else:
        counters[UNUSED] = entries[entry, NEXT]
    entries[entry, END], entries[entry, COUNT], entries[entry, NEXT] = end, 1, following
    return entry


@kernel(f"void({_TWO}, int64, int64, {_TWO}, int64[::1], int64)")
def _count_up(nodes: Column, node: int, which: int, entries: Column, counters: Column, end: int) -> None:
    """Count one more event with an end in a list of a node."""
    before, at = _NONE, nodes[node, which]
    while at >= 0 and entries[at, END] < end:
        before, at = at, entries[at, NEXT]
    if at >= 0 and entries[at, END] == end:
        entries[at, COUNT] += 1
        return
    made = _entry(entries, counters, end, at)
    if before == _NONE:
        nodes[node, which] = made
    else:
        entries[before, NEXT] = made


@kernel(f"boolean({_TWO}, int64, int64, {_TWO}, int64[::1], int64)")
def _count_down(nodes: Column, node: int, which: int, entries: Column, counters: Column, end: int) -> bool:
    """Count one event less; False if there is none with that end."""
    before, at = _NONE, nodes[node, which]
    while at >= 0 and entries[at, END] < end:
        before, at = at, entries[at, NEXT]
    if at < 0 or entries[at, END] != end:
        return False
    entries[at, COUNT] -= 1
    if entries[at, COUNT] == 0:
        if before == _NONE:
            nodes[node, which] = entries[at, NEXT]
        else:
            entries[before, NEXT] = entries[at, NEXT]
        entries[at, NEXT] = counters[UNUSED]
        counters[UNUSED] = at
    return True


@kernel(f"int64({_TWO}, int64, int64, {_TWO})")
def _total(nodes: Column, node: int, which: int, entries: Column) -> int:
    total, at = 0, nodes[node, which]
    while at >= 0:
        total += entries[at, COUNT]
        at = entries[at, NEXT]
    return total


@kernel(f"int64({_TWO}, int64, int64, int64, {_TWO}, int64)")
def _more_in(nodes: Column, node: int, one: int, other: int, entries: Column, latest: int) -> int:
    """An end that one list has more often than the other, the first or the last; _NOWHERE if there is none."""
    found = _NOWHERE
    a, b = nodes[node, one], nodes[node, other]
    while a >= 0:
        while b >= 0 and entries[b, END] < entries[a, END]:
            b = entries[b, NEXT]
        there = entries[b, COUNT] if b >= 0 and entries[b, END] == entries[a, END] else 0
        if entries[a, COUNT] > there:
            found = entries[a, END]
            if not latest:
                return found
        a = entries[a, NEXT]
    return found


@kernel(f"int64({_TWO}, int64, int64, {_TWO}, int64)")
def _due(nodes: Column, node: int, replica: int, entries: Column, complete: int) -> int:
    """The time that a replica's punctuation must pass for a node to need attention: first of all its start."""
    if nodes[node, START] >= complete:
        return nodes[node, START]
    given, told = nodes[node, ENDS + replica], nodes[node, OUT_END]
    first = entries[given, END] if given >= 0 else nodes[node, START]
    return min(first, entries[told, END] if told >= 0 else _FOREVER)


@kernel(f"int64({_TWO}, int64, {_TWO}, int64[::1], int64, {_TWO}, int64)")
def _equal_count(
    nodes: Column, node: int, entries: Column, counters: Column, replica: int, lines: Column, count: int
) -> int:
    """Make the output have as many events as the replica: take back those it lacks, tell those the output lacks."""
    start, ins = nodes[node, START], ENDS + replica
    surplus = _total(nodes, node, OUT_END, entries) - _total(nodes, node, ins, entries)
    while surplus > 0:
        end = _more_in(nodes, node, OUT_END, ins, entries, 0)
        _count_down(nodes, node, OUT_END, entries, counters, end)
        tell(lines, count, ADJUST, start, end, start, HELD, nodes[node, AT], nodes[node, LENGTH])
        count += 1
        surplus -= 1
    while surplus < 0:
        end = _more_in(nodes, node, ins, OUT_END, entries, 0)
        _count_up(nodes, node, OUT_END, entries, counters, end)
        tell(lines, count, INSERT, start, end, end, HELD, nodes[node, AT], nodes[node, LENGTH])
        count += 1
        surplus += 1
    return count


@kernel(f"int64({_TWO}, int64, {_TWO}, int64[::1], int64, int64, {_TWO}, int64)")
def _equal_ends(
    nodes: Column, node: int, entries: Column, counters: Column, replica: int, t: int, lines: Column, count: int
) -> int:
    """Make the output have exactly the ends of the replica, as far as a punctuation freezes them."""
    start, ins = nodes[node, START], ENDS + replica
    while True:
        old, new = _more_in(nodes, node, OUT_END, ins, entries, 0), _more_in(nodes, node, ins, OUT_END, entries, 0)
        if min(old, new) == _NOWHERE or min(old, new) >= t:
            break
        # What freezes on one side is paired with what lasts longest on the other, unless that freezes, too.
        old = old if old < t else _more_in(nodes, node, OUT_END, ins, entries, 1)
        new = new if new < t else _more_in(nodes, node, ins, OUT_END, entries, 1)
        if min(old, new) < counters[COMPLETE]:
            # The output has promised otherwise: the replica is taken to have said what was told.
            counters[CONTRADICTED] += 1
            _count_down(nodes, node, ins, entries, counters, new)
            _count_up(nodes, node, ins, entries, counters, old)
            continue
        _count_down(nodes, node, OUT_END, entries, counters, old)
        _count_up(nodes, node, OUT_END, entries, counters, new)
        tell(lines, count, ADJUST, start, old, new, HELD, nodes[node, AT], nodes[node, LENGTH])
        count += 1
    return count


@kernel(f"int64({_TWO}, int64, {_TWO}, int64[::1], int64, int64, {_TWO}, int64)")
def _tell_frozen(
    nodes: Column, node: int, entries: Column, counters: Column, replica: int, t: int, lines: Column, count: int
) -> int:
    """Tell the events of a replica that its punctuation freezes, each of which nobody has heard of yet."""
    start, at = nodes[node, START], nodes[node, ENDS + replica]
    while at >= 0 and entries[at, END] < t:
        end, told = entries[at, END], 0
        out = nodes[node, OUT_END]
        while out >= 0 and entries[out, END] < end:
            out = entries[out, NEXT]
        if out >= 0 and entries[out, END] == end:
            told = entries[out, COUNT]
        for _ in range(entries[at, COUNT] - told):
            _count_up(nodes, node, OUT_END, entries, counters, end)
            tell(lines, count, INSERT, start, end, end, HELD, nodes[node, AT], nodes[node, LENGTH])
            count += 1
        at = entries[at, NEXT]
    return count


@kernel(f"void({_TWO}, int64, {_TWO}, int64[::1])")
def _forget(nodes: Column, node: int, entries: Column, counters: Column) -> None:
    """Leave a node's lists for others to use."""
    for which in range(OUT_END, nodes.shape[1]):
        if which != OUT_END and which < ENDS:
            continue
        at = nodes[node, which]
        while at >= 0:
            following = entries[at, NEXT]
            entries[at, NEXT] = counters[UNUSED]
            counters[UNUSED] = at
            at = following
        nodes[node, which] = _NONE
    nodes[node, LENGTH] = GONE
    counters[LIVE] -= 1


@kernel(f"boolean({_TWO}, int64, int64, {_TWO}, int64)")
def _all_before(nodes: Column, node: int, which: int, entries: Column, t: int) -> bool:
    at = nodes[node, which]
    while at >= 0:
        if entries[at, END] >= t:
            return False
        at = entries[at, NEXT]
    return True


@kernel(f"int64({_TWO}, int64, {_TWO}, int64[::1], int64, int64, int64, {_TWO}, int64)")
def _settle(
    nodes: Column,
    node: int,
    entries: Column,
    counters: Column,
    replica: int,
    only_frozen: int,
    t: int,
    lines: Column,
    count: int,
) -> int:
    """Make the output agree with a replica on a node that its punctuation freezes; return the count of lines."""
    if only_frozen:
        count = _tell_frozen(nodes, node, entries, counters, replica, t, lines, count)
    else:
        if nodes[node, START] >= counters[SETTLED]:
            count = _equal_count(nodes, node, entries, counters, replica, lines, count)
        count = _equal_ends(nodes, node, entries, counters, replica, t, lines, count)
    if _all_before(nodes, node, ENDS + replica, entries, t):
        _forget(nodes, node, entries, counters)
    return count


@kernel(f"UniTuple(int64, 3)({_TWO}, {_TWO}, int64[::1], {_TWO}, int64, int64, int64, {_TWO}, int64)")
def _freeze(
    nodes: Column,
    bounds: Column,
    counters: Column,
    entries: Column,
    replica: int,
    only_frozen: int,
    t: int,
    lines: Column,
    count: int,
) -> tuple[int, int, int]:
    """Settle all events that a punctuation freezes.

    Return the count of lines, how far the output is complete then, and whether all fitted. Where they did not, it is
    called again: what was settled is settled again without a word.
    """
    # Where only what is frozen is told, a node needs attention as long as it lives: it holds the promise back.
    complete, promised = _NOWHERE if only_frozen else counters[SETTLED], t
    for block in range((counters[NODES] + BLOCK - 1) // BLOCK):
        if bounds[block, replica] >= t:
            continue
        least = _FOREVER
        for node in range(block * BLOCK, min((block + 1) * BLOCK, counters[NODES])):
            if nodes[node, LENGTH] == GONE:
                continue
            if _due(nodes, node, replica, entries, complete) < t and nodes[node, START] < t:
                room = _total(nodes, node, OUT_END, entries) + _total(nodes, node, ENDS + replica, entries)
                if count + room > lines.shape[1]:
                    return count, promised, 0
                count = _settle(nodes, node, entries, counters, replica, only_frozen, t, lines, count)
                if nodes[node, LENGTH] == GONE:
                    continue
                for other in range(bounds.shape[1]):
                    due = _due(nodes, node, other, entries, _NOWHERE if only_frozen else nodes[node, START] + 1)
                    bounds[block, other] = min(bounds[block, other], due)
            if only_frozen:
                promised, least = min(promised, nodes[node, START]), min(least, nodes[node, START])
            else:
                least = min(least, _due(nodes, node, replica, entries, min(t, nodes[node, START] + 1)))
        bounds[block, replica] = least
    return count, promised, 1


@kernel(f"void({_TWO}, int64, int64, {_TWO}, int64[::1], int64, int64, int64)")
def _revise(
    nodes: Column, node: int, ins: int, entries: Column, counters: Column, start: int, prior_end: int, end: int
) -> None:
    """Give one event of a replica another end, or take it back."""
    if not _count_down(nodes, node, ins, entries, counters, prior_end):
        counters[IGNORED] += 1
    elif end > start:
        _count_up(nodes, node, ins, entries, counters, end)


@kernel(f"boolean({_TWO}, int64, int64, {_TWO}, int64[::1], int64, int64)")
def _is_one_more(nodes: Column, node: int, ins: int, entries: Column, counters: Column, start: int, end: int) -> bool:
    """Count an event of a replica, and in the output if the replica has more than that; say whether it has."""
    _count_up(nodes, node, ins, entries, counters, end)
    more = _total(nodes, node, ins, entries) > _total(nodes, node, OUT_END, entries)
    if more and start >= counters[COMPLETE]:
        _count_up(nodes, node, OUT_END, entries, counters, end)
        return True
    return False


@kernel(f"UniTuple(int64, 2)({_TWO}, {_TWO}, int64[::1], {_TWO}, int64, int64, int64, {_TWO}, int64)")
def _promise(
    nodes: Column,
    bounds: Column,
    counters: Column,
    entries: Column,
    replica: int,
    only_frozen: int,
    t: int,
    lines: Column,
    count: int,
) -> tuple[int, int]:
    """Pass a replica's punctuation on, as far as it says more; return the count of lines, and whether all fitted."""
    if t <= counters[SETTLED]:
        return count, 1
    count, promised, all_fit = _freeze(nodes, bounds, counters, entries, replica, only_frozen, t, lines, count)
    if not all_fit or count == lines.shape[1]:
        return count, 0
    counters[SETTLED] = t
    if promised > counters[COMPLETE]:
        counters[COMPLETE] = promised
        tell(lines, count, PUNCTUATE, promised, promised, promised, HELD, 0, 0)
        count += 1
    return count, 1


@kernel(
    f"UniTuple(int64, 2)({_STATE}, int64, int64, Array(int8, 1, 'C', readonly=True), "
    f"{', '.join([_READ] * 5)}, int64, int64, {_TWO})"
)
def merge_elements(
    nodes: Column,
    bounds: Column,
    table: NDArray[np.int32],
    held: Column,
    counters: Column,
    entries: Column,
    replica: int,
    only_frozen: int,
    kinds: NDArray[np.int8],
    starts: Column,
    prior_ends: Column,
    ends: Column,
    offsets: Column,
    words: Column,
    first: int,
    row: int,
    lines: Column,
) -> tuple[int, int]:
    """Take a replica's elements from the first one given on; return where it stopped, and how many lines were told.

    `row` is the row of the first of them. It stops early when the lines are full. There is room for as many nodes,
    words and entries as the batch may bring.
    """
    count, ins, row = 0, ENDS + replica, row - 1
    for i in range(first, len(kinds)):
        if count == lines.shape[1]:
            return i, count
        start = starts[i]
        if kinds[i] == PUNCTUATE:
            count, all_fit = _promise(nodes, bounds, counters, entries, replica, only_frozen, start, lines, count)
            if not all_fit:
                return i, count
            continue
        row += 1
        begin, length = offsets[row], offsets[row + 1] - offsets[row]
        hashed = hash_event(start, words, begin, length)
        node = find_node(nodes, table, held, hashed, start, words, begin, length)
        if node < 0:
            if kinds[i] == ADJUST or start < counters[SETTLED]:
                counters[IGNORED] += 1
                continue
            node = add_node(nodes, bounds, table, held, counters, -1 - node, hashed, start, words, begin, length)
        if kinds[i] == ADJUST:
            _revise(nodes, node, ins, entries, counters, start, prior_ends[i], ends[i])
        elif only_frozen:
            _count_up(nodes, node, ins, entries, counters, ends[i])
        elif _is_one_more(nodes, node, ins, entries, counters, start, ends[i]):
            tell(lines, count, INSERT, start, ends[i], ends[i], row, nodes[node, AT], length)
            count += 1
        block = node // BLOCK
        due = _due(nodes, node, replica, entries, _NOWHERE if only_frozen else counters[SETTLED])
        bounds[block, replica] = min(bounds[block, replica], due)
    return len(kinds), count


@kernel(f"void({_TWO}, int64[::1], {_TWO}, {_TWO})")
def move_entries(nodes: Column, counters: Column, entries: Column, new_entries: Column) -> None:
    """Move the lists of all nodes into new memory; those that are done with have none."""
    used = 0
    for node in range(counters[NODES]):
        for which in range(OUT_END, nodes.shape[1]):
            if which != OUT_END and which < ENDS:
                continue
            at, before = nodes[node, which], _NONE
            while at >= 0:
                new_entries[used, END], new_entries[used, COUNT] = entries[at, END], entries[at, COUNT]
                new_entries[used, NEXT] = _NONE
                if before == _NONE:
                    nodes[node, which] = used
                else:
                    new_entries[before, NEXT] = used
                before = used
                used += 1
                at = entries[at, NEXT]
    counters[ENTRIES], counters[UNUSED] = used, _NONE
