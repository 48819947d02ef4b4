"""A driver of its own for tests of crashes: a Delta table and a stream of JetStream, in one order, to a Delta table.

    python drive_feeds.py FOLDER SERVER [MICRO_BATCH]

The folder holds `in`, a table of which each micro-batch reads a version; the server has the stream FEED, of which it
reads as many messages. With a number the driver comes to a halt when the sink has that micro-batch and Spark has not
committed it, makes `halted`, and waits to be killed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import small_query
from drive_tables import Halting
from pyspark.sql import SparkSession

import slackwater as sw

ROWS = 100
"""Of a version, and of the messages of a micro-batch."""


def run(session: SparkSession, folder: Path, server: str, main: Any = None) -> None:
    """Run to the end of what is there, and flush."""
    table = sw.delta_table(session, folder / "in", startingVersion=0, maxVersionsPerTrigger=1)
    feed = sw.jetstream(session, server, stream="FEED", schema=small_query.COLUMNS, maxMessagesPerTrigger=ROWS)
    of_table = sw.stream(table, time="at", name="table").sort(small_query.PATIENCE)
    of_feed = sw.stream(feed, time="at", name="feed").select("at", "n").sort(small_query.PATIENCE)
    query = sw.union(of_table, of_feed).start(
        main=main or sw.DeltaSink(folder / "out"),
        late={"table": str(folder / "late"), "feed": str(folder / "late")},
        checkpoint=str(folder / "checkpoint"),
        trigger={"availableNow": True},
        at_end="flush",
        shards=1,
    )
    assert query.wait()


def main(folder: Path, server: str, number: str = "-1") -> None:
    """Do what the command line says."""

    def halt(_: str, micro_batch: int) -> None:
        if micro_batch == int(number):
            (folder / "halted").touch()
            while True:
                time.sleep(1)

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    run(session, folder, server, Halting(sw.DeltaSink(folder / "out"), halt, "out"))
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
