"""Lays the values of columns into words, row by row: a column at a time, each row at a place that moves on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import int64, uint64

from slackwater.kernels.columns.payload_words import LONG, hash_event, hash_of, mixed_with
from slackwater.kernels.compile import kernel
from slackwater.kernels.memory import word_at

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]
    Bytes = NDArray[np.uint8]
    Whole = NDArray[np.uint64]
    Mask = NDArray[np.bool_]

_READ = "Array(int64, 1, 'C', readonly=True)"
_BYTES = "Array(uint8, 1, 'C', readonly=True)"
_WHOLE = "Array(uint64, 1, 'C', readonly=True)"
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


@kernel(f"void({_BYTES}, {_WHOLE}, {_READ}, {_MASK}, int64[::1], uint64[::1])")
def lay_bytes(data: Bytes, whole: Whole, ends: Column, there: Mask, at: Column, words: Whole) -> None:
    """Lay the length and the bytes of each row's value at its place, the last word filled up with zeros.

    `whole` are the same bytes as words, as many as there are whole ones: a value is put together from two at a time,
    wherever it begins.
    """
    for row in range(len(at)):
        place, begin = at[row], ends[row]
        length = ends[row + 1] - begin if there[row] else 0
        words[place] = uint64(length)
        last = place + (length + _WORD - 1) // _WORD
        for word in range(place + 1, last + 1):
            words[word] = _word_at(data, whole, begin, min(ends[row + 1] - begin, _WORD))
            begin += _WORD
        at[row] = last + 1


@kernel(f"uint64({_BYTES}, {_WHOLE}, int64, int64)", inlined=True)
def _word_at(data: Bytes, whole: Whole, begin: int, length: int) -> Any:
    """Up to eight bytes, the first one lowest."""
    first = begin // _WORD
    word = uint64(0)
    if first + 1 < len(whole):
        low = uint64(8 * (begin % _WORD))
        # In two steps, for a shift by all 64 bits at once is none.
        word = (whole[first] >> low) | (whole[first + 1] << (uint64(63) - low) << uint64(1))
        return word & (~uint64(0) >> uint64(8 * (_WORD - length)))
    for i in range(length):
        word |= uint64(data[begin + i]) << uint64(8 * i)
    return word


@kernel(f"int64({_BYTES}, {_READ}, int64[::1], int64[::1], int64[::1])")
def lay_texts(data: Bytes, ends: Column, offsets: Column, words: Column, hashes: Column) -> Any:
    """Lay the length and the bytes of each row's text, one after the other, and hash them while they are near.

    Fills in where each row begins; returns how many words there are.

    >>> import numpy as np
    >>> text, ends, room = np.frombuffer(b"an oak", np.uint8), np.array([0, 2, 2, 6]), np.empty(8, dtype=np.int64)
    >>> offsets, hashes = np.empty(4, dtype=np.int64), np.empty(3, dtype=np.int64)
    >>> lay_texts(text, ends, offsets, room, hashes), offsets.tolist(), room[:5].tobytes()[8:10]
    (5, [0, 2, 3, 5], b'an')
    """
    at = uint64(0)
    for row in range(len(hashes)):
        begin, stop = ends[row], ends[row + 1]
        place: Any = int64(at)
        offsets[row] = place
        length = uint64(stop - begin)
        words[at], mixed = int64(length), mixed_with(uint64(0), length)
        at += uint64(1)
        while begin + _WORD <= stop:
            word = word_at(data, begin)
            words[at], mixed = int64(word), mixed_with(mixed, word)
            at, begin = at + uint64(1), begin + _WORD
        if begin < stop:
            word = last_word(data, begin, stop)
            words[at], mixed = int64(word), mixed_with(mixed, word)
            at += uint64(1)
        count: Any = int64(at) - place
        hashes[row] = hash_of(mixed) if count <= LONG else hash_event(0, words, place, count)
    offsets[len(hashes)] = int64(at)
    return int64(at)


@kernel(f"uint64({_BYTES}, int64, int64)", inlined=True)
def last_word(data: Bytes, begin: int, stop: int) -> Any:
    """Less than eight bytes, filled up with zeros."""
    if begin + _WORD <= len(data):
        return word_at(data, begin) & (~uint64(0) >> uint64(8 * (_WORD - (stop - begin))))
    word = uint64(0)
    for i in range(stop - begin):
        word |= uint64(data[begin + i]) << uint64(8 * i)
    return word


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
