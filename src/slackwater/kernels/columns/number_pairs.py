"""Numbers pairs of integers: equal pairs get the same number, each new pair the next one, as they appear.

Where all pairs that there could be are few, each has a place in a table. Otherwise an open hash table holds the number
of each pair seen; pairs are compared exactly. Columns of more than two parts are numbered step by step: the numbers of
the first two parts are the first part of the next pair.
Cost: O(rows), and memory of 16 to 64 bytes for each pair that is new.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from slackwater.kernels.compile import kernel

Column = NDArray[np.int64]

_FREE = -1
_FEW = 64  # rows: it does not matter how they are numbered
_PLACES_PER_ROW = 4
_FIRST_ROOM = 512  # pairs that are numbered before the table grows
_SPREAD = 0x9E3779B97F4A7C15  # 2**64 over the golden ratio: neighbours end up far from each other
_SPREAD_AGAIN = 0xD6E8FEB86659FD93

_READ = "Array(int64, 1, 'C', readonly=True)"


class Numbered(NamedTuple):
    """The number of each row, and the first row of each number."""

    numbers: Column
    firsts: Column


def number_pairs(a: Column, b: Column) -> Numbered:
    """Number the pairs of two columns by first appearance.

    >>> numbers, firsts = number_pairs(np.array([7, 7, 5, 7]), np.array([1, 2, 1, 1]))
    >>> numbers.tolist(), firsts.tolist()
    ([0, 1, 2, 0], [0, 1, 2])
    """
    numbers = np.empty(len(a), dtype=np.int64)
    if len(a) >= _FEW:
        (least_a, greatest_a), (least_b, greatest_b) = _ends(a), _ends(b)
        count_a, count_b = greatest_a - least_a + 1, greatest_b - least_b + 1
        if count_a * count_b <= _PLACES_PER_ROW * len(a):
            places = np.full(count_a * count_b, _FREE, dtype=np.int32)
            return Numbered(numbers, _number_places(a, b, least_a, least_b, count_b, places, numbers))
    return Numbered(numbers, _number(a, b, numbers))


@kernel(f"UniTuple(int64, 2)({_READ})")
def _ends(column: Column) -> tuple[int, int]:
    """The least and the greatest value."""
    least = greatest = column[0]
    for i in range(len(column)):
        least = min(least, column[i])
        greatest = max(greatest, column[i])
    return least, greatest


@kernel(f"int64[::1]({_READ}, {_READ}, int64, int64, int64, int32[::1], int64[::1])", makes_arrays=True)
def _number_places(
    a: Column, b: Column, least_a: int, least_b: int, count_b: int, places: NDArray[np.int32], numbers: Column
) -> Column:
    """Fill in the number of each row, by a place for each pair that could be; return the first row of each number."""
    firsts = np.empty(min(len(places), len(a)), dtype=np.int64)
    known = 0
    for i in range(len(a)):
        at = uint64((a[i] - least_a) * count_b + (b[i] - least_b))
        if places[at] == _FREE:
            places[at] = known
            firsts[known] = i
            known += 1
        numbers[i] = places[at]
    return firsts[:known]


@kernel("uint64(int64, int64)")
def _mixed(a: int, b: int) -> np.uint64:
    """Spread pairs over all numbers of 32 bits."""
    mixed = uint64(a) * uint64(_SPREAD) + uint64(b)
    return ((mixed ^ (mixed >> uint64(32))) * uint64(_SPREAD_AGAIN)) >> uint64(32)


@kernel("int32[::1](int64)", makes_arrays=True)
def _free_places(count: int) -> NDArray[np.int32]:
    """A table of free places; a loop compiles faster than np.full."""
    places = np.empty(count, dtype=np.int32)
    for i in range(count):
        places[i] = _FREE
    return places


@kernel(f"int64[::1]({_READ}, {_READ}, int64[::1])", makes_arrays=True)
def _number(a: Column, b: Column, numbers: Column) -> Column:
    """Fill in the number of each row; return the first row of each number."""
    firsts = np.empty(_FIRST_ROOM, dtype=np.int64)
    places = _free_places(2 * _FIRST_ROOM)
    known = 0
    for i in range(len(a)):
        if i > 0 and a[i] == a[i - 1] and b[i] == b[i - 1]:
            numbers[i] = numbers[i - 1]
            continue
        mask = uint64(len(places) - 1)
        at = _mixed(a[i], b[i]) & mask
        while places[at] != _FREE:
            first = firsts[places[at]]
            if a[first] == a[i] and b[first] == b[i]:
                break
            at = (at + uint64(1)) & mask
        if places[at] != _FREE:
            numbers[i] = places[at]
            continue
        numbers[i] = places[at] = known
        firsts[known] = i
        known += 1
        if known == len(firsts):
            # Half of the places are taken: go on with four times as many.
            longer = np.empty(4 * known, dtype=np.int64)
            places = _free_places(8 * known)
            mask = uint64(len(places) - 1)
            for number in range(known):
                first = longer[number] = firsts[number]
                at = _mixed(a[first], b[first]) & mask
                while places[at] != _FREE:
                    at = (at + uint64(1)) & mask
                places[at] = number
            firsts = longer
    return firsts[:known]


@kernel(f"int64[::1]({_READ}, {_READ}, int64, int64[:, ::1])", makes_arrays=True)
def keep_greatest(values: Column, numbers: Column, most: int, kept: Column) -> Column:
    """Keep the greatest values of each number, so many at most, the greatest first; return how many each has."""
    counts = np.zeros(len(kept), dtype=np.int64)
    for i in range(len(values)):
        value, number = values[i], numbers[i]
        at = counts[number]
        if at == most:
            if value <= kept[number, most - 1]:
                continue
            at -= 1
        else:
            counts[number] += 1
        while at > 0 and kept[number, at - 1] < value:
            kept[number, at] = kept[number, at - 1]
            at -= 1
        kept[number, at] = value
    return counts


@kernel(f"void({_READ}, {_READ}, int64[::1])")
def add_by_number(values: Column, numbers: Column, sums: Column) -> None:
    """Add each value to the sum of its number."""
    for i in range(len(values)):
        sums[numbers[i]] += values[i]
