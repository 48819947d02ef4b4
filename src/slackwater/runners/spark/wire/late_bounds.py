"""How late a row may be: known when the micro-batch before is done, and announced to the tasks that pack rows.

    micro-batch 7   shards: no row before 10:00 is in time from now on ── driver
                                                                             │ a setting of the session
    micro-batch 8   tasks that pack: from 10:00 on none is late  <───────────┘

Shards decide which rows are late, by what they remember; a task that packs remembers nothing. So shards say with their
metrics up to where rows are late, and the driver hands the greatest of it on as a setting, which Spark gives to all
tasks of the jobs that follow: on a cluster, over Spark Connect, and to an attempt that is made later. It is news for
the very next micro-batch and wrong after that, so it has its number. Nothing is stored: the first micro-batch after a
start has no bound, unless it is the very first, in which no row is late.

Rule 1: it decides nothing. With a bound rows that cannot be late are summed up, and without one they travel as rows;
shards check these, and refuse groups that they cannot be sure of. What comes out is the same.
Rule 2: where it is not known, or cannot be announced, nobody waits for it.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pyspark import TaskContext
    from pyspark.sql import SparkSession

    from slackwater.progress.instants import Instant
    from slackwater.runners.spark.checkpoint.ownership import Run

_BATCH_OF_TASK: Final = "streaming.sql.batchId"
"""Where tasks find the number of their micro-batch; over Spark Connect it is not there."""


def setting_of(run: Run) -> str:
    """The setting of one start of a query: nobody else reads or writes it, though others share the session."""
    return f"spark.slackwater.inTimeFrom.{run.run}"  # what begins with "spark." is handed on to tasks


class LateBounds:
    """What the driver knows of it; it may travel to where micro-batches are written, and learns there from then on.

    >>> bounds = LateBounds("example", shards=2, ways=1, is_new=False)
    >>> bounds.known_in(3)
    >>> bounds.learn(3, [(0, [7]), (1, [7])])
    >>> bounds.known_in(4), bounds.known_in(5)
    ([7], None)
    >>> bounds.learn(4, [(1, [9])])
    >>> bounds.known_in(5)
    [9]
    """

    def __init__(self, setting: str, shards: int, ways: int, *, is_new: bool) -> None:
        self.setting = setting
        """By which tasks find it."""

        self._shards = shards
        self._next = 0
        self._known: list[Instant] | None = [BEGINNING] * ways if is_new else None

    def known_in(self, batch_id: int) -> list[Instant] | None:
        """For each way in, the time from which on no row of a micro-batch is late; None if it is not known."""
        return self._known if batch_id == self._next else None

    def learn(self, batch_id: int, reported: Collection[tuple[int, Sequence[Instant]]]) -> None:
        """Take in what shards, by their numbers, say after a micro-batch: one may do so after its rows and a timer.

        Where not all have done something, the others stand where they stood: that must be known.
        """
        before, self._next = self.known_in(batch_id), batch_id + 1
        known = [*(bounds for _, bounds in reported), *([] if before is None else [before])]
        complete = before is not None or len({shard for shard, _ in reported}) == self._shards
        self._known = [max(bounds) for bounds in zip(*known, strict=True)] if complete else None

    @contextmanager
    def announced(self, session: SparkSession, batch_id: int) -> Iterator[None]:
        """Let the tasks of a micro-batch know it, if it is known and the session lets settings be made."""
        known = self.known_in(batch_id)
        if known is None or not _set(session, self.setting, json.dumps({"batch": batch_id, "in_time_from": known})):
            yield
            return
        try:
            yield
        finally:
            session.conf.unset(self.setting)


def announced_in_time_from(context: TaskContext, setting: str, way: int) -> Instant:
    """The time from which on no row of a way in is late, as it was announced to a task; FOREVER if it was not."""
    text = context.getLocalProperty(setting)
    if text is None:
        return FOREVER
    known: Any = json.loads(text)
    batch = context.getLocalProperty(_BATCH_OF_TASK)
    return FOREVER if batch not in {None, str(known["batch"])} else int(known["in_time_from"][way])


def _set(session: SparkSession, name: str, value: str) -> bool:
    try:
        session.conf.set(name, value)
    except Exception:  # noqa: BLE001 - whatever a session says that lets only some settings be made
        return False
    return True
