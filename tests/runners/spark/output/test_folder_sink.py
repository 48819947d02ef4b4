"""Folders as sinks on real Spark: nobody overwrites what another wrote, and a replay changes nothing that is there."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.runners import spark as on_spark
from slackwater.runners.spark.checkpoint.ownership import Run
from slackwater.runners.spark.output.folder_sink import OwnedFolder, Stretch, next_stretch
from slackwater.runners.spark.storage.files import files_at
from slackwater.runners.spark.storage.places import Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

# Spark leaves sockets to its workers open; that is not for these tests to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

# Not imported: what workers are sent must not refer to a module that they cannot find.
_SMALL = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "small_query.py")))
_KILLING = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "killing.py")))
_PATIENT_SECONDS = 400
_bring, _run, _files, _numbers, _replay_last = _SMALL.bring, _SMALL.run, _SMALL.seen, _SMALL.numbers, _SMALL.replay_last


# ---- one place, one writer -------------------------------------------------------------------------------------------


def test_another_spelling_of_a_folder_is_no_other_folder(session: SparkSession, tmp_path: Path) -> None:
    """Main and late rows in one folder replaced each other: of 600 rows 61 were left, without a word."""
    _bring(tmp_path, range(2))
    out = tmp_path / "out"
    (tmp_path / "link").symlink_to(out)
    for spelling in (
        f"{out}/",
        f"{tmp_path}/./out",
        f"file:{out}",
        f"file://{out}",
        f"{tmp_path}/a/../out",
        f"{tmp_path}/link",
    ):
        with pytest.raises(PlanError, match="one sink cannot take rows of different columns"):
            _run(session, tmp_path, main=str(out), late=spelling)
    with pytest.raises(PlanError, match="inside that of another"):
        _run(session, tmp_path, main=str(out), late=str(out / "late"))
    with pytest.raises(PlanError, match="the checkpoint lie inside each other"):
        _run(session, tmp_path, checkpoint="out/checkpoint")
    with pytest.raises(PlanError, match="would read what it writes itself"):
        _run(session, tmp_path, main=str(tmp_path / "in/out"))
    files = sw.stream(sw.parquet_files(session, str(tmp_path / "in"), schema=_SMALL.COLUMNS), time="at")
    ordered = files.sort(10, late=sw.Late.drop())
    with pytest.raises(PlanError, match="would read what it writes itself"):
        ordered.start(checkpoint=str(tmp_path / "checkpoint"), main=f"{tmp_path}/x/../in", shards=1)
    assert {path.name for path in tmp_path.iterdir()} == {"in", "link"}


@pytest.mark.long
def test_bands_with_two_spellings_of_a_folder_share_it(session: SparkSession, tmp_path: Path) -> None:
    """They have the same columns, so that the folder gets the rows of both; with other options they are refused."""
    _bring(tmp_path, range(2))
    frame = session.readStream.schema(_SMALL.COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    bands = sw.stream(frame, time="at").tumbling(20).in_bands(5, 40, n=sw.count(), late=sw.Late.drop())
    options = {"checkpoint": str(tmp_path / "checkpoint"), "trigger": {"availableNow": True}, "shards": 1}
    other = on_spark.FolderSink(f"{tmp_path}/out/", options={"compression": "none"})
    with pytest.raises(PlanError, match=r"(?s)two sinks would write to one folder.*main#2 +parquet, compression=none"):
        bands.start(main=[str(tmp_path / "out"), other], **options)  # type: ignore[arg-type]
    query = bands.start(main=[str(tmp_path / "out"), f"file:{tmp_path}/./out"], **options)  # type: ignore[arg-type]
    query.wait()
    found = pq.read_table(tmp_path / "out").to_pylist()
    assert {row["band"] for row in found} == {0, 1}
    assert sum(row["n"] for row in found if row["band"] == 0) == 99 + 80 + 1


# ---- one folder, one query -------------------------------------------------------------------------------------------


def test_another_query_does_not_overwrite_a_folder_but_may_adopt_it(session: SparkSession, tmp_path: Path) -> None:
    """A new checkpoint began again with batch 0 and replaced what was there: of 503 rows 343 were left."""
    _bring(tmp_path, [0])
    first = _run(session, tmp_path)
    before = _files(tmp_path / "out")
    assert list(before) == ["batch_id=0/part-00000.parquet"]  # written by the driver
    with pytest.raises(PlanError, match=r"(?s)belongs to another query.*batches +1.*another folder.*adopt=") as refusal:
        _run(session, tmp_path, "anew")
    assert _files(tmp_path / "out") == before
    assert not (tmp_path / "anew").exists()
    assert first.id in str(refusal.value)

    adopting = {
        output: on_spark.FolderSink(str(tmp_path / folder), adopt=first.id)
        for output, folder in (("main", "out"), ("late", "late"))
    }
    second = _run(session, tmp_path, "anew", **adopting)
    assert _files(tmp_path / "out").items() > before.items()
    batches = {path.name: _json(path / "_slackwater/batch.json") for path in (tmp_path / "out").glob("batch_id=*")}
    assert {name: (one["query"], one["batch"]) for name, one in batches.items()} == {
        "batch_id=0": (first.id, 0),
        "batch_id=1": (second.id, 0),
    }
    rows = session.read.parquet(str(tmp_path / "out"))
    assert [sorted(row.n for row in rows.where(f"batch_id = {batch}").collect()) for batch in (0, 1)] == [
        _SMALL.expected(1)
    ] * 2
    with pytest.raises(PlanError, match=r"(?s)belongs to another query"):
        _run(session, tmp_path)
    with pytest.raises(PlanError, match=r"(?s)nothing to adopt"):
        _run(session, tmp_path, "third", main=on_spark.FolderSink(str(tmp_path / "new"), adopt=first.id))


def _json(path: Path) -> Any:
    return json.loads(path.read_text())


def test_batches_of_a_query_that_took_its_folder_back_stand_behind_those_of_the_other() -> None:
    """What it wrote before stays under the numbers it has."""
    before = (Stretch("a", first=0, number=0), Stretch("b", first=0, number=2))
    stretches = (*before, next_stretch(before, "a", number=5))
    run = Run("a", "run", 3, {}, Place.written("/checkpoint"))
    owned = OwnedFolder(on_spark.FolderSink("/out"), Place.written("/out"), run, stretches)
    assert [owned.number_of(batch) for batch in range(5)] == [0, 1, 5, 6, 7]


@pytest.mark.long
def test_a_query_that_adopted_a_folder_goes_on_there(session: SparkSession, tmp_path: Path) -> None:
    """Its batches stand behind those of the query before it, and so do its next ones if that takes it back."""
    _bring(tmp_path, range(2))
    first = _run(session, tmp_path)

    def adopted(by: str, other: str) -> Any:
        sink = on_spark.FolderSink(str(tmp_path / "out"), adopt=other)
        return _run(session, tmp_path, by, main=sink, late=str(tmp_path / f"late of {by}"))

    second = adopted("anew", first.id)
    _bring(tmp_path, [2])
    adopted("anew", first.id)
    _replay_last(tmp_path)
    _run(session, tmp_path, main=on_spark.FolderSink(str(tmp_path / "out"), adopt=second.id))
    found = {path.name: _json(path / "_slackwater/batch.json") for path in (tmp_path / "out").glob("batch_id=*")}
    assert [(found[f"batch_id={n}"]["query"], found[f"batch_id={n}"]["batch"]) for n in range(6)] == [
        *((first.id, number) for number in range(2)),
        *((second.id, number) for number in range(3)),
        (first.id, 2),
    ]
    rows = _numbers(tmp_path / "out")
    assert rows == sorted(_SMALL.expected(3) * 2)


def test_a_folder_that_no_query_wrote_is_refused(session: SparkSession, tmp_path: Path) -> None:
    """Files of others are not ours to stand among."""
    _bring(tmp_path, [0])
    (tmp_path / "out").mkdir()
    (tmp_path / "out/notes.txt").write_text("mine")
    with pytest.raises(PlanError, match=r"(?s)something in it that no query wrote.*notes.txt"):
        _run(session, tmp_path)
    assert not (tmp_path / "checkpoint").exists()


# ---- replays ---------------------------------------------------------------------------------------------------------


def test_a_stream_that_reads_a_folder_sees_each_row_once_whatever_is_replayed(
    session: SparkSession, tmp_path: Path
) -> None:
    """Replayed batches had other files, which readers took for further rows: 3,554 became 4,564."""
    seen: list[int] = []

    def read_on() -> None:
        schema = f"{_SMALL.COLUMNS}, batch_id int"
        writer = session.readStream.schema(schema).parquet(str(tmp_path / "out")).writeStream
        writer = writer.foreachBatch(lambda rows, _: seen.extend(row.n for row in rows.collect()))
        query = writer.option("checkpointLocation", str(tmp_path / "reader")).trigger(availableNow=True).start()
        query.awaitTermination()

    _bring(tmp_path, range(2))
    _run(session, tmp_path)
    read_on()
    once, before = sorted(seen), _files(tmp_path / "out")
    assert once == _SMALL.expected(2)
    _replay_last(tmp_path)  # one output is there, the other half-written, and something is left of an earlier attempt
    _halve(tmp_path / "late/batch_id=1")
    left = tmp_path / "out/_slackwater/staged/earlier-1"
    left.mkdir(parents=True)
    (left / "part-00000.parquet").write_bytes(b"half")
    _run(session, tmp_path)
    read_on()
    assert sorted(seen) == once
    assert _files(tmp_path / "out") == before
    assert _numbers(tmp_path / "late") == _SMALL.late(2)
    assert not left.exists()


def _halve(batch: Path) -> None:
    """Let a batch be as one written in place whose writer has died: a file is cut short, and the mark is not there."""
    shutil.rmtree(batch / "_slackwater")
    part = next(batch.glob("*.parquet"))
    part.write_bytes(part.read_bytes()[:100])


@pytest.mark.long
def test_a_batch_that_is_half_written_is_written_anew(session: SparkSession, tmp_path: Path) -> None:
    """In every output, and when all are there nothing is written, though shards run."""
    _bring(tmp_path, range(2))
    _run(session, tmp_path)
    for output in ("out", "late"):
        _halve(tmp_path / output / "batch_id=1")
    _replay_last(tmp_path)
    _run(session, tmp_path)
    before = _files(tmp_path)
    _replay_last(tmp_path)
    _bring(tmp_path, [2])
    _run(session, tmp_path)
    assert _files(tmp_path).items() > before.items()
    assert _numbers(tmp_path / "out") == _SMALL.expected(3)
    assert _numbers(tmp_path / "late") == _SMALL.late(3)


@pytest.mark.long
def test_a_checkpoint_that_is_older_than_its_folders_is_refused(session: SparkSession, tmp_path: Path) -> None:
    """Restored from a copy it would cut what comes into other batches of the same numbers; without these it goes on."""
    _bring(tmp_path, [0])
    _run(session, tmp_path)
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    _bring(tmp_path, [1])
    _run(session, tmp_path)
    whole = _numbers(tmp_path / "out")
    with pytest.raises(
        PlanError, match=r"(?s)further than the checkpoint.*batch_id=1\b.*ends with +micro-batch 0.*remove"
    ):
        _run(session, tmp_path, "copy")
    for output in ("out", "late"):
        shutil.rmtree(tmp_path / output / "batch_id=1")
    _run(session, tmp_path, "copy")
    assert _numbers(tmp_path / "out") == whole


# ---- other file systems ----------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["viewfs", "s3a"])
def test_folders_need_not_be_local(session: SparkSession, tmp_path: Path, scheme: str) -> None:
    """On a file system that moves folders in one step, and on a store that does not: there it is written in place.

    Both lead to a local folder: Hadoop has file systems that are views of others, under whatever scheme.
    """
    host = tmp_path.name.replace("_", "-").lower()
    _mount(session, scheme, host, tmp_path)
    _bring(tmp_path, range(2))
    root = f"{scheme}://{host}/data"
    sinks = {"main": f"{root}/out", "late": f"{root}/late"}
    _run(session, tmp_path, **sinks)
    before = _files(tmp_path / "out")
    assert _numbers(tmp_path / "out") == _SMALL.expected(2)
    _replay_last(tmp_path)
    _run(session, tmp_path, **sinks)
    assert _files(tmp_path / "out") == before
    _replay_last(tmp_path)
    shutil.rmtree(tmp_path / "out/batch_id=1/_slackwater")
    _run(session, tmp_path, **sinks)
    assert _numbers(tmp_path / "out") == _SMALL.expected(2)
    with pytest.raises(PlanError, match=r"(?s)belongs to another query"):
        _run(session, tmp_path, "anew", **sinks)
    with pytest.raises(PlanError, match="one sink cannot take rows of different columns"):
        _run(session, tmp_path, main=f"{root}/x/../out", late=f"{root}/out/")


@pytest.mark.parametrize("scheme", ["file", "viewfs", "s3a"])
def test_small_files_are_made_once_and_folders_moved_at_once(
    session: SparkSession, tmp_path: Path, scheme: str
) -> None:
    """By Python's calls, and by Hadoop's; where a store does not move folders in one step, nothing is moved."""
    host = "" if scheme == "file" else f"files-{scheme}"
    root = tmp_path.as_uri()
    if scheme != "file":
        _mount(session, scheme, host, tmp_path)
        root = f"{scheme}://{host}/data"
    files = files_at(session, Place(scheme, host, "/data"))
    assert files.read(f"{root}/a/owner") is None
    assert files.create(f"{root}/a/owner", "first ä")
    assert not files.create(f"{root}/a/owner", "second")
    assert files.read(f"{root}/a/owner") == "first ä"
    files.replace(f"{root}/a/owner", "third")
    assert (tmp_path / "a/owner").read_text() == "third"
    assert [name for name in files.names(f"{root}/a") if not name.endswith(".crc")] == ["owner"]
    assert files.names(f"{root}/nowhere") == []
    assert files.renames is (scheme != "s3a")
    files.put(f"{root}/c/d/part", pa.py_buffer(b"\x00\xff"))
    assert (tmp_path / "c/d/part").read_bytes() == b"\x00\xff"
    if files.renames:
        assert files.move(f"{root}/a", f"{root}/b")
        files.replace(f"{root}/a/owner", "fourth")
        assert not files.move(f"{root}/a", f"{root}/b")
        assert files.read(f"{root}/b/owner") == "third"
        assert not (tmp_path / "b/a").exists()
    for name in ("a", "b", "c", "nowhere"):
        files.remove(f"{root}/{name}")
    assert list(tmp_path.iterdir()) == []


def _mount(session: SparkSession, scheme: str, host: str, folder: Path) -> None:
    settings = session._jsc.hadoopConfiguration()
    settings.set(f"fs.viewfs.mounttable.{host}.link./data", folder.as_uri())
    if scheme != "viewfs":
        settings.set(f"fs.{scheme}.impl", "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme")
        settings.set("fs.viewfs.overload.scheme.target.file.impl", "org.apache.hadoop.fs.LocalFileSystem")


@pytest.mark.long
def test_folders_and_tables_over_connect(
    tmp_path: Path, postgres: str, surroundings: Callable[[Path], dict[str, str]]
) -> None:
    """Local ones, one that only Spark can reach, and tables, in a process of its own."""
    driver = Path(__file__).parents[1] / "drive_connected_sinks.py"
    env = {**os.environ, **surroundings(tmp_path)}
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, str(driver), str(tmp_path), postgres]
        running = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=env)  # noqa: S603
    try:
        assert running.wait(_PATIENT_SECONDS) == 0, (tmp_path / "log").read_text()
    finally:
        _KILLING.kill_all_of(running)
