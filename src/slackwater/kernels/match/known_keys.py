"""Finds, among rows in order of time, those whose key has come a short while ago, in compiled loops.

A row whose key is not known, or whose original is too old, is an original: it is remembered, with its time. A row that
comes soon enough after the original of its key repeats it. Keys are words, compared exactly.

Originals are numbered as they come, and lie in a ring of lines, in order of time. A line has the words of its key, if
they are few; else they lie elsewhere. What is too old lies at the tail of the ring, and is forgotten by moving that on.

A place in the hash table holds the number of the newest original whose key belongs there, and each original has a link:
how far it is to the one before it at that place. So a chain goes back in time, and ends where the first number that is
too old is met: what was forgotten need not be taken out of anything. Of numbers there are 32 bits, which is as much as
a ring needs. One that was forgotten so long ago that it looks like a later one leads into another chain: that one goes
back in time, too, and no key is taken for another, so nothing is found there and nothing is lost.

Half of the rows may be repeats, at random, which no processor can guess. So the loops ask without a branch whether the
newest original of a place is the one that is looked for; only where that is remembered but has another key, the chain
is followed. Four places for each line make that rare. The loops go through AT_ONCE rows at a time. Before these they
forget what is too old, and see whether all of them have room; if not, they stop, and are called again when there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numba import int64, uint32, uint64

from slackwater.kernels.columns.payload_words import copy_words, hash_event, hash_of, mixed_with, same_words
from slackwater.kernels.compile import kernel
from slackwater.kernels.memory import read_ahead, settled
from slackwater.kernels.saturating import minus

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]
    Table = NDArray[np.uint32]
    Links = NDArray[np.uint64]

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

Then a line is as long as a cache line. One for single numbers, of which one fits, is half as long.
"""

PLACES: Final = 4
"""Places in the table for each line."""

AT_ONCE: Final = 256
"""Rows that are looked at without asking again what is too old and whether there is room."""

FIRST: Final = 0
"""Mark: the number of the first original that is remembered."""
NEXT: Final = 1
"""Mark: the number of the next original."""
USED: Final = 2
"""Mark: how many words of long keys are held."""
MARKS: Final = 3

_HALF: Final = 32
"""A link has a part of the hash of its key above so many bits, which say how far back the chain goes on, less one."""

_FAR: Final = 16
"""Rows ahead whose places in the table are read."""
_NEAR: Final = 8
"""Rows ahead whose lines are read, by what stands at their places."""

_READ = "Array(int64, 1, 'C', readonly=True)"
_READ_LINKS = "Array(uint64, 1, 'C', readonly=True)"


@kernel(f"void({_READ}, {_READ}, int64[::1])")
def hash_keys(offsets: Column, words: Column, hashes: Column) -> None:
    """Hash the key of each row."""
    for row in range(len(hashes)):
        hashes[row] = hash_event(0, words, offsets[row], offsets[row + 1] - offsets[row])


@kernel(f"void({_READ}, int64[::1])")
def hash_words(words: Column, hashes: Column) -> None:
    """Hash keys of one word each: as hash_keys, several at a time."""
    for row in range(len(hashes)):
        hashes[row] = hash_of(mixed_with(uint64(0), uint64(words[row])))


_HELD = "int64, uint32[::1], uint64[::1], int64[::1], int64[::1], int64[::1]"
_ROWS = f"{_READ}, {_READ}, {_READ}, {_READ}, int64, int64, int64, int64[::1], int64[::1], int64[::1]"


@kernel(f"UniTuple(int64, 3)({_HELD}, {_ROWS})")
def find_firsts(
    few: int,
    table: Table,
    links: Links,
    lines: Column,
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
    numbered from `first_row` on; all of one time come together. Lines have room for `few` words, 1 or FEW.
    """
    # Written twice, so that either loop is compiled for lines of one length.
    known, rows, found = (table, links, lines, held, marks), (times, hashes, offsets, words), (kept, tied, firsts)
    if few == 1:
        return _find_firsts(1, *known, *rows, within, first_row, begin, *found)
    return _find_firsts(FEW, *known, *rows, within, first_row, begin, *found)


@kernel(f"UniTuple(int64, 3)({_HELD}, {_ROWS})", inlined=True)
def _find_firsts(
    few: int,
    table: Table,
    links: Links,
    lines: Column,
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
    width, ring, mask = few + WORDS, uint64(len(links) - 1), uint64(len(table) - 1)
    first, number, used = marks[FIRST], marks[NEXT], marks[USED]
    count = ties = 0
    row = stop = begin
    while row == stop and row < len(times):
        first = first_since(lines, width, first, number, minus(times[row], within))
        stop = min(row + AT_ONCE, len(times))
        if number - first + stop - row > len(links):
            break
        while row < stop:
            at, start, length = uint64(row), offsets[uint64(row)], offsets[uint64(row + 1)] - offsets[uint64(row)]
            if length > few and used + length > len(held):
                break
            _read_ahead(table, lines, width, ring, mask, hashes, row)
            time, code = times[at], uint64(hashes[at]) >> uint64(_HALF)
            head = table[code & mask]
            position, unlike = _look_up(few, links, lines, held, first, number, head, words, start, length)
            line = (uint64(first + position) & ring) * uint64(width)
            begun = lines[line + uint64(TIME)]
            row += 1
            if unlike | (begun ^ time) == 0:
                # Rows of one time are looked at together, so that its original is one of these.
                tied[uint64(ties)], firsts[uint64(ties)] = row - 1, lines[line + uint64(LATEST)] - first_row
                ties += 1
                continue
            # A row is remembered in any case, and the next one takes its place if it need not be.
            # Unsigned, for the distance of two times need not fit a signed number.
            fresh = int64(unlike != 0) | int64(uint64(time) - uint64(begun) > uint64(within))
            latest = first_row + row - 1
            _remember(few, links, lines, held, used, number, head, code, time, latest, words, start, length)
            table[code & mask] = uint32(number) if fresh else head
            kept[uint64(count)] = row - 1
            used += fresh * length if length > few else 0
            number, count = number + fresh, count + fresh
    marks[FIRST], marks[NEXT], marks[USED] = first, number, used
    return int64(row), int64(count), int64(ties)


@kernel(f"UniTuple(int64, 2)({_HELD}, {_ROWS})")
def find_lasts(
    few: int,
    table: Table,
    links: Links,
    lines: Column,
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
    width, ring, mask = few + WORDS, uint64(len(links) - 1), uint64(len(table) - 1)
    first, number, used = marks[FIRST], marks[NEXT], marks[USED]
    count = 0
    row = stop = begin
    while row == stop and row < len(times):
        first = first_since(lines, width, first, number, minus(times[row], within))
        stop = min(row + AT_ONCE, len(times))
        if number - first + stop - row > len(links):
            break
        while row < stop:
            start, length = offsets[row], offsets[row + 1] - offsets[row]
            if length > few and used + length > len(held):
                break
            _read_ahead(table, lines, width, ring, mask, hashes, row)
            time, code = times[row], uint64(hashes[row]) >> uint64(_HALF)
            head = table[code & mask]
            position, unlike = _look_up(few, links, lines, held, first, number, head, words, start, length)
            line = (uint64(first + position) & ring) * uint64(width)
            fates[row] = KEPT
            if unlike != 0 or uint64(time) - uint64(lines[line + uint64(TIME)]) > uint64(within):
                _remember(
                    few, links, lines, held, used, number, head, code, time, first_row + row, words, start, length
                )
                table[code & mask] = uint32(number)
                used += length if length > few else 0
                begun_by[row] = number
                number += 1
            else:
                before = lines[line + uint64(LATEST)]
                begun_by[row] = first + position
                if before >= first_row and times[before - first_row] == time:
                    fates[row] = before - first_row
                else:
                    replaced[count] = before
                    count += 1
                    lines[line + uint64(LATEST)] = first_row + row
            row += 1
    marks[FIRST], marks[NEXT], marks[USED] = first, number, used
    return int64(row), int64(count)


@kernel(f"void(uint32[::1], {_READ}, int64, uint64, uint64, {_READ}, int64)", inlined=True)
def _read_ahead(table: Table, lines: Column, width: int, ring: Any, mask: Any, hashes: Column, row: int) -> None:
    """Have brought near what later rows will look at, so that nobody waits for memory."""
    if row + _FAR < len(hashes):
        later, soon = hashes[uint64(row + _FAR)], hashes[uint64(row + _NEAR)]
        read_ahead(table, int64((uint64(later) >> uint64(_HALF)) & mask))
        one = uint64(table[(uint64(soon) >> uint64(_HALF)) & mask])
        read_ahead(lines, int64((one & ring) * uint64(width)))


@kernel(
    f"UniTuple(int64, 2)(int64, {_READ_LINKS}, {_READ}, {_READ}, int64, int64, uint32, {_READ}, int64, int64)",
    inlined=True,
)
def _look_up(
    few: int,
    links: Links,
    lines: Column,
    held: Column,
    first: int,
    number: int,
    head: Any,
    words: Column,
    start: int,
    length: int,
) -> Any:
    """Find the newest original of a key among those that belong where `head` stands: how far it is from the first one.

    And whether it is none: zero if all is alike.
    """
    position = int64(uint32(head - uint32(first)))
    ring, width = uint64(len(links) - 1), uint64(few + WORDS)
    line = (uint64(head) & ring) * width  # whether or not it is remembered: what was found there need not be used
    unlike = int64(-1)
    if _lies_in_line(few, words, start, length):
        unlike = _differing(few, lines, line + uint64(WORDS), words, start, length)
        unlike |= lines[line + uint64(LENGTH)] ^ length
    forgotten = (number - first - 1 - position) >> 63
    if settled(unlike & ~forgotten) != 0:
        position = _follow(few, links, lines, held, first, position, words, start, length)
        return max(position, 0), position >> 63
    return position, unlike | forgotten


@kernel(f"boolean(int64, {_READ}, int64, int64)", inlined=True)
def _lies_in_line(few: int, words: Column, start: int, length: int) -> Any:
    """Whether a key fits a line, and as many words as a line has may be read where it begins."""
    return (uint64(length - 1) < uint64(few)) & (start + few <= len(words))


@kernel(f"int64(int64, {_READ}, uint64, {_READ}, int64, int64)", inlined=True)
def _differing(few: int, lines: Column, at: Any, words: Column, start: int, length: int) -> Any:
    """The bits in which the words of a short key differ from those of a line.

    One by one: a loop of few rounds takes longer, for it is compiled for many.
    """
    begin = uint64(start)
    different = lines[at] ^ words[begin]
    if few > 1:
        one, two, three, four = uint64(1), uint64(2), uint64(3), uint64(4)
        different |= lines[at + one] ^ words[begin + one] if length > 1 else int64(0)
        different |= lines[at + two] ^ words[begin + two] if length > 2 else int64(0)  # noqa: PLR2004
        different |= lines[at + three] ^ words[begin + three] if length > 3 else int64(0)  # noqa: PLR2004
        different |= lines[at + four] ^ words[begin + four] if length > 4 else int64(0)  # noqa: PLR2004
    return different


@kernel(f"int64(int64, {_READ_LINKS}, {_READ}, {_READ}, int64, int64, {_READ}, int64, int64)", inner=True)
def _follow(
    few: int,
    links: Links,
    lines: Column,
    held: Column,
    first: int,
    position: int,
    words: Column,
    start: int,
    length: int,
) -> Any:
    """Go back in a chain to the newest original of a key: how far it is from the first one, or less than zero."""
    ring = len(links) - 1
    while position >= 0:
        slot = (first + position) & ring
        line = slot * (few + WORDS)
        if lines[line + LENGTH] == length:
            if length > few:
                same = same_words(held, lines[line + WORDS], words, start, length)
            else:
                same = same_words(lines, line + WORDS, words, start, length)
            if same:
                break
        position -= int64(uint32(links[slot])) + 1
    return int64(position)


@kernel(
    f"void(int64, uint64[::1], int64[::1], int64[::1], int64, int64, uint32, uint64, int64, int64, {_READ}, int64,"
    "int64)",
    inlined=True,
)
def _remember(
    few: int,
    links: Links,
    lines: Column,
    held: Column,
    used: int,
    number: int,
    head: Any,
    code: Any,
    time: int,
    row: int,
    words: Column,
    start: int,
    length: int,
) -> None:
    """Write an original to a line, the words of its key there or behind those that are held, and its link."""
    slot = uint64(number) & uint64(len(links) - 1)
    links[slot] = (code << uint64(_HALF)) | uint64(uint32(uint32(number) - head - uint32(1)))
    line = slot * uint64(few + WORDS)
    lines[line + uint64(TIME)], lines[line + uint64(LATEST)], lines[line + uint64(LENGTH)] = time, row, length
    at: Any = line + uint64(WORDS)
    begin = uint64(start)
    if _lies_in_line(few, words, start, length):
        lines[at] = words[begin]
        if few > 1:  # and what lies behind a shorter key, which nobody looks at
            one, two, three, four = uint64(1), uint64(2), uint64(3), uint64(4)
            lines[at + one], lines[at + two] = words[begin + one], words[begin + two]
            lines[at + three], lines[at + four] = words[begin + three], words[begin + four]
    elif length <= few:
        copy_words(words, start, lines, at, length)
    else:
        lines[at] = used
        copy_words(words, start, held, used, length)


# ---- making room -----------------------------------------------------------------------------------------------------


@kernel(f"int64({_READ}, int64, int64, int64, int64)")
def first_since(lines: Column, width: int, first: int, number: int, bound: int) -> int:
    """The number of the first original that is not before a bound."""
    ring = len(lines) // width - 1
    while first < number and lines[(first & ring) * width + TIME] < bound:
        first += 1
    return first


_RING = "uint32[::1], uint64[::1], int64[::1]"


@kernel(f"void({_READ_LINKS}, {_READ}, {_RING}, int64, int64)")
def move_lines(
    links: Links, lines: Column, table: Table, others: Links, roomier: Column, first: int, number: int
) -> None:
    """Copy originals to a ring of another size, and find them by a table all of whose places are free."""
    ring, other, mask = len(links) - 1, len(others) - 1, uint64(len(table) - 1)
    width = len(lines) // len(links)
    for one in range(first, number):
        here, there = one & ring, one & other
        for i in range(width):
            roomier[there * width + i] = lines[here * width + i]
        code = links[here] >> uint64(_HALF)
        back = uint32(uint32(one) - table[code & mask] - uint32(1))
        others[there] = (code << uint64(_HALF)) | uint64(back)
        table[code & mask] = uint32(one)


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


@kernel(f"void({_HELD}, {_READ}, {_READ}, {_READ})")
def write_lines(
    few: int,
    table: Table,
    links: Links,
    lines: Column,
    held: Column,
    marks: Column,
    times: Column,
    offsets: Column,
    words: Column,
) -> None:
    """Remember originals as they were stored; there is room for all. Of those of one key the last one counts."""
    mask = uint64(len(table) - 1)
    for i in range(len(times)):
        start, length, number = offsets[i], offsets[i + 1] - offsets[i], marks[NEXT]
        code = uint64(hash_event(0, words, start, length)) >> uint64(_HALF)
        head, used = table[code & mask], marks[USED]
        _remember(few, links, lines, held, used, number, head, code, times[i], NOBODY, words, start, length)
        table[code & mask] = uint32(number)
        marks[NEXT] += 1
        marks[USED] += length if length > few else 0
