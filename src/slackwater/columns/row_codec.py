"""Rows of any Arrow columns as plain bytes, and back: equal rows are equal bytes, and different rows are different.

    row = fixed part | bytes of the first column of varying length | bytes of the second | ... | zeros up to a word

The fixed part has a place for each column: its value where values have one width, else how long its bytes are, and for
lists how many items there are; after each a byte for whether the value is there. A struct is a row of its own, a
list is its items' rows laid end to end. Zeros are one value and so are NaNs, as in group_keys.

This is what payloads are compared by, and held as, where rows must be found again: exactly, whatever their types. Rows
are whole words of eight bytes, so that they can be compared word by word.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence  # noqa: TC003 - a NamedTuple looks its types up
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import SchemaMismatch
from slackwater.events.gather import no_columns
from slackwater.kernels.columns.byte_ranges import copy_ranges, walk_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


WORD: Final = 8
"""Bytes of a word."""

_BITS_OF_A_WORD: Final = 3
"""A place in bytes without these last bits is one in words."""


class RowBytes(NamedTuple):
    """The bytes of some rows, laid end to end."""

    offsets: NDArray[np.int64]
    """Where each row begins, and where the last one ends."""

    data: NDArray[np.uint8]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many bytes each row has."""
        return self.offsets[1:] - self.offsets[:-1]

    @property
    def word_offsets(self) -> NDArray[np.int64]:
        """Where each row begins, and where the last one ends, in words."""
        return self.offsets >> _BITS_OF_A_WORD

    @property
    def words(self) -> NDArray[np.int64]:
        """The same bytes as words."""
        return self.data.view(np.int64)

    @classmethod
    def of(cls, data: NDArray[np.uint8], begins: NDArray[np.int64], lengths: NDArray[np.int64]) -> RowBytes:
        """Gather rows that lie anywhere, and lay them end to end."""
        offsets = _ends_of(lengths)
        taken = np.empty(int(offsets[-1]), dtype=np.uint8)
        copy_ranges(data, np.ascontiguousarray(begins), np.ascontiguousarray(lengths), offsets[:-1], taken)
        return cls(offsets, taken)


class RowCodec:
    """Turns the rows of one schema into bytes, and back.

    >>> codec = RowCodec(pa.schema({"k": pa.string(), "v": pa.float64()}))
    >>> rows = codec.encode(pa.record_batch({"k": ["a", None], "v": [0.5, -0.0]}))
    >>> codec.decode(rows).to_pydict()
    {'k': ['a', None], 'v': [0.5, 0.0]}
    """

    __slots__ = ("_even_offsets", "_fixed", "_is_even", "_parts", "_schema")

    def __init__(self, schema: pa.Schema, step: str = "merge_replicas") -> None:
        self._schema = schema
        self._parts = [_part_of(field.type, field.name, step) for field in schema]
        places = [(f"{name}{i}", kind) for i, part in enumerate(self._parts) for name, kind in part.places]
        varies = any(name.startswith("length") for name, _ in places)
        self._fixed = np.dtype(places) if varies else _in_whole_words(np.dtype(places))
        self._is_even = not varies and self._fixed.itemsize > 0
        self._even_offsets = np.zeros(1, dtype=np.int64)

    def encode(self, rows: pa.RecordBatch) -> RowBytes:
        """Return the bytes of each row. Cost: one copy."""
        fixed = np.zeros(rows.num_rows, dtype=self._fixed)
        varying: list[RowBytes] = []
        for i, (part, column) in enumerate(zip(self._parts, rows.columns, strict=True)):
            cells = part.encode(column)
            for name, values in cells.places.items():
                fixed[f"{name}{i}"] = values
            varying += [] if cells.bytes is None else [cells.bytes]
        width = self._fixed.itemsize
        plain = np.frombuffer(fixed.tobytes() if width == 0 else fixed, dtype=np.uint8)
        if not varying:
            return RowBytes(self._offsets(rows.num_rows), plain)
        return _laid_together(plain, width, varying)

    def _offsets(self, rows: int) -> NDArray[np.int64]:
        """Where rows begin that are all of one width; made once, and longer when more are asked for."""
        if rows >= len(self._even_offsets):
            self._even_offsets = np.arange(2 * rows + 1) * self._fixed.itemsize
            self._even_offsets.setflags(write=False)
        return self._even_offsets[: rows + 1]

    def decode(self, rows: RowBytes) -> pa.RecordBatch:
        """Return the rows that the bytes are of."""
        if self._is_even:
            return self._decode_even(rows.data.view(self._fixed))
        count, width = len(rows.offsets) - 1, self._fixed.itemsize
        begins = rows.offsets[:-1]
        fixed = RowBytes.of(rows.data, begins, np.full(count, width)).data.view(self._fixed) if width else None
        at, columns = begins + width, []
        for i, part in enumerate(self._parts):
            places = {} if fixed is None else {name: fixed[f"{name}{i}"] for name, _ in part.places}
            varying = None
            if "length" in places:
                varying = RowBytes.of(rows.data, at, places["length"])
                at = at + places["length"]
            columns.append(part.decode(_Cells(places, varying), count))
        if not columns:
            return no_columns(count)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def decode_some(
        self, data: NDArray[np.uint8], begins: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> pa.RecordBatch:
        """Return some rows of those that lie end to end in bytes, in any order; `begins` is where each begins."""
        if self._is_even:
            width = self._fixed.itemsize
            return self._decode_even(data[: len(data) // width * width].view(self._fixed)[begins // width])
        return self.decode(RowBytes.of(data, begins, lengths))

    def _decode_even(self, fixed: NDArray[np.void]) -> pa.RecordBatch:
        """Return rows that are nothing but places, all of one width."""
        columns = [
            part.decode(_Cells({name: fixed[f"{name}{i}"] for name, _ in part.places}, None), len(fixed))
            for i, part in enumerate(self._parts)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def lay_out(self, data: NDArray[np.uint8], count: int) -> RowBytes:
        """Find the rows in bytes in which they lie end to end."""
        offsets = np.empty(count + 1, dtype=np.int64)
        names = [name for name in self._fixed.names or () if name.startswith("length")]
        places = np.array([self._fixed.fields[name][1] for name in names], dtype=np.int64)  # type: ignore[index]
        walk_rows(data, self._fixed.itemsize, places, offsets)
        return RowBytes(offsets, data)


def _in_whole_words(fixed: np.dtype[Any]) -> np.dtype[Any]:
    missing = -fixed.itemsize % WORD
    return np.dtype([*fixed.descr, ("", f"V{missing}")]) if missing else fixed


def _laid_together(fixed: NDArray[np.uint8], width: int, varying: list[RowBytes]) -> RowBytes:
    """Put the parts of each row one after the other."""
    rows = len(varying[0].offsets) - 1
    offsets = np.zeros(rows + 1, dtype=np.int64)
    lengths = width + sum(cells.lengths for cells in varying)
    np.cumsum((lengths + WORD - 1) // WORD * WORD, out=offsets[1:])
    data = np.zeros(int(offsets[-1]), dtype=np.uint8)
    at = offsets[:-1].copy()
    copy_ranges(fixed, np.arange(rows) * width, np.full(rows, width), at, data)
    at += width
    for cells in varying:
        copy_ranges(cells.data, cells.offsets[:-1], cells.lengths, at, data)
        at += cells.lengths
    return RowBytes(offsets, data)


def _ends_of(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


# ---- one kind of column each ---------------------------------------------------------------------------------------


class _Cells(NamedTuple):
    """A column in parts: the values of its places in the fixed part, by name, and the bytes of varying length."""

    places: Mapping[str, NDArray[Any]]
    bytes: RowBytes | None = None


class _Part(ABC):
    """How the columns of one type are written."""

    places: Sequence[tuple[str, str]]
    """The names of its places in the fixed part, and their NumPy types."""

    @abstractmethod
    def encode(self, column: pa.Array) -> _Cells:
        """Take a column apart."""

    @abstractmethod
    def decode(self, cells: _Cells, rows: int) -> pa.Array:
        """Put a column together."""


class _Nothing(_Part):
    """A column of nulls."""

    places = ()

    def encode(self, column: pa.Array) -> _Cells:  # noqa: ARG002 - there is nothing in it
        return _Cells({})

    def decode(self, cells: _Cells, rows: int) -> pa.Array:  # noqa: ARG002 - there is nothing in it
        return pa.nulls(rows)


class _Plain(_Part):
    """Values of one width: numbers, times, decimals, binaries of one length."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        width = kind.byte_width
        self._value = f"u{width}" if width in {1, 2, 4, 8} else f"V{width}"
        self.places = (("value", self._value), ("there", "u1"))

    def encode(self, column: pa.Array) -> _Cells:
        there = _there(column)
        plain = _one_zero_and_nan(column)
        values = self._values(plain)
        if not there.all():
            values = values.copy()
            values[~there] = np.zeros(1, dtype=self._value)[0]
        return _Cells({"value": values, "there": there})

    def _values(self, plain: pa.Array) -> NDArray[Any]:
        # What Arrow keeps behind an empty column need not be a whole number of values.
        if not len(plain):
            return np.empty(0, dtype=self._value)
        width = self._kind.byte_width
        return np.frombuffer(plain.buffers()[1], dtype=self._value, count=len(plain), offset=plain.offset * width)

    def decode(self, cells: _Cells, rows: int) -> pa.Array:
        values = pa.py_buffer(np.ascontiguousarray(cells.places["value"]))
        return pa.Array.from_buffers(self._kind, rows, [_bitmap(cells.places["there"]), values])


class _Bytes(_Part):
    """Words and binaries."""

    places = (("length", "i8"), ("there", "u1"))

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        words = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
        self._plain = pa.large_string() if words else pa.large_binary()

    def encode(self, column: pa.Array) -> _Cells:
        there, plain = _there(column), column.cast(self._plain)
        _, offsets, data = plain.buffers()
        ends = np.frombuffer(offsets, dtype=np.int64)[plain.offset : plain.offset + len(plain) + 1]
        ends = ends if len(ends) else np.zeros(1, dtype=np.int64)
        held = np.frombuffer(data or b"", dtype=np.uint8)
        lengths = ends[1:] - ends[:-1]
        if not plain.null_count:
            return _Cells({"length": lengths, "there": there}, RowBytes(ends, held))
        lengths = np.where(there, lengths, 0)  # what lies behind a null is not part of the row
        return _Cells({"length": lengths, "there": there}, RowBytes.of(held, ends[:-1], lengths))

    def decode(self, cells: _Cells, rows: int) -> pa.Array:
        assert cells.bytes is not None
        buffers = [_bitmap(cells.places["there"]), pa.py_buffer(cells.bytes.offsets), pa.py_buffer(cells.bytes.data)]
        return pa.Array.from_buffers(self._plain, rows, buffers).cast(self._kind)


class _Struct(_Part):
    """A row in a row."""

    places = (("length", "i8"), ("there", "u1"))

    def __init__(self, kind: pa.StructType, step: str) -> None:
        self._fields = list(kind)
        self._rows = RowCodec(pa.schema(self._fields), step)

    def encode(self, column: pa.StructArray) -> _Cells:
        inner = pa.RecordBatch.from_arrays(column.flatten(), schema=pa.schema(self._fields)) if self._fields else None
        rows = self._rows.encode(no_columns(len(column)) if inner is None else inner)
        return _Cells({"length": rows.lengths, "there": _there(column)}, rows)

    def decode(self, cells: _Cells, rows: int) -> pa.Array:
        assert cells.bytes is not None
        mask = pa.array(cells.places["there"] == 0)
        if not self._fields:
            return pa.array([{} if there else None for there in cells.places["there"]], pa.struct([]))
        assert rows == len(mask)
        return pa.StructArray.from_arrays(self._rows.decode(cells.bytes).columns, fields=self._fields, mask=mask)


class _List(_Part):
    """Rows of one column, end to end."""

    places = (("length", "i8"), ("items", "i8"), ("there", "u1"))

    def __init__(self, kind: pa.DataType, step: str) -> None:
        self._kind = kind
        self._items = RowCodec(pa.schema([kind.value_field]), step)
        self._schema = pa.schema([kind.value_field])

    def encode(self, column: pa.Array) -> _Cells:
        counts = pc.list_value_length(column).fill_null(0).to_numpy().astype(np.int64)
        items = pa.RecordBatch.from_arrays([pc.list_flatten(column)], schema=self._schema)
        rows = self._items.encode(items)
        offsets = rows.offsets[_ends_of(counts)]
        lengths = offsets[1:] - offsets[:-1]
        return _Cells({"length": lengths, "items": counts, "there": _there(column)}, RowBytes(offsets, rows.data))

    def decode(self, cells: _Cells, rows: int) -> pa.Array:
        assert cells.bytes is not None
        counts = cells.places["items"]
        items = self._items.decode(self._items.lay_out(cells.bytes.data, int(counts.sum()))).column(0)
        assert rows == len(counts)
        mask = pa.array(cells.places["there"] == 0)
        if pa.types.is_fixed_size_list(self._kind):
            # Arrow wants items behind a null list, too.
            size = self._kind.list_size
            at = np.where(cells.places["there"] != 0, _ends_of(counts)[:-1], 0)
            spread = pa.array(np.repeat(at, size) + np.tile(np.arange(size), rows))
            padded = items.take(spread) if len(items) else pa.nulls(rows * size, items.type)
            return pa.FixedSizeListArray.from_arrays(padded, type=self._kind, mask=mask)
        made = pa.LargeListArray.from_arrays(pa.array(_ends_of(counts)), items, mask=mask)
        return made.cast(self._kind)


class _Through(_Part):
    """Columns that are another type's in disguise: there and back by functions."""

    def __init__(
        self, inner: _Part, there: Callable[[pa.Array], pa.Array], back: Callable[[pa.Array], pa.Array]
    ) -> None:
        self.places = inner.places
        self._inner, self._there, self._back = inner, there, back

    def encode(self, column: pa.Array) -> _Cells:
        return self._inner.encode(self._there(column))

    def decode(self, cells: _Cells, rows: int) -> pa.Array:
        return self._back(self._inner.decode(cells, rows))


def _part_of(kind: pa.DataType, name: str, step: str) -> _Part:
    """Choose how a type is written, or refuse one that cannot be compared."""
    part = _disguised(kind, name, step)
    if part is not None:
        return part
    if pa.types.is_null(kind):
        return _Nothing()
    if pa.types.is_struct(kind):
        return _Struct(kind, step)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return _List(kind, step)
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_primitive(kind) or pa.types.is_decimal(kind):
        return _Plain(kind)
    if _is_bytes(kind):
        return _Bytes(kind)
    wanted = "a type whose values can be compared: plain, words, lists, structs, maps"
    raise SchemaMismatch.wrong_type(step, name, kind, wanted, "leave it out, or cast it, with select() first")


def _disguised(kind: pa.DataType, name: str, step: str) -> _Part | None:
    """A type that is written as another one; None for those that are written as they are."""
    if isinstance(kind, pa.BaseExtensionType):
        inner = _part_of(kind.storage_type, name, step)
        return _Through(inner, lambda column: column.storage, lambda plain: pa.ExtensionArray.from_storage(kind, plain))
    if pa.types.is_dictionary(kind):
        inner = _part_of(kind.value_type, name, step)
        return _Through(inner, lambda column: column.dictionary_decode(), lambda plain: _as_dictionary(plain, kind))
    if pa.types.is_run_end_encoded(kind):
        inner = _part_of(kind.value_type, name, step)
        return _Through(
            inner, pc.run_end_decode, lambda plain: pc.run_end_encode(plain, run_end_type=kind.run_end_type)
        )
    if pa.types.is_boolean(kind):
        return _Through(_Plain(pa.uint8()), lambda column: column.cast(pa.uint8()), lambda plain: plain.cast(kind))
    if pa.types.is_map(kind):
        pairs = pa.list_(pa.struct([kind.key_field, kind.item_field]))
        return _Through(_List(pairs, step), lambda column: column.cast(pairs), lambda plain: _as_map(plain, kind))
    return None


def _is_bytes(kind: pa.DataType) -> bool:
    words = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    return words or pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)


def _there(column: pa.Array) -> NDArray[np.bool_]:
    if not column.null_count:
        return np.ones(len(column), dtype=np.bool_)
    return column.is_valid().to_numpy(zero_copy_only=False)


def _bitmap(there: NDArray[Any]) -> pa.Buffer | None:
    return None if there.all() else pa.py_buffer(np.packbits(there != 0, bitorder="little"))


def _one_zero_and_nan(column: pa.Array) -> pa.Array:
    """Make all NaN the same bytes, and both zeros."""
    kind = column.type
    if pa.types.is_float16(kind):
        return _one_zero_and_nan(column.cast(pa.float32())).cast(kind)
    if not pa.types.is_floating(kind):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(float("nan"), kind), pc.add(column, pa.scalar(0.0, kind)))


def _as_dictionary(plain: pa.Array, kind: pa.DictionaryType) -> pa.DictionaryArray:
    encoded = plain.dictionary_encode()
    indices = encoded.indices.cast(kind.index_type)
    return pa.DictionaryArray.from_arrays(indices, encoded.dictionary, ordered=kind.ordered)


def _as_map(plain: pa.ListArray, kind: pa.MapType) -> pa.MapArray:
    return pa.Array.from_buffers(kind, len(plain), plain.buffers()[:2], children=[plain.values])
