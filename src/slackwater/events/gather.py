"""Gathers rows of Arrow data by number, for every column type there is.

Arrow's own take() does not know view types and run-end encoding yet (pyarrow 26); such columns are taken in their plain
form and put back into their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray


def gather(payload: pa.RecordBatch, rows: NDArray[np.integer]) -> pa.RecordBatch:
    """Return the given rows of a batch, in the given order.

    >>> gather(pa.record_batch({"x": ["a", "b"]}), np.array([1, 0])).to_pydict()
    {'x': ['b', 'a']}
    """
    indices = pa.array(rows)
    try:
        return payload.take(indices)
    except pa.ArrowNotImplementedError:
        pass
    columns = [gather_column([column], indices) for column in payload.columns]
    return pa.RecordBatch.from_arrays(columns, schema=payload.schema)


def keep(payload: pa.RecordBatch, mask: NDArray[np.bool_]) -> pa.RecordBatch:
    """Return the rows that the mask marks."""
    try:
        return payload.filter(pa.array(mask))
    except pa.ArrowNotImplementedError:
        return gather(payload, np.flatnonzero(mask))


def gather_column(parts: list[pa.Array], indices: pa.Array) -> pa.Array:
    """Return the given rows of some arrays of one type laid end to end."""
    kind = parts[0].type
    plain = [_plain(part) for part in parts] if _needs_plain_form(kind) else parts
    taken = (plain[0] if len(plain) == 1 else pa.concat_arrays(plain)).take(indices)  # one part is not copied first
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(taken, run_end_type=kind.run_end_type)
    return taken.cast(kind) if _needs_plain_form(kind) else taken


def concat_columns(parts: list[pa.Array]) -> pa.Array:
    """Lay arrays of one type end to end; dictionaries become one."""
    kind = parts[0].type
    if not pa.types.is_run_end_encoded(kind):
        return pa.concat_arrays(parts)
    return pc.run_end_encode(pa.concat_arrays([_plain(part) for part in parts]), run_end_type=kind.run_end_type)


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without rows, of any columns: Arrow makes empty columns of every type only where it makes nulls."""
    if not len(schema):
        return no_columns(0)
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def no_columns(rows: int) -> pa.RecordBatch:
    """A batch of rows without columns, which Arrow makes only by leaving columns out."""
    return pa.record_batch({"": pa.nulls(rows)}).select([])


def _needs_plain_form(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind) or pa.types.is_run_end_encoded(kind))


def _plain(column: pa.Array) -> pa.Array:
    if pa.types.is_run_end_encoded(column.type):
        return pc.run_end_decode(column)
    return column.cast(pa.large_string() if pa.types.is_string_view(column.type) else pa.large_binary())
