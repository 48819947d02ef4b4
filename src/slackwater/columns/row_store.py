"""Holds rows in the segments in which they arrived, until they are taken by number, each once.

Rows are numbered from 0 on, as they come. A segment is forgotten when its last row has been taken; one that is small
is put together with its neighbour, so that there are few. Columns of a fixed width without nulls are gathered straight
from where they lie; others are first taken segment by segment.

Cost: appending copies nothing but small segments, O(log) times each; taking is O(rows taken) and O(segments).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from slackwater.events.gather import concat_columns, gather_column, no_columns, no_rows
from slackwater.kernels.columns.gather_segments import WIDTHS, gather_segments, locate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slackwater.kernels.columns.gather_segments import Places

_SMALL: Final = 65_536
"""Segments of fewer rows are worth putting together."""

_SMALL_BYTES: Final = 4 << 20
"""Segments of more bytes are large, however few rows they have: what is stored of them is moved as a whole."""

_GOING: Final = _SMALL // 8
"""Segments of so many rows, of which most are taken, will be gone soon: they are not copied once more."""

_MOSTLY_TAKEN: Final = 4
"""Most rows of a segment are taken when less than one in so many is left."""

_LONG_STRETCH: Final = 256
"""Rows of one segment after each other, on average, from which on Arrow is better asked for each stretch."""

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

    @property
    def nbytes(self) -> int:
        """The bytes of all segments: of rows that were taken, too, as long as others wait beside them."""
        return sum(segment.rows.nbytes for segment in self._segments)

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
        if len(places.segments) == 1 and _follow_each_other(places.rows):
            held = self._segments[int(places.segments[0])]
            return held.rows.slice(int(places.rows[0]) - held.first, len(places.rows))
        if not len(self._schema):
            return no_columns(len(places.rows))
        scattered = _Scattered(places)
        columns = [self._column(i, places, scattered) for i in range(len(self._schema))]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, i: int, places: Places, scattered: _Scattered) -> pa.Array:
        """The rows of one column: straight from memory where they are fixed values there, or as Arrow gathers them."""
        addresses, kind = [held.addresses[i] for held in self._segments], self._schema.field(i).type
        parts = [held.rows.column(i) for held in self._segments]
        words = _dictionary_of_all(parts) if pa.types.is_dictionary(kind) else None
        if _NO_ADDRESS in addresses or (pa.types.is_dictionary(kind) and words is None):
            return scattered.gather(parts)
        value = kind if words is None else kind.index_type
        gathered = np.empty(len(places.rows), dtype=f"int{value.bit_width}")
        gather_segments(np.array(addresses, dtype=np.uint64), places, gathered)
        values = pa.Array.from_buffers(value, len(gathered), [None, pa.py_buffer(gathered)])
        return values if words is None else pa.DictionaryArray.from_arrays(values, words, ordered=kind.ordered)

    def snapshot(self) -> RowStoreState:
        """Return what is held. Cost: O(segments); no row is copied."""
        return RowStoreState(tuple((held.first, held.rows, held.left) for held in self._segments), self._next)


class _Scattered:
    """Rows that lie in several segments, for columns that only Arrow can gather.

    Stretch by stretch, if these are long; otherwise segment by segment, and then in order.
    """

    def __init__(self, places: Places) -> None:
        self._places = places

    @cached_property
    def _in_segments(self) -> list[tuple[int, pa.Array]]:
        """Segments, and places there, in the order in which they are taken."""
        rows, begins, segments, firsts, counts = self._places
        if self._long_stretches:
            stretches = zip(segments.tolist(), pairwise(begins.tolist()), strict=True)
            return [(segment, pa.array(rows[begin:stop] - firsts[segment])) for segment, (begin, stop) in stretches]
        each = np.split(rows[self._by_segment], np.cumsum(counts)[:-1])
        return [(segment, pa.array(of - firsts[segment])) for segment, of in enumerate(each) if len(of)]

    @property
    def _long_stretches(self) -> bool:
        return len(self._places.segments) * _LONG_STRETCH <= len(self._places.rows)

    @cached_property
    def _by_segment(self) -> NDArray[np.int64]:
        segment = np.repeat(self._places.segments, np.diff(self._places.begins))
        return np.argsort(segment, kind="stable")

    @cached_property
    def _back(self) -> pa.Array:
        back = np.empty_like(self._by_segment)
        back[self._by_segment] = np.arange(len(back))
        return pa.array(back)

    def gather(self, column: Sequence[pa.Array]) -> pa.Array:
        """Gather the rows of one column, given by its segments."""
        parts = [gather_column([column[segment]], at) for segment, at in self._in_segments]
        if self._long_stretches:
            return parts[0] if len(parts) == 1 else concat_columns(parts)
        return gather_column(parts, self._back)


def _follow_each_other(rows: NDArray[np.int64]) -> bool:
    return int(rows[-1] - rows[0]) + 1 == len(rows) and bool((rows[1:] > rows[:-1]).all())


def _dictionary_of_all(parts: Sequence[pa.DictionaryArray]) -> pa.Array | None:
    """The dictionary, if all parts share the memory of one."""
    first, *others = [part.dictionary for part in parts]
    where = _memory_of(first)
    return first if all(_memory_of(other) == where for other in others) else None


def _memory_of(column: pa.Array) -> tuple[Any, ...]:
    return len(column), column.offset, *(buffer and (buffer.address, buffer.size) for buffer in column.buffers())


def _better_together(older: Segment, newer: Segment) -> bool:
    follow = older.first + older.rows.num_rows == newer.first
    n, m = older.rows.num_rows, newer.rows.num_rows
    going = n >= _GOING and older.left * _MOSTLY_TAKEN < n
    small = follow and n + m <= _SMALL and n <= 2 * m and not going
    return small and older.rows.nbytes + newer.rows.nbytes <= _SMALL_BYTES


def _address(column: pa.Array) -> int:
    """Where the values of a column lie, or their places in its dictionary, if of a fixed width and none is null."""
    kind = column.type.index_type if pa.types.is_dictionary(column.type) else column.type
    if column.null_count or not pa.types.is_primitive(kind) or kind.bit_width not in WIDTHS:
        return _NO_ADDRESS
    return int(column.buffers()[1].address) + column.offset * kind.bit_width // 8
