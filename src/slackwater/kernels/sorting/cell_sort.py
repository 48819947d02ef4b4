"""Sorts (time, row) pairs by bucketing them in cells of time: no comparisons, but for the few that share a cell.

There are about two cells for each pair. Count what falls into each, lay the cells end to end, put every pair into its
cell; then let neighbours that are still in the wrong order change places. On a stream that is nearly in order, all of
this walks along memory nearly in order, too.

Cells are equally long. Where times crowd in few of them (nights between days, or a clock that is years wrong and makes
neighbours of all others), a sample of the times is put in order, and as many cells lie between any two of its marks.

Pairs are bucketed in the order in which they are given, so ties keep that.

Cost: O(n) where the sample shows how times are spread; O(n log n) otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numba import int64, uint32, uint64

from slackwater.kernels.compile import kernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from slackwater.kernels.sorting.pairs import Column, Piece

    Cells = NDArray[np.uint32]
    """The cells of pairs, or what is known of each cell."""

_MARKS: Final = 256
"""The most times of a sample: a search among them takes eight steps."""

_WORTH_SAMPLING: Final = 64 * _MARKS
"""Pairs from which on a sample is taken: of fewer it would cost more than it saves."""

_CROWD: Final = 16
"""More pairs than these are a crowd in one cell, unless they are ties."""

_MANY: Final = 4
"""Where one pair in so many is in a crowded cell, or is much denser than on average, other cells are tried."""

_DENSE: Final = 64
"""Times are much denser than on average if they are so many times as dense."""

_ALIKE: Final = 16
"""How often crowded cells are taken for ties without a look, after they were."""

_MOVES: Final = 8
"""Places that pairs may be moved on average to come to order among their neighbours."""

_READ = "Array(int64, 1, 'C', readonly=True)"


class Unsorted(NamedTuple):
    """Pairs that are to be sorted: stretches of two columns, from their heads to their ends."""

    times: Column
    rows: Column
    """The rows of the times; only the first, where they are numbered on from it."""

    heads: Column
    ends: Column
    pairs: int
    """How many they are, all stretches together."""

    @classmethod
    def whole(cls, times: Column, rows: Column) -> Unsorted:
        """Columns from their beginning to their end."""
        return cls(times, rows, np.zeros(1, dtype=np.int64), np.array([len(times)]), len(times))


def sample_of(parts: Sequence[Unsorted], looks: int, least: int, greatest: int) -> Column:
    """Some of the times, in order: those between two that are found by so many looks at the columns, about."""
    columns = [part.times[int(part.heads[0]) : int(part.ends[-1])] for part in parts]
    one_in = max(sum(map(len, columns)) // looks, 1)
    looked_at = np.concatenate([column[::one_in] for column in columns])
    return np.sort(looked_at[(looked_at >= least) & (looked_at <= greatest)])


class CellSorter:
    """Sorts pairs in cells; the memory that it needs for that is kept from sort to sort."""

    __slots__ = ("_cells", "_numbers", "_ties")

    def __init__(self) -> None:
        self._ties = 0
        self._cells: Cells = np.empty(0, dtype=np.uint32)
        self._numbers: Cells = np.empty(0, dtype=np.uint32)

    @property
    def scratch(self) -> tuple[Cells, Cells]:
        """The memory that is kept."""
        return self._cells, self._numbers

    def sort(self, parts: Sequence[Unsorted], least: int, greatest: int, room: Piece) -> Piece:
        """Sort pairs, of which none is older than the least time or younger than the greatest, into `room`.

        >>> from slackwater.kernels.sorting.pairs import room_for
        >>> whole = Unsorted.whole(np.array([40, 20, 30, 20]), np.array([7]))
        >>> CellSorter().sort([whole], 20, 40, room_for(4)).rows.tolist()
        [8, 10, 9, 7]
        """
        n = len(room.times)
        numbers = self._numbers = _at_least(n, self._numbers)
        cells, crowded = self._laid_out(_number_evenly(parts, n, least, greatest, numbers), numbers[:n])
        if crowded * _MANY > n >= _WORTH_SAMPLING and not self._taken_for_ties():
            marks = _marks(parts, least, greatest)
            if _much_denser(marks, greatest - least):
                cells, _ = self._laid_out(_number_by_marks(parts, n, marks, greatest, numbers), numbers[:n])
            else:
                self._ties = _ALIKE
        for part, its_numbers in _along(parts, numbers):
            _put(part.times, part.rows, part.heads, part.ends, its_numbers, cells, *room)
        if not settle(*room, _MOVES * n):
            order = np.argsort(room.times, kind="stable")
            room.times[:], room.rows[:] = room.times[order], room.rows[order]
        return room

    def _taken_for_ties(self) -> bool:
        """Whether pairs that share cells were ties not long ago: those that follow each other are alike."""
        self._ties = max(self._ties - 1, 0)
        return self._ties > 0

    def _laid_out(self, number: int, numbers: Cells) -> tuple[Cells, int]:
        """Find where each of so many cells begins, and how many pairs are in those that are crowded."""
        self._cells = _at_least(number, self._cells)
        cells = self._cells[:number]
        cells.fill(0)
        _count(numbers, cells)
        return cells, _lay_end_to_end(cells)


def _number_evenly(parts: Sequence[Unsorted], n: int, least: int, greatest: int, numbers: Cells) -> int:
    """Number the cells that pairs fall into, all of them equally long; return how many cells there are."""
    shift = max((greatest - least).bit_length() - n.bit_length(), 0)
    cells = ((greatest - least) >> shift) + 1
    for part, its_numbers in _along(parts, numbers):
        _find_even_cells(part.times, part.heads, part.ends, least, shift, cells - 1, its_numbers)
    return cells


def _number_by_marks(parts: Sequence[Unsorted], n: int, marks: Column, greatest: int, numbers: Cells) -> int:
    """Number the cells that pairs fall into, as many of them from each mark to the next; return how many there are."""
    bits = (n // _MARKS).bit_length()
    spans = np.diff(marks, append=greatest).view(np.uint64)
    shifts = np.maximum(np.frexp(spans.astype(np.float64))[1] - bits, 0).astype(np.int64)
    for part, its_numbers in _along(parts, numbers):
        _find_cells_by_marks(part.times, part.heads, part.ends, marks, shifts, bits, its_numbers)
    return _MARKS << bits


def _at_least(n: int, memory: Cells) -> Cells:
    return memory if len(memory) >= n else np.empty(n, dtype=np.uint32)


def _along(parts: Sequence[Unsorted], numbers: Cells) -> Iterator[tuple[Unsorted, Cells]]:
    """Each part with the numbers of its pairs."""
    at = 0
    for part in parts:
        yield part, numbers[at : at + part.pairs]
        at += part.pairs


def _marks(parts: Sequence[Unsorted], least: int, greatest: int) -> Column:
    """Times with as many pairs between any two of them, as far as a sample shows."""
    sample = sample_of(parts, 4 * _MARKS, least, greatest)
    if not len(sample):
        return np.full(_MARKS, least)
    marks = sample[np.arange(_MARKS) * len(sample) // _MARKS]
    marks[0] = least
    return marks


def _much_denser(marks: Column, span: int) -> bool:
    """Whether many times, ties apart, are much denser than all together on average."""
    gaps = np.diff(marks).view(np.uint64)
    dense = (gaps > 0) & (gaps < span // (_DENSE * _MARKS))
    return _MANY * int(np.count_nonzero(dense)) > _MARKS


@kernel(f"void({_READ}, {_READ}, {_READ}, int64, uint64, uint64, uint32[::1])")
def _find_even_cells(
    times: Column, heads: Column, ends: Column, least: int, shift: int, last: int, numbers: Cells
) -> None:
    """Find the cells of times from the least on, each a power of two long. No time can fall beside all cells."""
    at = 0
    for stretch in range(len(heads)):
        these = times[heads[stretch] : ends[stretch]]
        into = numbers[at : at + len(these)]
        for i in range(len(these)):
            into[i] = min(uint64(these[i] - least) >> shift, last)
        at += len(these)


@kernel(f"void({_READ}, {_READ}, {_READ}, {_READ}, {_READ}, uint64, uint32[::1])")
def _find_cells_by_marks(
    times: Column, heads: Column, ends: Column, marks: Column, shifts: Column, bits: Any, numbers: Cells
) -> None:
    """Find the cells of times that are as many from each mark to the next. No time can fall beside all cells."""
    at, mark, last = uint64(0), uint64(0), uint64(_MARKS - 1)
    last_cell = (uint64(1) << bits) - uint64(1)
    for stretch in range(len(heads)):
        for i in range(uint64(heads[stretch]), uint64(ends[stretch])):
            time = times[i]
            # Most often it lies behind the same mark as the one before it.
            if time < marks[mark] or (mark < last and time >= marks[mark + uint64(1)]):
                mark, step = uint64(0), uint64(_MARKS // 2)
                while step:
                    mark += step if marks[mark + step] <= time else uint64(0)
                    step >>= uint64(1)
            numbers[at] = (mark << bits) + min(uint64(time - marks[mark]) >> uint64(shifts[mark]), last_cell)
            at += uint64(1)


@kernel("void(Array(uint32, 1, 'C', readonly=True), uint32[::1])")
def _count(numbers: Cells, cells: Cells) -> None:
    """Count what falls into each cell.

    In four places at once: neighbours often fall into the same cell, and would wait for each other's counter.
    """
    one, quarter = uint32(1), uint64(len(numbers) // 4)
    for i in range(quarter):
        cells[numbers[i]] += one
        cells[numbers[i + quarter]] += one
        cells[numbers[i + uint64(2) * quarter]] += one
        cells[numbers[i + uint64(3) * quarter]] += one
    for i in range(uint64(4) * quarter, uint64(len(numbers))):
        cells[numbers[i]] += one


@kernel("int64(uint32[::1])")
def _lay_end_to_end(cells: Cells) -> Any:
    """Make of how many are in each cell where it begins; return how many are in crowded ones."""
    begin, crowded = uint32(0), uint32(0)
    for cell in range(len(cells)):
        pairs = cells[cell]
        cells[cell] = begin
        begin += pairs
        crowded += pairs if pairs > _CROWD else uint32(0)
    return crowded


@kernel(f"void({', '.join([_READ] * 4)}, Array(uint32, 1, 'C', readonly=True), uint32[::1], int64[::1], int64[::1])")
def _put(
    times: Column,
    rows: Column,
    heads: Column,
    ends: Column,
    numbers: Cells,
    cells: Cells,
    in_cells_times: Column,
    in_cells_rows: Column,
) -> None:
    """Put each pair at the next place of its cell."""
    at = uint64(0)
    numbered_on = len(rows) < len(times)
    for stretch in range(len(heads)):
        for i in range(uint64(heads[stretch]), uint64(ends[stretch])):
            cell = numbers[at]
            place = cells[cell]
            in_cells_times[place] = times[i]
            in_cells_rows[place] = rows[0] + i if numbered_on else rows[i]
            cells[cell] = place + uint32(1)
            at += uint64(1)


@kernel("boolean(int64[::1], int64[::1], int64)")
def settle(times: Column, rows: Column, moves: Any) -> bool:
    """Let neighbours in the wrong order change places; give up halfway when that takes too many moves."""
    one = uint64(1)
    for i in range(one, uint64(len(times))):
        time, place = times[i], uint64(i)
        if times[place - one] <= time:
            continue
        row = rows[i]
        while place and times[place - one] > time:
            times[place], rows[place] = times[place - one], rows[place - one]
            place -= one
        times[place], rows[place] = time, row
        moves -= int64(i) - int64(place)
        if moves < 0:
            return False
    return True
