"""Gathers rows that lie scattered over many segments of memory, as if the segments were one column.

Arrow takes rows from one array quickly and from many slowly: it lays the many end to end first. Here the segments stay
where they are and are known by their addresses; the caller keeps them alive. Rows that follow each other lie in one
segment, as a rule: such a stretch is found once, and then gathered column by column without another look.

Cost: O(rows), and O(segments) to make a table of where they lie.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types, uint64
from numba.extending import intrinsic

from slackwater.kernels.compile import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

_READ = "Array({}, 1, 'C', readonly=True)"


_PAGE_BITS = 12
"""Rows are looked up by pages of 4,096: most segments are longer, so that a page names the segment of its rows."""


_GLANCE = 64
"""Rows that are looked at together for one that lies in another segment."""


@kernel(f"int64({', '.join([_READ.format('int64')] * 3)}, int64[::1], int64[::1], int64[::1])")
def _find_stretches(
    rows: NDArray[np.int64],
    firsts: NDArray[np.int64],
    pages: NDArray[np.int64],
    begins: NDArray[np.int64],
    segments: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> int:
    """Fill in where stretches of rows in one segment begin, and their segments; return how many there are."""
    at, stretches = 0, 0
    while at < len(rows):
        segment = pages[(rows[at] - firsts[0]) >> _PAGE_BITS]
        while firsts[segment + 1] <= rows[at]:
            segment += 1
        begins[stretches], segments[stretches] = at, segment
        stretches += 1
        first, length, stop = firsts[segment], uint64(firsts[segment + 1] - firsts[segment]), at + 1
        while stop + _GLANCE <= len(rows):
            glance, outside = rows[stop : stop + _GLANCE], 0
            for i in range(_GLANCE):
                outside += uint64(glance[i] - first) >= length
            if outside:
                break
            stop += _GLANCE
        while stop < len(rows) and uint64(rows[stop] - first) < length:
            stop += 1
        counts[segment] += stop - at
        at = stop
    begins[stretches] = at
    return stretches


def _loader(width: int) -> Any:
    """A function that reads an integer of so many bits from an address."""

    @intrinsic
    def load(_: Any, address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.load(builder.inttoptr(arguments[0], ir.IntType(width).as_pointer()))

        return getattr(types, f"int{width}")(address), generate

    return load


_load_8, _load_16, _load_32, _load_64 = (_loader(width) for width in (8, 16, 32, 64))

_STRETCHES = ", ".join([_READ.format("uint64"), *[_READ.format("int64")] * 4])


@kernel(f"void({_STRETCHES}, int8[::1])")
def _gather_8(addresses: Any, rows: Any, begins: Any, segments: Any, firsts: Any, gathered: Any) -> None:
    for stretch in range(len(segments)):
        address, first = addresses[segments[stretch]], firsts[segments[stretch]]
        for i in range(begins[stretch], begins[stretch + 1]):
            gathered[i] = _load_8(address + uint64(rows[i] - first))


@kernel(f"void({_STRETCHES}, int16[::1])")
def _gather_16(addresses: Any, rows: Any, begins: Any, segments: Any, firsts: Any, gathered: Any) -> None:
    for stretch in range(len(segments)):
        address, first = addresses[segments[stretch]], firsts[segments[stretch]]
        for i in range(begins[stretch], begins[stretch + 1]):
            gathered[i] = _load_16(address + uint64((rows[i] - first) * 2))


@kernel(f"void({_STRETCHES}, int32[::1])")
def _gather_32(addresses: Any, rows: Any, begins: Any, segments: Any, firsts: Any, gathered: Any) -> None:
    for stretch in range(len(segments)):
        address, first = addresses[segments[stretch]], firsts[segments[stretch]]
        for i in range(begins[stretch], begins[stretch + 1]):
            gathered[i] = _load_32(address + uint64((rows[i] - first) * 4))


@kernel(f"void({_STRETCHES}, int64[::1])")
def _gather_64(addresses: Any, rows: Any, begins: Any, segments: Any, firsts: Any, gathered: Any) -> None:
    for stretch in range(len(segments)):
        address, first = addresses[segments[stretch]], firsts[segments[stretch]]
        for i in range(begins[stretch], begins[stretch + 1]):
            gathered[i] = _load_64(address + uint64((rows[i] - first) * 8))


_GATHER = {8: _gather_8, 16: _gather_16, 32: _gather_32, 64: _gather_64}

WIDTHS = frozenset(_GATHER)
"""The widths of values, in bits, that can be gathered."""


class Places(NamedTuple):
    """Where rows lie: stretches of rows in one segment, and how many rows lie in each segment."""

    rows: NDArray[np.int64]
    begins: NDArray[np.int64]
    """Where each stretch begins, and after them all where the last one ends."""

    segments: NDArray[np.int64]
    """The segment of each stretch."""

    firsts: NDArray[np.int64]
    """The numbers of the segments' first rows, and the number after the last row of all."""

    counts: NDArray[np.int64]


def locate(rows: NDArray[np.int64], firsts: NDArray[np.int64]) -> Places:
    """Find rows in segments.

    `firsts` are the numbers of the segments' first rows, and the number after the last row of all.

    >>> places = locate(np.array([7, 6, 0, 4]), np.array([0, 3, 5, 8]))
    >>> places.begins.tolist(), places.segments.tolist(), places.counts.tolist()
    ([0, 2, 3, 4], [2, 0, 1], [1, 1, 2])
    """
    pages = np.searchsorted(firsts, np.arange(firsts[0], firsts[-1], 1 << _PAGE_BITS), side="right") - 1
    begins, segments = np.empty(len(rows) + 1, dtype=np.int64), np.empty(len(rows), dtype=np.int64)
    counts = np.zeros(len(firsts) - 1, dtype=np.int64)
    stretches = _find_stretches(rows, firsts, pages, begins, segments, counts)
    return Places(rows, begins[: stretches + 1], segments[:stretches], firsts, counts)


def gather_segments(addresses: NDArray[np.uint64], places: Places, gathered: NDArray[Any]) -> None:
    """Gather values of a fixed width into a column of integers; `addresses` are those of the segments' first values.

    >>> a, b, gathered = np.array([15, 25]), np.array([75]), np.empty(2, dtype=np.int64)
    >>> addresses = np.array([a.ctypes.data, b.ctypes.data], dtype=np.uint64)
    >>> gather_segments(addresses, locate(np.array([2, 0]), np.array([0, 2, 3])), gathered)
    >>> gathered.tolist()
    [75, 15]
    """
    _GATHER[8 * gathered.itemsize](addresses, *places[:-1], gathered)
