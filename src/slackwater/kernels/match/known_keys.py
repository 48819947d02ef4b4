"""Finds, among rows in order of time, those whose key has come a short while ago, in compiled loops.

A row whose key is not known, or whose original is too old, is an original: it is remembered, with its time. A row that
comes soon enough after the original of its key repeats it. Keys are words, compared exactly; a place in the hash table
holds the number of an original and half of its hash, so that most places that do not fit are passed without looking at
the key.

Originals are only ever appended, in order of time. A key that begins anew gets a new original, and its place in the
table points to that one. What is too old lies at the front; when there is no room for more, the others are moved
together. That is not the index of events in replicas/: nothing but the front is ever forgotten, so that no original is
marked as gone, and half a hash in each place of the table spares most looks at originals.
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
    Table = NDArray[np.uint64]

KEPT: Final = -1
"""The outcome of a row that is kept, for now: an original, or, where the last row is kept, one that takes its place."""
REPEAT: Final = -2
"""The outcome of a row that is not. Any other outcome is the number of a row of the same key and time: a tie."""

NOBODY: Final = -1
"""In place of the number of a row: there is none."""

TIME: Final = 0
"""Column of an original: its time."""
FIRST: Final = 1
"""Column of an original: the first word of its key, so that short keys are compared without looking at the words."""
LENGTH: Final = 2
"""Column of an original: how many words its key has."""
AT: Final = 3
"""Column of an original: where they begin."""
LATEST: Final = 4
"""Column of an original: the number of the row that is kept of its group."""
FIELDS: Final = 5
"""What is looked at for each row stands in front: it is read from memory at once, as a rule."""

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


_HELD = "uint64[::1], int64[:, ::1], int64[::1], int64, int64"
_ROWS = f"{_READ}, {_READ}, {_READ}, {_READ}, int64, int64"


@kernel(f"UniTuple(int64, 4)({_HELD}, {_ROWS}, int64[::1], int64[::1])")
def find_firsts(
    table: Table,
    originals: Column,
    held: Column,
    known: int,
    used: int,
    times: Column,
    hashes: Column,
    offsets: Column,
    words: Column,
    within: int,
    first_row: int,
    fates: Column,
    kept: Column,
) -> Any:
    """Fill in the outcome of each row and list those that are kept, the originals; count the known, kept, tied.

    A fourth number means nothing: without it the compiler would leave out what is read ahead.

    Rows come in order of time and are numbered from `first_row` on. `used` words are held. There is room for all rows
    to be originals.
    """
    count = ties = 0
    seen_ahead = uint64(0)
    for row in range(len(times)):
        if row % _AHEAD == 0:
            seen_ahead ^= _read_ahead(table, originals, held, hashes, row, len(words) > len(times))
        time, begin = times[row], offsets[row]
        length = offsets[row + 1] - begin
        at = _place_of(table, originals, held, uint64(hashes[row]), words, begin, length)
        seen = int64(table[at] & uint64(_NUMBER)) - 1
        # Unsigned, for the distance of two times need not fit a signed number.
        begun = originals[max(seen, 0), TIME]
        near = (seen >= 0) & (uint64(time) - uint64(begun) <= uint64(within))
        if (begun == time) & near:
            # Rows of one time are looked at together, so that its original is one of these.
            fates[row] = originals[seen, LATEST] - first_row
            ties += 1
            continue
        # Whether a row repeats another nobody can guess, the processor least of all: so it is remembered in any case,
        # and the next one takes its place if it need not be.
        _remember(originals, held, known, used, time, words, begin, length, first_row + row)
        fates[row] = REPEAT if near else KEPT
        table[at] = table[at] if near else _entry(uint64(hashes[row]), known)
        kept[count] = row
        fresh = 0 if near else 1
        known, used, count = known + fresh, used + fresh * length, count + fresh
    return int64(known), int64(count), int64(ties), int64(seen_ahead)


@kernel(f"UniTuple(int64, 3)({_HELD}, {_ROWS}, int64[::1], int64[::1], int64[::1])")
def find_lasts(
    table: Table,
    originals: Column,
    held: Column,
    known: int,
    used: int,
    times: Column,
    hashes: Column,
    offsets: Column,
    words: Column,
    within: int,
    first_row: int,
    fates: Column,
    begun_by: Column,
    replaced: Column,
) -> Any:
    """Fill in the outcome of each row, and by which original its group was begun; count the known, and the replaced.

    As find_firsts, but the last row of a group is kept: `replaced` gets the numbers of those that are not any more.
    """
    count = 0
    seen_ahead = uint64(0)
    for row in range(len(times)):
        if row % _AHEAD == 0:
            seen_ahead ^= _read_ahead(table, originals, held, hashes, row, len(words) > len(times))
        time, begin = times[row], offsets[row]
        length = offsets[row + 1] - begin
        at = _place_of(table, originals, held, uint64(hashes[row]), words, begin, length)
        seen = int64(table[at] & uint64(_NUMBER)) - 1
        fates[row] = KEPT
        if seen < 0 or uint64(time) - uint64(originals[seen, TIME]) > uint64(within):
            _remember(originals, held, known, used, time, words, begin, length, first_row + row)
            table[at] = _entry(uint64(hashes[row]), known)
            begun_by[row] = known
            known, used = known + 1, used + length
            continue
        before = originals[seen, LATEST]
        begun_by[row] = seen
        if before >= first_row and times[before - first_row] == time:
            fates[row] = before - first_row
        else:
            replaced[count] = before
            count += 1
            originals[seen, LATEST] = first_row + row
    return int64(known), int64(count), int64(seen_ahead)


@kernel(f"uint64(uint64[::1], int64[:, ::1], int64[::1], {_READ}, int64, boolean)", inlined=True)
def _read_ahead(table: Table, originals: Column, held: Column, hashes: Column, row: int, long: bool) -> Any:
    """Read what the next rows will look at, without asking what is in it.

    So memory is waited for once, and not at each row, where nobody can guess whether it repeats another.
    """
    mask = uint64(len(table) - 1)
    stop = min(row + _AHEAD, len(hashes))
    seen = uint64(0)
    for ahead in range(row, stop):
        seen ^= table[uint64(hashes[ahead]) & mask]
    for ahead in range(row, stop):
        one = max(int64(table[uint64(hashes[ahead]) & mask] & uint64(_NUMBER)) - 1, 0)
        seen ^= uint64(originals[one, TIME])
    if long:  # other keys are single words, which stand with the originals
        for ahead in range(row, stop):
            one = int64(table[uint64(hashes[ahead]) & mask] & uint64(_NUMBER)) - 1
            if one >= 0 and originals[one, LENGTH] > 0:
                seen ^= uint64(held[originals[one, AT]])
    return seen


@kernel(f"uint64(uint64[::1], int64[:, ::1], {_READ}, uint64, {_READ}, int64, int64)", inlined=True)
def _place_of(
    table: Table, originals: Column, held: Column, hashed: Any, words: Column, begin: int, length: int
) -> Any:
    """Find the place where a key stands, or the free one where it belongs."""
    mask = uint64(len(table) - 1)
    at = hashed & mask
    word = words[begin] if length > 0 else int64(0)
    while table[at] != uint64(0):
        if table[at] >> uint64(_HALF) == hashed >> uint64(_HALF):
            one = int64(table[at] & uint64(_NUMBER)) - 1
            alike = originals[one, FIRST] == word and originals[one, LENGTH] == length
            if alike and (length <= 1 or same_words(held, originals[one, AT], words, begin, length)):
                break
        at = (at + uint64(1)) & mask
    return at


@kernel(f"void(int64[:, ::1], int64[::1], int64, int64, int64, {_READ}, int64, int64, int64)", inlined=True)
def _remember(
    originals: Column, held: Column, known: int, used: int, time: int, words: Column, begin: int, length: int, row: int
) -> None:
    """Write an original behind those that are known, and the words of its key behind those that are used."""
    originals[known, TIME] = time
    originals[known, FIRST] = words[begin] if length > 0 else int64(0)
    originals[known, LENGTH] = length
    originals[known, AT] = used
    originals[known, LATEST] = row
    for i in range(length):
        held[used + i] = words[begin + i]


@kernel("uint64(uint64, int64)", inlined=True)
def _entry(hashed: Any, one: int) -> Any:
    """What stands at the place of an original."""
    return (hashed >> uint64(_HALF) << uint64(_HALF)) | uint64(one + 1)


@kernel(f"void(uint64[::1], int64[:, ::1], {_READ}, int64)")
def fill_table(table: Table, originals: Column, held: Column, known: int) -> None:
    """Give originals places in a table of free places, the newest first: of those of one key it is found first."""
    mask = uint64(len(table) - 1)
    for back in range(known):
        one = known - 1 - back
        hashed = uint64(hash_event(0, held, originals[one, AT], originals[one, LENGTH]))
        at = hashed & mask
        while table[at] != uint64(0):
            at = (at + uint64(1)) & mask
        table[at] = _entry(hashed, one)
