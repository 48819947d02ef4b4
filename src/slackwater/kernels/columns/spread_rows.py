"""Spreads rows over a number of places by their bytes: equal rows have the same place, in every process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.kernels.columns.payload_words import hash_event
from slackwater.kernels.compile import kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

_READ = "Array(int64, 1, 'C', readonly=True)"


@kernel(f"void({_READ}, {_READ}, {_READ}, int64, uint16[::1])")
def spread_rows(times: Column, offsets: Column, words: Column, places: int, place: NDArray[np.uint16]) -> None:
    """Write the place of each row, by its time and its words, which begin at the offsets."""
    for row in range(len(times)):
        hashed = hash_event(times[row], words, offsets[row], offsets[row + 1] - offsets[row])
        place[row] = (hashed >> 16) % places
