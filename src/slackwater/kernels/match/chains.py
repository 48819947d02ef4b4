"""Chains of rows that have the same key, from which rows that can match no more fall off when somebody comes by.

A side of a join is one table of nodes (a node is a row of that side: its number is the row's number) and one table
of chains (a chain per key code). Both are int64 tables with named columns, one line per node or chain, so that a
visit to a node touches one line of memory.

Invariant: a chain holds its nodes in the order of their numbers, which is the order of their starts.
Cost: appending is O(1). Kernels call a function once per row, not once per node: a call counts references to its
arrays, which costs more than the visit of a node.

Numba does not see that a kernel calls these when it looks for its machine code on disk: after a change in this file
save the kernels that call it, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slackwater.kernels.compile import kernel

if TYPE_CHECKING:
    from typing import Final

Table: TypeAlias = NDArray[np.int64]
"""Lines of int64 columns."""

START: Final = 0
"""Column of a node: when the row starts."""
UNTIL: Final = 1
"""Column of a node: the first instant at which a partner can no longer start."""
CODE: Final = 2
"""Column of a node: the code of its key."""
NEXT: Final = 3
"""Column of a node: the next node of its chain, or NOBODY."""
NODE_COLUMNS: Final = 4
"""How many columns a node has."""

HEAD: Final = 0
"""Column of a chain: its first node, or NOBODY."""
TAIL: Final = 1
"""Column of a chain: its last node, or NOBODY."""
LENGTH: Final = 2
"""Column of a chain: how many nodes it has."""
CHAIN_COLUMNS: Final = 3
"""How many columns a chain has."""

LINKED: Final = 0
"""Place in a tally: how many nodes are in chains."""
VISITED: Final = 1
"""Place in a tally: how many nodes were ever looked at."""

NOBODY: Final = -1
"""No node."""

EMPTY_CHAIN: Final = (NOBODY, NOBODY, 0)
"""The chain of a key that no node has."""


@kernel("void(int64[:, ::1], int64[:, ::1], int64[::1], int64)")
def append_node(nodes: Table, chains: Table, tally: Table, node: int) -> None:
    """Put a node at the end of its key's chain."""
    code = nodes[node, CODE]
    last = chains[code, TAIL]
    if last == NOBODY:
        chains[code, HEAD] = node
    else:
        nodes[last, NEXT] = node
    nodes[node, NEXT] = NOBODY
    chains[code, TAIL] = node
    chains[code, LENGTH] += 1
    tally[LINKED] += 1


@kernel("void(int64[:, ::1], int64[:, ::1], int64[::1], int64, int64)")
def append_nodes(nodes: Table, chains: Table, tally: Table, first: int, stop: int) -> None:
    """Put nodes first to stop, which are in order of start, at the ends of their chains."""
    for node in range(first, stop):
        append_node(nodes, chains, tally, node)


@kernel("int64[::1](int64[::1])", makes_arrays=True)
def grown(column: Table) -> Table:
    """Return the column with room for twice as many entries."""
    larger = np.empty(2 * len(column), dtype=np.int64)
    for i in range(len(column)):  # a slice would compile ten times as long
        larger[i] = column[i]
    return larger
