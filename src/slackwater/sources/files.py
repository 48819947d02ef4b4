"""Parquet, CSV and JSON-lines files as feeds, rows in file order; a folder is read file by file (`folders.py`).

A folder that is a Delta table is read as one, and a file of DuckDB if it has one table.
"""

from __future__ import annotations

import io
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from slackwater.errors import PlanError, SourceFailed, message
from slackwater.sources.delta import from_delta_path, is_delta_table
from slackwater.sources.duckdb_tables import from_duckdb, is_duckdb_file
from slackwater.sources.folders import Folder
from slackwater.sources.readers import ReadFeed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

JSON_BLOCK_LINES = 10_000
"""How many lines of a JSON-lines file are parsed at once; the first block decides the types."""


def from_path(path: Path, name: str | None = None) -> ReadFeed:
    """Feed a file, all files of one format in a folder, a Delta table, or the table of a file of DuckDB."""
    if is_delta_table(path):
        return from_delta_path(path, name)
    if is_duckdb_file(path):
        return from_duckdb(path, None)
    folder = Folder.of(path, _FORMATS)
    files = folder.files
    if not files or not all(file.path.exists() for file in files):
        raise PlanError(message("there is no such file, or nothing readable in this folder", {"path": path}))
    if len({file.path.suffix for file in files}) > 1 or files[0].path.suffix not in _FORMATS:
        facts = {"path": path, "formats": ", ".join(_FORMATS)}
        raise PlanError(message("the ending of these files does not name a known format", facts))
    read_schema, read = _FORMATS[files[0].path.suffix]
    with _naming(files[0].path):
        own = read_schema(files[0].path)
    schema = folder.with_columns(own)

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            with _naming(file.path):
                if read_schema(file.path) != own:
                    came = ", ".join(map(str, read_schema(file.path)))
                    raise SourceFailed.other_columns(file.path, ", ".join(map(str, own)), came)
                for rows in read(file.path, own):
                    yield folder.completed(rows, file)

    return ReadFeed(name or path.name, schema, batches, lambda: _rows_in([file.path for file in files]))


def _rows_in(files: list[Path]) -> int | None:
    """How many rows there are in files, where these say so."""
    if files[0].suffix != ".parquet":
        return None
    try:
        return sum(pa.parquet.read_metadata(file).num_rows for file in files)
    except (OSError, pa.ArrowException):
        return None  # it is refused where it is read, with the reason


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Say which file it was when Arrow cannot read one."""
    try:
        yield
    except (pa.ArrowException, OSError) as cause:
        raise SourceFailed.unreadable(file, cause) from cause


def _parquet_schema(file: Path) -> pa.Schema:
    return pa.parquet.read_schema(file).remove_metadata()


def _read_parquet(file: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with pa.parquet.ParquetFile(file) as parquet:
        for batch in parquet.iter_batches():
            yield batch.replace_schema_metadata(None).cast(schema)


def _csv_schema(file: Path) -> pa.Schema:
    with pa.csv.open_csv(file) as reader:
        return reader.schema


def _read_csv(file: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with pa.csv.open_csv(file, convert_options=pa.csv.ConvertOptions(column_types=schema)) as reader:
        yield from reader


def _json_schema(file: Path) -> pa.Schema:
    with file.open("rb") as lines:
        block = b"".join(islice(lines, JSON_BLOCK_LINES))
    return pa.json.read_json(io.BytesIO(block)).schema if block.strip() else pa.schema([])


def _read_json(file: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    options = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    with file.open("rb") as lines:
        while block := b"".join(islice(lines, JSON_BLOCK_LINES)):
            yield from pa.json.read_json(io.BytesIO(block), parse_options=options).to_batches()


_FORMATS: dict[str, tuple[Callable[[Path], pa.Schema], Callable[[Path, pa.Schema], Iterator[pa.RecordBatch]]]] = {
    ".parquet": (_parquet_schema, _read_parquet),
    ".csv": (_csv_schema, _read_csv),
    ".jsonl": (_json_schema, _read_json),
    ".ndjson": (_json_schema, _read_json),
    ".json": (_json_schema, _read_json),  # what Spark writes: a line for each row
}
