"""Holds rows of several sources until each source is complete past their times, and hands them out in order of time.

All rows wait in one sort. What lies before the furthest bound of all sources leaves it in order of time; of that, the
rows of sources that are not as far are put off, in blocks that are in order, and looked at again at every release.

Invariants: rows of a source go out in order of time, equal times as they came; so do all that go out together. Nothing
waits that lies before the bound of its source.
Cost: that of a sort; and for each release O(rows that are put off), which are those of sources that lag behind the
furthest. Each of them is merged O(log) times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.columns.row_store import RowStore, RowStoreState
from slackwater.kernels.sorting.impatience_sort import ImpatienceSorter, SorterState
from slackwater.kernels.sorting.pairs import Piece, concat, merge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slackwater.events.batch import Times

_SOURCE = pa.schema({"source": pa.int64()})


class Block(NamedTuple):
    """Rows in order of time, equal times as they came: their times, their numbers, and the places of their sources."""

    times: Times
    rows: Times
    sources: Times

    def picked(self, mask: NDArray[np.bool_]) -> Block:
        """Some of the rows."""
        at = np.flatnonzero(mask)
        return Block(*(column[at] for column in self))

    def merged(self, newer: Block) -> Block:
        """These rows and some that came later where times are equal."""
        first = len(self.times)
        places = [np.arange(first), np.arange(first, first + len(newer.times))]
        order = merge(Piece(self.times, places[0]), Piece(newer.times, places[1])).rows
        return Block(*(np.concatenate(both)[order] for both in zip(self, newer, strict=True)))


@dataclass(frozen=True)
class RowsBySourceState:
    """What is remembered: the times that wait in the sort, all rows and their sources, and the rows put off."""

    times: SorterState
    rows: RowStoreState
    sources: RowStoreState
    put_off: tuple[tuple[Times, ...], ...]
    waiting: Times


class RowsBySource:
    """Rows that wait for their own source.

    >>> held = RowsBySource(pa.schema({"x": pa.string()}))
    >>> held.add(np.array([3, 2, 5]), np.array([0, 1, 0]), pa.record_batch({"x": ["a", "b", "c"]}))
    >>> held.release(np.array([6, 0])), len(held)
    ((array([3, 5]), pyarrow.RecordBatch
    x: string
    ----
    x: ["a","c"]), 1)
    """

    __slots__ = ("_put_off", "_rows", "_sorter", "_sources", "peak", "waiting")

    def __init__(self, schema: pa.Schema, resume: RowsBySourceState | None = None) -> None:
        self._sorter = ImpatienceSorter(None if resume is None else resume.times)
        self._rows = RowStore(schema, None if resume is None else resume.rows)
        self._sources = RowStore(_SOURCE, None if resume is None else resume.sources)
        self._put_off = [] if resume is None else [Block(*columns) for columns in resume.put_off]
        self.waiting = np.zeros(0, dtype=np.int64) if resume is None else resume.waiting
        """How many rows wait of each source, by its place, up to the last that ever sent any."""
        self.peak = 0

    def __len__(self) -> int:
        return self._sorter.buffered + sum(len(block.times) for block in self._put_off)

    def add(self, times: Times, sources: Times, rows: pa.RecordBatch) -> None:
        """Hold rows, of sources that are given by their places."""
        self._sorter.add(times)
        self._rows.append(rows)
        self._sources.append(pa.RecordBatch.from_arrays([pa.array(sources)], schema=_SOURCE))
        self._count(np.bincount(sources))
        self.peak = max(self.peak, len(self))

    def release(self, bounds: Times) -> tuple[Times, pa.RecordBatch] | None:
        """Hand out all rows that lie before the bound of their source, which stands in its place; None for none."""
        due = [*self._due_of_put_off(bounds), *self._due_of_sorted(bounds)]
        if not due:
            return None
        together = due[0]
        for newer in due[1:]:
            together = together.merged(newer)
        self._count(-np.bincount(together.sources))
        return together.times, self._rows.take(together.rows)

    def _due_of_put_off(self, bounds: Times) -> Sequence[Block]:
        """Take what is due now of what was put off, the oldest block first."""
        due, left = [], []
        for block in self._put_off:
            is_due = block.times < bounds[block.sources]
            if is_due.any():
                due.append(block.picked(is_due))
                block = block.picked(~is_due)  # noqa: PLW2901 - what is left of it
            left += [block] if len(block.times) else []
        self._put_off = left
        return due

    def _due_of_sorted(self, bounds: Times) -> Sequence[Block]:
        """Take what lies before the furthest bound, and put off what is not due by its own."""
        pieces = self._sorter.release(int(bounds.max()))
        if not pieces:
            return ()
        times, numbers = concat(pieces)
        reached = Block(times, numbers, self._sources.take(numbers).column(0).to_numpy())
        is_due = times < bounds[reached.sources]
        if is_due.all():
            return (reached,)
        self._hold_on_to(reached.picked(~is_due))
        return (reached.picked(is_due),) if is_due.any() else ()

    def _count(self, more: Times) -> None:
        counts = np.zeros(max(len(self.waiting), len(more)), dtype=np.int64)
        counts[: len(self.waiting)] = self.waiting
        counts[: len(more)] += more
        self.waiting = counts

    def _hold_on_to(self, newest: Block) -> None:
        while self._put_off and len(self._put_off[-1].times) <= 2 * len(newest.times):
            newest = self._put_off.pop().merged(newest)
        self._put_off.append(newest)

    def snapshot(self) -> RowsBySourceState:
        """Return what is held. Cost: O(segments and blocks); no row is copied."""
        blocks = tuple(tuple(block) for block in self._put_off)
        rows, sources = self._rows.snapshot(), self._sources.snapshot()
        return RowsBySourceState(self._sorter.snapshot(), rows, sources, blocks, self.waiting)

    def check(self) -> None:
        """Assert the invariants."""
        self._sorter.check()
        assert len(self._rows) == len(self)
        assert len(self._sources) == self._sorter.buffered
        for block in self._put_off:
            in_order = list(zip(block.times.tolist(), block.rows.tolist(), strict=True))
            assert in_order == sorted(in_order), in_order
            assert len(in_order) > 0
        assert self.waiting.sum() == len(self), self.waiting
        assert (self.waiting >= 0).all(), self.waiting
