"""Sorts blocks of events, all that is needed for it in the processor's cache, each by what it is like.

A block that is in order is left alone. One that seldom falls back is copied, and its late events are moved to their
places; any other, and one whose events are late by much, is bucketed in cells (cell_sort).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.kernels.compile import kernel
from slackwater.kernels.sorting.cell_sort import CellSorter, Unsorted, settle
from slackwater.kernels.sorting.pairs import Piece

if TYPE_CHECKING:
    from slackwater.kernels.sorting.pairs import Column

BLOCK: Final = 65_536
"""Events sorted at once: their cells stay in a second-level cache of one or two megabytes."""

_SELDOM: Final = 16
"""A block that falls back less than once in so many events is worth a try to move late events one by one."""

_MOVES: Final = 2
"""Places that events may be moved on average in such a try."""

_ALIKE: Final = 16
"""Blocks that are bucketed in cells without a try after one that failed: those that follow each other are alike."""

_READ = "Array(int64, 1, 'C', readonly=True)"


class BlockSorter:
    """Sorts one block after the other."""

    __slots__ = ("_untried", "cells")

    def __init__(self) -> None:
        self.cells = CellSorter()
        self._untried = 0

    def sort(self, times: Column, first_row: int, room: Piece) -> Piece:
        """Sort a block into `room` and return that; a block that is in order is returned as it is.

        >>> from slackwater.kernels.sorting.pairs import room_for
        >>> BlockSorter().sort(np.array([3, 1, 2]), 5, room_for(3)).rows.tolist()
        [6, 7, 5]
        """
        falls, least, greatest = _look_at(times)
        if falls == 0:
            return Piece(times, np.arange(first_row, first_row + len(times)))
        if falls * _SELDOM < len(times) and not self._untried:
            _copy_numbered(times, first_row, *room)
            if settle(*room, _MOVES * len(times)):
                return room
            self._untried = _ALIKE
        self._untried -= self._untried > 0
        return self.cells.sort([Unsorted.whole(times, np.array([first_row]))], least, greatest, room)


@kernel(f"UniTuple(int64, 3)({_READ})")
def _look_at(times: Column) -> tuple[int, int, int]:
    """How many events are older than the one before them; the least and the greatest time."""
    falls, least, greatest = 0, times[0], times[0]
    now, before = times[1:], times[:-1]  # slices, for through them the compiler sees that it may take several at once
    for i in range(len(now)):
        falls += now[i] < before[i]
        least = min(least, now[i])
        greatest = max(greatest, now[i])
    return falls, least, greatest


@kernel(f"void({_READ}, int64, int64[::1], int64[::1])")
def _copy_numbered(times: Column, first_row: int, copied_times: Column, rows: Column) -> None:
    for i in range(len(times)):
        copied_times[i] = times[i]
        rows[i] = first_row + i
