"""Gives texts the numbers of words that are known from one batch to the next; new words get the next number.

Words lie end to end, beside their hashes. A place of the hash table holds the number of a word; 0 is free. Texts are
compared exactly. The loop stops before a text for which there may be no room, and is called again when there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numba import int32, int64, uint64

from slackwater.kernels.columns.lay_words import last_word
from slackwater.kernels.compile import kernel
from slackwater.kernels.memory import word_at

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Column = NDArray[np.int64]
    Hashes = NDArray[np.uint64]
    Numbers = NDArray[np.int32]

_WORD: Final = 8  # bytes
_ODD: Final = 0x9E3779B97F4A7C15
"""Any odd number without a pattern: what is multiplied by it is spread over all higher bits."""

_BYTES = "Array(uint8, 1, 'C', readonly=True)"
_READ = "Array(int64, 1, 'C', readonly=True)"
_HELD = "uint8[::1], int64[::1], uint64[::1], int32[::1]"


@kernel(f"UniTuple(int64, 2)({_BYTES}, {_READ}, int64, {_HELD}, int64, int32[::1])")
def number_texts(
    data: Bytes,
    ends: Column,
    begin: int,
    held: Bytes,
    held_ends: Column,
    hashes: Hashes,
    table: Numbers,
    known: int,
    numbers: Numbers,
) -> Any:
    """Fill in the number of each text from row `begin` on; return up to which row, and how many words are known then.

    `held_ends` are where words end, the first is where the first word begins. The first word has number 1.

    >>> import numpy as np
    >>> texts, ends = np.frombuffer(b"beebeaabee", np.uint8), np.array([0, 3, 5, 6, 7, 10])
    >>> held, starts, hashes = np.empty(9, np.uint8), np.zeros(5, np.int64), np.empty(4, np.uint64)
    >>> numbers, table = np.empty(5, np.int32), np.zeros(8, np.int32)
    >>> number_texts(texts, ends, 0, held, starts, hashes, table, 0, numbers), numbers.tolist()
    ((5, 3), [1, 2, 3, 3, 1])
    """
    mask = uint64(len(table) - 1)
    for row in range(begin, len(numbers)):
        start, stop = ends[row], ends[row + 1]
        hashed = _hash(data, start, stop)
        at = (hashed >> uint64(32)) & mask
        number = int64(table[at])
        while number != 0 and not (
            hashes[number - 1] == hashed
            and _are_same(data, start, stop, held, held_ends[number - 1], held_ends[number])
        ):
            at = (at + uint64(1)) & mask
            number = int64(table[at])
        if number == 0:
            used = held_ends[known]
            if known == len(hashes) or used + stop - start > len(held) or 2 * known >= len(table):
                return int64(row), int64(known)
            for i in range(stop - start):
                held[used + i] = data[start + i]
            hashes[known] = hashed
            known += 1
            held_ends[known] = used + stop - start
            table[at] = int32(known)
            number = known
        numbers[row] = int32(number)
    return int64(len(numbers)), int64(known)


@kernel("void(uint64[::1], int64, int32[::1])")
def place_words(hashes: Hashes, known: int, table: Numbers) -> None:
    """Put the words that are known into a table all of whose places are free."""
    mask = uint64(len(table) - 1)
    for word in range(known):
        at = (hashes[word] >> uint64(32)) & mask
        while table[at] != 0:
            at = (at + uint64(1)) & mask
        table[at] = int32(word + 1)


@kernel(f"uint64({_BYTES}, int64, int64)", inlined=True)
def _hash(data: Bytes, start: int, stop: int) -> Any:
    hashed = uint64(stop - start)
    while start + _WORD <= stop:
        hashed = _mixed(hashed ^ word_at(data, start))
        start += _WORD
    return _mixed(hashed ^ last_word(data, start, stop)) if start < stop else _mixed(hashed)


@kernel("uint64(uint64)", inlined=True)
def _mixed(word: Any) -> Any:
    word *= uint64(_ODD)
    return word ^ (word >> uint64(29))


@kernel(f"boolean({_BYTES}, int64, int64, uint8[::1], int64, int64)", inlined=True)
def _are_same(data: Bytes, start: int, stop: int, held: Bytes, begin: int, end: int) -> Any:
    if stop - start != end - begin:
        return False
    while start + _WORD <= stop:
        if word_at(data, start) != word_at(held, begin):
            return False
        start, begin = start + _WORD, begin + _WORD
    return start == stop or last_word(data, start, stop) == last_word(held, begin, end)
