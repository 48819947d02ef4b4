"""Computes columns row by row: Narwhals expressions, or functions from an Arrow batch to an Arrow array.

When a computation fails, the first row that fails by itself is looked for by halving, and named in the error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw
import numpy as np
import pyarrow as pa

from slackwater.errors import StepFailed
from slackwater.events.shown_values import show_row

if TYPE_CHECKING:
    from slackwater.events.batch import Mask

Computation: TypeAlias = nw.Expr | Callable[[pa.RecordBatch], pa.Array]
"""What a user may write for a computed column; it must treat each row by itself."""


def compute(columns: Mapping[str, Computation], rows: pa.RecordBatch, step: str) -> pa.RecordBatch:
    """Compute named columns over the rows; a failure names the step and the first row that fails by itself."""
    try:
        return _compute(columns, rows)
    except Exception as cause:
        row = _first_failing_row(columns, rows)
        values = None if row is None else show_row(rows, row)
        raise StepFailed.at(step, row, values, cause) from cause


def compute_mask(predicate: Computation, rows: pa.RecordBatch, step: str) -> Mask:
    """Which rows satisfy the predicate; a null answer means no."""
    answer = compute({"keep": predicate}, rows, step).column("keep")
    if pa.types.is_null(answer.type):
        return np.zeros(len(answer), dtype=np.bool_)
    if not pa.types.is_boolean(answer.type):
        raise StepFailed.at(step, None, None, TypeError(f"the predicate answered {answer.type}, not yes or no"))
    decided = answer.fill_null(False) if answer.null_count else answer
    return np.asarray(decided.to_numpy(zero_copy_only=False))


def _compute(columns: Mapping[str, Computation], rows: pa.RecordBatch) -> pa.RecordBatch:
    expressions = {name: what for name, what in columns.items() if isinstance(what, nw.Expr)}
    computed: dict[str, Any] = {}
    if expressions:
        # with_columns spreads constants over all rows; the names may hide columns that are read, so they are private.
        private = [expression.alias(f"\0{name}") for name, expression in expressions.items()]
        frame = nw.from_native(pa.Table.from_batches([rows]), eager_only=True).with_columns(*private).to_native()
        computed = {name: _one_chunk(frame.column(f"\0{name}")) for name in expressions}
    for name, what in columns.items():
        if not isinstance(what, nw.Expr):
            computed[name] = _as_array(what(rows), rows.num_rows)
    return pa.RecordBatch.from_arrays([computed[name] for name in columns], names=list(columns))


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def _as_array(answer: Any, rows: int) -> pa.Array:
    column = answer if isinstance(answer, pa.Array) else pa.array(answer)
    if len(column) != rows:
        raise ValueError(f"the function was given {rows} rows and answered {len(column)}")
    return column


def _first_failing_row(columns: Mapping[str, Computation], rows: pa.RecordBatch) -> int | None:
    """Halve the rows until one is left that fails alone; None when only all together fail."""
    first, count = 0, rows.num_rows
    while count > 1:
        half = count // 2
        if _fails(columns, rows.slice(first, half)):
            count = half
        elif _fails(columns, rows.slice(first + half, count - half)):
            first, count = first + half, count - half
        else:
            return None
    return first if count and _fails(columns, rows.slice(first, 1)) else None


def _fails(columns: Mapping[str, Computation], rows: pa.RecordBatch) -> bool:
    try:
        _compute(columns, rows)
    except Exception:  # noqa: BLE001 - whatever a user's function raises
        return True
    return False
