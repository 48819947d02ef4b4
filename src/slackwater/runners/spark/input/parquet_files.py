"""Parquet files that Spark finds and Python reads: their rows are packed without ever being rows of the JVM.

Spark's own file source keeps the book of which files belong to which micro-batch, and so a replay reads the same ones.
It hands over a path for each file, and the tasks that pack rows read it with Arrow:

    paths ──read and pack──> one row per chunk ──host──> ...
            mapInArrow

Of a file only those columns are read that are used. What is not in a file is null, or stands in the names of its
folders (`day=2024-01-01`), as for Spark itself. Steps that Spark could do natively are done by the operators.

Cost: two million rows of four columns are read and packed in 0.4 to 0.5 s by one task; as rows of Spark they keep two
tasks busy for 1.3 to 1.5 s. A file is read by one task.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Unpack
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.errors import PlanError, SourceFailed, message
from slackwater.runners.spark.compatibility import require_known_session
from slackwater.runners.spark.input.file_openers import ByArrow, opener_of
from slackwater.runners.spark.input.file_source_options import require_known_options
from slackwater.runners.spark.source import SparkFeed, columns_in_arrow, in_map_tasks
from slackwater.runners.spark.wire.packed_rows import CLOCK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from slackwater.events.schema import EventSchema
    from slackwater.plan.node import StepNode
    from slackwater.runners.spark.input.file_openers import FileOpener, FileSystem
    from slackwater.runners.spark.input.file_source_options import FileSourceOptions
    from slackwater.runners.spark.input.pack import Pack
    from slackwater.runners.spark.planning.shard_plan import InputPipeline
    from slackwater.runners.spark.source import ColumnTypes, Session

_FOUND: Final = "path string, modificationTime timestamp, length long, content binary"
"""What Spark knows of a file; contents are not read where they are not asked for."""

_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
_OLD_CALENDAR: Final = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
"""What Spark writes into files whose dates before 1582 are of another calendar."""


def parquet_files(
    session: Session,
    path: str,
    *,
    schema: ColumnTypes | None = None,
    streaming: bool = True,
    filesystem: FileSystem | None = None,
    **options: Unpack[FileSourceOptions],
) -> ParquetFiles:
    """Find the Parquet files of a folder. See `slackwater.parquet_files`."""
    require_known_options(options)
    require_known_session(session)
    opener = opener_of(path, filesystem)
    if schema is None:
        from pyspark.errors import AnalysisException

        try:
            schema = session.read.parquet(path).schema
        except AnalysisException as error:
            hint = 'name the columns, schema="at timestamp, ...", or wait for the first file'
            raise PlanError(
                message("there is no Parquet file to read the columns from", {"path": path}, hint)
            ) from error
    reader = session.readStream if streaming else session.read
    given: dict[str, Any] = dict(options)
    found = reader.format("binaryFile").schema(_FOUND).options(**given).load(path)
    frame = found.select("path", "content") if opener.takes_contents else found.select("path")
    return ParquetFiles("files", columns_in_arrow(session, schema), streaming, frame, opener=opener)


@dataclass(frozen=True)
class ParquetFiles(SparkFeed):
    """The rows of Parquet files; the frame has their paths, and their bytes where these are asked for."""

    opener: FileOpener = field(default=ByArrow(), compare=False)

    read_in_python = True

    def packed(self, pack: Pack, pipeline: InputPipeline) -> DataFrame:
        """The rows, packed; no step is left to Spark, for it does not see them."""
        assert self.frame is not None
        work = PackFiles(pack, columns_read(pipeline.source.schema, pipeline.steps), self.opener)
        return in_map_tasks(self.frame, pack, work)


def columns_read(schema: EventSchema, steps: Sequence[StepNode]) -> frozenset[str]:
    """Which columns of a source steps look at, or hand on; its times are always read."""
    read = frozenset((steps[-1].schema if steps else schema).payload.names)
    for step in reversed(steps):
        read = step.columns_read(read, step.inputs[0])
    return read.union(name for name in schema.read_from.names if name not in schema.payload.names)


@dataclass(frozen=True)
class PackFiles:
    """Reads files and packs their rows, for mapInArrow over their paths."""

    pack: Pack
    columns: frozenset[str]
    """The columns to be read; the others are null."""

    opener: FileOpener = field(default=ByArrow())

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield packed rows."""
        return self.pack(self._rows(batches))

    def _rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            paths, clocks = batch.column(0).to_pylist(), batch.column(batch.num_columns - 1)
            for number, path in enumerate(paths):
                content = batch.column(1)[number] if self.opener.takes_contents else None
                file = RowsOfFile(path, self.pack.schema.read_from, self.columns, opener=self.opener, content=content)
                rows = file.batches(self.pack.chunk_rows)
                yield from _clocked(rows, clocks[0]) if self.pack.needs_clock else rows


def _clocked(batches: Iterable[pa.RecordBatch], now: pa.Scalar) -> Iterator[pa.RecordBatch]:
    """Rows with the timestamp of the micro-batch that their file came with."""
    for rows in batches:
        yield rows.append_column(CLOCK, pa.repeat(now, rows.num_rows))


@dataclass(frozen=True)
class RowsOfFile:
    """The rows of a Parquet file, as they are wanted."""

    path: str
    """As Spark says it: with its scheme, and nothing in it encoded."""

    wanted: pa.Schema
    read: frozenset[str]
    """The columns that are used; the others are null."""

    opener: FileOpener = field(default=ByArrow(), kw_only=True)
    content: pa.Scalar | None = field(default=None, kw_only=True, repr=False)
    """Its bytes, if whoever opens it takes them."""

    def batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Read it in batches of so many rows at most, in the columns wanted."""
        try:
            with self._opened() as source, pq.ParquetFile(source, coerce_int96_timestamp_unit="us") as file:
                self._refuse_old_calendar(file.metadata)
                found = self._found(file)
                for batch in file.iter_batches(rows, columns=sorted(found.values())):
                    yield self._as_wanted(batch, found, _int96_columns(file.schema))
        except (pa.ArrowException, OSError) as cause:
            hint = "mend or remove the file; started again, the query goes on from its checkpoint"
            raise SourceFailed.unreadable(self.path, cause, hint) from cause

    def _opened(self) -> pa.NativeFile:
        return self.opener.opened(self.path, self.content)

    def _refuse_old_calendar(self, metadata: pq.FileMetaData) -> None:
        written = metadata.metadata or {}
        if any(sign in written for sign in _OLD_CALENDAR):
            hint = "let Spark read it: spark.readStream.parquet(...)"
            raise SourceFailed(message("a file has dates of the calendar before 1582", {"source": self.path}, hint))

    def _found(self, file: pq.ParquetFile) -> dict[str, str]:
        """The columns of the file, by the names they are wanted by, which need not be in the same case."""
        names = file.schema_arrow.names
        in_any_case = {name.lower(): name for name in names}
        return {
            name: name if name in names else in_any_case[name.lower()]
            for name in self.wanted.names
            if name in self.read and (name in names or name.lower() in in_any_case)
        }

    def _as_wanted(self, batch: pa.RecordBatch, found: dict[str, str], int96: frozenset[str]) -> pa.RecordBatch:
        columns = []
        for wanted in self.wanted:
            if wanted.name in found:
                column = batch.column(found[wanted.name])
                columns.append(self._cast(column, wanted, instants=found[wanted.name] in int96))
            else:
                columns.append(self._not_in_file(wanted, batch.num_rows))
        return pa.RecordBatch.from_arrays(columns, schema=self.wanted)

    def _cast(self, column: pa.Array, field: pa.Field, *, instants: bool) -> pa.Array:
        if column.type == field.type:
            return column
        both = pa.types.is_timestamp(column.type) and pa.types.is_timestamp(field.type)
        if both and not instants and (column.type.tz is None) != (field.type.tz is None):
            raise SourceFailed.other_columns(self.path, field, column.type)
        try:
            return column.cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
            raise SourceFailed.other_columns(self.path, field, f"{column.type} ({cause})") from cause

    def _not_in_file(self, field: pa.Field, rows: int) -> pa.Array:
        """A column of the value that stands in the names of the folders, if it does; else of nulls."""
        value = self._constants.get(field.name) if field.name in self.read else None
        if value is None or value == _NO_VALUE:
            return pa.nulls(rows, field.type)
        return pa.repeat(value if isinstance(value, pa.Scalar) else pa.scalar(value).cast(field.type), rows)

    @property
    def _constants(self) -> Mapping[str, Any]:
        """What is the same in all rows of the file."""
        return self._in_folders

    @cached_property
    def _in_folders(self) -> dict[str, str]:
        folders = (folder.partition("=") for folder in self.path.split("/")[:-1] if "=" in folder)
        return {unquote(name): unquote(value) for name, _, value in folders}


def _int96_columns(schema: pq.ParquetSchema) -> frozenset[str]:
    """The columns in which Spark writes instants, by default, without saying so."""
    columns = (schema.column(number) for number in range(len(schema)))
    return frozenset(column.path for column in columns if column.physical_type == "INT96")
