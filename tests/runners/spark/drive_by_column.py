"""Replicas in one stream that come and go from file to file; as a driver, merges them over Spark Connect.

    python drive_by_column.py FOLDER

The files are in FOLDER/in. `main` and `late` get what a query gives, and `batch.parquet` what a frame that ends does.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from connected import connected_session

import slackwater as sw
from slackwater.runners import spark as on_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema({"at": pa.timestamp("us", "UTC"), "k": pa.string(), "replica": pa.string()})
"""The columns of the files."""

SHARDS = 3
"""How many shards share the work."""

_COLUMNS = "at timestamp, k string, replica string"
_PATIENCE = 45
_LIVES = {"blue": range(4), None: range(2), "red": range(2, 5)}
"""The files in which each replica has rows. What one would have sent before its first file, it lacks."""


def files(seed: int) -> list[pa.Table]:
    """Five files. Times are ten apart, so that no punctuation falls right behind an event; now and then one is late."""
    rng = Random(seed)
    made: list[list[tuple[int, str, str | None]]] = [[] for _ in range(5)]
    words = [rng.choice("abc") for _ in range(150)]
    for name, lives in _LIVES.items():
        for number, word in enumerate(words):
            sent = 10 * number + rng.randint(0, _PATIENCE)
            if min(sent // 300, 4) in lives:
                made[min(sent // 300, 4)].append((10 * number, word, name))
        for file in list(lives)[1:]:
            made[file].append((300 * file - rng.randrange(100, 150, 10), "late", name))
    for rows in made:
        rng.shuffle(rows)  # a micro-batch is one instant
    return [
        pa.Table.from_pylist([{"at": at, "k": k, "replica": name} for at, k, name in rows], SCHEMA) for rows in made
    ]


def write(folder: Path, tables: list[pa.Table], first: int = 0) -> None:
    """Write a file for each table, in their order: Spark goes by the times of the files."""
    folder.mkdir(exist_ok=True)
    for number, table in enumerate(tables, start=first):
        hidden = folder / f".{number:04}"
        pq.write_table(table, hidden)
        os.utime(hidden, (1_000 + number, 1_000 + number))
        hidden.rename(folder / f"{number:04}.parquet")


def merged(stream: sw.DisorderedStream, late: sw.Late | None = None) -> sw.OrderedStream:
    """The replicas as one stream."""
    return stream.merge_replicas("replica", f"{_PATIENCE}us", every=sw.Every.batch(), late=late or sw.Late.divert())


def run(session: SparkSession, folder: Path) -> None:
    """Run a query from its checkpoint, if there is one, to the end of the files that are there."""
    frame = session.readStream.schema(_COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    query = merged(sw.stream(frame, time="at")).start(
        checkpoint=str(folder / "checkpoint"),
        main=on_spark.FolderSink(str(folder / "main")),
        late=on_spark.FolderSink(str(folder / "late")),
        trigger={"availableNow": True},
        shards=SHARDS,
    )
    query.wait()


def of_frame_that_ends(session: SparkSession, folder: Path) -> DataFrame:
    """The events of all files at once."""
    frame = session.read.schema(_COLUMNS).parquet(str(folder / "in"))
    return merged(sw.stream(frame, time="at"), sw.Late.drop()).to_spark(shards=SHARDS)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    connected = connected_session()
    run(connected, place)
    pq.write_table(of_frame_that_ends(connected, place).toArrow(), place / "batch.parquet")
    connected.stop()
