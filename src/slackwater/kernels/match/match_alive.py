"""Finds all pairs of a left and a right row of one key that are alive at the same time: the loop of the window join.

New rows of both sides are taken in the order of their starts. Each visits the chain of its key on the other side,
pairs with every node that is still alive at its start, unlinks the others for good, and then joins the chain of its
own side (Bai et al., ICDE 2007, figure 6: production, then consumption).

Cost: one visit per new row, per pair found and per row that has expired; rows that stay alive unmatched cost nothing.
"""

from __future__ import annotations

import numpy as np

from slackwater.kernels.compile import kernel
from slackwater.kernels.match.chains import (
    CODE,
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
    grown,
)

_SIDE = "int64[:, ::1], int64[:, ::1], int64[::1], int64, int64"


@kernel("int64(int64[:, ::1], int64[:, ::1], int64[::1], int64, int64, int64[::1], int64)")
def _pair_with_alive(
    nodes: Table, chains: Table, tally: Table, code: int, now: int, partners: Table, pairs: int
) -> int:
    """Write the nodes of a chain that are alive now to partners, from `pairs` on; unlink the dead."""
    before = pairs
    previous = NOBODY
    node = chains[code, HEAD]
    while node != NOBODY:
        following = nodes[node, NEXT]
        if nodes[node, UNTIL] > now:
            partners[pairs] = node
            pairs += 1
            previous = node
        elif previous == NOBODY:
            chains[code, HEAD] = following
        else:
            nodes[previous, NEXT] = following
        node = following
    chains[code, TAIL] = previous
    alive = pairs - before
    tally[VISITED] += chains[code, LENGTH]
    tally[LINKED] -= chains[code, LENGTH] - alive
    chains[code, LENGTH] = alive
    return pairs


@kernel(f"Tuple((int64[::1], int64[::1]))({_SIDE}, {_SIDE})", makes_arrays=True)
def match_alive(
    left_nodes: Table,
    left_chains: Table,
    left_tally: Table,
    left: int,
    left_stop: int,
    right_nodes: Table,
    right_chains: Table,
    right_tally: Table,
    right: int,
    right_stop: int,
) -> tuple[Table, Table]:
    """Pair the new nodes `left` to `left_stop` and `right` to `right_stop` with all of the other side that live.

    Return the left and the right node of each pair, in the order of the pairs' later starts. Ties: left rows go
    first, and a row finds its partners in the order of their starts.
    """
    pairs = 0
    from_left = np.empty(16 + 2 * (left_stop - left + right_stop - right), dtype=np.int64)
    from_right = np.empty(len(from_left), dtype=np.int64)
    while left < left_stop or right < right_stop:
        left_goes = right == right_stop or (left < left_stop and left_nodes[left, START] <= right_nodes[right, START])
        before = pairs
        code = left_nodes[left, CODE] if left_goes else right_nodes[right, CODE]
        most = pairs + (right_chains[code, LENGTH] if left_goes else left_chains[code, LENGTH])
        while most > len(from_left):
            from_left, from_right = grown(from_left), grown(from_right)
        if left_goes:
            now = left_nodes[left, START]
            pairs = _pair_with_alive(right_nodes, right_chains, right_tally, code, now, from_right, pairs)
            from_left[before:pairs] = left
            append_node(left_nodes, left_chains, left_tally, left)
            left += 1
        else:
            now = right_nodes[right, START]
            pairs = _pair_with_alive(left_nodes, left_chains, left_tally, code, now, from_left, pairs)
            from_right[before:pairs] = right
            append_node(right_nodes, right_chains, right_tally, right)
            right += 1
    return from_left[:pairs], from_right[:pairs]
