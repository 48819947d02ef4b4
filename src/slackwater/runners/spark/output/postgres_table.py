"""A table of PostgreSQL as one run of a query writes to it: what fits it, whose it is, how rows are put there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from slackwater.errors import PlanError, RunError, message
from slackwater.runners.spark.output.arrow_types import arrow_type, with_lengths_counted
from slackwater.runners.spark.output.postgres_session import Transaction, quoted, transaction, unless_locked
from slackwater.runners.spark.output.postgres_types import holds, postgres_type
from slackwater.runners.spark.output.table_owners import (
    as_names,
    refuse_types,
    require_columns,
    require_owner,
    taken_over,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slackwater.runners.spark.checkpoint.ownership import Run
    from slackwater.runners.spark.output.postgres_sink import PostgresClaim

_OWNERS: Final = "slackwater_owners"
_BATCHES: Final = "slackwater_batches"
_STAGED: Final = "slackwater_staged"
"""A temporary table, of one transaction."""

_LONGEST_NAME: Final = 63
"""Bytes of a name; PostgreSQL cuts off the rest."""

_EQUAL_NULLS: Final = 15
"""The first version in which a unique key can take two nulls for the same."""


@dataclass(frozen=True)
class PostgresTable:
    """A table, as one run writes to it."""

    uri: str = field(repr=False)
    schema: str | None
    name: str
    columns: pa.Schema
    types: tuple[str, ...]
    key: tuple[str, ...]
    latest: str | None
    writer: str | None
    adopt: str | None
    outputs: str
    run: Run
    exact: bool = True
    """Whether the columns of the table have just these types, so that rows can be copied into it."""

    @classmethod
    def of(cls, claim: PostgresClaim, run: Run) -> PostgresTable:
        """Refuse what no table of PostgreSQL can be."""
        sink, columns = claim.sink, with_lengths_counted(claim.columns)
        types = {column.name: postgres_type(column.dataType) for column in columns}
        refuse_types("PostgreSQL", columns, types, "select() it without them, or bring them into another type")
        key = as_names(sink.key)
        require_columns("key", key, columns)
        require_columns("latest", () if sink.latest is None else (sink.latest,), columns)
        if sink.latest in key:
            hint = "name a column that differs among the rows of a key"
            raise PlanError(message("latest= cannot be a column of the key", {"latest": sink.latest}, hint))
        for name in (sink.table, *columns.names):
            if not 0 < len(name.encode()) <= _LONGEST_NAME:
                facts, hint = {"name": name, "bytes": len(name.encode())}, "rename it"
                raise PlanError(message(f"a name in PostgreSQL has 1 to {_LONGEST_NAME} bytes", facts, hint))
        arrow = pa.schema([(column.name, arrow_type(column.dataType)) for column in columns])
        texts = tuple(str(one) for one in types.values())
        outputs, who = ",".join(claim.outputs), (sink.writer, sink.adopt)
        return cls(sink.uri, sink.schema, sink.table, arrow, texts, key, sink.latest, *who, outputs, run)

    @property
    def shown(self) -> str:
        """Its name in messages."""
        return self.name if self.schema is None else f"{self.schema}.{self.name}"

    @property
    def app(self) -> str:
        """The name of our sessions at the server."""
        return f"slackwater {self.run.query}"

    def transaction(self) -> Any:
        """Begin a transaction."""
        return transaction(self.uri, self.app, self.shown)

    # ---- before the query starts -------------------------------------------------------------------------------------

    def is_there(self, on: Transaction, name: str | None = None) -> bool:
        """Whether there is such a table in the schema."""
        return bool(on.ask("SELECT to_regclass($1) IS NOT NULL", self._at(name or self.name))[0][0])

    def fitted(self, on: Transaction) -> PostgresTable:
        """Refuse a table that would not take all rows as they are."""
        found = {name: kind for name, kind, _ in self._columns_of(on)}
        wanted = dict(zip(self.columns.names, self.types, strict=True))
        unfit = {
            name: found.get(name, "absent") for name, kind in wanted.items() if not holds(found.get(name, ""), kind)
        }
        if unfit:
            facts = {"table": self.shown} | {
                name: f"is {kind}, rows have {wanted[name]}" for name, kind in unfit.items()
            }
            hint = "write to another table, or give that one columns that hold every value"
            raise PlanError(message("a table of PostgreSQL that is there has other columns", facts, hint))
        needed = [name for name, _, is_needed in self._columns_of(on) if is_needed and name not in wanted]
        if needed:
            facts, hint = {"table": self.shown, "columns": ", ".join(needed)}, "give them defaults, or let them be null"
            raise PlanError(message("a table of PostgreSQL wants columns that the rows do not have", facts, hint))
        if self.key and not self._has_unique_key(on):
            facts = {"table": self.shown, "key": ", ".join(self.key)}
            hint = f"CREATE UNIQUE INDEX ON {self._at(self.name)} ({self._names(self.key)}) NULLS NOT DISTINCT"
            raise PlanError(message("a table of PostgreSQL has no unique index on the key of a sink", facts, hint))
        return replace(self, exact=all(found[name] == kind for name, kind in wanted.items()))

    def _columns_of(self, on: Transaction) -> list[tuple[str, str, bool]]:
        """The columns of the table: name, type, and whether rows must have it."""
        asked = (
            "SELECT attname::text, format_type(atttypid, atttypmod), attnotnull AND NOT atthasdef AND attidentity = ''"
            " FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped"
        )
        return [(row[0], row[1], bool(row[2])) for row in on.ask(asked, self._at(self.name))]

    def _has_unique_key(self, on: Transaction) -> bool:
        """Whether an index makes the key unique for all rows, nulls included, whatever the order of its columns."""
        asked = (
            "SELECT array_agg(attname::text) FROM pg_index"
            " JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey)"
            " WHERE indrelid = to_regclass($1) AND indisunique AND indpred IS NULL AND indexprs IS NULL"
            " AND indnatts = indnkeyatts GROUP BY indexrelid HAVING bool_and(attnotnull)"
            " OR coalesce((to_jsonb(pg_index) ->> 'indnullsnotdistinct')::boolean, false)"
        )
        return any(set(row[0]) == set(self.key) for row in on.ask(asked, self._at(self.name)))

    def owner(self, on: Transaction, how: str = "") -> tuple[str, str, int] | None:
        """The query, the run and the epoch that have the table; None if nobody has."""
        if not self.is_there(on, _OWNERS):
            return None
        asked = f"SELECT query, run, epoch FROM {self._at(_OWNERS)} WHERE table_name = $1 AND writer = $2{how}"  # noqa: S608 - quoted
        return next((row[:3] for row in on.ask(asked, self.name, self.writer or "")), None)

    def require_owner(self, owner: str | None) -> None:
        """Refuse a table that another query has."""
        who = {"adopt": self.adopt, "writer": self.writer}
        require_owner("slackwater.PostgresSink", self.shown, self.run, owner, **who)

    def last_batch(self, on: Transaction) -> int | None:
        """The last micro-batch that the table has of this query and these outputs."""
        if not self.is_there(on, _BATCHES):
            return None
        asked = f"SELECT batch FROM {self._at(_BATCHES)} WHERE table_name = $1 AND query = $2 AND outputs = $3"  # noqa: S608 - quoted
        return next((int(row[0]) for row in on.ask(asked, self.name, self.run.query, self.outputs)), None)

    # ---- when it starts ----------------------------------------------------------------------------------------------

    def create(self, on: Transaction) -> None:
        """Make the tables that there are not."""
        on.ask("SELECT pg_advisory_xact_lock(hashtext('slackwater'))::text")  # two may start at once
        ours = {
            _OWNERS: "table_name text, writer text, query text NOT NULL, run text NOT NULL, epoch bigint NOT NULL,"
            " PRIMARY KEY (table_name, writer)",
            _BATCHES: "table_name text, query text, outputs text, batch bigint NOT NULL,"
            " PRIMARY KEY (table_name, query, outputs)",
            self.name: self._definition(on),
        }
        for name, columns in ours.items():
            if not self.is_there(on, name):
                on.do(f"CREATE TABLE {self._at(name)} ({columns})")

    def _definition(self, on: Transaction) -> str:
        columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in zip(self.columns.names, self.types, strict=True))
        if not self.key:
            return columns
        version = int(on.ask("SELECT current_setting('server_version_num')")[0][0]) // 10_000
        unique = "UNIQUE NULLS NOT DISTINCT" if version >= _EQUAL_NULLS else "PRIMARY KEY"
        return f"{columns}, {unique} ({self._names(self.key)})"

    def take_over(self, *, wait: bool = False) -> None:
        """Write down whose the table is. Refused if it has become another's, or a newer start's, meanwhile."""
        run = self.run
        with self.transaction() as on:
            first = f"INSERT INTO {self._at(_OWNERS)} VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING"  # noqa: S608 - quoted
            on.do(first, self.name, self.writer or "", run.query, run.run, run.epoch)
            if wait:
                owner = self.owner(on, " FOR UPDATE")
            else:
                with unless_locked():
                    owner = self.owner(on, " FOR UPDATE NOWAIT")
            assert owner is not None
            query, _, epoch = owner
            self.require_owner(query)
            if query == run.query and epoch > run.epoch:
                raise taken_over(self.shown, query, run)
            new = (
                f"UPDATE {self._at(_OWNERS)} SET query = $3, run = $4, epoch = $5 WHERE table_name = $1 AND writer = $2"  # noqa: S608 - quoted
            )
            on.do(new, self.name, self.writer or "", run.query, run.run, run.epoch)
            on.commit()

    def end_older_drivers(self) -> None:
        """End the sessions of drivers that were thought dead and hold the row of the owner."""
        with self.transaction() as on:
            owner = self.owner(on)
            names = [f"slackwater {query}" for query in {self.run.query, *(() if owner is None else (owner[0],))}]
            on.ask(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name IN ($1, $2) AND pid <> pg_backend_pid() AND datname = current_database()",
                names[0],
                names[-1],
            )

    # ---- in a micro-batch --------------------------------------------------------------------------------------------

    def put(self, rows: pa.RecordBatchReader, batch_id: int) -> None:
        """Write the rows of a micro-batch, unless the table has them."""
        with self.transaction() as on:
            owner = self.owner(on, " FOR UPDATE")
            if owner is None:
                hint = "put it back, or start anew with another checkpoint and another table"
                raise RunError(message(f"the row of a table in {_OWNERS} is gone", {"table": self.shown}, hint))
            if owner[1] != self.run.run:
                raise taken_over(self.shown, owner[0], self.run)
            last = self.last_batch(on)
            if last is not None and last >= batch_id:
                return
            self._write(on, rows)
            on.do(
                f"INSERT INTO {self._at(_BATCHES)} AS known VALUES ($1, $2, $3, $4)"  # noqa: S608 - quoted
                " ON CONFLICT (table_name, query, outputs) DO UPDATE SET batch = EXCLUDED.batch",
                self.name, self.run.query, self.outputs, batch_id,
            )  # fmt: skip
            on.commit()

    def _write(self, on: Transaction, rows: pa.RecordBatchReader) -> None:
        if self.exact and not self.key:
            on.copy(rows, self.name, self.schema)
            return
        columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in zip(self.columns.names, self.types, strict=True))
        on.do(f"CREATE TEMPORARY TABLE {_STAGED} ({columns}) ON COMMIT DROP")
        on.copy(rows, _STAGED, None)
        on.do(self._from_staged())

    def _from_staged(self) -> str:
        """Takes staged rows over; with a key the newest of each, by ctid the last of those that are equally new."""
        names = self._names(self.columns.names)
        insert = f"INSERT INTO {self._at(self.name)} AS kept ({names})"
        if self.latest is None:
            return f"{insert} SELECT {names} FROM {_STAGED}"  # noqa: S608 - quoted
        key, latest = self._names(self.key), quoted(self.latest)
        others = [quoted(name) for name in self.columns.names if name not in self.key]
        changes = ", ".join(f"{name} = EXCLUDED.{name}" for name in others)
        return (
            f"{insert} SELECT DISTINCT ON ({key}) {names} FROM {_STAGED}"  # noqa: S608 - quoted
            f" ORDER BY {key}, {latest} DESC NULLS LAST, ctid DESC ON CONFLICT ({key}) DO UPDATE SET {changes}"
            f" WHERE kept.{latest} IS NULL OR EXCLUDED.{latest} >= kept.{latest}"
        )

    def _at(self, name: str) -> str:
        assert self.schema is not None
        return f"{quoted(self.schema)}.{quoted(name)}"

    def _names(self, names: Iterable[str]) -> str:
        return ", ".join(map(quoted, names))
