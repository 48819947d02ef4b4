"""Changes on real Spark: written as a log by one query, stopped in the middle, and read back by others, and in process.

The log is that of values by key (upserts), over two shards, in files of several micro-batches.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions

import slackwater as sw
from slackwater.events.elements import Insert
from slackwater.progress.instants import FOREVER
from slackwater.testing.oracles.upserts import upserts_oracle

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

# Spark leaves sockets to its workers open; that is not for these tests to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_SCHEMA = pa.schema({"at": pa.int64(), "room": pa.string(), "guest": pa.int64(), "left": pa.bool_()})
_COLUMNS = "at long, room string, guest long, left boolean"
_LOG = "at long, until long, room string, guest long, change string, until_before long, sequence long"
_PATIENCE = 60


def _updates(rows: int) -> pa.Table:
    """Updates of few rooms, at times that go back by less than the patience, and tie."""
    rng = np.random.default_rng(56)
    at = np.maximum(np.arange(rows) // 2 - rng.integers(0, 40, rows), 0)
    rooms = np.array([f"room {n}" for n in range(20)])[rng.integers(0, 20, rows)]
    return pa.table([at, pa.array(rooms), rng.integers(0, 9, rows), rng.random(rows) < 0.2], schema=_SCHEMA)


def _write(folder: Path, tables: list[pa.Table]) -> None:
    """Write a file for each table, behind those that are there; Spark goes by the times of the files."""
    folder.mkdir(exist_ok=True)
    for number, table in enumerate(tables, start=len(list(folder.iterdir()))):
        file = folder / f"{number}.parquet"
        pq.write_table(table, file)
        os.utime(file, (1_000 + number, 1_000 + number))


def _values(rows: Iterable[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    ends = ((row, FOREVER if row["until"] is None else row["until"]) for row in rows)
    return Counter((row["at"], end, row["room"], row["guest"]) for row, end in ends)


def _dicts(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


def test_a_log_is_written_over_a_restart_and_read_back_on_both_runners(session: SparkSession, tmp_path: Path) -> None:
    """By sequence in process; in any order on Spark, over a frame that ends, and file by file."""
    updates = _updates(400)
    last = pa.Table.from_pylist([{"at": 10_000, "room": "the last", "guest": 0}], _SCHEMA)  # it lets all others go
    for part in (updates.slice(0, 200), pa.concat_tables([updates.slice(200), last])):
        _write(tmp_path / "in", [part.slice(0, 100), part.slice(100)])
        files = sw.parquet_files(session, str(tmp_path / "in"), schema=_COLUMNS, maxFilesPerTrigger=1)
        values = sw.upserts(files, time="at", key="room", deleted="left", patience=_PATIENCE)
        query = values.start(
            checkpoint=str(tmp_path / "checkpoint"),
            main=str(tmp_path / "log"),
            late=str(tmp_path / "late"),
            trigger={"availableNow": True},
            shards=2,
        )
        assert query.wait()
    wanted = upserts_oracle((Insert(tuple(row.values())[1:], row["at"]) for row in updates.to_pylist()), [0], 2)
    table = Counter((event.start, event.end, *event.payload) for event in wanted)  # type: ignore[misc]

    log = session.read.schema(_LOG).parquet(str(tmp_path / "log")).drop("batch_id")  # which the folder has added
    assert {row.change for row in log.select("change").distinct().collect()} == {"insert", "adjust"}
    in_order = log.orderBy("sequence").toArrow()
    options: dict[str, Any] = {"time": "at", "until": "until", "sequence": "sequence", "punctuated": False}
    assert _values(sw.changes(in_order, **options).settle().run().table.to_pylist()) == table
    times = {name: functions.timestamp_micros(log[name]) for name in ("at", "until", "until_before")}
    calendar = sw.changes(log.withColumns(times).orderBy("guest"), **options, keyed=True).settle().to_spark(shards=2)
    numbers = {name: functions.unix_micros(calendar[name]) for name in ("at", "until")}
    assert _values(_dicts(calendar.withColumns(numbers))) == table
    _assert_read_as_stream(session, tmp_path, in_order, options, table)


def _assert_read_as_stream(
    session: SparkSession, folder: Path, log: pa.Table, options: dict[str, Any], table: Counter[tuple[Any, ...]]
) -> None:
    """File by file, each with a punctuation in front of rows that it concerns not: all of a file are of one instant."""
    rows = log.to_pylist()
    parts = [rows[:200], rows[200:]]
    concerned = min(row["at"] if row["change"] == "insert" else row["until"] for row in parts[1])
    parts[0].insert(0, {"change": "punctuate", "at": concerned})
    _write(folder / "again", [pa.Table.from_pylist(part, log.schema) for part in parts])
    files = sw.parquet_files(session, str(folder / "again"), schema=_LOG, maxFilesPerTrigger=1)
    taken: list[list[dict[str, Any]]] = []
    settled = sw.changes(files, **{**options, "punctuated": True}).settle()
    query = settled.start(
        checkpoint=str(folder / "settling"),
        main=lambda rows, _: taken.append(_dicts(rows)),
        trigger={"availableNow": True},
        at_end="flush",
        shards=2,
    )
    assert query.wait()
    assert any(taken[:-1]), "what a punctuation completes goes out before the end"
    assert _values(row for rows in taken for row in rows) == table


def test_early_answers_and_a_chosen_agreement_go_to_sinks_as_changes(session: SparkSession, tmp_path: Path) -> None:
    """Of one query with two outputs; and over frames that end, to_spark gives the changes, too."""
    updates = _updates(200)
    _write(tmp_path / "in", [updates.slice(0, 120), updates.slice(120)])
    frames = [
        session.readStream.schema(_COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in")),
        session.read.schema(_COLUMNS).parquet(str(tmp_path / "in")),
    ]

    def planned(frame: Any) -> tuple[sw.RevisedStream, Any]:
        rows = sw.stream(frame, time="at")
        early = rows.tumbling(10).group_by("room").aggregate_early(_PATIENCE, late=sw.Late.drop(), n=sw.count())
        replicas = [sw.stream(frame, time="at").sort(_PATIENCE, late=sw.Late.drop()) for _ in range(2)]
        return early, sw.merge_replicas(*replicas, agreement=sw.Agreement.quorum_of(1.0))

    written: dict[str, list[dict[str, Any]]] = {"early": [], "merged": []}
    sinks = {name: (lambda rows, _, name=name: written[name].extend(_dicts(rows))) for name in written}
    query = sw.start_together(
        list(zip(planned(frames[0]), sinks.values(), strict=True)),
        checkpoint=str(tmp_path / "checkpoint"),
        trigger={"availableNow": True},
        at_end="flush",
        shards=2,
    )
    assert query.wait()
    early, merged = planned(updates)
    for stream, frame_stream, rows in zip((early, merged), planned(frames[1]), written.values(), strict=True):
        wanted = Counter(map(str, stream.settle().run().table.to_pylist()))
        for found in (rows, _dicts(frame_stream.to_spark(shards=2))):
            ordered = sorted(found, key=lambda row: row["sequence"])
            assert Counter(map(str, _applied(stream, ordered))) == wanted


def _applied(stream: sw.RevisedStream, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What changes come to."""
    events = stream.node.schema
    until = None if events.until is None else events.until.name
    schema = pa.schema([*stream.schema, pa.field("sequence", pa.int64())])
    log = sw.changes(
        pa.Table.from_pylist(rows, schema), time=events.time.name, until=until, sequence="sequence", punctuated=False
    )
    return log.settle().run().table.to_pylist()
