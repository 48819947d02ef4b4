"""On a cluster of two executors a task may be done by both of them: nothing is lost, and nothing doubled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Callable

_DRIVER = Path(__file__).with_name("drive_cluster.py")
_ROWS = 150_000
"""As many as make segments that outlive their micro-batch."""

_PATIENT_SECONDS = 500


def _file(number: int) -> pa.Table:
    """A file of rows that are a little out of order."""
    at = np.arange(number * _ROWS, (number + 1) * _ROWS) - np.random.default_rng(number).integers(0, 1_000, _ROWS)
    return pa.table({"at": at, "word": [f"row {time}" for time in at.tolist()]})


def _write(folder: Path, numbers: range) -> list[pa.Table]:
    (folder / "in").mkdir(exist_ok=True)
    tables = [_file(number) for number in numbers]
    for number, table in zip(numbers, tables, strict=True):
        place = folder / f"in/{number:04}.parquet"
        pq.write_table(table, place)
        os.utime(place, (1_000 + number, 1_000 + number))
    return tables


def _live(folder: Path, trouble: str, surroundings: dict[str, str]) -> None:
    """Run the query to the end of the files that are there, in a cluster of its own."""
    # Executors are killed with their workers: these are of a real Python, which is found.
    env = {**os.environ, **surroundings, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, str(_DRIVER), str(folder), trouble]
    with (folder / "log").open("wb") as log:
        driver = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=env)  # noqa: S603
    try:
        assert driver.wait(_PATIENT_SECONDS) == 0, (folder / "log").read_text()[-5_000:]
    finally:
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def _attempts(folder: Path, micro_batch: int) -> SimpleNamespace:
    lines = [line.strip("[]").split(", ") for line in (folder / "attempts").read_text().splitlines()]
    its = [(int(attempt), executor) for number, attempt, executor in lines if int(number) == micro_batch]
    return SimpleNamespace(numbers=[number for number, _ in its], executors=[executor for _, executor in its])


@pytest.mark.long  # two clusters, one after the other; test_segment_store.py shows the same without Spark
@pytest.mark.parametrize("trouble", ["failure", "speculation"])
def test_a_task_that_two_executors_did_is_one_task(
    tmp_path: Path, surroundings: Callable[[Path], dict[str, str]], trouble: str
) -> None:
    """The first goes on though the second was the one that counts, and is dead; the query is then started again."""
    tables = _write(tmp_path, range(3))
    _live(tmp_path, trouble, surroundings(tmp_path))
    assert (tmp_path / "shards").read_text() == "2"
    doubled, later = _attempts(tmp_path, 1), _attempts(tmp_path, 2)
    assert doubled.numbers == [0, 1]
    assert doubled.executors[0] != doubled.executors[1]
    assert later.executors == doubled.executors[:1], "the first executor must go on, or nothing is shown"
    tables += _write(tmp_path, range(3, 5))
    _live(tmp_path, "none", surroundings(tmp_path))
    source = sw.PushSource(tables[0].schema)
    expected: list[pa.RecordBatch] = []
    ordered = sw.stream(source, time="at").sort(patience=3 * _ROWS, every=sw.Every.batch(), late=sw.Late.drop())
    with ordered.open(expected.append, clock=sw.ManualClock()) as query:
        for table in tables:
            source.push(table.combine_chunks())
            query.work()
        wanted = pa.Table.from_batches(list(expected))
    found = [pq.read_table(tmp_path / f"main/batch_id={number}", partitioning=None) for number in range(len(tables))]
    assert wanted.num_rows > _ROWS
    assert pa.concat_tables(found).equals(wanted)
