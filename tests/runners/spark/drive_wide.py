"""A driver of its own for tests: sorts files of wide rows on a session as it comes, whose JVM has 1 GiB.

    python drive_wide.py FOLDER

The folder holds `in`; `checkpoint` and `main` are made in it. It is a process of its own because a JVM that runs out of
memory takes its session along.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

import slackwater as sw

COLUMNS = "at long, text string"
PATIENCE = 100_000


def run(session: SparkSession, folder: str) -> None:
    """Run to the end of what is there."""
    frame = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
    query = (
        sw.stream(frame, time="at")
        .sort(patience=PATIENCE, late=sw.Late.drop())
        .start(
            checkpoint=f"{folder}/checkpoint",
            main=f"{folder}/main",
            trigger={"availableNow": True},
            shards=1,
        )
    )
    query.wait()


if __name__ == "__main__":
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    run(session, sys.argv[1])
    session.stop()
