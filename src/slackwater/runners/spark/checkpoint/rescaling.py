"""Takes a checkpoint to another number of shards, in place: Spark itself keeps the number of a query for good.

Spark's own files are made anew in a folder inside, `rescaled/<run>/spark`, and one replaced file says that they count:

    1. the checkpoint is taken over, as by any start: no other driver begins a micro-batch from now on
    2. the states as of the last micro-batch that is committed are read, split, and laid down as parts
    3. a query of one micro-batch unites the parts: its state is that of the new shards, in Spark's own form
    4. its log of offsets gets what the old one has of the sources: the query goes on exactly where it was
    5. `_slackwater/query.json` names the new folder (`Run.log`), and how many micro-batches were before it

Whoever is killed before 5 leaves the checkpoint as it was, whoever is killed after it has done all. What a micro-batch
reads that had begun and was not committed is copied, too: started again, Spark does it anew, in the new shards, whose
rows are the same. For sinks micro-batches go on being numbered as before.

What was there before is removed when the query goes on from the new folder. Cost: what is held is read, written,
shuffled and stored once.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from slackwater.errors import PlanError, message
from slackwater.runners.spark.checkpoint.ownership import numbers_in
from slackwater.runners.spark.failures import raised
from slackwater.runners.spark.settings import PARTITIONS, rescaling_settings, settled, stream_settings
from slackwater.runners.spark.shard.host import SEGMENTS
from slackwater.runners.spark.shard.resharding_tasks import PARTS_SPARK, STORED_SPARK, SplitStates, UniteStates
from slackwater.runners.spark.storage.files import SparkFiles, writing_to

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from slackwater.runners.spark.checkpoint.ownership import Run
    from slackwater.runners.spark.planning.shard_plan import ShardPlan
    from slackwater.runners.spark.storage.files import Files

_FOLDER: Final = "rescaled"
"""The folder of a checkpoint with Spark's own files, once shards have become others: one for each time."""

_OF_SPARK: Final = ("metadata", ".metadata.crc", "offsets", "commits", "sources", "state")
"""What Spark keeps in a checkpoint."""

_KNOWN: Final = {"offsets": "v1", "commits": "v2"}
"""The versions of Spark's logs that are known here; commits of the first do not say which attempt was the one."""

_AS_BEFORE: Final = "go on with as many shards as before, or start anew with another checkpoint and other folders"


@dataclass(frozen=True)
class Rescaling:
    """One checkpoint on its way to the shards of a plan."""

    session: SparkSession
    run: Run
    """A start of the query as it was."""

    plan: ShardPlan
    """What is to go on."""

    def carry_out(self) -> None:
        """Do it; refuse a checkpoint with which it cannot be done, before anything is written."""
        self._refuse_what_cannot_go()
        self.run.write(self.session)
        # Read once, and now: another driver may still commit a micro-batch that it had begun, and begin no other.
        run, committed = self.run, self._committed
        remove_earlier(self.session, run)  # what somebody has left who was killed at it
        if committed is not None:
            self._split(committed)
            self._unite()
        with writing_to("the checkpoint", run.checkpoint):
            self._lay_out_logs(committed)
        before = run.before + (committed or 0)
        lines = {**run.plan, "shards": self.plan.lines["shards"]}
        replace(run, plan=lines, log=f"{_FOLDER}/{run.run}/spark", before=before).write(self.session)

    def _refuse_what_cannot_go(self) -> None:
        with writing_to("the checkpoint", self.run.checkpoint):
            if isinstance(self._files, SparkFiles):
                raise self._refusal("only Spark reaches its files, which has no way to remove one")
            if self._files.names(f"{self.run.checkpoint.address}/flush"):
                session, folder = self.session, f"{self.run.checkpoint.address}/flush"
                if session.read.schema("shard long").parquet(folder).count():
                    raise self._refusal("its query is being flushed, or has been: finish that with as many as before")
            if len(self._files.names(f"{self._old}/state")) > 1:
                raise self._refusal("a DataFrame that is read has a stateful step of its own")
            committed = self._committed
            logs = [("offsets", number) for number in self._pending(committed)]
            logs += [] if committed is None else [("commits", committed)]
            for log, number in logs:
                version = (self._files.read(f"{self._old}/{log}/{number}") or "").partition("\n")[0]
                if version != _KNOWN[log]:
                    raise self._refusal(f"Spark has written its {log} in version {version!r}, and not {_KNOWN[log]}")

    @property
    def _files(self) -> Files:
        return self.run.files(self.session, self.run.checkpoint)

    @property
    def _old(self) -> str:
        return self.run.logs.address

    @property
    def _new(self) -> str:
        return f"{self.run.checkpoint.address}/{_FOLDER}/{self.run.run}"

    @property
    def _committed(self) -> int | None:
        """The last micro-batch that is done; None if none is."""
        return next(reversed(numbers_in(self._files, f"{self._old}/commits")), None)

    def _pending(self, committed: int | None) -> list[int]:
        """The last micro-batch that is done, and the one that had begun, if there are."""
        return [number for number in numbers_in(self._files, f"{self._old}/offsets") if number >= (committed or 0)]

    def _split(self, committed: int) -> None:
        """Lay down the parts of what is stored as of a micro-batch."""
        shards = int(self.run.plan["shards"].says)
        with _in_plain_words(), settled(self.session, stream_settings(shards)):
            stored = self.session.read.format("statestore").option("stateVarName", SEGMENTS)
            segments = stored.option("batchId", committed).load(self._old).selectExpr(*STORED_SPARK)
            segments.mapInArrow(SplitStates(self.plan), PARTS_SPARK).write.parquet(f"{self._new}/parts")

    def _unite(self) -> None:
        """Store what comes to each shard, by a query of one micro-batch."""
        parts = self.session.readStream.schema(PARTS_SPARK).parquet(f"{self._new}/parts")
        united = parts.groupBy("shard").transformWithStateInPandas(
            UniteStates(self.plan), "nothing long", "append", "None"
        )
        writer = united.writeStream.format("noop").option("checkpointLocation", f"{self._new}/spark")
        with settled(self.session, rescaling_settings(self.plan.shards)):
            query = writer.trigger(availableNow=True).start()
        with _in_plain_words():
            query.awaitTermination()

    def _lay_out_logs(self, committed: int | None) -> None:
        """Put the offsets of the query in the place of those of the one that has united the parts."""
        files, old, new = self._files, self._old, f"{self._new}/spark"
        settings = None if committed is None else _settings_in(files.read(f"{new}/offsets/0"))
        for folder in (f"{self._new}/parts", f"{new}/offsets", f"{new}/sources"):
            files.remove(folder)
        for source in files.names(f"{old}/sources"):
            for name in files.names(f"{old}/sources/{source}"):
                text = None if name.startswith(".") else files.read(f"{old}/sources/{source}/{name}")
                if text is not None:
                    files.replace(f"{new}/sources/{source}/{name}", text)
        for number in self._pending(committed):
            text = files.read(f"{old}/offsets/{number}") or ""
            files.replace(
                f"{new}/offsets/{number - (committed or 0)}", _with_settings(text, settings, self.plan.shards)
            )

    def _refusal(self, cause: str) -> PlanError:
        facts = {"checkpoint": self.run.checkpoint.address, "because": cause}
        return PlanError(message("this checkpoint cannot be taken to another number of shards", facts, _AS_BEFORE))


def remove_earlier(session: SparkSession, run: Run) -> None:
    """Remove all that Spark keeps in a checkpoint, but for the folder that counts, where shards have become others."""
    files, checkpoint = run.files(session, run.checkpoint), run.checkpoint.address
    if isinstance(files, SparkFiles):
        return
    with writing_to("the checkpoint", run.checkpoint):
        for name in files.names(f"{checkpoint}/{_FOLDER}"):
            if not run.log.startswith(f"{_FOLDER}/{name}/"):
                files.remove(f"{checkpoint}/{_FOLDER}/{name}")
        for name in _OF_SPARK if run.log else ():
            files.remove(f"{checkpoint}/{name}")


@contextmanager
def _in_plain_words() -> Iterator[None]:
    """Say what Spark says of a failure as a query would."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise raised(error)  # noqa: B904 - it says whether from what Spark says


def _settings_in(offsets: str | None) -> dict[str, str]:
    """The settings by which a micro-batch was run, as Spark notes them beside its offsets."""
    found: dict[str, str] = json.loads((offsets or "").splitlines()[1])["conf"]
    return found


def _with_settings(offsets: str, settings: Mapping[str, str] | None, shards: int) -> str:
    """The same offsets of a micro-batch that is run by other settings: with as many partitions as there are shards."""
    version, noted, *sources = offsets.split("\n")
    facts = json.loads(noted)
    facts["conf"] = {**(facts["conf"] if settings is None else settings), PARTITIONS: str(shards)}
    return "\n".join([version, json.dumps(facts), *sources])
