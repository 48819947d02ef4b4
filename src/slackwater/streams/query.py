"""A running query: driven step by step, or to its end."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from slackwater.errors import Interrupted, PlanError, RunError, message
from slackwater.events.kinds import Kind
from slackwater.events.written_times import as_instant
from slackwater.operators.emission import LATE, LEFT_OUT
from slackwater.progress.clock import Clock, Deadline, SystemClock
from slackwater.progress.instants import UNTIMED
from slackwater.progress.saturating import within_int64
from slackwater.runners.in_process.interrupts import DeferredInterrupt
from slackwater.runners.in_process.runner import BATCH_ROWS, BUFFER_LIMIT, InProcessRunner
from slackwater.runners.prometheus import prometheus_text
from slackwater.runners.result import Result
from slackwater.streams.diverted_rows import diverted_streams, require_diverted_rows_taken
from slackwater.streams.query_control import QueryControl
from slackwater.streams.sinks import TableSink

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    from slackwater.events.batch import EventBatch
    from slackwater.events.changes import ChangeLog
    from slackwater.events.schema import EventSchema
    from slackwater.events.written_times import Moment
    from slackwater.operators.emission import OutputName
    from slackwater.operators.why import Why
    from slackwater.plan.node import Node
    from slackwater.progress.instants import Instant
    from slackwater.runners.control import Control
    from slackwater.runners.in_process.progress import Progress
    from slackwater.runners.in_process.replica_status import ReplicaStanding
    from slackwater.runners.result import Counters
    from slackwater.runners.snapshot import Snapshot
    from slackwater.streams.diverted_rows import Callback
    from slackwater.streams.stream import Stream


class Query:
    """One or more streams running together in process; what they share runs once.

    It says the same as `SparkQuery` with the same words: `work()` does what can be done now, `wait()` goes on until it
    has ended, `stop()` ends it without a flush and `close()` with one; `active`, `finished`, `progress()`,
    `counters()`, `why()` and `prometheus()` show how it stands, and `control` is what can be asked of it. Only on Spark
    are there `spark` and `id`, the handle and the mark of a query that runs elsewhere, and `last_micro_batch`: in
    process rows go on as they come.

    `on_late` takes the rows that come too late, `on_left_out` those that a merge of replicas leaves out. A plan that
    diverts such rows must have it, or a stream that reads them, such as `stream.late`. `batch_rows` are taken from a
    source at once; `buffer_limit` is how many rows a step may hold back before sources that it does not wait for are
    left unread.
    """

    def __init__(
        self,
        outputs: Sequence[tuple[Stream, Callback]],
        clock: Clock | None = None,
        resume: Mapping[str, Any] | None = None,
        on_late: Callback | None = None,
        on_left_out: Callback | None = None,
        *,
        batch_rows: int = BATCH_ROWS,
        buffer_limit: int = BUFFER_LIMIT,
    ) -> None:
        streams = [stream for stream, _ in outputs]
        late, left_out = diverted_streams(*streams), diverted_streams(*streams, output=LEFT_OUT)
        for diverted, binding in ((late, on_late), (left_out, on_left_out)):
            if binding is not None:
                outputs = [*outputs, *((stream, binding) for stream in diverted.values())]
        require_diverted_rows_taken(*(stream for stream, _ in outputs))
        _require_functions(callback for _, callback in outputs)
        wired = [(stream.node, partial(_show, stream.shown_as, callback)) for stream, callback in outputs]
        self._schema = outputs[0][0].schema
        self._calendar = outputs[0][0].node.schema.calendar
        self._late = {name: stream.schema.empty_table() for name, stream in late.items()}
        self._left_out = {name: stream.schema.empty_table() for name, stream in left_out.items()}
        self._outputs = len(outputs)
        self._stopped = False
        self._runner = InProcessRunner(
            wired, clock or SystemClock(), batch_rows=batch_rows, buffer_limit=buffer_limit, resume=resume
        )
        self._control = QueryControl(self._runner)

    def __repr__(self) -> str:
        state = "finished" if self.finished else "active" if self.active else "stopped" if self._stopped else "failed"
        return f"<Query of {self._outputs} output{'s' * (self._outputs != 1)}, {state}>"

    @property
    def active(self) -> bool:
        """Whether it can go on: it has not finished, and was neither stopped nor has failed."""
        return not (self.finished or self._stopped or self._runner.failed)

    @property
    def finished(self) -> bool:
        """Whether every source has ended and everything is flushed."""
        return self._runner.finished

    @property
    def peak_queued(self) -> int:
        """The most elements that ever waited at once, in queues and for silent inputs."""
        return self._runner.peak_queued

    def work(self) -> None:
        """Do all that can be done with what is there now, finite sources read to their end; never waits for more.

        Ctrl-C stops it between two steps, by `errors.Interrupted`; the query can go on.

        >>> import slackwater as sw
        >>> query = sw.stream([{"at": 1}, {"at": 2}], time="at").open(lambda rows: print(rows["at"].to_pylist()))
        >>> query.work()
        [1, 2]
        """
        with DeferredInterrupt() as stop:
            self._runner.work(lambda: stop.came)
        self._stop_if(stop)

    def step(self) -> bool:
        """Read each source at most once, as far as its rows go; say whether there may be more to do now.

        >>> import slackwater as sw
        >>> rows = sw.stream([{"at": 1}, {"at": 2}], time="at")
        >>> query = rows.open(lambda rows: print(rows["at"].to_pylist()), batch_rows=1)
        >>> query.step()
        [1]
        True
        """
        with DeferredInterrupt() as stop:
            more = self._runner.step()
        self._stop_if(stop)
        return more

    def wait(self, seconds: float | None = None) -> bool:
        """Work until it has ended, or for so many seconds; say whether it has. A failure is raised.

        Between two rows it sleeps. One that was stopped has nothing to wait for.

        >>> import pyarrow as pa, slackwater as sw
        >>> source = sw.PushSource({"at": pa.int64()})
        >>> query = sw.stream(source, time="at").open(lambda rows: print(rows["at"].to_pylist()))
        >>> source.push([{"at": 1}, {"at": 2}])
        >>> query.wait(seconds=0.01)
        [1, 2]
        False
        >>> source.close()
        >>> query.wait(), query.finished, query.active
        (True, True, False)
        """
        until = Deadline(seconds)
        while not (self.finished or self._stopped):
            more = self.step()
            if until.has_come:
                break
            if not more:
                self.wait_for_more(until.seconds_left())
        return self.finished

    def wait_for_more(self, seconds: float | None = None) -> None:
        """Sleep until a source or the clock gives something to do, or for so many seconds.

        >>> import pyarrow as pa, slackwater as sw
        >>> source = sw.PushSource({"at": pa.int64()})
        >>> query = sw.stream(source, time="at").open(lambda rows: print(rows["at"].to_pylist()))
        >>> query.work()
        >>> query.wait_for_more(seconds=0.01)  # nothing came
        >>> source.push({"at": 1})
        >>> query.wait_for_more()
        >>> query.work()
        [1]
        """
        try:
            self._runner.wait(seconds)
        except KeyboardInterrupt:
            raise self._interrupted() from None

    def progress(self) -> Progress:
        """How far the query has come: what is complete and held now, and how many rows there were in all.

        >>> import slackwater as sw
        >>> query = sw.stream([{"at": 1}, {"at": 7}], time="at").sort(patience=3).open(print, on_late=print)
        >>> print(query.progress())
        now    complete before nothing yet
               held 0
               read up to: source#1 nothing yet
        total  rows in 0, out 0, late 0
        """
        return self._runner.progress(calendar=self._calendar)

    def _stop_if(self, stop: DeferredInterrupt) -> None:
        if stop.came:
            raise self._interrupted()

    def _interrupted(self) -> Interrupted:
        return Interrupted.at(self, "; ".join(self.progress().now()), self.run_to_end)

    def ignore_before(self, bound: Instant) -> None:
        """Say that nobody who takes the results is interested any more in rows that end at or before the bound.

        Steps then spare themselves the work for such rows, as far as they can, and sources need not bring them; some
        may still come. For queries whose results go on to a merge elsewhere, which says by `PushSource.wanted_from`
        what it needs no more. May be called from any thread; the next step heeds it. The bound is microseconds since
        1970 in UTC, or a sequence number.

        >>> import slackwater as sw
        >>> rows = sw.stream([{"at": at} for at in range(5)], time="at")
        >>> seen = []
        >>> with rows.open(lambda batch: seen.extend(batch["at"].to_pylist())) as query:
        ...     query.ignore_before(3)
        >>> seen
        [3, 4]
        """
        if isinstance(bound, bool) or not isinstance(bound, int):
            hint = "give microseconds since 1970 in UTC, or a sequence number"
            raise PlanError(message("a bound is a whole number", {"got": repr(bound)}, hint))
        self._runner.ignore_before(within_int64(bound))

    def run_to_end(self) -> Result:
        """Work until every source has ended.

        >>> import slackwater as sw
        >>> query = sw.stream([{"at": 1}, {"at": 2}], time="at").open(lambda rows: None)
        >>> query.run_to_end().counters["source#1"].rows_out
        2
        """
        try:
            while not self.finished:
                self.work()
                self.wait_for_more()
        except Interrupted:
            raise
        except KeyboardInterrupt:  # between two calls; within one it would have ended the query
            raise self._interrupted() from None
        return Result(self._schema.empty_table(), self.counters(), self.peak_queued, self._late, self._left_out)

    def counters(self) -> dict[str, Counters]:
        """What every source and step has done so far.

        >>> import slackwater as sw
        >>> query = sw.stream([{"at": 1}, {"at": 9}], time="at").sort(patience=5).open(lambda rows: None, on_late=print)
        >>> _ = query.step()
        >>> query.counters()["sort#1"].buffered
        1
        """
        return self._runner.counters()

    def prometheus(self, labels: Mapping[str, str] | None = None) -> str:
        """How the query stands, in the text that Prometheus reads: `progress()`, `counters()` and `why()`, as metrics.

        Every sample has the labels that are given. Call it between two steps, by the thread that drives the query, and
        serve the text as `text/plain; version=0.0.4`, or write it where a collector of text files looks.

        >>> import slackwater as sw
        >>> query = sw.stream([{"at": 1}, {"at": 9}], time="at").sort(patience=5).open(lambda rows: None, on_late=print)
        >>> _ = query.step()
        >>> for line in query.prometheus({"query": "clicks"}).splitlines():
        ...     if "step_held_rows" in line:
        ...         print(line)
        # HELP slackwater_step_held_rows Rows, groups and partial results that wait in a step.
        # TYPE slackwater_step_held_rows gauge
        slackwater_step_held_rows{query="clicks",step="source#1"} 0
        slackwater_step_held_rows{query="clicks",step="punctuate#1"} 0
        slackwater_step_held_rows{query="clicks",step="sort#1"} 1
        """
        return prometheus_text(self.progress(), self.counters(), self.why(), labels or {})

    @property
    def control(self) -> Control:
        """What can be asked of it while it runs, between two steps: see `Control`.

        It is what a snapshot remembers, but for the texts of earlier records.

        >>> import pyarrow as pa, slackwater as sw
        >>> source = sw.PushSource({"at": pa.int64()})
        >>> ordered = sw.stream(source, time="at").sort(patience=5)
        >>> query = ordered.open(lambda rows: print(rows["at"].to_pylist()), on_late=print)
        >>> source.push([{"at": 3}, {"at": 1}, {"at": 7}])
        >>> query.work()
        [1]
        >>> query.control.flush()
        [3, 7]
        1
        """
        return self._control

    def attach(self, replica: Stream, *, complete_from: Moment, instead_of: Stream | None = None) -> None:
        """Listen to a replica of a merge, from the next step on.

        `replica` is a stream that was given to merge_replicas(), and waits or was detached. `complete_from` is the time
        from which on it is complete: it has every event that lasts until then, or longer. Until the merged stream is
        complete up to there, the replica has not joined: its events count, its punctuations do not.

        A replica that has failed, and left, may be attached again on its own source, which has started again: its steps
        begin anew. One that has died, its source closed, comes back as a new stream of the same plan, with a source of
        its own: `attach(new, complete_from=..., instead_of=old)`. What it counts begins anew.

        It is done between two steps: by the thread that drives the query, not in a callback.

        >>> import pyarrow as pa, slackwater as sw
        >>> sources = [sw.PushSource({"at": pa.int64()}, name=name) for name in ("blue", "green")]
        >>> blue, green = (sw.stream(source, time="at").assume_ordered() for source in sources)
        >>> query = sw.merge_replicas(blue, green, standby=[green]).open(lambda rows: print(rows["at"].to_pylist()))
        >>> sources[0].push([{"at": 1}, {"at": 4}])
        >>> query.work()
        [1]
        >>> query.attach(green, complete_from=8)
        >>> query.replicas()[1].joined
        False
        >>> query.close()
        [4]
        """
        node = _node_of(replica)
        replaced = None if instead_of is None else _node_of(instead_of)
        self._runner.attach(node, as_instant(complete_from, node.schema.time, "complete_from"), replaced)

    def detach(self, replica: Stream) -> None:
        """Listen to a replica of a merge no longer. What it sends is read, and dropped, until it is attached again.

        The only replica that is attached cannot be detached. If all others have ended, the merged stream ends.

        >>> import pyarrow as pa, slackwater as sw
        >>> sources = [sw.PushSource({"at": pa.int64()}, name=name) for name in ("blue", "green")]
        >>> blue, green = (sw.stream(source, time="at").assume_ordered() for source in sources)
        >>> query = sw.merge_replicas(blue, green, attachable=True).open(lambda rows: print(rows["at"].to_pylist()))
        >>> query.detach(green)
        >>> [one.attached for one in query.replicas()]
        [True, False]
        """
        self._runner.detach(_node_of(replica))

    def replicas(self) -> list[ReplicaStanding]:
        """How each replica of each merge stands: attached, joined, how far it has come, ended; and if not, why.

        Replicas that a column names are among them, in the order in which they appeared; see `str` of one, and
        its `reason`.

        >>> import slackwater as sw
        >>> rows = [{"at": at, "who": who} for who, at in [("blue", 0), ("blue", 20), ("green", 18), ("green", 19)]]
        >>> merged = sw.stream(rows, time="at").merge_replicas("who", patience=3, every=sw.Every.rows(1))
        >>> query = merged.open([].append, on_late=[].append)
        >>> _ = query.step()
        >>> query.replicas()[1].joined, query.replicas()[1].reason.partition(";")[0]
        (False, 'complete from 22 on')
        """
        return self._runner.replicas()

    def waits_to_join(self, replica: Stream) -> bool:
        """Whether a replica is attached and has not joined yet. Cost: none worth speaking of.

        >>> import pyarrow as pa, slackwater as sw
        >>> sources = [sw.PushSource({"at": pa.int64()}, name=name) for name in ("blue", "green")]
        >>> blue, green = (sw.stream(source, time="at").assume_ordered() for source in sources)
        >>> query = sw.merge_replicas(blue, green, standby=[green]).open(print)
        >>> query.attach(green, complete_from=8)
        >>> query.waits_to_join(green)
        True
        """
        return self._runner.waits_to_join(_node_of(replica))

    def why_left(self, replica: Stream) -> str:
        """Why a replica has left its merge, because it failed; empty if it has not, or was attached again.

        >>> import pyarrow as pa, slackwater as sw
        >>> sources = [sw.PushSource({"at": pa.int64()}, name=name) for name in ("blue", "green")]
        >>> blue, green = (sw.stream(source, time="at").assume_ordered() for source in sources)
        >>> query = sw.merge_replicas(blue, green, attachable=True).open(lambda rows: None)
        >>> sources[1].fail(ConnectionError("the broker is gone"))
        >>> query.work()
        >>> query.why_left(blue), query.why_left(green).partition(":")[0]
        ('', 'SourceFailed')
        """
        return self._runner.why_left(_node_of(replica))

    def why(self) -> tuple[Why, ...]:
        """Why the streams are complete no further: for each step that decides it whom it waits for, and by what bound.

        Print one to read it.

        >>> import pyarrow as pa, slackwater as sw
        >>> source = sw.PushSource({"at": pa.int64(), "who": pa.string()})
        >>> readings = sw.stream(source, time="at", origin="who")
        >>> bounds = (sw.Bounds.in_order() & sw.Bounds.uniform(6) & sw.Bounds.lull("1h")).only("a", "b")
        >>> query = readings.sort(bounds=bounds).open(lambda rows: None, on_late=print, clock=sw.ManualClock())
        >>> source.push([{"at": 1, "who": "a"}, {"at": 5, "who": "b"}, {"at": 9, "who": "a"}])
        >>> query.work()
        >>> print(query.why()[0])
        heartbeats#1  complete before 5, the newest row is at 9
          waits for  b
          ground     proven by bounds: each source: in order
          by         a row of b at 5, arrived 1970-01-01T00:00:00.000000Z
          goes on    1970-01-01T01:00:00.000000Z by the clock, or with the next row
          held       sort#1 2
        """
        return self._runner.why()

    def snapshot(self) -> Snapshot:
        """The state of every step, to be handed to open(resume=...). Rows not yet taken from sources are not in it.

        >>> import pyarrow as pa, slackwater as sw
        >>> def opened(resume=None):
        ...     source = sw.PushSource({"at": pa.int64()})
        ...     counts = sw.stream(source, time="at").assume_ordered().tumbling(10).aggregate(n=sw.count())
        ...     return source, counts.open(lambda rows: print(rows["n"].to_pylist()), resume=resume)
        >>> source, query = opened()
        >>> source.push([{"at": 1}, {"at": 2}])
        >>> query.work()
        >>> source, again = opened(resume=query.snapshot())
        >>> source.push({"at": 3})
        >>> again.close()
        [3]
        """
        return self._runner.snapshot()

    def close(self) -> None:
        """End live sources, let everything out that is held, as final, and close all readings.

        >>> import pyarrow as pa, slackwater as sw
        >>> source = sw.PushSource({"at": pa.int64()})
        >>> ordered = sw.stream(source, time="at").sort(patience=5)
        >>> query = ordered.open(lambda rows: print(rows["at"].to_pylist()), on_late=print)
        >>> source.push([{"at": 3}, {"at": 1}])
        >>> query.close()
        [1, 3]
        """
        self._runner.close()

    def stop(self) -> None:
        """Stop, between two steps, and close all readings. Nothing is flushed; a snapshot() has all that is held.

        >>> import slackwater as sw
        >>> query = sw.stream([{"at": 1}, {"at": 7}], time="at").sort(patience=3).open(print, on_late=print)
        >>> query.stop()
        >>> query.active, query.finished
        (False, False)
        """
        self._stopped = True
        self._runner.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After a failure nothing more is run; closing would run what is left.
        self.stop() if error is not None else self.close()


def run_together(*streams: Stream, clock: Clock | None = None) -> list[Result]:
    """Run several streams as one query and return a result for each; steps that they share run once.

    Every result has the late rows of all steps that divert them, and the rows left out of all merges that do. An error
    that stops the run carries what was emitted before it, as `error.emitted`: one result per stream.

    >>> import slackwater as sw
    >>> ordered = sw.stream([{"at": 1}, {"at": 12}, {"at": 3}], time="at").sort(patience=20)
    >>> rows, counts = sw.run_together(ordered, ordered.tumbling(10).aggregate(n=sw.count()))
    >>> rows.table.num_rows, counts.table["n"].to_pylist()
    (3, [2, 1])
    """
    if not streams or not all(hasattr(stream, "node") for stream in streams):
        facts = {"got": ", ".join(type(stream).__name__ for stream in streams) or "nothing"}
        raise PlanError(message("run_together takes streams", facts, "run_together(a, b), not run_together([a, b])"))
    tables = [TableSink(stream.schema) for stream in streams]
    return run_into(list(zip(streams, tables, strict=True)), tables, clock)


def run_into(
    outputs: Sequence[tuple[Stream, Callback]],
    tables: Sequence[TableSink],
    clock: Clock | None = None,
    on_late: Callback | None = None,
    on_left_out: Callback | None = None,
) -> list[Result]:
    """Run streams to their end and return a result for each table; rows that are diverted and not taken are in it."""
    kept: dict[OutputName, dict[str, TableSink]] = {LATE: {}, LEFT_OUT: {}}
    taken: list[tuple[Stream, Callback]] = []
    for output, binding in ((LATE, on_late), (LEFT_OUT, on_left_out)):
        for name, stream in diverted_streams(*(stream for stream, _ in outputs), output=output).items():
            kept[output][name] = TableSink(stream.schema)
            taken.append((stream, kept[output][name] if binding is None else binding))
    query = Query([*outputs, *taken], clock)

    def results() -> list[Result]:
        diverted = [{name: sink.table() for name, sink in kept[output].items()} for output in (LATE, LEFT_OUT)]
        return [Result(sink.table(), query.counters(), query.peak_queued, *diverted) for sink in tables]

    def run_on() -> list[Result]:
        try:
            query.run_to_end()
        except RunError as error:
            error.emitted = tuple(results())
            query.stop()
            raise
        except Interrupted as stop:
            stop.emitted, stop.go_on = tuple(results()), run_on
            raise
        except BaseException:
            query.stop()
            raise
        query.close()
        return results()

    return run_on()


def starts_of(stream: Stream, clock: Clock | None = None) -> NDArray[np.int64]:
    """Run a stream and return the starts of its events, in the order they come; rows without a time are left out."""
    starts: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]

    def note(batch: EventBatch) -> None:
        starts.append(batch.start[batch.kinds() == Kind.INSERT])

    runner = InProcessRunner([(stream.node, note)], clock or SystemClock())
    while not runner.finished:
        runner.work()
        runner.wait()
    together = np.concatenate(starts)
    return together[together != UNTIMED] if stream.properties.untimed else together


def _show(schema: EventSchema | ChangeLog, callback: Callback, batch: EventBatch) -> None:
    callback(schema.show(batch))


def _require_functions(takers: Iterable[object]) -> None:
    """Refuse what is no function, such as a sink of Spark, which knows rows by the number of their micro-batch."""
    for taker in takers:
        if hasattr(taker, "claimed") or hasattr(taker, "for_rows"):
            hint = "give a function that writes Arrow batches; what was emitted before a snapshot is not emitted again"
            reason = "rows go on as they come, without the numbers by which it knows what it has written"
            facts = {"sink": repr(taker), "in process": reason}
            raise PlanError(message("this sink is for streams of Spark DataFrames", facts, hint))
        if not callable(taker):
            hint = "give a function of Arrow batches, such as print"
            raise PlanError(message("in process the rows of a stream go to a function", {"got": repr(taker)}, hint))


def _node_of(stream: Any) -> Node:
    node = getattr(stream, "node", None)
    if node is None:
        facts, hint = {"got": repr(stream)}, "name a stream that was given to merge_replicas()"
        raise PlanError(message("a replica is a stream", facts, hint))
    return node
