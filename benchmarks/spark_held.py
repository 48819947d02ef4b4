"""A sort on Spark in which more rows wait than its worker has memory for: how long it takes, and who needs how much.

Rows come in files, one per micro-batch, a third of them late by about a thousand places, and all of them wait in one
shard. Then the session ends, and another one goes on; in the end a row comes whose time lets all others go. What was
written must be all of them, in order. Workers have 2 GiB, of addresses, as Spark limits them on clusters by
spark.executor.pyspark.memory, and Java has a heap of as much.

Peaks are those of resident memory (VmHWM), of the worker that needed most, and of the process of Java.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import disordered
import slackwater as sw
from slackwater.errors import RunError
from spark_lab import NOW, Lab, Session, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measure import Report

_GIGABYTES = 2
_SETTINGS = {"spark.driver.memory": f"{_GIGABYTES}g", "spark.executor.pyspark.memory": f"{_GIGABYTES}g"}
_LIMIT = "PYSPARK_EXECUTOR_MEMORY_MB"
"""How workers learn the limit; in local mode Spark does not tell them."""

_PER_FILE = 2_000_000


def run(report: Report, *, quick: bool) -> None:
    """Let rows wait, start again, and let them go."""
    rows = 6_000_000 if quick else 50_000_000
    os.environ[_LIMIT] = str(_GIGABYTES * 1024)
    try:
        with tempfile.TemporaryDirectory() as folder:
            _measure(report, Path(folder), rows, quick=quick)
    finally:
        del os.environ[_LIMIT]


def _measure(report: Report, folder: Path, rows: int, *, quick: bool) -> None:
    lines: list[list[Any]] = []
    with _peaks() as peaks:
        with Session(folder, _SETTINGS) as session:
            lab = Lab(session, folder, quick)
            at = np.maximum(1_000 * disordered.synthetic(rows, percent=30, spread=1_000), 0)
            path = lab.written(
                "in", [table(at[first : first + _PER_FILE], first) for first in range(0, rows, _PER_FILE)]
            )
            lines.append(["held", *_ran(lab, path, rows), *peaks.values()])
        with Session(folder, _SETTINGS) as session:
            lab = Lab(session, folder, quick)
            _add(path, table(np.array([5_000]), rows))
            lines.append(["one more row, after a restart", *_ran(lab, path, rows), *peaks.values()])
            _add(path, table(np.array([10_000 * rows]), rows + 1))
            lines.append(["all let go", *_ran(lab, path, rows), *peaks.values()])
    _require_in_order(folder / "out", rows + 1)
    columns = ("what happened", "seconds", "held", "spilled", "seconds of state", "worker, MiB", "Java, MiB")
    report.table(f"{rows:,} rows wait in one shard; peaks so far", columns, lines)
    report.figures |= {
        "held_million_rows": rows // 10**6,
        "held_seconds": round(lines[0][1]),
        "restart_seconds": round(lines[1][1]),
        "release_seconds": round(lines[2][1]),
        "worker_peak_mib": round(peaks["worker"]),
        "java_peak_mib": round(peaks["java"]),
    }


def _add(path: str, rows: pa.Table) -> None:
    """One more file, the newest."""
    number = len(list(Path(path).iterdir()))
    file = Path(path) / f"{number:04}.parquet"
    pq.write_table(rows, file)
    os.utime(file, (1_000 + number, 1_000 + number))


def _ran(lab: Lab, path: str, rows: int) -> tuple[float, int, int, float]:
    """Run to the end of the files; how long its micro-batches took, and what the last one says."""
    ordered = sw.stream(lab.read(path), time="at").sort(f"{2 * rows}ms", late=sw.Late.drop())
    folder = lab.folder
    seconds, done = 0.0, False
    while not done:
        query = ordered.start(checkpoint=str(folder / "checkpoint"), main=str(folder / "out"), trigger=NOW, shards=1)
        try:
            query.wait()
            done = True
        except RunError as error:
            if "did not start in time" not in str(error):  # on a busy machine Spark gives up on a worker
                raise
        reports = query.spark.recentProgress
        seconds += sum(one["durationMs"]["triggerExecution"] for one in reports if one["numInputRows"]) / 1e3
        print(
            f"{seconds:.0f} s", [round(one["durationMs"]["triggerExecution"] / 1e3, 1) for one in reports], flush=True
        )
    last = query.last_micro_batch()
    return seconds, last["held"], last["spilled"], last["state_seconds"]


def _require_in_order(out: Path, rows: int) -> None:
    """Every row came out, in order of time."""
    found, newest, total = 0, 0, 0
    for file in sorted(out.rglob("*.parquet"), key=lambda file: (file.parent.name, file.name)):
        for batch in pq.ParquetFile(file).iter_batches(columns=["at", "id"]):
            at = batch.column(0).cast(pa.int64()).to_numpy()
            assert at[0] >= newest, f"{file} is not in order"
            assert (at[1:] >= at[:-1]).all(), f"{file} is not in order"
            found, newest, total = found + len(at), int(at[-1]), total + int(batch.column(1).to_numpy().sum())
    assert (found, total) == (rows, rows * (rows - 1) // 2), f"{found} rows came out, of {rows}"


@contextmanager
def _peaks() -> Iterator[dict[str, float]]:
    """The most memory, in MiB, that any worker and any Java of this process has had."""
    found, over = {"worker": 0.0, "java": 0.0}, Event()

    def look() -> None:
        while not over.wait(0.5):
            for process in _descendants(os.getpid()):
                kind, size = _kind_and_peak(process)
                if kind:
                    found[kind] = max(found[kind], size)

    watcher = Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()


def _descendants(ancestor: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        words = _read(folder / "stat").rpartition(")")[2].split()
        if words:
            children.setdefault(int(words[1]), []).append(int(folder.name))
    found = [ancestor]
    for process in found:
        found += children.get(process, [])
    return found[1:]


def _kind_and_peak(process: int) -> tuple[str, float]:
    command = _read(Path(f"/proc/{process}/cmdline")).split("\0")
    kind = "java" if command[0].endswith("java") else "worker" if "pyspark.daemon" in command else ""
    lines = dict(line.split(":", 1) for line in _read(Path(f"/proc/{process}/status")).splitlines())
    return kind, int(lines["VmHWM"].split()[0]) / 1024 if "VmHWM" in lines else 0.0


def _read(file: Path) -> str:
    """What the system says of a process, if it is still there."""
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
