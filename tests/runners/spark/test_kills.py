"""Queries that are killed at any moment: each micro-batch has written what the rows that it read give.

50 kills over four plans, each of DataFrames and of `parquet_files`. Afterwards the log of offsets says which files each
micro-batch read, and with which timestamp. What these give in process, or, where timers decide, in a shard that is fed
by hand, is compared with the folder of that micro-batch, row by row.

Each of the eight takes 7 to 12 minutes on a machine of two cores with much else to do, nearly all of it for Spark to
start anew.
"""

from __future__ import annotations

import json
import logging
import os
import runpy
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.runners.spark.shard.arrivals import Arrivals
from slackwater.runners.spark.shard.idle_sources import as_timeout
from slackwater.runners.spark.shard.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

# Spark leaves sockets to its workers open; that is not for these tests to mend.
pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_LOGGER = logging.getLogger(__name__)
_FOLDER = Path(__file__).parent
_DRIVER = _FOLDER / "drive_kills.py"
# Not imported: what workers are sent must not refer to a module that they cannot find.
_KILLS = SimpleNamespace(**runpy.run_path(str(_DRIVER)))
_BY_HAND = SimpleNamespace(**runpy.run_path(str(_FOLDER / "without_spark.py")))
_KILLING = SimpleNamespace(**runpy.run_path(str(_FOLDER / "killing.py")))

_SCHEMA = pa.schema({"at": pa.timestamp("us", "UTC"), "n": pa.int64(), "word": pa.string()})
_PATIENT_SECONDS = 400
_FILES = 8
_KILLS_OF = {"bands": (7, 6), "join": (6, 6), "by column": (6, 6), "timeout": (7, 6)}
"""How often each plan is killed, of frames and of files: 50 times in all."""


# ---- the rows --------------------------------------------------------------------------------------------------------


def _tables(plan: str, source: int) -> list[pa.Table]:
    """Files of a source: disordered, with ties, keys that are missing and rows that are too late."""
    random = np.random.default_rng(70 + source)
    scale = 1_000_000 if plan == "timeout" else 1
    files = 4 if (plan, source) == ("timeout", 1) else _FILES  # which then is silent
    made = []
    for number in range(files):
        rows = 300
        at = 60 * number + np.arange(rows) // 5 - random.integers(0, 150, rows) * (random.random(rows) < 0.1)
        words = np.array([None, "", "ebb", "flood", "neap"], dtype=object)[random.integers(0, 5, rows)]
        if plan == "by column":  # replicas that come and go, and send the same
            words = np.array(["blue", "green", "red"], dtype=object)[(random.integers(0, 2, rows) + number // 3) % 3]
            n = at // 3
        else:
            n = np.arange(rows) + rows * number
        columns = [
            pa.array(np.maximum(at, 0) * scale).cast(_SCHEMA.field("at").type),
            pa.array(n),
            pa.array(words, pa.string()),
        ]
        made.append(pa.table(columns, schema=_SCHEMA))
    return made


def _bring(folder: Path, plan: str) -> Path:
    for source in range(_KILLS.PLANS[plan].sources):
        _KILLS.write(folder / f"in{source}", _tables(plan, source))
    return folder


# ---- killed ----------------------------------------------------------------------------------------------------------


def _killed(folder: Path, plan: str, kind: str, env: dict[str, str], random: Random) -> bool:
    """Let a driver live until a moment that is drawn; say whether it was killed before it had come to its end.

    Either soon after it took over the checkpoint, when it may have done nothing, or after a micro-batch of its own.
    """
    record, commits = folder / "checkpoint/_slackwater/query.json", folder / "checkpoint/commits"
    taken, done = record.read_text() if record.exists() else "", set(commits.glob("[0-9]*"))
    soon, seconds = random.random() < 0.4, random.uniform(0, 4)

    def has_begun() -> bool:
        if soon:
            return record.exists() and record.read_text() != taken
        return set(commits.glob("[0-9]*")) > done

    with (folder / "log").open("wb") as log:
        driver = subprocess.Popen(  # noqa: S603 - our own words
            [sys.executable, str(_DRIVER), str(folder), plan, kind],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, **env},
        )
    try:
        _wait_until(lambda: driver.poll() is not None or has_begun(), folder)
        with suppress(subprocess.TimeoutExpired):
            assert driver.wait(seconds) == 0, (folder / "log").read_text()
            return False
    finally:
        _KILLING.kill_all_of(driver)
    return True


def _wait_until(happened: Callable[[], bool], folder: Path) -> None:
    deadline = time.monotonic() + _PATIENT_SECONDS
    while not happened():
        assert time.monotonic() < deadline, (folder / "log").read_text()
        time.sleep(0.005)


def _finished(session: SparkSession, folder: Path, plan: str, kind: str) -> None:
    """Let the query come to its end: of all files and, where timers count, of what is held for silent sources."""
    if not _KILLS.PLANS[plan].timed:
        while not _KILLS.ended(_KILLS.start(session, str(folder), plan, kind)):
            pass
        return
    files = sum(len(list((folder / f"in{source}").glob("*.parquet"))) for source in range(2))
    _run_until(
        lambda: sum(len(turn) for one in _log(folder) for turn in one.files) == files, session, folder, plan, kind
    )
    commits = folder / "checkpoint/commits"
    enough = len(list(commits.glob("[0-9]*"))) + 12
    _bring_another(folder)  # after a restart Spark looks at timers once a source has sent something
    _run_until(lambda: len(list(commits.glob("[0-9]*"))) > enough, session, folder, plan, kind)


def _run_until(happened: Callable[[], bool], session: SparkSession, folder: Path, plan: str, kind: str) -> None:
    """Run, and start again where a busy machine made Spark give up on a worker."""
    query = _KILLS.start(session, str(folder), plan, kind)
    deadline = time.monotonic() + _PATIENT_SECONDS
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)
        if not query.active:
            assert not _KILLS.ended(query)
            query = _KILLS.start(session, str(folder), plan, kind)
    query.stop()


def _bring_another(folder: Path) -> None:
    """One more file of the first source, the last of all."""
    written = sorted((folder / "in0").glob("*.parquet"))
    hidden = folder / "in0/.last"
    shutil.copy(written[-1], hidden)
    os.utime(hidden, (2_000, 2_000))
    hidden.rename(folder / "in0/9999.parquet")


# ---- what was read ---------------------------------------------------------------------------------------------------


class _MicroBatch(SimpleNamespace):
    """One of the log: its number, its timestamp in microseconds, the files of each source, and whether it is done."""

    number: int
    now: int
    files: list[list[Path]]
    done: bool


def _log(folder: Path) -> list[_MicroBatch]:
    """What the log of offsets says each micro-batch read."""
    checkpoint = folder / "checkpoint"
    sources = sorted((checkpoint / "sources").glob("[0-9]*"), key=lambda path: int(path.name))
    listed = [_listed(source) for source in sources]
    found, before = [], [-1] * len(listed)
    for path in sorted(checkpoint.glob("offsets/[0-9]*"), key=lambda path: int(path.name)):
        _, about, *offsets = path.read_text().splitlines()
        ends = [before[number] if one == "-" else json.loads(one)["logOffset"] for number, one in enumerate(offsets)]
        files = [
            [file for offset in range(start + 1, end + 1) for file in of_source.get(offset, [])]
            for of_source, start, end in zip(listed, before, ends, strict=True)
        ]
        done = (checkpoint / "commits" / path.name).exists()
        now = json.loads(about)["batchTimestampMs"] * 1_000
        found.append(_MicroBatch(number=int(path.name), now=now, files=files, done=done))
        before = ends
    return found


def _listed(source: Path) -> dict[int, list[Path]]:
    """The files of a source, by the offset at which it came to them."""
    entries = {}
    for path in source.glob("[0-9]*"):
        for line in path.read_text().splitlines()[1:]:
            entry = json.loads(line)
            entries[entry["path"]] = entry["batchId"]
    found: dict[int, list[Path]] = {}
    for address, offset in sorted(entries.items()):
        found.setdefault(offset, []).append(Path(unquote(address.removeprefix("file://"))))
    return found


def _turns(log: Sequence[_MicroBatch]) -> list[list[pa.Table]]:
    """The rows of each micro-batch, by source."""
    return [
        [pa.concat_tables([_SCHEMA.empty_table(), *map(pq.read_table, files)]).cast(_SCHEMA) for files in one.files]
        for one in log
    ]


# ---- what that gives -------------------------------------------------------------------------------------------------


def _expected(plan: str, log: Sequence[_MicroBatch]) -> Iterator[dict[str, list[Any]]]:
    """What each micro-batch of the log gives, by folder."""
    killed, turns = _KILLS.PLANS[plan], _turns(log)
    by_source = [list(tables) for tables in zip(*turns, strict=True)]
    if killed.timed:
        rounds = _with_timers(killed, turns, [one.now for one in log])
    else:
        rounds = _BY_HAND.in_process(killed.planned, by_source)
    for outputs, _ in zip(rounds, log, strict=False):
        late = [rows for output, rows in outputs.items() if not output.startswith("main")]
        main = [row for output, rows in outputs.items() if output.startswith("main") for row in rows]
        yield {"main": main, **dict(zip(killed.late_outputs, late, strict=True))}


def _with_timers(killed: Any, turns: Sequence[Sequence[pa.Table]], instants: Sequence[int]) -> Iterator[Any]:
    """One shard, fed by hand, that is woken as Spark wakes it: without rows, by timers that are due."""
    plan = _BY_HAND.shard_plan(killed.planned, [_SCHEMA] * killed.sources, 1)
    shard, random, due = Shard(plan, timeout=as_timeout(_KILLS.TIMEOUT)), Random(1), None
    for turn, now in zip(turns, instants, strict=True):
        given: dict[str, list[Any]] = {output: [] for output in plan.outputs}
        packed = _BY_HAND.packed_by_tasks(plan, turn, random) if any(table.num_rows for table in turn) else []
        released: Any = ()
        if packed:
            arrivals = Arrivals()
            for row in packed:
                arrivals.add(row)
            released = shard.on_micro_batch(arrivals, now)
        elif due is not None and due <= now:
            released = shard.on_timer(due)
        for output, rows in released:
            given[output] += rows.to_pylist()
        if packed or (due is not None and due <= now):
            due = None if shard.look_again_at is None else -(-shard.look_again_at // 1_000) * 1_000
        yield given


def _as_text(rows: pa.Table | list[Any], schema: pa.Schema) -> list[str]:
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows, schema)
    return sorted(map(repr, table.cast(schema).to_pylist()))


def _as_stored(column: pa.Field) -> pa.Field:
    """One type for a column that Parquet has in another: times in nanoseconds, durations as numbers."""
    if pa.types.is_duration(column.type):
        return column.with_type(pa.int64())
    return column.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(column.type) else column


def _assert_each_micro_batch_wrote_what_it_read(folder: Path, plan: str) -> int:
    """Compare every folder of every output, row by row; return how many rows there are."""
    log, compared = _log(folder), 0
    for one, outputs in zip(log, _expected(plan, log), strict=True):
        for output, expected in outputs.items():
            place = folder / output / f"batch_id={one.number}"
            if not place.exists() and (not expected or not one.done):
                continue  # nobody was called for nothing, or the last one was stopped
            parts = [pq.read_table(file, partitioning=None) for file in sorted(place.glob("*.parquet"))]
            found = pa.concat_tables(parts)
            schema = pa.schema(map(_as_stored, found.schema))
            wanted = [{name: _plain(value) for name, value in row.items()} for row in expected]
            assert _as_text(found, schema) == _as_text(wanted, schema), place
            compared += len(wanted)
    extra = {int(path.name.partition("=")[2]) for path in folder.glob("*/batch_id=*")} - {one.number for one in log}
    assert not extra
    return compared


def _plain(value: Any) -> Any:
    """A duration as the number that it is stored as."""
    return int(value.total_seconds() * 1_000_000) if hasattr(value, "total_seconds") else value


@pytest.mark.parametrize("kind", ["frames", "files"])
@pytest.mark.parametrize("plan", list(_KILLS_OF))
def test_what_was_killed_at_any_moment_wrote_what_it_read(
    session: SparkSession,
    tmp_path: Path,
    surroundings_of_killed: Callable[[Path], dict[str, str]],
    plan: str,
    kind: str,
) -> None:
    """One that has come to its end before all kills are spent starts anew in another folder."""
    random, left = Random(f"{plan} {kind}"), _KILLS_OF[plan][kind == "files"]
    session.conf.set("spark.sql.streaming.minBatchesToRetain", "100000")
    compared, attempt, within = 0, 0, 0
    while left:
        folder = _bring(tmp_path / str(attempt), plan)
        while left and _killed(folder, plan, kind, surroundings_of_killed(folder), random):
            left -= 1
            within += any(not one.done for one in _log(folder))
        _finished(session, folder, plan, kind)
        compared += _assert_each_micro_batch_wrote_what_it_read(folder, plan)
        attempt += 1
    assert compared > 100
    _LOGGER.info("%s of %s: %d kills within a micro-batch, %d rows compared", plan, kind, within, compared)
    assert within, "no kill came within a micro-batch"
