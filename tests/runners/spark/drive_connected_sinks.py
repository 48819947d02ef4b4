"""A driver of its own for tests: folders and tables as sinks, and listeners, over Spark Connect, with no Java to call.

    python drive_connected_sinks.py FOLDER POSTGRES

Late rows go to a local folder, which client and server share; others to one that only Spark can reach, by a scheme that
Python knows nothing of. Then both go to tables. It fails if anything is not as it should be.
"""

from __future__ import annotations

import os
import queue
import sys
from pathlib import Path
from typing import Any

import pytest
import small_query as small
from adbc_driver_postgresql import dbapi
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.errors import PlanError

_PATIENT_SECONDS = 300


def check(session: SparkSession, folder: Path) -> None:
    """Run, replay, and try to take the folder away."""
    out = "viewfs://here/data/out"
    small.bring(folder, range(2))
    seen: queue.Queue[sw.MicroBatch] = queue.Queue()
    listener = sw.QueryListener(seen.put)
    session.streams.addListener(listener)
    query = small.run(session, folder, main=out)
    batches = [seen.get(timeout=_PATIENT_SECONDS) for _ in range(2)]
    session.streams.removeListener(listener)
    assert [(one.batch_id, one.rows_in, one.query) for one in batches] == [(0, 100, query.id), (1, 100, query.id)]
    assert (batches[1].progress, batches[1].why) == (query.progress(), query.why())
    assert batches[1].prometheus() == query.prometheus()
    before = small.seen(folder / "out")
    assert small.numbers(folder / "out") == small.expected(2)
    assert small.numbers(folder / "late") == small.late(2)
    small.replay_last(folder)
    small.bring(folder, [2])
    small.run(session, folder, main=out)
    assert small.seen(folder / "out").items() >= before.items()
    assert small.numbers(folder / "out") == small.expected(3)
    assert small.numbers(folder / "late") == small.late(3)
    for sinks, failure_text in (
        ({"main": out}, "belongs to another query"),
        ({"main": "viewfs://here/data/x/../out/", "late": out}, "one sink cannot take rows of different columns"),
        ({"main": str(folder / "in/out")}, "would read what it writes itself"),
    ):
        with pytest.raises(PlanError, match=failure_text):
            small.run(session, folder, "another", **sinks)


def check_tables(session: SparkSession, folder: Path, server: str) -> None:
    """The same with tables: those of Delta tasks write, or the process that Spark starts for micro-batches."""
    tables: dict[str, Any] = {"main": sw.DeltaSink(folder / "delta"), "late": sw.PostgresSink(server, "late")}
    small.run(session, folder, "of tables", **tables)
    small.replay_last(folder, "of tables")
    small.bring(folder, [3])
    small.run(session, folder, "of tables", **tables)
    assert sorted(DeltaTable(folder / "delta").to_pyarrow_table()["n"].to_pylist()) == small.expected(4)
    with dbapi.connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT n FROM late ORDER BY n")
        assert [row[0] for row in cursor.fetchall()] == small.late(4)
    with pytest.raises(PlanError, match="belongs to another query"):
        small.run(session, folder, "another", **tables)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    os.environ["SPARK_TESTING"] = "1"  # only so does Spark take any port, and let the client know which
    mounted = "spark.hadoop.fs.viewfs.mounttable.here.link./data"
    connected = SparkSession.builder.remote("local[2]").config(mounted, place.as_uri()).getOrCreate()
    check(connected, place)
    check_tables(connected, place, sys.argv[2])
    connected.stop()
