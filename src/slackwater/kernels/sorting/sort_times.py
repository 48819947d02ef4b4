"""Sorts a whole column of times at once, with the order of rows: the sort without punctuations.

Everything is there, so that less is needed than for a stream. A column of long natural runs is cut into slices of time,
and each slice is gathered from the runs and sorted in the cache. Any other is sorted block by block, in its place; the
events of a block that are older than the end of the block before are merged into it. Events that would reach too far
back are put aside and merged at the end; if they are many, there is no order to build on, and all is sorted whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.kernels.sorting.block_sort import BLOCK, BlockSorter
from slackwater.kernels.sorting.cell_sort import CellSorter, Unsorted
from slackwater.kernels.sorting.measure_disorder import count_runs
from slackwater.kernels.sorting.pairs import Piece, merge, room_for
from slackwater.kernels.sorting.stragglers import LONG_RUN, ends_of_long_runs, find_cuts

if TYPE_CHECKING:
    from slackwater.kernels.sorting.pairs import Column

_REACH: Final = 2 * BLOCK
"""How far back, in events, late ones of a block are merged in at once."""

_SLICE: Final = 2 * BLOCK
"""Events of a column of long runs that are sorted at once, about."""

_SAMPLED: Final = 256
"""One in so many times is looked at to find slices of about equal size."""

_SELDOM_LATE: Final = 1 / 16
"""The share of late events below which a column of long runs is nearly in order, and better sorted in blocks."""

_MANY: Final = 1 / 8
"""The share of events put aside beyond which a column has no order to build on."""

_GREATEST: Final = 2**63 - 1

_FROM_THE_FIRST: Final = np.zeros(1, dtype=np.int64)
"""The rows of a column that are numbered on from 0."""


def sort_times(times: Column) -> Piece:
    """Sort a column of times; return it in order, with the positions that the times had. Ties keep their order.

    >>> in_order = sort_times(np.array([3, 1, 3, 2]))
    >>> in_order.times.tolist(), in_order.rows.tolist()
    ([1, 2, 3, 3], [1, 3, 0, 2])
    """
    times = np.ascontiguousarray(times)
    beginning = times[:BLOCK]
    # Whether the whole column is worth a look is seen from its beginning.
    long = len(beginning) >= LONG_RUN and count_runs(beginning) * LONG_RUN <= len(beginning)
    if long and _often_late(times) and times.max() < _GREATEST and len(ends := ends_of_long_runs(times, LONG_RUN)):
        return _sort_runs(times, ends)
    return _sort_blocks(times)


def _often_late(times: Column) -> bool:
    """Whether many events are older than one long before them, as far as a sample shows."""
    sample = times[::_SAMPLED]
    return bool(np.count_nonzero(sample < np.maximum.accumulate(sample)) > _SELDOM_LATE * len(sample))


def _sort_runs(times: Column, ends: Column) -> Piece:
    """Merge natural runs, a slice of time after the other."""
    in_order, heads, at = room_for(len(times)), np.append(0, ends[:-1]), 0
    sorter = CellSorter()
    # Runs whose turn has come lie between those that are used up and those that begin later, as all after them do.
    least_from_here = np.minimum.accumulate(times[heads][::-1])[::-1]
    first, least = 0, int(least_from_here[0])
    bounds = np.unique(np.sort(times[::_SAMPLED])[_SLICE // _SAMPLED :: _SLICE // _SAMPLED]).tolist()
    for complete_before in (*bounds, int(times.max()) + 1):
        stop = int(np.searchsorted(least_from_here, complete_before))
        cuts = np.empty(stop - first, dtype=np.int64)
        due, greatest, _ = find_cuts(times, heads[first:stop], ends[first:stop], complete_before, cuts)
        if due:
            run_heads = Unsorted(times, _FROM_THE_FIRST, heads[first:stop], cuts, due)
            sorter.sort([run_heads], least, greatest, _part(in_order, at, at + due))
        heads[first:stop] = cuts
        while first < stop and heads[first] == ends[first]:
            first += 1
        least, at = complete_before, at + due
    return in_order


def _sort_blocks(times: Column) -> Piece:
    """Sort blocks, each in its place, and merge what is late for its place."""
    in_order, blocks, at = room_for(len(times)), BlockSorter(), 0
    aside: list[Unsorted] = []
    for first in range(0, len(times), BLOCK):
        block = times[first : first + BLOCK]
        room = _part(in_order, at, at + len(block))
        piece = blocks.sort(block, first, room)
        too_late = int(np.searchsorted(piece.times, in_order.times[max(at - _REACH, 0)])) if at else 0
        if too_late:
            apart, piece = piece.cut(too_late)
            aside.append(Unsorted.whole(apart.times.copy(), apart.rows.copy()))
            if first - at > _MANY * first:
                return _sort_together([Unsorted.whole(times, _FROM_THE_FIRST)], blocks.cells)
        if piece is not room:
            _put(piece, _part(in_order, at, at + len(piece.times)))
        _merge_seam(in_order, at, at + len(piece.times))
        at += len(piece.times)
    return merge(_part(in_order, 0, at), _sort_together(aside, blocks.cells)) if aside else in_order


def _sort_together(parts: list[Unsorted], sorter: CellSorter) -> Piece:
    """Sort whole columns, given in order of arrival, into one."""
    least = min(int(part.times.min()) for part in parts)
    greatest = max(int(part.times.max()) for part in parts)
    return sorter.sort(parts, least, greatest, room_for(sum(part.pairs for part in parts)))


def _merge_seam(in_order: Piece, seam: int, stop: int) -> None:
    """Put what lies before and after a seam, both in order, in order together; only what overlaps is moved."""
    if seam == 0 or in_order.times[seam - 1] <= in_order.times[seam]:
        return
    reach = max(seam - _REACH, 0)
    first = reach + int(np.searchsorted(in_order.times[reach:seam], in_order.times[seam], side="right"))
    last = seam + int(np.searchsorted(in_order.times[seam:stop], in_order.times[seam - 1]))
    _put(merge(_part(in_order, first, seam), _part(in_order, seam, last)), _part(in_order, first, last))


def _part(whole: Piece, first: int, stop: int) -> Piece:
    return Piece(whole.times[first:stop], whole.rows[first:stop])


def _put(piece: Piece, place: Piece) -> None:
    place.times[:] = piece.times
    place.rows[:] = piece.rows
