"""Drivers that are killed while they write to Delta and PostgreSQL: in the end each row is there once."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from adbc_driver_postgresql import dbapi
from deltalake import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

# Spark leaves sockets to its workers open; that is not for these tests to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_DRIVER = Path(__file__).with_name("drive_tables.py")
# Not imported: what workers are sent must not refer to a module that they cannot find.
_SMALL = SimpleNamespace(**runpy.run_path(str(_DRIVER.with_name("small_query.py"))))
_KILLING = SimpleNamespace(**runpy.run_path(str(_DRIVER.with_name("killing.py"))))
_TABLES = SimpleNamespace(**runpy.run_path(str(_DRIVER)))
_PATIENT_SECONDS = 300
_FILES = 3


class _Tables:
    """What a query has written, on disk and at the server."""

    def __init__(self, folder: Path, server: str) -> None:
        self._folder, self._server = folder, server

    def live_until(self, place: str, micro_batch: int, env: dict[str, str]) -> None:
        """Run the query in a process of its own, and kill it with all that it has started at this place."""
        halted = self._folder / "halted"
        halted.unlink(missing_ok=True)
        command = [sys.executable, str(_DRIVER), str(self._folder), self._server, place, str(micro_batch)]
        with (self._folder / "log").open("wb") as log:
            driver = subprocess.Popen(  # noqa: S603 - our own words
                command, stdout=log, stderr=log, start_new_session=True, env={**os.environ, **env}
            )
        deadline = time.monotonic() + _PATIENT_SECONDS
        try:
            while not halted.exists():
                assert driver.poll() is None, (self._folder / "log").read_text()
                assert time.monotonic() < deadline, (self._folder / "log").read_text()
                time.sleep(0.01)
        finally:
            _KILLING.kill_all_of(driver)

    def assert_killed_at(self, place: str, micro_batch: int) -> None:
        """The micro-batch has begun, each table has as much of it as it should, and Spark has not committed it."""
        assert (self._folder / f"checkpoint/offsets/{micro_batch}").exists()
        assert not (self._folder / f"checkpoint/commits/{micro_batch}").exists()
        come_to = _TABLES.PLACES.index(place)
        assert self.main() == _SMALL.expected(micro_batch + (come_to >= 1))
        assert self.late() == _SMALL.late(micro_batch + (come_to >= 3))
        table = DeltaTable(self._folder / "delta")
        unnamed = len(list((self._folder / "delta").glob("*.parquet"))) - len(table.file_uris())
        assert unnamed or come_to > 0  # nobody removes those of an earlier life

    def main(self) -> list[int]:
        """The rows of the Delta table."""
        return sorted(DeltaTable(self._folder / "delta").to_pyarrow_table()["n"].to_pylist())

    def late(self) -> list[int]:
        """The rows at the server."""
        with dbapi.connect(self._server) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT n FROM late ORDER BY n")
            return [row[0] for row in cursor.fetchall()]

    def go_on(self, session: SparkSession) -> None:
        """Run the query to its end, and see that each row is there once."""
        _SMALL.run(session, self._folder, **_TABLES.sinks(self._folder, self._server))
        assert self.main() == _SMALL.expected(_FILES)
        assert self.late() == _SMALL.late(_FILES)


def test_a_driver_that_is_killed_between_the_commits_of_its_sinks_and_of_spark_doubles_nothing(
    session: SparkSession,
    postgres: str,
    tmp_path: Path,
    surroundings_of_killed: Callable[[Path], dict[str, str]],
) -> None:
    """Both tables have the micro-batch, and Spark does not know it: it is run again, and they know its number."""
    _SMALL.bring(tmp_path, range(_FILES))
    tables = _Tables(tmp_path, postgres)
    tables.live_until("postgres", 1, surroundings_of_killed(tmp_path))
    tables.assert_killed_at("postgres", 1)
    tables.go_on(session)


@pytest.mark.long
def test_a_driver_that_is_killed_at_every_place_loses_and_doubles_nothing(
    session: SparkSession,
    postgres: str,
    tmp_path: Path,
    surroundings_of_killed: Callable[[Path], dict[str, str]],
) -> None:
    """Further on each time: files are written that no version names, and rows are at the server and rolled back.

    Late rows come first with the second micro-batch, whose rows tasks write.
    """
    _SMALL.bring(tmp_path, range(_FILES))
    tables = _Tables(tmp_path, postgres)
    for place, micro_batch in [
        ("delta", 0),
        ("files of delta", 1), ("delta", 1), ("rows of postgres", 1), ("postgres", 1),
        ("delta", 2), ("rows of postgres", 2), ("postgres", 2),
    ]:  # fmt: skip
        tables.live_until(place, micro_batch, surroundings_of_killed(tmp_path))
        tables.assert_killed_at(place, micro_batch)
    tables.go_on(session)
