"""Tables of PostgreSQL as sinks: each micro-batch is one transaction, together with its number.

    slackwater_owners   table_name, writer → query, run, epoch           whose a table is; locked by who writes to it
    slackwater_batches  table_name, query, outputs → batch               the last micro-batch that it has

Both stand in the schema of the table. A micro-batch locks the row of the owner, looks whether it still is this run, and
whether the table has the number already; then rows and number are written, and committed at once. So a number that
comes again changes nothing, and a driver that was thought dead finds another run than its own. A new start that finds
the row locked by an older driver of the same query ends the session of that one.

Rows are copied right into the table (COPY). With a key they are copied to a temporary table first, and the newest row
of each key replaces the one that is there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from slackwater.errors import PlanError, RunError, message
from slackwater.runners.spark.checkpoint.ownership import last_batch_begun
from slackwater.runners.spark.output.arrow_types import in_columns
from slackwater.runners.spark.output.postgres_table import PostgresTable
from slackwater.runners.spark.output.table_owners import (
    as_names,
    require_not_further,
    require_writer,
)
from slackwater.runners.spark.wire.arrow_bytes import from_buffer, to_buffer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from slackwater.runners.spark.checkpoint.ownership import Run


@dataclass(frozen=True)
class PostgresSink:
    """A table of PostgreSQL, to which each micro-batch is written in one transaction, exactly once.

    `pip install slackwater[postgres]`. `uri` is a connection string of libpq, which also reads its environment and
    password file. Without `key` rows are appended. With it the table is kept current: it has one row for each value of
    the columns of the key, the one that is greatest in the column `latest`, whatever the order in which rows come. So
    bands keep one table: `key=["window_start", "device"], latest="band"` puts later answers in the place of earlier
    ones. Of rows that are equal in `latest`, too, the one written last is kept.

    A table that is not there is made when the query starts, with a unique key if there is one; one that is there must
    have columns of types that hold every value. Columns of its own besides are left to their defaults.

    A table has one query for each `writer`, which is a name; without one there is one query. A second one is refused,
    unless it takes the place of the first: `adopt` is the id of that one, which the refusal names.

    The driver writes all rows. What one shard gives out in a micro-batch must fit into its memory.

    >>> import slackwater as sw
    >>> frame = spark.createDataFrame([(1, "a", 5), (2, "a", 7), (3, "b", 9)], "at long, k string, n long")
    >>> frame.write.mode("append").parquet(f"{folder}/in")
    >>> rows = sw.stream(spark.readStream.schema(frame.schema).parquet(f"{folder}/in"), time="at").sort(patience=5)
    >>> query = rows.start(
    ...     checkpoint=f"{folder}/checkpoint",
    ...     main=sw.PostgresSink(postgres, "newest", key="k", latest="at"),
    ...     late=f"{folder}/late",
    ...     trigger={"availableNow": True},
    ...     at_end="flush",
    ...     shards=1,
    ... )
    >>> query.wait()
    True
    >>> from adbc_driver_postgresql import dbapi
    >>> with dbapi.connect(postgres) as connection, connection.cursor() as cursor:
    ...     cursor.execute("SELECT at, k, n FROM newest ORDER BY k").fetchall()
    [(2, 'a', 7), (3, 'b', 9)]
    """

    uri: str = field(repr=False)
    table: str
    schema: str | None = None
    key: str | Sequence[str] = ()
    latest: str | None = None
    writer: str | None = None
    adopt: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", as_names(self.key))
        require_writer(self.writer)
        if bool(self.key) != (self.latest is not None):
            facts = {"key": ", ".join(self.key) or "none", "latest": self.latest or "none"}
            hint = 'name both, such as key="device", latest="at"; or none, and rows are appended'
            raise PlanError(
                message("key= needs latest=, the column whose greatest value says which row is kept", facts, hint)
            )

    def for_rows(self, outputs: tuple[str, ...], columns: StructType) -> PostgresClaim:
        """The sink for the rows of some outputs."""
        return PostgresClaim(self, outputs, columns)


@dataclass(frozen=True)
class PostgresClaim:
    """A table that a run may have, for the rows of some outputs: `take()` it, and it writes there."""

    sink: PostgresSink
    outputs: tuple[str, ...]
    columns: StructType
    table: PostgresTable | None = None

    def claimed(self, session: SparkSession, run: Run) -> PostgresClaim:
        """See whether a run may write here; refuse it if not. Nothing is written yet."""
        table = PostgresTable.of(self, run)
        with table.transaction() as on:
            table = replace(table, schema=table.schema or on.ask("SELECT current_schema()::text")[0][0] or "public")
            if table.is_there(on):
                table = table.fitted(on)
            owner, last = table.owner(on), table.last_batch(on)
        table.require_owner(owner and owner[0])
        require_not_further(table.shown, last, last_batch_begun(session, run))
        return replace(self, table=table)

    def take(self, session: SparkSession) -> PostgresWriter:  # noqa: ARG002 - as for folders
        """Make the tables that there are not, and write down whose it is."""
        assert self.table is not None
        with self.table.transaction() as on:
            self.table.create(on)
            on.commit()
        try:
            self.table.take_over()
        except BlockingIOError:
            self.table.end_older_drivers()
            self.table.take_over(wait=True)
        return PostgresWriter(self.table)


@dataclass(frozen=True)
class PostgresWriter:
    """A table that a run writes to."""

    table: PostgresTable

    why_as_text: ClassVar = True
    """Reasons in metrics are JSON: PostgreSQL has no column for structs."""

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Write the rows of a micro-batch, which come to the driver in pieces, one at a time."""
        failures: list[Exception] = []
        reader = pa.RecordBatchReader.from_batches(self.table.columns, _pieces(rows, self.table.columns, failures))
        try:
            self.table.put(reader, batch_id)
        except RunError:
            if failures:  # Spark's, which the reader could not pass on as it was
                raise failures[0] from None
            raise

    def write_few(self, tables: Sequence[pa.Table], columns: StructType, session: SparkSession, batch_id: int) -> bool:  # noqa: ARG002 - as for folders
        """The same for a few rows that the driver has; say whether it was done. If not, it is left to Spark."""
        rows = in_columns(tables, self.table.columns)
        if rows is None:
            return False
        if rows.num_rows:
            self.table.put(rows.to_reader(), batch_id)
        return True


def _pieces(rows: DataFrame, schema: pa.Schema, failures: list[Exception]) -> Iterator[pa.RecordBatch]:
    """The rows of a frame in Arrow's form, as they come."""
    try:
        for row in rows.mapInArrow(_packed, "body binary").toLocalIterator():
            batch = from_buffer(pa.py_buffer(row.body))
            yield from pa.Table.from_batches([batch]).cast(schema).combine_chunks().to_batches()
    except Exception as error:
        failures.append(error)
        raise


def _packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each batch as one value, for mapInArrow."""
    for batch in batches:
        if batch.num_rows:
            yield pa.RecordBatch.from_pydict({"body": pa.array([to_buffer(batch).to_pybytes()], pa.binary())})
