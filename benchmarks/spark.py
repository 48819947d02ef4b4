"""The Spark runner against what Spark does natively: both read the same files, turn by turn, in one session.

Every query reads one file per micro-batch, and writes to nobody. Its speed is that of the later half of its
micro-batches, whole trigger time: the first ones start workers and fill state.
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


def run(report: Report, *, quick: bool) -> None:
    """Measure everything."""
    with tempfile.TemporaryDirectory() as folder, _session(Path(folder)) as session:
        lab = Lab(session, Path(folder))
        _sort(report, lab, rows=500_000 if quick else 2_000_000, files=4 if quick else 6, turns=1 if quick else 2)
        _merge(report, lab, rows=200_000 if quick else 400_000, files=5 if quick else 6)
        _bands(report, lab, rows=200_000 if quick else 400_000, files=5 if quick else 6)
        _growth(report, lab, rows=200_000 if quick else 500_000, held=(2, 10) if quick else (2, 20))
        if not quick:
            _linear(report, lab)


# ---- the laboratory --------------------------------------------------------------------------------------------------


@dataclass
class Lab:
    """A session, a folder, and queries that are run in it."""

    session: SparkSession
    folder: Path
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

    def native(self, frame: DataFrame, checkpoint: str, store: str = _ROCKS_DB) -> Any:
        """Start a query of Spark's own, on one of its state stores, with as many partitions as there are cores."""
        conf = self.session.conf
        before = {name: conf.get(name, None) for name in (_STORE, _CHANGELOG, "spark.sql.shuffle.partitions")}
        conf.set(_STORE, store)
        conf.set(_CHANGELOG, "true")
        conf.set("spark.sql.shuffle.partitions", "2")
        try:
            writer = frame.writeStream.format("noop").outputMode("append").option("checkpointLocation", checkpoint)
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


def _nobody(rows: DataFrame, batch_id: int) -> None:  # noqa: ARG001 - it takes what a sink takes
    rows.write.format("noop").mode("overwrite").save()


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


def _speeds(rows: int, seconds: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: rows / taken / 1e3 for name, taken in medians(seconds).items()}


def _turn_by_turn(lab: Lab, queries: Mapping[str, Callable[[str], Any]], turns: int) -> dict[str, list[float]]:
    """The seconds of later micro-batches of each query, all turns together."""
    seconds: dict[str, list[float]] = {name: [] for name in queries}
    for _ in range(turns):
        for name, start in queries.items():
            seconds[name] += lab.seconds(start)
    return seconds


# ---- the measurements ------------------------------------------------------------------------------------------------


def _sort(report: Report, lab: Lab, rows: int, files: int, turns: int) -> None:
    """A sort against the floor of any step in Python."""
    path = lab.written("sort", _disordered_files(rows, files))

    def ours(checkpoint: str) -> Any:
        ordered = sw.stream(lab.read(path), time="at").sort("10s", late=sw.Late.drop())
        return _started(ordered, checkpoint)

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    def floor(checkpoint: str) -> Any:
        return lab.native(lab.read(path).mapInArrow(same, _ROWS), checkpoint)

    speeds = _speeds(rows, _turn_by_turn(lab, {"identity": floor, "sort": ours}, turns))
    report.table(
        f"sort, {rows:,} rows per micro-batch, thousand rows/s",
        ("identity", "sort", "ratio"),
        [[speeds["identity"], speeds["sort"], speeds["sort"] / speeds["identity"]]],
    )
    report.figures["sort_over_identity"] = round(speeds["sort"] / speeds["identity"], 2)
    report.figures["sort_krows_per_s"] = round(speeds["sort"])


def _merge(report: Report, lab: Lab, rows: int, files: int) -> None:
    """Two replicas, disordered differently, the second a fifth of a file behind, told once."""
    half = rows // 2
    at = 1_000 * disordered.synthetic(half * files, percent=30, spread=1_000)
    rng = np.random.default_rng(5)
    blue = _table(np.maximum(at, 0), 0)
    order = np.argsort(np.arange(blue.num_rows) + rng.normal(0, 500, blue.num_rows), kind="stable")
    green = blue.take(order)
    lag = half // 5
    cuts = [min(blue.num_rows, half * (number + 1)) for number in range(files)]
    paths = [
        lab.written("blue", [blue.slice(stop - half, half) for stop in cuts]),
        lab.written(
            "green", [green.slice(max(0, stop - half - lag), half - (0 if stop > half else lag)) for stop in cuts]
        ),
    ]

    def ours(checkpoint: str) -> Any:
        replicas = [sw.stream(lab.read(path), time="at").sort("10s", late=sw.Late.drop()) for path in paths]
        return _started(sw.merge_replicas(*replicas), checkpoint)

    def native(store: str, checkpoint: str) -> Any:
        both = lab.read(paths[0]).union(lab.read(paths[1])).withWatermark("at", f"{10 + lag // 1_000} seconds")
        return lab.native(both.dropDuplicatesWithinWatermark(["at", "origin", "id", "value"]), checkpoint, store)

    queries: dict[str, Callable[[str], Any]] = {"slackwater": ours}
    queries |= {"RocksDB": partial(native, _ROCKS_DB), "in memory": partial(native, _IN_MEMORY)}
    speeds = _speeds(rows, _turn_by_turn(lab, queries, turns=1))
    report.table(
        f"two replicas told once, {rows:,} rows per micro-batch, k rows/s (native: dropDuplicatesWithinWatermark)",
        tuple(speeds),
        [list(speeds.values())],
    )
    report.figures["merge_over_native_dedup"] = round(speeds["slackwater"] / speeds["RocksDB"], 2)
    report.figures["merge_over_native_dedup_in_memory"] = round(speeds["slackwater"] / speeds["in memory"], 2)
    report.figures["merge_krows_per_s"] = round(speeds["slackwater"])


_PATIENCES = ("2s", "10s", "60s")


def _bands(report: Report, lab: Lab, rows: int, files: int) -> None:
    """Counts per window and key at three patiences, in one query against three of Spark's own."""
    path = lab.written("bands", _disordered_files(rows, files))

    def ours(checkpoint: str) -> Any:
        windows = sw.stream(lab.read(path), time="at").tumbling("1s").group_by("origin")
        bands = windows.in_bands(*_PATIENCES, late=sw.Late.drop(), n=sw.count())
        pairs = [(band, _nobody) for band in bands]
        return sw.start_together(pairs, checkpoint=checkpoint, trigger={"availableNow": True})

    def native(store: str, patience: str, checkpoint: str) -> Any:
        from pyspark.sql import functions

        frame = lab.read(path).withWatermark("at", f"{patience[:-1]} seconds")
        return lab.native(frame.groupBy(functions.window("at", "1 second"), "origin").count(), checkpoint, store)

    stores = {"RocksDB": _ROCKS_DB, "in memory": _IN_MEMORY}
    queries: dict[str, Callable[[str], Any]] = {"slackwater": ours}
    queries |= {f"{s} {p}": partial(native, store, p) for s, store in stores.items() for p in _PATIENCES}
    seconds = medians(_turn_by_turn(lab, queries, turns=1))
    three = {store: sum(seconds[f"{store} {patience}"] for patience in _PATIENCES) for store in stores}
    speeds = {"slackwater": rows / seconds["slackwater"] / 1e3} | {s: rows / t / 1e3 for s, t in three.items()}
    report.table(
        f"counts at three patiences, {rows:,} rows per micro-batch, thousand rows/s (native: three queries in turn)",
        tuple(speeds),
        [list(speeds.values())],
    )
    report.figures["bands_over_three_queries"] = round(min(three.values()) / seconds["slackwater"], 2)
    report.figures["bands_krows_per_s"] = round(speeds["slackwater"])


def _growth(report: Report, lab: Lab, rows: int, held: tuple[int, int]) -> None:
    """Micro-batches of one size, while little and while much is held: files of patience, and a few more."""
    more = 6
    path = lab.written("growth", _disordered_files(rows, max(held) + more))
    found = []
    for files in held:
        ordered = sw.stream(lab.read(path), time="at").sort(f"{files * rows}ms", late=sw.Late.drop())
        seconds = lab.seconds(partial(_started, ordered), warm=0)
        found.append((files, statistics.median(seconds[files + 2 : files + more])))
    report.table(
        f"{rows:,} rows per micro-batch while so many are held",
        ("held", "seconds per micro-batch"),
        [[f"{files * rows:,}", seconds] for files, seconds in found],
    )
    report.figures["state_growth_ratio"] = round(found[1][1] / found[0][1], 2)


def _started(stream: Any, checkpoint: str) -> Any:
    return stream.start(checkpoint=checkpoint, main=_nobody, trigger={"availableNow": True})


def _linear(report: Report, lab: Lab) -> None:
    """Micro-batches of growing size."""
    rows_of: list[list[Any]] = []
    for rows in (100_000, 1_000_000, 10_000_000):
        path = lab.written(f"linear {rows}", _disordered_files(rows, 3))
        ordered = sw.stream(lab.read(path), time="at").sort("10s", late=sw.Late.drop())
        seconds = statistics.median(lab.seconds(partial(_started, ordered)))
        rows_of.append([f"{rows:,}", seconds, 1e6 * seconds / rows])
        report.figures[f"sort_us_per_row_{rows}"] = round(1e6 * seconds / rows, 3)
    report.table("a sort by the size of its micro-batches", ("rows", "seconds", "microseconds per row"), rows_of)
