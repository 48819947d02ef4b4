"""An index that finds events again by start and payload, in arrays that compiled loops work on.

Every event has a node, one line of int64 columns: its start, where the words of its payload are held and how many they
are, its hash; the columns after these belong to who uses the index. A hash table finds nodes. Start and payload are
compared exactly, word by word.

Nodes are only ever appended. One that is done with is marked as gone and stays until there is no room for more; then
the others are moved together, so that each is moved once, on average. Nothing is deleted from the table.

Who lets events go in order of time must find those that are due, not look at all that live. Nodes lie in blocks, as
they came. For each block there may be bounds, of each replica for example: no node of the block needs attention before
time has passed the bound. So only blocks with something due are opened.

Invariant: the table has at least as many free places as it has nodes.

Numba does not see that a kernel calls these when it looks for its machine code on disk: after a change in this file
save the kernels that call it, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numba import int64, uint64

from slackwater.kernels.columns.payload_words import copy_words, same_words
from slackwater.kernels.compile import kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]
    Table = NDArray[np.int32]

START: Final = 0
"""Column of a node: the start of the event."""
AT: Final = 1
"""Column of a node: where the words of its payload begin."""
LENGTH: Final = 2
"""Column of a node: how many words they are; GONE for a node that is done with."""
HASH: Final = 3
"""Column of a node: the hash of start and payload; UNLISTED for a node that the table does not know."""
FIELDS: Final = 4
"""The first column of a node that belongs to who uses the index."""

GONE: Final = -1
UNLISTED: Final = -1

NODES: Final = 0
"""Place in counters: how many nodes there are, those that are done with included."""
LIVE: Final = 1
"""Place in counters: how many are not done with."""
WORDS: Final = 2
"""Place in counters: how many words are held, those of nodes that are done with included."""
COUNTERS: Final = 3
"""The first place in counters that belongs to who uses the index."""

FREE: Final = -1
"""A place in the table that no node has."""

BLOCK: Final = 128
"""Nodes of a block."""

_FOREVER: Final = 2**63 - 1

READ: Final = "Array(int64, 1, 'C', readonly=True)"
"""The type of a column that is only read."""
LINES: Final = "int64[:, ::1]"
"""The type of lines of columns."""
INDEX: Final = f"{LINES}, int32[::1], int64[::1], int64[::1]"
"""The types of an index: its nodes, table, held words and counters."""


@kernel(f"int64({LINES}, int32[::1], int64[::1], int64, int64, {READ}, int64, int64)", inlined=True)
def find_event(
    nodes: Column, table: Table, held: Column, hashed: int, start: int, words: Column, begin: int, length: int
) -> Any:
    """The node of an event; if there is none, -1 less the place in the table where it would stand."""
    mask = uint64(len(table) - 1)
    place = uint64(hashed) & mask
    while table[place] != FREE:
        node = table[place]
        alike = nodes[node, HASH] == hashed and nodes[node, START] == start and nodes[node, LENGTH] == length
        if alike and same_words(held, nodes[node, AT], words, begin, length):
            return int64(node)
        place = (place + uint64(1)) & mask
    return -1 - int64(place)


@kernel(f"int64({INDEX}, int64, int64, int64, {READ}, int64, int64)", inlined=True)
def add_event(
    nodes: Column,
    table: Table,
    held: Column,
    counters: Column,
    place: int,
    hashed: int,
    start: int,
    words: Column,
    begin: int,
    length: int,
) -> Any:
    """Make a node for an event, at a free place in the table; return its number. There is room for it."""
    node, at = counters[NODES], counters[WORDS]
    table[place] = node
    nodes[node, START], nodes[node, AT], nodes[node, LENGTH], nodes[node, HASH] = start, at, length, hashed
    copy_words(words, begin, held, at, length)
    counters[NODES] += 1
    counters[LIVE] += 1
    counters[WORDS] += length
    return int64(node)


@kernel(f"void({LINES}, int64[::1], int64)", inlined=True)
def forget_event(nodes: Column, counters: Column, node: int) -> None:
    """Be done with a node."""
    nodes[node, LENGTH] = GONE
    counters[LIVE] -= 1


@kernel(f"void({LINES}, int64, int64, int64)", inlined=True)
def lower_bound(bounds: Column, node: int, which: int, due: int) -> None:
    """See that a bound does not hide a node that needs attention when time has passed an instant."""
    block = node // BLOCK
    bounds[block, which] = min(bounds[block, which], due)


@kernel(f"void({LINES}, int64[::1], int64[::1], {LINES}, int64[::1], int64[::1])")
def move_together(
    nodes: Column, held: Column, counters: Column, new_nodes: Column, new_held: Column, moved_to: Column
) -> None:
    """Move the nodes that are not done with, and their words, into new memory that is large enough.

    `moved_to` gets the new number of every old node, GONE where there is none.
    """
    moved, at = 0, 0
    for node in range(counters[NODES]):
        begin, length = nodes[node, AT], nodes[node, LENGTH]
        moved_to[node] = GONE if length == GONE else moved
        if length == GONE:
            continue
        for column in range(nodes.shape[1]):
            new_nodes[moved, column] = nodes[node, column]
        copy_words(held, begin, new_held, at, length)
        new_nodes[moved, AT] = at
        at += length
        moved += 1
    counters[NODES], counters[WORDS] = moved, at


@kernel(f"void({LINES}, int64[::1], int32[::1])")
def fill_table(nodes: Column, counters: Column, table: Table) -> None:
    """Make the table know the nodes that are not done with, and none else."""
    for place in range(len(table)):
        table[place] = FREE
    mask = uint64(len(table) - 1)
    for node in range(counters[NODES]):
        if nodes[node, LENGTH] == GONE or nodes[node, HASH] == UNLISTED:
            continue
        free = uint64(nodes[node, HASH]) & mask
        while table[free] != FREE:
            free = (free + uint64(1)) & mask
        table[free] = node


@kernel(f"void({LINES}, {LINES}, {READ})")
def move_bounds(bounds: Column, new_bounds: Column, moved_to: Column) -> None:
    """Make bounds for the blocks in which nodes lie after they were moved."""
    new_bounds[:, :] = _FOREVER
    for node in range(len(moved_to)):
        if moved_to[node] != GONE:
            for which in range(bounds.shape[1]):
                lower_bound(new_bounds, moved_to[node], which, bounds[node // BLOCK, which])
