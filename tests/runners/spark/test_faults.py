"""The faults of docs/faults.md on real Spark: each says what happened; when its cause is gone, all is there once."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.errors import PlanError, RunError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

# Spark leaves sockets to its workers open; that is not for these tests to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

# Not imported: what workers are sent must not refer to a module that they cannot find.
_DRIVER = Path(__file__).with_name("small_query.py")
_SMALL = SimpleNamespace(**runpy.run_path(str(_DRIVER)))
_KILLING = SimpleNamespace(**runpy.run_path(str(_DRIVER.with_name("killing.py"))))
_bring, _run = _SMALL.bring, _SMALL.run
_PATIENT_SECONDS = 300


def _fails(session: SparkSession, folder: Path, **options: Any) -> str:
    """Run the query, which fails; return what it says, without any stack trace."""
    with pytest.raises(RunError) as failure:
        _run(session, folder, **options)
    failure_text = str(failure.value)
    assert "Traceback" not in failure_text
    assert "\n\tat " not in failure_text
    assert len(failure_text.splitlines()) < 12, failure_text
    assert "hint: " in failure_text
    return failure_text


def _assert_all_once(folder: Path, files: int) -> None:
    """Of so many files, all rows that are complete are in one folder, and the late ones in the other."""
    assert _SMALL.numbers(folder / "out") == _SMALL.expected(files)
    assert _SMALL.numbers(folder / "late") == _SMALL.late(files)


# ---- two at once -----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_driver_that_was_thought_dead_is_refused_when_it_writes_again(
    session: SparkSession, tmp_path: Path, surroundings_of_killed: Callable[[Path], dict[str, str]]
) -> None:
    """Stopped by a signal within a micro-batch, it sleeps while another takes its place; awake again, it stops itself.

    While it lives, a query of another checkpoint cannot have its folder.
    """
    _bring(tmp_path, range(2))
    env = {**os.environ, **surroundings_of_killed(tmp_path)}
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, str(_DRIVER), str(tmp_path)]
        driver = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=env)  # noqa: S603
    try:
        _wait_until(lambda: (tmp_path / "halted").exists() or driver.poll() is not None)
        assert driver.poll() is None, (tmp_path / "log").read_text()
        with pytest.raises(PlanError, match="belongs to another query"):
            _run(session, tmp_path, "another checkpoint", main=str(tmp_path / "out"))
        os.killpg(driver.pid, signal.SIGSTOP)
        _bring(tmp_path, [2])
        _run(session, tmp_path, main=lambda rows, _: rows.count())
        assert _SMALL.numbers(tmp_path / "late") == _SMALL.late(3)
        before = _SMALL.seen(tmp_path / "late")
        os.killpg(driver.pid, signal.SIGCONT)
        (tmp_path / "go_on").touch()
        assert driver.wait(_PATIENT_SECONDS) != 0
    finally:
        _KILLING.kill_all_of(driver)
    failure_text = (tmp_path / "log").read_text().rpartition("Superseded: ")[2]
    assert failure_text.startswith("the folder of a sink was taken over")
    assert _SMALL.seen(tmp_path / "late") == before


def _wait_until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENT_SECONDS
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_two_drivers_in_one_micro_batch_are_distinguished(session: SparkSession, tmp_path: Path) -> None:
    """Whoever comes second to note that a micro-batch is done stops, and so does one that finds a newer start."""
    _bring(tmp_path, range(2))
    commits = tmp_path / "checkpoint/commits"

    def another_is_faster(rows: Any, batch_id: int) -> None:
        rows.count()
        if batch_id == 1:
            shutil.copy(commits / "0", commits / "1")

    failure_text = _fails(session, tmp_path, main=another_is_faster)
    assert failure_text.startswith("another driver works on this checkpoint\n"), failure_text
    (commits / "1").unlink()

    def another_starts(rows: Any, batch_id: int) -> None:  # noqa: ARG001 - whatever the number is
        rows.count()
        record = tmp_path / "checkpoint/_slackwater/query.json"
        record.write_text(json.dumps({**json.loads(record.read_text()), "run": "another", "epoch": 7}))

    _bring(tmp_path, [2])
    failure_text = _fails(session, tmp_path, main=another_starts)
    assert failure_text.startswith("another driver has taken over this checkpoint\n"), failure_text
    assert "newest start  7" in failure_text
    _run(session, tmp_path, main=lambda rows, _: rows.count())
    assert _SMALL.numbers(tmp_path / "late") == _SMALL.late(3)


# ---- disks -----------------------------------------------------------------------------------------------------------


@contextmanager
def _disk(folder: Path, size: str) -> Iterator[Path]:
    """A disk of its own, which may be small, or become read-only."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "slackwater", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False, text=True)  # noqa: S603
    if mounted.returncode:
        pytest.skip(f"this machine does not let us mount a disk: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)  # noqa: S603, S607


def _remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)  # noqa: S603, S607


def _fill(folder: Path, leave: int) -> Path:
    """Fill a disk up to some bytes."""
    ballast = folder / "ballast"
    left = os.statvfs(folder)
    ballast.write_bytes(bytes(max(left.f_bavail * left.f_frsize - leave, 0)))
    return ballast


@pytest.mark.parametrize(
    "full",
    ["sink", *(pytest.param(name, marks=pytest.mark.long) for name in ("checkpoint", "checkpoint while it starts"))],
)
def test_a_disk_that_is_full_stops_the_query_until_there_is_room(
    session: SparkSession, tmp_path: Path, full: str
) -> None:
    """It says so; nothing is lost, and nothing doubled."""
    with _disk(tmp_path / "disk", "4m") as disk:
        options: dict[str, Any] = {"checkpoint": "disk/checkpoint"}
        if full == "sink":
            options = {"main": str(disk / "out")}
        _bring(tmp_path, [0])
        _run(session, tmp_path, **options)
        _bring(tmp_path, range(1, 3))
        ballast = _fill(disk, 0 if full == "checkpoint while it starts" else 8_192)
        failure_text = _fails(session, tmp_path, **options)
        assert "cannot be written" in failure_text or failure_text.startswith(
            "no space is left where a query on Spark writes\n"
        ), failure_text
        assert "No space left on device" in failure_text
        ballast.unlink()
        _run(session, tmp_path, **options)
        out = disk / "out" if full == "sink" else tmp_path / "out"
        assert _SMALL.numbers(out) == _SMALL.expected(3)
        assert _SMALL.numbers(tmp_path / "late") == _SMALL.late(3)


def test_a_checkpoint_that_is_read_only_is_refused_before_spark_starts(session: SparkSession, tmp_path: Path) -> None:
    """Nothing is written anywhere; when it may be written again, the query goes on."""
    with _disk(tmp_path / "disk", "4m") as disk:
        _bring(tmp_path, [0])
        _remount(disk, "ro")
        failure_text = _fails(session, tmp_path, checkpoint="disk/checkpoint")
        assert failure_text.startswith("the checkpoint cannot be written\n")
        assert "Read-only file system" in failure_text
        assert not (tmp_path / "out").exists()
        _remount(disk, "rw")
        _run(session, tmp_path, "disk/checkpoint")
        assert _SMALL.numbers(tmp_path / "out") == _SMALL.expected(1)


# ---- sources ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["frames", pytest.param("files", marks=pytest.mark.long)])
def test_source_files_that_are_corrupt_gone_or_of_other_columns_stop_the_query(
    session: SparkSession, tmp_path: Path, kind: str
) -> None:
    """Named, and nothing of the micro-batch is written; with the file as it should be the query goes on."""
    _bring(tmp_path, range(2))
    file = tmp_path / "in/1.parquet"
    whole = file.read_bytes()

    def assert_says(words: str) -> None:
        failure_text = _fails(session, tmp_path, kind=kind)
        assert failure_text.startswith(
            ("a file of a source cannot be read\n", "a source could not be read\n", words)
        ), failure_text
        assert "1.parquet" in failure_text
        assert not (tmp_path / "out/batch_id=1").exists()

    file.write_bytes(whole[: len(whole) // 2])
    assert_says("corrupt")
    file.unlink()
    assert_says("a file of a source is gone before it was read\n")
    pq.write_table(_SMALL.table(1).set_column(1, "n", pa.array(["many"] * 100)), file)
    assert_says("a source brought rows that do not fit its columns\n")
    file.write_bytes(whole)
    _run(session, tmp_path, kind=kind)
    _assert_all_once(tmp_path, 2)


@pytest.mark.long
def test_files_whose_times_go_back_are_read(session: SparkSession, tmp_path: Path) -> None:
    """The clock of whoever writes them went back, between two files and between two runs."""
    _bring(tmp_path, [0])
    _run(session, tmp_path)
    _bring(tmp_path, [1], step=-3_600)
    _run(session, tmp_path)
    _bring(tmp_path, [2], step=-3_600)
    _run(session, tmp_path)
    _assert_all_once(tmp_path, 3)


# ---- checkpoints -----------------------------------------------------------------------------------------------------


_DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut within a line": lambda whole: whole[:-5],
    "cut in the middle": lambda whole: whole[: len(whole) // 2],
    "without its last line": lambda whole: whole.rpartition(b"\n")[0],
    "other words": lambda _: b"high\nwater\n",
    "no text": lambda _: bytes(range(128, 256)),
    "garbage behind the version": lambda _: b'v1\n{]\n{"logOffset',
}


def test_offsets_that_are_damaged_stop_the_query(session: SparkSession, tmp_path: Path) -> None:
    """Each file is named, however it is damaged; as it was, the query goes on.

    Spark alone says of some of them "Input length = 1", or that the plan has other sources. Of a log of source files
    that has lost its lines, or is missing, it says nothing, and reads those files again.
    """
    _bring(tmp_path, range(2))
    _run(session, tmp_path)
    _bring(tmp_path, [2])
    for log in ("metadata", "offsets/0", "offsets/1", "commits/1", "sources/0/0", "sources/0/1"):
        file = tmp_path / "checkpoint" / log
        sums = file.with_name(f".{file.name}.crc")
        kept = {one: one.read_bytes() for one in (file, sums) if one.exists()}
        for damage, damaged in _DAMAGE.items():
            sums.unlink(missing_ok=True)
            file.write_bytes(damaged(kept[file]))
            failure_text = _fails(session, tmp_path)
            assert failure_text.startswith("a file of the checkpoint is damaged\n"), (log, damage, failure_text)
            assert f"{file.as_uri()}\n" in failure_text, (log, damage, failure_text)
        for one, content in kept.items():
            one.write_bytes(content)
    lost = tmp_path / "checkpoint/sources/0/1"
    lost.rename(tmp_path / "lost")
    assert "it is missing" in _fails(session, tmp_path)
    (tmp_path / "lost").rename(lost)
    _run(session, tmp_path)
    _assert_all_once(tmp_path, 3)


def test_another_plan_and_another_version_are_refused_before_spark_starts(
    session: SparkSession, tmp_path: Path
) -> None:
    """Another number of shards, another patience, folder or end, a timeout, another form of states or of our own files.

    What differs is shown line by line, with what to do. A filter of what comes out, a name and another sink may differ.
    """
    _bring(tmp_path, [0])
    (tmp_path / "elsewhere").mkdir()
    _bring(tmp_path / "elsewhere", [0])

    def start(patience: int = 10, read: Path = tmp_path, least: int = 0, **options: Any) -> Any:
        frame = session.readStream.schema(_SMALL.COLUMNS).parquet(str(read / "in"))
        per_n = sw.stream(frame, time="at").sort(patience, late=sw.Late.drop()).tumbling(20).group_by("n")
        counts = per_n.aggregate(c=sw.count()).where(nw.col("c") > least)
        given = {"checkpoint": str(tmp_path / "checkpoint"), "main": str(tmp_path / "out"), "shards": 2, **options}
        return counts.start(**given)

    def refused(**options: Any) -> list[str]:
        with pytest.raises(PlanError) as failure:
            start(**options)
        headline, *lines, checkpoint, hint = str(failure.value).splitlines()
        assert headline == "this checkpoint was made by a different plan"
        assert checkpoint == f"    checkpoint  {(tmp_path / 'checkpoint').as_uri()}"
        return [line.strip() for line in (*lines, hint)]

    start(trigger={"availableNow": True}).wait()
    hint = "hint: start with shards=2; or say rescale=True, and what is held goes to the new number of them"
    assert refused(shards=3) == ["- shards 2", "+ shards 3", hint]
    assert refused(patience=11) == [
        "- punctuate#1 patience=10 every 1, late rows dropped",
        "+ punctuate#1 patience=11 every 1, late rows dropped",
        "hint: go on with the plan that made it, or start anew with another checkpoint and other folders",
    ]
    assert refused(timeout="1s") == ["- timeout none", "+ timeout some", "hint: start with no timeout="]
    ends = {"trigger": {"availableNow": True}, "at_end": "flush"}
    assert refused(**ends, shards=1)[-1] == "hint: start with shards=2 and no at_end="
    assert refused(read=tmp_path / "elsewhere")[:2] == [
        f"- source#1 time=at, reads {(tmp_path / 'in').as_uri()}",
        f"+ source#1 time=at, reads {(tmp_path / 'elsewhere/in').as_uri()}",
    ]
    record = tmp_path / "checkpoint/_slackwater/query.json"
    whole = record.read_text()
    for name, failure_text in (
        ("state", "a format version that this release cannot read"),
        ("format", "by another version"),
    ):
        record.write_text(json.dumps({**json.loads(whole), name: 99}))
        with pytest.raises(PlanError, match=rf"(?s){failure_text}.*99"):
            start()
    record.write_text(whole[:20])
    with pytest.raises(RunError, match=r"(?s)owner file of a folder is damaged.*restore"):
        start()
    record.write_text(whole)
    _bring(tmp_path, [1])
    query = start(least=1, name="counts", main=str(tmp_path / "other"), trigger={"availableNow": True})
    query.wait()  # it goes on: every n has been counted once, and the filter leaves out all of them
    assert query.spark.name == "counts"
    assert query.counters()["all shards"].rows_in == 200
    assert _SMALL.numbers(tmp_path / "out")
    assert _SMALL.numbers(tmp_path / "other") == []
