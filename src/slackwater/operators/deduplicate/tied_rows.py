"""Chooses among rows of one key and one time by what is in them, so that it does not matter which of them came first.

Rows are compared by their ends, then by their other columns from left to right, in Arrow's order of values: numbers and
times by size, texts by their bytes, nulls last. Columns of types that have no such order are compared by their bytes.

Cost: O(rows * columns); columns that are no numbers are sorted for it, unless all tied rows agree on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.columns.row_codec import RowCodec
from slackwater.events.gather import gather_column
from slackwater.kernels.columns.choose_rows import choose_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from slackwater.events.batch import EventBatch

    Rows = NDArray[np.int64]


def choose_among_ties(rows: EventBatch, firsts: Rows, others: Rows, columns: Sequence[str], *, greatest: bool) -> Rows:
    """Return, for each row, itself, or the row that is chosen in its place where it is the first one of a tie.

    Each of `others` ties with the one of `firsts` at the same place; of a tie all have the same first row. `columns`
    are those that rows of one key may differ in.

    >>> from slackwater.events.batch import EventBatch
    >>> rows = EventBatch.inserts(pa.record_batch({"v": ["c", "d", "a"]}), start=[1, 1, 1])
    >>> choose_among_ties(rows, np.array([0, 0]), np.array([1, 2]), ["v"], greatest=False).tolist()
    [2, 1, 2]
    """
    parts = [] if rows.end is None else [pa.array(rows.end)]
    parts += [rows.payload.column(name) for name in columns]
    compared = [line for part in parts for line in _numbers(part, firsts, others)]
    chosen = np.arange(rows.rows)
    if compared:
        choose_rows(firsts, others, np.stack(compared), greatest, chosen)
    return chosen


def _numbers(column: pa.Array, firsts: Rows, others: Rows) -> Iterator[Rows]:
    """A column as whole numbers in the order of its values, nulls separately in front; nothing if all rows agree."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type) and column.type != pa.uint64():
        plain = column
    elif pa.types.is_floating(column.type):
        plain = _bits_in_order(column)
    elif not _differ(column, firsts, others).any():
        return
    else:
        members = np.concatenate([firsts, others])
        values = _in_order(gather_column([column], pa.array(members)))
        ranks = np.zeros(len(column), dtype=np.int64)
        ranks[members] = pc.rank(values, "ascending", tiebreaker="dense").to_numpy()
        yield ranks
        return
    if plain.null_count:
        yield column.is_null().to_numpy(zero_copy_only=False).astype(np.int64)
        plain = plain.fill_null(0)
    yield plain.to_numpy().astype(np.int64, copy=False)


def _differ(column: pa.Array, ones: Rows, others: Rows) -> NDArray[np.bool_]:
    """Whether the values of two rows differ, for each pair; true where Arrow cannot compare them."""
    a, b = (gather_column([column], pa.array(rows)) for rows in (ones, others))
    try:
        equal = pc.fill_null(pc.equal(a, b), False)
    except pa.ArrowNotImplementedError:
        return np.ones(len(ones), dtype=np.bool_)
    differ: NDArray[np.bool_] = ~equal.to_numpy(zero_copy_only=False)
    return differ & ~(pc.is_null(a).to_numpy(zero_copy_only=False) & pc.is_null(b).to_numpy(zero_copy_only=False))


def _in_order(column: pa.Array) -> pa.Array:
    """The column in a type whose values Arrow can sort."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _in_order(column.storage)
    if pa.types.is_dictionary(kind):
        return _in_order(column.dictionary_decode())
    if pa.types.is_decimal(kind):  # Arrow cannot rank those of 32 and 64 bits
        return column.cast(pa.decimal256(76, kind.scale))
    return column if _has_order(kind) else _as_bytes(column)


def _has_order(kind: pa.DataType) -> bool:
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    raw = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    times = pa.types.is_temporal(kind) and not pa.types.is_interval(kind)
    return bool(texts or raw or times or pa.types.is_integer(kind) or pa.types.is_boolean(kind))


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
