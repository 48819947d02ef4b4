"""Parquet files that Spark finds and the runner reads: their rows are those that Spark reads itself."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any

import fsspec
import narwhals as nw
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from without_spark import shard_plan

import slackwater as sw
from slackwater.errors import PlanError, SourceFailed
from slackwater.plan.node import StepNode, walk
from slackwater.runners.spark.input.file_openers import as_uri, opener_of
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.input.parquet_files import PackFiles, RowsOfFile, columns_read
from slackwater.runners.spark.wire.packed_rows import CLOCK

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

# Spark leaves sockets to its workers open; that is not for these tests to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_AT = pa.timestamp("us", "UTC")


def _rows_of(file: Path, wanted: pa.Schema, read: set[str] | None = None) -> list[dict[str, Any]]:
    rows = RowsOfFile(f"file:{file}", wanted, frozenset(wanted.names if read is None else read))
    batches = list(rows.batches(2))
    assert all(batch.schema == wanted for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


# ---- one file -------------------------------------------------------------------------------------------------------


def test_a_file_has_the_columns_that_are_wanted(tmp_path: Path) -> None:
    """In their types, their order and any case; what is not there is null, and so is what nobody uses."""
    file = tmp_path / "a b%20ü.parquet"
    pq.write_table(pa.table({"N": pa.array([1, 2, 3], pa.int32()), "x": ["a", None, "c"], "more": [0, 0, 0]}), file)
    wanted = pa.schema({"x": pa.string(), "n": pa.int64(), "gone": pa.float64()})
    assert _rows_of(file, wanted) == [{"x": x, "n": n, "gone": None} for x, n in (("a", 1), (None, 2), ("c", 3))]
    assert _rows_of(file, wanted, {"n"}) == [{"x": None, "n": n, "gone": None} for n in (1, 2, 3)]


def test_names_of_folders_are_columns(tmp_path: Path) -> None:
    """Of those that are not in the file; encoded as Spark writes them, and none where it says so."""
    folder = tmp_path / "day=2024-02-29" / "word=a%3Db" / "n=__HIVE_DEFAULT_PARTITION__" / "x=9"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), folder / "0.parquet")
    wanted = pa.schema({"x": pa.int64(), "day": pa.date32(), "word": pa.string(), "n": pa.int64()})
    (row,) = _rows_of(folder / "0.parquet", wanted)
    assert {**row, "day": str(row["day"])} == {"x": 1, "day": "2024-02-29", "word": "a=b", "n": None}


def test_rows_of_files_have_the_clock_of_the_micro_batch_that_they_came_with(tmp_path: Path) -> None:
    """Where rows may be ahead of it: they are packed as rows are that Spark reads, and none is left out."""
    rows = pa.table({"at": pa.array([1, 5, 3], _AT), "n": [7, 8, 9]})
    for number in range(2):
        pq.write_table(rows.slice(2 * number, 2), tmp_path / f"{number}.parquet")
    bounds = sw.Bounds.delay("10s")
    plan = shard_plan(lambda s: [s[0].sort(bounds=bounds, ahead="1h", late=sw.Late.drop())], [rows.schema], 1)
    (pack,) = packs_of(plan)
    assert pack.needs_clock
    clock = pa.array([60_000_000] * 2, pa.int64())
    paths = pa.array([f"file:{tmp_path / f'{number}.parquet'}" for number in range(2)])
    of_files = PackFiles(pack, frozenset(rows.column_names))._rows([pa.record_batch({"path": paths, CLOCK: clock})])
    clocked = rows.append_column(CLOCK, pa.array([60_000_000] * 3, pa.int64()))
    assert list(pack.packed(0, of_files)) == list(pack.packed(0, clocked.to_batches()))


@pytest.mark.parametrize(
    ("column", "wanted", "came"),
    [
        (pa.array(["x"]), pa.int64(), "string"),
        (pa.array([2**40]), pa.int32(), "not in range"),
        (pa.array([5], pa.timestamp("us")), _AT, "timestamp"),
        (pa.array([5], _AT), pa.timestamp("us"), "timestamp"),
        (pa.array([5], pa.timestamp("ns", "UTC")), _AT, "would lose data"),
    ],
)
def test_a_file_of_other_types_is_refused(column: pa.Array, wanted: pa.DataType, came: str, tmp_path: Path) -> None:
    """Nothing is lost or guessed; a local time is no instant."""
    pq.write_table(pa.table({"at": column}), tmp_path / "0.parquet")
    with pytest.raises(SourceFailed, match=f"(?s)do not fit its columns.*0.parquet.*{came}"):
        _rows_of(tmp_path / "0.parquet", pa.schema({"at": wanted}))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Be it no Parquet file, cut off, or gone."""
    file = tmp_path / "0.parquet"
    with pytest.raises(SourceFailed, match=r"(?s)could not be read.*0\.parquet.*mend or remove"):
        _rows_of(file, pa.schema({"at": _AT}))
    pq.write_table(pa.table({"at": pa.array([1, 2], _AT)}), file)
    os.truncate(file, file.stat().st_size - 9)
    with pytest.raises(SourceFailed, match=r"(?s)could not be read.*0\.parquet"):
        _rows_of(file, pa.schema({"at": _AT}))


def test_dates_of_the_old_calendar_are_refused(tmp_path: Path) -> None:
    """Spark marks files that have them."""
    table = pa.table({"at": pa.array([1], _AT)}).replace_schema_metadata({"org.apache.spark.legacyDateTime": ""})
    pq.write_table(table, tmp_path / "0.parquet")
    with pytest.raises(SourceFailed, match=r"(?s)calendar before 1582.*let Spark read it"):
        _rows_of(tmp_path / "0.parquet", pa.schema({"at": _AT}))


def test_only_columns_that_are_used_are_read() -> None:
    """A step that computes with whole rows, or may, uses all."""
    rows = pa.table({"at": pa.array([1], _AT), "window_start": [1], "x": [1], "y": [2]})
    stream = sw.stream(rows, time="at")
    computed, kept = stream.select(x=nw.col("y")), stream.where(nw.col("y") > 1)
    renamed = stream.tumbling("1s").select(y="y", was="window_start_before")
    assert _read_for(stream) == _read_for(computed) == _read_for(kept.select("x")) == set(rows.column_names)
    assert _read_for(stream.select(x="x")) == {"at", "x"}
    assert _read_for(renamed) == {"at", "y", "window_start"}


def _read_for(stream: sw.DisorderedStream) -> frozenset[str]:
    source, *steps = walk(stream.node)
    return columns_read(source.schema, [step for step in steps if isinstance(step, StepNode)])


# ---- on Spark -------------------------------------------------------------------------------------------------------

_MANY_TYPES = """
    SELECT timestamp_micros(id * 1000003) AS at, IF(id % 3 = 0, NULL, timestamp_ntz'2020-03-29 02:30:00.000001') AS ntz,
        date_add(date'1969-12-30', CAST(id AS INT)) AS day, CAST(id AS DECIMAL(20, 3)) / 7 AS price, id % 2 = 0 AS even,
        CAST(id AS BYTE) AS small, CAST(id AS FLOAT) AS single, 'word ' || id AS word, unhex('00ff') AS raw,
        named_struct('a', id, 'b', array(id, NULL)) AS nested, map('k', id) AS pairs, 'p=' || id % 2 AS part
    FROM range(10)
"""


def test_rows_are_those_that_spark_reads(session: SparkSession, tmp_path: Path) -> None:
    """Of files that Spark wrote, in all of its types; by default it writes instants as INT96."""
    folder = f"{tmp_path}/a b%20ü"
    session.sql(_MANY_TYPES).repartition(2).write.partitionBy("part").parquet(folder)
    files = sw.parquet_files(session, folder, streaming=False)
    assert files.frame is not None
    paths = [row.path for row in files.frame.collect()]
    batches = [
        batch for path in paths for batch in RowsOfFile(path, files.schema, frozenset(files.schema.names)).batches(4)
    ]
    ours = pa.Table.from_batches(batches).sort_by("at").to_pylist()
    theirs = session.read.parquet(folder).toArrow().cast(files.schema).sort_by("at").to_pylist()
    assert len(paths) > 2
    assert ours == theirs


def test_a_stream_of_files_gives_what_a_frame_of_them_gives(session: SparkSession, tmp_path: Path) -> None:
    """Over files that end, and over files that come, with a restart in between and one that is damaged at first."""
    first, second = [{"at": at, "n": at % 5} for at in (3, 1, 9, 2)], [{"at": at, "n": at % 5} for at in (2, 12, 30)]
    _write(tmp_path / "in", 0, first)
    _run(session, tmp_path)
    _write(tmp_path / "in", 1, second, damaged=True)
    with pytest.raises(SourceFailed, match=r"(?s)could not be read.*1\.parquet.*goes on from its checkpoint"):
        _run(session, tmp_path)
    _write(tmp_path / "in", 1, second)
    _run(session, tmp_path)
    assert [row["at"] for row in _written(tmp_path / "main")] == [1, 2, 3, 9, 12]
    assert [row["at"] for row in _written(tmp_path / "late")] == [2]
    ended = sw.stream(sw.parquet_files(session, str(tmp_path / "in"), streaming=False), time="at")
    frame = sw.stream(session.read.parquet(str(tmp_path / "in")), time="at")
    ours, theirs = (_planned(one, late=sw.Late.drop()).to_spark().toArrow() for one in (ended, frame))
    assert ours.equals(theirs)
    assert ours["at"].to_pylist() == [1, 2, 2, 3, 9, 12, 30]


def _planned(stream: sw.DisorderedStream, **options: Any) -> sw.OrderedStream:
    return (
        stream.where(nw.col("n") < 5).select(twice=nw.col("n") * 2).sort(patience=5, every=sw.Every.batch(), **options)
    )


def _run(session: SparkSession, folder: Path) -> None:
    files = sw.parquet_files(session, str(folder / "in"), schema="at long, n long", maxFilesPerTrigger=1)
    checkpoint, main, late = (str(folder / name) for name in ("checkpoint", "main", "late"))
    stream = _planned(sw.stream(files, time="at"))
    stream.start(checkpoint=checkpoint, main=main, late=late, trigger={"availableNow": True}).wait()


def _write(folder: Path, number: int, rows: list[dict[str, Any]], *, damaged: bool = False) -> None:
    folder.mkdir(exist_ok=True, parents=True)
    hidden = folder / f".{number}"
    pq.write_table(pa.Table.from_pylist(rows), hidden)
    if damaged:
        os.truncate(hidden, 20)
    hidden.rename(folder / f"{number}.parquet")


def _written(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("*/*.parquet"))
    return [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]


def test_columns_are_those_of_the_files_that_are_there(session: SparkSession, tmp_path: Path) -> None:
    """Without any, and without a schema, there is nothing to go by. In process such a stream does not run."""
    (tmp_path / "in").mkdir()
    with pytest.raises(PlanError, match=r"(?s)there is no Parquet file to read the columns from.*name the columns"):
        sw.parquet_files(session, str(tmp_path / "in"))
    _write(tmp_path / "in", 0, [{"at": 1, "n": 2}])
    files = sw.parquet_files(session, str(tmp_path / "in"))
    stream = sw.stream(files, time="at", name="tides")
    assert stream.schema == pa.schema({"at": pa.int64(), "n": pa.int64()})
    with pytest.raises(PlanError, match=r"(?s)runs on Spark only.*tides"):
        stream.sort(patience=5).run()


def test_spark_reads_files_that_arrow_cannot_open(session: SparkSession, tmp_path: Path) -> None:
    """Of any file system of Hadoop's: the same rows as of a frame, with bounds by the clock, too."""
    settings = session._jsc.hadoopConfiguration()
    settings.set("fs.abfss.impl", "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme")
    settings.set("fs.viewfs.overload.scheme.target.file.impl", "org.apache.hadoop.fs.LocalFileSystem")
    settings.set("fs.viewfs.mounttable.tides.link./data", tmp_path.as_uri())
    for number in range(3):
        _write(tmp_path / "in" / "day=2", number, [{"at": at, "n": at % 5} for at in (3, 1 + number, 9, 2)])
    path = "abfss://tides/data/in"
    files, frame = sw.parquet_files(session, path, streaming=False), session.read.parquet(path)
    (ours, theirs), (clocked, _) = (
        [sw.stream(one, time="at").sort(late=sw.Late.drop(), **held).to_spark().toArrow() for one in (files, frame)]
        for held in ({"patience": 5}, {"bounds": sw.Bounds.disorder(5)})
    )
    assert ours["at"].to_pylist() == clocked["at"].to_pylist() == theirs["at"].to_pylist()
    assert sorted(map(str, ours.to_pylist())) == sorted(map(str, theirs.to_pylist()))
    assert ours.num_rows == 12


def test_files_are_opened_by_whom_the_user_names(session: SparkSession, tmp_path: Path) -> None:
    """A file system of Arrow in tasks of Spark, to which the bucket is a folder, or Hadoop's for what Arrow knows."""
    folder = tmp_path / "tides" / "in"
    folder.mkdir(parents=True)
    _write(folder, 0, [{"at": at} for at in (3, 1, 2)])
    settings = session._jsc.hadoopConfiguration()
    settings.set("fs.gs.impl", "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme")
    settings.set("fs.viewfs.overload.scheme.target.file.impl", "org.apache.hadoop.fs.LocalFileSystem")
    settings.set("fs.viewfs.mounttable.tides.link./in", folder.as_uri())
    of_arrow = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    for system in (of_arrow, "hadoop"):
        files = sw.parquet_files(session, "gs://tides/in", streaming=False, filesystem=system)
        ordered = sw.stream(files, time="at").sort(patience=5, late=sw.Late.drop())
        assert ordered.to_spark(shards=1).toArrow()["at"].to_pylist() == [1, 2, 3]
    with pytest.raises(PlanError, match=r"(?s)cannot be opened by this.*'s3fs'.*fsspec\.filesystem"):
        sw.parquet_files(session, "gs://tides/in", filesystem="s3fs")


def test_a_file_system_of_fsspec_opens_files_by_their_addresses(tmp_path: Path) -> None:
    """It takes its schemes off itself, travels to tasks, and says what it could not open."""
    path = f"local://{tmp_path}/a b#1?.parquet"
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "a b#1?.parquet")
    opener = pickle.loads(pickle.dumps(opener_of(path, fsspec.filesystem("local"))))  # noqa: S301 - its own
    wanted = pa.schema({"n": pa.int64()})
    (batch,) = RowsOfFile(path, wanted, frozenset({"n"}), opener=opener).batches(10)
    assert batch["n"].to_pylist() == [1, 2]
    with pytest.raises(SourceFailed, match=r"(?s)could not be read.*gone\.parquet"):
        list(RowsOfFile(f"local://{tmp_path}/gone.parquet", wanted, frozenset({"n"}), opener=opener).batches(10))


@pytest.mark.parametrize(
    "name", ["plain", "at=10%3A00", "my file", "a#b?c", "Flut+Ebbe", "\N{LATIN SMALL LETTER U WITH DIAERESIS}"]
)
def test_arrow_finds_files_of_stores_by_the_names_that_spark_says(name: str) -> None:
    """Addresses of Arrow's are encoded, and those of Spark are not."""
    assert fs.FileSystem.from_uri(as_uri(f"file:///in/{name}/x.parquet"))[1] == f"/in/{name}/x.parquet"
    assert as_uri(f"s3a://bucket/{name}").startswith("s3://bucket/")
