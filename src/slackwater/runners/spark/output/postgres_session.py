"""Transactions with a PostgreSQL server, by ADBC, which sends Arrow rows as PostgreSQL's own binary COPY.

Each has a connection of its own, so that one that is lost costs the micro-batch that it was in and nothing else.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slackwater.errors import PlanError, RunError, message

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

_LOCKED: Final = "55P03"
"""What PostgreSQL calls it when a lock is not to be had."""

_WAIT: Final = "30s"
"""How long a statement waits for whoever has locked what it needs."""

_ABANDONED: Final = "10min"
"""After so long the server gives up on a driver that has begun a transaction and does nothing."""

_GO_ON: Final = "see to it; started again, the query goes on from its checkpoint"


@dataclass(frozen=True)
class Transaction:
    """What is done by one transaction, or not at all."""

    connection: Any
    cursor: Any

    def do(self, statement: str, *values: object) -> None:
        """Run a statement that returns nothing."""
        self.cursor.execute(statement, values or None)

    def ask(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows that a statement returns."""
        self.cursor.execute(statement, values or None)
        return list(self.cursor.fetchall())

    def copy(self, rows: pa.RecordBatchReader, table: str, schema: str | None) -> None:
        """Append rows to a table; without a schema, to a temporary one."""
        place: dict[str, Any] = {"temporary": True} if schema is None else {"db_schema_name": schema}
        self.cursor.adbc_ingest(table, rows, mode="append", **place)

    def commit(self) -> None:
        """Let all that was done be there; a transaction that is not committed leaves nothing."""
        self.connection.commit()


@contextmanager
def transaction(uri: str, name: str, table: str) -> Iterator[Transaction]:
    """Connect and begin; what is not committed in the end is rolled back. A failure is one sentence."""
    driver = _driver()
    try:
        connection = driver.connect(uri)
        try:
            cursor = connection.cursor()
            for setting, value in (
                ("application_name", name), ("timezone", "UTC"), ("lock_timeout", _WAIT),
                ("idle_in_transaction_session_timeout", _ABANDONED),
            ):  # fmt: skip
                cursor.execute("SELECT set_config($1, $2, false)", (setting, value))
                cursor.fetchall()
            yield Transaction(connection, cursor)
        finally:
            with suppress(driver.Error):  # of a connection that is lost
                cursor.close()
            with suppress(driver.Error):
                connection.rollback()
            with suppress(driver.Error):
                connection.close()
    except driver.Error as error:
        raise _unreachable(table, error) from error


@contextmanager
def unless_locked() -> Iterator[None]:
    """Raise BlockingIOError where somebody else holds what a statement asks for."""
    try:
        yield
    except _driver().Error as error:
        if getattr(error, "sqlstate", None) != _LOCKED:
            raise
        raise BlockingIOError from error


def quoted(name: str) -> str:
    """A name, as it stands in statements.

    >>> quoted('a "b" c')
    '"a ""b"" c"'
    """
    return '"' + name.replace('"', '""') + '"'


def _unreachable(table: str, error: Exception) -> RunError:
    words = str(error).partition("\nQuery was:")[0].strip().splitlines()
    facts = {"table": table, "cause": " ".join(word.strip() for word in words[:3])}
    return RunError(message("a table of PostgreSQL cannot be written", facts, _GO_ON))


def _driver() -> Any:
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError as error:
        facts, hint = {"missing": error.name}, "pip install 'slackwater[postgres]'"
        raise PlanError(message("PostgreSQL needs the package adbc-driver-postgresql", facts, hint)) from error
    return dbapi
