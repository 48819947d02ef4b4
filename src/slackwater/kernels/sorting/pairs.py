"""Columns of (time, row) pairs in order of time, equal times in order of row: cutting, joining and merging them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numba import int64, uint64
from numpy.typing import NDArray

from slackwater.kernels.compile import kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

Column: TypeAlias = NDArray[np.int64]
"""Times, or the numbers of rows."""

_READ = "Array(int64, 1, 'C', readonly=True)"


class Piece(NamedTuple):
    """Pairs in order of time; equal times in order of their rows."""

    times: Column
    rows: Column

    def cut(self, at: int) -> tuple[Piece, Piece]:
        """Part in two, at a position. Nothing is copied."""
        return Piece(self.times[:at], self.rows[:at]), Piece(self.times[at:], self.rows[at:])


def room_for(n: int) -> Piece:
    """Memory for n pairs."""
    times, rows = np.empty((2, n), dtype=np.int64)
    return Piece(times, rows)


def concat(pieces: Sequence[Piece]) -> Piece:
    """Lay pieces end to end. Cost: one copy; none for a single piece."""
    if len(pieces) == 1:
        return pieces[0]
    return Piece(np.concatenate([piece.times for piece in pieces]), np.concatenate([piece.rows for piece in pieces]))


def merge(first: Piece, second: Piece) -> Piece:
    """Merge two pieces; of equal times those of the first go first.

    >>> merge(Piece(np.array([1, 3]), np.array([0, 1])), Piece(np.array([2, 3]), np.array([2, 3]))).rows.tolist()
    [0, 2, 1, 3]
    """
    merged = room_for(len(first.times) + len(second.times))
    merge_into(*first, *second, *merged)
    return merged


@kernel(f"void({', '.join([_READ] * 4)}, int64[::1], int64[::1])")
def merge_into(times_a: Column, rows_a: Column, times_b: Column, rows_b: Column, times: Column, rows: Column) -> None:
    """Merge two pieces into the columns given; of equal times those of a go first.

    It runs from both ends at once, for two independent chains of comparisons keep the processor busy where one would
    wait for itself. Both candidates are read and one is kept: a move, not a branch that half the time guesses wrong.
    Indices are unsigned, or every access would first ask whether its index counts from the end.
    """
    one = uint64(1)
    front_a, front_b, front = uint64(0), uint64(0), uint64(0)
    back_a, back_b, back = uint64(len(times_a) - 1), uint64(len(times_b) - 1), uint64(len(times) - 1)
    while True:
        # While both inputs hold more than the steps to come can use, no bound needs testing.
        steps = (min(int64(back_a) - int64(front_a), int64(back_b) - int64(front_b)) + 1) // 2
        if steps == 0:
            break
        for _ in range(steps):
            time_a, time_b, row_a, row_b = times_a[front_a], times_b[front_b], rows_a[front_a], rows_b[front_b]
            is_b = time_b < time_a
            times[front] = time_b if is_b else time_a
            rows[front] = row_b if is_b else row_a
            taken = uint64(is_b)
            front_b += taken
            front_a += one - taken
            front += one
            time_a, time_b, row_a, row_b = times_a[back_a], times_b[back_b], rows_a[back_a], rows_b[back_b]
            is_b = time_b >= time_a
            times[back] = time_b if is_b else time_a
            rows[back] = row_b if is_b else row_a
            taken = uint64(is_b)
            back_b -= taken
            back_a -= one - taken
            back -= one
    at_a, stop_a, at_b, stop_b = int64(front_a), int64(back_a) + 1, int64(front_b), int64(back_b) + 1
    at = int64(front)
    while at_a < stop_a and at_b < stop_b:
        if times_b[at_b] < times_a[at_a]:
            times[at], rows[at] = times_b[at_b], rows_b[at_b]
            at_b += 1
        else:
            times[at], rows[at] = times_a[at_a], rows_a[at_a]
            at_a += 1
        at += 1
    # Loops, for slices would compile much longer.
    for i in range(stop_a - at_a):
        times[at + i], rows[at + i] = times_a[at_a + i], rows_a[at_a + i]
    at += stop_a - at_a
    for i in range(stop_b - at_b):
        times[at + i], rows[at + i] = times_b[at_b + i], rows_b[at_b + i]
