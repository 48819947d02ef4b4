"""Four plans for tests in which queries are killed at any moment; as a driver, runs one of them until all is done.

    python drive_kills.py FOLDER PLAN KIND

Plans are those of PLANS, and KIND is `frames` or `files`. The folder holds `in0`, and `in1` for plans with two sources;
`checkpoint` and a folder for each output are made in it.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

COLUMNS = "at timestamp, n long, word string"
SHARDS = 2
TIMEOUT = "1500ms"
TRIGGER = "500 milliseconds"


@dataclass(frozen=True)
class Killed:
    """A plan: its streams, how many sources it has, and whether its late rows are kept."""

    planned: Callable[[list[sw.DisorderedStream]], Sequence[Any]]
    sources: int = 1
    late: bool = True
    timed: bool = False

    @property
    def late_outputs(self) -> list[str]:
        """The folders of late rows, one for each source."""
        return [f"late {number}" for number in range(self.sources)] if self.late else []


def _bands(streams: list[sw.DisorderedStream]) -> Sequence[Any]:
    per_word = streams[0].tumbling("50us").group_by("word")
    sums: dict[str, Any] = {"n": sw.count(), "sum": sw.sum("n")}
    return list(per_word.in_bands("10us", "40us", "90us", every=sw.Every.batch(), late=sw.Late.drop(), **sums))


def _join(streams: list[sw.DisorderedStream]) -> Sequence[Any]:
    left, right = (stream.sort("40us", every=sw.Every.batch()) for stream in streams)
    return [left.select("word", left="n").join(right.select("word", right="n"), on="word", within="3us")]


def _by_column(streams: list[sw.DisorderedStream]) -> Sequence[Any]:
    return [streams[0].select("n", replica="word").merge_replicas("replica", "45us", every=sw.Every.batch())]


def _timed(streams: list[sw.DisorderedStream]) -> Sequence[Any]:
    return [sw.union(*(stream.sort("5s", every=sw.Every.batch()) for stream in streams))]


PLANS = {
    "bands": Killed(_bands, late=False),
    "join": Killed(_join, sources=2),
    "by column": Killed(_by_column),
    "timeout": Killed(_timed, sources=2, timed=True),
}


def start(session: SparkSession, folder: str, name: str, kind: str) -> Any:
    """Start the query, from its checkpoint if there is one."""
    plan = PLANS[name]
    streams = []
    for number in range(plan.sources):
        path = f"{folder}/in{number}"
        options: dict[str, Any] = {"maxFilesPerTrigger": 1}
        frame: Any = session.readStream.schema(COLUMNS).options(**options).parquet(path)
        source = frame if kind == "frames" else sw.parquet_files(session, path, schema=COLUMNS, **options)
        streams.append(sw.stream(source, time="at", name=f"source {number}"))
    late: Any = {f"source {number}": f"{folder}/{output}" for number, output in enumerate(plan.late_outputs)}
    return sw.start_together(
        [(stream, f"{folder}/main") for stream in plan.planned(streams)],
        checkpoint=f"{folder}/checkpoint",
        late=(late if plan.sources > 1 else late["source 0"]) if plan.late else None,
        trigger={"processingTime": TRIGGER} if plan.timed else {"availableNow": True},
        timeout=TIMEOUT if plan.timed else None,
        shards=SHARDS,
    )


def settings(builder: Any) -> Any:
    """States are stored whole now and then, besides what changed, as in queries that run for long; no log is purged."""
    builder = builder.config("spark.sql.streaming.stateStore.maintenanceInterval", "1s")
    builder = builder.config("spark.sql.streaming.stateStore.minDeltasForSnapshot", "2")
    return builder.config("spark.sql.streaming.minBatchesToRetain", "100000")


def main(folder: str, name: str, kind: str) -> None:
    """Do what the command line says."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = settings(builder.config("spark.ui.showConsoleProgress", "false")).getOrCreate()
    while not ended(start(session, folder, name, kind)):
        pass
    session.stop()


def ended(query: Any) -> bool:
    """Wait for its end; say no if a busy machine made Spark give up on a worker, so that it must be started again."""
    try:
        query.wait()
    except RunError as error:
        if "did not start in time" not in str(error):
            raise
        return False
    return True


def write(folder: Path, tables: Sequence[Any]) -> None:
    """Write a file for each table, in their order: Spark goes by the times of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, table in enumerate(tables):
        hidden = folder / f".{number:04}"
        pq.write_table(table, hidden)
        os.utime(hidden, (1_000 + number, 1_000 + number))
        hidden.rename(folder / f"{number:04}.parquet")


if __name__ == "__main__":
    main(*sys.argv[1:])
