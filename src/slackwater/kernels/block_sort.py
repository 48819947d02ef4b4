"""Sorts blocks of events that fit into the processor's cache, each by what it is.

A block that is in order is left alone. Where most events are on time, the late ones are taken out, sorted and merged
back. Otherwise all are sorted. To sort is to pack time and position into one key and to call np.sort.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numba import int64, uint64

from slackwater.kernels.compile import kernel
from slackwater.kernels.pairs import KEY_BITS, KEY_ZERO, Piece, Scratch, merge_into, sort_keys, unpacked

if TYPE_CHECKING:
    from slackwater.kernels.pairs import Column

BLOCK: Final = 65_536
"""Events sorted at once: keys and scratch of a block stay in a second-level cache of one or two megabytes."""

_POSITION_BITS: Final = 16
"""Enough for a position in a block."""

_POSITIONS: Final = (1 << _POSITION_BITS) - 1
"""The bits of a key that tell the position."""

_NEAR: Final = 1 << 44
"""Times that are less than this away from the first of a block can be packed into keys that count from it."""

_MOST: Final = 2 / 3
"""Beyond this share of late events it costs less to sort a block whole than to take them out and merge them back."""

_WHOLE_BLOCKS: Final = 15
"""Blocks that are sorted whole after one of which most events were late."""

_READ = "Array(int64, 1, 'C', readonly=True)"


class BlockSorter:
    """Sorts one block after the other; scratch memory is kept from block to block."""

    __slots__ = ("_whole_blocks", "scratch")

    def __init__(self) -> None:
        self.scratch = Scratch(2)
        self._whole_blocks = 0

    def sort(self, times: Column, first_row: int, room: Piece) -> Piece:
        """Sort a block into `room` and return that; a block that needs no room is returned as it is."""
        n = len(times)
        if self._whole_blocks:
            self._whole_blocks -= 1
            return self._sort_whole(times, first_row, room)
        early_keys, late_keys = self.scratch.columns(n)
        early, least, greatest = _take_out_late(times, early_keys, late_keys)
        if early == n:
            return Piece(times, np.arange(first_row, first_row + n))
        if n - early > _MOST * n:
            # Blocks that follow each other are alike, so the next ones are not even tried.
            self._whole_blocks = _WHOLE_BLOCKS
            return self._sort_whole(times, first_row, room)
        early_keys, late_keys, first = early_keys[:early], late_keys[: n - early], int(times[0])
        if max(first - int(least), int(greatest) - first) < _NEAR:
            sort_keys(late_keys)
            _merge_keys(early_keys, late_keys, first, first_row, *room)
        else:
            on_time, late = early_keys & _POSITIONS, late_keys & _POSITIONS
            late = late[np.argsort(times[late], kind="stable")]
            merge_into(times[on_time], on_time + first_row, times[late], late + first_row, *room)
        return room

    def _sort_whole(self, times: Column, first_row: int, room: Piece) -> Piece:
        """Sort a block of which most events are late."""
        least = int(times.min())
        if (int(times.max()) - least).bit_length() + _POSITION_BITS > KEY_BITS:
            order = np.argsort(times, kind="stable")
            return Piece(times[order], order + first_row)
        keys, _ = self.scratch.columns(len(times))
        _pack_positions(times, least, keys)
        sort_keys(keys)
        return unpacked(keys, least, first_row, _POSITION_BITS, room)


@kernel(f"UniTuple(int64, 3)({_READ}, int64[::1], int64[::1])")
def _take_out_late(times: Column, early_keys: Column, late_keys: Column) -> tuple[np.int64, np.int64, np.int64]:
    """Part a block into the keys of events as young as all before them, and those of the others.

    Keys count time from the first event on. Return how many are early, the least and the greatest time.
    """
    one = uint64(1)
    early, late = uint64(0), uint64(0)
    zero = times[0] - (KEY_ZERO >> _POSITION_BITS)
    high_water = least = times[0]
    for i in range(len(times)):
        time = times[i]
        key = ((time - zero) << _POSITION_BITS) | i
        is_late = uint64(time < high_water)
        # Both are written and one of them stays: no branch to guess wrong.
        early_keys[early] = key
        late_keys[late] = key
        early += one - is_late
        late += is_late
        high_water = max(high_water, time)
        least = min(least, time)
    return int64(early), int64(least), int64(high_water)


@kernel(f"void({_READ}, {_READ}, int64, int64, int64[::1], int64[::1])")
def _merge_keys(early: Column, late: Column, first: int, first_row: int, times: Column, rows: Column) -> None:
    """Merge two columns of keys, counted from the first time on, and take them apart.

    It runs from both ends at once, as pairs.merge_into does.
    """
    one = uint64(1)
    zero = first - (KEY_ZERO >> _POSITION_BITS)
    front_a, front_b, front = uint64(0), uint64(0), uint64(0)
    back_a, back_b, back = uint64(len(early) - 1), uint64(len(late) - 1), uint64(len(times) - 1)
    while True:
        # While both inputs hold more than the steps to come can use, no bound needs testing.
        steps = (min(int64(back_a) - int64(front_a), int64(back_b) - int64(front_b)) + 1) // 2
        if steps == 0:
            break
        for _ in range(steps):
            key_a, key_b = early[front_a], late[front_b]
            is_b = key_b < key_a
            key = key_b if is_b else key_a
            times[front] = zero + (key >> _POSITION_BITS)
            rows[front] = first_row + (key & _POSITIONS)
            taken = uint64(is_b)
            front_b += taken
            front_a += one - taken
            front += one
            key_a, key_b = early[back_a], late[back_b]
            is_b = key_b > key_a
            key = key_b if is_b else key_a
            times[back] = zero + (key >> _POSITION_BITS)
            rows[back] = first_row + (key & _POSITIONS)
            taken = uint64(is_b)
            back_b -= taken
            back_a -= one - taken
            back -= one
    at_a, stop_a, at_b, stop_b = int64(front_a), int64(back_a) + 1, int64(front_b), int64(back_b) + 1
    for at in range(int64(front), int64(back) + 1):
        if at_a == stop_a or (at_b < stop_b and late[at_b] < early[at_a]):
            key = late[at_b]
            at_b += 1
        else:
            key = early[at_a]
            at_a += 1
        times[at] = zero + (key >> _POSITION_BITS)
        rows[at] = first_row + (key & _POSITIONS)


@kernel(f"void({_READ}, int64, int64[::1])")
def _pack_positions(times: Column, least: int, keys: Column) -> None:
    zero = least - (KEY_ZERO >> _POSITION_BITS)
    for i in range(len(times)):
        keys[i] = ((times[i] - zero) << _POSITION_BITS) | i
