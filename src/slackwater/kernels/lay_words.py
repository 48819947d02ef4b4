"""Lays the values of columns into words, row by row: a column at a time, each row at a place that moves on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.kernels.compile import kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]
    Bytes = NDArray[np.uint8]
    Mask = NDArray[np.bool_]

_READ = "Array(int64, 1, 'C', readonly=True)"
_BYTES = "Array(uint8, 1, 'C', readonly=True)"
_MASK = "Array(boolean, 1, 'C', readonly=True)"
_WORD = 8  # bytes


@kernel(f"void({_READ}, {_MASK}, int64[::1])")
def count_words(ends: Column, there: Mask, counts: Column) -> None:
    """Add, for each row, the words of a value of varying length: one for the length, and those of its bytes.

    >>> import numpy as np
    >>> counts = np.zeros(3, dtype=np.int64)
    >>> count_words(np.array([0, 0, 8, 17]), np.array([True, True, True]), counts)
    >>> counts.tolist()
    [1, 2, 3]
    """
    for row in range(len(counts)):
        counts[row] += 1
        if there[row]:
            counts[row] += (ends[row + 1] - ends[row] + _WORD - 1) // _WORD


@kernel(f"void({_BYTES}, {_READ}, {_MASK}, int64[::1], int64[::1], uint8[::1])")
def lay_bytes(data: Bytes, ends: Column, there: Mask, at: Column, words: Column, as_bytes: Bytes) -> None:
    """Lay the length and the bytes of each row's value at its place. `as_bytes` are the words' own bytes, all zero."""
    for row in range(len(at)):
        place = at[row]
        begin = ends[row]
        length = ends[row + 1] - begin if there[row] else 0
        words[place] = length
        first = (place + 1) * _WORD
        for i in range(length):
            as_bytes[first + i] = data[begin + i]
        at[row] = place + 1 + (length + _WORD - 1) // _WORD


@kernel(f"void({_READ}, int64[::1], int64[::1])")
def lay_values(values: Column, at: Column, words: Column) -> None:
    """Lay the value of each row at its place."""
    for row in range(len(at)):
        words[at[row]] = values[row]
        at[row] += 1


@kernel(f"void({_READ}, int64[::1], int64[::1])")
def lay_marks(marks: Column, at: Column, words: Column) -> None:
    """Lay, behind the values of each row, which of them are missing, if any is."""
    for row in range(len(at)):
        if marks[row] != 0:
            words[at[row]] = marks[row]
            at[row] += 1
