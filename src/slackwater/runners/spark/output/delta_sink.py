"""Delta tables as sinks: each micro-batch is one transaction, which the table remembers by the query and the number.

    asks which micro-batch the table has ── writes files ── commits: files and number, at once, or not at all

Delta compares the numbers of an application for whoever writes at the same time: of two drivers that are in one
micro-batch one commits, and the other one finds that it is there. It does not compare them for whoever comes later, so
the table is asked first. A few rows the driver writes itself; of many, tasks write the files (`delta_files.py`).
Whose the table is stands in its properties (`table_owners.py`). To change them is a transaction, too, which stops
whatever the former owner is about to commit.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import types as st

from slackwater.errors import PlanError, RunError, SlackwaterError, message
from slackwater.progress.clock import SystemClock
from slackwater.runners.spark.checkpoint.ownership import last_batch_begun
from slackwater.runners.spark.output.arrow_types import arrow_type, in_columns
from slackwater.runners.spark.output.delta_files import FILES_SPARK, WriteFiles, require_no_empty_text
from slackwater.runners.spark.output.table_owners import (
    as_names,
    refuse_types,
    require_columns,
    require_not_further,
    require_owner,
    require_writer,
    taken_over,
)
from slackwater.runners.spark.storage.places import LOCAL, Place, place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from slackwater.runners.spark.checkpoint.ownership import Run

_OWNER: Final = "slackwater.owner"
"""The property of a table that says which query writes there."""

_APPENDS: Final = "append"
_ATTEMPTS: Final = 5
"""How often a micro-batch is committed anew when somebody else has changed the table meanwhile."""

_PARTITIONS: Final = (
    st.StringType,
    st.ByteType,
    st.ShortType,
    st.IntegerType,
    st.LongType,
    st.DateType,
    st.BooleanType,
)
"""Types whose values name a partition in the same words for everybody."""

_RULES: Final = ("delta.constraints.", "delta.columnMapping.mode")
_RULES_OF_COLUMNS: Final = ("delta.invariants", "delta.generationExpression", "delta.identity.start")
_GO_ON: Final = "see to it; started again, the query goes on from its checkpoint"


@dataclass(frozen=True)
class DeltaSink:
    """A Delta table, to which each micro-batch is added in one transaction, exactly once.

    `pip install slackwater[delta]`; it takes neither Spark's Delta nor a JAR. Whatever version of the table is read has
    whole micro-batches only. A table that is not there is made when the query starts, with `partition_by`; one that is
    there must have the same columns. `storage_options` are those of the package `deltalake`, such as keys of an object
    store.

    A table has one query for each `writer`, which is a name; without one there is one query. A second one is refused,
    unless it takes the place of the first: `adopt` is the id of that one, which the refusal names. Others, who do not
    write by this library, may write there, too.

    >>> import slackwater as sw
    >>> from deltalake import DeltaTable
    >>> frame = spark.createDataFrame([(1, "a")], "at long, k string")
    >>> frame.write.mode("append").parquet(f"{folder}/in")
    >>> rows = sw.stream(spark.readStream.schema(frame.schema).parquet(f"{folder}/in"), time="at").sort(patience=5)
    >>> query = rows.start(
    ...     checkpoint=f"{folder}/checkpoint",
    ...     main=sw.DeltaSink(f"{folder}/table", partition_by="k"),
    ...     late=f"{folder}/late",
    ...     trigger={"availableNow": True},
    ...     at_end="flush",
    ...     shards=1,
    ... )
    >>> query.wait()
    True
    >>> DeltaTable(f"{folder}/table").to_pyarrow_table().to_pylist()
    [{'at': 1, 'k': 'a'}]
    """

    path: str | Path
    partition_by: str | Sequence[str] = ()
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    writer: str | None = None
    adopt: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", str(self.path))
        object.__setattr__(self, "partition_by", as_names(self.partition_by))
        require_writer(self.writer)

    def place(self, session: SparkSession) -> Place:
        """Where the table is."""
        return place_of(session, str(self.path))

    def described(self) -> str:
        """How it writes, in words."""
        facts = {"partition_by": ", ".join(self.partition_by), "writer": self.writer or ""}
        return ", ".join(["delta", *(f"{name}={value}" for name, value in facts.items() if value)])

    def for_rows(self, outputs: tuple[str, ...], columns: StructType) -> DeltaClaim:
        """The sink for the rows of some outputs."""
        return DeltaClaim(self, outputs, columns)


@dataclass(frozen=True)
class DeltaClaim:
    """A table that a run may have, for the rows of some outputs: `take()` it, and it writes there."""

    sink: DeltaSink
    outputs: tuple[str, ...]
    columns: StructType
    table: DeltaTableOf | None = None
    new: bool = False
    """Whether there is no such table yet."""

    changes_hands: bool = False

    def claimed(self, session: SparkSession, run: Run) -> DeltaClaim:
        """See whether a run may write here; refuse it if not. Nothing is written yet."""
        place = self.sink.place(session)
        table = DeltaTableOf.of(self, place, run)
        if place.scheme == LOCAL and not run.shared:
            facts, hint = {"table": place.address}, "name a place that client and server both reach"
            raise PlanError(
                message("a Delta table is written by the client, and Spark's files are elsewhere", facts, hint)
            )
        with table.reaching():
            found = table.open()
            if found is None:
                table.refuse_other_files()
        if found is not None:
            table = table.fitted(found)
            require_not_further(table.shown, table.last_batch(found), last_batch_begun(session, run))
        changes = table.changes_hands(None if found is None else table.owner_in(found))
        return replace(self, table=table, new=found is None, changes_hands=changes)

    def take(self, session: SparkSession) -> DeltaWriter:  # noqa: ARG002 - as for folders
        """Make the table if there is none, and write down whose it is."""
        assert self.table is not None
        with self.table.reaching():
            if self.new:
                self.table.create()
            if self.changes_hands:
                self.table.take_over()
        return DeltaWriter(self.table)


@dataclass(frozen=True)
class DeltaTableOf:
    """A table, as one run writes to it."""

    uri: str
    shown: str
    """Its address in messages."""

    storage_options: Mapping[str, str] = field(repr=False)
    columns: pa.Schema
    partition_by: tuple[str, ...]
    writer: str | None
    adopt: str | None
    run: Run
    app: str
    """By which the table remembers the number of the last micro-batch: Delta's application id."""

    @classmethod
    def of(cls, claim: DeltaClaim, place: Place, run: Run) -> DeltaTableOf:
        """Refuse what no Delta table can be."""
        sink, columns = claim.sink, claim.columns
        kinds = {column.name: arrow_type(column.dataType) for column in columns}
        refuse_types("Delta", columns, kinds, "select() it without them, or bring them into another type")
        partition_by = as_names(sink.partition_by)
        require_columns("partition_by", partition_by, columns)
        for name in partition_by:
            kind = columns[name].dataType
            if not isinstance(kind, _PARTITIONS) or len(partition_by) == len(columns):
                facts = {"column": name, "type": kind.simpleString(), "columns": ", ".join(columns.names)}
                hint = "partition by texts, whole numbers, dates or booleans, and leave a column that is none"
                raise PlanError(message("a Delta table cannot be partitioned so", facts, hint))
        if place.scheme == LOCAL and "%" in place.path:
            facts, hint = {"path": place.path}, "write to a folder without % in its path"
            raise PlanError(message("the package deltalake cannot write to this path", facts, hint))
        return cls(
            place.path if place.scheme == LOCAL else place.address,
            place.address,
            dict(sink.storage_options),
            pa.schema(list(kinds.items())),
            partition_by,
            sink.writer,
            sink.adopt,
            run,
            f"slackwater/{run.query}/{','.join(claim.outputs)}",
        )

    @contextmanager
    def reaching(self) -> Iterator[None]:
        """Say in one sentence which table could not be read or written."""
        try:
            yield
        except SlackwaterError:
            raise
        except Exception as error:
            facts = {
                "table": self.shown,
                "cause": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}",
            }
            raise RunError(message("a Delta table cannot be written", facts, _GO_ON)) from error

    def open(self) -> Any:
        """The newest version; None if there is no table."""
        delta = _deltalake()
        try:
            return delta.DeltaTable(self.uri, storage_options=dict(self.storage_options))
        except delta.exceptions.TableNotFoundError:
            return None

    def require(self) -> Any:
        """The newest version of a table that must be there, and be ours."""
        table = self.open()
        if table is None:
            hint = "restore it, or start anew with another checkpoint"
            raise RunError(message("the Delta table of a running query is gone", {"table": self.shown}, hint))
        owner = self.owner_in(table)
        if owner != self.run.query:
            raise taken_over(self.shown, owner, self.run)
        return table

    @property
    def owned_by(self) -> str:
        """The name of the property that says whose it is."""
        return _OWNER if self.writer is None else f"{_OWNER}.{self.writer}"

    def owner_in(self, table: Any) -> str | None:
        """The query whose table it is."""
        return table.metadata().configuration.get(self.owned_by)

    def changes_hands(self, owner: str | None) -> bool:
        """Whether it is to become another query's; refused if that may not be."""
        who = {"adopt": self.adopt, "writer": self.writer}
        return require_owner("slackwater.DeltaSink", self.shown, self.run, owner, **who)

    def last_batch(self, table: Any) -> int | None:
        """The last micro-batch that the table has of this query and these outputs."""
        return table.transaction_version(self.app)

    def create(self) -> None:
        """Make the table, with no rows."""
        delta = _deltalake()
        schema = delta.Schema.from_arrow(self.columns)
        options, parts = dict(self.storage_options), list(self.partition_by)
        delta.DeltaTable.create(self.uri, schema, partition_by=parts, storage_options=options, mode="ignore")

    def take_over(self) -> None:
        """Write down whose the table is. Refused if it has become another's since it was looked at."""
        delta = _deltalake()
        for _ in range(_ATTEMPTS):
            table = self.open()
            if not self.changes_hands(self.owner_in(table)):
                return
            try:
                table.alter.set_table_properties({self.owned_by: self.run.query}, raise_if_not_exists=False)
            except delta.exceptions.CommitFailedError:
                continue
            return
        raise self.busy()

    def busy(self) -> RunError:
        """What is raised when others change the table all the time."""
        facts, hint = (
            {"table": self.shown, "attempts": _ATTEMPTS},
            "started again, the query goes on from its checkpoint",
        )
        return RunError(message("others changed a Delta table whenever a micro-batch was to be committed", facts, hint))

    def fitted(self, table: Any) -> DeltaTableOf:
        """Refuse a table of other columns, other partitions, or with rules that nobody here would keep."""
        metadata, fields = table.metadata(), table.schema().fields
        ours = _deltalake().Schema.from_arrow(self.columns).fields
        wanted, found = ({one.name: _type_of(one) for one in some} for some in (ours, fields))
        if wanted != found or not all(one.nullable for one in fields):
            facts = {"table": self.shown, "its columns": _named(fields), "the rows'": _named(ours)}
            hint = "write to another table, or select() what it has"
            raise PlanError(message("a Delta table that is there has other columns", facts, hint))
        parts = tuple(metadata.partition_columns)
        if self.partition_by not in {(), parts}:
            facts = {
                "table": self.shown,
                "its": ", ".join(parts) or "none",
                "partition_by": ", ".join(self.partition_by),
            }
            hint = "leave partition_by= out, or write to another table"
            raise PlanError(message("a Delta table that is there has other partition columns", facts, hint))
        rules = [name for name in metadata.configuration if name.startswith(_RULES)]
        rules += [f"{one.name}: {name}" for one in fields for name in one.metadata if name in _RULES_OF_COLUMNS]
        if rules:
            facts, hint = {"table": self.shown, "rules": ", ".join(rules)}, "write to a table without them"
            raise PlanError(message("a Delta table has rules for its rows that this sink does not keep", facts, hint))
        return replace(self, partition_by=parts)

    def refuse_other_files(self) -> None:
        """Refuse a folder that has something in it and is no Delta table."""
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import FileSelector, PyFileSystem

        try:
            handler = DeltaStorageHandler(self.uri, dict(self.storage_options))
        except _deltalake().exceptions.TableNotFoundError:
            return  # there is no such folder
        infos = PyFileSystem(handler).get_file_info(FileSelector("", allow_not_found=True))
        seen = sorted(name for name in (info.base_name for info in infos) if not name.startswith(("_", ".")))
        if seen:
            facts = {"folder": self.shown, "has": ", ".join(seen[:3])}
            hint = "write to another folder, or empty this one"
            raise PlanError(message("the folder of a Delta table has something in it and no table", facts, hint))


@dataclass(frozen=True)
class DeltaWriter:
    """A table that a run writes to."""

    table: DeltaTableOf

    def has(self, session: SparkSession, batch_id: int) -> bool:  # noqa: ARG002 - as for folders
        """Whether the table has a micro-batch. Refuse to say for a table that has gone to another query."""
        with self.table.reaching():
            return self._has(self.table.require(), batch_id)

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Let tasks write the rows of a micro-batch, and commit their files."""
        table = self.table
        to_files = WriteFiles(table.uri, table.storage_options, table.columns, table.partition_by)
        files = rows.mapInArrow(to_files, FILES_SPARK).collect()
        written_at = SystemClock().now() // 1_000

        def commit(found: Any, properties: Any) -> None:
            actions = [_add_action(file, written_at) for file in files]
            parts = list(table.partition_by)
            found.create_write_transaction(actions, _APPENDS, found.schema(), parts, commit_properties=properties)

        if files:
            self._commit(commit, batch_id)

    def write_few(self, tables: Sequence[pa.Table], columns: StructType, session: SparkSession, batch_id: int) -> bool:  # noqa: ARG002 - as for folders
        """The same for a few rows that the driver has; say whether it was done. If not, it is left to Spark."""
        rows = in_columns(tables, self.table.columns)
        if rows is None:
            return False
        require_no_empty_text(rows, self.table.partition_by)

        def commit(found: Any, properties: Any) -> None:
            _deltalake().write_deltalake(found, rows, mode=_APPENDS, commit_properties=properties)

        if rows.num_rows:
            self._commit(commit, batch_id)
        return True

    def _commit(self, commit: Callable[[Any, Any], None], batch_id: int) -> None:
        """Commit a micro-batch, unless the table has it; look again when somebody else was faster."""
        delta = _deltalake()
        number = delta.Transaction(self.table.app, batch_id)
        properties = delta.CommitProperties(app_transactions=[number])
        with self.table.reaching():
            for _ in range(_ATTEMPTS):
                found = self.table.require()
                if self._has(found, batch_id):
                    return
                try:
                    commit(found, properties)
                except delta.exceptions.CommitFailedError:
                    continue
                return
        raise self.table.busy()

    def _has(self, found: Any, batch_id: int) -> bool:
        last = self.table.last_batch(found)
        return last is not None and last >= batch_id


def _add_action(file: Any, written_at: int) -> Any:
    import json

    from deltalake.transaction import AddAction

    return AddAction(file.path, file.size, json.loads(file.partition), written_at, data_change=True, stats=file.stats)


def _type_of(column: Any) -> str:
    return str(column.type)


def _named(fields: Sequence[Any]) -> str:
    return ", ".join(f"{one.name} {one.type}{'' if one.nullable else ' not null'}" for one in fields)


def _deltalake() -> Any:
    try:
        import deltalake
        import deltalake.exceptions
    except ImportError as error:
        facts, hint = {"missing": error.name}, "pip install 'slackwater[delta]'"
        raise PlanError(message("a Delta table needs the package deltalake", facts, hint)) from error
    return deltalake
