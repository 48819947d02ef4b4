"""Progress by origin on Spark: true micro-batches, files and frames, a replay, a restart, silence, and sinks."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_query import replay_last

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

MASTER = "local[3]"

_COLUMNS = "at long, who string, landed long, n long"
_ROWS = pa.schema({"at": pa.int64(), "who": pa.string(), "landed": pa.int64(), "n": pa.int64()})
_ARRIVED: dict[str, Any] = {"origin": "who", "arrived": "landed"}


def _rows() -> pa.Table:
    """Four sources, each in order, one of them cut off for a while; three rows break bounds, and are late for it."""
    sent = [(tick, who, tick) for tick in range(60) for who in "acd"]
    sent += [(tick if tick < 20 or tick >= 40 else 40, "b", tick) for tick in range(60)]
    broken = [(45, "a", 3), (50, "b", 41), (58, "c", 56)]
    landed, who, at = zip(*sorted([*sent, *broken], key=lambda row: row[0]), strict=True)
    return pa.table({"at": at, "who": who, "landed": landed, "n": range(len(at))}, schema=_ROWS)


def _bring(folder: Path, batches: Sequence[pa.RecordBatch], first: int = 0) -> None:
    """Files in order of arrival: Spark goes by their times, which rise."""
    folder.mkdir(exist_ok=True)
    for number, batch in enumerate(batches, start=first):
        hidden = folder / f".{number}"
        pq.write_table(pa.Table.from_batches([batch]), hidden)
        os.utime(hidden, (100_000 + number, 100_000 + number))
        hidden.rename(folder / f"{number}.parquet")


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


def _written(folder: Path) -> list[dict[str, Any]]:
    """The rows of a sink, in one order, without the micro-batch that wrote them."""
    if not folder.exists():
        return []
    return sorted(pq.read_table(folder).drop_columns(["batch_id"]).to_pylist(), key=str)


def _by_source(rows: Sequence[Any]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(row["who"], []).append(row["n"])
    return found


_BOUNDS = sw.Bounds.in_order() & sw.Bounds.delay(0, b=20)


@pytest.mark.parametrize("kind", ["frames", pytest.param("files", marks=pytest.mark.long)])
def test_a_backfill_gives_the_rows_of_one_run_in_process_in_order_within_each_source(
    session: SparkSession, tmp_path: Path, kind: str
) -> None:
    """With a column of arrivals, in three shards: late rows, counts, and when the last micro-batch is done again."""
    table = _rows()

    def sorted_within(stream: sw.DisorderedStream) -> Any:
        chosen = stream.select("n", "who", "landed").where(nw.col("n") != 7)  # Spark does the first of these itself
        return chosen.sort_within_origins(bounds=_BOUNDS)

    alone = sorted_within(sw.stream(table, time="at", **_ARRIVED)).run()
    assert alone.late.num_rows == 3
    _bring(tmp_path / "in", table.to_batches(50))
    taken: list[Any] = []
    stream = sorted_within(_stream(session, tmp_path, kind, **_ARRIVED))
    query = _run(stream, tmp_path, shards=3, main=lambda rows, _: taken.extend(rows.collect()), at_end="flush")
    assert _by_source(taken) == _by_source(alone.table.to_pylist())
    late = _written(tmp_path / "late")
    assert late == sorted(alone.late.to_pylist(), key=str)
    counters = query.counters()["all shards"]
    assert (counters.broken_bounds, counters.late, counters.rows_in, len(taken)) == (3, 3, 242, 239)


@pytest.mark.parametrize("kind", ["files", pytest.param("frames", marks=pytest.mark.long)])
def test_groups_go_by_their_own_source_over_a_restart_and_a_replay(
    session: SparkSession, tmp_path: Path, kind: str
) -> None:
    """By the clock: as in process, when each micro-batch comes as one batch at its timestamp in Spark's log."""
    batches = _rows().to_batches(50)

    def counted(stream: sw.DisorderedStream) -> Any:
        windows = stream.where(nw.col("n") != 7).tumbling(10).sort_within_origins(bounds=bounds)
        return windows.group_by("who").aggregate(n=sw.count())

    bounds = sw.Bounds.in_order() & sw.Bounds.lull("1d")
    _bring(tmp_path / "in", batches[:2])
    _run(counted(_stream(session, tmp_path, kind, origin="who")), tmp_path, shards=3)
    _bring(tmp_path / "in", batches[2:], first=2)
    query = _run(counted(_stream(session, tmp_path, kind, origin="who")), tmp_path, shards=3)
    out, late, why = _written(tmp_path / "out"), _written(tmp_path / "late"), query.why()
    expected, expected_late, expected_why = _in_process(counted, batches, _timestamps(tmp_path))
    assert (out, late) == (expected, expected_late)
    assert len(late) == 1
    assert [(one.origin, one.complete_before, one.held) for one in why[0].origins] == expected_why
    replay_last(tmp_path)
    again = _run(counted(_stream(session, tmp_path, kind, origin="who")), tmp_path, shards=3)
    assert (_written(tmp_path / "out"), _written(tmp_path / "late"), again.why()) == (out, late, why)


def _in_process(
    counted: Any, batches: Sequence[pa.RecordBatch], stamps: Sequence[int]
) -> tuple[list[Any], list[Any], list[Any]]:
    """What comes out, what is late, and how far the slowest sources are, unless anything is flushed."""
    clock, source = sw.ManualClock(stamps[0]), sw.PushSource(_ROWS)
    out: list[Any] = []
    late: list[Any] = []
    query = counted(sw.stream(source, time="at", origin="who")).open(
        lambda rows: out.extend(rows.to_pylist()), on_late=lambda rows: late.extend(rows.to_pylist()), clock=clock
    )
    for batch, now in zip(batches, stamps, strict=True):
        clock.advance(now - clock.now())
        source.push(batch)
        query.step()
    origins = sorted(query.why()[0].origins, key=lambda one: (one.complete_before, one.origin))
    query.stop()
    return sorted(out, key=str), sorted(late, key=str), [(o.origin, o.complete_before, o.held) for o in origins]


def _timestamps(folder: Path) -> list[int]:
    """When micro-batches were made, by Spark's log, in microseconds."""
    logs = [path for path in (folder / "checkpoint/offsets").iterdir() if path.name.isdecimal()]
    logs.sort(key=lambda path: int(path.name))
    return [json.loads(path.read_text().splitlines()[1])["batchTimestampMs"] * 1_000 for path in logs]


def test_bands_of_a_frame_that_ends_are_those_of_one_run_in_process(session: SparkSession) -> None:
    """It is one micro-batch, and then its end."""

    def banded(stream: sw.DisorderedStream) -> Any:
        windows = stream.tumbling(10).sort_within_origins(bounds=_BOUNDS, late=sw.Late.drop())
        return windows.group_by("who").in_bands(2, 30, n=sw.count())

    frame = session.createDataFrame(_rows().to_pandas(), _COLUMNS)
    on_spark = banded(sw.stream(frame, time="at", **_ARRIVED))
    alone = banded(sw.stream(_rows(), time="at", **_ARRIVED))
    for band, of_alone in zip(on_spark, alone, strict=True):
        rows = [(row["who"], row["window_start"], row["n"], row["band"]) for row in band.to_spark(shards=3).collect()]
        answers = of_alone.run().table.to_pylist()
        assert sorted(rows) == sorted((one["who"], one["window_start"], one["n"], one["band"]) for one in answers)
        for who in "abcd":
            starts = [start for source, start, _, _ in rows if source == who]
            assert starts == sorted(starts)


def test_total_silence_is_seen_by_timers_in_all_shards(session: SparkSession, tmp_path: Path) -> None:
    """After a second in which nothing comes all that was sent is assumed to be complete, in every shard."""
    _bring(tmp_path / "in", _rows().slice(0, 8).to_batches())
    taken: list[int] = []
    bounds = sw.Bounds.in_order() & sw.Bounds.lull("1s")
    stream = _stream(session, tmp_path, "frames", origin="who").sort_within_origins(bounds=bounds)
    query = stream.start(
        checkpoint=str(tmp_path / "checkpoint"),
        main=lambda rows, _: taken.extend(row["n"] for row in rows.collect()),
        late=str(tmp_path / "late"),
        trigger={"processingTime": "200 milliseconds"},
        timeout="1s",
        shards=3,
    )
    for _ in range(3_000):
        if len(taken) == 8:
            break
        assert not query.wait(0.1), "the query has ended"
    while not (reasons := query.why()) or reasons[0].origins:
        assert not query.wait(0.1), "the query has ended"
    (reason,) = reasons
    query.stop()
    assert (sorted(taken), reason.origins, reason.moves_next_at) == (list(range(8)), (), None)
    assert reason.ground is sw.Grounds.ASSUMED
