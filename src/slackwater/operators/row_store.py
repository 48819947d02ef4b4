"""Holds rows in the segments in which they arrived, until they are taken by number, each once.

Rows are numbered from 0 on, as they come. A segment is forgotten when its last row has been taken; one that is small
is put together with its neighbour, so that there are few. Columns of a fixed width without nulls are gathered straight
from where they lie; others are first taken segment by segment.

Cost: appending copies nothing but small segments, O(log) times each; taking is O(rows taken) and O(segments).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from slackwater.events.gather import gather, gather_column, no_columns, no_rows
from slackwater.kernels.gather_segments import WIDTHS, gather_segments, locate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slackwater.kernels.gather_segments import Places

_SMALL: Final = 65_536
"""Segments of fewer rows are worth putting together."""

_GOING: Final = _SMALL // 8
"""Segments of so many rows, of which most are taken, will be gone soon: they are not copied once more."""

_MOSTLY_TAKEN: Final = 4
"""Most rows of a segment are taken when less than one in so many is left."""

_NO_ADDRESS: Final = 0
"""For columns that must be asked by Arrow."""


@dataclass(frozen=True)
class Segment:
    """Rows that arrived together; `left` of them have not been taken."""

    first: int
    rows: pa.RecordBatch
    left: int
    addresses: tuple[int, ...]

    @classmethod
    def of(cls, first: int, rows: pa.RecordBatch, left: int) -> Segment:
        """Look up where the columns lie."""
        return cls(first, rows, left, tuple(_address(column) for column in rows.columns))

    @property
    def stop(self) -> int:
        """The number after its last row."""
        return self.first + int(self.rows.num_rows)


@dataclass(frozen=True)
class RowStoreState:
    """What a store remembers: number of the first row, rows and how many are left, of each segment."""

    segments: tuple[tuple[int, pa.RecordBatch, int], ...]
    next: int
    """The number of the next row to come."""


class RowStore:
    """Rows by number.

    >>> store = RowStore(pa.schema({"x": pa.string()}))
    >>> store.append(pa.record_batch({"x": ["a", "b", "c"]}))
    >>> store.take(np.array([2, 0])).to_pydict(), len(store)
    ({'x': ['c', 'a']}, 1)
    """

    __slots__ = ("_next", "_schema", "_segments")

    def __init__(self, schema: pa.Schema, resume: RowStoreState | None = None) -> None:
        self._schema = schema
        self._segments = [Segment.of(*segment) for segment in resume.segments] if resume else []
        self._next = resume.next if resume else 0

    def __len__(self) -> int:
        return sum(segment.left for segment in self._segments)

    def append(self, rows: pa.RecordBatch) -> None:
        """Take in the next rows."""
        if not rows.num_rows:
            return
        newest = Segment.of(self._next, rows, rows.num_rows)
        self._next = newest.stop
        while self._segments and _better_together(self._segments[-1], newest):
            older = self._segments.pop()
            both = pa.concat_batches([older.rows, newest.rows])
            newest = Segment.of(older.first, both, older.left + newest.left)
        self._segments.append(newest)

    def take(self, rows: NDArray[np.int64]) -> pa.RecordBatch:
        """Hand over rows by number, in the order asked for; they are forgotten here."""
        if not len(rows):
            return no_rows(self._schema)
        places = self._places(rows)
        taken = self._gathered(places)
        self._let_go(places)
        return taken

    def discard(self, rows: NDArray[np.int64]) -> None:
        """Forget rows by number, in any order, without looking at them."""
        if len(rows):
            self._let_go(self._places(rows))

    def _places(self, rows: NDArray[np.int64]) -> Places:
        return locate(rows, np.array([*(held.first for held in self._segments), self._next]))

    def _let_go(self, places: Places) -> None:
        self._segments = [
            replace(held, left=held.left - count) if count else held
            for held, count in zip(self._segments, places.counts.tolist(), strict=True)
            if held.left > count
        ]

    def _gathered(self, places: Places) -> pa.RecordBatch:
        rows = len(places.place)
        fullest = int(places.counts.argmax())
        if places.counts[fullest] == rows:
            return _rows_of(self._segments[fullest].rows, places.place)
        if not len(self._schema):
            return no_columns(rows)
        scattered = _Scattered(places)
        columns = []
        for i, field in enumerate(self._schema):
            addresses = [held.addresses[i] for held in self._segments]
            if _NO_ADDRESS in addresses:
                columns.append(scattered.gather([held.rows.column(i) for held in self._segments]))
                continue
            values = gather_segments(np.array(addresses, dtype=np.uint64), places, field.type.bit_width)
            columns.append(pa.Array.from_buffers(field.type, rows, [None, pa.py_buffer(values)]))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def snapshot(self) -> RowStoreState:
        """Return what is held. Cost: O(segments); no row is copied."""
        return RowStoreState(tuple((held.first, held.rows, held.left) for held in self._segments), self._next)


class _Scattered:
    """Rows that lie in several segments, for columns that only Arrow can gather: segment by segment, then in order."""

    def __init__(self, places: Places) -> None:
        self._places = places

    @cached_property
    def _by_segment(self) -> NDArray[np.int64]:
        return np.argsort(self._places.segment, kind="stable")

    @cached_property
    def _back(self) -> pa.Array:
        back = np.empty_like(self._by_segment)
        back[self._by_segment] = np.arange(len(back))
        return pa.array(back)

    def gather(self, column: Sequence[pa.Array]) -> pa.Array:
        """Gather the rows of one column, given by its segments."""
        stops = np.cumsum(self._places.counts)
        places = np.split(self._places.place[self._by_segment], stops[:-1])
        parts = [gather_column([part], pa.array(at)) for part, at in zip(column, places, strict=True) if len(at)]
        return gather_column(parts, self._back)


def _rows_of(rows: pa.RecordBatch, place: NDArray[np.int64]) -> pa.RecordBatch:
    """Rows of one segment; without a copy when they follow each other."""
    first, last = int(place[0]), int(place[-1])
    if last - first + 1 == len(place) and (place[1:] > place[:-1]).all():
        return rows.slice(first, len(place))
    return gather(rows, place)


def _better_together(older: Segment, newer: Segment) -> bool:
    follow = older.first + older.rows.num_rows == newer.first
    n, m = older.rows.num_rows, newer.rows.num_rows
    going = n >= _GOING and older.left * _MOSTLY_TAKEN < n
    return follow and n + m <= _SMALL and n <= 2 * m and not going


def _address(column: pa.Array) -> int:
    """Where the values of a column lie, if they have a fixed width and none is null."""
    kind = column.type
    if column.null_count or not pa.types.is_primitive(kind) or kind.bit_width not in WIDTHS:
        return _NO_ADDRESS
    return int(column.buffers()[1].address) + column.offset * kind.bit_width // 8
