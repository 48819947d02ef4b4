"""Gathers rows that lie scattered over many segments of memory, as if the segments were one column.

Arrow takes rows from one array quickly and from many slowly: it lays the many end to end first. Here the segments stay
where they are and are known by their addresses; the caller keeps them alive.

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


@kernel(f"void({', '.join([_READ.format('int64')] * 3)}, int32[::1], int64[::1], int64[::1])")
def _locate(
    rows: NDArray[np.int64],
    firsts: NDArray[np.int64],
    pages: NDArray[np.int64],
    segment: NDArray[np.int32],
    place: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    for i in range(len(rows)):
        row = rows[i]
        at = pages[(row - firsts[0]) >> _PAGE_BITS]
        while firsts[at + 1] <= row:
            at += 1
        segment[i] = at
        place[i] = row - firsts[at]
        counts[at] += 1


def _loader(width: int) -> Any:
    """A function that reads an integer of so many bits from an address."""

    @intrinsic
    def load(_: Any, address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.load(builder.inttoptr(arguments[0], ir.IntType(width).as_pointer()))

        return getattr(types, f"int{width}")(address), generate

    return load


_load_8, _load_16, _load_32, _load_64 = (_loader(width) for width in (8, 16, 32, 64))

_PLACES = f"{_READ.format('uint64')}, {_READ.format('int32')}, {_READ.format('int64')}"


@kernel(f"void({_PLACES}, int8[::1])")
def _gather_8(addresses: Any, segment: Any, place: Any, gathered: Any) -> None:
    for i in range(len(place)):
        gathered[i] = _load_8(addresses[segment[i]] + uint64(place[i]))


@kernel(f"void({_PLACES}, int16[::1])")
def _gather_16(addresses: Any, segment: Any, place: Any, gathered: Any) -> None:
    for i in range(len(place)):
        gathered[i] = _load_16(addresses[segment[i]] + uint64(place[i] * 2))


@kernel(f"void({_PLACES}, int32[::1])")
def _gather_32(addresses: Any, segment: Any, place: Any, gathered: Any) -> None:
    for i in range(len(place)):
        gathered[i] = _load_32(addresses[segment[i]] + uint64(place[i] * 4))


@kernel(f"void({_PLACES}, int64[::1])")
def _gather_64(addresses: Any, segment: Any, place: Any, gathered: Any) -> None:
    for i in range(len(place)):
        gathered[i] = _load_64(addresses[segment[i]] + uint64(place[i] * 8))


_GATHER = {8: _gather_8, 16: _gather_16, 32: _gather_32, 64: _gather_64}

WIDTHS = frozenset(_GATHER)
"""The widths of values, in bits, that can be gathered."""


class Places(NamedTuple):
    """In which segment each row lies, at which place there, and how many rows lie in each segment."""

    segment: NDArray[np.int32]
    place: NDArray[np.int64]
    counts: NDArray[np.int64]


def locate(rows: NDArray[np.int64], firsts: NDArray[np.int64]) -> Places:
    """Find rows in segments.

    `firsts` are the numbers of the segments' first rows, and the number after the last row of all.

    >>> places = locate(np.array([7, 0, 4]), np.array([0, 3, 5, 8]))
    >>> places.segment.tolist(), places.place.tolist(), places.counts.tolist()
    ([2, 0, 1], [2, 0, 1], [1, 1, 1])
    """
    pages = np.searchsorted(firsts, np.arange(firsts[0], firsts[-1], 1 << _PAGE_BITS), side="right") - 1
    segment, place = np.empty(len(rows), dtype=np.int32), np.empty(len(rows), dtype=np.int64)
    counts = np.zeros(len(firsts) - 1, dtype=np.int64)
    _locate(rows, firsts, pages, segment, place, counts)
    return Places(segment, place, counts)


def gather_segments(addresses: NDArray[np.uint64], places: Places, width: int) -> NDArray[np.generic]:
    """Gather values of `width` bits; `addresses` are those of the segments' first values.

    >>> a, b = np.array([1.5, 2.5]), np.array([7.5])
    >>> addresses = np.array([a.ctypes.data, b.ctypes.data], dtype=np.uint64)
    >>> gather_segments(addresses, locate(np.array([2, 0]), np.array([0, 2, 3])), 64).view(np.float64).tolist()
    [7.5, 1.5]
    """
    gathered = np.empty(len(places.place), dtype=f"int{width}")
    _GATHER[width](addresses, places.segment, places.place, gathered)
    return gathered
