"""Parquet, CSV and JSON-lines files as feeds, rows in file order; a folder is read file by file, by name."""

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
from slackwater.sources.readers import ReadFeed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

JSON_BLOCK_LINES = 10_000
"""How many lines of a JSON-lines file are parsed at once; the first block decides the types."""


def from_path(path: Path, name: str | None = None) -> ReadFeed:
    """Feed a file, or all files of one format in a folder."""
    files = sorted(file for file in path.iterdir() if file.suffix in _FORMATS) if path.is_dir() else [path]
    if not files or not all(file.exists() for file in files):
        raise PlanError(message("there is no such file, or nothing readable in this folder", {"path": path}))
    if len({file.suffix for file in files}) > 1 or files[0].suffix not in _FORMATS:
        facts = {"path": path, "formats": ", ".join(_FORMATS)}
        raise PlanError(message("the ending of these files does not name a known format", facts))
    read_schema, read = _FORMATS[files[0].suffix]
    with _naming(files[0]):
        schema = read_schema(files[0])

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            with _naming(file):
                if read_schema(file) != schema:
                    came = ", ".join(map(str, read_schema(file)))
                    raise SourceFailed.other_columns(file, ", ".join(map(str, schema)), came)
                yield from read(file, schema)

    return ReadFeed(name or path.name, schema, batches)


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
}
