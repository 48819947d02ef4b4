"""Tables and iterables as feeds."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slackwater.errors import PlanError, SourceFailed, message
from slackwater.sources.readers import ReadFeed, ReadOnce
from slackwater.sources.rows import batch_of_rows, schema_of_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROWS_PER_CHUNK = 1_000
"""How many Python rows become one Arrow batch: large enough to amortise the conversion, small enough to look ahead."""


def from_table(table: pa.Table | pa.RecordBatch, name: str) -> ReadFeed:
    """Feed the rows of a table or of a batch, in their order, without copying."""
    table = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
    return ReadFeed(name, table.schema, table.to_batches, lambda: table.num_rows)


def from_pandas(frame: Any, name: str) -> ReadFeed:
    """Feed the rows of a pandas frame, in their order; its index is left out."""
    return from_table(pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None), name)


def from_reader(reader: pa.RecordBatchReader, name: str) -> ReadFeed:
    """Feed what a one-way Arrow reader gives."""
    return ReadFeed(name, reader.schema, ReadOnce(reader, name))


def from_rows(rows: Iterable[Mapping[str, Any]], name: str, schema: pa.Schema | None = None) -> ReadFeed:
    """Feed mappings such as {"at": 3, "x": "a"}.

    Without a schema, the first thousand rows decide the columns and types, and are read when the stream is made.
    A list can be read again and again, an iterator once.
    """
    iterator = iter(rows)
    try:
        # With a schema nothing needs to be read before the stream runs.
        first = list(islice(iterator, ROWS_PER_CHUNK)) if schema is None else []
    except Exception as cause:
        raise SourceFailed.unreadable(name, cause) from cause
    if schema is None and not first:
        hint = "pass schema=pa.schema(...): there is no row to learn the columns from"
        raise PlanError(message("this source has no rows and no schema", {"source": name}, hint))
    known = schema_of_rows(first, name) if schema is None else schema
    if isinstance(rows, list | tuple):
        return ReadFeed(name, known, lambda: _chunks(iter(rows), known, name), lambda: len(rows))
    return ReadFeed(name, known, ReadOnce(_chunks(chain(first, iterator), known, name), name))


def _chunks(rows: Iterator[Mapping[str, Any]], schema: pa.Schema, name: str) -> Iterator[pa.RecordBatch]:
    while chunk := list(islice(rows, ROWS_PER_CHUNK)):
        yield batch_of_rows(chunk, schema, name)
