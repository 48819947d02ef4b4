"""Events that were late for the main run of a sort: held block by block, cut at a bound, put in order when due.

A block is one stretch of ordered pairs, or several where its natural runs are long: those are put in order when they
go out, not when they come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.kernels.compile import kernel
from slackwater.kernels.sorting.cell_sort import Unsorted, sample_of
from slackwater.kernels.sorting.pairs import Piece, concat, merge, room_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from slackwater.kernels.sorting.cell_sort import CellSorter
    from slackwater.kernels.sorting.pairs import Column

LONG_RUN: Final = 256
"""Natural runs of so many events on average are kept as they are: to cut them costs less than to sort them."""

_SLICE: Final = 65_536
"""Stragglers sorted at once, about."""

_LOOKS: Final = 8_192
"""How many stragglers are looked at to find slices of about equal size."""

_GLANCE: Final = 512
"""Events that are looked at together for one that is older than the one before it."""

_BEGINNING: Final = -(2**63)
_FOREVER: Final = 2**63 - 1
_NO_TIMES: Final = np.empty(0, dtype=np.int64)

_READ = "Array(int64, 1, 'C', readonly=True)"


@dataclass(slots=True)
class Stragglers:
    """The late events of a block: stretches of ordered pairs, each waiting from its head up to its end."""

    times: Column
    rows: Column
    """The rows of the times; only the first, where they are numbered on from it."""

    heads: Column
    ends: Column
    least: int
    """The least time that waits."""

    waiting: int

    @classmethod
    def of(cls, piece: Piece) -> Stragglers:
        """One ordered stretch."""
        times, rows = piece
        heads, ends = np.zeros(1, dtype=np.int64), np.array([len(times)])
        return cls(times, rows, heads, ends, int(times[0]), len(times))

    @classmethod
    def in_long_runs(cls, times: Column, first_row: int) -> Stragglers | None:
        """A block as it came, if its natural runs are long; None if they are not."""
        ends = ends_of_long_runs(times, LONG_RUN)
        if not len(ends):
            return None
        return cls.restored(times, np.array([first_row]), np.append(0, ends[:-1]), ends)

    @classmethod
    def restored(cls, times: Column, rows: Column, heads: Column, ends: Column) -> Stragglers:
        """Stretches that wait from their heads on."""
        least = int(times[heads[heads < ends]].min())
        return cls(times, rows, heads, ends, least, int((ends - heads).sum()))

    @property
    def greatest(self) -> int:
        """The greatest time that waits."""
        if len(self.ends) == 1:
            return int(self.times[self.ends[0] - 1])
        return int(self.times[self.ends - 1].max())

    def cut(self, complete_before: int) -> tuple[Unsorted, int]:
        """Let go of all that is older than a bound; return it, and its greatest time."""
        cuts = np.empty_like(self.heads)
        due, greatest, least = find_cuts(self.times, self.heads, self.ends, complete_before, cuts)
        cut_off = Unsorted(self.times, self.rows, self.heads, cuts, due)
        # A new column of heads: the old one may be part of a state that was handed out.
        self.heads, self.least = cuts, least
        self.waiting -= due
        return cut_off, greatest


def joined(older: Stragglers, newer: Stragglers, sorter: CellSorter) -> Stragglers:
    """One stretch of all that waits in two blocks, of which the one came before the other."""
    if len(older.heads) == len(newer.heads) == 1:
        return Stragglers.of(merge(*(_only_stretch(block.cut(_FOREVER)[0]) for block in (older, newer))))
    return Stragglers.of(concat(take_due([older, newer], _FOREVER, sorter)))


def take_due(blocks: list[Stragglers], complete_before: int, sorter: CellSorter) -> list[Piece]:
    """Take from blocks, of which something is due, all that is older than a bound: pieces in order of time.

    Blocks are given in the order in which they came, and so are the stretches of a block: ties keep that order.
    """
    least = min(block.least for block in blocks)
    cuts, greatest = zip(*(block.cut(complete_before) for block in blocks), strict=True)
    if len(cuts) == 1 and len(cuts[0].heads) == 1:
        return [_only_stretch(cuts[0])]
    return [
        sorter.sort(parts, first, last, room_for(sum(part.pairs for part in parts)))
        for parts, first, last in _slices(cuts, least, max(greatest))
    ]


def _only_stretch(cut_off: Unsorted) -> Piece:
    """The pairs of a single stretch, without a copy."""
    (head,), (end,) = cut_off.heads.tolist(), cut_off.ends.tolist()
    numbered_on = len(cut_off.rows) < len(cut_off.times)
    first = int(cut_off.rows[0])
    return Piece(
        cut_off.times[head:end], np.arange(first + head, first + end) if numbered_on else cut_off.rows[head:end]
    )


def _slices(cuts: Sequence[Unsorted], least: int, greatest: int) -> Iterator[tuple[Sequence[Unsorted], int, int]]:
    """Part what was cut off into slices that can be sorted in the cache, each with its least and greatest time."""
    slices = sum(cut.pairs for cut in cuts) // _SLICE
    sample = sample_of(cuts, _LOOKS, least + 1, greatest) if slices > 1 else _NO_TIMES
    if not len(sample):
        yield cuts, least, greatest
        return
    bounds = np.unique(sample[np.arange(1, slices) * len(sample) // slices])
    edges = [least, *bounds.tolist(), greatest + 1]
    for number, parts in enumerate(zip(*(_parted(cut, bounds) for cut in cuts), strict=True)):
        yield [part for part in parts if part.pairs], edges[number], edges[number + 1] - 1


def _parted(cut_off: Unsorted, bounds: Column) -> list[Unsorted]:
    """Part stretches at bounds of time: what lies before each of them, and the rest."""
    times, rows, heads, ends, pairs = cut_off
    at = np.empty((len(bounds) + 2, len(heads)), dtype=np.int64)
    at[0], at[-1] = heads, ends
    parts = _find_slices(times, ends, bounds, at).tolist()
    parts.append(pairs - sum(parts))
    return [Unsorted(times, rows, at[part], at[part + 1], parts[part]) for part in range(len(parts))]


@kernel(f"int64[::1]({_READ}, int64)", makes_arrays=True)
def ends_of_long_runs(times: Column, long: int) -> Column:
    """Find where the natural runs end; nothing when they are not long, on average."""
    most = len(times) // long
    ends = np.empty(most, dtype=np.int64)
    runs = 0
    for first in range(1, len(times), _GLANCE):
        # Most glances see no fall. Slices, for through them the compiler sees that it may compare several at once.
        now, before = times[first : first + _GLANCE], times[first - 1 : first - 1 + _GLANCE]
        falls = 0
        for i in range(len(now)):
            falls += now[i] < before[i]
        if falls == 0:
            continue
        if runs + falls >= most:
            return ends[:0]
        for i in range(len(now)):
            if now[i] < before[i]:
                ends[runs] = first + i
                runs += 1
    if most:
        ends[runs] = len(times)
        runs += 1
    return ends[:runs]


@kernel(f"UniTuple(int64, 3)({_READ}, {_READ}, {_READ}, int64, int64[::1])")
def find_cuts(times: Column, heads: Column, ends: Column, complete_before: int, cuts: Column) -> tuple[int, int, int]:
    """Find where each stretch passes a bound.

    Return how many events lie before it, the greatest time of these, and the least time beyond it.
    """
    due, greatest, least = 0, _BEGINNING, _FOREVER
    for stretch in range(len(heads)):
        low, high = heads[stretch], ends[stretch]
        # Most stretches begin beyond the bound, or pass it soon: look near the head first.
        step = 1
        while low + step < high and times[low + step] < complete_before:
            low += step
            step *= 2
        high = min(high, low + step)
        while low < high:
            middle = (low + high) // 2
            if times[middle] < complete_before:
                low = middle + 1
            else:
                high = middle
        cuts[stretch] = low
        due += low - heads[stretch]
        if low > heads[stretch]:
            greatest = max(greatest, times[low - 1])
        if low < ends[stretch]:
            least = min(least, times[low])
    return due, greatest, least


@kernel(f"int64[::1]({_READ}, {_READ}, {_READ}, int64[:, ::1])", makes_arrays=True)
def _find_slices(times: Column, ends: Column, bounds: Column, at: Column) -> Column:
    """Find where each stretch passes each bound, from the heads in at[0] on; return how many events lie between."""
    due = np.empty(len(bounds), dtype=np.int64)
    for part in range(len(bounds)):
        due[part], _, _ = find_cuts(times, at[part], ends, bounds[part], at[part + 1])
    return due
