"""Python mappings as Arrow batches, without losing a column in silence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from slackwater.errors import PlanError, SourceFailed, message
from slackwater.events.gather import no_columns

_HINT = "name the columns and their types with schema=pa.schema(...)"


def schema_of_rows(rows: Sequence[Any], source: str) -> pa.Schema:
    """Learn the columns from all the rows together, in the order in which they first appear.

    >>> schema_of_rows([{"at": 1}, {"at": 2, "x": "a"}], "rows").names
    ['at', 'x']
    """
    for row in rows:
        if not isinstance(row, Mapping):
            facts = {"source": source, "got": f"{type(row).__name__}: {row!r}"}
            raise PlanError(
                message("this is not a source of rows", facts, 'write rows as mappings: {"at": 3, "x": "a"}')
            )
    names = {name: None for row in rows for name in row}
    try:
        return pa.RecordBatch.from_pylist([{name: row.get(name) for name in names} for row in rows]).schema
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as cause:
        raise SourceFailed.unreadable(
            source, cause, "a column must have one type; or pass schema=pa.schema(...)"
        ) from cause


def batch_of_rows(rows: Sequence[Any], schema: pa.Schema, source: str) -> pa.RecordBatch:
    """Make a batch of rows; refuse columns that the schema does not have. Columns left out are null."""
    known = set(schema.names)
    for row in rows:
        if not isinstance(row, Mapping) or not row.keys() <= known:
            raise SourceFailed.other_columns(source, ", ".join(schema.names), row)
    columns = [_column([row.get(field.name) for row in rows], field, source) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema) if columns else no_columns(len(rows))


def _column(values: list[Any], field: pa.Field, source: str) -> pa.Array:
    """Make a column of Python values; Arrow would cut 1.5 to 1 in a column of integers, so what it made is compared."""
    try:
        column = pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as cause:
        raise SourceFailed.unreadable(source, cause, _HINT) from cause
    if not (pa.types.is_primitive(field.type) or pa.types.is_decimal(field.type)):
        return column
    plain = int if pa.types.is_integer(field.type) else float if pa.types.is_float64(field.type) else None
    if plain is not None and all(type(value) is plain or value is None for value in values):
        return column
    for value, kept in zip(values, _as_python(column), strict=True):
        if not _same(value, kept):
            facts = {
                "source": source,
                "column": f"{field.name} ({field.type})",
                "value": repr(value),
                "kept": repr(kept),
            }
            raise SourceFailed(message("a value does not fit its column without loss", facts, _HINT))
    return column


def _as_python(column: pa.Array) -> list[Any]:
    """The values of a column; moments in UTC, for in their own zone some may leave the years that Python has."""
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        column = column.cast(pa.timestamp(kind.unit, "UTC"))
    return column.to_pylist()


def _same(value: Any, kept: Any) -> bool:
    """Whether a value came through: equal, both NaN, the same moment in another zone, or the nearest float."""
    if value is None or kept is None:
        return value is kept
    if isinstance(value, datetime) and isinstance(kept, datetime) and (value.tzinfo is None) != (kept.tzinfo is None):
        return value.replace(tzinfo=None) == kept.replace(tzinfo=None)
    if isinstance(value, datetime) and isinstance(kept, datetime) and value.tzinfo is not None:
        # Python calls no two local times equal that come twice in a night, not even the same moment.
        return value.astimezone(UTC) == kept.astimezone(UTC)
    if isinstance(kept, float):
        return math.isnan(kept) if value != value else math.isclose(value, kept, rel_tol=1e-6)  # noqa: PLR0124
    return bool(value == kept) or not isinstance(value, int | float | Decimal | datetime)
