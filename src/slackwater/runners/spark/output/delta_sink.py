"""Delta tables as sinks: each micro-batch is one transaction, which the table remembers by the query and the number.

    asks which micro-batch the table has ── writes files ── commits: files and number, at once, or not at all

Delta compares the numbers of an application for whoever writes at the same time: of two drivers that are in one
micro-batch one commits, and the other one finds that it is there. It does not compare them for whoever comes later, so
the table is asked first. A few rows the driver writes itself; of many, tasks write the files (`delta_files.py`).
Whose the table is stands in its properties (`table_owners.py`). To change them is a transaction, too, which stops
whatever the former owner is about to commit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from slackwater.errors import PlanError, message
from slackwater.progress.clock import SystemClock
from slackwater.runners.spark.checkpoint.ownership import last_batch_begun
from slackwater.runners.spark.output.arrow_types import in_columns
from slackwater.runners.spark.output.delta_files import FILES_SPARK, WriteFiles, require_no_empty_text
from slackwater.runners.spark.output.delta_table import ATTEMPTS, DeltaTarget, deltalake_package
from slackwater.runners.spark.output.table_owners import (
    as_names,
    require_not_further,
    require_writer,
)
from slackwater.runners.spark.storage.places import LOCAL, Place, place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from slackwater.runners.spark.checkpoint.ownership import Run

_APPENDS: Final = "append"


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
    table: DeltaTarget | None = None
    new: bool = False
    """Whether there is no such table yet."""

    changes_hands: bool = False

    def claimed(self, session: SparkSession, run: Run) -> DeltaClaim:
        """See whether a run may write here; refuse it if not. Nothing is written yet."""
        place = self.sink.place(session)
        table = DeltaTarget.of(self, place, run)
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
        table = self.table
        with table.reaching():
            if self.new:
                table.create()
                table = table.fitted(table.open())  # somebody else may have been faster
            if self.changes_hands:
                table.take_over()
        return DeltaWriter(table)


@dataclass(frozen=True)
class DeltaWriter:
    """A table that a run writes to."""

    table: DeltaTarget

    why_as_text: ClassVar = True
    """Reasons in metrics are JSON: the columns of a table stay as they are when there is more to say."""

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
            deltalake_package().write_deltalake(found, rows, mode=_APPENDS, commit_properties=properties)

        if rows.num_rows:
            self._commit(commit, batch_id)
        return True

    def _commit(self, commit: Callable[[Any, Any], None], batch_id: int) -> None:
        """Commit a micro-batch, unless the table has it; look again when somebody else was faster."""
        delta = deltalake_package()
        number = delta.Transaction(self.table.app, batch_id)
        properties = delta.CommitProperties(app_transactions=[number])
        with self.table.reaching():
            for _ in range(ATTEMPTS):
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
