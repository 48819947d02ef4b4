"""Whether tests that kill Spark would notice a row that is lost, doubled or moved, and a counter that is wrong."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from killed_lives import lives_of
from killed_outputs import assert_counters_add_up, assert_nothing_lost_or_doubled, expected
from killed_plans import PLANS, Plan

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_FILES = 4
_PLAN = Plan(PLANS["sort"].planned, ("frames",), main="function", late="folder")
_TABLES = _PLAN.tables("one", _FILES)
_COUNTED = ("rows_in", "rows_out", "late", "duplicates")


def _write(folder: Path) -> dict[str, Any]:
    """What a query would leave behind that nobody has killed; the counters."""
    for place in ("offsets", "sources/0"):
        (folder / "checkpoint" / place).mkdir(parents=True)
    for number in range(_FILES):
        (folder / f"checkpoint/offsets/{number}").write_text(f'v1\n{{"batchTimestampMs":1}}\n{{"logOffset":{number}}}')
        file = json.dumps({"path": f"file:///in0/{number:04}.parquet", "batchId": number})
        (folder / f"checkpoint/sources/0/{number}").write_text(f"v1\n{file}")
    totals = dict.fromkeys(_COUNTED, 0)
    for number, given in enumerate(expected(_PLAN, folder, _TABLES)):
        counts = (_TABLES[0][number].num_rows, len(given["main"]), len(given["late 0"]), 0)
        totals = {name: totals[name] + count for name, count in zip(_COUNTED, counts, strict=True)}
        metrics = dict(zip(_COUNTED, counts, strict=True)) | {f"{name}_total": totals[name] for name in _COUNTED}
        for output, rows in (("main", given["main"]), ("metrics", [{"shard": 0, **metrics}])):
            (folder / output).mkdir(exist_ok=True)
            (folder / output / f"{number}.json").write_text(json.dumps(rows))
        late = folder / f"late 0/batch_id={number}"
        late.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(given["late 0"]), late / "0.parquet")
    return totals


def _checked(folder: Path, counters: dict[str, Any]) -> None:
    assert assert_nothing_lost_or_doubled(_PLAN, folder, _TABLES, "") > 1_000
    assert_counters_add_up(_PLAN, folder, _TABLES, expected(_PLAN, folder, _TABLES), counters)


def _lost(rows: list[list[Any]]) -> None:
    del rows[1][0]


def _doubled(rows: list[list[Any]]) -> None:
    rows[2].append(rows[1][5])


def _changed(rows: list[list[Any]]) -> None:
    rows[1][0]["n"] += 1


def _moved(rows: list[list[Any]]) -> None:
    rows[2].append(rows[1].pop())


@pytest.mark.parametrize("harm", [_lost, _doubled, _changed, _moved])
def test_rows_that_are_lost_doubled_changed_or_moved_are_noticed(
    tmp_path: Path, harm: Callable[[list[list[Any]]], None]
) -> None:
    """Of all rows it is one."""
    counters = _write(tmp_path)
    _checked(tmp_path, counters)
    files = [tmp_path / f"main/{number}.json" for number in range(_FILES)]
    rows = [json.loads(file.read_text()) for file in files]
    harm(rows)
    for file, of_file in zip(files, rows, strict=True):
        file.write_text(json.dumps(of_file))
    with pytest.raises(AssertionError):
        _checked(tmp_path, counters)


@pytest.mark.parametrize("output", ["late 0/batch_id=2/0.parquet", "checkpoint/offsets/3", "metrics/2.json"])
def test_a_micro_batch_without_its_late_rows_its_metrics_or_its_beginning_is_noticed(
    tmp_path: Path, output: str
) -> None:
    """As if they had been left out."""
    counters = _write(tmp_path)
    (tmp_path / output).unlink()
    with pytest.raises(AssertionError):
        _checked(tmp_path, counters)


@pytest.mark.parametrize("name", _COUNTED)
def test_counters_that_are_wrong_are_noticed(tmp_path: Path, name: str) -> None:
    """In the end of all."""
    counters = _write(tmp_path)
    counters[name] += 1
    with pytest.raises(AssertionError):
        _checked(tmp_path, counters)


def test_a_seed_draws_the_same_kills_and_every_kind_of_them() -> None:
    """As many as are asked for; all lives but the last end with the driver's, and executors are those of a cluster."""
    lives = lives_of(Random(19), 20)
    assert lives == lives_of(Random(19), 20)
    assert lives != lives_of(Random(20), 20)
    kinds = [kill.kind for life in lives for kill in life.kills]
    assert len(kinds) == 20
    assert set(kinds) == {"driver", "python", "executor", "worker", "daemon"}
    assert {kill.behind for life in lives for kill in life.kills} == {"start", "offsets", "commits"}
    assert [life.ends for life in lives] == [False] * (len(lives) - 1) + [True]
    assert all(life.master == "cluster" for life in lives if any(kill.kind == "executor" for kill in life.kills))
    assert sum(len(life.kills) for life in lives_of(Random(1), 1)) == 1
