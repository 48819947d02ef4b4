"""A block is sorted as a stable sort would, whatever it is like and whatever the blocks before it were like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.sorting.block_sort import BLOCK, BlockSorter
from slackwater.kernels.sorting.pairs import room_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

_AT = np.arange(1_000)
_BLOCKS: dict[str, NDArray[np.int64]] = {
    "ordered": _AT,
    "one a little late": np.where(_AT == 500, 480, _AT),
    "one very late": np.where(_AT == 900, -5, _AT),
    "some very late": np.where(_AT % 100 == 99, 0, _AT),
    "descending": _AT[::-1].copy(),
    "constant": np.full(1_000, 7),
    "disordered": np.random.default_rng(0).permutation(1_000),
}


@given(st.lists(st.sampled_from(sorted(_BLOCKS)), max_size=25))
def test_equals_a_stable_argsort_after_any_blocks(names: list[str]) -> None:
    """What was tried in vain on a block before changes how a block is sorted, not to what."""
    sorter = BlockSorter()
    for number, name in enumerate(names):
        times, first_row = _BLOCKS[name], 1_000 * number
        in_order = sorter.sort(times, first_row, room_for(len(times)))
        order = np.argsort(times, kind="stable")
        assert np.array_equal(in_order.rows, first_row + order)
        assert np.array_equal(in_order.times, times[order])


def test_a_block_in_order_is_not_copied() -> None:
    """Its own column is handed back."""
    times = np.arange(BLOCK)
    assert BlockSorter().sort(times, 0, room_for(BLOCK)).times is times
