"""Python mappings as Arrow batches, without losing a column in silence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from slackwater.errors import PlanError, SourceFailed, message


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
    try:
        return pa.RecordBatch.from_pylist(list(rows), schema=schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as cause:
        raise SourceFailed.unreadable(source, cause) from cause
