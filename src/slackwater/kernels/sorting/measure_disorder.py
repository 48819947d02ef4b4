"""Counts how far a column of times is from being ordered: inversions, distance, natural runs, interleaved runs.

Paper: Chandramouli, Goldstein, Li. Impatience Is a Virtue: Revisiting Disorder in High-Performance Log Analytics.
ICDE 2018, section II.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.kernels.compile import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK = 32  # elements sorted by insertion before merging begins; a cache line or two of them

_READ = "Array(int64, 1, 'C', readonly=True)"


@kernel("int64(int64[::1], int64[::1])")
def _sort_and_count(times: NDArray[np.int64], scratch: NDArray[np.int64]) -> int:
    """Merge sort that counts how many elements each one overtakes; both arrays are overwritten."""
    n = len(times)
    inversions = 0
    for low in range(0, n, _BLOCK):
        for i in range(low + 1, min(low + _BLOCK, n)):
            moved, j = times[i], i - 1
            while j >= low and times[j] > moved:
                times[j + 1] = times[j]
                j -= 1
            inversions += i - 1 - j
            times[j + 1] = moved
    source, target = times, scratch
    width = _BLOCK
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            left, right = low, middle
            for k in range(low, high):
                if right < high and (left == middle or source[right] < source[left]):
                    inversions += middle - left
                    target[k] = source[right]
                    right += 1
                else:
                    target[k] = source[left]
                    left += 1
        source, target = target, source
        width *= 2
    return inversions


@kernel(f"int64({_READ}, int64[::1])")
def _greatest_distance(times: NDArray[np.int64], records: NDArray[np.int64]) -> int:
    """The farthest element that an element must overtake is the first record above it; `records` is scratch space."""
    greatest, known = 0, 0
    for j in range(len(times)):
        if known == 0 or times[j] >= times[records[known - 1]]:
            records[known] = j
            known += 1
            continue
        low, high = 0, known - 1
        while low < high:
            middle = (low + high) // 2
            if times[records[middle]] > times[j]:
                high = middle
            else:
                low = middle + 1
        greatest = max(greatest, j - records[low])
    return greatest


@kernel(f"int64({_READ}, int64[::1], int64)")
def _append_to_runs(times: NDArray[np.int64], tails: NDArray[np.int64], runs: int) -> int:
    """Append times to runs whose last times are strictly decreasing; return how many runs there are then."""
    for i in range(len(times)):
        low, high = 0, runs
        while low < high:
            middle = (low + high) // 2
            if tails[middle] <= times[i]:
                high = middle
            else:
                low = middle + 1
        tails[low] = times[i]
        runs = max(runs, low + 1)
    return runs


def count_inversions(times: NDArray[np.int64]) -> int:
    """The pairs of positions i < j with times[i] > times[j]. Cost: O(n log n), and two copies of the column.

    >>> count_inversions(np.array([2, 6, 5, 1, 4, 3, 7, 8]))
    9
    """
    return int(_sort_and_count(times.copy(), np.empty_like(times)))


def greatest_distance(times: NDArray[np.int64]) -> int:
    """The greatest j - i over all inversions; 0 when there are none. Cost: O(n log n).

    >>> greatest_distance(np.array([2, 6, 5, 1, 4, 3, 7, 8]))
    4
    """
    return int(_greatest_distance(times, np.empty(len(times), dtype=np.int64)))


@kernel("int64(Array(int64, 1, 'C', readonly=True))")
def _count_falls(times: NDArray[np.int64]) -> int:
    falls = 0
    for i in range(1, len(times)):
        falls += times[i] < times[i - 1]
    return falls


def count_runs(times: NDArray[np.int64]) -> int:
    """The maximal stretches that do not go back. Cost: O(n).

    >>> count_runs(np.array([2, 6, 5, 1, 4, 3, 7, 8]))
    4
    """
    return int(_count_falls(times)) + 1 if len(times) else 0


def append_to_runs(times: NDArray[np.int64], tails: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Go on appending times to ordered runs, first fit; return the runs' last times, strictly decreasing.

    Their number is the least number of ordered runs that can be interleaved to give the column (Proposition 3.1).
    Cost: O(n log runs).

    >>> append_to_runs(np.array([2, 6, 5, 1, 4, 3, 7, 8])).tolist()
    [8, 5, 4, 3]
    """
    known = 0 if tails is None else len(tails)
    room = np.empty(known + len(times), dtype=np.int64)
    if tails is not None:
        room[:known] = tails
    return room[: _append_to_runs(times, room, known)]
