"""On a cluster tasks are done twice, and executors and workers are lost: no row is lost with them, and none doubled."""

from __future__ import annotations

import json
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
from drive_plans_on_cluster import OUTPUTS, REPLICAS, planned
from without_spark import in_process

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_HERE = Path(__file__).parent
_DRIVER = _HERE / "drive_cluster.py"
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
    _driven(folder, [_DRIVER, folder, trouble], surroundings)


def _driven(folder: Path, command: Sequence[object], surroundings: dict[str, str]) -> None:
    """Run a driver to its end, with a cluster of its own."""
    # Executors are killed with their workers: these are of a real Python, which is found.
    env = {**os.environ, **surroundings, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with (folder / "log").open("wb") as log:
        words = [sys.executable, *map(str, command)]
        driver = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True, env=env)  # noqa: S603
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


def _replicas(folder: Path) -> list[list[pa.Table]]:
    """Four files of each replica, a little out of order; of each the last comes later."""
    cuts = []
    for replica in REPLICAS:
        rng = np.random.default_rng(len(replica))
        tables = []
        for number in range(4):
            at = np.arange(100 * number, 100 * (number + 1))
            order = np.argsort(at + rng.integers(0, 30, 100), kind="stable")
            keys = [f"k{time % 7}" for time in at.tolist()]
            tables.append(pa.table({"at": at, "k": keys, "n": at % 10}).take(order))
            place = folder / replica / f"{number}.parquet" if number < 3 else folder / "coming" / replica
            place.parent.mkdir(exist_ok=True)
            pq.write_table(tables[-1], place)
            os.utime(place, (1_000 + number, 1_000 + number))
        cuts.append(tables)
    return cuts


def test_sorts_bands_merges_and_joins_survive_what_happens_on_a_cluster(
    tmp_path: Path, surroundings_of_killed: Callable[[Path], dict[str, str]]
) -> None:
    """A task is done twice, an executor killed, a worker lost, and the query restarted: the rows are as in one process.

    Without shards= there is one for each core of the executors, when the query begins and not when fewer are left.
    """
    cuts = _replicas(tmp_path)
    _driven(tmp_path, [_HERE / "drive_plans_on_cluster.py", tmp_path], surroundings_of_killed(tmp_path))
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen == {"shards": 2, "left": 1, "batches": [0, 1, 2, 3, 4]}
    executors = [json.loads(line)[1] for line in (tmp_path / "attempts").read_text().splitlines()]
    assert executors[0] != executors[1], "the task was done by both"
    assert (tmp_path / "log").read_text().count("Lost executor") == 2, "one was killed, and one lost with its worker"
    for number, output in enumerate(OUTPUTS):
        expected = [str(row) for given in in_process(planned, cuts) for row in given[f"main {number}"]]
        found = pq.read_table(tmp_path / output, partitioning=None).to_pylist()
        assert sorted(map(str, found)) == sorted(expected) != []


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
