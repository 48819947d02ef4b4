"""Tables of DuckDB as sources: files, and relations that are open."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING

import duckdb
import pytest

import slackwater as sw
from slackwater.errors import PlanError, SourceFailed

if TYPE_CHECKING:
    from pathlib import Path

_ROWS = [{"at": 3, "k": "a"}, {"at": 1, "k": "b"}, {"at": 2, "k": "a"}]


def _file(folder: Path, *tables: str) -> Path:
    path = folder / "readings.duckdb"
    with closing(duckdb.connect(path)) as connection:
        connection.execute("CREATE SCHEMA old")
        for table in tables:
            connection.execute(f'CREATE TABLE {table} ("at" BIGINT, k TEXT)')
            connection.execute(f"INSERT INTO {table} VALUES (3, 'a'), (1, 'b'), (2, 'a')")
    return path


def test_the_only_table_of_a_file_is_read_in_order_of_insertion(tmp_path: Path) -> None:
    """Again and again, and nothing is left open."""
    path = _file(tmp_path, '"orders of ""May"""')
    stream = sw.stream(path, time="at")
    assert stream.run().table.to_pylist() == stream.run().table.to_pylist() == _ROWS
    assert sw.profile(str(path), time="at").disorder.late == 2
    with closing(duckdb.connect(path)) as connection:  # as nobody else has it
        connection.execute('CREATE TABLE another ("at" BIGINT)')


@pytest.mark.parametrize(("table", "name"), [("orders", "orders"), ("old.orders", "orders"), ("main.sales", "sales")])
def test_of_several_tables_one_is_named(tmp_path: Path, table: str, name: str) -> None:
    """By its name, or with its schema where that name is there twice."""
    path = _file(tmp_path, "old.orders", "sales", *(["orders"] if table == "old.orders" else []))
    found = sw.profile(path, time="at", table=table)
    assert (found.name, found.rows) == (name, 3)


@pytest.mark.parametrize("table", [None, "order", "orders"])
def test_a_name_that_is_missing_wrong_or_there_twice_is_refused(tmp_path: Path, table: str | None) -> None:
    """With the tables that there are."""
    path = _file(tmp_path, "old.orders", "orders")
    with pytest.raises(PlanError, match=r"(?s)no such table, or several.*main\.orders, old\.orders"):
        sw.profile(path, time="at", table=table)


def test_what_is_no_file_of_duckdb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing, of another kind, with table= though there is none to choose, or without the package."""
    with pytest.raises(PlanError, match="there is no such file"):
        sw.stream(tmp_path / "none.duckdb", time="at")
    (tmp_path / "text.duckdb").write_text("no database")
    with pytest.raises(SourceFailed, match=r"text\.duckdb"):
        sw.stream(tmp_path / "text.duckdb", time="at")
    for source in (_ROWS, tmp_path / "a.parquet"):
        with pytest.raises(PlanError, match="table= is for files of DuckDB"):
            sw.profile(source, time="at", table="t")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(PlanError, match=r"slackwater\[duckdb\]"):
        sw.stream(_file_without_duckdb(tmp_path), time="at")


def _file_without_duckdb(folder: Path) -> Path:
    (folder / "there.duckdb").touch()
    return folder / "there.duckdb"


def test_a_relation_is_a_source() -> None:
    """The result of a query, without a file."""
    with closing(duckdb.connect()) as connection:
        relation = connection.sql("FROM (VALUES (3, 'a'), (1, 'b'), (2, 'a')) AS t (\"at\", k)")
        assert sw.stream(relation, time="at").run().table.to_pylist() == _ROWS
        assert sw.profile(relation, time="at").rows == 3
