"""Chooses among rows of one key and one time by what is in them, so that it does not matter which of them came first.

Rows are compared by their ends, then by their other columns from left to right, in Arrow's order of values: numbers and
times by size, texts by their bytes, nulls last. Columns of types that have no such order are compared by their bytes.
Most ties are copies of one row; only those that differ are sorted.

Cost: O(tied rows * columns), and a sort of those that differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.events.gather import gather_column
from slackwater.operators.row_bytes import RowCodec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slackwater.events.batch import EventBatch

    Rows = NDArray[np.int64]


def choose_among_ties(
    rows: EventBatch, firsts: Rows, others: Rows, columns: Sequence[str], *, greatest: bool
) -> tuple[Rows, Rows]:
    """Return the first rows of ties that are to be replaced, and the rows that replace them.

    Each of `others` ties with the one of `firsts` at the same place; of a tie all have the same first row. `columns`
    are those that rows of one key may differ in.

    >>> from slackwater.events.batch import EventBatch
    >>> rows = EventBatch.inserts(pa.record_batch({"v": [3, 5, 2]}), start=[1, 1, 1])
    >>> choose_among_ties(rows, np.array([0, 0]), np.array([1, 2]), ["v"], greatest=False)
    (array([0]), array([2]))
    """
    parts = [] if rows.end is None else [pa.array(rows.end)]
    parts += [rows.payload.column(name) for name in columns]
    differ = np.zeros(len(firsts), dtype=np.bool_)
    for part in parts:
        differ |= _differ(part, firsts, others)
    unlike = np.isin(firsts, firsts[differ]) if differ.any() else differ
    if not unlike.any():
        return firsts[:0], firsts[:0]
    members = np.concatenate([np.unique(firsts[unlike]), others[unlike]])
    ties = np.concatenate([np.unique(firsts[unlike]), firsts[unlike]])
    return _extremes(members, ties, parts, greatest=greatest)


def _extremes(members: Rows, ties: Rows, parts: Sequence[pa.Array], *, greatest: bool) -> tuple[Rows, Rows]:
    """The least member of each tie, or the greatest, where that is not the first row itself."""
    at = pa.array(members)
    compared = [_in_order(gather_column([part], at)) for part in parts]
    # Behind all columns their places: of rows that are equal throughout the first stays.
    keys = [pa.array(ties), *compared, at if not greatest else pa.array(-members)]
    table = pa.Table.from_arrays(keys, names=[str(place) for place in range(len(keys))])
    order = pc.sort_indices(table, [(name, "ascending") for name in table.column_names]).to_numpy()
    sorted_ties = ties[order]
    changes = np.flatnonzero(sorted_ties[1:] != sorted_ties[:-1])
    edges = np.append(changes, len(order) - 1) if greatest else np.append(0, changes + 1)
    firsts, chosen = sorted_ties[edges], members[order[edges]]
    return firsts[firsts != chosen], chosen[firsts != chosen]


def _differ(column: pa.Array, ones: Rows, others: Rows) -> NDArray[np.bool_]:
    """Whether the values of two rows differ, for each pair; true where Arrow cannot compare them."""
    if pa.types.is_floating(column.type):
        return _differ(_bits_in_order(column), ones, others)
    if pa.types.is_integer(column.type) and not column.null_count:
        values = column.to_numpy()
        differ: NDArray[np.bool_] = values[ones] != values[others]
        return differ
    a, b = (gather_column([column], pa.array(rows)) for rows in (ones, others))
    try:
        equal = pc.fill_null(pc.equal(a, b), False)
    except pa.ArrowNotImplementedError:
        return np.ones(len(ones), dtype=np.bool_)
    differ = ~equal.to_numpy(zero_copy_only=False)
    return differ & ~(pc.is_null(a).to_numpy(zero_copy_only=False) & pc.is_null(b).to_numpy(zero_copy_only=False))


def _in_order(column: pa.Array) -> pa.Array:
    """The column in a type whose values Arrow can sort."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _in_order(column.storage)
    if pa.types.is_dictionary(kind):
        return _in_order(column.dictionary_decode())
    if pa.types.is_floating(kind):
        return _bits_in_order(column)
    return column if _has_order(kind) else _as_bytes(column)


def _has_order(kind: pa.DataType) -> bool:
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    raw = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    times = pa.types.is_temporal(kind) and not pa.types.is_interval(kind)
    plain = pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal128(kind)
    return bool(texts or raw or times or plain)


def _as_bytes(column: pa.Array) -> pa.Array:
    """Any values as the bytes that row_bytes makes of them; views of texts as the texts."""
    if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):
        return column.cast(pa.large_string() if pa.types.is_string_view(column.type) else pa.large_binary())
    written = RowCodec(pa.schema({"": column.type})).encode(pa.RecordBatch.from_arrays([column], names=[""]))
    buffers = [None, pa.py_buffer(np.ascontiguousarray(written.offsets)), pa.py_buffer(written.data)]
    return pa.Array.from_buffers(pa.large_binary(), len(column), buffers)


def _bits_in_order(column: pa.Array) -> pa.Array:
    """Floats as whole numbers of the same order, in which minus zero comes right before zero, and NaN last."""
    plain = column.fill_null(0.0) if column.null_count else column
    values = plain.to_numpy(zero_copy_only=False)
    values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
    bits = values.view(f"i{values.itemsize}")
    # The greater the size of a negative number, the less it is.
    bits = bits ^ ((bits >> (8 * values.itemsize - 1)) & np.iinfo(bits.dtype).max)
    return pa.array(bits, mask=column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None)
