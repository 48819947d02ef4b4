"""deduplicate on real Spark: each event once, over several shards and a stop in the middle; and the counts add up."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater as sw
from slackwater.events.elements import Insert
from slackwater.policies.keep import Keep
from slackwater.testing.oracles.deduplicate import deduplicate_oracle

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

# Spark leaves sockets to its workers open; that is not for these tests to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_SCHEMA = pa.schema({"at": pa.int64(), "frame": pa.string(), "gateway": pa.int64()})
_COLUMNS = "at long, frame string, gateway long"
_WITHIN, _PATIENCE = 40, 60


def _heard(frames: int) -> pa.Table:
    """Frames of which each is heard one to four times, a little later each time, some of them far too late."""
    rng = np.random.default_rng(26)
    times = rng.integers(1, 5, frames)
    number = np.repeat(np.arange(frames), times)
    at = 3 * number + rng.integers(0, 30, len(number))
    arrived = at + rng.integers(0, 20, len(number)) + 400 * (rng.random(len(number)) < 0.01)
    order = np.argsort(arrived, kind="stable")
    # The names of frames come again after a while, so that a name alone says nothing.
    names = [f"frame {one % 40}" for one in number[order]]
    return pa.table([at[order], pa.array(names), rng.integers(0, 9, len(number))], schema=_SCHEMA)


def _write(folder: Path, tables: list[pa.Table]) -> None:
    """Write a file for each table, behind those that are there; Spark goes by the times of the files."""
    folder.mkdir(exist_ok=True)
    for number, table in enumerate(tables, start=len(list(folder.iterdir()))):
        file = folder / f"{number}.parquet"
        pq.write_table(table, file)
        os.utime(file, (1_000 + number, 1_000 + number))


@pytest.mark.parametrize("keep", ["last", pytest.param("first", marks=pytest.mark.long)])
def test_each_event_comes_once_over_shards_and_a_restart(session: SparkSession, tmp_path: Path, keep: str) -> None:
    """What is in time gives what the oracle gives; after every micro-batch no row is missing in the counts."""
    heard = _heard(450)
    cuts = [heard.slice(first, 300) for first in range(0, heard.num_rows, 300)]
    metrics: list[tuple[int, Any]] = []
    for part in (cuts[:2], cuts[2:]):
        _write(tmp_path / "in", part)
        files = sw.parquet_files(session, str(tmp_path / "in"), schema=_COLUMNS, maxFilesPerTrigger=1)
        once = sw.stream(files, time="at").deduplicate("frame", within=_WITHIN, keep=keep, patience=_PATIENCE)
        query = once.start(
            checkpoint=str(tmp_path / "checkpoint"),
            main=str(tmp_path / "main"),
            late=str(tmp_path / "late"),
            metrics=lambda rows, batch_id: metrics.extend((batch_id, row) for row in rows.collect()),
            trigger={"availableNow": True},
            shards=3,
        )
        query.wait()
    late = _rows(tmp_path / "late")
    assert 0 < len(late) < 30
    came = list(zip(*(column.to_pylist() for column in heard.columns), strict=True))
    in_time = sorted(came)
    for row in late:
        in_time.remove(row)
    events = [Insert((frame, gateway), at) for at, frame, gateway in in_time]
    wanted = deduplicate_oracle(events, [0], _WITHIN, Keep.of(keep))
    main = _rows(tmp_path / "main")
    complete = max(row.complete_before for _, row in metrics)
    assert main == sorted(_row(event) for event in wanted if event.start < complete)
    _assert_counts_add_up(metrics, len(cuts))
    left_out = sum(row.duplicates_total for number, row in metrics if number == len(cuts) - 1)
    assert query.counters()["all shards"].duplicates == left_out == sum(row.duplicates for _, row in metrics)


def _assert_counts_add_up(metrics: list[tuple[int, Any]], micro_batches: int) -> None:
    """Rows in = rows out + held + duplicates; late rows are among those that come out, for they are diverted."""
    for number in range(micro_batches):
        of_shards = [row for batch_id, row in metrics if batch_id == number]
        assert len(of_shards) == 3
        for row in of_shards:
            assert row.rows_in_total == row.rows_out_total + row.held + row.duplicates_total, number
    assert sum(row.duplicates_total for row in of_shards) > 100


def _row(event: Insert) -> tuple[Any, ...]:
    assert isinstance(event.payload, tuple)
    return (event.start, *event.payload)


def _rows(folder: Path) -> list[tuple[Any, ...]]:
    found = pq.read_table(folder).select(_SCHEMA.names)
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


def test_without_a_patience_spark_refuses_it_with_a_hint(session: SparkSession) -> None:
    """As in process: nothing says when a time is complete."""
    frame = session.createDataFrame(_heard(3))
    with pytest.raises(sw.errors.NeedsOrder, match="patience="):
        sw.stream(frame, time="at").deduplicate("frame", within=1)
