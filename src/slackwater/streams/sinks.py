"""Where rows go: a table, a file."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet


class TableSink:
    """Keeps batches until they are wanted as one table."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._rows: list[pa.RecordBatch] = []

    def __call__(self, rows: pa.RecordBatch) -> None:
        """Keep some rows."""
        self._rows.append(rows)

    def table(self) -> pa.Table:
        """Return all rows so far; of no rows, the right columns. Copies nothing."""
        return pa.Table.from_batches(self._rows, schema=self._schema)


class ParquetSink:
    """Writes batches to one Parquet file that appears whole, or not at all.

    Rows go to a file with ".partial" at the end of its name. When all went well it takes the place of the file that was
    asked for; after a failure it stays, readable, with the rows that came before, and what was there before stays too.
    """

    def __init__(self, path: str | Path, schema: pa.Schema) -> None:
        self._path = Path(path)
        self._partial = self._path.with_name(self._path.name + ".partial")
        self._writer = pyarrow.parquet.ParquetWriter(self._partial, schema)

    def __call__(self, rows: pa.RecordBatch) -> None:
        """Write some rows."""
        self._writer.write_batch(rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._writer.close()
        if error is None:
            self._partial.replace(self._path)
        else:
            error.add_note(f"the rows before it are in {self._partial}")
