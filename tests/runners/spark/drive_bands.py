"""A driver of its own for tests of crashes: two shards, five outputs, one file per micro-batch, until all are done.

    python drive_bands.py FOLDER [PLACE MICRO_BATCH]

The folder holds `in`; `checkpoint` and a folder for each of OUTPUTS are made in it. With a place it comes to a halt
there in that micro-batch, makes `halted`, and waits to be killed. Places are

    packing         where rows are packed, in a user's function
    hosting         in a shard, in a user's function, before anything is stored
    before OUTPUT   everything is stored, and nothing of this output is written
    within OUTPUT   half of the rows of this output are in a file, and the others are not
    after OUTPUT    all of this output is written
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

import slackwater as sw
from slackwater.errors import RunError
from slackwater.runners import spark as on_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame

COLUMNS = "at timestamp, n long, word string"
OUTPUTS = ("early", "final", "rows", "late", "metrics")
"""In the order in which they are written."""

SHARDS = 2


@dataclass(frozen=True)
class Halt:
    """Where and when to wait to be killed; nowhere, unless a place is named."""

    folder: str
    place: str = ""
    micro_batch: int = -1

    def is_at(self, place: str, micro_batch: int) -> bool:
        """Whether this is the place and the time."""
        return (place, micro_batch) == (self.place, self.micro_batch)

    def stop_at(self, place: str, micro_batch: int) -> None:
        """Wait, if this is the place and the time."""
        if self.is_at(place, micro_batch):
            (Path(self.folder) / "halted").touch()
            while True:
                time.sleep(1)


@dataclass(frozen=True)
class Functions:
    """What a user wrote: how rows are treated before they are packed, and which counts are wanted in the end."""

    look_up: Callable[[pa.RecordBatch], pa.RecordBatch]
    is_wanted: Callable[[pa.RecordBatch], pa.Array]


def functions(
    on_rows: Callable[[pa.RecordBatch], object] = len, on_counts: Callable[[pa.RecordBatch], object] = len
) -> Functions:
    """Functions that change nothing, but show what they are given to another function first."""

    def look_up(rows: pa.RecordBatch) -> pa.RecordBatch:
        on_rows(rows)
        return rows

    def is_wanted(counts: pa.RecordBatch) -> pa.Array:
        on_counts(counts)
        return pa.array([True] * counts.num_rows)

    return Functions(look_up, is_wanted)


def planned(rows: sw.DisorderedStream, users: Functions) -> list[sw.OrderedStream]:
    """The streams of the first three outputs: counts for each of two patiences, and rows in order."""
    early, final = rows.map_batches(users.look_up).in_bands("10us", "40us", every=sw.Every.batch())
    counts = (
        band.tumbling("20us").group_by("word").aggregate(count=sw.count(), sum=sw.sum("n")) for band in (early, final)
    )
    return [*(one.where(users.is_wanted) for one in counts), final]


@dataclass(frozen=True)
class HaltingSink:
    """Writes as a FolderSink does, unless it comes to a halt."""

    folder: str
    output: str
    halt: Halt
    inner: Any = None

    def claimed(self, session: SparkSession, run: Any) -> HaltingSink:
        """Claim the folder."""
        return replace(self, inner=on_spark.FolderSink(f"{self.folder}/{self.output}").claimed(session, run))

    def take(self, session: SparkSession) -> HaltingSink:
        """Take it."""
        return replace(self, inner=self.inner.take(session))

    def has(self, session: SparkSession, batch_id: int) -> bool:
        """Whether a micro-batch is written."""
        return bool(self.inner.has(session, batch_id))

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Write the rows of a micro-batch."""
        if self.halt.is_at(f"before {self.output}", batch_id):
            rows.count()  # which runs the shards, and stores what they remember
            self.halt.stop_at(f"before {self.output}", batch_id)
        if self.halt.is_at(f"within {self.output}", batch_id):
            rows = rows.repartition(2).mapInArrow(self._first_half_only(batch_id), rows.schema)
        self.inner.write(rows, batch_id)
        self.halt.stop_at(f"after {self.output}", batch_id)

    def _first_half_only(self, batch_id: int) -> Any:
        written, halt, place = Path(self.folder, self.output), self.halt, f"within {self.output}"

        def passed_on(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            assert context is not None
            if context.partitionId() > 0:
                while not list(written.glob(f"_slackwater/staged/*-{batch_id}/**/task_*/part-00000-*")):
                    time.sleep(0.01)
                halt.stop_at(place, batch_id)
            yield from batches

        return passed_on


def run(session: SparkSession, folder: str, users: Functions, halt: Halt) -> None:
    """Run from the checkpoint, if there is one, to the end of the files that are there."""
    frame = session.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
    sinks = {output: HaltingSink(folder, output, halt) for output in OUTPUTS}
    while True:
        query = sw.start_together(
            list(zip(planned(sw.stream(frame, time="at"), users), sinks.values(), strict=False)),
            checkpoint=f"{folder}/checkpoint",
            late=sinks["late"],
            metrics=sinks["metrics"],
            trigger={"availableNow": True},
            shards=SHARDS,
        )
        try:
            query.wait()
        except RunError as error:
            if "did not start in time" not in str(error):  # on a busy machine Spark gives up on a worker
                raise
        else:
            return


def micro_batch() -> int:
    """The number of the micro-batch that a task works for; -1 outside of tasks."""
    context = TaskContext.get()
    number = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    return -1 if number is None else int(number)


def main(folder: str, place: str = "", number: str = "-1") -> None:
    """Do what the command line says."""
    halt = Halt(folder, place, int(number))
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    # States are then stored whole now and then, besides what changed, as they are in queries that run for long.
    builder = builder.config("spark.sql.streaming.stateStore.maintenanceInterval", "1s")
    builder = builder.config("spark.sql.streaming.stateStore.minDeltasForSnapshot", "2")
    session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    users = functions(
        lambda _: halt.stop_at("packing", micro_batch()),
        lambda _: halt.stop_at("hosting", micro_batch()),
    )
    run(session, folder, users, halt)
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
