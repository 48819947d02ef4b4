"""Spark's profile of a DataFrame agrees with the one of the same rows in process, within what it says of itself."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from drive_profile import what_is_exact
from profiles_agree import assert_agrees

import slackwater as sw
from slackwater.errors import PlanError, RunError, SchemaMismatch
from slackwater.profiling import on_spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_HERE = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def few_partitions(session: SparkSession) -> None:
    """As many as there are cores."""
    session.conf.set("spark.sql.shuffle.partitions", "2")


def _in_order(table: pa.Table, *, ties: str) -> pa.Table:
    """In order of arrival, and rows of one instant in that of their times, as on Spark."""
    return table.sort_by([("came", "ascending"), ("at", "ascending"), (ties, "ascending")])


def _readings() -> pa.Table:
    """Rows of five sources, one of which has a clock that is wrong, and copies; some rows have no time."""
    rng, start = np.random.default_rng(5), datetime(2024, 5, 1, tzinfo=UTC)
    rows: list[dict[str, Any]] = []
    for n in range(900):
        late = timedelta(milliseconds=int(rng.exponential(4_000)))
        who = ["a", "b", "c", "wrong", None][n % 5]
        at = start + timedelta(seconds=n) - late - timedelta(days=900 if who == "wrong" else 0)
        row = {"at": None if n % 97 == 0 else at, "came": start + timedelta(seconds=n // 3 * 3), "who": who}
        rows.append(row | {"what": {"level": n % 4, "tags": ["x", None][: n % 3]}})
    rows += [{**row, "came": row["came"] + timedelta(seconds=40), "who": "a"} for row in rows[100:130]]
    return pa.Table.from_pylist(rows)


@pytest.mark.parametrize("slice_rows", [500_000, 250])
def test_a_frame_is_measured_as_its_rows_are(
    session: SparkSession, slice_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calendar time, sources without a name, columns in columns, a wrong clock; in one slice, and in several."""
    monkeypatch.setattr(on_spark, "ROWS_OF_A_SLICE", slice_rows)
    table = _in_order(_readings(), ties="who")
    exact = sw.profile(table, time="at", arrived="came", origin="who")
    assert [one.name for one in exact.wrong_clocks] == ["wrong"]
    assert exact.copies is not None
    assert exact.copies.shared
    counted: list[int] = []
    frame = session.createDataFrame(table).repartition(3)
    found = sw.profile(frame, time="at", arrived="came", origin="who", on_rows=counted.append)
    assert_agrees(found, exact, slices=1 if slice_rows > 900 else 4)
    assert counted == [found.rows] == [930]
    assert "lengths           in buckets: p50 to p99.9 and patiences are at most 0.8% too long" in str(found)
    assert session.catalog.listTables() == []


def test_a_frame_of_whole_numbers_and_nobody_names(session: SparkSession) -> None:
    """Without sources and without a look for copies; epoch= says that they are calendar time; the ends of int64."""
    table = pa.table({"at": [7, 2**62, 5, -(2**62), 6], "came": pa.array([1, 2, 3, 3, 9], pa.int32())})
    frame = session.createDataFrame(table)
    given: dict[str, Any] = {"time": "at", "arrived": "came", "copies": False, "first": 1}
    exact = sw.profile(_in_order(table, ties="at"), **given)
    found = sw.profile(frame, **given)
    assert_agrees(found, exact, slices=1)
    assert found.copies is None
    table = pa.table({"at": [7_999, 2_000, -5_001], "came": [1_000, 2_000, 3_000]})
    for unit in ("ns", "s"):
        assert_agrees(
            sw.profile(session.createDataFrame(table), epoch=unit, **given),
            sw.profile(table, epoch=unit, **given),
            slices=1,
        )
    with pytest.raises(RunError, match=r"(?s)could not go through the rows.*overflow"):
        sw.profile(frame, epoch="s", **given)


def test_times_without_a_zone_are_taken_as_they_stand(session: SparkSession, tmp_path: Path) -> None:
    """Whatever zone the session has."""
    session.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
    start = datetime(2024, 3, 10, 1, 30)  # noqa: DTZ001 - where that zone skips an hour
    table = pa.table({"at": [start + timedelta(hours=n, microseconds=n) for n in (0, 2, 1)], "came": [start] * 3})
    given: dict[str, Any] = {"time": "at", "arrived": "came", "copies": False}
    pq.write_table(table, tmp_path / "in.parquet")
    found = sw.profile(session.read.parquet(str(tmp_path)), **given)
    assert_agrees(found, sw.profile(_in_order(table, ties="at"), **given), slices=1)


def test_what_spark_cannot_profile_is_refused(session: SparkSession, tmp_path: Path) -> None:
    """No order of arrival, a stream, columns that are missing or no times, rows without a time or an arrival."""
    schema = "at long, came long, word string"
    frame = session.createDataFrame([(1, 2, "x"), (2, None, "y")], schema)
    with pytest.raises(PlanError, match=r'(?s)no order of arrival.*arrived="landed"'):
        sw.profile(frame, time="at")
    for stream in (
        session.readStream.schema(schema).parquet(str(tmp_path)),
        sw.parquet_files(session, str(tmp_path), schema=schema),
        sw.parquet_files(session, str(tmp_path), schema=schema, streaming=False),
    ):
        with pytest.raises(PlanError, match=r"(?s)a profile looks at all rows.*spark\.read"):
            sw.profile(stream, time="at", arrived="came")
    with pytest.raises(SchemaMismatch, match="names a column that is not there"):
        sw.profile(frame, time="when", arrived="came")
    with pytest.raises(SchemaMismatch, match="cannot use the type of a column"):
        sw.profile(frame, time="word", arrived="came")
    with pytest.raises(SchemaMismatch, match=r"(?s)some rows do not say when they arrived.*rows +1"):
        sw.profile(frame, time="at", arrived="came")
    with pytest.raises(PlanError, match="there is no row with a time"):
        sw.profile(session.createDataFrame([(None, 2, "x")], schema), time="at", arrived="came")


@pytest.mark.long  # a server of its own takes longer than all that is asked of it
def test_a_connected_frame_is_measured_too(tmp_path: Path, surroundings: Callable[[Path], dict[str, str]]) -> None:
    """A client has neither Java nor RDDs."""
    table = _in_order(_readings(), ties="who")
    pq.write_table(table, tmp_path / "in.parquet")
    env = {**os.environ, **surroundings(tmp_path)}
    command = [sys.executable, str(_HERE / "drive_profile.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300, check=False)  # noqa: S603 - our own
    assert done.returncode == 0, done.stderr[-4_000:]
    exact = sw.profile(table, time="at", arrived="came", origin="who")
    assert (tmp_path / "found").read_text() == str(what_is_exact(exact))
