"""The keys of rows as whole words: equal keys are the same words, in every batch, and different keys are different.

    key = a word for each number or time | for each text its length, then its bytes | which values are null, if any is

Numbers without nulls are taken as they lie. A null is a value like any other; there is one NaN, and one zero, as in
Spark's own dropDuplicates. If a column of the key has another type, all of them are written by row_bytes.

Cost: O(bytes of the keys). The form is decided by the types alone: it is the same for every batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.columns.row_codec import WORD, RowBytes, RowCodec
from slackwater.kernels.columns.lay_words import count_words, lay_bytes, lay_marks, lay_texts, lay_values
from slackwater.kernels.match.known_keys import FEW, hash_keys, hash_words
from slackwater.operators.aggregate.group_keys import comparable_type, in_own_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Column = NDArray[np.int64]

_MOST_COLUMNS: Final = 63
"""As many columns have a bit each in the word that marks which values are null."""


class Words(NamedTuple):
    """The words of some keys, laid end to end."""

    offsets: Column
    """Where each key begins, and where the last one ends."""

    words: Column
    hashes: Column
    """The hash of each key; never negative."""

    @classmethod
    def of(cls, offsets: Column, words: Column) -> Words:
        """Hash keys."""
        hashes = np.empty(len(offsets) - 1, dtype=np.int64)
        hash_keys(offsets, words, hashes)
        return cls(offsets, words, hashes)


class KeyWords:
    """Writes the keys of rows of one schema.

    >>> keys = KeyWords(pa.schema({"k": pa.int64(), "v": pa.int64()}), ["k"])
    >>> keys.encode(pa.record_batch({"k": [7, None], "v": [1, 2]})).words.tolist()
    [7, 0, 1]
    """

    __slots__ = ("_codec", "_even", "_fields", "_hashes", "_names", "_room", "few")

    def __init__(self, schema: pa.Schema, names: Sequence[str], step: str = "deduplicate") -> None:
        self._names = list(names)
        self._fields = fields = [schema.field(name) for name in names]
        plain = len(fields) <= _MOST_COLUMNS and all(_is_value(f.type) or _is_text(f.type) for f in fields)
        codec = RowCodec(pa.schema(fields), step)  # made in any case: it refuses what cannot be compared
        self._codec = None if plain else codec
        self._even: Column = np.zeros(1, dtype=np.int64)
        # Written anew for each batch: fresh memory would cost as much as what is done in it.
        self._hashes: Column = np.empty(0, dtype=np.int64)
        self._room: tuple[Column, Column] = self._even, self._even
        self.few = 1 if plain and len(fields) == 1 and _is_value(fields[0].type) else FEW
        """Words that keys have at most, as a rule."""

    def encode(self, rows: pa.RecordBatch) -> Words:
        """Return the key of each row. It is good until the next call."""
        if self._codec is not None:
            written = self._codec.encode(rows.select(self._names))
            return self._hashed(written.word_offsets, written.words)
        columns = [_decoded(rows.column(name)) for name in self._names]
        if len(columns) == 1 and not columns[0].null_count and _is_text(columns[0].type):
            return self._of_texts(_text(columns[0]))
        if any(column.null_count or _is_text(column.type) for column in columns):
            return self._hashed(*_laid(columns, rows.num_rows))
        values = [_values(column) for column in columns]
        offsets = self._even_offsets(rows.num_rows)
        if len(values) > 1:
            return self._hashed(offsets, np.stack(values, axis=1).reshape(-1))
        words, hashes = np.ascontiguousarray(values[0]), self._room_for_hashes(rows.num_rows)
        hash_words(words, hashes)
        return Words(offsets, words, hashes)

    def decode(self, offsets: Column, words: Column) -> pa.RecordBatch:
        """The columns of some keys, made of their words.

        >>> keys = KeyWords(pa.schema({"k": pa.string(), "n": pa.int16()}), ["n", "k"])
        >>> written = keys.encode(pa.record_batch({"k": ["oak", None, "a long ash"], "n": [7, 8, None]}))
        >>> keys.decode(written.offsets, written.words).to_pydict()
        {'n': [7, 8, None], 'k': ['oak', None, 'a long ash']}
        """
        if self._codec is not None:
            return self._codec.decode(RowBytes(offsets * WORD, words.view(np.uint8)))
        at = offsets[:-1].copy()
        columns: list[NDArray[Any] | RowBytes] = []
        for field in self._fields:
            kind = comparable_type(field.type)
            first = words[at]
            at += 1
            if _is_value(kind):
                columns.append(first.astype(f"i{kind.bit_width // 8}"))
                continue
            columns.append(RowBytes.of(words.view(np.uint8), at * WORD, first))
            at += -(-first // WORD)
        marks = np.zeros(len(at), dtype=np.int64)
        marked = np.flatnonzero(at < offsets[1:])
        marks[marked] = words[at[marked]]
        made = (_made(*one, (marks >> place) & 1) for place, one in enumerate(zip(self._fields, columns, strict=True)))
        return pa.RecordBatch.from_arrays(list(made), names=self._names)

    def _hashed(self, offsets: Column, words: Column) -> Words:
        hashes = self._room_for_hashes(len(offsets) - 1)
        hash_keys(offsets, words, hashes)
        return Words(offsets, words, hashes)

    def _of_texts(self, text: _Text) -> Words:
        """Keys that are one text each."""
        rows = len(text.ends) - 1
        most = int(text.ends[-1] - text.ends[0]) // WORD + 2 * rows
        if rows >= len(self._room[0]) or most > len(self._room[1]):
            self._room = np.empty(2 * rows + 1, dtype=np.int64), np.empty(2 * most, dtype=np.int64)
        offsets, words, hashes = self._room[0][: rows + 1], self._room[1], self._room_for_hashes(rows)
        return Words(offsets, words[: lay_texts(text.data, text.ends, offsets, words, hashes)], hashes)

    def _room_for_hashes(self, rows: int) -> Column:
        if rows > len(self._hashes):
            self._hashes = np.empty(2 * rows, dtype=np.int64)
        return self._hashes[:rows]

    def _even_offsets(self, rows: int) -> Column:
        """Where keys begin that are all of one width; made once, and longer when more are asked for."""
        if rows >= len(self._even):
            self._even = np.arange(2 * rows + 1) * len(self._names)
        return self._even[: rows + 1]


def _laid(columns: Sequence[pa.Array], rows: int) -> tuple[Column, Column]:
    """Where keys begin of which some have texts or nulls in them, and their words."""
    present = [_there(column) for column in columns]
    texts = [_text(column) if _is_text(column.type) else None for column in columns]
    marks = _marks(columns, present) if any(column.null_count for column in columns) else None
    counts = np.full(rows, texts.count(None)) if marks is None else texts.count(None) + (marks != 0)
    for text, there in zip(texts, present, strict=True):
        if text is not None:
            count_words(text.ends, there, counts)
    offsets = np.zeros(rows + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    words = np.empty(int(offsets[-1]), dtype=np.int64)
    at = offsets[:-1].copy()
    for column, text, there in zip(columns, texts, present, strict=True):
        if text is None:
            lay_values(np.where(there, _values(column), 0), at, words)
        else:
            lay_bytes(*text, there, at, words.view(np.uint64))
    if marks is not None:
        lay_marks(marks, at, words)
    return offsets, words


def _made(field: pa.Field, laid: NDArray[Any] | RowBytes, missing: Column) -> pa.Array:
    """A column of what was laid of it, and of which values are missing."""
    kind = comparable_type(field.type)
    there = pa.py_buffer(np.packbits(missing == 0, bitorder="little"))
    if isinstance(laid, RowBytes):
        buffers = [there, pa.py_buffer(np.ascontiguousarray(laid.offsets)), pa.py_buffer(laid.data)]
        column = pa.Array.from_buffers(pa.large_binary(), len(missing), buffers).cast(kind)
    else:
        column = pa.Array.from_buffers(kind, len(missing), [there, pa.py_buffer(laid)])
    return in_own_type(column, field.type)


def _marks(columns: Sequence[pa.Array], present: Sequence[NDArray[np.bool_]]) -> Column:
    """A bit for each column whose value is missing, for each row."""
    marks = np.zeros(len(columns[0]), dtype=np.int64)
    for place, there in enumerate(present):
        marks |= (~there).astype(np.int64) << place
    return marks


def _is_value(kind: pa.DataType) -> bool:
    """Whether values are numbers or times of at most a word."""
    if pa.types.is_dictionary(kind):
        return _is_value(kind.value_type)
    if pa.types.is_temporal(kind):
        return not pa.types.is_interval(kind)
    return bool(pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind))


def _is_text(kind: pa.DataType) -> bool:
    """Whether values are bytes of varying length."""
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _there(column: pa.Array) -> NDArray[np.bool_]:
    if not column.null_count:
        return np.ones(len(column), dtype=np.bool_)
    there: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return there


def _values(column: pa.Array) -> Column:
    """Values of one width as words; what lies behind a null is anything."""
    width = column.type.bit_width // 8
    # What Arrow keeps behind an empty column need not be a whole number of values.
    if not len(column):
        return np.empty(0, dtype=np.int64)
    kind = f"f{width}" if pa.types.is_floating(column.type) else f"i{width}"
    values: NDArray[Any] = np.frombuffer(column.buffers()[1], kind, len(column), column.offset * width)
    if pa.types.is_floating(column.type):
        values = values + values.dtype.type(0)  # of both zeros the positive one
        values[np.isnan(values)] = np.nan
        values = values.view(f"i{width}")
    return values if width == WORD else values.astype(np.int64)


class _Text(NamedTuple):
    """The bytes of a column's values."""

    data: NDArray[np.uint8]
    whole: NDArray[np.uint64]
    """The same bytes as words, but for those behind the last whole one."""

    ends: Column
    """Where those of each row end; the first is where the first row begins."""


def _text(column: pa.Array) -> _Text:
    _, offsets, buffer = column.buffers()
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    if not len(column):
        return _Text(np.empty(0, dtype=np.uint8), np.empty(0, dtype=np.uint64), np.zeros(1, dtype=np.int64))
    kind: Any = np.int64 if wide else np.int32
    ends = np.frombuffer(offsets, kind, len(column) + 1, column.offset * np.dtype(kind).itemsize)
    data = np.frombuffer(buffer or b"", dtype=np.uint8)
    if data.ctypes.data % WORD:  # memory that Arrow was given by others may begin anywhere
        data = data.copy()
    return _Text(data, data[: len(data) // WORD * WORD].view(np.uint64), ends.astype(np.int64))
