"""Heartbeats on Spark: what bounds cost beside a patience, and a source that is cut off beside native watermarks.

The cut-off: two sources send a file per micro-batch; the second sends nothing for a while, then all that it had kept.
Rows are counted by source and window of ten seconds, natively under both policies for several watermarks, and by
sort_within_origins(). What is drawn is how many rows are in answers that went out, micro-batch by micro-batch.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import slackwater as sw
from spark_lab import Lab, Session, disordered_files, in_turn, started, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from measure import Report

BATCHES, ROWS = 36, 1_000
CUT_OFF = range(12, 24)
"""Which micro-batches of the second source have no rows; the one after them has them all."""

_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


def run(report: Report, *, quick: bool) -> None:
    """Nothing in a short run: Spark alone would take most of its time."""
    if quick:
        return
    with tempfile.TemporaryDirectory() as folder, Session(Path(folder)) as session:
        lab = Lab(session, Path(folder), quick)
        _overhead(report, lab)
        _cut_off(report, lab)


def _overhead(report: Report, lab: Lab, rows: int = 1_000_000) -> None:
    """A sort of 16 sources by a patience, and by bounds that hold back the same rows."""
    path = lab.written("overhead", disordered_files(rows, 6))
    lines: list[list[Any]] = []
    for kind, read in (("frame", lab.read), ("files", lab.files)):

        def by_patience(read: Callable[[str], Any] = read) -> Any:
            return sw.stream(read(path), time="at").sort("10s", late=sw.Late.drop())

        def by_bounds(read: Callable[[str], Any] = read) -> Any:
            bounds = sw.Bounds.patience("10s")
            return sw.stream(read(path), time="at", origin="origin").sort(bounds=bounds, late=sw.Late.drop())

        queries = {name: partial(started, made) for name, made in (("patience", by_patience), ("bounds", by_bounds))}
        seconds = in_turn(lab, queries, warmed_by=("patience",))
        lines.append([kind, *(1e9 * taken / rows for taken in seconds.values())])
        name = "spark_overhead_16_origins" + ("" if kind == "frame" else "_of_files")
        report.figures[name] = round(seconds["bounds"] / seconds["patience"], 2)
    title = f"a sort of 16 sources on Spark, {rows:,} rows per micro-batch, ns a row"
    report.table(title, ("read as", "patience", "bounds"), lines)


def _cut_off(report: Report, lab: Lab) -> None:
    """Answers that went out after each micro-batch, and rows that are in none in the end."""
    paths = [lab.written(f"source {number}", files) for number, files in enumerate(_two_sources())]
    arrived = np.cumsum([2 * ROWS if batch not in CUT_OFF else ROWS for batch in range(BATCHES)])
    arrived[CUT_OFF.stop :] += ROWS * len(CUT_OFF)
    drawn: dict[str, list[int]] = {"rows that came": arrived.tolist()}
    for policy in ("min", "max"):
        lab.session.conf.set(_POLICY, policy)
        try:
            drawn[f"native, {policy}"] = _answered(lab, partial(_native, lab, paths), version=1)
        finally:
            lab.session.conf.unset(_POLICY)
    drawn["by origin"] = _answered(lab, partial(_by_origin, lab, paths), version=2)
    report.series["cut off on Spark"] = drawn
    whole = int(arrived[-1])
    last = CUT_OFF.stop - 1
    lines: list[list[Any]] = []
    for name, counted in drawn.items():
        if name == "rows that came":
            continue
        key = name.replace("native, ", "native_").replace(" ", "_")
        lost, waiting = whole - counted[-1], int(arrived[last]) - counted[last]
        lines.append([name, waiting, lost])
        report.figures[f"spark_cutoff_rows_lost_{key}"] = lost
        report.figures[f"spark_cutoff_rows_waiting_{key}"] = waiting
    title = f"one of two sources cut off for {len(CUT_OFF)} micro-batches on Spark, {whole:,} rows"
    report.table(title, ("", "rows not in answers at the end of the cut", "rows lost"), lines)


def _two_sources() -> list[list[pa.Table]]:
    """Files of both: a second of times each, a little out of order; the last ones close all windows."""
    rng = np.random.default_rng(18)
    found: list[list[pa.Table]] = []
    for source in range(2):
        times = [batch * 10_000_000 + rng.permutation(ROWS) * 10_000 for batch in range(BATCHES)]
        files = [_rows(source, at) for at in times]
        if source:
            kept = pa.concat_tables(files[batch] for batch in (*CUT_OFF, CUT_OFF.stop))
            files[CUT_OFF.stop] = kept
            for batch in CUT_OFF:
                files[batch] = files[batch].slice(0, 0)
        closing = [_rows(source, np.array([(BATCHES + 10 + more) * 10_000_000])) for more in range(3)]
        found.append(files + closing)
    return found


def _rows(source: int, at: Any) -> pa.Table:
    return table(at, 0).set_column(1, "origin", pa.array(np.full(len(at), source, np.int32)))


def _native(lab: Lab, paths: list[str]) -> DataFrame:
    from pyspark.sql import functions

    first, second = (lab.read(path).withWatermark("at", "10 seconds") for path in paths)
    return (
        first.union(second).groupBy(functions.window("at", "10 seconds"), "origin").agg(functions.count("*").alias("n"))
    )


def _by_origin(lab: Lab, paths: list[str]) -> DataFrame:
    rows = sw.stream(lab.read(paths[0]).union(lab.read(paths[1])), time="at", origin="origin")
    ordered = rows.sort_within_origins(bounds=sw.Bounds.disorder("10s"), late=sw.Late.drop())
    frame: DataFrame = ordered.tumbling("10s").group_by("origin").aggregate(n=sw.count()).to_spark()
    return frame


def _answered(lab: Lab, made: Callable[[], DataFrame], version: int) -> list[int]:
    """How many rows of the first BATCHES files are in the answers after each micro-batch."""
    counted: dict[int, int] = {}

    def count(frame: DataFrame, batch: int) -> None:
        # Rows that only close windows are one in a window; all others are thousands.
        counted[batch] = sum(row["n"] for row in frame.where("n > 1").select("n").collect())

    lab.write(made, lab.checkpoint(), version=version, to=count).awaitTermination()
    sums = np.cumsum([counted.get(batch, 0) for batch in range(max(counted) + 1)])
    # The micro-batches that close what is open count as part of the last one that has rows.
    return [*map(int, sums[: BATCHES - 1]), int(sums[-1])]
