"""What a query leaves in its checkpoint of how it stands, for whoever has nothing else: `_slackwater/status.json`.

    query, run, epoch     whose it is, as in query.json: a start that was taken over writes nothing any more
    name, host, process   what Spark calls it, and where its driver is
    state                 running, stopped (or come to its end), or failed, with the failure in words
    at, seen              when its last micro-batch was reported, and when there was the last sign of life
    micro_batch           the figures of that one: how far it is, what it holds, and why it is no further

It is written by the driver, when Spark reports a micro-batch, says that there was nothing to do, or that the query has
ended; on a thread of Spark's, so that no micro-batch waits for it. Nothing reads it but who wants to look: a status
that is missing, torn or old is no harm, and one that cannot be written stops nobody. Over Spark Connect, where often
only Spark reaches the checkpoint, there is none, nor is there of queries of to_spark().

Cost: one small file for each micro-batch, and one every ten seconds while there is nothing to do.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pyspark import SparkContext
from pyspark.sql.streaming.listener import StreamingQueryListener

from slackwater.errors import PlanError, RunError, message
from slackwater.progress.clock import SystemClock
from slackwater.runners.spark.checkpoint.ownership import HIDDEN, as_record, read_record, stored_record
from slackwater.runners.spark.failures import failure_of
from slackwater.runners.spark.micro_batch import MicroBatch, micro_batch_in
from slackwater.runners.spark.storage.files import writing_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from slackwater.progress.instants import Instant
    from slackwater.runners.spark.checkpoint.ownership import Run
    from slackwater.runners.spark.storage.files import Files
    from slackwater.runners.spark.storage.places import Place

RUNNING: Final = "running"
STOPPED: Final = "stopped"
FAILED: Final = "failed"

_CLOCK: Final = SystemClock()


@dataclass(frozen=True)
class Status:
    """How a query stood when it was written."""

    query: str
    run: str
    epoch: int
    name: str | None
    host: str
    process: int
    state: str
    at: Instant
    """When its last micro-batch was reported; of one without any, when it was started."""

    seen: Instant
    """The last sign of life."""

    failure: str = ""
    micro_batch: MicroBatch | None = None
    """The last one in which a shard worked, of this start or of one before; None if there was none."""

    @property
    def driver_is_gone(self) -> bool:
        """Whether its driver is known not to run any more: it was on this machine, and is not there."""
        return self.state == RUNNING and self.host == socket.gethostname() and not _runs(self.process)

    def as_text(self) -> str:
        """The text of its file."""
        return as_record(**asdict(self))

    @classmethod
    def of_text(cls, text: str, place: Place) -> Status | None:
        """Read it; None if it is torn, as it may be where files cannot be replaced at once."""
        try:
            record = read_record(text, place)
            batch = record.pop("micro_batch")
            del record["format"]
            return cls(**record, micro_batch=None if batch is None else MicroBatch(**batch))
        except (RunError, TypeError, KeyError, AttributeError):
            return None


def status_of(files: Files, place: Place) -> Status | None:
    """How the query of a checkpoint stood last; None if it has left nothing. What is no such checkpoint is refused."""
    with writing_to("the checkpoint", place, done="read"):
        try:
            record = stored_record(files, place)
        except UnicodeDecodeError as error:
            facts, hint = {"folder": place.address, "cause": error}, f"restore its {HIDDEN} from a copy"
            raise RunError(message("the owner file of a folder is damaged", facts, hint)) from error
        if record is None:
            raise _no_checkpoint(files, place)
        try:
            text = files.read(_status_at(place))
        except UnicodeDecodeError:
            text = None
    return None if text is None else Status.of_text(text, place)


def _no_checkpoint(files: Files, place: Place) -> PlanError:
    """Say what a folder is that is no checkpoint of ours."""
    names = set(files.names(place.address))
    facts = {"folder": place.address}
    if not names:
        there = files.exists(place.address)
        return PlanError(
            message("no query has this checkpoint", facts | {"it is": "empty" if there else "not there"}, _NAME_IT)
        )
    if HIDDEN in names and files.exists(f"{place.address}/{HIDDEN}/owner.json"):
        return PlanError(message("this is the folder of a sink, and not a checkpoint", facts, _NAME_IT))
    if {"offsets", "metadata"} <= names:
        hint = "only queries of start() leave a status; Spark's own UI has those of to_spark()"
        return PlanError(message("this checkpoint is of a query that leaves no status", facts, hint))
    return PlanError(message("this is no checkpoint", facts | {"has": ", ".join(sorted(names)[:3])}, _NAME_IT))


_NAME_IT: Final = "name the folder that start(checkpoint=...) was given, or slackwater run --checkpoint"


def leaving_status(
    session: SparkSession, run: Run, name: str | None, start: Callable[[], StreamingQuery]
) -> StreamingQuery:
    """Start a run of a query, which leaves its status from then on, unless only Spark reaches its checkpoint."""
    if getattr(session, "_jvm", None) is None:
        return start()
    writer = StatusWriter(session, run, name)
    session.streams.addListener(writer.listener)
    try:
        query = start()
    except BaseException:
        session.streams.removeListener(writer.listener)
        raise
    writer.follow(str(query.runId))
    return query


class StatusWriter:
    """Writes the status of one run of a query, as long as nobody has taken its checkpoint over.

    Java calls it. PySpark's own listeners ask Java for a hundred values of each event, one by one, which takes as long
    as a small micro-batch; here the report comes as one text.
    """

    def __init__(self, session: SparkSession, run: Run, name: str | None) -> None:
        self._session = session
        self._run = run
        self._followed: str | None = None
        self._ended: dict[str, str | None] = {}
        self.listener = _Listener(self)
        """What Spark knows it as."""

        now = _CLOCK.now()
        place = socket.gethostname(), os.getpid()
        self._status = Status(run.query, run.run, run.epoch, name, *place, RUNNING, now, now)

    def follow(self, run_id: str) -> None:
        """Know the run of Spark's query, which may have ended already."""
        self._followed = run_id
        self._go_on_from_the_last()
        self._write()
        if run_id in self._ended:
            self._end(self._ended[run_id])

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Do nothing; Spark wants it to be there."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Write how it stands behind a micro-batch."""
        report = json.loads(event.progress().json())
        if report["runId"] != self._followed:
            return
        now, batch = _CLOCK.now(), micro_batch_in(report)
        self._status = replace(self._status, seen=now)
        if batch is not None:
            self._status = replace(self._status, at=now, micro_batch=batch)
        self._write()

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Write that it lives, and has nothing to do."""
        if str(event.runId().toString()) == self._followed:
            self._status = replace(self._status, seen=_CLOCK.now())
            self._write()

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Write that it has ended, or why it failed."""
        run_id, failure = str(event.runId().toString()), event.exception()
        exception = str(failure.get()) if failure.isDefined() else None
        if run_id == self._followed:
            self._end(exception)
        elif self._followed is None:
            self._ended[run_id] = exception

    def _end(self, exception: str | None) -> None:
        failure = "" if exception is None else str(failure_of(RuntimeError(exception)))
        state = STOPPED if exception is None else FAILED
        self._status = replace(self._status, state=state, failure=failure, seen=_CLOCK.now())
        self._write()
        with suppress(Exception):
            self._session.streams.removeListener(self.listener)

    def _go_on_from_the_last(self) -> None:
        """Keep what the start before has left, which is so until there is a micro-batch."""
        with suppress(Exception):
            checkpoint = self._run.checkpoint
            text = self._run.files(self._session, checkpoint).read(_status_at(checkpoint))
            former = None if text is None else Status.of_text(text, checkpoint)
            if former is not None and former.query == self._run.query and self._status.micro_batch is None:
                self._status = replace(self._status, at=former.at, micro_batch=former.micro_batch)

    def _write(self) -> None:
        """Leave it in the checkpoint, unless that belongs to a newer start, or cannot be written."""
        with suppress(Exception):  # whatever the matter is, it must not be one of the query
            checkpoint = self._run.checkpoint
            files = self._run.files(self._session, checkpoint)
            record = stored_record(files, checkpoint)
            if record is not None and record["run"] == self._run.run:
                files.replace(_status_at(checkpoint), self._status.as_text())

    class Java:
        """What py4j asks for."""

        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]


class _Listener(StreamingQueryListener):
    """What PySpark adds and removes: the way for Java to a writer."""

    def __init__(self, writer: StatusWriter) -> None:
        super().__init__()
        self._writer = writer
        self._made: Any = None

    @property
    def _jlistener(self) -> Any:
        """The listener in Java."""
        if self._made is None:
            java: Any = SparkContext._jvm  # noqa: SLF001 - as PySpark makes its own
            self._made = java.PythonStreamingQueryListenerWrapper(self._writer)
        return self._made

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Java calls the writer."""

    onQueryProgress = onQueryTerminated = onQueryStarted  # noqa: N815 - Spark's names


def _runs(process: int) -> bool:
    """Whether there is such a process."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _status_at(checkpoint: Place) -> str:
    return f"{checkpoint.address}/{HIDDEN}/status.json"
