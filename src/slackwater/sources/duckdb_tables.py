"""Tables of DuckDB files as feeds, in the order in which their rows were inserted. A file is opened to be read only."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from slackwater.errors import PlanError, SourceFailed, message
from slackwater.sources.readers import ReadFeed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ENDINGS: Final = (".duckdb", ".ddb")

_TABLES: Final = """
    SELECT table_schema, table_name FROM information_schema.tables
    WHERE table_catalog = current_database() ORDER BY table_schema, table_name
"""


def is_duckdb_file(path: Path) -> bool:
    """Whether a file is one of DuckDB, by its name."""
    return path.suffix in _ENDINGS


def from_duckdb(path: Path, table: str | None) -> ReadFeed:
    """Feed a table, or the only one, of a file; a view is as good."""
    chosen = _chosen(path, table)
    query = f"SELECT * FROM {'.'.join(map(_quoted, chosen))}"  # noqa: S608 - names that the file has, quoted

    def batches() -> Iterator[pa.RecordBatch]:
        with closing(_opened(path)) as connection, _naming(path):
            yield from pa.RecordBatchReader.from_stream(connection.sql(query))

    with closing(_opened(path)) as connection, _naming(path):
        schema = pa.RecordBatchReader.from_stream(connection.sql(query)).schema
    return ReadFeed(chosen[1], schema, batches)


def _chosen(path: Path, table: str | None) -> tuple[str, str]:
    """The schema and the name of the table that is meant."""
    with closing(_opened(path)) as connection:
        found: list[tuple[str, str]] = connection.sql(_TABLES).fetchall()
    meant = [one for one in found if table in {None, one[1], ".".join(one)}]
    if len(meant) != 1:
        facts = {
            "file": path,
            "table": table or "not named",
            "its tables": ", ".join(".".join(one) for one in found) or "none",
        }
        raise PlanError(message("a DuckDB file has no such table, or several", facts, 'name one: table="main.orders"'))
    return meant[0]


def _opened(path: Path) -> Any:
    try:
        import duckdb
    except ImportError as cause:
        hint = "pip install 'slackwater[duckdb]'"
        raise PlanError(message("a DuckDB file is read by the package duckdb", {"file": path}, hint)) from cause
    if not path.is_file():
        raise PlanError(message("there is no such file", {"path": path}))
    with _naming(path):
        return duckdb.connect(path, read_only=True)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Say which file it was when DuckDB cannot read one."""
    import duckdb

    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError) as cause:
        raise SourceFailed.unreadable(path, cause) from cause


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
