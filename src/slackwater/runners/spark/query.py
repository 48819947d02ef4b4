"""A running query on Spark, as users hold it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from slackwater import errors
from slackwater.errors import RunError, message
from slackwater.operators.replicas.overlap import Overlap
from slackwater.progress.instants import BEGINNING, FOREVER, format_instant

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery

    from slackwater.progress.instants import Instant
    from slackwater.runners.spark.output.flushing import Flush

OBSERVED: Final = "slackwater"
"""The name under which Spark reports the sums of all shards' metrics."""

_END: Final = (
    r"(?:\s+SQLSTATE: |\n\s+at |\nCaused by: |\n\n(?:The above exception|During handling|Driver stack|JVM stack)"
    r"|\nTraceback \(most recent|\n[\w.]+\.\w*(?:Error|Exception): |\Z)"
)
"""What follows the words of an exception, in the texts of Spark. The words themselves may have several lines."""

_OWN_WORDS: Final = re.compile(rf"slackwater\.errors\.(?P<name>\w+): (?P<words>.*?){_END}", re.DOTALL)
"""What this library said inside of what Spark says."""

_PYTHON_SAYS: Final = re.compile(
    rf"Traceback \(most recent call last\):\n(?:[ ].*\n)*"
    rf"(?:py4j\S+: .*\n: (?:[\w.]+: )?)?(?P<words>(?s:\S.*?)){_END}"
)
"""What an exception of Python said, or the one of Java that it stands for."""

_CAUSE: Final = re.compile(rf"\nCaused by: [\w.$]+: (?P<words>(?s:.*?)){_END}")
"""What an exception of Java said that led to another one; some say nothing."""

_RESTORE: Final = "restore the checkpoint from a copy, or start anew with another one and other folders"
_MAKE_ROOM: Final = "make room; started again, it goes on from its checkpoint"
_MEND: Final = "put the file back as it was; started again, it goes on from its checkpoint"
_LEAVE: Final = "leave it to the other; start this one again only when that has stopped"
_START_AGAIN: Final = "start it again, and it goes on from its checkpoint; workers are often killed for want of memory"
_OVERLOADED: Final = "start it again, and it goes on from its checkpoint; the machine may be too busy"
_SAME_PLAN: Final = "start the plan that the checkpoint was made by, or name another checkpoint"
_SAME_PYTHON: Final = "let workers be the Python of the driver: set PYSPARK_PYTHON before the session is made"
_READ_ON: Final = "the exception this one was raised from has all that Spark says"

_HEADLINES: Final = {
    "No space left on device": ("no space is left where a query on Spark writes", _MAKE_ROOM),
    "CONCURRENT_STREAM_LOG_UPDATE": ("another driver works on this checkpoint", _LEAVE),
    "Failed to read log file": ("the log of what a query on Spark has read is damaged", _RESTORE),
    "StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION": ("the log of what a query on Spark has read is damaged", _RESTORE),
    "[FAILED_READ_FILE": ("a file of a source cannot be read", _MEND),
    "[CANNOT_LOAD_STATE_STORE": ("the stored state of a query on Spark is damaged or incomplete", _RESTORE),
    "Python worker exited unexpectedly": ("a Python worker of a query on Spark was killed, or crashed", _START_AGAIN),
    "Python worker failed to connect back": ("a Python worker of a query on Spark did not start in time", _OVERLOADED),
    "sources in the checkpoint offsets and now": ("this checkpoint was made by a plan of other sources", _SAME_PLAN),
    "No module named 'slackwater'": ("the Python workers of a query on Spark cannot import slackwater", _SAME_PYTHON),
    "[PYTHON_VERSION_MISMATCH]": ("the Python workers of a query on Spark are of another version", _SAME_PYTHON),
    "": ("a query on Spark failed", _READ_ON),
}
"""What happened, and what to do, by what Spark says of it."""


@dataclass(frozen=True)
class Ending:
    """What is to be done when a query has taken all there is."""

    flush: Flush
    run_again: Callable[[], StreamingQuery]


@dataclass
class SparkQuery:
    """A query that runs until it is stopped, fails, or has come to the end of what its trigger asked for."""

    spark: StreamingQuery
    """Spark's own handle on it; of one that is flushed at its end, on the run that flushes it, from then on."""

    calendar: bool = field(default=False, kw_only=True)
    """Whether its times are calendar time."""

    ending: Ending | None = field(default=None, kw_only=True, repr=False)
    """What wait() does when it has come to its end."""

    before: StreamingQuery | None = field(default=None, init=False, repr=False)
    """The run before the one that flushes it."""

    id: str = ""
    """What the folders of its sinks are marked with. It is made with the checkpoint, and stays."""

    def wait(self, seconds: int | None = None) -> bool:
        """Wait until it has ended, or for so long; say whether it has. A failure is raised, in plain words.

        A query that was started with at_end="flush" is flushed here, when it has taken all there is.
        """
        ended = self._has_ended(seconds)
        if ended and self.ending is not None:
            self.ending.flush.ask()
            self.before, self.spark = self.spark, self.ending.run_again()
            ended = self._has_ended(seconds)
            if ended:
                self.ending.flush.finish()
                self.ending = None
        return ended

    def _has_ended(self, seconds: int | None) -> bool:
        from pyspark.errors import StreamingQueryException

        try:
            ended = self.spark.awaitTermination() if seconds is None else self.spark.awaitTermination(seconds)
        except StreamingQueryException as error:
            raise failure_of(error) from error
        return ended is None or bool(ended)

    def work(self) -> None:
        """Wait until all that the sources have now is done."""
        from pyspark.errors import StreamingQueryException

        try:
            self.spark.processAllAvailable()
        except StreamingQueryException as error:
            raise failure_of(error) from error

    def stop(self) -> None:
        """Stop, between two micro-batches; started again with the same checkpoint, it goes on. Nothing is flushed."""
        self.ending = None
        self.spark.stop()

    @property
    def active(self) -> bool:
        """Whether it runs."""
        return bool(self.spark.isActive)

    def progress(self) -> dict[str, Any]:
        """The last micro-batch in which a shard worked: its number, its duration, and the metrics of all shards.

        `rows_in`, `rows_out` and `late` are those of the micro-batch, `..._total` those since the query began, restarts
        included. `held` are the rows and groups that wait: more rows, a flush or a timeout lets them out.
        `replicas` are those that columns tell apart, `replicas_waiting` those of them whose promises do not count yet,
        and `replicas_taken_over` those that lead because the others had fallen silent. `complete_before` is how far all
        outputs have come, in words for calendar time; None if they have not begun. `shared` and `only_some` count what
        was compared of the replicas' rows in the micro-batch; where, in all micro-batches that Spark remembers,
        they hardly share any, so that they are probably no replicas, `warning` says so.
        `open_events` are those without an end that hold up a merge of revised replicas, the first `open_events_from`.
        """
        reports = [(one, numbers) for one in self._reports() if (numbers := _observed(one)).get("shards")]
        if not reports:
            return {}
        report, numbers = reports[-1]
        compared = sum((Overlap(one["shared"], one["only_some"]) for _, one in reports), Overlap())
        first = numbers["open_events_from"] if numbers["open_events"] else BEGINNING
        numbers["open_events_from"] = self._shown(first)
        numbers["complete_before"] = self._shown(numbers["complete_before"])
        numbers |= _warning_of(compared)
        return {"batch_id": report["batchId"], "seconds": report["batchDuration"] / 1_000, **numbers}

    def _reports(self) -> list[Any]:
        """What Spark says of its last micro-batches, a hundred unless the session has it otherwise."""
        runs = (self.spark,) if self.before is None else (self.before, self.spark)
        return [one for run in runs for one in run.recentProgress]

    def _shown(self, instant: Instant) -> str | int | None:
        if instant == BEGINNING:
            return None
        return format_instant(instant, calendar=self.calendar) if self.calendar or instant == FOREVER else instant


def _observed(report: Any) -> dict[str, Any]:
    """The metrics of all shards in a micro-batch; nothing where none has worked."""
    observed = report["observedMetrics"].get(OBSERVED)
    return {} if observed is None else _named(observed.asDict())


def _warning_of(overlap: Overlap) -> dict[str, str]:
    """What is to be said of replicas that hardly share any rows."""
    return {"warning": overlap.warning("merge_replicas")} if overlap.is_small else {}


def _named(observed: dict[str, Any]) -> dict[str, Any]:
    """Observed metrics by name. Spark Connect tells values and names apart.

    >>> _named({"values": [2, 7], "schema": {"fields": [{"name": "shards"}, {"name": "late"}]}})
    {'shards': 2, 'late': 7}
    """
    if observed.keys() != {"values", "schema"}:
        return observed
    names = [field["name"] for field in observed["schema"]["fields"]]
    return dict(zip(names, observed["values"], strict=True))


def failure_of(error: Exception) -> RunError:
    """Say why a query failed: in this library's own words, if it was the one that gave up."""
    text = str(error).partition("\n=== Streaming Query ===")[0]
    own = _OWN_WORDS.search(text)
    if own is not None:
        kind = getattr(errors, own["name"], RunError)
        return (kind if issubclass(kind, RunError) else RunError)(own["words"].strip())
    said = [found["words"].strip() for found in _PYTHON_SAYS.finditer(text)]
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    facts = {"Spark says": said[-1] if said else first}
    cause = _CAUSE.search(text)
    if cause is not None and cause["words"].strip() not in facts["Spark says"]:
        facts["cause"] = cause["words"].strip()
    headline, hint = next(words for sign, words in _HEADLINES.items() if sign in text)
    return RunError(message(headline, facts, hint))
