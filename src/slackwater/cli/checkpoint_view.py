"""What the checkpoint of a query on Spark says of it, for people and as JSON; Spark is not started for it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from slackwater.cli.session import spark_in_one_message
from slackwater.cli.standing import Standing
from slackwater.errors import PlanError, message
from slackwater.progress.clock import SystemClock
from slackwater.progress.instants import BEGINNING
from slackwater.streams.on_spark import loaded_from_spark

if TYPE_CHECKING:
    from slackwater.operators.why import Why
    from slackwater.progress.instants import Instant
    from slackwater.runners.spark.checkpoint.status import Status

_SILENT: Final = 60_000_000
"""Microseconds without a sign of life after which a query seems to have stopped.

There is one every ten seconds, but not within a micro-batch.
"""

_SLOW: Final = 5
"""A micro-batch may take so many times as long as the last one before the query seems to have stopped."""

_LEFT: Final = (
    "a query leaves one when it is started; over Spark Connect, and by releases before this one, none is left"
)

_CLOCK: Final = SystemClock()


class NoStatusYet(PlanError):
    """There is a query, and it has left no status that can be read."""


class CheckpointView:
    """The checkpoint of a query, to be looked at again and again."""

    def __init__(self, checkpoint: str) -> None:
        loaded_from_spark("SparkQuery")  # refused in one message where there is no PySpark
        from slackwater.runners.spark.storage.files import reached

        with spark_in_one_message():
            self._place, self._files = reached(checkpoint)

    def status(self) -> Status:
        """How the query stood last; refused where nobody knows, with the reason."""
        from slackwater.runners.spark.checkpoint.status import status_of

        status = status_of(self._files, self._place)
        if status is None:
            facts = {"checkpoint": self._place.address}
            raise NoStatusYet(message("the query of this checkpoint has left no status", facts, _LEFT))
        return status


def standing_of(status: Status) -> Standing | None:
    """The query as its last micro-batch left it; nothing before the first."""
    batch = status.micro_batch
    if batch is None:
        return None
    return Standing(batch.progress, batch.why, batch.rows_in / batch.seconds if batch.seconds else None)


def state_in_words(status: Status, now: Instant | None = None) -> str:
    """Whether it runs, as far as that can be known."""
    now = _CLOCK.now() if now is None else now
    ago = f"{_ago(now - status.seen)} ago"
    if status.state == "failed":
        return f"failed {ago}: {status.failure.splitlines()[0]}"
    if status.state == "stopped":
        return f"stopped {ago}, or came to its end"
    if status.driver_is_gone:
        return (
            f"gone: its driver, process {status.process}, does not run any more; it was killed, or crashed, after {ago}"
        )
    if now - status.seen > max(_SILENT, _SLOW * _length_of_batch(status)):
        return f"no sign of life for {_ago(now - status.seen)}: its driver is gone, or a micro-batch takes very long"
    return f"running on {status.host}, last seen {ago}"


def seems_over(status: Status) -> bool:
    """Whether nothing more is to be expected of this start."""
    return status.state != "running" or status.driver_is_gone


def header(status: Status, now: Instant | None = None) -> list[str]:
    """Which query it is, and how it is with it."""
    now = _CLOCK.now() if now is None else now
    lines = [f"query {status.name or status.query}, start {status.epoch}: {state_in_words(status, now)}"]
    batch = status.micro_batch
    if batch is None:
        return [*lines, "no micro-batch yet in which a shard worked"]
    late = f", {batch.late:,} late" if batch.late else ""
    counts = f"{batch.rows_in:,} rows in, {batch.rows_out:,} out{late}, in {batch.seconds:.1f} s"
    return [*lines, f"micro-batch {batch.batch_id}, {_ago(now - status.at)} ago: {counts}"]


def as_record(status: Status) -> dict[str, Any]:
    """Everything that is known, for other programs; instants are microseconds since 1970, or sequence numbers."""
    batch = status.micro_batch
    record: dict[str, Any] = {
        **{name: getattr(status, name) for name in ("query", "name", "run", "epoch", "host", "process", "state")},
        "failure": status.failure,
        "at": status.at,
        "seen": status.seen,
        "over": seems_over(status),
        "micro_batch": None,
    }
    if batch is not None:
        progress, numbers = batch.progress, {name: one for name, one in batch.figures.items() if name != "why"}
        record |= {
            "micro_batch": batch.batch_id,
            "seconds": batch.seconds,
            "calendar": batch.calendar,
            "complete_before": None if progress.complete_before == BEGINNING else progress.complete_before,
            "late_share": progress.total_late / progress.total_in if progress.total_in else 0.0,
            "figures": numbers,
            "why": [_reason(why) for why in batch.why],
        }
    return record


def _reason(why: Why) -> dict[str, Any]:
    found = asdict(why) | {"ground": why.ground.name, "text": str(why)}
    return found | {"origins": [one | {"ground": one["ground"].name} for one in found["origins"]]}


def _length_of_batch(status: Status) -> int:
    return 0 if status.micro_batch is None else int(status.micro_batch.seconds * 1e6)


def _ago(length: int) -> str:
    """A length of time in one unit, as people say it.

    >>> _ago(1_400_000), _ago(95_000_000), _ago(2 * 86_400_000_000)
    ('1 s', '1 min', '2 d')
    """
    seconds = max(length, 0) // 1_000_000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
