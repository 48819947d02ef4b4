"""The Spark runner on real Spark: what it gives is what the same cuts give in process, whatever happens in between."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.errors import PlanError, RunError, SchemaMismatch
from slackwater.runners import spark as on_spark
from slackwater.runners.spark import settings
from slackwater.runners.spark.planning import shard_count
from slackwater.runners.spark.planning.shard_count import default_shards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession

# Spark leaves sockets to its workers open; that is not for these tests to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_SCHEMA = pa.schema({"at": pa.timestamp("us", "UTC"), "n": pa.int64(), "word": pa.string()})
_COLUMNS = "at timestamp, n long, word string"
_PATIENCE = "40us"
_DRIVER = Path(__file__).with_name("drive.py")
_PATIENT_SECONDS = 300


@dataclass(frozen=True)
class _Cuts:
    """A disordered stream, cut at random; some rows are too late for the patience."""

    tables: list[pa.Table]

    @classmethod
    def seeded(cls, seed: int, cuts: int = 5, rows: int = 3_000) -> _Cuts:
        """Times that go back and tie, words that are missing now and then, cuts of any length."""
        random = np.random.default_rng(seed)
        late_by = random.integers(0, 150, rows) * (random.random(rows) < 0.2)
        at = np.maximum(np.arange(rows) // 4 - late_by, 0)
        words = np.array([None, "", "tide", "slack water"], dtype=object)[random.integers(0, 4, rows)]
        columns = [pa.array(at).cast(_SCHEMA.field("at").type), pa.array(np.arange(rows)), pa.array(words, pa.string())]
        table = pa.table(columns, schema=_SCHEMA)
        edges = [0, *sorted(random.choice(np.arange(1, rows), cuts - 1, replace=False).tolist()), rows]
        return cls([table.slice(first, stop - first) for first, stop in pairwise(edges)])

    def write(self, folder: Path, which: slice = slice(None)) -> None:
        """Write a file per cut, in their order of arrival: Spark goes by the times of the files."""
        folder.mkdir(exist_ok=True)
        for number in range(len(self.tables))[which]:
            hidden = folder / f".{number:04}"
            pq.write_table(self.tables[number], hidden)
            os.utime(hidden, (1_000 + number, 1_000 + number))
            hidden.rename(folder / f"{number:04}.parquet")

    def in_process(self) -> list[_Rows]:
        """What each cut gives in process."""
        source = sw.PushSource(_SCHEMA)
        main: list[pa.RecordBatch] = []
        late: list[pa.RecordBatch] = []
        ordered = _sorted(sw.stream(source, time="at"))
        query = ordered.open(main.append, clock=sw.ManualClock(), on_late=late.append)
        given = []
        for table in self.tables:
            source.push(table.combine_chunks())
            query.work()
            given.append(
                _Rows(pa.Table.from_batches(main, ordered.schema), pa.Table.from_batches(late, ordered.late.schema))
            )
            main.clear()
            late.clear()
        return given


@dataclass(frozen=True)
class _Rows:
    """Rows in order, and late rows."""

    main: pa.Table
    late: pa.Table


def _sorted(stream: sw.DisorderedStream, **options: Any) -> sw.OrderedStream:
    return stream.sort(patience=_PATIENCE, every=sw.Every.batch(), **options)


def _start(session: SparkSession, folder: Path, stream: sw.OrderedStream | None = None) -> None:
    """Run a query from its checkpoint, if there is one, to the end of the files that are there."""
    query = (stream or _sorted(_stream(_streaming(session, folder / "in")))).start(
        checkpoint=str(folder / "checkpoint"),
        main=on_spark.FolderSink(str(folder / "main")),
        late=on_spark.FolderSink(str(folder / "late")),
        trigger={"availableNow": True},
    )
    query.wait()


def _streaming(session: SparkSession, folder: Path) -> DataFrame:
    return session.readStream.schema(_COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(folder))


def _stream(frame: DataFrame) -> sw.DisorderedStream:
    return sw.stream(frame, time="at")


def _assert_written(folder: Path, expected: list[_Rows]) -> None:
    """Each micro-batch has written what its cut gives, in the same order: nothing is lost, nothing doubled."""
    assert any(rows.late.num_rows for rows in expected), "an example without late rows shows little"
    for output in ("main", "late"):
        folders = {f"batch_id={number}" for number in range(len(expected))}
        assert {path.name for path in (folder / output).iterdir()} == {*folders, "_slackwater"}
    for number, rows in enumerate(expected):
        assert _read(folder / f"main/batch_id={number}", rows.main).equals(rows.main), number
        assert _read(folder / f"late/batch_id={number}", rows.late).equals(rows.late), number


def _read(folder: Path, like: pa.Table) -> pa.Table:
    """The rows of a folder, in the types of the table that they are compared with: Parquet has not all of them."""
    parts = [pq.read_table(file, partitioning=None) for file in sorted(folder.glob("*.parquet"))]
    return pa.concat_tables(parts).select(like.column_names).cast(like.schema)


# ---- the same as in process -----------------------------------------------------------------------------------------


def test_a_stream_gives_what_the_same_cuts_give_in_process(session: SparkSession, tmp_path: Path) -> None:
    """Rows in order, ties as they came, and late rows with the bound that they missed, micro-batch by micro-batch.

    The session has its own settings again: a query copies them when it starts.
    """
    names = ("spark.sql.shuffle.partitions", "spark.sql.streaming.stateStore.providerClass")
    before = [session.conf.get(name) for name in names]
    cuts = _Cuts.seeded(1)
    cuts.write(tmp_path / "in")
    _start(session, tmp_path)
    _assert_written(tmp_path, cuts.in_process())
    assert [session.conf.get(name) for name in names] == before


def test_a_frame_that_ends_gives_what_one_batch_gives_in_process(session: SparkSession, tmp_path: Path) -> None:
    """It is one micro-batch, after which everything is flushed: no row is late against another."""
    cuts = _Cuts([pa.concat_tables(_Cuts.seeded(2).tables).combine_chunks()])
    cuts.write(tmp_path / "in")
    ordered = _sorted(_stream(session.read.schema(_COLUMNS).parquet(str(tmp_path / "in"))), late=sw.Late.drop())
    expected = _sorted(sw.stream(cuts.tables[0], time="at")).run().table
    assert ordered.to_spark().toArrow().cast(expected.schema).equals(expected)


def _two(cuts: _Cuts) -> list[_Cuts]:
    """The same rows for two sources, the second of which lags: its first file is empty."""
    empty = cuts.tables[0].slice(0, 0)
    return [_Cuts([*cuts.tables, empty]), _Cuts([empty, *cuts.tables])]


def test_bands_of_counts_in_several_shards(session: SparkSession, tmp_path: Path) -> None:
    """One query, three latencies in one folder, late rows and metrics; stopped in the middle, nothing comes twice."""
    cuts = _Cuts.seeded(8, cuts=4)
    metrics: list[tuple[int, Any]] = []
    for which in (slice(2), slice(2, None)):
        cuts.write(tmp_path / "in", which)
        bands = _banded(_stream(_streaming(session, tmp_path / "in")))
        query = bands.start(
            checkpoint=str(tmp_path / "checkpoint"),
            main=str(tmp_path / "bands"),
            late=str(tmp_path / "late"),
            metrics=lambda rows, batch_id: metrics.extend((batch_id, row) for row in rows.collect()),
            trigger={"availableNow": True},
            shards=3,
        )
        query.wait()
        progress, so_far = query.last_micro_batch(), query.progress()
    source = sw.PushSource(_SCHEMA)
    expected: list[list[Any]] = [[] for _ in range(4)]
    streams = _banded(sw.stream(source, time="at"), every=sw.Every.batch())
    taken = [(stream, _extend(to)) for stream, to in zip([*streams, streams[0].late], expected, strict=True)]
    with sw.Query(taken, clock=sw.ManualClock()) as running:
        for table in cuts.tables:
            source.push(table.combine_chunks())
            running.work()
        wanted = [list(rows) for rows in expected]
    assert all(wanted), "an example without rows shows little"
    *answers, late = wanted
    assert _all_in(tmp_path / "bands", streams[0].schema) == sorted(str(row) for rows in answers for row in rows)
    assert _all_in(tmp_path / "late", streams[0].late.schema) == sorted(map(str, late))
    assert len(metrics) == len(cuts.tables) * 3
    assert sum(row.rows_in for _, row in metrics) == sum(table.num_rows for table in cuts.tables)
    assert sum(row.late_total for batch_id, row in metrics if batch_id == len(cuts.tables) - 1) == len(wanted[3])
    assert progress["batch_id"] == len(cuts.tables) - 1
    assert progress["shards"] == 3
    assert progress["rows_in"] == cuts.tables[-1].num_rows
    assert progress["late_total"] == len(wanted[3]) > progress["late"]
    assert progress["rows_in_total"] == sum(table.num_rows for table in cuts.tables)
    assert progress["held"] > 0
    assert re.fullmatch(r"1970-01-01T00:00:00\.\d{6}Z", progress["complete_before"])
    assert (so_far.total_in, so_far.total_late) == (progress["rows_in_total"], progress["late_total"])
    assert so_far.held == {"all shards": progress["held"]}
    assert f"complete before {progress['complete_before']}" in str(so_far)
    counted = query.counters()["all shards"]
    assert (counted.rows_in, counted.late, counted.buffered) == (so_far.total_in, so_far.total_late, progress["held"])
    assert (query.finished, query.active) == (True, False)
    with pytest.raises(RunError, match=r"(?s)not started to be flushed.*at_end"):
        query.close()


def _extend(rows: list[Any]) -> Callable[[pa.RecordBatch], None]:
    return lambda batch: rows.extend(batch.to_pylist())


def _all_in(folder: Path, schema: pa.Schema) -> list[str]:
    """The rows of all micro-batches, spelled out, in the types given: Parquet has not all of them."""
    found = pq.read_table(folder).select(schema.names).cast(schema)
    return sorted(map(str, found.to_pylist()))


def _banded(stream: sw.DisorderedStream, **options: Any) -> sw.PatienceBands:
    return stream.tumbling("50us").group_by("word").in_bands("10us", "40us", "90us", n=sw.count(), **options)


def test_replicas_of_a_stream_are_sent_once(session: SparkSession, tmp_path: Path) -> None:
    """Two streaming frames with the same rows, one behind the other, spread over shards by whole rows."""
    cuts = _Cuts.seeded(9, cuts=3, rows=900)
    for name, one in zip(("blue", "green"), _two(cuts), strict=True):
        one.write(tmp_path / name)
    frames = {name: _streaming(session, tmp_path / name) for name in ("blue", "green")}
    query = _merged(sw.stream(frame, time="at", name=name) for name, frame in frames.items()).start(
        checkpoint=str(tmp_path / "checkpoint"),
        main=str(tmp_path / "main"),
        late={name: str(tmp_path / f"late {name}") for name in ("blue", "green")},
        trigger={"availableNow": True},
    )
    query.wait()
    sources = [sw.PushSource(_SCHEMA, name=name) for name in ("blue", "green")]
    expected: list[Any] = []
    merged = _merged(sw.stream(source, time="at") for source in sources)
    with merged.open(lambda rows: expected.extend(rows.to_pylist()), clock=sw.ManualClock(), on_late=print) as running:
        for turn in zip(*(one.tables for one in _two(cuts)), strict=True):
            for source, table in zip(sources, turn, strict=True):
                source.push(table.combine_chunks())
            running.work()
        wanted = list(expected)
    assert len(wanted) > 100
    assert _all_in(tmp_path / "main", merged.schema) == sorted(map(str, wanted))


def _merged(replicas: Iterable[sw.DisorderedStream]) -> sw.OrderedStream:
    merged = sw.merge_replicas(*(one.sort("200us", every=sw.Every.batch()) for one in replicas))
    assert isinstance(merged, sw.OrderedStream)
    return merged


def test_a_join_of_frames_that_end(session: SparkSession) -> None:
    """Through the same graph, in eight shards; everything comes out, for they end."""
    tables = [_Cuts.seeded(seed, cuts=1, rows=400).tables[0] for seed in (10, 11)]
    joined = [
        _joined(*(sw.stream(one, time="at") for one in sources))
        for sources in (tables, [session.createDataFrame(table) for table in tables])
    ]
    expected = joined[0].run().table
    found = joined[1].to_spark(shards=8).toArrow().cast(expected.schema)
    assert expected.num_rows > 100
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))


def _joined(one: sw.DisorderedStream, other: sw.DisorderedStream) -> sw.OrderedStream:
    left, right = (
        stream.where(nw.col("word") != "")
        .select("word", name="n")
        .sort("1s", every=sw.Every.batch(), late=sw.Late.drop())
        for stream in (one, other)
    )
    return left.select("word", left="name").join(right.select("word", right="name"), on="word", within="3us")


def test_an_event_may_last(session: SparkSession) -> None:
    """The end is another time column; one that is not known yet is null."""
    rows = [(at, None if at % 3 == 0 else at + 2, f"row {at}") for at in (5, 3, 9, 1, 7)]
    frame = session.createDataFrame(rows, "at long, to long, word string").coalesce(1)
    stream = sw.stream(frame, time="at", until="to")
    ordered = stream.sort(patience=1, late=sw.Late.drop())
    assert ordered.to_spark().toArrow().to_pylist() == [
        {"at": at, "to": to, "word": word} for at, to, word in sorted(rows, key=lambda row: row[0])
    ]


@pytest.mark.long  # test_equality.py runs whole plans over Connect
def test_spark_connect_gives_the_same(tmp_path: Path, surroundings: Callable[[Path], dict[str, str]]) -> None:
    """The same calls on a session that has no JVM in its process."""
    cuts = _Cuts.seeded(3, cuts=3)
    cuts.write(tmp_path / "in")
    with _driver(tmp_path, surroundings(tmp_path)) as driver:
        assert driver.wait(_PATIENT_SECONDS) == 0, (tmp_path / "log").read_text()
    _assert_written(tmp_path, cuts.in_process())


# ---- stopped, resumed ------------------------------------------------------------------------------------------------


def test_a_query_goes_on_from_its_checkpoint(session: SparkSession, tmp_path: Path) -> None:
    """Stopped and started again, it writes the same files as one that was not."""
    cuts = _Cuts.seeded(4, cuts=4)
    for which in (slice(2), slice(2, None)):
        cuts.write(tmp_path / "in", which)
        _start(session, tmp_path)
    _assert_written(tmp_path, cuts.in_process())


@pytest.mark.long
def test_a_checkpoint_of_sparks_first_version_goes_on(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark keeps the version that a checkpoint was begun with, whatever the session says since."""
    first = {**settings.stream_settings(1), "spark.sql.streaming.stateStore.checkpointFormatVersion": "1"}
    cuts = _Cuts.seeded(4, cuts=4)
    for which in (slice(2), slice(2, 3), slice(3, None)):
        cuts.write(tmp_path / "in", which)
        with monkeypatch.context() as patch:
            if which == slice(2):
                patch.setattr("slackwater.runners.spark.runner.stream_settings", lambda _: first)
            _start(session, tmp_path)
    _assert_written(tmp_path, cuts.in_process())
    _start(session, _other(tmp_path))
    commits = [(folder / "checkpoint/commits/2").read_text().split()[0] for folder in (tmp_path, _other(tmp_path))]
    assert commits == ["v1", "v2"]


def _other(folder: Path) -> Path:
    """Another folder, with the same files."""
    (folder / "other").mkdir(exist_ok=True)
    if not (folder / "other/in").exists():
        shutil.copytree(folder / "in", folder / "other/in")
    return folder / "other"


def test_a_query_that_is_started_again_leaves_no_earlier_copy_in_memory(session: SparkSession, tmp_path: Path) -> None:
    """Workers, which outlive it, use what they kept for its earlier life, and keep it once."""
    kept = tmp_path / "kept"

    def look(counts: pa.RecordBatch) -> pa.Array:
        from slackwater.runners.spark.state import segment_cache as resident

        # Its own is taken out while it works; what is left of the same plan is of another life.
        with kept.open("a") as file:
            file.write(f"{sum('patience=43us' in str(place) for place in resident._resident)}\n")
        return pa.array([True] * counts.num_rows)

    cuts = _Cuts.seeded(8, cuts=6)
    for which in (slice(3), slice(3, None)):
        cuts.write(tmp_path / "in", which)
        ordered = _stream(_streaming(session, tmp_path / "in")).sort("43us", late=sw.Late.drop())
        counts = ordered.tumbling("50us").group_by("word").aggregate(n=sw.count()).where(look)
        counts.start(
            checkpoint=str(tmp_path / "checkpoint"),
            main=str(tmp_path / "main"),
            trigger={"availableNow": True},
            shards=1,
        ).wait()
    others = kept.read_text().split()
    assert len(others) >= len(cuts.tables)
    assert set(others) == {"0"}


def test_a_query_that_is_started_again_has_as_many_shards_as_before(session: SparkSession, tmp_path: Path) -> None:
    """However many cores there are by then; another number is refused."""
    cuts = _Cuts.seeded(8, cuts=3)
    for which, shards in ((slice(1), 3), (slice(1, 2), None)):
        cuts.write(tmp_path / "in", which)
        query = _start_bands(session, tmp_path, shards)
        query.wait()
        assert query.last_micro_batch()["shards"] == 3
    with pytest.raises(PlanError, match=r"(?s)different plan.*shards.*3.*2.*start with shards=3"):
        _start_bands(session, tmp_path, 2)


def _start_bands(session: SparkSession, folder: Path, shards: int | None) -> sw.SparkQuery:
    return _banded(_stream(_streaming(session, folder / "in")), late=sw.Late.drop()).start(
        checkpoint=str(folder / "checkpoint"), main=str(folder / "main"), trigger={"availableNow": True}, shards=shards
    )


def test_two_threads_that_start_queries_leave_the_session_as_it_was(session: SparkSession) -> None:
    """Each sets what it needs, and puts back what was there before both."""
    name, second_entered = settings.PARTITIONS, Event()

    def second() -> None:
        with settings.settled(session, {name: "9"}):
            second_entered.set()
            time.sleep(0.5)

    thread = Thread(target=second)
    with settings.settled(session, {name: "7"}):
        thread.start()
        second_entered.wait(0.5)
        assert session.conf.get(name) == "7"
    thread.join()
    assert session.conf.get(name, None) is None


def test_a_setting_that_a_session_does_not_take_is_named(session: SparkSession) -> None:
    """With what it would have to be; the others are put back."""
    taken = {settings.PARTITIONS: "7", "spark.sql.warehouse.dir": "elsewhere"}
    with (
        pytest.raises(PlanError, match=r"(?s)does not take a setting.*warehouse.dir.*elsewhere"),
        settings.settled(session, taken),
    ):
        pass
    assert session.conf.get(settings.PARTITIONS, None) is None


def test_there_is_a_shard_for_each_task_that_spark_runs_at_once(session: SparkSession) -> None:
    """Asked of Spark itself where the session does not say it by its name, as on a cluster, or over Connect."""
    assert default_shards(session) == 2
    assert shard_count._tasks_at_once(session) == 2


def test_a_function_works_with_the_partitions_of_the_session(session: SparkSession, tmp_path: Path) -> None:
    """Those of the query are for its state, and stay as they are; and Spark lists the query by its name."""
    cuts, seen = _Cuts.seeded(8, cuts=3), []
    cuts.write(tmp_path / "in")
    with settings.settled(session, {settings.PARTITIONS: "5"}):
        query = _banded(_stream(_streaming(session, tmp_path / "in")), late=sw.Late.drop()).start(
            checkpoint=str(tmp_path / "checkpoint"),
            main=lambda rows, _: seen.append(rows.repartition("word").sparkSession.conf.get(settings.PARTITIONS)),
            trigger={"availableNow": True},
            shards=3,
            name="tides",
        )
    query.wait()
    assert query.spark.name == "tides"
    assert query.last_micro_batch()["shards"] == 3
    assert seen == ["5"] * len(cuts.tables)


def test_a_plan_that_cannot_be_spread_says_so(session: SparkSession, tmp_path: Path) -> None:
    """With the reason, unless one shard is what was asked for."""
    frame = session.read.schema(_COLUMNS).parquet(str(_written(tmp_path)))
    ordered = _sorted(_stream(frame), late=sw.Late.drop())
    counted = _stream(frame).tumbling("50us").in_bands("40us", late=sw.Late.drop(), n=sw.count())
    words = r"(?s)one shard does all the work.*cores +2.*a total order over all rows.*sort#1 .* bytes.*wait in memory"
    with pytest.warns(UserWarning, match=words):
        ordered.to_spark()
    with pytest.warns(UserWarning, match=r"(?s)one shard does all the work.*has no keys that rows bring along"):
        counted[0].to_spark()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ordered.to_spark(shards=1)
        _banded(_stream(frame), late=sw.Late.drop())[0].to_spark()


def _written(folder: Path) -> Path:
    _Cuts.seeded(8, cuts=1, rows=50).write(folder / "in")
    return folder / "in"


def test_a_session_with_more_partitions_than_shards_is_refused_with_the_calls_to_make(
    session: SparkSession, tmp_path: Path
) -> None:
    """They can be followed: then a query of the user's own gives what start() gives.

    A sort has one shard, whatever was wanted: a second partition would store nothing, in a task of its own.
    """
    cuts = _Cuts.seeded(8, cuts=2)
    cuts.write(tmp_path / "in")
    ordered = _sorted(_stream(_streaming(session, tmp_path / "in")), late=sw.Late.drop())
    with pytest.raises(PlanError, match=r"(?s)shuffle.partitions +is 200, must be 1") as refused:
        ordered.to_spark()
    calls = str(refused.value).partition("or say: ")[2]
    named = re.findall(r'"(spark[\w.]+)", ".*?"', calls)
    assert len(named) == 3
    try:
        exec(calls, {"session": session})  # noqa: S102 - that is what users do
        own = ordered.to_spark().writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        own.trigger(availableNow=True).start(str(tmp_path / "main"), format="parquet").awaitTermination()
    finally:
        for name in named:
            session.conf.unset(name)
    found = pq.read_table(tmp_path / "main").select(["n"]).column("n").to_pylist()
    assert sorted(found) == sorted(n for rows in cuts.in_process() for n in rows.main.column("n").to_pylist())


@contextmanager
def _driver(folder: Path, surroundings: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that runs the query, and a JVM of its own in the same process group."""
    command = [sys.executable, str(_DRIVER), str(folder), _PATIENCE]
    env = {**os.environ, **surroundings}
    with (folder / "log").open("wb") as log:
        driver = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=env)  # noqa: S603
    try:
        yield driver
    finally:
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


# ---- flushed ---------------------------------------------------------------------------------------------------------


def _flush(session: SparkSession, folder: Path, write: Callable[[DataFrame, int], object]) -> on_spark.SparkQuery:
    query = _banded(_stream(_streaming(session, folder / "in"))).start(
        checkpoint=str(folder / "checkpoint"),
        main=write,
        late=str(folder / "late"),
        trigger={"availableNow": True},
        at_end="flush",
        shards=2,
    )
    query.wait()
    return query


def test_a_query_is_flushed_at_its_end_once_and_is_over(session: SparkSession, tmp_path: Path) -> None:
    """It fails while it is flushed, and is started again: windows that were open come out, each once.

    Its totals count from its first life on; what is complete is given in words.
    """
    cuts, fail = _Cuts.seeded(8, cuts=3), [True]
    written: dict[int, dict[str, list[Any]]] = {}
    cuts.write(tmp_path / "in")

    def write(rows: DataFrame, batch_id: int) -> None:
        written.setdefault(batch_id, {})[rows.columns[-1]] = [row.asDict() for row in rows.collect()]
        if batch_id == len(cuts.tables) and fail:
            fail.clear()
            raise LookupError("no tide table")

    with pytest.raises(RunError, match="no tide table"):
        _flush(session, tmp_path, write)
    assert set(written) == set(range(len(cuts.tables) + 1))
    before = written[len(cuts.tables)]
    flushed = _flush(session, tmp_path, write)
    progress = flushed.last_micro_batch()
    assert (flushed.finished, flushed.active) == (True, False)
    flushed.close()  # which was done
    assert written[len(cuts.tables)] == before
    source = sw.PushSource(_SCHEMA)
    expected: list[Any] = []
    late: list[Any] = []
    streams = _banded(sw.stream(source, time="at"), every=sw.Every.batch())
    bindings = [*((stream, _extend(expected)) for stream in streams), (streams[0].late, _extend(late))]
    with sw.Query(bindings, clock=sw.ManualClock()) as running:
        for table in cuts.tables:
            source.push(table.combine_chunks())
            running.work()
        open_before = len(expected)
        source.close()
        running.run_to_end()
    assert len(expected) > open_before > 0
    counted = [row["n"] for batch in written.values() for rows in batch.values() for row in rows]
    assert sorted(counted) == sorted(row["n"] for row in expected)
    assert progress["held"] == 0
    assert progress["rows_in"] == 0
    assert progress["rows_in_total"] == sum(table.num_rows for table in cuts.tables)
    assert progress["rows_out_total"] == len(expected) + len(late)
    assert (progress["late"], progress["late_total"]) == (0, len(late))
    with pytest.raises(PlanError, match=r"(?s)has been flushed.*another checkpoint"):
        _flush(session, tmp_path, write)


def test_what_cannot_be_flushed_is_refused(session: SparkSession, tmp_path: Path) -> None:
    """A query without an end, and an end that nobody knows."""
    stream = _sorted(_stream(_streaming(session, tmp_path)), late=sw.Late.drop())
    options: dict[str, Any] = {"checkpoint": str(tmp_path / "checkpoint"), "main": str(tmp_path / "main")}
    with pytest.raises(PlanError, match=r"(?s)needs a query that ends.*availableNow"):
        stream.start(at_end="flush", **options)
    with pytest.raises(PlanError, match=r"(?s)takes 'flush' or nothing.*at_end='flush'"):
        stream.start(at_end="close", trigger={"availableNow": True}, **options)
    for trigger in ({"availableNow": True}, {"processingTime": "1s"}):  # whose hints would else send users in a circle
        with pytest.raises(PlanError, match=r"(?s)never ends.*leave one of them out"):
            stream.start(at_end="flush", timeout="1s", trigger=trigger, **options)


# ---- refusals -------------------------------------------------------------------------------------------------------


def test_a_checkpoint_of_another_plan_is_refused(session: SparkSession, tmp_path: Path) -> None:
    """And the message says what differs."""
    cuts = _Cuts.seeded(6, cuts=2)
    cuts.write(tmp_path / "in", slice(1))
    _start(session, tmp_path)
    cuts.write(tmp_path / "in", slice(1, 2))
    other = _stream(_streaming(session, tmp_path / "in")).sort(patience="1s", every=sw.Every.batch())
    with pytest.raises(PlanError, match=r"(?s)different plan.*patience=40us.*patience=1s"):
        _start(session, tmp_path, other)


def test_a_checkpoint_of_other_sources_is_refused(session: SparkSession, tmp_path: Path) -> None:
    """Spark itself does, and says how many there were, where this library has not written down the plan."""
    _Cuts.seeded(6, cuts=1, rows=100).write(tmp_path / "in")
    _start(session, tmp_path)
    one, other = (_sorted(_stream(_streaming(session, tmp_path / "in")), late=sw.Late.drop()) for _ in range(2))
    both = sw.union(one, other)
    with pytest.raises(PlanError, match="made by a different plan"):
        both.start(checkpoint=str(tmp_path / "checkpoint"), main=str(tmp_path / "union"))
    (tmp_path / "checkpoint/_slackwater/query.json").unlink()
    query = both.start(checkpoint=str(tmp_path / "checkpoint"), main=str(tmp_path / "union"))
    with pytest.raises(
        RunError, match=r"(?s)made by a plan of other sources.*\[1\] sources.*\[2\].*another checkpoint"
    ):
        query.wait(_PATIENT_SECONDS)


def test_a_row_without_a_time_stops_the_query_and_is_named(session: SparkSession, tmp_path: Path) -> None:
    """Nothing of its micro-batch is written."""
    rows = pa.table({"at": [1, None], "n": [0, 1], "word": ["a", "b"]}, schema=_SCHEMA)
    _Cuts([rows]).write(tmp_path / "in")
    with pytest.raises(RunError, match=r"(?s)got a row without a time.*column  at"):
        _start(session, tmp_path)
    assert not list(tmp_path.glob("main/**/*.parquet"))


@pytest.mark.parametrize(
    ("options", "late", "failure_text"),
    [
        ({"every": sw.Every.rows(10)}, "late", "once for each micro-batch"),
        ({"every": sw.Every.batch()}, None, "nobody takes them"),
        ({"every": sw.Every.batch(), "late": sw.Late.drop()}, "late", "no step of this plan diverts"),
    ],
)
def test_what_cannot_work_is_refused_before_spark_starts(
    session: SparkSession, tmp_path: Path, options: dict[str, Any], late: str | None, failure_text: str
) -> None:
    """With the words of the library."""
    (tmp_path / "in").mkdir()
    ordered = _stream(_streaming(session, tmp_path / "in")).sort(patience=_PATIENCE, **options)
    main = on_spark.FolderSink(str(tmp_path / "main"))
    late_sink = None if late is None else on_spark.FolderSink(str(tmp_path / late))
    with pytest.raises(PlanError, match=failure_text):
        ordered.start(checkpoint=str(tmp_path / "checkpoint"), main=main, late=late_sink)
    assert not (tmp_path / "checkpoint").exists()


def test_streams_and_frames_that_end_have_their_own_calls(session: SparkSession, tmp_path: Path) -> None:
    """Each points to the other."""
    (tmp_path / "in").mkdir()
    streaming = _sorted(_stream(_streaming(session, tmp_path / "in")))
    ending = _sorted(_stream(session.read.schema(_COLUMNS).parquet(str(tmp_path / "in"))))
    sink = on_spark.FolderSink(str(tmp_path / "out"))
    with pytest.raises(PlanError, match=r"use to_spark\(\)"):
        ending.start(checkpoint=str(tmp_path / "checkpoint"), main=sink, late=sink)
    with pytest.raises(PlanError, match=r"(?s)would be lost.*use start\(late="):
        streaming.to_spark()
    with pytest.raises(PlanError, match=r"(?s)would be lost.*run it in process.*or choose Late.drop"):
        ending.to_spark()
    with pytest.raises(PlanError, match=r"(?s)needs other settings.*providerClass.*FormatVersion.*use start"):
        _sorted(_stream(_streaming(session, tmp_path / "in")), late=sw.Late.drop()).to_spark()
    with pytest.raises(PlanError, match="runs on Spark only"):
        ending.run()
    with pytest.raises(PlanError, match="means nothing for a batch DataFrame"):
        ending.to_spark(timeout="1s")


def test_the_library_alone_loads_neither_pyspark_nor_java() -> None:
    """Whoever runs in process does not pay for Spark."""
    program = "import sys, slackwater; print({'pyspark', 'py4j', 'pandas'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "set()\n"  # noqa: S603 - our own words


@pytest.mark.parametrize(
    ("options", "failure_text"),
    [
        ({"time": "nowhere"}, r"(?s)names a column that is not there.*asked for +nowhere.*there are +at, n, word"),
        ({"time": "word"}, r"(?s)cannot use the type of a column.*word.*string.*a timestamp, a date or an integer"),
        ({"time": "at", "until": "n"}, r"(?s)cannot use the type of a column.*n\b.*the same kind of time as 'at'"),
    ],
    ids=["unknown column", "wrong type", "another kind of time"],
)
def test_times_that_a_frame_does_not_have_are_refused_when_a_stream_is_made(
    session: SparkSession, tmp_path: Path, options: dict[str, Any], failure_text: str
) -> None:
    """Of streaming frames and of those that end alike."""
    for frame in (_streaming(session, tmp_path), session.createDataFrame([], _COLUMNS)):
        with pytest.raises(SchemaMismatch, match=failure_text):
            sw.stream(frame, **options)


def test_steps_on_columns_that_a_frame_does_not_have_are_refused_when_written(session: SparkSession) -> None:
    """Before Spark sees them."""
    stream = _stream(session.createDataFrame([], _COLUMNS))
    with pytest.raises(PlanError, match=r"(?s)where cannot be computed on this stream.*at, n, word"):
        stream.where(nw.col("nowhere") > 1)
    with pytest.raises(SchemaMismatch, match=r"(?s)select names a column that is not there.*nowhere"):
        stream.select("nowhere")


def test_workers_that_cannot_work_are_refused_when_a_stream_is_made(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Not by a stack trace of one of them, when the query runs."""
    frame = session.createDataFrame([], _COLUMNS)
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "python"))
    with pytest.raises(PlanError, match=r"(?s)Python workers of this session.*no such program.*before the session"):
        _stream(frame)


# ---- rows without a time --------------------------------------------------------------------------------------------


def test_rows_without_a_time_are_late_in_every_micro_batch(session: SparkSession, tmp_path: Path) -> None:
    """Main rows are those of the other rows, and late rows those of the same cuts in process; none is lost."""
    cuts = _Cuts([_without_some_times(table) for table in _Cuts.seeded(12, cuts=3, rows=900).tables])
    cuts.write(tmp_path / "in")
    lost: list[int] = []
    query = _sorted(_with_untimed(_streaming(session, tmp_path / "in"))).start(
        checkpoint=str(tmp_path / "checkpoint"),
        main=str(tmp_path / "main"),
        late=str(tmp_path / "late"),
        metrics=lambda rows, _: lost.extend(row.late_total + row.held for row in rows.collect()),
        trigger={"availableNow": True},
    )
    query.wait()
    source = sw.PushSource(_SCHEMA)
    main: list[Any] = []
    late: list[Any] = []
    ordered = _sorted(_with_untimed(source))
    with ordered.open(_extend(main), clock=sw.ManualClock(), on_late=_extend(late)) as running:
        for table in cuts.tables:
            source.push(table.combine_chunks())
            running.work()
        expected_main, expected_late = list(main), list(late)
    untimed = [row for row in expected_late if row["at"] is None]
    assert len(untimed) > 50
    assert all(row["late_bound"] is None and row["late_by"] is None for row in untimed)
    assert len(expected_late) > len(untimed)
    assert _all_in(tmp_path / "main", ordered.schema) == sorted(map(str, expected_main))
    assert _all_in(tmp_path / "late", ordered.late.schema) == sorted(map(str, expected_late))
    kept = sum(row["word"] != "tide" for table in cuts.tables for row in table.to_pylist() if row["word"] is not None)
    assert len(expected_main) + lost[-1] == kept


def _without_some_times(table: pa.Table) -> pa.Table:
    times = [None if n % 7 == 3 else at for at, n in zip(table["at"], table["n"].to_pylist(), strict=True)]
    return table.set_column(0, _SCHEMA.field("at"), pa.array([None if at is None else at.as_py() for at in times]))


def _with_untimed(source: Any) -> sw.DisorderedStream:
    """A filter of Spark's own, which rows without a time pass as others do."""
    return sw.stream(source, time="at", untimed_is_late=True).where(nw.col("word") != "tide")
