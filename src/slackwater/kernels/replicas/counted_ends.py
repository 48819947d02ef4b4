"""Short lists of ends, each with how many events have it, in order of end: what the papers keep for equal events.

A list begins in a column of a node, which has the number of its first entry. The entries of all lists lie in one array;
those that are done with are used again. The first line of that array is no entry: it has how many lines are used, and
which of them can be used again. So a number that is not greater than NO_ENTRY stands for the end of a list.

Invariants: ends rise along a list, and every entry counts at least one event.
Cost: a step for each other end in the same list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.kernels.compile import kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Column = NDArray[np.int64]

END, COUNT, NEXT = range(3)
ENTRY: Final = 3
"""Columns of an entry: an end, how many events have it, and the entry of the next end."""

NO_ENTRY: Final = 0
NO_END: Final = -(2**63)
"""Stands for an end that is not there."""

_USED, _UNUSED = 0, 1
"""Columns of the first line: how many lines are used, and the first that can be used again; the next stands in it."""

_LINES = "int64[:, ::1]"
_LIST = f"{_LINES}, int64, int64, {_LINES}"


def empty_entries(room: int = 0) -> NDArray[np.int64]:
    """No entry, and room for some."""
    entries: NDArray[np.int64] = np.empty((room + 1, ENTRY), dtype=np.int64)
    entries[0] = 1, NO_ENTRY, NO_ENTRY
    return entries


def used_lines(entries: Column) -> int:
    """How many lines of the array are used, the first one and those that can be used again included."""
    return int(entries[0, _USED])


def spelled_out(entries: Column, first: int) -> Iterator[tuple[int, int]]:
    """The ends of a list and how many events have each."""
    at = first
    while at > NO_ENTRY:
        end, count, at = entries[at].tolist()
        yield end, count


@kernel(f"void({_LIST}, int64)")
def count_up(nodes: Column, node: int, which: int, entries: Column, end: int) -> None:
    """Count one more event with an end."""
    before, at = NO_ENTRY, nodes[node, which]
    while at > NO_ENTRY and entries[at, END] < end:
        before, at = at, entries[at, NEXT]
    if at > NO_ENTRY and entries[at, END] == end:
        entries[at, COUNT] += 1
        return
    made = entries[0, _UNUSED]
    if made == NO_ENTRY:
        made = entries[0, _USED]
        entries[0, _USED] += 1
    else:
        entries[0, _UNUSED] = entries[made, NEXT]
    entries[made, END], entries[made, COUNT], entries[made, NEXT] = end, 1, at
    if before == NO_ENTRY:
        nodes[node, which] = made
    else:
        entries[before, NEXT] = made


@kernel(f"boolean({_LIST}, int64)")
def count_down(nodes: Column, node: int, which: int, entries: Column, end: int) -> bool:
    """Count one event with an end less; False if there is none."""
    before, at = NO_ENTRY, nodes[node, which]
    while at > NO_ENTRY and entries[at, END] < end:
        before, at = at, entries[at, NEXT]
    if at <= NO_ENTRY or entries[at, END] != end:
        return False
    entries[at, COUNT] -= 1
    if entries[at, COUNT] == 0:
        if before == NO_ENTRY:
            nodes[node, which] = entries[at, NEXT]
        else:
            entries[before, NEXT] = entries[at, NEXT]
        entries[at, NEXT] = entries[0, _UNUSED]
        entries[0, _UNUSED] = at
    return True


@kernel(f"int64({_LIST})")
def take_first(nodes: Column, node: int, which: int, entries: Column) -> int:
    """Take the first entry out of a list that has one; return how many events it had."""
    at = nodes[node, which]
    nodes[node, which] = entries[at, NEXT]
    entries[at, NEXT] = entries[0, _UNUSED]
    entries[0, _UNUSED] = at
    return entries[at, COUNT]


@kernel(f"int64({_LIST})")
def first_end(nodes: Column, node: int, which: int, entries: Column) -> int:
    """The least end of a list, or NO_END."""
    at = nodes[node, which]
    return entries[at, END] if at > NO_ENTRY else NO_END


@kernel(f"int64({_LIST})")
def last_end(nodes: Column, node: int, which: int, entries: Column) -> int:
    """The greatest end of a list, or NO_END."""
    found, at = NO_END, nodes[node, which]
    while at > NO_ENTRY:
        found, at = entries[at, END], entries[at, NEXT]
    return found


@kernel(f"int64({_LIST})")
def total(nodes: Column, node: int, which: int, entries: Column) -> int:
    """How many events a list counts."""
    counted, at = 0, nodes[node, which]
    while at > NO_ENTRY:
        counted += entries[at, COUNT]
        at = entries[at, NEXT]
    return counted


@kernel(f"int64({_LIST}, int64)")
def count_of(nodes: Column, node: int, which: int, entries: Column, end: int) -> int:
    """How many events of a list have an end."""
    at = nodes[node, which]
    while at > NO_ENTRY and entries[at, END] < end:
        at = entries[at, NEXT]
    return entries[at, COUNT] if at > NO_ENTRY and entries[at, END] == end else 0


@kernel(f"int64({_LINES}, int64, int64, int64, {_LINES}, int64, boolean)")
def surplus_end(nodes: Column, node: int, one: int, other: int, entries: Column, least: int, latest: bool) -> int:
    """An end, not before the least, that one list of a node counts more often than another; NO_END if none is.

    It is the first of them, or the latest.
    """
    found = NO_END
    a, b = nodes[node, one], nodes[node, other]
    while a > NO_ENTRY:
        while b > NO_ENTRY and entries[b, END] < entries[a, END]:
            b = entries[b, NEXT]
        there = entries[b, COUNT] if b > NO_ENTRY and entries[b, END] == entries[a, END] else 0
        if entries[a, COUNT] > there and entries[a, END] >= least:
            found = entries[a, END]
            if not latest:
                return found
        a = entries[a, NEXT]
    return found


@kernel(f"void({_LINES}, int64, Array(int64, 1, 'C', readonly=True), {_LINES}, {_LINES})")
def move_lists(nodes: Column, used_nodes: int, columns: Column, entries: Column, new_entries: Column) -> None:
    """Move the lists that begin in some columns of the nodes to an array without entries, which is large enough."""
    used = 1
    for node in range(used_nodes):
        for which in columns:
            at, before = nodes[node, which], NO_ENTRY
            while at > NO_ENTRY:
                new_entries[used, END], new_entries[used, COUNT] = entries[at, END], entries[at, COUNT]
                new_entries[used, NEXT] = NO_ENTRY
                if before == NO_ENTRY:
                    nodes[node, which] = used
                else:
                    new_entries[before, NEXT] = used
                before = used
                used += 1
                at = entries[at, NEXT]
    new_entries[0, _USED], new_entries[0, _UNUSED] = used, NO_ENTRY
