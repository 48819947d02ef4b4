"""A sort on Spark with hardly any memory: what waits lies in the state store, across restarts and replays."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

import slackwater as sw
from slackwater.errors import PlanError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark leaves sockets to its workers open; that is not for these tests to mend.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

_SMALL = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("small_query.py"))))
_PATIENCE = 150
"""More than a file waits."""


def _run(session: SparkSession, folder: Path, memory: int | str) -> dict[str, int]:
    """Take what there is; the figures of the last micro-batch."""
    query = _SMALL.run(session, folder, patience=_PATIENCE, memory=memory)
    found: dict[str, int] = query.last_micro_batch()
    return found


def test_what_is_spilled_survives_restarts_and_replays(session: SparkSession, tmp_path: Path) -> None:
    """Rows come out as they do where memory is ample; the metrics say how many wait elsewhere."""
    _SMALL.bring(tmp_path, range(2))
    figures = _run(session, tmp_path, memory=1)
    assert figures["spilled"] == figures["held"] > 100
    _SMALL.replay_last(tmp_path)
    _SMALL.bring(tmp_path, [2])
    figures = _run(session, tmp_path, memory="1KB")
    assert 0 < figures["spilled"] <= figures["held"]
    _SMALL.bring(tmp_path, [3])
    figures = _run(session, tmp_path, memory="1GB")
    assert figures["held"] > figures["spilled"]
    rows = [row for number in range(4) for row in _SMALL.table(number).to_pylist()]
    complete = 398 - _PATIENCE  # 398 is the newest time; the last rows of the third and the fourth file are too late
    expected = [row["n"] for row in rows if row["n"] not in (299, 399) and row["at"] < complete]
    assert _SMALL.numbers(tmp_path / "out") == sorted(expected)


def test_memory_is_refused_where_it_means_nothing(session: SparkSession, tmp_path: Path) -> None:
    """A frame that ends has no state; and no memory is too little to say."""
    _SMALL.bring(tmp_path, [0])
    with pytest.raises(PlanError, match=r"(?s)memory= says how much.*got +'little'"):
        _SMALL.run(session, tmp_path, memory="little")
    frame = session.read.schema(_SMALL.COLUMNS).parquet(str(tmp_path / "in"))
    ends = sw.stream(frame, time="at").sort(patience=5, late=sw.Late.drop())
    with pytest.raises(PlanError, match=r"(?s)memory= means nothing for a batch DataFrame"):
        ends.to_spark(memory="1MB", shards=1)
