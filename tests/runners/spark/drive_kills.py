"""A driver of its own for tests in which queries are killed: runs one of the plans until it has come to its end.

    python drive_kills.py FOLDER PLAN MASTER NATS POSTGRES

Plans are those of `killed_plans.py`. MASTER is one of Spark's, or `cluster`: two executors on this machine. The folder
holds `in0`, `in1` and so on, unless the server NATS has a stream of that name. `checkpoint` and a folder or table for
each output are made in it or at the server POSTGRES. Where Spark gives up because of what was killed, or because a
machine is busy, the query is started again, and FOLDER/failures has a line. What the counters say in the end comes to
FOLDER/counters.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drive_plans_on_cluster import Cluster, session_on
from killed_plans import PLANS, Plan
from killed_rows import COLUMNS, ROWS
from pyspark import SparkContext
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.errors import RunError
from slackwater.runners.spark.output import sinks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHARDS = 2
_TRIGGER = "300 milliseconds"
_ROUNDS = 12
"""Micro-batches after the last rows, in which timers let go of what is held."""

_MOST_FAILURES = 30
_ANOTHER = "came again with other rows"


@dataclass(frozen=True)
class Numbered:
    """A function as users write them for foreachBatch: a file for each number, written once.

    One that comes again must bring the rows that it brought before, but for metrics, which have measured times.
    """

    folder: Path
    repeats: bool = True

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Take the rows of a micro-batch."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file, hidden = self.folder / f"{batch_id}.json", self.folder / f".{batch_id}"
        lines = sorted(json.dumps(row.asDict(), sort_keys=True, default=str) for row in rows.collect())
        if self.repeats and file.exists() and json.loads(file.read_text()) != list(map(json.loads, lines)):
            raise ValueError(f"{file} {_ANOTHER}")
        hidden.write_text(f"[{','.join(lines)}]")
        hidden.rename(file)


def sink_of(kind: str, folder: Path, place: str, server: str) -> Any:
    """Where an output goes."""
    match kind:
        case "delta":
            return sw.DeltaSink(folder / place)
        case "postgres":
            return sw.PostgresSink(server, table_of(folder, place))
        case "function":
            return Numbered(folder / place)
        case "tasks":  # with options of its own Spark writes a folder itself
            return sw.FolderSink(str(folder / place), options={"parquet.page.size": "65536"})
    return str(folder / place)


def table_of(folder: Path, place: str) -> str:
    """The table of an output, at a server that has those of other folders, too."""
    return f"{folder.name}_{place}".replace(" ", "_")


def stream_of(folder: Path, source: int) -> str:
    """The stream of a source, at a server that has those of other folders, too."""
    return f"{folder.name}-{source}"


def _source(session: SparkSession, plan: Plan, folder: Path, number: int, nats: str) -> Any:
    path = str(folder / f"in{number}")
    one: dict[str, Any] = {"maxFilesPerTrigger": 1}
    match plan.sources[number]:
        case "frames":
            return session.readStream.schema(COLUMNS).options(**one).parquet(path)
        case "files":
            return sw.parquet_files(session, path, schema=COLUMNS, **one)
        case "delta":
            return sw.delta_table(session, path, startingVersion=0, maxVersionsPerTrigger=1)
    return sw.jetstream(session, nats, stream=stream_of(folder, number), schema=COLUMNS, maxMessagesPerTrigger=ROWS)


def start(session: SparkSession, plan: Plan, folder: Path, nats: str, server: str) -> Any:
    """Start the query, from its checkpoint if there is one."""
    streams = [
        sw.stream(_source(session, plan, folder, number, nats), time="at", name=f"source {number}", **plan.columns)
        for number in range(len(plan.sources))
    ]
    given = {place: sink_of(kind, folder, place, server) for place, kind in plan.outputs.items()}
    late = {f"source {number}": given[f"late {number}"] for number in range(len(streams))}
    return sw.start_together(
        [(stream, given["main"]) for stream in plan.planned(streams)],
        checkpoint=str(folder / "checkpoint"),
        late=late if len(late) > 1 else late["source 0"],
        left_out=given.get("left out"),
        metrics=Numbered(folder / "metrics", repeats=False),
        trigger={"processingTime": _TRIGGER} if plan.timed else {"availableNow": True},
        shards=SHARDS,
        **plan.options,
    )


def _ended(query: Any, plan: Plan, folder: Path) -> bool:
    """Wait for the end of a query; of one with timers, until all has been read, and then for some micro-batches."""
    if not plan.timed:
        return bool(query.wait())
    files = sum(len(list(folder.glob(f"in{number}/*.parquet"))) for number in range(len(plan.sources)))
    behind = None
    while True:
        done = len(list((folder / "checkpoint/commits").glob("[0-9]*")))
        if behind is None and _listed(folder) == files:
            behind = done + _ROUNDS
        if behind is not None and done > behind:
            query.stop()
            return True
        if query.wait(0.1):
            return False


def _listed(folder: Path) -> int:
    """How many files Spark has listed, in whatever micro-batch."""
    logs = (folder / "checkpoint/sources").glob("*/[0-9]*")
    return len({line for log in logs for line in log.read_text().splitlines()[1:] if '"path"' in line})


def _session(master: str, folder: Path) -> SparkSession:
    if master == "cluster":
        cluster = Cluster(str(folder))
        SparkContext._gateway, SparkContext._jvm = cluster.gateway, cluster.gateway.jvm  # the session takes that Java
        session = session_on(cluster)
    else:
        builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
        session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    # States are stored whole now and then, besides what changed, as in queries that run for long; no log is purged.
    session.conf.set("spark.sql.streaming.stateStore.maintenanceInterval", "1s")
    session.conf.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "2")
    session.conf.set("spark.sql.streaming.minBatchesToRetain", "100000")
    return session


def main(folder: Path, name: str, master: str, *servers: str) -> None:
    """Do what the command line says."""
    sinks.FEW_BYTES = 4_000  # type: ignore[misc] # so that the driver writes some micro-batches, and tasks the others
    session, plan = _session(master, folder), PLANS[name]
    for _ in range(_MOST_FAILURES):
        query = None
        try:
            query = start(session, plan, folder, *servers)
            if _ended(query, plan, folder):
                break
        except RunError as error:
            with (folder / "failures").open("a") as file:
                file.write(json.dumps([time.time(), str(error)]) + "\n")
            if _ANOTHER in str(error):
                raise
    else:
        raise RunError("the query failed more often than anything was killed")
    counters = query.counters().get("all shards")
    (folder / "counters").write_text(json.dumps(counters and asdict(counters)))
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
