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

import statistics
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import disordered
import slackwater as sw
import spark_small
from spark_lab import (
    IN_MEMORY,
    NOW,
    NOWHERE,
    NOWHERE_ELSE,
    ROCKS_DB,
    ROWS,
    Lab,
    Session,
    disordered_files,
    in_turn,
    started,
    table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from measure import Report


def run(report: Report, *, quick: bool) -> None:
    """Measure everything; figures are those of start() and of the largest micro-batches."""
    large = 2_000_000
    with tempfile.TemporaryDirectory() as folder, Session(Path(folder)) as session:
        lab = Lab(session, Path(folder), quick)
        spark_small.run(report, lab)
        _sort(report, lab, (large,), 5)
        _merge(report, lab, (large,), 3)
        _bands(report, lab, (large,), 4)
        _growth(report, lab, rows=200_000 if quick else 500_000, held=(2, 10) if quick else (2, 20))
        _linear(report, lab)


# ---- the measurements ------------------------------------------------------------------------------------------------


def _sort(report: Report, lab: Lab, sizes: Sequence[int], files: int) -> None:
    """A sort against the floor of any step in Python."""

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    lines: list[list[Any]] = []
    for rows in sizes:
        path = lab.written(f"sort {rows}", disordered_files(rows, files))

        def identity(path: str = path) -> DataFrame:
            return lab.read(path).mapInArrow(same, ROWS)

        def of_frame(path: str = path) -> Any:
            return _sorted(lab.read(path))

        def of_files(path: str = path) -> Any:
            return _sorted(lab.files(path))

        seconds = in_turn(
            lab,
            {
                "identity": partial(lab.write, identity),
                "to_spark": partial(lab.write, partial(_as_frame, of_frame), version=2, partitions=1),
                "start": partial(started, of_frame),
                "files": partial(started, of_files),
            },
            warmed_by=("identity", "start"),
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
    """Each row of two replicas once, against Spark's dropDuplicatesWithinWatermark on both of its state stores.

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
        seconds = in_turn(
            lab,
            {
                "to_spark": partial(lab.write, partial(_as_frame, of_frames), version=2),
                "start": partial(started, of_frames),
                "files": partial(started, of_files),
                "deduplicate": partial(started, deduplicated),
                "RocksDB": partial(lab.write, on_rocks_db, store=ROCKS_DB),
                "in memory": partial(lab.write, native, store=IN_MEMORY),
            },
            warmed_by=() if lab.quick else ("start",),
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
    title = "each row of two replicas once, against dropDuplicatesWithinWatermark: thousand rows/s"
    report.table(title, ("rows per micro-batch", *seconds), lines)


def _replicas(lab: Lab, rows: int, files: int) -> tuple[list[str], int]:
    """Files of two replicas, disordered differently, the second a fifth of a file behind; and the seconds of that."""
    half = rows // 2
    lag = half // 5
    blue = table(np.maximum(1_000 * disordered.synthetic(half * files, percent=30, spread=1_000), 0), 0)
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
    stores = {"RocksDB": ROCKS_DB, "in memory": IN_MEMORY}
    lines: list[list[Any]] = []
    for rows in sizes:
        path = lab.written(f"bands {rows}", disordered_files(rows, files))

        def counted(source: Any, checkpoint: str, *, diverted: bool = False) -> Any:
            windows = sw.stream(source(), time="at").tumbling("1s").group_by("origin")
            late = sw.Late.divert() if diverted else sw.Late.drop()
            bands = windows.in_bands(*_PATIENCES, late=late, n=sw.count())
            # Counts are few: one shard holds them more cheaply than two hand on.
            sinks: dict[str, Any] = {"main": NOWHERE, **({"late": NOWHERE_ELSE} if diverted else {})}
            return bands.start(checkpoint=checkpoint, **sinks, trigger=NOW, shards=1)

        def native(patience: str, path: str = path) -> DataFrame:
            frame = lab.read(path).withWatermark("at", f"{patience[:-1]} seconds")
            return frame.groupBy(functions.window("at", "1 second"), "origin").count()

        queries: dict[str, Callable[[str], Any]] = {
            "frame": partial(counted, partial(lab.read, path)),
            "files": partial(counted, partial(lab.files, path)),
            "frame, diverted": partial(counted, partial(lab.read, path), diverted=True),
            "files, diverted": partial(counted, partial(lab.files, path), diverted=True),
        }
        ours = tuple(queries)
        for name, store in stores.items():
            for patience in _PATIENCES:
                queries[f"{name} {patience}"] = partial(lab.write, partial(native, patience), store=store)
        seconds = in_turn(lab, queries, warmed_by=("frame",))
        all_three = {name: sum(seconds[f"{name} {patience}"] for patience in _PATIENCES) for name in stores}
        lines.append([f"{rows:,}", *_thousands(rows, {**{name: seconds[name] for name in ours}, **all_three})])
        for figure, name in (("bands", "files"), ("bands_of_frames", "frame")):
            of_three = min(all_three.values())
            report.figures[f"{figure}_over_three_queries"] = round(of_three / seconds[name], 2)
            report.figures[f"{figure}_diverted_over_three_queries"] = round(of_three / seconds[f"{name}, diverted"], 2)
        report.figures["bands_krows_per_s"] = round(rows / seconds["files"] / 1e3)
    columns = ("rows per micro-batch", *ours, *(f"native, {name}" for name in stores))
    report.table("counts at three patiences (native: three queries in turn): thousand rows/s", columns, lines)


def _growth(report: Report, lab: Lab, rows: int, held: tuple[int, int]) -> None:
    """Micro-batches of one size, while little and while much is held: files of patience, and a few more."""
    more = 8
    path = lab.written("growth", disordered_files(rows, max(held) + more))
    found = []
    for files in held:
        ordered = partial(_sorted, lab.read(path), f"{files * rows}ms")
        seconds = lab.seconds(partial(started, ordered), warm=0)
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
    for rows in (100_000, 1_000_000) if lab.quick else (100_000, 1_000_000, 10_000_000):
        path = lab.written(f"linear {rows}", disordered_files(rows, 3))
        seconds = statistics.median(lab.seconds(partial(started, partial(_sorted, lab.read(path)))))
        lines.append([f"{rows:,}", seconds, 1e6 * seconds / rows])
        report.figures[f"microseconds_per_row_1e{len(str(rows)) - 1}"] = round(1e6 * seconds / rows, 3)
    report.table("a sort by the size of its micro-batches", ("rows", "seconds", "microseconds per row"), lines)


def _as_frame(made: Callable[[], Any]) -> DataFrame:
    frame: DataFrame = made().to_spark()
    return frame


def _sorted(source: Any, patience: str = "10s") -> Any:
    return sw.stream(source, time="at").sort(patience, late=sw.Late.drop())


def _thousands(rows: int, seconds: Mapping[str, float]) -> list[float]:
    """Rows per second, in thousands."""
    return [rows / taken / 1e3 for taken in seconds.values()]
