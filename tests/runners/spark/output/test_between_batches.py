"""A query is stopped between two micro-batches: the one that runs is finished, the next is not begun."""

from __future__ import annotations

import pickle
import runpy
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from slackwater.errors import BadDuration
from slackwater.runners.spark.output.between_batches import BetweenBatches

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from slackwater.runners.spark import SparkQuery

_SMALL = SimpleNamespace(**runpy.run_path(str(Path(__file__).parent.parent / "small_query.py")))
_PATIENT_SECONDS = 120


class _Watched:
    """A sink that says when it has begun with a micro-batch, and then waits to be let go on."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.batches: list[int] = []

    def __call__(self, rows: Any, batch_id: int) -> None:
        rows.count()
        self.begun.set()
        assert self.go_on.wait(_PATIENT_SECONDS)
        self.batches.append(batch_id)


def _start(session: SparkSession, folder: Path, main: Callable[[Any, int], object], **trigger: Any) -> SparkQuery:
    query: SparkQuery = _SMALL.ordered(session, folder).start(
        checkpoint=str(folder / "checkpoint"), main=main, late=str(folder / "late"), shards=1, trigger=trigger or None
    )
    return query


def test_the_micro_batch_that_runs_is_finished_and_the_next_is_not_begun(session: SparkSession, tmp_path: Path) -> None:
    """All files wait to be read, so that one micro-batch follows the other at once; each is written once in the end."""
    _SMALL.bring(tmp_path, range(4))
    first = _Watched()
    query = _start(session, tmp_path, first)
    assert first.begun.wait(_PATIENT_SECONDS)
    stopping = threading.Thread(target=query.stop)
    stopping.start()
    stopping.join(0.5)
    assert stopping.is_alive(), "it waits for the micro-batch that runs"
    first.go_on.set()
    stopping.join(_PATIENT_SECONDS)
    assert not query.active
    assert not query.finished
    assert query.spark.exception() is None, "it was stopped, and did not fail"
    assert first.batches == [0]
    assert (tmp_path / "checkpoint/commits/0").exists(), "what was written is committed"
    second = _Watched()
    second.go_on.set()
    assert _start(session, tmp_path, second, availableNow=True).wait(_PATIENT_SECONDS)
    assert second.batches == [1, 2, 3], "nothing is done again"
    assert _SMALL.numbers(tmp_path / "late") == _SMALL.late(4)


def test_a_micro_batch_that_takes_too_long_is_interrupted(session: SparkSession, tmp_path: Path) -> None:
    """With a warning; it is done again when the query is started again, and what it wrote is not written twice."""
    _SMALL.bring(tmp_path, range(2))
    begun = threading.Event()

    def sleep(rows: Any, _batch_id: int) -> None:
        begun.set()
        rows.sparkSession.range(1).selectExpr("reflect('java.lang.Thread', 'sleep', 600000L)").collect()

    query = _start(session, tmp_path, sleep)
    assert begun.wait(_PATIENT_SECONDS)
    with pytest.warns(UserWarning, match="stopped within a micro-batch"):
        query.stop(within="100ms")
    assert not query.active
    assert query.spark.exception() is None
    assert _start(session, tmp_path, lambda rows, _: rows.count(), availableNow=True).wait(_PATIENT_SECONDS)
    assert _SMALL.numbers(tmp_path / "late") == _SMALL.late(2)


def test_a_query_that_waits_for_rows_is_stopped_at_once(session: SparkSession, tmp_path: Path) -> None:
    """And one that has been stopped may be stopped again; a limit that is no duration is refused before."""
    _SMALL.bring(tmp_path, range(1))
    query = _start(session, tmp_path, lambda rows, _: rows.count())
    query.work()
    with pytest.raises(BadDuration):
        query.stop(within=5)  # type: ignore[arg-type]
    assert query.active
    query.stop(within=None)
    assert not query.active
    query.stop()


def test_a_copy_in_another_process_lets_everything_pass() -> None:
    """Over Spark Connect micro-batches are written by a process that nobody can ask."""
    asked = BetweenBatches()
    asked._asked.set()
    copied = pickle.loads(pickle.dumps(asked))  # noqa: S301 - our own
    assert isinstance(copied, BetweenBatches)
    copied.pass_on(None)  # type: ignore[arg-type]
