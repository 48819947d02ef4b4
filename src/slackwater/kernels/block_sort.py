"""Sorts blocks of events that fit into the processor's cache, each by what it is.

A block that is in order is left alone. Where most events are on time, the late ones are taken out, sorted and merged
back. Otherwise all are sorted. To sort is to pack time and position into one int64 and to call np.sort.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numba import int64, uint64

from slackwater.kernels.compile import kernel
from slackwater.kernels.pairs import KEY_BITS, Piece, Scratch, merge_into, unpacked

if TYPE_CHECKING:
    from slackwater.kernels.pairs import Column

BLOCK: Final = 65_536
"""Events sorted at once: keys and scratch of a block stay in a second-level cache of one or two megabytes."""

_POSITION_BITS: Final = 16
"""Enough for a position in a block."""

_MOST: Final = 2 / 3
"""Beyond this share of late events it costs less to sort a block whole than to take them out and merge them back."""

_WHOLE_BLOCKS: Final = 15
"""Blocks that are sorted whole after one of which most events were late."""

_READ = "Array(int64, 1, 'C', readonly=True)"


class BlockSorter:
    """Sorts one block after the other; scratch memory is kept from block to block."""

    __slots__ = ("_whole_blocks", "scratch")

    def __init__(self) -> None:
        self.scratch = Scratch(5)
        self._whole_blocks = 0

    @property
    def mostly_late(self) -> bool:
        """Whether most events of the last blocks were late, so that the next are likely to be, too."""
        return self._whole_blocks > 0

    def pass_by(self) -> None:
        """Note that a block went by unsorted: after some of them the next is tried again."""
        self._whole_blocks -= 1

    def sort(self, times: Column, first_row: int, room: Piece) -> Piece:
        """Sort a block into `room` and return that; a block that needs no room is returned as it is."""
        n = len(times)
        if self._whole_blocks:
            self._whole_blocks -= 1
            return self._sort_whole(times, first_row, room)
        early_times, early_rows, late_times, late_rows, keys = self.scratch.columns(n)
        early, least = _take_out_late(times, first_row, early_times, early_rows, keys)
        if early == n:
            return Piece(times, np.arange(first_row, first_row + n))
        if n - early > _MOST * n:
            # Blocks that follow each other are alike, so the next ones are not even tried.
            self._whole_blocks = _WHOLE_BLOCKS
            return self._sort_whole(times, first_row, room)
        if not _fits(int(least), int(early_times[early - 1])):
            return self._sort_whole(times, first_row, room)
        late_keys = keys[: n - early]
        late_keys.sort()
        late = Piece(late_times[: n - early], late_rows[: n - early])
        unpacked(late_keys, int(times[0]), first_row, _POSITION_BITS, late)
        merge_into(early_times[:early], early_rows[:early], *late, *room)
        return room

    def _sort_whole(self, times: Column, first_row: int, room: Piece) -> Piece:
        """Sort a block of which most events are late."""
        least = int(times.min())
        if not _fits(least, int(times.max())):
            order = np.argsort(times, kind="stable")
            return Piece(times[order], order + first_row)
        *_, keys = self.scratch.columns(len(times))
        _pack_positions(times, least, keys)
        keys.sort()
        return unpacked(keys, least, first_row, _POSITION_BITS, room)


def _fits(least: int, greatest: int) -> bool:
    """Whether a time between the two and a position in a block fit into one key."""
    return (greatest - least).bit_length() + _POSITION_BITS <= KEY_BITS


@kernel(f"UniTuple(int64, 2)({_READ}, int64, int64[::1], int64[::1], int64[::1])")
def _take_out_late(
    times: Column, first_row: int, early_times: Column, early_rows: Column, late_keys: Column
) -> tuple[np.int64, np.int64]:
    """Part a block into events as young as all before them, and keys of the others.

    Keys count time from the first event on. Return how many are early, and the least time.
    """
    one = uint64(1)
    early, late = uint64(0), uint64(0)
    base = high_water = least = times[0]
    for i in range(len(times)):
        time = times[i]
        is_late = uint64(time < high_water)
        # Both are written and one of them stays: no branch to guess wrong.
        early_times[early] = time
        early_rows[early] = first_row + i
        late_keys[late] = ((time - base) << _POSITION_BITS) | i
        early += one - is_late
        late += is_late
        high_water = max(high_water, time)
        least = min(least, time)
    return int64(early), int64(least)


@kernel(f"void({_READ}, int64, int64[::1])")
def _pack_positions(times: Column, least: int, keys: Column) -> None:
    for i in range(len(times)):
        keys[i] = ((times[i] - least) << _POSITION_BITS) | i
