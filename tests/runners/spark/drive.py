"""A driver of its own for tests: sorts the files of a folder over Spark Connect, one per micro-batch, to the last.

    python drive.py FOLDER PATIENCE

The folder holds `in`; `checkpoint`, `main` and `late` are made in it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from connected import connected_session

import slackwater as sw
from slackwater.runners import spark as on_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "at timestamp, n long, word string"


def run(session: SparkSession, folder: str, patience: str) -> None:
    """Run to the end of what is there."""
    frame = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
    ordered = sw.stream(frame, time="at").sort(patience=patience, every=sw.Every.batch())
    query = ordered.start(
        checkpoint=f"{folder}/checkpoint",
        main=on_spark.FolderSink(f"{folder}/main"),
        late=on_spark.FolderSink(f"{folder}/late"),
        trigger={"availableNow": True},
    )
    query.wait()


if __name__ == "__main__":
    session = connected_session()
    run(session, *sys.argv[1:])
    session.stop()
