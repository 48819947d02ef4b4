"""Lets a query that is started again look at its timers at once, though no source has anything new.

Timers are part of the checkpoint and come back with it. But Spark looks at them only in a micro-batch, and of its own
accord it runs none without rows before it has run one in the same life: what was held in silence would be held until
some source sends something. So the next micro-batch is planned here, as Spark itself plans one without rows: in the log
of offsets, with those up to which the last one read. Spark finds one that was begun and is not done, and runs it.

    offsets   ... 6 7     commits   ... 6 7     all is done: 8 is planned, a copy of 7, and reads nothing
    offsets   ... 6 7     commits   ... 6       7 is done again anyway: nothing to plan

Its timestamp is that of the micro-batch it is a copy of, so that no timer is due in it; those that follow it have the
present. Cost: two listings, one read and one write, at each start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.runners.spark.storage.files import writing_to

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slackwater.runners.spark.checkpoint.ownership import Run
    from slackwater.runners.spark.storage.files import Files


def plan_micro_batch(session: SparkSession, run: Run) -> None:
    """Plan a micro-batch without rows, if all that were begun are done; in a folder that nobody else works in."""
    files, checkpoint = run.files(session, run.logs), run.logs.address
    if not files.plain:
        return  # Spark could not read it
    with writing_to("the checkpoint", run.checkpoint):
        begun, done = _last(files, f"{checkpoint}/offsets"), _last(files, f"{checkpoint}/commits")
        if begun is None or begun != done:
            return
        text = files.read(f"{checkpoint}/offsets/{begun}")
        if text is not None:
            files.create(f"{checkpoint}/offsets/{begun + 1}", text)


def _last(files: Files, folder: str) -> int | None:
    return max((int(name) for name in files.names(folder) if name.isdecimal()), default=None)
