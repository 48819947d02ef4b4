"""Splits the rows of replicas that come in one stream, by the values of a column.

A replica's name is the bytes of its value, so that it can be looked up, stored and sent whatever type the column has,
and means the same in every process. Null is a value like any other; all NaN are one, and so are both zeros.
Cost: Arrow finds the distinct values of a batch; only those are looked at one by one.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from slackwater.columns.row_codec import RowCodec
from slackwater.errors import PlanError, SchemaMismatch, message
from slackwater.progress.instants import BEGINNING, FOREVER, UNTIMED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from slackwater.events.batch import EventBatch, Times
    from slackwater.events.schema import EventSchema
    from slackwater.progress.instants import Instant

ReplicaName: TypeAlias = bytes
"""What a replica is called: the bytes of its value in the column."""


class Span(NamedTuple):
    """From where to where the times of some rows go, and which came first; NO_TIME where none of them has one."""

    least: Instant
    newest: Instant
    first: Instant
    """The time of the row that came first; of rows that came in several pieces, the least of those."""

    @classmethod
    def of(cls, times: Times) -> Span:
        """The span of some times, of which there is at least one."""
        timed = times if int(times.min()) != UNTIMED else times[times != UNTIMED]
        return cls(int(timed.min()), int(timed.max()), int(timed[0])) if len(timed) else NO_TIME

    def with_more(self, other: Span) -> Span:
        """The span of these rows and others.

        >>> Span(3, 5, first=4).with_more(Span(4, 9, first=8))
        Span(least=3, newest=9, first=4)
        """
        return Span(min(self.least, other.least), max(self.newest, other.newest), min(self.first, other.first))

    @property
    def has_times(self) -> bool:
        """Whether any of the rows has a time."""
        return self.newest > BEGINNING


NO_TIME: Final = Span(FOREVER, BEGINNING, FOREVER)
"""The span of rows that have no time."""


class Part(NamedTuple):
    """The rows of one replica among those of a batch, in their order."""

    name: ReplicaName
    numbers: NDArray[np.int64]
    """Their places in the batch."""

    rows: EventBatch


class ReplicaNames:
    """Splits rows of one schema by a column.

    >>> from slackwater.events.batch import EventBatch
    >>> from slackwater.events.schema import EventSchema
    >>> names = ReplicaNames(EventSchema.of(pa.schema({"at": pa.int64(), "who": pa.string()}), time="at"), "who")
    >>> rows = EventBatch.inserts(pa.record_batch({"who": ["blue", None, "blue"]}), start=[3, 5, 4])
    >>> [part.rows.start.tolist() for part in names.split(rows)], [tuple(span) for span in names.spans(rows).values()]
    ([[3, 4], [5]], [(3, 4, 3), (5, 5, 5)])
    """

    __slots__ = ("_by", "_codec", "_plain")

    def __init__(self, schema: EventSchema, by: str, step: str = "merge_replicas") -> None:
        kind = schema.payload.field(by).type
        self._by = by
        plain = _plain(kind)
        try:
            pa.nulls(1, plain).dictionary_encode(null_encoding="encode")
        except pa.ArrowNotImplementedError:
            wanted, hint = "plain values, such as words or numbers", "compute a name for each replica with select()"
            raise SchemaMismatch.wrong_type(step, by, kind, wanted, hint) from None
        self._plain = pa.schema([pa.field(by, plain)])
        self._codec = RowCodec(self._plain, step)

    @property
    def plain(self) -> pa.DataType:
        """The type of the column's values, however they are stored."""
        return self._plain.types[0]

    def split(self, rows: EventBatch) -> list[Part]:
        """Return the rows of each replica that has some, in order of their first rows. Cost: a copy, if several do."""
        return list(self._parts(rows)) if rows.rows else []

    def spans(self, rows: EventBatch) -> dict[ReplicaName, Span]:
        """Return from where to where the times of each replica's rows go, and the time of its first."""
        if not rows.rows:
            return {}
        codes, names = self.numbered(rows.payload)
        least, newest, first = (np.full(len(names), time, dtype=np.int64) for time in NO_TIME)
        timed = np.flatnonzero(rows.start != UNTIMED)
        np.minimum.at(least, codes[timed], rows.start[timed])
        np.maximum.at(newest, codes[timed], rows.start[timed])
        found, places = np.unique(codes[timed], return_index=True)
        first[found] = rows.start[timed[places]]
        times = zip(least.tolist(), newest.tolist(), first.tolist(), strict=True)
        return {name: Span(*span) for name, span in zip(names, times, strict=True)}

    def _parts(self, rows: EventBatch) -> Iterator[Part]:
        codes, names = self.numbered(rows.payload)
        if len(names) == 1:
            yield Part(names[0], np.arange(rows.rows), rows)
            return
        # Few names fit into sixteen bits, which NumPy sorts in one pass.
        order = np.argsort(codes.astype(np.uint16) if len(names) <= 1 << 16 else codes, kind="stable")
        together = rows.take_rows(order)
        ends = np.cumsum(np.bincount(codes, minlength=len(names))).tolist()
        for name, first, stop in zip(names, [0, *ends], ends, strict=False):
            yield Part(name, order[first:stop], together.slice(first, stop))

    def column_of(self, names: Sequence[ReplicaName]) -> pa.Array:
        """The values that names stand for, as a column of the plain type."""
        ends = np.cumsum([0, *map(len, names)])
        words = np.frombuffer(b"".join(names), dtype=np.uint8)
        return self._codec.decode_some(words, ends[:-1], np.diff(ends)).column(0)

    def name_of(self, value: object) -> ReplicaName:
        """The name that a value of the column stands for; refuse what the column cannot hold."""
        try:
            column = pa.array([value], self._plain.types[0])
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            facts = {"column": f"{self._by} ({self._plain.types[0]})", "got": repr(value)}
            raise PlanError(message("a source is named that the column cannot hold", facts)) from error
        encoded = self._codec.encode(pa.RecordBatch.from_arrays([column], schema=self._plain))
        return encoded.data.tobytes()

    def spelled(self, name: ReplicaName) -> str:
        """A name as people read it: the value of the column; null where it has none."""
        column = self.column_of([name])
        try:
            (value,) = column.to_pylist()
        except (OverflowError, ValueError):  # a time that Python cannot show
            value = name.hex()
        return "null" if value is None else str(value)

    def numbered(self, payload: pa.RecordBatch) -> tuple[NDArray[np.int64], list[ReplicaName]]:
        """A number for each row, and the name that each number stands for; all of them are names of rows."""
        indices, number_of, names = self.indexed(payload)
        return number_of[indices], names

    def encoded(self, column: pa.Array) -> pa.DictionaryArray:
        """A column as numbers of words, by a dictionary of the plain type; its own, if it has such a one."""
        if pa.types.is_dictionary(column.type) and column.dictionary.type == self._plain.types[0]:
            return column
        return column.cast(self._plain.types[0]).dictionary_encode(null_encoding="encode")

    def spelled_words(self, dictionary: pa.Array) -> list[ReplicaName]:
        """The names that the words of a dictionary stand for, and behind them that of null."""
        values = self._codec.encode(pa.RecordBatch.from_arrays([_with_null(dictionary)], schema=self._plain))
        data, ends = values.data.tobytes(), values.offsets.tolist()
        return [data[first:stop] for first, stop in pairwise(ends)]

    def indexed(self, payload: pa.RecordBatch) -> tuple[NDArray[Any], NDArray[np.int64], list[ReplicaName]]:
        """An index for each row, the number that each index stands for, and the name of each number."""
        column = self.encoded(payload.column(self._by))
        spelled = self.spelled_words(column.dictionary)
        indices = (
            column.indices.fill_null(len(spelled) - 1) if column.indices.null_count else column.indices
        ).to_numpy()
        # A dictionary may have words that no row has, and values that Arrow distinguishes may be one, such as NaN.
        used = np.flatnonzero(np.bincount(indices, minlength=len(spelled)))
        numbers: dict[ReplicaName, int] = {}
        number_of = np.zeros(len(spelled), dtype=np.int64)
        number_of[used] = [numbers.setdefault(spelled[place], len(numbers)) for place in used.tolist()]
        return indices, number_of, list(numbers)


def _with_null(dictionary: pa.Array) -> pa.Array:
    """The words of a dictionary, and null behind them, for rows that have none."""
    return pa.concat_arrays([dictionary, pa.nulls(1, dictionary.type)])


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type in which Arrow finds distinct values; among words in views it takes null for the empty word."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind
