"""A driver of its own for tests: sorts files on a cluster of two executors, in which a task is done twice.

    python drive_cluster.py FOLDER TROUBLE

The folder holds `in`; `checkpoint` and `main` are made in it, `attempts`, which lists who did what, and
`shards`, which says how many a query would have by itself. In micro-batch
DOUBLED the one task of the shard does its work, stores it, and then, by TROUBLE,

    failure      fails, and is tried again on the other executor
    speculation  dawdles, until Spark has it done by the other executor as well
    none         ends like any other

When the micro-batch is written, the executor that did it last is killed, so that the other one goes on, from what it
stored itself.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pyspark
from pyspark import TaskContext
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.runners.spark.planning.shard_count import default_shards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

COLUMNS = "at long, word string"
DOUBLED = 1
"""The micro-batch whose task is done twice."""

_DAWDLE_SECONDS = 400
"""Spark ends it as soon as the other attempt is done, however long that takes on a busy machine."""


@dataclass(frozen=True)
class TroubledSink:
    """Writes a folder for each micro-batch; its tasks, which are those of the shard, fail or dawdle at their end."""

    folder: str
    trouble: str
    reads_once: ClassVar = True

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Write the rows of a micro-batch, and kill the executor that did it last, if it is the one."""
        passed = rows.mapInArrow(self._at_end(batch_id), rows.schema)
        passed.write.mode("overwrite").parquet(f"{self.folder}/main/batch_id={batch_id}")
        if batch_id == DOUBLED and self.trouble != "none":
            *_, (_, _, executor) = attempts(self.folder, batch_id)
            os.kill(executor, signal.SIGKILL)

    def _at_end(self, batch_id: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        folder, trouble = self.folder, self.trouble if batch_id == DOUBLED else "none"

        def passed_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from batches
            context = TaskContext.get()
            assert context is not None
            # All has been computed and stored by now; the first attempt is to be followed by another.
            first = context.attemptNumber() == 0
            daemon = os.getppid()
            executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
            with Path(folder, "attempts").open("a") as file:
                file.write(json.dumps([batch_id, context.attemptNumber(), executor]) + "\n")
            if first and trouble == "failure":
                raise LookupError("no tide table at the first attempt")
            begun = time.monotonic()
            while first and trouble == "speculation" and time.monotonic() < begun + _DAWDLE_SECONDS:
                time.sleep(0.1)

        return passed_on


def attempts(folder: str, batch_id: int) -> list[tuple[int, int, int]]:
    """Who did the work of a micro-batch, in the order in which it was done: micro-batch, attempt, process."""
    attempts = [json.loads(line) for line in Path(folder, "attempts").read_text().splitlines()]
    return [tuple(one) for one in attempts if one[0] == batch_id]


def start_cluster(folder: str) -> str:
    """Start a master and two workers on this machine, and return the master's address.

    Each worker has an address of its own: Spark has no task done a second time on the host that does it already, and
    those of a `local-cluster` are all on one. Whoever ends this process ends them.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    master, deploy = f"spark://127.0.0.1:{port}", "org.apache.spark.deploy"
    _spark(folder, f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
    for host in ("127.0.0.2", "127.0.0.3"):
        resources = ("--cores", "1", "--memory", "1g", "--work-dir", f"{folder}/work", "--webui-port", "0")
        _spark(folder, f"{deploy}.worker.Worker", "--host", host, *resources, master)
    return master


def _spark(folder: str, *command: str) -> None:
    with Path(folder, command[0].rpartition(".")[2]).open("ab") as log:
        program = Path(pyspark.__file__).parent / "bin/spark-class"
        subprocess.Popen([str(program), *command], stdout=log, stderr=log)  # noqa: S603 - our own words


def cluster(master: str) -> SparkSession:
    """A session with two executors on this machine, which never tries a task twice on the same one."""
    builder = SparkSession.builder.master(master)
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.excludeOnFailure.enabled": "true",
        "spark.excludeOnFailure.task.maxTaskAttemptsPerExecutor": "1",
        "spark.excludeOnFailure.stage.maxFailedTasksPerExecutor": "9",
        "spark.speculation": "true",
        "spark.speculation.minTaskRuntime": "30s",
        "spark.speculation.task.duration.threshold": "30s",
        "spark.locality.wait": "0s",
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def run(session: SparkSession, folder: str, trouble: str) -> None:
    """Run from the checkpoint, if there is one, to the end of the files that are there."""
    frame = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
    ordered = sw.stream(frame, time="at").sort(patience=450_000, late=sw.Late.drop())
    query = ordered.start(
        checkpoint=f"{folder}/checkpoint",
        main=TroubledSink(folder, trouble),
        trigger={"availableNow": True},
        shards=1,
    )
    query.wait()


if __name__ == "__main__":
    session = cluster(start_cluster(sys.argv[1]))
    Path(sys.argv[1], "shards").write_text(str(default_shards(session)))
    run(session, *sys.argv[1:])
    session.stop()
