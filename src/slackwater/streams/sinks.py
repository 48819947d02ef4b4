"""Where rows go when they are not wanted as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyarrow.parquet

if TYPE_CHECKING:
    import pyarrow as pa


class ParquetSink:
    """Writes batches to one Parquet file; the file is whole and readable whenever it is closed."""

    def __init__(self, path: str | Path, schema: pa.Schema) -> None:
        self._writer = pyarrow.parquet.ParquetWriter(Path(path), schema)

    def __call__(self, rows: pa.RecordBatch) -> None:
        """Write some rows."""
        self._writer.write_batch(rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()
