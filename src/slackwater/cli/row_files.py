"""Where rows go in process: Parquet, CSV or JSON lines, a file that appears when it is whole, or the standard output.

Rows are written to a file with ".partial" at the end of its name, which takes the place of the one that was asked for
when all went well. After a failure, or Ctrl-C, it stays, with the rows that came before.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from slackwater.errors import PlanError, RunError, message

if TYPE_CHECKING:
    from collections.abc import Iterator

STANDARD_OUTPUT: Final = "-"
"""The place that is no file."""

FORMATS: Final = {
    ".parquet": "parquet", ".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
}  # fmt: skip
"""What the ending of a file says of how it is written."""

_LINES_AT_ONCE: Final = 10_000


class RowPlace(Protocol):
    """Takes the rows of an output, and is ended when there are no more."""

    shown: str
    """What it is called."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Take some rows."""
        ...

    def finish(self) -> None:
        """Let what was written appear."""
        ...

    def abandon(self) -> str:
        """Stop in the middle; say where the rows are that were written."""
        ...


def format_of(place: str, asked: str | None) -> str:
    """How a file is written: as was asked for, or as its ending says."""
    if asked is not None or place == STANDARD_OUTPUT:
        return asked or "jsonl"
    ending = Path(place).suffix
    if ending not in FORMATS:
        facts, hint = {"file": place, "endings": ", ".join(FORMATS)}, "name one of these, or say --format"
        raise PlanError(message("the ending of a file does not say how it is written", facts, hint))
    return FORMATS[ending]


def row_place(place: str, asked: str | None, schema: pa.Schema) -> RowPlace:
    """Where rows of some columns go. A file is begun at once, so that a mistake shows before anything is read."""
    form = format_of(place, asked)
    if form == "csv":
        _refuse_nested(place, schema)
    if place == STANDARD_OUTPUT:
        if form == "parquet":
            facts, hint = {"format": form}, "name a file by --output, or say --format jsonl"
            raise PlanError(message("Parquet is for files, not for the standard output", facts, hint))
        return _StandardOutput(form, schema)
    return _RowFile(Path(place), form, schema)


class _StandardOutput:
    """Lines on the standard output, as soon as there are some."""

    shown = "the standard output"

    def __init__(self, form: str, schema: pa.Schema) -> None:
        self._form = form
        self._schema = schema
        self._has_header = False

    def write(self, rows: pa.RecordBatch) -> None:
        """Print rows."""
        if self._form == "jsonl":
            sys.stdout.writelines(json_lines(rows))
        else:
            text = pa.BufferOutputStream()
            options = pa.csv.WriteOptions(include_header=not self._has_header)
            pa.csv.write_csv(rows, text, options)
            sys.stdout.write(text.getvalue().to_pybytes().decode())
        self._has_header = True
        sys.stdout.flush()

    def finish(self) -> None:
        """Print the names of columns where there was no row."""
        if not self._has_header and self._form == "csv":
            self.write(pa.RecordBatch.from_pylist([], schema=self._schema))

    def abandon(self) -> str:
        """What was printed stays."""
        return self.shown


class _RowFile:
    """A file that appears whole, or not at all."""

    def __init__(self, path: Path, form: str, schema: pa.Schema) -> None:
        self.shown = str(path)
        self._path = path
        self._partial = path.with_name(f"{path.name}.partial")
        try:
            if path.is_dir():
                raise IsADirectoryError(None, "this is a folder")
            self._file: IO[bytes] = self._partial.open("wb")
        except OSError as error:
            raise _unwritable(path, error) from error
        self._lines = form == "jsonl"
        # Arrow has no writer of JSON.
        self._writer: Any = self._file if self._lines else _WRITERS[form](self._file, schema)

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows."""
        try:
            if self._lines:
                self._writer.writelines(line.encode() for line in json_lines(rows))
            else:
                self._writer.write_batch(rows)
            self._file.flush()  # whoever looks on sees it
        except OSError as error:
            raise _unwritable(self._path, error) from error

    def finish(self) -> None:
        """Let it take the place of what was there."""
        try:
            self._close()
            self._partial.replace(self._path)
        except OSError as error:
            raise _unwritable(self._path, error) from error

    def abandon(self) -> str:
        """Leave what was written beside what was asked for."""
        with suppress(OSError):
            self._close()
        return str(self._partial)

    def _close(self) -> None:
        self._writer.close()
        self._file.close()


_WRITERS: Final = {"parquet": pa.parquet.ParquetWriter, "csv": pa.csv.CSVWriter}


def json_lines(rows: pa.RecordBatch) -> Iterator[str]:
    """A line of JSON for each row; times are written as in messages, and what JSON has no numbers for is null.

    >>> at = pa.array([0, None]).cast(pa.timestamp("us", "UTC"))
    >>> print(*json_lines(pa.record_batch({"at": at, "x": [1.5, float("nan")]})), sep="", end="")
    {"at": "1970-01-01T00:00:00.000000Z", "x": 1.5}
    {"at": null, "x": null}
    """
    for start in range(0, rows.num_rows, _LINES_AT_ONCE):
        part = rows.slice(start, _LINES_AT_ONCE)
        values = [_for_json(column).to_pylist() for column in part.columns]
        for row in zip(*values, strict=True):
            yield json.dumps(dict(zip(part.schema.names, row, strict=True)), ensure_ascii=False, default=_text) + "\n"


def _for_json(column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_timestamp(kind):
        return pc.replace_substring(column.cast(pa.string()), " ", "T", max_replacements=1)
    if pa.types.is_temporal(kind):
        return column.cast(pa.string())
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_finite(column), column, pa.scalar(None, kind))
    return column


def _text(value: Any) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def _refuse_nested(place: str, schema: pa.Schema) -> None:
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if nested:
        facts, hint = {"file": place, "columns": ", ".join(nested)}, "write Parquet, or say --format jsonl"
        raise PlanError(message("CSV has no lists and no structures", facts, hint))


def _unwritable(path: Path, error: OSError) -> RunError:
    hint = "name a file in a folder that is there, and that you may write to"
    return RunError(message("rows cannot be written", {"file": path, "cause": error.strerror or error}, hint))
