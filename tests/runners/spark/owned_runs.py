"""Runs of queries for tests of sinks that need no Spark: who starts with a checkpoint, and what its sinks are given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from slackwater.runners.spark.checkpoint.ownership import next_run
from slackwater.runners.spark.planning.plan_lines import Line
from slackwater.runners.spark.storage.places import Place

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql.types import StructType

NOBODY: Any = SimpleNamespace(_jvm=True)
"""A classic session, which local files are none of the business of."""


def started(sink: Any, columns: StructType, checkpoint: Path, outputs: tuple[str, ...] = ("main",)) -> Any:
    """What a start with this checkpoint writes to, as start() comes to it."""
    claim = claimed(sink, columns, checkpoint, outputs)
    claim.table.run.write(NOBODY)
    return claim.take(NOBODY)


def claimed(sink: Any, columns: StructType, checkpoint: Path, outputs: tuple[str, ...] = ("main",)) -> Any:
    """A start that has looked at its sink, and has written nothing yet."""
    run = next_run(NOBODY, Place.written(str(checkpoint)), {"sort#1": Line("sort")})
    return sink.for_rows(outputs, columns).claimed(NOBODY, run)


def begin(checkpoint: Path, batch_id: int) -> None:
    """Let a checkpoint know that a micro-batch has begun."""
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / str(batch_id)).touch()
