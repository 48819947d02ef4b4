"""Finds for each row the first rows of its key that come after it: the loop of followed_by.

A first row waits in the chain of its key. The earliest rows of the other stream that start later pair with it; from
then on it lives only to the end of that instant, so that others which start at the very same time, in this call or in
a later one, pair with it too.

Cost: one visit per new row, per pair found and per row that has expired; one more per row that completes pairs.
"""

from __future__ import annotations

import numpy as np

from slackwater.kernels.compile import kernel
from slackwater.kernels.match.chains import (
    HEAD,
    LENGTH,
    LINKED,
    NEXT,
    NOBODY,
    START,
    TAIL,
    UNTIL,
    VISITED,
    Table,
    append_node,
    append_nodes,
    grown,
)

# Batches are read-only, chains are not.
_COLUMN = "Array(int64, 1, 'C', True)"


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[::1], int64, int64, int64[::1], int64)")
def _pair_with_earlier(nodes: Table, chains: Table, tally: Table, code: int, now: int, found: Table, pairs: int) -> int:
    """Write the nodes of a chain that started before now and are alive to found, from `pairs` on; unlink the dead.

    A node that is found stops living after this instant. As time goes on the dead and the found are always the
    beginning of a chain: starts are in order, and nodes that were found were found together with all before them.
    """
    node = chains[code, HEAD]
    while node != NOBODY and nodes[node, UNTIL] <= now:
        node = nodes[node, NEXT]
        chains[code, LENGTH] -= 1
        tally[LINKED] -= 1
        tally[VISITED] += 1
    chains[code, HEAD] = node
    if node == NOBODY:
        chains[code, TAIL] = NOBODY
    # Simultaneous rows do not follow each other; in the order of starts they are the rest of the chain.
    while node != NOBODY and nodes[node, START] < now:
        found[pairs] = node
        pairs += 1
        nodes[node, UNTIL] = now + 1
        node = nodes[node, NEXT]
        tally[VISITED] += 1
    return pairs


@kernel(
    f"Tuple((int64[::1], int64[::1]))(int64[:, ::1], int64[:, ::1], int64[::1], int64, int64, {_COLUMN}, {_COLUMN})",
    makes_arrays=True,
)
def match_next(
    nodes: Table, chains: Table, tally: Table, first: int, stop: int, then_start: Table, then_code: Table
) -> tuple[Table, Table]:
    """Chain the new nodes `first` to `stop` and pair what is chained with the rows that follow.

    Return the node and the row number of each pair, in the order of the following rows. A code of -1 pairs with
    nothing.
    """
    pairs = 0
    found = np.empty(16 + 2 * len(then_start), dtype=np.int64)
    followed_by = np.empty(len(found), dtype=np.int64)
    for row in range(len(then_start)):
        now, code = then_start[row], then_code[row]
        while first < stop and nodes[first, START] < now:
            append_node(nodes, chains, tally, first)
            first += 1
        if code < 0:
            continue
        while pairs + chains[code, LENGTH] > len(found):
            found, followed_by = grown(found), grown(followed_by)
        before = pairs
        pairs = _pair_with_earlier(nodes, chains, tally, code, now, found, pairs)
        followed_by[before:pairs] = row
    append_nodes(nodes, chains, tally, first, stop)
    return found[:pairs], followed_by[:pairs]
