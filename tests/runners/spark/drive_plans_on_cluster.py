"""A driver of its own for tests: sorts, bands, merges and joins on a cluster of two executors, which has its troubles.

    python drive_plans_on_cluster.py FOLDER

The folder holds `blue` and `green`, two replicas in files, and `coming`, the last file of each. In it are made
`checkpoint`, a folder for each output, `attempts`, who did the work of the shard that has the row SLOW, and `seen`: the
shards that a query would have by itself, first and last, and which micro-batches there were.

    micro-batch 1   the first attempt at the task of that shard dawdles until the other executor has done it, too;
                    before anything is written the executor that did it last is killed, and another one started
    micro-batch 2   before anything is written a worker is lost, with its executor
    restarted       the last files come, with one executor left, and the query is flushed

Master and workers are in the Java of the driver: three processes of Java are enough. Each worker has an address of its
own, for Spark has no task done a second time on the host that does it already.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import SparkConf, TaskContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.runners.spark.planning.shard_count import default_shards

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

COLUMNS = "at long, k string, n long"
REPLICAS = ("blue", "green")
SLOW = 130
"""The time of a row of the second files: whoever is the first to have it dawdles."""

_DAWDLE_SECONDS = 100
"""Spark ends it as soon as the other attempt is done, however long that takes on a busy machine."""


@dataclass(frozen=True)
class Dawdling:
    """A user's function that passes rows on; with the row SLOW it takes its time, once."""

    folder: str

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Pass rows on."""
        context = TaskContext.get()
        if context is not None and SLOW in rows.column("at").to_pylist():
            attempts = Path(self.folder, "attempts")
            first = not attempts.exists()
            daemon = os.getppid()
            executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
            with attempts.open("a") as file:
                file.write(json.dumps([context.attemptNumber(), executor]) + "\n")
            begun = time.monotonic()
            while first and time.monotonic() < begun + _DAWDLE_SECONDS:
                time.sleep(0.05)
        return rows.drop_columns(["at"])


def planned(streams: Sequence[sw.DisorderedStream], folder: str = "") -> list[Any]:
    """A sort, two bands, a merge and a join."""
    options: Any = {"every": sw.Every.batch(), "late": sw.Late.drop()}
    blue, green = (one.sort(patience=60, **options) for one in streams)
    soon, later = streams[0].tumbling(20).group_by("k").in_bands(20, 60, n=sw.count(), **options)
    pairs = blue.select("k", "n").join(green.select("k", other="n"), on="k", within=1)
    return [blue.map_batches(Dawdling(folder)), soon, later, sw.merge_replicas(blue, green), pairs]


OUTPUTS = ("sorted", "soon", "later", "merged", "pairs")
"""The folders of what these give."""


class Cluster:
    """A master and two workers in the Java of this process."""

    def __init__(self, folder: str) -> None:
        launch: Callable[[SparkConf], Any] = launch_gateway
        self.gateway = launch(SparkConf())
        self._spark = self.gateway.jvm.org.apache.spark
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._deploy = self._spark.deploy
        _companion(self._deploy.master, "Master").startRpcEnvAndEndpoint("127.0.0.1", port, 0, self._spark.SparkConf())
        self.master = f"spark://127.0.0.1:{port}"
        self._workers = [self._worker(host, folder) for host in ("127.0.0.2", "127.0.0.3")]

    def _worker(self, host: str, folder: str) -> Any:
        masters = self.gateway.new_array(self.gateway.jvm.java.lang.String, 1)
        masters[0] = self.master
        worker = _companion(self._deploy.worker, "Worker")
        number = getattr(worker, "startRpcEnvAndEndpoint$default$8")()
        no_resources = getattr(worker, "startRpcEnvAndEndpoint$default$10")()
        folder, settings = f"{folder}/work", self._spark.SparkConf()
        return worker.startRpcEnvAndEndpoint(host, 0, 0, 1, 1_024, masters, folder, number, settings, no_resources)

    def lose_a_worker(self) -> None:
        """Let one go, with its executor."""
        self._workers.pop().shutdown()


def _companion(package: Any, name: str) -> Any:
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def session_on(cluster: Cluster) -> SparkSession:
    """A session with two executors."""
    builder = SparkSession.builder.master(cluster.master)
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.speculation": "true",
        "spark.speculation.interval": "500ms",
        "spark.speculation.minTaskRuntime": "5s",
        "spark.speculation.task.duration.threshold": "5s",
        "spark.locality.wait": "0s",
        "spark.executor.memory": "512m",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class Run:
    """The query, life by life."""

    def __init__(self, folder: str) -> None:
        self._cluster = Cluster(folder)
        # The session takes the Java that is there.
        from pyspark import SparkContext

        SparkContext._gateway, SparkContext._jvm = self._cluster.gateway, self._cluster.gateway.jvm
        self._session, self._folder = session_on(self._cluster), folder
        self.batches: list[int] = []

    def live(self) -> sw.SparkQuery:
        """Start it."""
        frames = (self._session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1) for _ in REPLICAS)
        paths = [str(Path(self._folder, name)) for name in REPLICAS]
        streams = [sw.stream(frame.parquet(path), time="at") for frame, path in zip(frames, paths, strict=True)]
        plan = planned(streams, self._folder)
        sinks: list[Any] = [self._in_trouble, *(str(Path(self._folder, name)) for name in OUTPUTS[1:])]
        return sw.start_together(
            list(zip(plan, sinks, strict=True)),
            checkpoint=str(Path(self._folder, "checkpoint")),
            trigger={"availableNow": True},
            at_end="flush",
        )

    def _in_trouble(self, rows: DataFrame, batch_id: int) -> None:
        """Write the rows in order, which is what comes first of a micro-batch."""
        self.batches.append(batch_id)
        if batch_id == 1:
            *_, last = Path(self._folder, "attempts").read_text().splitlines()
            os.kill(json.loads(last)[1], signal.SIGKILL)
        if batch_id == 2:
            self._cluster.lose_a_worker()
        rows.write.mode("overwrite").parquet(str(Path(self._folder, OUTPUTS[0], f"batch_id={batch_id}")))

    def whole(self) -> dict[str, Any]:
        """All lives; what a test wants to know of them."""
        shards = default_shards(self._session)
        query = self.live()
        query.work()
        query.stop()
        for name in REPLICAS:
            Path(self._folder, "coming", name).rename(Path(self._folder, name, "3.parquet"))
        query = self.live()
        query.wait()
        left = default_shards(self._session)
        self._session.stop()
        return {"shards": shards, "left": left, "batches": self.batches}


if __name__ == "__main__":
    Path(sys.argv[1], "seen").write_text(json.dumps(Run(sys.argv[1]).whole()))
