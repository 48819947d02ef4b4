"""Copies ranges of bytes from many places to many places, and finds where rows of bytes begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import int64

from slackwater.kernels.compile import kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TIMES = "Array(int64, 1, 'C', readonly=True)"
_BYTES = "Array(uint8, 1, 'C', readonly=True)"


@kernel(f"void({_BYTES}, {_TIMES}, {_TIMES}, {_TIMES}, uint8[::1])")
def copy_ranges(
    source: NDArray[np.uint8],
    begins: NDArray[np.int64],
    lengths: NDArray[np.int64],
    places: NDArray[np.int64],
    target: NDArray[np.uint8],
) -> None:
    """Copy the range that begins at begins[i] to places[i], for each i.

    >>> import numpy as np
    >>> target = np.zeros(4, dtype=np.uint8)
    >>> copy_ranges(np.array([1, 2, 3], dtype=np.uint8), np.array([2, 0]), np.array([1, 2]), np.array([0, 2]), target)
    >>> target.tolist()
    [3, 0, 1, 2]
    """
    for i in range(len(begins)):
        # Slices, for the compiler then knows that both are plain memory and copies it as such.
        from_here = source[begins[i] : begins[i] + lengths[i]]
        to_there = target[places[i] : places[i] + lengths[i]]
        for k in range(len(from_here)):
            to_there[k] = from_here[k]


@kernel(f"void({_BYTES}, int64, {_TIMES}, int64[::1])")
def walk_rows(data: NDArray[np.uint8], width: int, places: NDArray[np.int64], offsets: NDArray[np.int64]) -> None:
    """Find where rows begin that lie end to end: each has `width` bytes, and the sum of its numbers at `places`.

    Rows are filled up to whole words of eight bytes.
    """
    at = 0
    for row in range(len(offsets)):
        offsets[row] = at
        if row == len(offsets) - 1:
            break
        length = width
        for place in places:
            for byte in range(8):
                length += int64(data[at + place + byte]) << (8 * byte)
        at += (length + 7) // 8 * 8
