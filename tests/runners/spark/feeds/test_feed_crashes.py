"""Drivers that are killed when their sink has a micro-batch and Spark does not know it: each row is there once."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats_server import NatsServer
    from pyspark.sql import SparkSession

# Spark leaves sockets to its workers open; that is not for these tests to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_HERE = Path(__file__).parents[1]
_DRIVER = _HERE / "drive_feeds.py"
# Not imported: what workers are sent must not refer to a module that they cannot find.
_SMALL = SimpleNamespace(**runpy.run_path(str(_HERE / "small_query.py")))
_KILLING = SimpleNamespace(**runpy.run_path(str(_HERE / "killing.py")))
_FEEDS = SimpleNamespace(**runpy.run_path(str(_DRIVER)))
_PATIENT_SECONDS = 300
_FURTHER = 10_000
"""How far apart the numbers of the two sources are."""


class _Feeds:
    """A table and a stream that grow alike, and what a query has written of them."""

    def __init__(self, folder: Path, server: NatsServer) -> None:
        self._folder, self._server = folder, server
        self._brought = 0
        server.add_stream("FEED", "feed")

    def bring(self) -> None:
        """A version and as many messages."""
        rows: pa.Table = _SMALL.table(self._brought)
        write_deltalake(self._folder / "in", rows, mode="append")
        numbered = [{**row, "n": row["n"] + _FURTHER} for row in rows.to_pylist()]
        self._server.publish("feed", *(json.dumps(row).encode() for row in numbered))
        self._brought += 1

    def live_until(self, micro_batch: int, env: dict[str, str]) -> None:
        """Run the query in a process of its own, and kill it with all that it has started behind this micro-batch."""
        halted = self._folder / "halted"
        halted.unlink(missing_ok=True)
        command = [sys.executable, str(_DRIVER), str(self._folder), self._server.url, str(micro_batch)]
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
        assert (self._folder / f"checkpoint/offsets/{micro_batch}").exists()
        assert not (self._folder / f"checkpoint/commits/{micro_batch}").exists()

    def assert_each_row_is_there_once(self) -> None:
        """In order or late: those of both sources."""
        main = DeltaTable(self._folder / "out").to_pyarrow_table()["n"].to_pylist()
        late = pq.read_table(self._folder / "late", columns=["n"])["n"].to_pylist()
        numbers = range(_FEEDS.ROWS * self._brought)
        assert sorted([*main, *late]) == [*numbers, *(number + _FURTHER for number in numbers)]
        assert sorted(late) == sorted(n + more for n in _SMALL.late(self._brought) for more in (0, _FURTHER))


def test_a_driver_that_is_killed_between_the_commits_of_its_sink_and_of_spark_doubles_and_loses_nothing(
    session: SparkSession,
    nats: NatsServer,
    tmp_path: Path,
    surroundings_of_killed: Callable[[Path], dict[str, str]],
) -> None:
    """Of a Delta table and of JetStream: what has come meanwhile is not in the micro-batch that is done again."""
    feeds = _Feeds(tmp_path, nats)
    feeds.bring()
    feeds.bring()
    feeds.live_until(1, surroundings_of_killed(tmp_path))
    feeds.bring()
    _FEEDS.run(session, tmp_path, nats.url)
    feeds.assert_each_row_is_there_once()


@pytest.mark.long
def test_a_driver_that_is_killed_behind_every_micro_batch_doubles_and_loses_nothing(
    session: SparkSession,
    nats: NatsServer,
    tmp_path: Path,
    surroundings_of_killed: Callable[[Path], dict[str, str]],
) -> None:
    """The first one is done again, too, whose beginning Spark does not log; and one of them is killed twice."""
    feeds: Any = _Feeds(tmp_path, nats)
    for micro_batch in (0, 1, 1, 2, 3):
        feeds.bring()
        feeds.bring()
        feeds.live_until(micro_batch, surroundings_of_killed(tmp_path))
    _FEEDS.run(session, tmp_path, nats.url)
    feeds.assert_each_row_is_there_once()
