"""Files of a folder and of the folders in it, as Spark, Hive and DuckDB lay them out: `day=2024-05-01/part-0.parquet`.

What such names say is a column of all rows below: whole numbers if all are, else texts; null is
`__HIVE_DEFAULT_PARTITION__`. Files come in order of these values, then of their names. Names that begin with `_` or `.`
are of whoever writes, and are passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import pyarrow as pa

from slackwater.errors import PlanError, message

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

_NOTHING: Final = "__HIVE_DEFAULT_PARTITION__"
_LONGEST_NUMBER: Final = 18
"""Digits that certainly fit 64 bits."""


@dataclass(frozen=True)
class FoundFile:
    """A file, and what the names of its folders say of all of its rows."""

    path: Path
    values: tuple[str | int | None, ...]


@dataclass(frozen=True)
class Folder:
    """Files of the formats that were asked for, in order, and the columns that names of folders make."""

    files: tuple[FoundFile, ...]
    columns: pa.Schema

    @classmethod
    def of(cls, path: Path, endings: Collection[str]) -> Folder:
        """Look for files; a path that is no folder is a file."""
        if not path.is_dir():
            return cls((FoundFile(path, ()),), pa.schema([]))
        found = [(file, _texts(path, file)) for file in path.rglob("*") if file.is_file() and _is_meant(path, file)]
        found = [(file, texts) for file, texts in found if file.suffix in endings]
        _require_same(path, [tuple(texts) for _, texts in found])
        names = list(found[0][1]) if found else []
        numbers = {name for name in names if all(_is_whole(texts[name]) for _, texts in found)}
        files = [
            FoundFile(file, tuple(int(text) if text and name in numbers else text for name, text in texts.items()))
            for file, texts in found
        ]
        kinds = {name: pa.int64() if name in numbers else pa.string() for name in names}
        return cls(tuple(sorted(files, key=_place)), pa.schema(list(kinds.items())))

    def with_columns(self, schema: pa.Schema) -> pa.Schema:
        """The columns of the rows of files, and behind them those of the names of folders."""
        for name in self.columns.names:
            if name in schema.names:
                facts, hint = {"column": name}, "leave it out of the files, or name the folders otherwise"
                raise PlanError(message("files and names of their folders have the same column", facts, hint))
        return pa.schema([*schema, *self.columns])

    def completed(self, rows: pa.RecordBatch, file: FoundFile) -> pa.RecordBatch:
        """Rows of a file, with what the names of its folders say."""
        for field, value in zip(self.columns, file.values, strict=True):
            rows = rows.append_column(field, pa.repeat(pa.scalar(value, field.type), rows.num_rows))
        return rows


def _is_meant(folder: Path, file: Path) -> bool:
    return not any(part.startswith(("_", ".")) for part in file.relative_to(folder).parts)


def _texts(folder: Path, file: Path) -> dict[str, str | None]:
    """What the names of folders say, as texts."""
    parts = (part.partition("=") for part in file.relative_to(folder).parent.parts)
    return {unquote(name): None if text == _NOTHING else unquote(text) for name, equals, text in parts if equals}


def _is_whole(text: str | None) -> bool:
    """Whether a text is a whole number that is written in one way only; null is whatever the others are."""
    if text is None:
        return True
    digits = text.removeprefix("-")
    return digits.isdecimal() and len(digits) <= _LONGEST_NUMBER and str(int(text)) == text


def _require_same(path: Path, columns: list[tuple[str, ...]]) -> None:
    if len(set(columns)) > 1:
        first, other = (", ".join(one) or "none" for one in sorted(set(columns))[:2])
        facts = {"path": path, "columns": first, "elsewhere": other}
        raise PlanError(message("names of folders make other columns for some files", facts, "read them one by one"))


def _place(file: FoundFile) -> tuple[tuple[tuple[bool, str | int], ...], Path]:
    return tuple((value is not None, "" if value is None else value) for value in file.values), file.path
