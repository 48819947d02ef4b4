"""Rows that were spilled, in blocks: each in order of time, read when its first is due, forgotten with its last.

Of a block only its least and its greatest time stay in memory. Blocks may overlap in time in any way; what is due
comes in parts, a part of each block, to be merged by who asked for it. Where much is due at once it comes in several
steps, so that only a few blocks are opened in each.

Of rows of one time those of an earlier block came earlier: who spills, spills all there is.

Cost: O(blocks) for each step; a block is written once, and read once by each process that has to do with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.columns.row_store import RowStore
from slackwater.kernels.sorting.sort_times import sort_times

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from slackwater.columns.spillway import SpilledRows, Spillway
    from slackwater.kernels.sorting.pairs import Column
    from slackwater.progress.instants import Instant

_TIME: Final = pa.field("", pa.int64())
"""The column behind those of the rows."""

_OPENED_AT_ONCE: Final = 4
"""Blocks that are opened in one step."""

_LARGER: Final = 5 / 4
"""Blocks that are larger by so much than they should be are parted once more, unless that makes all as much larger."""


@dataclass(frozen=True)
class SpilledBlock:
    """Rows in order of time, of which the first have been taken."""

    rows: SpilledRows
    """With their times, in the last column."""

    count: int
    least: Instant
    """The least time of those that wait."""

    greatest: Instant
    taken: int = 0


class TimedRows(NamedTuple):
    """Rows, with their times."""

    times: Column
    rows: pa.RecordBatch


class Due(NamedTuple):
    """What one step takes out of blocks."""

    parts: list[TimedRows]
    """Each in order of time; of rows of one time those of an earlier part go first."""

    complete_before: Instant
    """Nothing older waits in any block: rows of other places that are older may go along, behind those of blocks."""

    more: bool
    """Whether more is due, and another step wanted."""


class SpilledBlocks:
    """Blocks that wait, in the order in which they were spilled."""

    __slots__ = ("_blocks", "_schema")

    def __init__(self, schema: pa.Schema, resume: tuple[SpilledBlock, ...] = ()) -> None:
        self._schema = schema
        self._blocks = list(resume)

    def __len__(self) -> int:
        return sum(block.count - block.taken for block in self._blocks)

    def put(self, part: TimedRows, spillway: Spillway) -> None:
        """Spill rows that are in order of time; as several blocks where they are larger than one should be."""
        for times, rows in _in_blocks(part, spillway.block_bytes):
            columns = [*rows.columns, pa.array(times)]
            stored = pa.RecordBatch.from_arrays(columns, schema=self._schema.append(_TIME))
            spilled = spillway.put(stored)
            self._blocks.append(SpilledBlock(spilled, len(times), int(times[0]), int(times[-1])))

    def due(self, complete_before: Instant) -> bool:
        """Whether anything is older than a bound."""
        return any(block.least < complete_before for block in self._blocks)

    def take(self, complete_before: Instant) -> Due:
        """Take what is older than a bound, or as much of it as is in a few blocks more than are open already.

        Steps end at an event, not at a time: there may be more of one time than memory holds.
        """
        due = [(block.least, number) for number, block in enumerate(self._blocks) if block.least < complete_before]
        unopened = sorted(place for place in due if not self._blocks[place[1]].taken)
        if len(unopened) <= _OPENED_AT_ONCE:
            return Due(self._taken(due, complete_before, 0), complete_before, more=False)
        stop, before = unopened[_OPENED_AT_ONCE]
        here = [place for place in due if place < (stop, before)]
        return Due(self._taken(here, stop, before), stop, more=True)

    def _taken(self, places: Sequence[tuple[Instant, int]], stop: Instant, before: int) -> list[TimedRows]:
        """Take rows that are older than an instant, and rows of that instant of blocks before a number."""
        parts = []
        for number in sorted(number for _, number in places):
            block = self._blocks[number]
            rows = block.rows.read()
            times = rows.column(rows.num_columns - 1).to_numpy()
            end = int(times.searchsorted(stop, side="right" if number < before else "left"))
            left = rows.slice(block.taken, end - block.taken)
            parts.append(TimedRows(times[block.taken : end], left.select(range(left.num_columns - 1))))
            least = int(times[end]) if end < block.count else block.greatest
            self._blocks[number] = replace(block, taken=end, least=least)
            if end == block.count:  # states of before have the block, too, but nobody reads it there
                block.rows.let_go()
        self._blocks = [block for block in self._blocks if block.taken < block.count]
        return parts

    def snapshot(self) -> tuple[SpilledBlock, ...]:
        """Return what waits. Cost: O(blocks); no row is copied."""
        return tuple(self._blocks)

    def check(self) -> None:
        """Assert the invariants. It reads all blocks, and keeps none of them that was not in memory before."""
        for block in self._blocks:
            was_in_memory = block.rows.in_memory is not None
            rows = block.rows.read()
            if not was_in_memory:
                block.rows.let_go()
            times = rows.column(rows.num_columns - 1).to_numpy()
            assert len(times) == block.count > block.taken
            assert (times[1:] >= times[:-1]).all()
            assert (block.least, block.greatest) == (times[block.taken], times[-1])


def in_order(schema: pa.Schema, parts: Sequence[TimedRows]) -> TimedRows:
    """Put parts, each in order of time, in order together; of rows of one time those of an earlier part go first.

    >>> schema = pa.schema({"x": pa.string()})
    >>> parts = [TimedRows(np.array([1, 3]), pa.record_batch({"x": ["a", "b"]}))]
    >>> parts += [TimedRows(np.array([1, 2]), pa.record_batch({"x": ["c", "d"]}))]
    >>> in_order(schema, parts).rows.to_pydict()
    {'x': ['a', 'c', 'd', 'b']}
    """
    if len(parts) == 1:
        return parts[0]
    rows = RowStore(schema)
    for part in parts:
        rows.append(part.rows)
    sorted_times = sort_times(np.concatenate([part.times for part in parts]))
    return TimedRows(sorted_times.times, rows.take(sorted_times.rows))


def _in_blocks(part: TimedRows, block_bytes: int) -> Iterator[TimedRows]:
    """Halve rows until they are small, or halves hardly smaller: a dictionary goes with each."""
    half = len(part.times) // 2
    halves = [
        TimedRows(part.times[at], part.rows.slice(at.start, at.stop)) for at in (slice(0, half), slice(half, None))
    ]
    enough = part.rows.nbytes + part.times.nbytes <= _LARGER * block_bytes
    if enough or half == 0 or sum(one.rows.nbytes for one in halves) > _LARGER * part.rows.nbytes:
        yield part
        return
    for one in halves:
        yield from _in_blocks(one, block_bytes)
