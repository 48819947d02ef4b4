"""Blue, green and yellow, one after the other: who reads their answers sees each once, in order, without a gap."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import deque
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import drive_blue_green
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from blue_green_logs import Log, Merge, answers_of, complete_from_after, logs, rows_in_files
from document_examples import ROOT, parsed, run
from effort import FEWER
from hypothesis import given
from hypothesis import strategies as st
from killing import kill_all_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

# Spark leaves sockets to its workers open; that is not for these tests to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_PATIENT_SECONDS = 300

_MORE = 1_000
"""More rows than any window has."""


class _Reader:
    """Who reads the answers, and refuses a gap, a repeat, another order or a window that is not whole."""

    def __init__(self, expected: Sequence[dict[str, Any]]) -> None:
        self._expected = expected
        self.seen: list[dict[str, Any]] = []

    def read(self, rows: Sequence[dict[str, Any]]) -> None:
        """Look at what is there now."""
        self.seen += rows
        assert self.seen == list(self._expected[: len(self.seen)])
        following = self._expected[len(self.seen) :][:1]
        assert not self.seen or not following or following[0]["window_start"] > self.seen[-1]["window_start"]

    @property
    def complete(self) -> bool:
        """Whether there is nothing left."""
        return len(self.seen) == len(self._expected)


class _Versions:
    """Versions that write at their own pace, the merge, and the reader behind it."""

    def __init__(self, log: Log, merge: Merge, rng: Random) -> None:
        self.left = {name: deque(written) for name, written in log.written.items()}
        self.alive: set[str] = set()
        self.reader, self.merge, self._rng = _Reader(log.expected), merge, rng
        self._newest: dict[str, int] = {}

    def step(self, **micro_batches: int) -> None:
        """Let versions write so many micro-batches, the merge take them in, and the reader look."""
        taken = [
            self._next(name) for name, some in micro_batches.items() for _ in range(min(some, len(self.left[name])))
        ]
        self.reader.read(self.merge.take(taken))
        if taken and self.merge.standing[1] == 0:
            # Nobody is waited for who has less: the answers of the furthest are out.
            newest = self.reader.seen[-1]["window_start"] if self.reader.seen else None
            assert newest == max(self._newest.values())

    def _next(self, name: str) -> pa.Table:
        table = self.left[name].popleft()
        self._newest[name] = max(self._newest.get(name, 0), *table["window_start"].to_pylist())
        return table

    def some_steps(self, least: int = 0) -> None:
        """Let those that are alive write as they like."""
        for _ in range(least + self._rng.randrange(3)):
            self.step(**{name: self._rng.choice([0, 0, 1, 1, 2]) for name in sorted(self.alive)})

    def until_joined(self) -> None:
        """Let those that are alive write until none of them waits to lead."""
        names = sorted(self.alive)
        while self.merge.standing[:2] != (len(self._newest), 0) or not self._newest.keys() >= self.alive:
            assert any(self.left[name] for name in names), "nobody is left to bring it there"
            self.step(**{name: self._rng.choice([0, 1, 2]) for name in names})


@given(seed=st.integers(0, 10**6), shards=st.sampled_from([1, 3]), returns=st.booleans())
@FEWER
def test_versions_replace_each_other_and_the_reader_sees_one(seed: int, shards: int, returns: bool) -> None:
    """Whoever lags, whatever each micro-batch has; blue may come back, with what is long known."""
    rng = Random(seed)
    versions = _Versions(logs(rng), Merge(shards), rng)
    versions.alive.add("blue")
    versions.some_steps(least=1)
    versions.alive.add("green")
    versions.until_joined()
    versions.some_steps()
    versions.alive.remove("blue")
    versions.some_steps()
    versions.alive.add("yellow")
    versions.until_joined()
    versions.alive.remove("green")
    if returns:
        versions.alive.add("blue")
    while any(versions.left[name] for name in versions.alive):
        versions.some_steps(least=1)
    assert versions.reader.complete


@given(seed=st.integers(0, 10**6))
@FEWER
def test_a_merge_that_begins_when_blue_is_gone_gives_the_same(seed: int) -> None:
    """Its first micro-batch has all that there is. However patient it is, who begins later does not have everything."""
    rng = Random(seed)
    log = logs(rng)
    begin = min(log.written["green"][0]["window_start"].to_pylist())
    ends = [max(table["window_start"].to_pylist()) for table in log.written["blue"]]
    lived = next(number for number, end in enumerate(ends, start=1) if end >= begin)
    versions = _Versions(log, Merge(2, patience=10**6), rng)
    versions.step(blue=lived, green=100)
    assert versions.reader.complete


@pytest.mark.parametrize("seed", range(3))
def test_while_blue_lags_green_waits_for_it(seed: int) -> None:
    """Green is far ahead of what blue has answered; it leads as soon as blue has come to where green begins."""
    rng = Random(seed)
    versions = _Versions(logs(rng), Merge(2), rng)
    versions.step(blue=1)
    for _ in range(100):
        versions.step(green=1)
    assert versions.merge.standing == (2, 1, 0)
    assert not versions.reader.complete
    while versions.merge.standing[1]:
        versions.step(blue=1)
    assert versions.left["blue"]
    assert versions.reader.complete


@pytest.mark.parametrize("seed", range(3))
def test_while_green_lags_blue_goes_on(seed: int) -> None:
    """Green, which begins with the first row, leads at once; the output goes by blue as long as that is ahead."""
    rng = Random(seed)
    versions = _Versions(logs(rng), Merge(2), rng)
    versions.step(blue=4)
    for before, after in pairwise([1, 2, 3]):
        seen = len(versions.reader.seen)
        versions.step(blue=after - before, yellow=1)
        assert len(versions.reader.seen) >= seen
    versions.step(yellow=100)  # blue has died
    assert versions.reader.complete


@pytest.mark.parametrize("seed", range(3))
def test_if_blue_dies_before_green_has_joined_its_return_mends_it(seed: int) -> None:
    """The output stands still meanwhile: nobody has sent what is missing."""
    rng = Random(seed)
    versions = _Versions(logs(rng), Merge(2, patience=10**6), rng)
    versions.step(blue=1)
    versions.step(green=100)
    assert versions.merge.standing == (2, 1, 0)
    seen = len(versions.reader.seen)
    versions.step(blue=100)
    assert len(versions.reader.seen) > seen
    assert versions.reader.complete


def test_versions_that_contradict_each_other_answer_once_for_each_window() -> None:
    """Who comes further first is believed for what it brings; what the other has is left out and counted."""
    rng = Random(7)
    log = logs(rng)
    contradicting = [_with_other_counts(table) for table in log.written["yellow"]]
    merge, seen = Merge(2), []
    for number, table in enumerate(log.written["blue"]):
        seen += merge.take([table] if number % 2 else [table, *contradicting[:1]])
        contradicting = contradicting[1 - number % 2 :]
    seen += merge.take(contradicting)
    answered = [(row["window_start"], row["k"]) for row in seen]
    assert answered == [(row["window_start"], row["k"]) for row in log.expected]
    assert {row["n"] < _MORE for row in seen} == {True, False}


def _with_other_counts(table: pa.Table) -> pa.Table:
    return table.set_column(3, "n", pc.add(table["n"], _MORE))


# ---- on Spark --------------------------------------------------------------------------------------------------------


class _Deployment:
    """The folder of a deployment: readings that come bit by bit, and the reader of the answers."""

    def __init__(self, folder: Path, files: Sequence[pa.Table], rng: Random) -> None:
        self.folder, self._files, self._rng = folder, files, rng
        rows = [row for table in files[:-1] for row in table.to_pylist()]
        self.reader = _Reader(answers_of(rows))
        self._brought = self._read = 0
        for name in ("readings", "shuffled", "log"):
            (folder / name).mkdir()

    def bring(self, files: int = 1) -> None:
        """Let some more files of readings come, in two orders; Spark goes by the times of files."""
        for number in range(self._brought, self._brought + files):
            table = self._files[number]
            order = self._rng.sample(range(table.num_rows), table.num_rows)
            at = pa.array([one * 1_000_000 for one in table["at"].to_pylist()], pa.timestamp("us", "UTC"))
            table = table.set_column(0, "at", at)
            for name, rows in (("readings", table), ("shuffled", table.take(order))):
                hidden = self.folder / name / f".{number}"
                pq.write_table(rows, hidden)
                os.utime(hidden, (1_000 + number, 1_000 + number))
                hidden.rename(hidden.with_name(f"{number:03}.parquet"))
        self._brought += files

    def look(self) -> None:
        """Read what the merge has written since the last time."""
        while (batch := self.folder / f"answers/batch_id={self._read}").exists():
            files = sorted(batch.glob("*.parquet"))
            rows = [row for file in files for row in _answers_in(file)]
            assert [row["window_start"] for row in rows] == sorted(row["window_start"] for row in rows)
            self.reader.read(sorted(rows, key=lambda row: (row["window_start"], row["k"])))
            self._read += 1

    def until(self, happened: Callable[[], object], *queries: Any) -> None:
        """Look again and again until something has happened; queries and drivers must live as long."""
        deadline = time.monotonic() + _PATIENT_SECONDS
        while not happened():
            assert time.monotonic() < deadline, len(self.reader.seen)
            for query in queries:
                if isinstance(query, subprocess.Popen):
                    assert query.poll() is None, (self.folder / "driver").read_text()
                elif not query.active:
                    query.wait()  # which says why
            time.sleep(0.05)
            self.look()

    def look_for(self, seconds: float, *queries: Any) -> None:
        """Look again and again for so long."""
        moment = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > moment, *queries)

    def written_by(self, name: str) -> list[Path]:
        """The files that a version has written."""
        return list(self.folder.glob(f"log/{name}/batch_id=*/*.parquet"))

    @contextmanager
    def driver(self, name: str, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        """A process that runs a query, until it is killed with all that it has started."""
        command = [sys.executable, drive_blue_green.__file__, str(self.folder), name]
        env = {**os.environ, **environment}
        with (self.folder / "driver").open("wb") as log:
            made = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=env)  # noqa: S603
        try:
            yield made
        finally:
            kill_all_of(made)

    def assert_nothing_was_late(self) -> None:
        """Neither for a version nor for the merge."""
        assert [file for file in self.folder.glob("late/**/*.parquet") if pq.read_table(file).num_rows] == []


def _answers_in(file: Path) -> list[dict[str, Any]]:
    """The rows of a file; times in seconds."""
    table = pq.read_table(file, partitioning=None)
    for number, name in enumerate(("window_start", "window_end")):
        seconds = table[name].cast(pa.timestamp("s", "UTC")).cast(pa.int64())
        table = table.set_column(number, name, seconds)
    return table.to_pylist()


def _all_lead(merge: Any, replicas: int) -> bool:
    """Whether so many versions have answered, and none of them waits to be believed."""
    found = merge.last_micro_batch() or {}
    return (found.get("replicas"), found.get("replicas_waiting")) == (replicas, 0)


def test_blue_is_killed_green_goes_on_and_yellow_replaces_it(
    session: SparkSession, tmp_path: Path, surroundings_of_killed: Callable[[Path], dict[str, str]]
) -> None:
    """In the end blue comes back, and what it sends is known."""
    rng = Random(19)
    files = rows_in_files(rng, 8)
    place = _Deployment(tmp_path, files, rng)
    place.bring(3)
    with place.driver("blue", surroundings_of_killed(tmp_path)) as blue:
        merge = drive_blue_green.merge(session, tmp_path)
        place.until(lambda: place.reader.seen, blue, merge)
        complete_from = datetime.fromtimestamp(complete_from_after(files[:2]), UTC)
        green = drive_blue_green.green(session, tmp_path, "00[2-9].parquet", complete_from)
        place.bring(2)
        place.until(lambda: _all_lead(merge, 2), blue, merge, green)
        place.bring()
    seen = len(place.reader.seen)
    place.bring(2)
    place.until(lambda: len(place.reader.seen) > seen, merge, green)
    yellow = drive_blue_green.yellow(session, tmp_path)
    place.until(lambda: _all_lead(merge, 3), merge, green, yellow)
    green.stop()
    place.bring()
    place.until(lambda: place.reader.complete, merge, yellow)
    yellow.stop()
    passed_over, written = merge.last_micro_batch()["passed_over_total"], len(place.written_by("blue"))
    drive_blue_green.blue(session, tmp_path, {"availableNow": True}).wait()
    assert len(place.written_by("blue")) > written
    place.until(lambda: merge.last_micro_batch()["passed_over_total"] > passed_over, merge)
    merge.stop()
    place.look()
    assert merge.last_micro_batch()["contradicted_total"] == 0
    place.assert_nothing_was_late()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_blue_and_the_merge_are_killed_again_and_again(
    session: SparkSession, tmp_path: Path, surroundings_of_killed: Callable[[Path], dict[str, str]], seed: int
) -> None:
    """At moments that are drawn; both are started again, green comes meanwhile, and blue is gone for good at last."""
    rng = Random(seed)
    files = rows_in_files(rng, 10)
    place, environment = _Deployment(tmp_path, files, rng), surroundings_of_killed(tmp_path)
    place.bring(3)
    with place.driver("blue", environment) as blue:
        place.until(lambda: place.written_by("blue"), blue)
    place.bring(2)
    complete_from = datetime.fromtimestamp(complete_from_after(files[:2]), UTC)
    green = drive_blue_green.green(session, tmp_path, "00[2-9].parquet", complete_from)
    for name in rng.sample(["blue", "merge", "blue", "merge"], 4):
        with place.driver(name, environment) as driver:
            place.look_for(rng.uniform(5, 20), driver, green)
        place.bring()
    merge = drive_blue_green.merge(session, tmp_path)
    with place.driver("blue", environment) as blue:
        place.until(lambda: _all_lead(merge, 2), blue, green, merge)
    place.bring(2)
    place.until(lambda: place.reader.complete, green, merge)
    green.stop()
    merge.stop()
    place.assert_nothing_was_late()


def test_the_page_prints_what_it_shows(session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its first block to its last, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    run(parsed(ROOT / "docs/guides/blue_green.md"), {"spark": session, "folder": str(tmp_path)})
