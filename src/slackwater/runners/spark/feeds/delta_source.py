"""Delta tables as sources: a micro-batch is some files of some versions.

    {"table": "55a4...", "version": 7, "file": 2, "whole": false}      comes next: the third file that version 7 added

A new query reads the table as it is, all files of the newest version (`whole`), and from then on what each version
adds. Files never change, so that the same offsets are the same rows for as long as the log and the files are kept. A
version that takes rows away is refused, unless an option says what becomes of it; so are new columns, and what is gone.
"""

from __future__ import annotations

import json
import posixpath
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

import pyarrow as pa
from pyspark.sql.datasource import DataSource, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from slackwater.errors import PlanError, SourceFailed, message
from slackwater.runners.spark.feeds.delta_log import DataFile, TableLog
from slackwater.runners.spark.feeds.options import GivenOptions
from slackwater.runners.spark.feeds.replayed import EndingReader, ReplayedReader, feed_of_source
from slackwater.runners.spark.input.parquet_files import RowsOfFile
from slackwater.runners.spark.storage.places import LOCAL, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from slackwater.runners.spark.feeds.delta_log import Commit
    from slackwater.runners.spark.feeds.replayed import At
    from slackwater.runners.spark.source import Session, SparkFeed

_FILES: Final = 1_000
"""How many files a micro-batch takes at most, unless somebody says otherwise: as Delta's own source."""

_ROWS: Final = 10_000
"""How many rows are read at once: as many as Spark takes for Arrow."""

_PART_BYTES: Final = 128 << 20
_OPENING_BYTES: Final = 4 << 20
"""How large the part of a task is, and what it costs to open a file, in bytes: as Spark's file source has it."""


class DeltaSourceOptions(TypedDict, total=False):
    """What `delta_table` takes besides its own parameters: names and meanings are those of Delta's own source."""

    startingVersion: int | str
    startingTimestamp: Any
    maxFilesPerTrigger: int
    maxBytesPerTrigger: int | str
    maxRowsPerTrigger: int
    maxVersionsPerTrigger: int
    ignoreDeletes: bool
    skipChangeCommits: bool


_KNOWN: Final = {*DeltaSourceOptions.__annotations__, "path", "storageOptions"}


@dataclass(frozen=True)
class _Position:
    """The next file of a table."""

    table: str
    version: int
    file: int = 0
    whole: bool = False
    """Whether all files of the version count, and not only those that it added."""

    @property
    def next_version(self) -> _Position:
        """Behind the last file of this one."""
        return replace(self, version=self.version + 1, file=0, whole=False)

    @property
    def place(self) -> tuple[int, bool, int]:
        """By which positions are compared: of one version the whole table comes alone."""
        return self.version, self.whole, self.file


@dataclass(frozen=True)
class _Limits:
    """How much a micro-batch takes at most; one file it takes in any case."""

    files: int | None = None
    bytes: int | None = None
    rows: int | None = None
    versions: int | None = None

    @classmethod
    def of(cls, options: GivenOptions) -> _Limits:
        """Read them; without any there is one of files."""
        found = cls(
            options.whole("maxFilesPerTrigger"),
            options.size("maxBytesPerTrigger"),
            options.whole("maxRowsPerTrigger"),
            options.whole("maxVersionsPerTrigger"),
        )
        return found if found != cls() else cls(_FILES)


@dataclass
class _Taken:
    """What a micro-batch has taken so far."""

    limits: _Limits
    files: int = 0
    bytes: int = 0
    rows: int = 0
    versions: int = 0

    def add(self, file: DataFile) -> bool:
        """Take one more file, if it may come along. One that does not say how many rows it has comes alone."""
        most = self.limits
        unknown = most.rows if file.rows is None else file.rows
        further = (
            (most.files, self.files + 1),
            (most.bytes, self.bytes + file.bytes),
            (most.rows, self.rows + (unknown or 0)),
        )
        if self.files and any(limit is not None and after > limit for limit, after in further):
            return False
        self.files, self.bytes, self.rows = (after for _, after in further)
        return True

    @property
    def full(self) -> bool:
        """Whether there may be no further version."""
        return self.limits.versions is not None and self.versions >= self.limits.versions


def delta_table(
    session: Session,
    path: str,
    *,
    streaming: bool = True,
    storage_options: Mapping[str, str] | None = None,
    **options: Unpack[DeltaSourceOptions],
) -> SparkFeed:
    """Read a Delta table. See `slackwater.delta_table`."""
    place = place_of(session, str(path))
    uri = place.path if place.scheme == LOCAL else place.address
    secrets = {"storageOptions": json.dumps(dict(storage_options))} if storage_options else {}
    return feed_of_source(
        session, DeltaSource, {**options, **secrets, "path": uri}, posixpath.basename(place.path), streaming=streaming
    )


class DeltaSource(DataSource):
    """The source `slackwater_delta`, once `spark.dataSource.register(sw.DeltaSource)` is called. See `delta_table`."""

    @classmethod
    def name(cls) -> str:
        """How Spark calls it."""
        return "slackwater_delta"

    @cached_property
    def chosen(self) -> GivenOptions:
        """The options, looked at."""
        given = GivenOptions("the Delta source", self.options)
        given.refuse_unknown(_KNOWN)
        given.refuse_both("startingVersion", "startingTimestamp")
        given.flag("ignoreDeletes")
        given.flag("skipChangeCommits")
        _Limits.of(given)
        _starting_version(given)
        given.instant("startingTimestamp")
        return given

    @property
    def log(self) -> TableLog:
        """The table."""
        path = self.chosen.required("path", "load(path)")
        return TableLog(path, json.loads(self.chosen.text("storageOptions") or "{}"))

    def schema(self) -> StructType:
        """The columns of the table as it is now."""
        return columns_of(self.log.table().schema().to_json())

    def streamReader(self, schema: StructType) -> DeltaReader:
        """A reader of versions."""
        return DeltaReader(self.log, schema, self.chosen)

    def reader(self, schema: StructType) -> EndingReader:
        """A reader of what there is now."""
        return EndingReader(self.streamReader(schema))


def columns_of(text: str) -> StructType:
    """The columns of a table, which Delta writes down as Spark does."""
    return StructType.fromJson(json.loads(text))


@dataclass(frozen=True)
class FilesOfTask(InputPartition):
    """Files that one task reads."""

    files: tuple[DataFile, ...]


class DeltaReader(ReplayedReader):
    """Reads the files of versions."""

    def __init__(self, log: TableLog, columns: StructType, options: GivenOptions) -> None:
        self._log = log
        self._columns = columns
        self._options = options
        self._limits = _Limits.of(options)
        self.limited = True
        self._table: str | None = None
        self._read: dict[tuple[int, bool], tuple[DataFile, ...]] = {}

    def beginning(self) -> At:
        """All that the table has, or where the options say."""
        table = self._log.table()
        newest, identity = table.version(), str(table.metadata().id)
        if self._last is not None:
            newest = min(newest, _Position(**self._last).version - 1)
        wanted, since = _starting_version(self._options), self._options.instant("startingTimestamp")
        if since is not None:
            version = self._log.first_since(round(since.timestamp() * 1_000), newest)
        elif wanted is None:
            return asdict(_Position(identity, newest, whole=True))
        else:
            version = newest + 1 if wanted == "latest" else int(wanted)
        if version > newest + 1:
            facts = {"path": self._log.uri, "startingVersion": version, "newest version": newest}
            hint = 'startingVersion="latest" begins with the next one'
            raise PlanError(message("a Delta table does not have this version yet", facts, hint))
        return asdict(_Position(identity, version))

    def reach(self, at: At, *, limited: bool, last: At | None) -> At:
        """Go from file to file, up to what the options or the end of the log allow."""
        position, stop = _Position(**at), None if last is None else _Position(**last).place
        taken = _Taken(self._limits if limited else _Limits())
        while (stop is None or position.place < stop) and not taken.full:
            files = self._files(position)
            if files is None:
                break
            for file in files[position.file :]:
                if not taken.add(file):
                    return asdict(position)
                position = replace(position, file=position.file + 1)
            position = position.next_version
            taken.versions += 1
        return asdict(position)

    def newest(self) -> At:
        """Behind the newest version."""
        table = self._log.table()
        return asdict(_Position(str(table.metadata().id), table.version() + 1))

    def parts(self, first: At, stop: At) -> list[FilesOfTask]:
        """The files between two positions, in tasks as large as Spark's own."""
        files: list[DataFile] = []
        position, end = _Position(**first), _Position(**stop)
        while position.place < end.place:
            some = self._files(position)
            if some is None:
                raise self._log.gone(position.version)
            same = (position.version, position.whole) == (end.version, end.whole)
            files += some[position.file : end.file if same else None]
            position = replace(position, file=end.file) if same else position.next_version
        self._read = {key: some for key, some in self._read.items() if key == (end.version, end.whole)}
        return list(_in_tasks(files))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of some files."""
        assert isinstance(partition, FilesOfTask)
        wanted = to_arrow_schema(self._columns, timezone="UTC")
        for file in partition.files:
            values = {name: _value(text, wanted.field(name).type) for name, text in file.parts.items()}
            rows = RowsOfTableFile(
                f"{self._log.uri}/{file.path}", wanted, frozenset(wanted.names), self._log, file, values
            )
            yield from rows.batches(_ROWS)

    def _files(self, position: _Position) -> tuple[DataFile, ...] | None:
        """The files that count of a version; None if it is not there yet."""
        self._require_same_table(position)
        key = position.version, position.whole
        if key not in self._read:
            if position.whole:
                self._read[key] = self._log.snapshot(position.version)
            else:
                commit = self._log.commit(position.version)
                if commit is None:
                    return None
                self._read[key] = self._added(commit)
        return self._read[key]

    def _require_same_table(self, position: _Position) -> None:
        """Refuse a table that was made anew at the same place."""
        if self._table is None:
            table = self._log.table()
            self._table = str(table.metadata().id)
            self._require_columns(table.schema().to_json(), table.version())
        if self._table != position.table:
            raise self._other_table(position.table, self._table)

    def _other_table(self, then: str, now: str) -> SourceFailed:
        facts = {"path": self._log.uri, "the checkpoint's": then, "the table's": now}
        hint = "put the table back, or start anew with another checkpoint"
        return SourceFailed(message("another Delta table is where that of the checkpoint was", facts, hint))

    def _added(self, commit: Commit) -> tuple[DataFile, ...]:
        """The files that a version has added, if it may be read."""
        if commit.table is not None and commit.table != self._table:
            raise self._other_table(str(self._table), commit.table)
        if commit.columns is not None:
            self._require_columns(commit.columns, commit.version)
        if not commit.removed:
            return commit.added
        skipped = self._options.flag("skipChangeCommits")
        if skipped or (not commit.added and self._options.flag("ignoreDeletes")):
            return ()
        facts = {"path": self._log.uri, "version": commit.version, "operation": commit.operation}
        if commit.added:
            hint = "skipChangeCommits=True goes on without what such versions change"
            raise SourceFailed(message("a version of a Delta table changes rows that are there already", facts, hint))
        hint = "ignoreDeletes=True goes on, and rows that were read stay read"
        raise SourceFailed(message("a version of a Delta table deletes rows", facts, hint))

    def _require_columns(self, text: str, version: int) -> None:
        """Refuse columns that would not be read, or not as they are; what is missing is null."""
        ours = {field.name.lower(): field for field in self._columns}
        for column in columns_of(text):
            known = ours.get(column.name.lower())
            if known is None or known.dataType != column.dataType:
                was = "none" if known is None else known.dataType.simpleString()
                facts = {"path": self._log.uri, "version": version, "column": column.name}
                facts |= {"its type": column.dataType.simpleString(), "the query's": was}
                hint = (
                    "start the query again, with a DataFrame made anew; a plan that hands on all columns goes on from"
                )
                hint += " its checkpoint only if that DataFrame select()s those that it had"
                raise SourceFailed(message("a Delta table has got other columns than the query reads", facts, hint))


@dataclass(frozen=True)
class RowsOfTableFile(RowsOfFile):
    """The rows of a file of a table."""

    log: TableLog
    file: DataFile
    values: dict[str, Any]

    def batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Read it; say whose doing it is if it is gone."""
        try:
            yield from super().batches(rows)
        except SourceFailed as failure:
            if isinstance(failure.__cause__, FileNotFoundError):
                hint = (
                    "start anew with another checkpoint; VACUUM must keep files for as long as a query may stand still"
                )
                raise SourceFailed(
                    message("a file of a Delta table is gone before it was read", {"file": self.path}, hint)
                ) from failure
            raise

    def _opened(self) -> pa.NativeFile:
        return self.log.files.open_input_file(self.file.path)

    @property
    def _constants(self) -> dict[str, Any]:
        return self.values


def _in_tasks(files: Sequence[DataFile]) -> Iterator[FilesOfTask]:
    """Put files that follow each other together, up to the size of a task."""
    some: list[DataFile] = []
    for file in files:
        if some and sum(one.bytes + _OPENING_BYTES for one in [*some, file]) > _PART_BYTES:
            yield FilesOfTask(tuple(some))
            some = []
        some.append(file)
    if some:
        yield FilesOfTask(tuple(some))


def _starting_version(options: GivenOptions) -> str | None:
    """The option, if it can be read: a number, or the word latest."""
    found = options.text("startingVersion")
    if found is None or found.isdecimal():
        return found
    if found.lower() != "latest":
        raise options.refused("startingVersion", "a version, or latest")
    return "latest"


def _value(value: Any, kind: pa.DataType) -> Any:
    """The value of a partition column: a text where it is from the log, in which times are in UTC."""
    if value is None or value == "":
        return pa.scalar(None, kind)
    if not isinstance(value, str):
        return pa.scalar(value, kind)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        text = value.replace("T", " ").removesuffix("Z")
        return pa.scalar(text).cast(pa.timestamp("us")).cast(pa.int64()).cast(kind)
    return pa.scalar(value).cast(kind)
