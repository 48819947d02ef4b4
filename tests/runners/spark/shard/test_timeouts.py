"""Timeouts on real Spark: what silent sources hold back comes out without new rows, also after a restart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from slackwater.runners.spark.query import SparkQuery

# Spark leaves sockets to its workers open; that is not for these tests to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_SCHEMA = pa.schema({"at": pa.timestamp("us", "UTC"), "k": pa.string()})
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_PATIENT_SECONDS = 300
"""No machine is so slow."""


def _write(folder: Path, name: str, rows: Sequence[tuple[float, str]]) -> None:
    """Write a file, which appears whole, of rows that are so many seconds past the beginning."""
    folder.mkdir(exist_ok=True)
    table = pa.table({"at": [_BEGIN + timedelta(seconds=at) for at, _ in rows], "k": [k for _, k in rows]})
    pq.write_table(table.cast(_SCHEMA), folder / f".{name}")
    (folder / f".{name}").rename(folder / f"{name}.parquet")


def _stream(session: SparkSession, folder: Path, name: str | None = None) -> sw.DisorderedStream:
    frame = session.readStream.schema("at timestamp, k string").parquet(str(folder))
    return sw.stream(frame, time="at", name=name)


class _Taken(list[tuple[int, Any]]):
    """The rows that a sink was given, with the numbers of their micro-batches."""

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        self.extend((batch_id, row) for row in rows.collect())


def _wait_until(happened: Callable[[], bool], query: SparkQuery) -> None:
    for _ in range(10 * _PATIENT_SECONDS):
        if happened():
            return
        assert not query.wait(0.1), "the query has ended"
    raise AssertionError("it did not happen")


def _last_batch(query: SparkQuery) -> int:
    progress = query.spark.lastProgress
    return -1 if progress is None else int(progress["batchId"])


def test_a_pause_closes_windows_and_what_comes_after_is_late(session: SparkSession, tmp_path: Path) -> None:
    """Far inside of the patience, in two shards; when nothing can be held any more, no shard is woken."""
    main, late, metrics = _Taken(), _Taken(), _Taken()
    sent = [(0.0, "a"), (5.0, "b"), (1.5, "c"), (0.5, "a"), (5.5, "d")]
    _write(tmp_path / "in", "first", sent)
    counts = _stream(session, tmp_path / "in").sort("1h").tumbling("2s").group_by("k").aggregate(n=sw.count())
    query = counts.start(
        checkpoint=str(tmp_path / "checkpoint"),
        main=main,
        late=late,
        metrics=metrics,
        trigger={"processingTime": "200 milliseconds"},
        timeout="1s",
        shards=2,
    )
    try:
        _wait_until(lambda: sum(row.rows_out for _, row in metrics if not row.rows_in) == 4, query)
        assert sorted((row.k, row.n) for _, row in main) == [("a", 2), ("b", 1), ("c", 1), ("d", 1)]
        assert not late
        _wait_until(lambda: _last_batch(query) > max(number for number, _ in metrics) + 2, query)
        _write(tmp_path / "in", "second", [(3.0, "a"), (5.5, "d"), (7200.0, "e")])
        _wait_until(lambda: len(late) == 2 and len(main) == 5, query)
    finally:
        query.stop()
    assert main[-1][1].k == "e"
    assert sorted((row.k, row.late_by > timedelta(0)) for _, row in late) == [("a", True), ("d", True)]


def test_a_timer_outlives_its_query(session: SparkSession, tmp_path: Path) -> None:
    """Stopped with rows that are held, and started again in silence: each of them comes out, once."""
    taken, metrics = _Taken(), _Taken()

    def started(trigger: str) -> SparkQuery:
        ordered = _stream(session, tmp_path / "in").where(nw.col("k") != "").sort("1h", late=sw.Late.raise_error())
        return ordered.start(
            checkpoint=str(tmp_path / "checkpoint"),
            main=taken,
            metrics=metrics,
            trigger={"processingTime": trigger},
            timeout="1s",
        )

    _write(tmp_path / "in", "wanted", [(3.0, "c"), (1.0, "a"), (2.0, "b")])
    query = started("1 hour")  # the first micro-batch at once, and no other
    try:
        # One that is stopped before it has noted that its micro-batch is done does it again.
        _wait_until(lambda: len(metrics) == 1 and _last_batch(query) == 0, query)
    finally:
        query.stop()
    assert not taken
    assert metrics[0][1].held == 3
    query = started("200 milliseconds")
    try:
        _wait_until(lambda: len(taken) == 3, query)
    finally:
        query.stop()
    assert [row.k for _, row in taken] == ["a", "b", "c"]
    assert metrics[1][1].rows_in == metrics[1][1].held == 0


@pytest.mark.parametrize("several", [pytest.param(False, marks=pytest.mark.long), True])
def test_the_clock_closes_the_last_window_in_total_silence_and_after_a_restart(
    session: SparkSession, tmp_path: Path, several: bool
) -> None:
    """Of one stream, and of two that are related; what waits past the newest row goes though nothing comes any more.

    The rows are ten seconds ahead, so that the query is stopped while their windows wait, and started again in silence.
    """
    taken, metrics = _Taken(), _Taken()

    def started(trigger: str) -> SparkQuery:
        bounds = sw.Bounds.delay("1s")
        if several:
            a, b = (_stream(session, tmp_path / name, name) for name in ("in", "other"))
            a, b = sw.related(a, b, bounds=bounds, late=sw.Late.drop())
            rows = a.sort().union(b.sort()).tumbling("1s")
        else:
            rows = _stream(session, tmp_path / "in").tumbling("1s").sort(bounds=bounds, late=sw.Late.drop())
        counts = rows.group_by("k").aggregate(n=sw.count())
        return counts.start(
            checkpoint=str(tmp_path / "checkpoint"),
            main=taken,
            metrics=metrics,
            trigger={"processingTime": trigger},
            timeout="1s",
            shards=2,
        )

    soon = (datetime.now(UTC) + timedelta(seconds=10) - _BEGIN) // timedelta(seconds=1)
    (tmp_path / "other").mkdir()
    _write(tmp_path / "in", "only", [(soon, "a"), (soon, "b"), (soon, "a")])
    query = started("1 hour")
    try:
        _wait_until(lambda: len(metrics) == 2 and _last_batch(query) == 0, query)
    finally:
        query.stop()
    # On a machine that takes longer for this than ten seconds they have come out by now.
    assert taken or sum(row.held for _, row in metrics) > 0
    query = started("1 second")
    try:
        _wait_until(lambda: len(taken) == 2, query)
    finally:
        query.stop()
    assert sorted((row.k, row.n) for _, row in taken) == [("a", 2), ("b", 1)]
