"""The Spark runner against what Spark does natively: both read the same files, turn by turn, in one session.

Every query reads one file per micro-batch, and writes to Spark's sink that writes nothing: what Spark does natively,
and what to_spark() gives, by the same writeStream; what start() runs, by a FolderSink. Its speed is that of the later
half of its micro-batches, whole trigger time: the first ones start workers and fill state. A micro-batch costs a good
part of a second however few rows it has, and more if Python takes part: so sizes are said with every figure.

Plans read the files in two ways: as DataFrames ("start", "frame"), whose rows cross from Spark to Python one by one,
and by parquet_files ("files"), whose rows do not. The figures of the sort are those of DataFrames, as is what it is
compared with; those of the merge, of deduplicate and of bands are those of files; beside them stands what DataFrames
give.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import disordered
import slackwater as sw
from measure import medians
from slackwater.runners.spark.output.folder_sink import FolderSink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from measure import Report

_ROWS = "at timestamp, origin int, id long, value double"
_SCHEMA = pa.schema({"at": pa.timestamp("us", "UTC"), "origin": pa.int32(), "id": pa.int64(), "value": pa.float64()})
_STORE = "spark.sql.streaming.stateStore.providerClass"
_IN_MEMORY = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_ROCKS_DB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def run(report: Report, *, quick: bool) -> None:
    """Measure everything; figures are those of start() and of the largest micro-batches."""
    large = 2_000_000
    with tempfile.TemporaryDirectory() as folder, _session(Path(folder)) as session:
        lab = Lab(session, Path(folder), quick)
        _sort(report, lab, (large,), 5)
        _merge(report, lab, (large,), 3)
        _bands(report, lab, (large,), 4)
        _growth(report, lab, rows=200_000 if quick else 500_000, held=(2, 10) if quick else (2, 20))
        if not quick:
            _linear(report, lab)


# ---- the laboratory --------------------------------------------------------------------------------------------------


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
        return self.session.readStream.schema(_ROWS).option("maxFilesPerTrigger", 1).parquet(path)

    def files(self, path: str, at_once: int = 1) -> Any:
        """The same files, found by Spark and read by Arrow; so many per micro-batch."""
        return sw.parquet_files(self.session, path, schema=_ROWS, maxFilesPerTrigger=at_once)

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
        query = start(self.checkpoint())
        query = getattr(query, "spark", query)
        query.awaitTermination()
        taken = [one["durationMs"]["triggerExecution"] / 1e3 for one in query.recentProgress if one["numInputRows"]]
        return taken[int(warm * len(taken)) :]

    def write(self, frame: Callable[[], DataFrame], checkpoint: str, store: str = _ROCKS_DB, version: int = 1) -> Any:
        """Start a query that writes nothing, on a state store, with as many partitions as there are cores.

        What to_spark() gives needs version 2 of state checkpoints; others have the one that Spark has by default.
        """
        conf = self.session.conf
        before = {name: conf.get(name, None) for name in (_STORE, _CHANGELOG, _FORMAT, "spark.sql.shuffle.partitions")}
        conf.set(_STORE, store)
        conf.set(_FORMAT, str(version))
        conf.set(_CHANGELOG, "true")
        conf.set("spark.sql.shuffle.partitions", "2")
        try:
            writer = frame().writeStream.format("noop").outputMode("append").option("checkpointLocation", checkpoint)
            return writer.trigger(availableNow=True).start()
        finally:
            for name, value in before.items():
                conf.unset(name) if value is None else conf.set(name, value)


class _session:  # noqa: N801 - used as a function
    """A session of two cores, quiet, whose Python is this one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __enter__(self) -> SparkSession:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_DIRS"] = str(self._folder / "spark")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "8g")
        builder = builder.config("spark.sql.streaming.numRecentProgressUpdates", "1000")
        builder = builder.config("spark.sql.session.timeZone", "UTC")
        self._made = builder.getOrCreate()
        self._made.sparkContext.setLogLevel("OFF")
        return self._made

    def __exit__(self, *_: object) -> None:
        self._made.stop()


_NOWHERE = FolderSink("nowhere", format="noop")
_NOW = {"availableNow": True}


def _started(made: Callable[[], Any], checkpoint: str) -> Any:
    return made().start(checkpoint=checkpoint, main=_NOWHERE, trigger=_NOW)


def _as_frame(made: Callable[[], Any]) -> DataFrame:
    frame: DataFrame = made().to_spark()
    return frame


def _sorted(source: Any, patience: str = "10s") -> Any:
    return sw.stream(source, time="at").sort(patience, late=sw.Late.drop())


def _table(at: NDArray[np.int64], first: int, origins: int = 16) -> pa.Table:
    """Rows with these times, in microseconds, numbered on from the first."""
    numbers = np.arange(first, first + len(at))
    columns = [pa.array(at).cast(_SCHEMA.field("at").type), (numbers % origins).astype(np.int32), numbers, numbers / 7]
    return pa.table([pa.array(column) for column in columns], schema=_SCHEMA)


def _disordered_files(rows: int, files: int, seed: int = 1, spread: int = 1_000) -> list[pa.Table]:
    """Files of rows of which a third is late by about a thousand places; a row is a millisecond."""
    at = 1_000 * disordered.synthetic(rows * files, percent=30, spread=spread, seed=seed)
    at = np.maximum(at, 0)
    return [_table(at[first : first + rows], first) for first in range(0, rows * files, rows)]


def _in_turn(lab: Lab, queries: Mapping[str, Callable[[str], Any]], warmed_by: str | None) -> dict[str, float]:
    """How long a later micro-batch of each query takes. One of them is run before, so that none of its kind is cold.

    All are run twice, turn by turn, for a machine that has neighbours has moods of minutes. In a short run once, and
    without to_spark().
    """
    queries = {name: start for name, start in queries.items() if not (lab.quick and name == "to_spark")}
    if warmed_by is not None:
        lab.seconds(queries[warmed_by])
    taken: dict[str, list[float]] = {name: [] for name in queries}
    for _ in range(1 if lab.quick else 2):
        for name, start in queries.items():
            taken[name] += lab.seconds(start)
    return medians(taken)


def _thousands(rows: int, seconds: Mapping[str, float]) -> list[float]:
    """Rows per second, in thousands."""
    return [rows / taken / 1e3 for taken in seconds.values()]


# ---- the measurements ------------------------------------------------------------------------------------------------


def _sort(report: Report, lab: Lab, sizes: Sequence[int], files: int) -> None:
    """A sort against the floor of any step in Python."""

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    lines: list[list[Any]] = []
    for rows in sizes:
        path = lab.written(f"sort {rows}", _disordered_files(rows, files))

        def identity(path: str = path) -> DataFrame:
            return lab.read(path).mapInArrow(same, _ROWS)

        def of_frame(path: str = path) -> Any:
            return _sorted(lab.read(path))

        def of_files(path: str = path) -> Any:
            return _sorted(lab.files(path))

        seconds = _in_turn(
            lab,
            {
                "identity": partial(lab.write, identity),
                "to_spark": partial(lab.write, partial(_as_frame, of_frame), version=2),
                "start": partial(_started, of_frame),
                "files": partial(_started, of_files),
            },
            warmed_by="identity",
        )
        lines.append([f"{rows:,}", *_thousands(rows, seconds)])
        # What is compared with is a step over a DataFrame, so the first figure is that of one, too.
        for figure, ours in (("sort", "start"), ("sort_to_spark", "to_spark"), ("sort_of_files", "files")):
            if ours in seconds:
                report.figures[f"{figure}_over_identity"] = round(seconds["identity"] / seconds[ours], 2)
        report.figures["sort_krows_per_s"] = round(rows / seconds["start"] / 1e3)
    title = "a sort with 16 sources, against mapInArrow that does nothing: thousand rows/s"
    report.table(title, ("rows per micro-batch", *seconds), lines)


def _merge(report: Report, lab: Lab, sizes: Sequence[int], files: int) -> None:
    """Two replicas told once, against Spark's dropDuplicatesWithinWatermark on both of its state stores.

    The same rows as one stream, in which each comes twice, are what deduplicate() is measured by.
    """
    lines: list[list[Any]] = []
    for rows in sizes:
        paths, lag = _replicas(lab, rows, files)

        def of_frames(paths: Sequence[str] = paths) -> Any:
            return sw.merge_replicas(*(_sorted(lab.read(path)) for path in paths))

        def of_files(paths: Sequence[str] = paths) -> Any:
            return sw.merge_replicas(*(_sorted(lab.files(path)) for path in paths))

        def deduplicated(both: str = lab.together(f"both {rows}", paths), wait: str = f"{10 + lag}s") -> Any:
            stream = sw.stream(lab.files(both, at_once=2), time="at")
            return stream.deduplicate(["origin", "id", "value"], within=wait, patience=wait, late=sw.Late.drop())

        def native(paths: Sequence[str] = paths, lag: int = lag) -> DataFrame:
            both = lab.read(paths[0]).union(lab.read(paths[1])).withWatermark("at", f"{10 + lag} seconds")
            return both.dropDuplicatesWithinWatermark(["at", "origin", "id", "value"])

        # A micro-batch takes 12 to 20 s there: in a short run two of them must do.
        on_rocks_db = partial(native, [f"{path}/000[01].parquet" for path in paths]) if lab.quick else native
        seconds = _in_turn(
            lab,
            {
                "to_spark": partial(lab.write, partial(_as_frame, of_frames), version=2),
                "start": partial(_started, of_frames),
                "files": partial(_started, of_files),
                "deduplicate": partial(_started, deduplicated),
                "RocksDB": partial(lab.write, on_rocks_db, store=_ROCKS_DB),
                "in memory": partial(lab.write, native, store=_IN_MEMORY),
            },
            warmed_by=None if lab.quick else "start",
        )
        lines.append([f"{rows:,}", *_thousands(rows, seconds)])
        # Both read the same files, each in the fastest way it has.
        for figure, ours in (("merge", "files"), ("merge_of_frames", "start"), ("merge_to_spark", "to_spark")):
            if ours in seconds:
                report.figures[f"{figure}_over_native_dedup"] = round(seconds["RocksDB"] / seconds[ours], 2)
                in_memory = round(seconds["in memory"] / seconds[ours], 2)
                report.figures[f"{figure}_over_native_dedup_in_memory"] = in_memory
        for store, name in (("in memory", "in_memory"), ("RocksDB", "rocksdb")):
            ratio = round(seconds[store] / seconds["deduplicate"], 2)
            report.figures[f"deduplicate_over_native_{name}"] = ratio
        report.figures["deduplicate_krows_per_s"] = round(rows / seconds["deduplicate"] / 1e3)
        report.figures["merge_krows_per_s"] = round(rows / seconds["files"] / 1e3)
    title = "two replicas told once, against dropDuplicatesWithinWatermark: thousand rows/s"
    report.table(title, ("rows per micro-batch", *seconds), lines)


def _replicas(lab: Lab, rows: int, files: int) -> tuple[list[str], int]:
    """Files of two replicas, disordered differently, the second a fifth of a file behind; and the seconds of that."""
    half = rows // 2
    lag = half // 5
    blue = _table(np.maximum(1_000 * disordered.synthetic(half * files, percent=30, spread=1_000), 0), 0)
    moved = np.arange(blue.num_rows) + np.random.default_rng(5).normal(0, 500, blue.num_rows)
    green = blue.take(np.argsort(moved, kind="stable"))
    stops = [half * (number + 1) for number in range(files)]
    of_blue = [blue.slice(stop - half, half) for stop in stops]
    of_green = [green.slice(max(0, stop - half - lag), half - (0 if stop > half else lag)) for stop in stops]
    return [lab.written(f"blue {rows}", of_blue), lab.written(f"green {rows}", of_green)], lag // 1_000


_PATIENCES = ("2s", "10s", "60s")


def _bands(report: Report, lab: Lab, sizes: Sequence[int], files: int) -> None:
    """Counts per window and key at three patiences, in one query against three of Spark's own."""
    from pyspark.sql import functions

    # The faster of the two is compared with. That is the second: Java has compiled such queries by then.
    stores = {"RocksDB": _ROCKS_DB, "in memory": _IN_MEMORY}
    lines: list[list[Any]] = []
    for rows in sizes:
        path = lab.written(f"bands {rows}", _disordered_files(rows, files))

        def counted(source: Any, checkpoint: str) -> Any:
            windows = sw.stream(source(), time="at").tumbling("1s").group_by("origin")
            bands = windows.in_bands(*_PATIENCES, late=sw.Late.drop(), n=sw.count())
            # Counts are few: one shard holds them more cheaply than two hand on.
            return bands.start(checkpoint=checkpoint, main=_NOWHERE, trigger=_NOW, shards=1)

        def native(patience: str, path: str = path) -> DataFrame:
            frame = lab.read(path).withWatermark("at", f"{patience[:-1]} seconds")
            return frame.groupBy(functions.window("at", "1 second"), "origin").count()

        queries: dict[str, Callable[[str], Any]] = {
            "frame": partial(counted, partial(lab.read, path)),
            "files": partial(counted, partial(lab.files, path)),
        }
        for name, store in stores.items():
            for patience in _PATIENCES:
                queries[f"{name} {patience}"] = partial(lab.write, partial(native, patience), store=store)
        seconds = _in_turn(lab, queries, warmed_by=None if lab.quick else "frame")
        all_three = {name: sum(seconds[f"{name} {patience}"] for patience in _PATIENCES) for name in stores}
        ours = {name: seconds[name] for name in ("frame", "files")}
        lines.append([f"{rows:,}", *_thousands(rows, {**ours, **all_three})])
        report.figures["bands_over_three_queries"] = round(min(all_three.values()) / ours["files"], 2)
        report.figures["bands_of_frames_over_three_queries"] = round(min(all_three.values()) / ours["frame"], 2)
        report.figures["bands_krows_per_s"] = round(rows / ours["files"] / 1e3)
    columns = ("rows per micro-batch", "of a frame", "of parquet_files", *(f"native, {name}" for name in stores))
    report.table("counts at three patiences (native: three queries in turn): thousand rows/s", columns, lines)


def _growth(report: Report, lab: Lab, rows: int, held: tuple[int, int]) -> None:
    """Micro-batches of one size, while little and while much is held: files of patience, and a few more."""
    more = 8
    path = lab.written("growth", _disordered_files(rows, max(held) + more))
    found = []
    for files in held:
        ordered = partial(_sorted, lab.read(path), f"{files * rows}ms")
        seconds = lab.seconds(partial(_started, ordered), warm=0)
        found.append((files, statistics.median(seconds[files + 2 : files + more])))
    report.table(
        f"{rows:,} rows per micro-batch while so many are held",
        ("held", "seconds per micro-batch"),
        [[f"{files * rows:,}", seconds] for files, seconds in found],
    )
    report.figures["state_growth_ratio"] = round(found[1][1] / found[0][1], 2)


def _linear(report: Report, lab: Lab) -> None:
    """Micro-batches of growing size."""
    lines: list[list[Any]] = []
    for rows in (100_000, 1_000_000, 10_000_000):
        path = lab.written(f"linear {rows}", _disordered_files(rows, 3))
        seconds = statistics.median(lab.seconds(partial(_started, partial(_sorted, lab.read(path)))))
        lines.append([f"{rows:,}", seconds, 1e6 * seconds / rows])
        report.figures[f"sort_us_per_row_{rows}"] = round(1e6 * seconds / rows, 3)
    report.table("a sort by the size of its micro-batches", ("rows", "seconds", "microseconds per row"), lines)
