"""Finds, among rows in order of time, those whose key has come a short while ago, in compiled loops.

A row whose key is not known, or whose original is too old, is an original: it is remembered, with its time. A row that
comes soon enough after the original of its key repeats it. Keys are words, compared exactly.

Originals are numbered as they come, and lie in a ring of lines, in order of time. A line has the words of its key, if
they are few; else they lie elsewhere. What is too old lies at the tail of the ring, and is forgotten by moving that on.

A place in the hash table holds a part of the hash of a key and, of the number of its original, as much as the ring
needs. Where a key belongs follows from that part of its hash alone: so what was forgotten is swept out of the table,
and a larger table is filled, place after place, without a look at any key. That is done whenever something is
forgotten: whatever stands in the table is remembered.

There are twice as many places as lines: then the table never needs room before the ring does. Loops stop before a row
for which there may be no room, and are called again when there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numba import int64, uint64

from slackwater.kernels.columns.payload_words import copy_words, hash_event, same_words
from slackwater.kernels.compile import kernel
from slackwater.kernels.memory import read_ahead

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]
    Table = NDArray[np.uint64]

KEPT: Final = -1
"""The outcome of a row that is kept, for now. Any other is the number of a row of the same key and time: a tie."""

NOBODY: Final = -1
"""In place of the number of a row: there is none."""

TIME: Final = 0
"""Field of a line: the time of the original."""
LATEST: Final = 1
"""Field of a line: the number of the row that is kept of its group."""
LENGTH: Final = 2
"""Field of a line: how many words the key has."""
WORDS: Final = 3
"""First field of a line that is the key's: its words, or where they lie if there are more than fit."""

FEW: Final = 5
"""Words that fit into a line whose keys are no single numbers: a text of up to 32 bytes, and its length.

Then a line is as long as a cache line. One for single numbers is half as long.
"""

FIRST: Final = 0
"""Mark: the number of the first original that is remembered."""
NEXT: Final = 1
"""Mark: the number of the next original."""
USED: Final = 2
"""Mark: how many words of long keys are held."""
MARKS: Final = 3

_HALF: Final = 32
"""Bits of a place in the table that are of a number; the others are of a hash, and a bit that says: taken."""
_NUMBER: Final = (1 << _HALF) - 1
_TAKEN: Final = 1 << 63

_FAR: Final = 24
"""Rows ahead whose places in the table are read."""
_NEAR: Final = 12
"""Rows ahead whose lines are read, by what stands at their places."""

_READ = "Array(int64, 1, 'C', readonly=True)"


@kernel(f"void({_READ}, {_READ}, int64[::1])")
def hash_keys(offsets: Column, words: Column, hashes: Column) -> None:
    """Hash the key of each row."""
    for row in range(len(hashes)):
        hashes[row] = hash_event(0, words, offsets[row], offsets[row + 1] - offsets[row])


_HELD = "uint64[::1], int64[::1], int64, int64[::1], int64[::1]"
_ROWS = f"{_READ}, {_READ}, {_READ}, {_READ}, int64, int64, int64"


@kernel(f"UniTuple(int64, 3)({_HELD}, {_ROWS}, int64[::1], int64[::1], int64[::1])")
def find_firsts(
    table: Table,
    lines: Column,
    width: int,
    held: Column,
    marks: Column,
    times: Column,
    hashes: Column,
    offsets: Column,
    words: Column,
    within: int,
    first_row: int,
    begin: int,
    kept: Column,
    tied: Column,
    firsts: Column,
) -> Any:
    """List the rows that are kept, the originals, from row `begin` on; and those that tie, with which row.

    Return up to which row there was room, how many are kept, and how many tie. Rows come in order of time and are
    numbered from `first_row` on; all of one time come together.
    """
    first, number, used = marks[FIRST], marks[NEXT], marks[USED]
    ring, mask = len(lines) // width - 1, uint64(len(table) - 1)
    count = ties = 0
    row = begin
    while row < len(times) and number - first <= ring:
        start, length = offsets[row], offsets[row + 1] - offsets[row]
        if used + length > len(held) and length > width - WORDS:
            break
        _read_ahead(table, lines, width, ring, mask, hashes, row)
        time, code = times[row], _code(hashes[row])
        at, line = _look_up(table, lines, width, ring, held, code, words, start, length)
        begun = lines[max(line, 0) + TIME]
        # Unsigned, for the distance of two times need not fit a signed number.
        near = (line >= 0) & (uint64(time) - uint64(begun) <= uint64(within))
        row += 1
        if (begun == time) & near:
            # Rows of one time are looked at together, so that its original is one of these.
            tied[ties], firsts[ties] = row - 1, lines[line + LATEST] - first_row
            ties += 1
            continue
        # Whether a row repeats another nobody can guess, the processor least of all: so it is remembered in any case,
        # and the next one takes its place if it need not be.
        _remember(lines, (number & ring) * width, width, held, used, time, first_row + row - 1, words, start, length)
        table[at] = table[at] if near else (code << uint64(_HALF)) | (uint64(number) & uint64(_NUMBER))
        kept[count] = row - 1
        fresh = 0 if near else 1
        used += fresh * length if length > width - WORDS else 0
        number, count = number + fresh, count + fresh
    marks[NEXT], marks[USED] = number, used
    return int64(row), int64(count), int64(ties)


@kernel(f"UniTuple(int64, 2)({_HELD}, {_ROWS}, int64[::1], int64[::1], int64[::1])")
def find_lasts(
    table: Table,
    lines: Column,
    width: int,
    held: Column,
    marks: Column,
    times: Column,
    hashes: Column,
    offsets: Column,
    words: Column,
    within: int,
    first_row: int,
    begin: int,
    fates: Column,
    begun_by: Column,
    replaced: Column,
) -> Any:
    """Fill in the outcome of each row from `begin` on, and by which original its group was begun.

    As find_firsts, but the last row of a group is kept: `replaced` gets the numbers of those that are not any more.
    Return up to which row there was room, and how many were replaced.
    """
    first, number, used = marks[FIRST], marks[NEXT], marks[USED]
    ring, mask = len(lines) // width - 1, uint64(len(table) - 1)
    count = 0
    row = begin
    while row < len(times) and number - first <= ring:
        start, length = offsets[row], offsets[row + 1] - offsets[row]
        if used + length > len(held) and length > width - WORDS:
            break
        _read_ahead(table, lines, width, ring, mask, hashes, row)
        time, code = times[row], _code(hashes[row])
        at, line = _look_up(table, lines, width, ring, held, code, words, start, length)
        fates[row] = KEPT
        if line < 0 or uint64(time) - uint64(lines[line + TIME]) > uint64(within):
            _remember(lines, (number & ring) * width, width, held, used, time, first_row + row, words, start, length)
            table[at] = (code << uint64(_HALF)) | (uint64(number) & uint64(_NUMBER))
            used += length if length > width - WORDS else 0
            begun_by[row] = number
            number += 1
        else:
            before = lines[line + LATEST]
            begun_by[row] = first + int64((table[at] - uint64(first)) & uint64(_NUMBER))
            if before >= first_row and times[before - first_row] == time:
                fates[row] = before - first_row
            else:
                replaced[count] = before
                count += 1
                lines[line + LATEST] = first_row + row
        row += 1
    marks[NEXT], marks[USED] = number, used
    return int64(row), int64(count)


@kernel("uint64(int64)", inlined=True)
def _code(hashed: int) -> Any:
    """The part of a hash that stands in the table; its last bits are the place where the key belongs."""
    return (uint64(hashed) >> uint64(_HALF)) | uint64(_TAKEN >> _HALF)


@kernel(f"void(uint64[::1], int64[::1], int64, int64, uint64, {_READ}, int64)", inlined=True)
def _read_ahead(table: Table, lines: Column, width: int, ring: int, mask: Any, hashes: Column, row: int) -> None:
    """Have brought near what later rows will look at, so that nobody waits for memory."""
    if row + _FAR < len(hashes):
        read_ahead(table, int64(_code(hashes[row + _FAR]) & mask))
        read_ahead(lines, (int64(table[_code(hashes[row + _NEAR]) & mask]) & ring) * width)


@kernel(
    f"UniTuple(int64, 2)(uint64[::1], {_READ}, int64, int64, {_READ}, uint64, {_READ}, int64, int64)",
    inlined=True,
)
def _look_up(
    table: Table,
    lines: Column,
    width: int,
    ring: int,
    held: Column,
    code: Any,
    words: Column,
    start: int,
    length: int,
) -> Any:
    """Find the place of a key, or the free one where it belongs; and where the line of its original begins, or -1."""
    mask = uint64(len(table) - 1)
    at = code & mask
    line = int64(-1)
    entry = table[at]
    while entry != uint64(0):
        if entry >> uint64(_HALF) == code:
            one = (int64(entry) & ring) * width
            if lines[one + LENGTH] == length:
                if length > width - WORDS:
                    same = same_words(held, lines[one + WORDS], words, start, length)
                else:
                    same = _differing(lines, one + WORDS, width - WORDS, words, start, length) == 0
                if same:
                    line = one
                    break
        at = (at + uint64(1)) & mask
        entry = table[at]
    return int64(at), line


@kernel(f"int64({_READ}, int64, int64, {_READ}, int64, int64)", inlined=True)
def _differing(lines: Column, at: int, few: int, words: Column, start: int, length: int) -> Any:
    """The bits in which the words of a short key differ from those of a line.

    One by one: a loop of few rounds takes longer, for it is compiled for many.
    """
    last = len(words) - 1
    different = lines[at] ^ words[min(start, last)] if length > 0 else int64(0)
    if few > 1:
        different |= lines[at + 1] ^ words[min(start + 1, last)] if length > 1 else int64(0)
        different |= lines[at + 2] ^ words[min(start + 2, last)] if length > 2 else int64(0)  # noqa: PLR2004
        different |= lines[at + 3] ^ words[min(start + 3, last)] if length > 3 else int64(0)  # noqa: PLR2004
        different |= lines[at + 4] ^ words[min(start + 4, last)] if length > 4 else int64(0)  # noqa: PLR2004
    return different


@kernel(f"void(int64[::1], int64, int64, int64[::1], int64, int64, int64, {_READ}, int64, int64)", inlined=True)
def _remember(
    lines: Column,
    line: int,
    width: int,
    held: Column,
    used: int,
    time: int,
    row: int,
    words: Column,
    start: int,
    length: int,
) -> None:
    """Write an original to a line, and the words of its key there or behind those that are held."""
    lines[line + TIME], lines[line + LATEST], lines[line + LENGTH] = time, row, length
    if length <= width - WORDS:
        last = len(words) - 1
        lines[line + WORDS] = words[min(start, last)]
        if width > WORDS + 1:  # and what lies behind a shorter key, which nobody looks at
            lines[line + WORDS + 1] = words[min(start + 1, last)]
            lines[line + WORDS + 2] = words[min(start + 2, last)]
            lines[line + WORDS + 3] = words[min(start + 3, last)]
            lines[line + WORDS + 4] = words[min(start + 4, last)]
    else:
        lines[line + WORDS] = used
        copy_words(words, start, held, used, length)


# ---- making room -----------------------------------------------------------------------------------------------------


@kernel(f"int64({_READ}, int64, int64, int64, int64)")
def first_since(lines: Column, width: int, first: int, number: int, bound: int) -> int:
    """The number of the first original that is not before a bound."""
    ring = len(lines) // width - 1
    while first < number and lines[(first & ring) * width + TIME] < bound:
        first += 1
    return first


@kernel(f"void({_READ}, int64[::1], int64, int64, int64)")
def move_lines(lines: Column, roomier: Column, width: int, first: int, number: int) -> None:
    """Copy originals to a ring of another size."""
    ring, other = len(lines) // width - 1, len(roomier) // width - 1
    for one in range(first, number):
        here, there = (one & ring) * width, (one & other) * width
        for i in range(width):
            roomier[there + i] = lines[here + i]


@kernel("int64(uint64[::1], int64, int64, uint64[::1])")
def list_places(table: Table, first: int, number: int, found: Table) -> Any:
    """List what stands in the table of those that are remembered; return how many they are.

    There is room for one more: which places these are nobody can guess, so each is listed, and overwritten if need be.
    """
    known, count = uint64(number - first), 0
    for place in range(len(table)):
        found[count] = table[place]
        remembered = ((table[place] - uint64(first)) & uint64(_NUMBER)) < known
        count += 1 if remembered & (table[place] != uint64(0)) else 0
    return int64(count)


@kernel("void(uint64[::1], uint64[::1])")
def put_places(table: Table, found: Table) -> None:
    """Put what was listed into a table all of whose places are free."""
    mask = uint64(len(table) - 1)
    for i in range(len(found)):
        at = (found[i] >> uint64(_HALF)) & mask
        while table[at] != uint64(0):
            at = (at + uint64(1)) & mask
        table[at] = found[i]


@kernel(f"int64(int64[::1], int64, {_READ}, int64[::1], int64, int64)")
def move_words(lines: Column, width: int, held: Column, roomier: Column, first: int, number: int) -> Any:
    """Lay the words of long keys that are remembered end to end, there or in the same place; return how many."""
    ring, used = len(lines) // width - 1, 0
    for one in range(first, number):
        line = (one & ring) * width
        length = lines[line + LENGTH]
        if length > width - WORDS:
            for i in range(length):
                roomier[used + i] = held[lines[line + WORDS] + i]
            lines[line + WORDS] = used
            used += length
    return int64(used)


# ---- storing ---------------------------------------------------------------------------------------------------------


@kernel(f"void({_READ}, int64, {_READ}, int64, {_READ}, int64[::1], int64[::1])")
def read_lines(
    lines: Column, width: int, held: Column, first: int, offsets: Column, words: Column, times: Column
) -> None:
    """Fill in the words and times of originals from a number on, whose keys begin at the offsets."""
    ring = len(lines) // width - 1
    for i in range(len(times)):
        line = ((first + i) & ring) * width
        times[i], length = lines[line + TIME], lines[line + LENGTH]
        if length <= width - WORDS:
            copy_words(lines, line + WORDS, words, offsets[i], length)
        else:
            copy_words(held, lines[line + WORDS], words, offsets[i], length)


@kernel(f"void(uint64[::1], int64[::1], int64, int64[::1], int64[::1], {_READ}, {_READ}, {_READ})")
def write_lines(
    table: Table,
    lines: Column,
    width: int,
    held: Column,
    marks: Column,
    times: Column,
    offsets: Column,
    words: Column,
) -> None:
    """Remember originals as they were stored; there is room for all. Of those of one key the last one counts."""
    ring = len(lines) // width - 1
    for i in range(len(times)):
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        code, number = _code(hash_event(0, words, start, length)), marks[NEXT]
        at, _ = _look_up(table, lines, width, ring, held, code, words, start, length)
        _remember(lines, (number & ring) * width, width, held, marks[USED], times[i], NOBODY, words, start, length)
        table[at] = (code << uint64(_HALF)) | (uint64(number) & uint64(_NUMBER))
        marks[NEXT] += 1
        marks[USED] += length if length > width - WORDS else 0
