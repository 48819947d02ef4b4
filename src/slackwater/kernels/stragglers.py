"""Events that were late for the main run of a sort: held block by block, cut at a bound, put in order when due.

A block is one stretch of ordered pairs, or several where its natural runs are long: those are put in order when they
go out, not when they come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from slackwater.kernels.compile import kernel
from slackwater.kernels.pairs import Piece, sort_pairs

if TYPE_CHECKING:
    from slackwater.kernels.pairs import Column

_FOREVER: Final = 2**63 - 1

_READ = "Array(int64, 1, 'C', readonly=True)"


class Cuts(NamedTuple):
    """Where the stretches of a block pass a bound, how many events lie before it, and the least time beyond it."""

    at: Column
    due: int
    least: int


@dataclass(slots=True)
class Stragglers:
    """The late events of a block: stretches of ordered pairs, each waiting from its head up to its end."""

    times: Column
    rows: Column
    heads: Column
    ends: Column
    least: int
    """The least time that waits."""

    waiting: int

    @classmethod
    def of(cls, piece: Piece) -> Stragglers:
        """One ordered stretch."""
        heads, ends = np.zeros(1, dtype=np.int64), np.array([len(piece.times)])
        return cls(*piece, heads, ends, int(piece.times[0]), len(piece.times))

    @classmethod
    def restored(cls, times: Column, rows: Column, heads: Column, ends: Column) -> Stragglers:
        """Of a state."""
        waits = heads < ends
        return cls(times, rows, heads, ends, int(times[heads[waits]].min()), int((ends - heads).sum()))

    @property
    def in_order(self) -> bool:
        """Whether this is one stretch."""
        return len(self.heads) == 1

    def find_cuts(self, complete_before: int) -> Cuts:
        """Find where each stretch passes a bound."""
        at = np.empty_like(self.heads)
        due, least = _find_cuts(self.times, self.heads, self.ends, complete_before, at)
        return Cuts(at, due, least)

    def take(self, cuts: Cuts, times: Column, rows: Column) -> None:
        """Copy what lies before the cuts, stretch by stretch, and let it go."""
        _copy_stretches(self.times, self.rows, self.heads, cuts.at, times, rows)
        self._let_go(cuts)

    def take_stretch(self, cuts: Cuts) -> Piece:
        """Take what lies before the cut of the one stretch; nothing is copied."""
        taken = slice(int(self.heads[0]), int(cuts.at[0]))
        self._let_go(cuts)
        return Piece(self.times[taken], self.rows[taken])

    def _let_go(self, cuts: Cuts) -> None:
        # A new column of heads: the old one may be part of a state that was handed out.
        self.heads, self.least = cuts.at, cuts.least
        self.waiting -= cuts.due


def take_due(blocks: list[Stragglers], complete_before: int) -> Piece:
    """Take from blocks all that is older than a bound, in order."""
    cuts = [block.find_cuts(complete_before) for block in blocks]
    if len(blocks) == 1 and blocks[0].in_order:
        return blocks[0].take_stretch(cuts[0])
    times, rows = np.empty((2, sum(cut.due for cut in cuts)), dtype=np.int64)
    at = 0
    for block, cut in zip(blocks, cuts, strict=True):
        block.take(cut, times[at : at + cut.due], rows[at : at + cut.due])
        at += cut.due
    return sort_pairs(times, rows)


@kernel(f"UniTuple(int64, 2)({_READ}, {_READ}, {_READ}, int64, int64[::1])")
def _find_cuts(times: Column, heads: Column, ends: Column, complete_before: int, cuts: Column) -> tuple[int, int]:
    """Find where each stretch passes a bound; return how many events lie before it, and the least time beyond it."""
    due, least = 0, _FOREVER
    for stretch in range(len(heads)):
        low, high = heads[stretch], ends[stretch]
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


@kernel(f"void({', '.join([_READ] * 4)}, int64[::1], int64[::1])")
def _copy_stretches(
    times: Column, rows: Column, heads: Column, cuts: Column, due_times: Column, due_rows: Column
) -> None:
    at = 0
    for stretch in range(len(heads)):
        for i in range(heads[stretch], cuts[stretch]):
            due_times[at] = times[i]
            due_rows[at] = rows[i]
            at += 1
