"""A running query on Spark, as users hold it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.errors import PlanError, RunError, message
from slackwater.operators.replicas.overlap import Overlap
from slackwater.progress.instants import BEGINNING, FOREVER, as_duration, format_instant
from slackwater.runners.spark.checkpoint.control_folder import SparkControl
from slackwater.runners.spark.failures import raised
from slackwater.runners.spark.micro_batch import MicroBatch, micro_batch_of
from slackwater.runners.spark.output.between_batches import BetweenBatches
from slackwater.runners.spark.shard.reasons import steering_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from pyspark.sql.streaming.query import StreamingQuery

    from slackwater.operators.why import Why
    from slackwater.progress.instants import Instant
    from slackwater.runners.control import Control
    from slackwater.runners.in_process.progress import Progress
    from slackwater.runners.result import Counters
    from slackwater.runners.spark.checkpoint.control_folder import ControlFolder
    from slackwater.runners.spark.output.flushing import Flush
    from slackwater.runners.steering import SteeringState


@dataclass(frozen=True)
class Ending:
    """What is to be done when a query has taken all there is."""

    flush: Flush
    run_again: Callable[[], StreamingQuery]


class SparkQuery:
    """A query that runs until it is stopped, fails, or has come to the end of what its trigger asked for.

    It says the same as `Query`, in process, with the same words: `work()` does what can be done now, `wait()` goes on
    until it has ended, `stop()` ends it without a flush and `close()` with one; `active`, `finished`, `progress()`,
    `counters()`, `why()` and `prometheus()` show how it stands, and `control` is what can be asked of it. What `Query`
    has besides is not here:

    - `step`, `wait_for_more`, `run_to_end`, `peak_queued` and `ignore_before`: Spark drives the query, and queues.
    - `snapshot`: the checkpoint has the state, and the query that is started with it goes on.
    - `attach`, `detach`, `waits_to_join` and `why_left`: the sources of a query on Spark are those it was started with,
      and its replicas come and go by `control`.
    - `replicas`: shards count replicas and do not name them; see `last_micro_batch()`.
    - `with`: a query on Spark goes on when the block that started it is left; say stop() or close().

    >>> import slackwater as sw
    >>> spark.createDataFrame([(1,), (3,), (2,)], "at long").coalesce(1).write.parquet(f"{folder}/in")
    >>> rows = sw.stream(spark.readStream.schema("at long").parquet(f"{folder}/in"), time="at")
    >>> query = rows.sort(patience=5).start(
    ...     checkpoint=f"{folder}/checkpoint", main=f"{folder}/rows", late=f"{folder}/late", shards=1
    ... )
    >>> query.work()
    >>> query.active, query.wait(seconds=0.1)
    (True, False)
    >>> print(query.progress())
    now    complete before -2
           held 3: all shards 3
    total  rows in 3, out 0, late 0
    >>> query.counters()["all shards"].rows_in, query.last_micro_batch()["batch_id"]
    (3, 0)
    >>> try:
    ...     query.close()
    ... except sw.errors.RunError as error:
    ...     print(str(error).splitlines()[0])
    this query on Spark was not started to be flushed at its end
    >>> query.stop()
    >>> query.active, query.finished
    (False, False)
    """

    def __init__(
        self,
        spark: StreamingQuery,
        mark: str = "",
        *,
        calendar: bool = False,
        ending: Ending | None = None,
        between: BetweenBatches | None = None,
        control: ControlFolder | None = None,
    ) -> None:
        self.spark = spark
        """Spark's own handle on it; of one that is flushed at its end, on the run that flushes it, from then on."""

        self.id = mark
        """What the folders of its sinks are marked with. It is made with the checkpoint, and stays."""

        self._calendar = calendar
        self._ending = ending
        self._between = between or BetweenBatches()
        self._control = control
        # The run before the one that flushes it, and whether somebody stopped it.
        self._before: StreamingQuery | None = None
        self._stopped = False

    def __repr__(self) -> str:
        return f"<SparkQuery {self.id}>"

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended, or for so many seconds; say whether it has. A failure is raised, in plain words.

        A query that was started with at_end="flush" is flushed here, when it has taken all there is.
        """
        ended = self._has_ended(seconds)
        if ended and self._ending is not None and not self._stopped:
            self._ending.flush.ask()
            self._before, self.spark = self.spark, self._ending.run_again()
            ended = self._has_ended(seconds)
            if ended:
                self._ending.flush.finish()
                self._ending = None
        return ended

    def _has_ended(self, seconds: float | None) -> bool:
        from pyspark.errors import StreamingQueryException

        handle: Any = self.spark  # which takes fractions of a second, whatever its types say, but not none
        try:
            ended = handle.awaitTermination(None if seconds is None else max(seconds, 0.001))
        except StreamingQueryException as error:
            raise raised(error)  # noqa: B904 - it says whether from what Spark says
        return ended is None or bool(ended)

    def work(self) -> None:
        """Wait until all that the sources have now is done."""
        from pyspark.errors import StreamingQueryException

        try:
            self.spark.processAllAvailable()
        except StreamingQueryException as error:
            raise raised(error)  # noqa: B904 - it says whether from what Spark says

    def stop(self, *, within: str | timedelta | None = "1m") -> None:
        """Stop, between two micro-batches; started again with the same checkpoint, it goes on. Nothing is flushed.

        A micro-batch that takes longer than `within` is interrupted, with a warning: started again, the query does it
        anew, and no row is lost or written twice. None waits for it, however long it takes. Over Spark Connect a query
        that goes from one micro-batch to the next at once may not be found between them, and is interrupted, too. What
        Python does in a function that is a sink cannot be interrupted; it is waited for.
        """
        seconds = None if within is None else as_duration(within, calendar=True) / 1e6
        self._stopped = self._stopped or not self.finished
        if not self._between.stop(self.spark, seconds):
            facts, hint = (
                {"within": within},
                "start it again, and it does the micro-batch anew; or wait longer: within=",
            )
            warnings.warn(message("a query was stopped within a micro-batch", facts, hint), stacklevel=2)

    def close(self) -> None:
        """Take all there is, let everything out that is held, as final, and end; nothing to do if that was done.

        Only a query that was started with at_end="flush" can be closed; another is refused, and goes on.
        """
        if self.finished and self._flushed:
            return
        if self._ending is None or self._stopped:
            facts = {"query": self.id, "now": "stopped" if self._stopped else "active" if self.active else "ended"}
            hint = 'stop() it; one to be flushed is started with trigger={"availableNow": True}, at_end="flush"'
            raise RunError(message("this query on Spark was not started to be flushed at its end", facts, hint))
        self.wait()

    @property
    def active(self) -> bool:
        """Whether it runs."""
        return bool(self.spark.isActive)

    @property
    def finished(self) -> bool:
        """Whether it has come to its end by itself: taken all that its trigger asked for, and flushed it if it was to.

        One that was stopped, or has failed, is neither active nor finished.
        """
        return not (self.active or self._stopped or self._ending is not None or self.spark.exception() is not None)

    def progress(self) -> Progress:
        """How far the query has come: what is complete and held now, and how many rows there were in all.

        It is as of the last micro-batch in which a shard worked; `last_micro_batch()` has more of that one.
        """
        return self._now().progress

    def counters(self) -> dict[str, Counters]:
        """What all shards have done together since the query began, restarts included; they do not count by step."""
        return self._now().counters

    def why(self) -> tuple[Why, ...]:
        """Why the streams are complete no further, as of the last micro-batch in which a shard worked.

        All shards decide the same; what they hold, and how many of their rows broke bounds, is added up. On Spark the
        clock is looked at when there are rows: nothing says when more will be complete though no row comes.

        >>> import slackwater as sw
        >>> spark.createDataFrame([(1, "a"), (5, "b"), (9, "a")], "at long, who string").write.parquet(f"{folder}/in")
        >>> frame = spark.readStream.schema("at long, who string").parquet(f"{folder}/in")
        >>> bounds = (sw.Bounds.in_order() & sw.Bounds.uniform(6) & sw.Bounds.lull("1h")).only("a", "b")
        >>> query = (
        ...     sw.stream(frame, time="at", origin="who")
        ...     .sort(bounds=bounds)
        ...     .start(checkpoint=f"{folder}/checkpoint", main=f"{folder}/rows", late=f"{folder}/late", shards=1)
        ... )
        >>> query.work()
        >>> (reason,) = query.why()
        >>> reason.source, reason.complete_before, reason.rule, reason.held
        ('b', 5, 'each source: in order', {'sort#1': 2})
        >>> query.stop()
        """
        return self._now().why

    def prometheus(self, labels: Mapping[str, str] | None = None) -> str:
        """How the query stands, in the text that Prometheus reads: `progress()`, `counters()` and `why()`, as metrics.

        Every sample has the labels that are given, and `query`, its name. Serve it as `text/plain; version=0.0.4`, or
        write it where a collector of text files looks. A `QueryListener` gets it for each micro-batch.

        >>> import slackwater as sw
        >>> spark.createDataFrame([(1,), (3,), (2,)], "at long").coalesce(1).write.parquet(f"{folder}/in")
        >>> rows = sw.stream(spark.readStream.schema("at long").parquet(f"{folder}/in"), time="at")
        >>> query = rows.sort(patience=1, late=sw.Late.drop()).start(
        ...     checkpoint=f"{folder}/checkpoint", main=f"{folder}/rows", shards=1, name="rows"
        ... )
        >>> query.work()
        >>> for line in query.prometheus({"region": "north"}).splitlines():
        ...     if "held_rows" in line:
        ...         print(line)
        # HELP slackwater_held_rows Rows, groups and partial results that wait.
        # TYPE slackwater_held_rows gauge
        slackwater_held_rows{query="rows",region="north"} 2
        >>> query.stop()
        """
        return self._now().prometheus(labels)

    def last_micro_batch(self) -> dict[str, Any]:
        """The last micro-batch in which a shard worked: its number, its duration, and the metrics of all shards.

        `rows_in`, `rows_out` and `late` are those of the micro-batch, `..._total` those since the query began, restarts
        included. `held` are the rows and groups that wait: more rows, a flush or a timeout lets them out. `spilled` are
        those of them that are not in memory, but in the state store alone (`start(memory=...)`).
        `replicas` are those that columns name, `replicas_waiting` those of them whose punctuations do not count yet,
        and `replicas_taken_over` those that lead because the others had fallen silent. `complete_before` is how far all
        outputs have come, in words for calendar time; None if they have not begun. `shared` and `only_some` count what
        was compared of the replicas' rows in the micro-batch; where, in all micro-batches that Spark remembers,
        they hardly share any, so that they are probably no replicas, `warning` says so.
        `open_events` are those without an end that hold up a merge of revised replicas, the first `open_events_from`.
        """
        worked = self._worked()
        if not worked:
            return {}
        last = worked[-1]
        numbers = {name: value for name, value in last.figures.items() if name != "why"}
        compared = sum((Overlap(one.figures["shared"], one.figures["only_some"]) for one in worked), Overlap())
        first = numbers["open_events_from"] if numbers["open_events"] else BEGINNING
        numbers["open_events_from"] = self._shown(first)
        numbers["complete_before"] = self._shown(numbers["complete_before"])
        numbers |= _warning_of(compared)
        return {"batch_id": last.batch_id, "seconds": last.seconds, **numbers}

    @property
    def control(self) -> Control:
        """What can be asked of it while it runs, if it was started with control=True: see `Query.control`.

        Records are files in the checkpoint, which the query reads as one of its sources: each is applied once, at the
        end of a micro-batch, in all shards.

        >>> import slackwater as sw
        >>> spark.createDataFrame([(1,), (3,), (2,)], "at long").coalesce(1).write.parquet(f"{folder}/in")
        >>> rows = sw.stream(spark.readStream.schema("at long").parquet(f"{folder}/in"), time="at")
        >>> query = rows.sort(patience=5).start(
        ...     checkpoint=f"{folder}/checkpoint",
        ...     main=f"{folder}/rows",
        ...     late=f"{folder}/late",
        ...     control=True,
        ...     shards=1,
        ... )
        >>> query.work()
        >>> query.control.patience(1)
        1
        >>> query.work()
        >>> print(*query.control.records())
        1  patience step=punctuate#1 patience=1  applied in micro-batch 1
        >>> spark.read.parquet(f"{folder}/rows").select("at").collect()
        [Row(at=1)]
        >>> query.stop()
        """
        if self._control is None:
            hint = "start it with control=True, and a new checkpoint"
            raise PlanError(message("this query reads no control records", {"query": self.id}, hint))
        return SparkControl(self._control, self._asked)

    def _asked(self) -> list[tuple[int, SteeringState]]:
        """What had been asked by the last micro-batches."""
        return [(one.batch_id, steering_of(one.figures.get("why") or ())) for one in self._worked()]

    @property
    def _flushed(self) -> bool:
        return self._before is not None

    def _now(self) -> MicroBatch:
        """The last micro-batch in which a shard worked; before the first, one that has nothing to show."""
        nothing = MicroBatch(self.id, self.spark.name, -1, 0.0, {}, self._calendar)
        return next(iter(self._worked()[-1:]), nothing)

    def _worked(self) -> list[MicroBatch]:
        """The last micro-batches in which a shard worked, with the metrics of all shards.

        Spark remembers a hundred unless the session has it otherwise.
        """
        runs = (self.spark,) if self._before is None else (self._before, self.spark)
        reports = [micro_batch_of(one) for run in runs for one in run.recentProgress]
        return [one for one in reports if one is not None]

    def _shown(self, instant: Instant) -> str | int | None:
        if instant == BEGINNING:
            return None
        return format_instant(instant, calendar=self._calendar) if self._calendar or instant == FOREVER else instant


def _warning_of(overlap: Overlap) -> dict[str, str]:
    """The warning about replicas that hardly share any rows."""
    return {"warning": overlap.warning("merge_replicas")} if overlap.is_small else {}
