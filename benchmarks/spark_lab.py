"""Queries on Spark, timed: a session, files of rows in micro-batches, native queries and ours in turn."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import disordered
import slackwater as sw
from measure import medians
from slackwater.runners.spark.output.folder_sink import FolderSink

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

ROWS = "at timestamp, origin int, id long, value double"
_SCHEMA = pa.schema({"at": pa.timestamp("us", "UTC"), "origin": pa.int32(), "id": pa.int64(), "value": pa.float64()})
_STORE = "spark.sql.streaming.stateStore.providerClass"
IN_MEMORY = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_PARTITIONS = "spark.sql.shuffle.partitions"
_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


@dataclass
class Lab:
    """A session, a folder, and queries that are run in it."""

    session: SparkSession
    folder: Path
    quick: bool
    queries: int = 0

    def written(self, name: str, tables: Sequence[pa.Table]) -> str:
        """Write a file per micro-batch, in order; Spark goes by the times of the files."""
        path = self.folder / name
        path.mkdir(exist_ok=True)
        for number, table in enumerate(tables):
            file = path / f"{number:04}.parquet"
            pq.write_table(table, file, compression="none")
            os.utime(file, (1_000 + number, 1_000 + number))
        return str(path)

    def read(self, path: str) -> DataFrame:
        """A stream of these files, one per micro-batch."""
        return self.session.readStream.schema(ROWS).option("maxFilesPerTrigger", 1).parquet(path)

    def files(self, path: str, at_once: int = 1) -> Any:
        """The same files, found by Spark and read by Arrow; so many per micro-batch."""
        return sw.parquet_files(self.session, path, schema=ROWS, maxFilesPerTrigger=at_once)

    def together(self, name: str, paths: Sequence[str]) -> str:
        """The files of several streams as those of one: the first of each, then the second of each."""
        path = self.folder / name
        path.mkdir(exist_ok=True)
        for number, one in enumerate(paths):
            for file in Path(one).iterdir():
                (path / f"{file.stem} {number}.parquet").hardlink_to(file)
        return str(path)

    def checkpoint(self) -> str:
        """A folder that no query has used."""
        self.queries += 1
        return str(self.folder / f"checkpoint {self.queries}")

    def seconds(self, start: Callable[[str], Any], warm: float = 0.5) -> list[float]:
        """Run a query to the end of its files; return how long its later micro-batches took."""
        return self.seconds_at_once([start], warm)

    def seconds_at_once(self, starts: Sequence[Callable[[str], Any]], warm: float = 0.5) -> list[float]:
        """The same for queries that run beside each other: the later micro-batches of all of them."""
        queries = [start(self.checkpoint()) for start in starts]
        found: list[float] = []
        for query in [getattr(query, "spark", query) for query in queries]:
            query.awaitTermination()
            taken = [one["durationMs"]["triggerExecution"] / 1e3 for one in query.recentProgress if one["numInputRows"]]
            found += taken[int(warm * len(taken)) :]
        return found

    def write(
        self,
        frame: Callable[[], DataFrame],
        checkpoint: str,
        store: str = ROCKS_DB,
        version: int = 1,
        to: Callable[[DataFrame, int], None] | None = None,
        parquet: str | None = None,
        partitions: int = 2,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> Any:
        """Start a query on a state store, with a partition for each core unless it is said otherwise.

        It writes nothing unless it is given a function, or a folder for Parquet files.

        What to_spark() gives needs version 2 of state checkpoints; others have the one that Spark has by default.
        """
        conf = self.session.conf
        wanted = {_STORE: store, _FORMAT: str(version), _CHANGELOG: "true", _PARTITIONS: str(partitions), **settings}
        before = {name: conf.get(name, None) for name in wanted}
        for name, value in wanted.items():
            conf.set(name, value)
        try:
            writer = frame().writeStream.outputMode("append").option("checkpointLocation", checkpoint)
            writer = writer.format("noop") if to is None else writer.foreachBatch(to)
            writer = writer if parquet is None else writer.format("parquet").option("path", parquet)
            return writer.trigger(availableNow=True).start()
        finally:
            for name, earlier in before.items():
                conf.unset(name) if earlier is None else conf.set(name, earlier)


class Session:
    """A session of two cores, quiet, whose Python is this one."""

    def __init__(self, folder: Path, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        self._folder = folder
        self._settings = settings

    def __enter__(self) -> SparkSession:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_DIRS"] = str(self._folder / "spark")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "8g")
        builder = builder.config("spark.sql.streaming.numRecentProgressUpdates", "1000")
        builder = builder.config("spark.sql.session.timeZone", "UTC").config(map=dict(self._settings))
        self._made = builder.getOrCreate()
        self._made.sparkContext.setLogLevel("OFF")
        return self._made

    def __exit__(self, *_: object) -> None:
        self._made.stop()


NOWHERE = FolderSink("nowhere", format="noop")
NOWHERE_ELSE = FolderSink("nowhere else", format="noop")
NOW = {"availableNow": True}


def started(made: Callable[[], Any], checkpoint: str) -> Any:
    """Start a plan that writes nothing and ends with its files."""
    return made().start(checkpoint=checkpoint, main=NOWHERE, trigger=NOW)


def table(at: NDArray[np.int64], first: int, origins: int = 16) -> pa.Table:
    """Rows with these times, in microseconds, numbered on from the first."""
    numbers = np.arange(first, first + len(at))
    columns = [pa.array(at).cast(_SCHEMA.field("at").type), (numbers % origins).astype(np.int32), numbers, numbers / 7]
    return pa.table([pa.array(column) for column in columns], schema=_SCHEMA)


def disordered_files(
    rows: int, files: int, seed: int = 1, spread: int = 1_000, milliseconds: int = 1
) -> list[pa.Table]:
    """Files of rows of which a third is late by about a thousand places; a row is a millisecond."""
    at = 1_000 * milliseconds * disordered.synthetic(rows * files, percent=30, spread=spread, seed=seed)
    at = np.maximum(at, 0)
    return [table(at[first : first + rows], first) for first in range(0, rows * files, rows)]


def in_turn(lab: Lab, queries: Mapping[str, Callable[[str], Any]], warmed_by: Sequence[str]) -> dict[str, float]:
    """How long a later micro-batch of each query takes. One of each kind is run before, so that none of it is cold.

    All are run twice, turn by turn, for a machine that has neighbours has moods of minutes. In a short run once, and
    without to_spark().
    """
    queries = {name: start for name, start in queries.items() if not (lab.quick and name == "to_spark")}
    for name in warmed_by:
        lab.seconds(queries[name])
    taken: dict[str, list[float]] = {name: [] for name in queries}
    for _ in range(1 if lab.quick else 2):
        for name, start in queries.items():
            taken[name] += lab.seconds(start)
    return medians(taken)
