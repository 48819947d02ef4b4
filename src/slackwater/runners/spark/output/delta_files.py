"""Parquet files that tasks write into a Delta table, for the driver to commit: until then nobody reads them.

A task writes a file for each value of the partition columns, under a name that nobody else takes, so that a task that
is done twice leaves a file that no version of the table names; `VACUUM` removes such files.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.errors import RunError, message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

FILES_SPARK: Final = "path string, size long, stats string, partition string"
"""What tasks say of the files that they wrote."""

_FILES: Final = pa.schema({"path": pa.string(), "size": pa.int64(), "stats": pa.string(), "partition": pa.string()})
_MILLISECOND: Final = "millisecond"
"""Finer times Delta does not keep of a file."""

_YEAR: Final = re.compile(r"\d{4}-")
"""How times begin that all readers of a table know; years below 0 have a sign, those above 9999 more digits."""


@dataclass(frozen=True)
class WriteFiles:
    """Writes rows to files of a table and yields what they are, for mapInArrow."""

    uri: str
    storage_options: Mapping[str, str] = field(repr=False)
    schema: pa.Schema
    partition_by: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one batch, with a row for each file."""
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        files: Any = PyFileSystem(DeltaStorageHandler(self.uri, dict(self.storage_options)))
        open_files: dict[str, _OpenFile] = {}
        try:
            for batch in batches:
                rows = pa.Table.from_batches([batch]).cast(self.schema)
                for partition, part in parts_of(rows, self.partition_by):
                    key = json.dumps(partition)
                    if key not in open_files:
                        open_files[key] = _OpenFile(files, part.schema, key)
                    open_files[key].write(part)
        finally:
            for one in open_files.values():
                one.close()
        found = [one.described() for one in open_files.values()]
        yield pa.RecordBatch.from_pylist(found, schema=_FILES)


def parts_of(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """The rows of each value of some columns, in their order and without these columns, and the value as Delta has it.

    >>> rows = pa.table({"day": [2, 1, 2], "n": [10, 20, 30]})
    >>> [(value, part["n"].to_pylist()) for value, part in parts_of(rows, ["day"])]
    [({'day': '2'}, [10, 30]), ({'day': '1'}, [20])]
    """
    if not columns:
        if rows.num_rows:
            yield {}, rows
        return
    numbered = rows.select(list(columns)).append_column("#", pa.array(range(rows.num_rows), pa.int64()))
    numbered = numbered.rename_columns([*map(str, range(len(columns))), "#"])
    grouped = numbered.group_by(numbered.column_names[:-1], use_threads=False).aggregate([("#", "list")])
    left = rows.drop_columns(list(columns))
    for group in grouped.to_pylist():
        values = {name: _as_partition(name, group[str(place)]) for place, name in enumerate(columns)}
        yield values, left.take(pa.array(group["#_list"], pa.int64()))


def require_no_empty_text(rows: pa.Table, columns: Sequence[str]) -> None:
    """Refuse rows whose place among the partitions Delta could not name."""
    for name in columns:
        if pa.types.is_string(rows.schema.field(name).type) and pc.any(pc.equal(rows[name], "")).as_py():
            raise _empty_text(name)


def _as_partition(name: str, value: Any) -> str | None:
    if value == "":
        raise _empty_text(name)
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _empty_text(name: str) -> RunError:
    hint = "put another text in its place, or partition by another column"
    return RunError(
        message("an empty text in a partition column would be read as null by Delta", {"column": name}, hint)
    )


class _OpenFile:
    """One file, and what is known of its rows."""

    def __init__(self, files: Any, schema: pa.Schema, partition: str) -> None:
        self._files, self._partition = files, partition
        self._path = f"part-{uuid.uuid4().hex}.snappy.parquet"
        self._stream = files.open_output_stream(self._path)
        self._writer = pq.ParquetWriter(self._stream, schema, compression="snappy")
        self._stats = ColumnStats()

    def write(self, rows: pa.Table) -> None:
        """Write some rows."""
        self._writer.write_table(rows)
        self._stats.add(rows)

    def close(self) -> None:
        """Write the end of the file."""
        self._writer.close()
        self._stream.close()

    def described(self) -> dict[str, Any]:
        """What the driver has to know to commit it."""
        size = self._files.get_file_info(self._path).size
        return {"path": self._path, "size": size, "stats": self._stats.as_json(), "partition": self._partition}


class ColumnStats:
    """How many rows and nulls a file has, and between which values whole numbers and times lie, as Delta wants it.

    >>> stats = ColumnStats()
    >>> stats.add(pa.table({"n": [2, None, 7], "w": ["a", "b", None]}))
    >>> stats.as_json()
    '{"numRecords": 3, "nullCount": {"n": 1, "w": 1}, "minValues": {"n": 2}, "maxValues": {"n": 7}}'
    """

    def __init__(self) -> None:
        self._rows = 0
        self._nulls: dict[str, int] = {}
        self._bounds: dict[str, tuple[pa.Scalar, pa.Scalar]] = {}

    def add(self, rows: pa.Table) -> None:
        """Count some rows."""
        self._rows += rows.num_rows
        for column in rows.schema:
            values = rows[column.name]
            if pa.types.is_nested(column.type):
                continue
            self._nulls[column.name] = self._nulls.get(column.name, 0) + values.null_count
            if pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type):
                before = self._bounds.get(column.name, ())
                bounds = pc.min_max(pa.chunked_array([*values.chunks, pa.array(before, column.type)], column.type))
                self._bounds[column.name] = (bounds["min"], bounds["max"])

    def as_json(self) -> str:
        """The text of an add action."""
        bounds = {name: _as_written(*both) for name, both in self._bounds.items() if both[0].is_valid}
        known = {name: both for name, both in bounds.items() if both is not None}
        facts = {
            "numRecords": self._rows,
            "nullCount": self._nulls,
            "minValues": {name: both[0] for name, both in known.items()},
            "maxValues": {name: both[1] for name, both in known.items()},
        }
        return json.dumps(facts)


def _as_written(least: pa.Scalar, most: pa.Scalar) -> tuple[Any, Any] | None:
    """Bounds as JSON has them: times rounded so that they hold. None where a year has not four digits."""
    if not pa.types.is_timestamp(least.type):
        return least.as_py(), most.as_py()
    try:
        rounded = pc.floor_temporal(least, unit=_MILLISECOND), pc.ceil_temporal(most, unit=_MILLISECOND)
        coarse = pa.timestamp("ms", least.type.tz)
        first, last = (str(pc.cast(one.cast(coarse), pa.string())).replace(" ", "T") for one in rounded)
    except pa.ArrowInvalid:
        return None
    return (first, last) if _YEAR.match(first) and _YEAR.match(last) else None
