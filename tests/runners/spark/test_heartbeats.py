"""Bounds on Spark: true micro-batches, files and frames, a replay, and what a query says of itself."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_query import replay_last

import slackwater as sw
from slackwater.errors import PlanError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

MASTER = "local[3]"

_COLUMNS = "at long, who string, landed long, n long"
_ROWS = pa.schema({"at": pa.int64(), "who": pa.string(), "landed": pa.int64(), "n": pa.int64()})
_KINDS = ("files", pytest.param("frames", marks=pytest.mark.long))


def _rows() -> pa.Table:
    """Two sources in order, one of them cut off for a while; and three rows that break bounds, two of them late."""
    a = [(tick, "a", tick) for tick in range(60)]
    b = [(tick if tick < 20 or tick >= 40 else 40, "b", tick) for tick in range(60)]
    broken = [(45, "a", 3), (50, "b", 41), (58, "a", 57)]
    landed, who, at = zip(*sorted([*a, *b, *broken], key=lambda row: row[0]), strict=True)
    return pa.table({"at": at, "who": who, "landed": landed, "n": range(len(at))}, schema=_ROWS)


def _bring(folder: Path, table: pa.Table, rows_per_file: int) -> None:
    """Files in order of arrival: Spark goes by their times, which rise."""
    folder.mkdir()
    for number, batch in enumerate(table.to_batches(rows_per_file)):
        path = folder / f"{number}.parquet"
        pq.write_table(pa.Table.from_batches([batch]), path)
        os.utime(path, (100_000 + number, 100_000 + number))


def _stream(session: SparkSession, folder: Path, kind: str, **columns: Any) -> sw.DisorderedStream:
    options: dict[str, Any] = {"maxFilesPerTrigger": 1}
    if kind == "files":
        source: Any = sw.parquet_files(session, str(folder / "in"), schema=_COLUMNS, **options)
    else:
        source = session.readStream.schema(_COLUMNS).options(**options).parquet(str(folder / "in"))
    return sw.stream(source, time="at", **columns)


def _run(stream: Any, folder: Path, **options: Any) -> Any:
    given = {"main": str(folder / "out"), "late": str(folder / "late"), "trigger": {"availableNow": True}, **options}
    query = stream.start(checkpoint=str(folder / "checkpoint"), **given)
    query.wait()
    return query


def _numbers(folder: Path) -> list[int]:
    return sorted(pq.read_table(folder, columns=["n"])["n"].to_pylist()) if folder.exists() else []


_BOUNDS = sw.Bounds.in_order() & sw.Bounds.delay(0, b=20)


@pytest.mark.parametrize("kind", _KINDS)
def test_a_backfill_has_the_same_late_rows_as_in_process_however_it_is_cut(
    session: SparkSession, tmp_path: Path, kind: str
) -> None:
    """With a column of arrivals: in three shards, in four micro-batches or in two, and when the last is done again."""
    table = _rows()
    columns = {"origin": "who", "arrived": "landed"}

    def counted(stream: sw.DisorderedStream) -> Any:
        return stream.where(nw.col("n") != 7).deduplicate(on="n", within=0, bounds=_BOUNDS)

    late = sorted(counted(sw.stream(table, time="at", **columns)).run().late["n"].to_pylist())  # type: ignore[arg-type]
    assert len(late) == 2
    for name, rows_per_file in (("four", 32), ("two", 65)):
        folder = tmp_path / name
        folder.mkdir()
        _bring(folder / "in", table, rows_per_file)
        query = _run(counted(_stream(session, folder, kind, **columns)), folder, shards=3)
        assert _numbers(folder / "late") == late
        counters = query.counters()["all shards"]
        assert (counters.broken_bounds, counters.late) == (3, 2)
    before = _numbers(folder / "out")
    replay_last(folder)
    _run(counted(_stream(session, folder, kind, **columns)), folder, shards=3)
    assert (_numbers(folder / "late"), _numbers(folder / "out")) == (late, before)


@pytest.mark.parametrize("kind", _KINDS)
def test_by_the_clock_rows_arrive_at_the_timestamp_of_their_micro_batch(
    session: SparkSession, tmp_path: Path, kind: str
) -> None:
    """Which Spark has in its log, so that a micro-batch that is done again has the same; none is run without rows."""
    table = _rows().slice(0, 96)
    _bring(tmp_path / "in", table, 32)
    bounds = (sw.Bounds.in_order() & sw.Bounds.uniform(25) & sw.Bounds.lull("1d")).only("a", "b")
    stream = _stream(session, tmp_path, kind, origin="who").sort(bounds=bounds)
    query = _run(stream, tmp_path, shards=1)
    (reason,) = query.why()
    assert (reason.step, reason.ground) == ("heartbeats#1", sw.Grounds.PROVEN)
    assert sum(reason.held.values()) == query.progress().held["all shards"]
    stamps = _timestamps(tmp_path)
    assert len(stamps) == 3
    assert reason.arrived in stamps
    out, late = _numbers(tmp_path / "out"), _numbers(tmp_path / "late")
    assert (len(out) + len(late) + sum(reason.held.values()), late) == (96, [92])
    replay_last(tmp_path)
    again = _run(_stream(session, tmp_path, kind, origin="who").sort(bounds=bounds), tmp_path, shards=1)
    assert again.why() == query.why()
    assert _timestamps(tmp_path) == stamps
    assert (_numbers(tmp_path / "out"), _numbers(tmp_path / "late")) == (out, late)


@pytest.mark.parametrize("kind", _KINDS)
def test_a_replica_takes_over_by_proof_from_one_that_has_died(session: SparkSession, tmp_path: Path, kind: str) -> None:
    """As in process: by patience alone nothing would be complete; again when the last micro-batch is done again."""
    rows = [(at, "blue") for at in range(32)] + [(at, "green") for at in range(28, 92)]
    table = pa.Table.from_pylist([{"at": at, "who": who, "landed": 0, "n": at} for at, who in rows], _ROWS)
    _bring(tmp_path / "in", table, 32)

    def merged(stream: sw.DisorderedStream) -> sw.OrderedStream:
        bounds = sw.Bounds.uniform(3) & sw.Bounds.lull("1d")
        return stream.select("who", "n").merge_replicas("who", 1_000, bounds=bounds, late=sw.Late.drop())

    source, expected = sw.PushSource(_ROWS), []
    query = merged(sw.stream(source, time="at")).open(lambda rows: expected.extend(rows["n"].to_pylist()))
    for batch in table.to_batches(32):
        source.push(batch)
        query.work()
    assert expected == list(range(88))  # 91 - 3, and what is at the bound may still come
    found = _run(merged(_stream(session, tmp_path, kind)), tmp_path, shards=3, late=None)
    assert _numbers(tmp_path / "out") == expected
    (reason,), (in_process,) = found.why(), query.why()
    query.stop()
    assert (reason.step, reason.ground, reason.complete_before) == ("merge_replicas#1", sw.Grounds.PROVEN, 88)
    assert {one.origin: one.complete_before for one in reason.origins} == {
        one.origin: one.complete_before for one in in_process.origins
    }
    replay_last(tmp_path)
    assert _run(merged(_stream(session, tmp_path, kind)), tmp_path, shards=3, late=None).why() == found.why()
    assert _numbers(tmp_path / "out") == expected


def _timestamps(folder: Path) -> list[int]:
    """When micro-batches were made, by Spark's log, in microseconds."""
    logs = sorted((path for path in (folder / "checkpoint/offsets").iterdir() if path.name.isdecimal()), key=str)
    return [json.loads(path.read_text().splitlines()[1])["batchTimestampMs"] * 1_000 for path in logs]


def test_a_clock_that_says_when_rows_arrive_is_no_timeout(session: SparkSession, tmp_path: Path) -> None:
    """With a column of arrivals silence cannot be seen; that is refused before Spark starts."""
    _bring(tmp_path / "in", _rows(), 65)
    stream = _stream(session, tmp_path, "frames", origin="who", arrived="landed").sort(bounds=_BOUNDS)
    with pytest.raises(PlanError, match="a column says when rows arrive"):
        _run(stream, tmp_path, shards=1, timeout="5s", trigger={"processingTime": "1 second"})


def test_a_frame_that_ends_has_bounds_too(session: SparkSession) -> None:
    """It is one micro-batch, and then its end."""
    frame = session.createDataFrame(_rows().to_pandas(), _COLUMNS)
    stream = sw.stream(frame, time="at", origin="who", arrived="landed")
    rows = stream.sort(bounds=_BOUNDS, late=sw.Late.drop()).to_spark(shards=1).collect()
    assert len(rows) == _rows().num_rows - 2
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)


@pytest.mark.parametrize("kind", _KINDS)
def test_rows_ahead_of_the_clock_are_found_by_the_timestamp_of_the_micro_batch(
    session: SparkSession, tmp_path: Path, kind: str
) -> None:
    """There every row comes with it, where else only what is packed does."""
    times = [datetime(year, 1, 1, tzinfo=UTC) for year in (2_100, 2_001, 2_000)]
    (tmp_path / "in").mkdir()
    pq.write_table(
        pa.table({"at": pa.array(times, pa.timestamp("us", "UTC")), "n": [1, 2, 3]}), tmp_path / "in/1.parquet"
    )
    reads = sw.parquet_files if kind == "files" else _frame
    rows = sw.stream(reads(session, str(tmp_path / "in"), schema="at timestamp, n long"), time="at", name="rows")
    late = {name: str(tmp_path / name) for name in ("rows", "rows#2")}
    _run(rows.sort(bounds=sw.Bounds.delay("10s"), ahead="1h"), tmp_path, shards=1, late=late)
    ahead = pq.read_table(tmp_path / "rows")
    assert (ahead["n"].to_pylist(), _numbers(tmp_path / "out")) == ([1], [2, 3])
    (allowed,) = ahead["latest_allowed"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
    assert allowed == _timestamps(tmp_path)[0] + 3_600_000_000


def _frame(session: SparkSession, path: str, schema: str) -> Any:
    return session.readStream.schema(schema).parquet(path)


def test_frames_that_bounds_relate_give_what_tables_do_in_process(session: SparkSession) -> None:
    """A backfill of two streams, one of which was cut off: the same rows are late, in any number of shards."""
    tables = {name: _rows().filter(pa.compute.equal(_rows()["who"], name)) for name in ("a", "b")}
    bounds = sw.Bounds.in_order() & sw.Bounds({("a", "b"): [sw.Bound(20)]})

    def united(sources: dict[str, Any]) -> sw.OrderedStream:
        streams = (sw.stream(one, time="at", arrived="landed", name=name) for name, one in sources.items())
        a, b = sw.related(*streams, bounds=bounds, late=sw.Late.drop(), every=sw.Every.time(1))
        return a.sort().union(b.sort()).deduplicate(on="n", within=0)

    expected = sorted(united(dict(tables)).run().table["n"].to_pylist())
    assert len(expected) < _rows().num_rows, "some rows broke bounds"
    on_frames = united({name: session.createDataFrame(one.to_pandas(), _COLUMNS) for name, one in tables.items()})
    assert sorted(row["n"] for row in on_frames.to_spark(shards=2).collect()) == expected
    text = on_frames.explain(runner="spark", shards=2)
    assert "related#1 a of a, b" in text
    assert "the same in every shard" in text


_LOSS = 0.05


def _weather() -> pa.Table:
    """Rows of three sources in calm, a storm in which half of them is long under way, and calm again."""
    rng = Random(18)
    rows = []
    for time in range(1_200):
        stormy = 500 <= time < 560 and rng.random() < 0.5
        rows.append((time + (rng.randrange(30, 90) if stormy else rng.randrange(3)), "abc"[rng.randrange(3)], time))
    landed, who, at = zip(*sorted(rows, key=lambda row: (row[0], row[2], row[1])), strict=True)
    return pa.table({"at": at, "who": who, "landed": landed, "n": range(len(at))}, schema=_ROWS)


@pytest.mark.parametrize("kind", _KINDS)
def test_bounds_are_learnt_as_in_process_and_when_a_micro_batch_is_done_again(
    session: SparkSession, tmp_path: Path, kind: str
) -> None:
    """In three shards and four micro-batches: the same late rows, the same loss, and a restart goes on from there."""
    table, columns = _weather(), {"origin": "who", "arrived": "landed"}

    def learnt(stream: sw.DisorderedStream) -> Any:
        bounds = sw.Bounds.estimated(_LOSS) & sw.Bounds.patience(100) & sw.Bounds.lull(10**6)
        return stream.where(nw.col("n") != 7).deduplicate(on="n", within=0, bounds=bounds, every=sw.Every.time(1))

    in_process = learnt(sw.stream(table, time="at", **columns)).run()  # type: ignore[arg-type]
    late = sorted(in_process.late["n"].to_pylist())
    assert len(late) > 10
    _bring(tmp_path / "in", table, 300)
    query = _run(learnt(_stream(session, tmp_path, kind, **columns)), tmp_path, shards=3)
    assert _numbers(tmp_path / "late") == late
    assert query.counters()["all shards"].late_by_estimate == in_process.counters["heartbeats#1"].late_by_estimate
    (reason,) = query.why()
    assert (reason.ground, reason.estimate) == (
        sw.Grounds.ESTIMATED,
        sw.ObservedLoss(1_200, len(late), _LOSS, taken_back=False, times_taken_back=1),
    )
    before = _numbers(tmp_path / "out")
    replay_last(tmp_path)
    again = _run(learnt(_stream(session, tmp_path, kind, **columns)), tmp_path, shards=3)
    assert again.why() == query.why()
    assert (_numbers(tmp_path / "late"), _numbers(tmp_path / "out")) == (late, before)


def test_total_silence_is_seen_by_timers_where_it_is_asked_for(session: SparkSession, tmp_path: Path) -> None:
    """Two rows wait for each other's sources; after a second in which nothing comes they are assumed to be complete."""
    _bring(tmp_path / "in", _rows().slice(0, 2), 2)
    taken: list[int] = []
    bounds = (sw.Bounds.in_order() & sw.Bounds.lull("1s")).only("a", "b", "c")
    query = (
        _stream(session, tmp_path, "frames", origin="who")
        .sort(bounds=bounds)
        .start(
            checkpoint=str(tmp_path / "checkpoint"),
            main=lambda rows, _: taken.extend(row["n"] for row in rows.collect()),
            late=str(tmp_path / "late"),
            trigger={"processingTime": "200 milliseconds"},
            timeout="1s",
            shards=1,
        )
    )
    for _ in range(3_000):
        if any(reason.ground is sw.Grounds.ASSUMED for reason in query.why()):
            break
        assert not query.wait(0.1), "the query has ended"
    (reason,) = query.why()
    query.stop()
    assert (sorted(taken), reason.held, reason.moves_next_at) == ([0, 1], {}, None)
