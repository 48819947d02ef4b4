"""Events that were late for the main run of a sort: held block by block, cut at a bound, put in order when due.

A block is one stretch of ordered pairs, or several where its natural runs are long: those are put in order when they
go out, not when they come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from slackwater.kernels.compile import kernel
from slackwater.kernels.pairs import KEY_BITS, KEY_ZERO, Piece, concat, merge, room_for, sort_keys, sort_pairs, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from slackwater.kernels.pairs import Column, Scratch

LONG_RUN: Final = 256
"""Natural runs of so many events on average are kept as they are: to cut them costs less than to sort them."""

_SLICE: Final = 262_144
"""Stragglers sorted at once, about."""

_SAMPLED: Final = 256
"""One in so many is looked at to find slices of about equal size."""

_GLANCE: Final = 512
"""Events that are looked at together for one that is older than the one before it."""

_FOREVER: Final = 2**63 - 1

_READ = "Array(int64, 1, 'C', readonly=True)"


@dataclass(slots=True)
class Stragglers:
    """The late events of a block: stretches of ordered pairs, each waiting from its head up to its end."""

    times: Column
    rows: Column
    """The rows of the times; only the first, where they are numbered on from it."""

    heads: Column
    ends: Column
    first_row: int
    last_row: int
    least: int
    """The least time that waits."""

    waiting: int

    @classmethod
    def of(cls, piece: Piece) -> Stragglers:
        """One ordered stretch."""
        times, rows = piece
        heads, ends = np.zeros(1, dtype=np.int64), np.array([len(times)])
        return cls(times, rows, heads, ends, int(rows.min()), int(rows.max()), int(times[0]), len(times))

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
        first_row = int(rows.min())
        last_row = int(rows.max()) if len(rows) == len(times) else first_row + len(times) - 1
        least = int(times[heads[heads < ends]].min())
        return cls(times, rows, heads, ends, first_row, last_row, least, int((ends - heads).sum()))

    @property
    def greatest(self) -> int:
        """The greatest time that waits."""
        if len(self.ends) == 1:
            return int(self.times[self.ends[0] - 1])
        return int(self.times[self.ends - 1].max())

    def cut(self, complete_before: int) -> Cut:
        """Let go of all that is older than a bound, and say where it lies."""
        cuts = np.empty_like(self.heads)
        due, least = find_cuts(self.times, self.heads, self.ends, complete_before, cuts)
        cut = Cut(self.times, self.rows, self.heads, cuts, due)
        # A new column of heads: the old one may be part of a state that was handed out.
        self.heads, self.least = cuts, least
        self.waiting -= due
        return cut


class Cut(NamedTuple):
    """What was cut off from the stretches of a block, each from its head to its cut."""

    times: Column
    rows: Column
    heads: Column
    cuts: Column
    due: int

    def pairs(self) -> Piece:
        """Stretch by stretch, one after the other; a single stretch without a copy."""
        numbered_on = len(self.rows) < len(self.times)
        rows = np.arange(self.rows[0], self.rows[0] + len(self.times)) if numbered_on else self.rows
        stretches = [slice(*bounds) for bounds in zip(self.heads.tolist(), self.cuts.tolist(), strict=True)]
        return concat([Piece(self.times[stretch], rows[stretch]) for stretch in stretches])

    def parted(self, bounds: Column) -> list[Cut]:
        """Part at bounds of time: one cut for what lies before each of them, and one for the rest."""
        at = np.empty((len(bounds) + 2, len(self.heads)), dtype=np.int64)
        at[0], at[-1] = self.heads, self.cuts
        due = _find_slices(self.times, self.cuts, bounds, at).tolist()
        due.append(self.due - sum(due))
        return [Cut(self.times, self.rows, at[part], at[part + 1], due[part]) for part in range(len(due))]


def joined(older: Stragglers, newer: Stragglers, scratch: Scratch) -> Stragglers:
    """One stretch of all that waits in two blocks, of which the one came before the other."""
    if len(older.heads) == len(newer.heads) == 1:
        return Stragglers.of(merge(*(block.cut(_FOREVER).pairs() for block in (older, newer))))
    return Stragglers.of(concat(take_due([older, newer], _FOREVER, scratch)))


def take_due(blocks: list[Stragglers], complete_before: int, scratch: Scratch) -> list[Piece]:
    """Take from blocks, of which something is due, all that is older than a bound: pieces in order of time."""
    least = min(block.least for block in blocks)
    cuts = [block.cut(complete_before) for block in blocks]
    if len(cuts) == 1 and len(cuts[0].heads) == 1:
        return [cuts[0].pairs()]
    first_row = min(block.first_row for block in blocks)
    row_bits = (max(block.last_row for block in blocks) - first_row).bit_length()
    greatest = max(int(cut.times[cut.cuts - 1].max()) for cut in cuts)
    if (greatest - least).bit_length() + row_bits > KEY_BITS:
        return [sort_pairs(*concat([cut.pairs() for cut in cuts]))]
    pieces = []
    for part in _slices(cuts, greatest):
        (keys,) = scratch.columns(sum(cut.due for cut in part))
        _pack(part, least, first_row, row_bits, keys)
        sort_keys(keys)
        pieces.append(unpacked(keys, least, first_row, row_bits, room_for(len(keys))))
    return pieces


def _slices(cuts: list[Cut], greatest: int) -> Iterable[Sequence[Cut]]:
    """Part what was cut off, up to its greatest time, into slices of time that can be sorted in the cache."""
    if sum(cut.due for cut in cuts) <= 2 * _SLICE:
        return [cuts]
    sample = np.concatenate([cut.times[int(cut.heads[0]) : int(cut.cuts[-1]) : _SAMPLED] for cut in cuts])
    sample = np.sort(sample[sample <= greatest])
    bounds = np.unique(sample[_SLICE // _SAMPLED :: _SLICE // _SAMPLED])
    return zip(*(cut.parted(bounds) for cut in cuts), strict=True)


def _pack(cuts: Sequence[Cut], least: int, first_row: int, row_bits: int, keys: Column) -> None:
    at = 0
    for cut in cuts:
        if not cut.due:
            continue
        _pack_stretches(cut.times, cut.rows, cut.heads, cut.cuts, least, first_row, row_bits, keys[at : at + cut.due])
        at += cut.due


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


@kernel(f"UniTuple(int64, 2)({_READ}, {_READ}, {_READ}, int64, int64[::1])")
def find_cuts(times: Column, heads: Column, ends: Column, complete_before: int, cuts: Column) -> tuple[int, int]:
    """Find where each stretch passes a bound; return how many events lie before it, and the least time beyond it."""
    due, least = 0, _FOREVER
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
        if low < ends[stretch]:
            least = min(least, times[low])
    return due, least


@kernel(f"int64[::1]({_READ}, {_READ}, {_READ}, int64[:, ::1])", makes_arrays=True)
def _find_slices(times: Column, ends: Column, bounds: Column, at: Column) -> Column:
    """Find where each stretch passes each bound, from the heads in at[0] on; return how many events lie between."""
    due = np.empty(len(bounds), dtype=np.int64)
    for part in range(len(bounds)):
        due[part], _ = find_cuts(times, at[part], ends, bounds[part], at[part + 1])
    return due


@kernel(f"void({', '.join([_READ] * 4)}, int64, int64, int64, int64[::1])")
def _pack_stretches(
    times: Column, rows: Column, heads: Column, cuts: Column, least: int, first_row: int, row_bits: int, keys: Column
) -> None:
    """Pack the pairs of all stretches, from their heads to their cuts, into keys."""
    at, zero = 0, least - (KEY_ZERO >> row_bits)
    numbered_on = len(rows) < len(times)
    for stretch in range(len(heads)):
        head, cut = heads[stretch], cuts[stretch]
        due, packed = times[head:cut], keys[at : at + cut - head]
        if numbered_on:
            row = rows[0] + head - first_row
            for i in range(len(due)):
                packed[i] = ((due[i] - zero) << row_bits) | (row + i)
        else:
            numbers = rows[head:cut]
            for i in range(len(due)):
                packed[i] = ((due[i] - zero) << row_bits) | (numbers[i] - first_row)
        at += cut - head
