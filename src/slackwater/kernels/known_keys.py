"""Finds, among rows in order of time, those whose key has come a short while ago, in compiled loops.

A row whose key is not known, or whose original is too old, is an original: it is remembered, with its time. A row that
comes soon enough after the original of its key repeats it. Keys are words, compared exactly; a place in the hash table
holds the number of an original and half of its hash, so that most places that do not fit are passed without looking at
the key.

Originals are only ever appended, in order of time. A key that begins anew gets a new original, and its place in the
table points to that one. What is too old lies at the front; when there is no room for more, the others are moved
together.

Numba does not see that a kernel calls those of payload_words when it looks for its machine code on disk: after a change
there save this file, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numba import int64, uint64

from slackwater.kernels.compile import kernel
from slackwater.kernels.payload_words import hash_event, same_words

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]
    Table = NDArray[np.uint64]

KEPT: Final = -1
"""The fate of a row that is kept, for now: an original, or, where the last row is kept, one that takes its place."""
REPEAT: Final = -2
"""The fate of a row that is not. Any other fate is the number of a row of the same key and time: a tie."""

NOBODY: Final = -1
"""In place of the number of a row: there is none."""

TIME: Final = 0
"""Column of an original: its time."""
LATEST: Final = 1
"""Column of an original: the number of the row that is kept of its group."""
AT: Final = 2
"""Column of an original: where the words of its key begin."""
LENGTH: Final = 3
"""Column of an original: how many words they are."""
FIRST: Final = 4
"""Column of an original: the first word of its key, so that short keys are compared without looking at the words."""
FIELDS: Final = 5

_HALF: Final = 32
"""Bits of a place in the table that are a number, counted from 1 so that a free place is 0; the others are a hash's."""
_NUMBER: Final = (1 << _HALF) - 1

_AHEAD: Final = 64
"""Rows whose places are read before they are looked at."""

_READ = "Array(int64, 1, 'C', readonly=True)"


@kernel(f"void({_READ}, {_READ}, int64[::1])")
def hash_keys(offsets: Column, words: Column, hashes: Column) -> None:
    """Hash the key of each row."""
    for row in range(len(hashes)):
        hashes[row] = hash_event(0, words, offsets[row], offsets[row + 1] - offsets[row])


@kernel(
    f"UniTuple(int64, 3)(uint64[::1], int64[:, ::1], int64[::1], int64[::1], int64, int64, "
    f"{_READ}, {_READ}, {_READ}, {_READ}, int64, int64, boolean, int64[::1], int64[::1], int64[::1])"
)
def find_repeats(  # noqa: C901 - one loop: a call for every row would cost more than what is done in it
    table: Table,
    originals: Column,
    held_hashes: Column,
    held: Column,
    known: int,
    used: int,
    times: Column,
    hashes: Column,
    offsets: Column,
    words: Column,
    within: int,
    first_row: int,
    keep_last: bool,
    fates: Column,
    begun_by: Column,
    replaced: Column,
) -> Any:
    """Fill in the fate of each row, and by which original its group was begun; return how many are known, and replaced.

    A third number means nothing: without it the compiler would leave out what is read ahead.

    Rows come in order of time and are numbered from `first_row` on. Where the last one of a group is kept, `replaced`
    gets the numbers of those that are not any more. `used` words are held. There is room for all rows to be originals.
    """
    mask = uint64(len(table) - 1)
    count = 0
    seen_ahead = uint64(0)
    for row in range(len(times)):
        if row % _AHEAD == 0:
            # What the next rows will look at, read without asking what is in it: so memory is waited for once, and not
            # at each row, where nobody can guess whether it repeats another.
            for ahead in range(row, min(row + _AHEAD, len(times))):
                seen_ahead ^= table[uint64(hashes[ahead]) & mask]
            for ahead in range(row, min(row + _AHEAD, len(times))):
                one = int64(table[uint64(hashes[ahead]) & mask] & uint64(_NUMBER)) - 1
                seen_ahead ^= uint64(originals[max(one, 0), TIME])
        time, hashed, begin = times[row], uint64(hashes[row]), offsets[row]
        length = offsets[row + 1] - begin
        half = hashed >> uint64(_HALF)
        at = hashed & mask
        word = words[begin] if length > 0 else int64(0)
        seen = NOBODY
        while table[at] != uint64(0):
            if table[at] >> uint64(_HALF) == half:
                one = int64(table[at] & uint64(_NUMBER)) - 1
                alike = originals[one, FIRST] == word and originals[one, LENGTH] == length
                if alike and (length <= 1 or same_words(held, originals[one, AT], words, begin, length)):
                    seen = one
                    break
            at = (at + uint64(1)) & mask
        # Unsigned, for the distance of two times need not fit a signed number.
        if seen != NOBODY and uint64(time) - uint64(originals[seen, TIME]) <= uint64(within):
            before = originals[seen, LATEST]
            begun_by[row] = seen
            if before >= first_row and times[before - first_row] == time:
                fates[row] = before - first_row
            elif keep_last:
                fates[row] = KEPT
                replaced[count] = before
                count += 1
                originals[seen, LATEST] = first_row + row
            else:
                fates[row] = REPEAT
            continue
        table[at] = (half << uint64(_HALF)) | uint64(known + 1)
        held_hashes[known] = int64(hashed)
        originals[known, TIME], originals[known, LATEST] = time, first_row + row
        originals[known, AT], originals[known, LENGTH], originals[known, FIRST] = used, length, word
        for i in range(length):
            held[used + i] = words[begin + i]
        used += length
        begun_by[row] = known
        fates[row] = KEPT
        known += 1
    return int64(known), int64(count), int64(seen_ahead)


@kernel(f"void(uint64[::1], {_READ})")
def fill_table(table: Table, hashes: Column) -> None:
    """Give originals places in a table of free places, the newest first: of those of one key it is found first."""
    mask = uint64(len(table) - 1)
    for back in range(len(hashes)):
        one = len(hashes) - 1 - back
        hashed = uint64(hashes[one])
        at = hashed & mask
        while table[at] != uint64(0):
            at = (at + uint64(1)) & mask
        table[at] = (hashed >> uint64(_HALF) << uint64(_HALF)) | uint64(one + 1)
