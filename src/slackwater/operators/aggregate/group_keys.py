"""Numbers the groups of rows that have equal keys, and brings keys into a form in which equal values are equal bytes.

Arrow compares bytes: it would distinguish -0.0 from 0.0 and one NaN from another, and it cannot put two dictionaries
together. Here dictionaries are decoded, zeros and NaNs made one; `in_own_type` brings a column back.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import SchemaMismatch
from slackwater.kernels.columns.number_pairs import Numbered, number_pairs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def comparable_type(kind: pa.DataType) -> pa.DataType:
    """The type that `comparable` gives a column of this type."""
    if pa.types.is_dictionary(kind):
        return comparable_type(kind.value_type)
    return pa.float32() if pa.types.is_float16(kind) else kind  # Arrow computes nothing on float16


def comparable(column: pa.Array) -> pa.Array:
    """Return the column with equal values made equal bytes. Copies dictionaries and floats only.

    >>> comparable(pa.array([-0.0, 1.5, None])).to_pylist()
    [0.0, 1.5, None]
    """
    kind = comparable_type(column.type)
    if column.type != kind:
        column = column.cast(kind)
    if not pa.types.is_floating(kind):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(math.nan, kind), pc.add(column, pa.scalar(0.0, kind)))


def in_own_type(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Undo `comparable`: return the column in the type it had."""
    if pa.types.is_dictionary(kind):
        values = in_own_type(column, kind.value_type).dictionary_encode()
        return pa.DictionaryArray.from_arrays(
            values.indices.cast(kind.index_type), values.dictionary, ordered=kind.ordered
        )
    return column if column.type == kind else column.cast(kind)


def key_fields(payload: pa.Schema, keys: Sequence[str], step: str) -> tuple[pa.Field, ...]:
    """Look up the columns to group by, or refuse one that cannot be used."""
    for place, key in enumerate(keys):
        if key not in payload.names:
            raise SchemaMismatch.missing(step, key, payload.names)
        if key in keys[:place]:
            raise SchemaMismatch.clash(step, key, "name every key once")
        kind = payload.field(key).type
        if not _can_group(kind):
            wanted = "a type whose values can be compared as a whole"
            raise SchemaMismatch.wrong_type(step, key, kind, wanted, "group by a part of it: select() that first")
    return tuple(_without_order(payload.field(key)) for key in keys)


def _without_order(field: pa.Field) -> pa.Field:
    """A key of ordered categories becomes one of plain categories: they are put together anew, by appearance."""
    kind = field.type
    if not (pa.types.is_dictionary(kind) and kind.ordered):
        return field
    return field.with_type(pa.dictionary(kind.index_type, kind.value_type))


def number_groups(numbers: NDArray[np.int64], columns: Sequence[pa.Array]) -> Numbered:
    """Number the groups of rows that have the same number so far and equal values, by first appearance.

    >>> number_groups(np.array([4, 4, 4, 7]), [pa.array(["b", "a", "b", "b"])]).numbers.tolist()
    [0, 1, 0, 2]
    """
    first, *further = [_codes(column) for column in columns] or [np.zeros(len(numbers), dtype=np.int64)]
    numbered = number_pairs(numbers, first)
    for codes in further:
        numbered = number_pairs(numbered.numbers, codes)
    return numbered


def _codes(column: pa.Array) -> NDArray[np.int64]:
    """One integer per row, equal where the values are."""
    kind = column.type
    if column.null_count == 0 and pa.types.is_integer(kind):
        return column.to_numpy().astype(np.int64, copy=False)
    try:
        encoded = column.dictionary_encode(null_encoding="encode")
    except pa.ArrowNotImplementedError:
        return _codes_of_groups(column)
    return encoded.indices.to_numpy().astype(np.int64)


def _codes_of_groups(column: pa.Array) -> NDArray[np.int64]:
    """The same by Arrow's grouping, which knows some types that its dictionaries do not."""
    table = pa.table({"key": column, "row": np.arange(len(column))})
    row_lists = table.group_by("key", use_threads=False).aggregate([("row", "list")]).column("row_list")
    lengths = pc.list_value_length(row_lists).to_numpy()
    codes = np.empty(len(column), dtype=np.int64)
    codes[pc.list_flatten(row_lists).to_numpy()] = np.repeat(np.arange(len(lengths)), lengths)
    return codes


@functools.lru_cache(maxsize=128)
def _can_group(kind: pa.DataType) -> bool:
    # Arrow itself is asked, once for each type: what it can group by grows from version to version.
    if pa.types.is_nested(kind):
        return False
    try:
        pa.table({"key": pa.array([], comparable_type(kind))}).group_by("key", use_threads=False).aggregate([])
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
        return False
    return True
