"""Numbers rows of whole words: equal rows get the same number, each new row the next one, from call to call.

An open hash table holds the number of each row seen; rows are compared exactly, word by word, so that a hash that two
rows share costs time and nothing else. Nothing is deleted: whoever has too much makes a new table of what is left.

Cost: O(words) for each row that is looked up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numba import int64, uint64

from slackwater.kernels.columns.payload_words import hash_event, same_words
from slackwater.kernels.compile import kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

FREE: Final = -1
"""A place in the table that no row has."""

_READ = "Array(int64, 1, 'C', readonly=True)"


@kernel(f"int64(int32[::1], int64[::1], int64[::1], int64[::1], int64, {_READ}, {_READ}, int64[::1])")
def number_rows(
    table: NDArray[np.int32],
    hashes: Column,
    held_offsets: Column,
    held: Column,
    known: int,
    offsets: Column,
    words: Column,
    numbers: Column,
) -> Any:
    """Fill in the number of each row, and hold those that are new; return how many are known then.

    There is room for all rows: in the table twice as many places, and as many hashes, offsets and words as they need.
    """
    mask = uint64(len(table) - 1)
    for row in range(len(numbers)):
        begin, stop = offsets[row], offsets[row + 1]
        hashed = hash_event(0, words, begin, stop - begin)
        at = uint64(hashed) & mask
        while table[at] != FREE:
            seen = table[at]
            length = held_offsets[seen + 1] - held_offsets[seen]
            alike = hashes[seen] == hashed and length == stop - begin
            if alike and same_words(held, held_offsets[seen], words, begin, length):
                break
            at = (at + uint64(1)) & mask
        if table[at] == FREE:
            table[at] = known
            hashes[known] = hashed
            first = held_offsets[known]
            for i in range(stop - begin):
                held[first + i] = words[begin + i]
            known += 1
            held_offsets[known] = first + stop - begin
        numbers[row] = table[at]
    return int64(known)


@kernel(f"void(int32[::1], {_READ})")
def fill_table(table: NDArray[np.int32], hashes: Column) -> None:
    """Give every row, known by its hash and all different, a place in a table of free places."""
    mask = uint64(len(table) - 1)
    for row in range(len(hashes)):
        at = uint64(hashes[row]) & mask
        while table[at] != FREE:
            at = (at + uint64(1)) & mask
        table[at] = row


@kernel(f"void({_READ}, {_READ}, {_READ}, {_READ}, boolean[::1])")
def compare_rows(offsets: Column, words: Column, ones: Column, others: Column, equal: NDArray[np.bool_]) -> None:
    """Find of each pair of rows, given by two columns of row numbers, whether the two are equal.

    >>> import numpy as np
    >>> equal = np.empty(2, dtype=np.bool_)
    >>> compare_rows(np.array([0, 1, 2, 4]), np.array([7, 7, 7, 8]), np.array([0, 0]), np.array([1, 2]), equal)
    >>> equal.tolist()
    [True, False]
    """
    for i in range(len(ones)):
        a, b = ones[i], others[i]
        length = offsets[a + 1] - offsets[a]
        alike = length == offsets[b + 1] - offsets[b]
        equal[i] = alike and same_words(words, offsets[a], words, offsets[b], length)
