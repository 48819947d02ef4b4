"""Drives a query in the calling thread: a step at a time, until nothing is left to do or something new comes.

A step lets those who idle-wait look for what they wait for, else reads the next source in turn, and runs what that
brings as far as it goes (`executor.py`).

Invariant: between two steps every queue is empty; what is held is held inside operators, so a snapshot has it all.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from slackwater.errors import PlanError, RunError, message
from slackwater.progress.instants import BEGINNING, Instant
from slackwater.runners import counts
from slackwater.runners.control_records import OF_REPLICAS
from slackwater.runners.graph_parts import Step
from slackwater.runners.in_process.executor import DepthFirstExecutor
from slackwater.runners.in_process.feedback import pass_back, pass_back_from_sinks
from slackwater.runners.in_process.graph import build_graph, build_nodes
from slackwater.runners.in_process.measured_labels import MeasuredLabels
from slackwater.runners.in_process.progress import Progress
from slackwater.runners.in_process.reading import SourceReading
from slackwater.runners.in_process.replica_failures import ReplicaFailures
from slackwater.runners.in_process.replicas import Replicas, has_ended
from slackwater.runners.in_process.source_way import SourceWay
from slackwater.runners.in_process.ticks import next_wake, punctuate_due, wakes
from slackwater.runners.steering import CONTROL, Steering, SteeringState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from slackwater.operators.why import Why
    from slackwater.plan.node import Node
    from slackwater.progress.clock import Clock
    from slackwater.runners.control_records import Controllable, ControlRecord
    from slackwater.runners.graph_parts import Output, Sink
    from slackwater.runners.in_process.graph import SourceGraph
    from slackwater.runners.in_process.replica_status import ReplicaStanding
    from slackwater.runners.in_process.source_driver import SourceDriver
    from slackwater.runners.result import Counters
    from slackwater.runners.snapshot import Snapshot

T = TypeVar("T")

BATCH_ROWS = 262_144
"""Rows taken from a source at once: enough for what each costs to outweigh what a call of a step costs at all.

A live source gives what it has, if that is less. For very wide rows fewer may be better: `batch_rows`.
"""

BUFFER_LIMIT = 10_000_000
"""Rows an operator may hold back before the sources it does not wait for are left unread (back-pressure)."""


def _never() -> bool:
    return False


class InProcessRunner:
    """Runs one or more plans together, in the calling thread. Sources may be fed from other threads."""

    def __init__(
        self,
        outputs: Sequence[tuple[Node, Sink]],
        clock: Clock,
        *,
        batch_rows: int = BATCH_ROWS,
        buffer_limit: int = BUFFER_LIMIT,
        resume: Mapping[str, Any] | None = None,
    ) -> None:
        for name, limit in (("batch_rows", batch_rows), ("buffer_limit", buffer_limit)):
            if not isinstance(limit, int) or limit < 1:
                raise PlanError(message(f"{name} is a number of rows above zero", {"got": repr(limit)}))
        self._wake = threading.Event()
        self._clock = clock
        self._buffer_limit = buffer_limit
        self._graph = graph = build_graph(outputs, clock, self._wake.set, resume or {})
        self._replicas = Replicas(graph)
        self._failures = ReplicaFailures(graph, self._replicas)
        self._reading = SourceReading(graph, clock, batch_rows, self._replicas, self._failures)
        self._executor = DepthFirstExecutor(graph, clock, self._reading, self._failures)
        self._labels = MeasuredLabels(graph)
        self._steering = self._steering_from((resume or {}).get(CONTROL))
        self._asked_in_vain = 0
        self._failure: BaseException | None = None
        self._at_work = False
        self._wanted_from: Instant = BEGINNING
        self._heeded: Instant = BEGINNING
        for step in graph.steps:
            if step.operator.begins_feedback:
                pass_back(step)  # one that was restored knows already what it needs no more

    # ---- driving -----------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether every output has ended."""
        return self._graph.open_outputs == 0

    @property
    def peak_queued(self) -> int:
        """The most elements that ever waited at once, in queues and for silent inputs."""
        return self._graph.peak_queued

    @property
    def failed(self) -> bool:
        """Whether something stopped a step on its way, so that the query cannot go on."""
        return self._failure is not None

    def wait(self, at_most: float | None = None) -> None:
        """Sleep until a source or the clock gives something to do, or for so many seconds at most.

        Returns at once if something came since the last step.
        """
        if not self.finished:
            waits = any(step.holds and step.operator.idle_waiting_on() is not None for step in self._graph.steps)
            seconds = next_wake(self._graph, self._clock.now(), self._asked_in_vain if waits else None)
            woken = self._wake.wait(min((one for one in (seconds, at_most) if one is not None), default=None))
            self._asked_in_vain = 0 if woken else self._asked_in_vain + 1
            self._reading.ask_again()

    def ignore_before(self, bound: Instant) -> None:
        """Learn, from any thread, that whoever takes the results is not interested in time before the bound."""
        if bound > self._wanted_from:
            # Heeded by the next step, in the thread that runs it. One that another thread overwrites is lost, which may
            # happen to any feedback.
            self._wanted_from = bound
            self._wake.set()

    def work(self, stopped: Callable[[], bool] = _never) -> None:
        """Do all that can be done with what is there now, finite sources read to their end; never waits for more.

        `stopped` is asked between two steps.
        """
        self._reading.ask_again()
        while self.step() and not stopped():
            pass

    def step(self) -> bool:
        """Take a batch from each source that somebody waits for, else from the next in turn, as far as they go.

        Say whether there may be more to do now. No source is read twice, so that an endless one does not keep a step
        from ending.
        """
        self._refuse_if_failed()
        return self._at_once(self._step)

    def _at_once(self, work: Callable[[], T]) -> T:
        """Do what must be done whole; what stops it ends the query."""
        self._at_work = True
        try:
            return work()
        except BaseException as failure:
            # Whatever stopped the batch on its way, parts of the graph have seen it and others have not.
            self._failure = failure
            raise
        finally:
            self._at_work = False

    def _refuse_if_failed(self) -> None:
        if self._failure is not None:
            facts = {"failure": f"{type(self._failure).__name__}: {self._failure}".splitlines()[0]}
            hint = "open a new query, from a snapshot taken before it if there is one"
            raise RunError(message("this query has failed and cannot go on", facts, hint)) from self._failure

    def _step(self) -> bool:
        # Cleared before looking, so that whatever comes after cuts the next sleep short.
        self._wake.clear()
        if self.finished:
            return False
        graph, reading = self._graph, self._reading
        reading.begin_step()
        graph.moved = False
        if self._wanted_from > self._heeded:
            self._heeded = self._wanted_from
            pass_back_from_sinks(graph.ends, self._heeded)
        punctuate_due(graph.sources, self._clock.now(), graph.put)
        self._executor.run_all()
        waiting = [step for step in graph.steps if step.holds and step.operator.idle_waiting_on() is not None]
        found = self._executor.ask_for_progress(waiting)
        # What a waiting step needs has been read; what it does not wait for can stay where it is.
        skip = set().union(*map(graph.sources_above, waiting)) if found else self._held_back()
        reading.read_next(skip)
        self._executor.run_all()
        for step, emission in self._labels.decided():
            graph.release(step, emission)
            self._executor.run_all()
        if not graph.moved and all(source.quiet or source.exhausted for source in graph.sources):
            # Rows that wait were there before silence: only where there are none has anybody been silent.
            now = self._clock.now()
            for step in [step for step, at in wakes(graph) if at <= now]:
                graph.release(step, step.operator.on_wake(now))
                step.counters.buffered = step.operator.buffered()
                self._executor.run_all()
        self._steered(self._steering.follow())
        return graph.moved

    def _held_back(self) -> set[SourceDriver]:
        """Sources to leave unread: those of an operator that holds too much already and waits for another."""
        held: set[SourceDriver] = set()
        for step in self._graph.steps:
            if step.held_back < self._buffer_limit:
                continue
            port = step.operator.idle_waiting_on()
            if port is not None:
                held |= self._graph.sources_above(step) - self._graph.sources_above(step, port)
        return held

    # ---- what is asked while it runs -----------------------------------------------------------------------------

    def _steering_from(self, state: SteeringState | None) -> Steering:
        ways = [SourceWay(self._graph, source) for source in self._graph.sources]
        return Steering(self._graph, self._graph.places, ways, state)

    def controllable(self) -> Controllable:
        """What the plan lets users ask."""
        return self._steering.controllable()

    @property
    def steering(self) -> SteeringState:
        """What has been asked so far."""
        return self._steering.state

    def apply(self, record: ControlRecord) -> None:
        """Apply a control record, at once; one that cannot be is refused."""
        self._require_pause("a query is asked for something between two steps of it")
        if record.action in OF_REPLICAS:
            self._steering.controllable().require(record)
            replica = self._replicas.called(record["replica"])
            if record.action == "attach":
                self.attach(replica, record["complete_from"])
            else:
                self.detach(replica)
            self._steering.note(record)
            return
        self._steering.require(record)
        self._at_once(lambda: self._steered(self._steering.apply_one(record)))
        self._wake.set()

    def _steered(self, putting: Iterator[None]) -> None:
        """Let go as far as it goes what is put into the graph because somebody has asked for it."""
        for _ in putting:
            self._executor.run_all()

    # ---- replicas that come and go -------------------------------------------------------------------------------

    def attach(self, replica: Node, complete_from: Instant, instead_of: Node | None = None) -> None:
        """Read, from the next step on, a replica that is complete from a time on.

        It waited, was detached, or is a new stream of the same plan that comes instead of a replica that is over.
        """
        self._require_pause()
        arc = self._replicas.arc_of(replica if instead_of is None else instead_of)
        self._replicas.prepare_to_attach(arc)
        if instead_of is not None:
            for old in self._replicas.stand_in(arc, replica, self._build_nodes):
                self._forget(old)
            self._steering = self._steering_from(self._steering.state)
            arc = self._replicas.arc_of(replica)
        elif arc.cut:
            self._replicas.require_source(arc)
            self._failures.put_back(arc)
        self._replicas.attach(arc, complete_from)
        self._at_once(lambda: self._failures.divert_left_out(arc))
        self._reading.look_who_sleeps()
        self._wake.set()

    def detach(self, replica: Node) -> None:
        """Listen to a replica no longer; if all others have ended, so does the merged stream."""
        self._require_pause()
        arc = self._replicas.arc_of(replica)
        self._replicas.detach(arc)
        self._at_once(lambda: self._failures.divert_left_out(arc))
        if not arc.ended:
            arc.queue.append(None)
            self._at_once(self._executor.run_all)
        arc.attached = False

    def replicas(self) -> list[ReplicaStanding]:
        """How every replica of every merge stands."""
        return self._replicas.standings()

    def waits_to_join(self, replica: Node) -> bool:
        """Whether a replica is attached and its punctuations do not count yet."""
        return self._replicas.waits_to_join(self._replicas.arc_of(replica))

    def why_left(self, replica: Node) -> str:
        """Why a replica has left; empty if it has not."""
        return self._replicas.why_left(self._replicas.arc_of(replica))

    def _require_pause(self, rule: str = "replicas come and go between two steps of a query") -> None:
        self._refuse_if_failed()
        if self._at_work:
            raise PlanError(message(rule, {}, "do it where the query is driven, not in a callback"))

    def _build_nodes(self, names: dict[Node, str]) -> SourceGraph:
        return build_nodes(names, self._clock, self._wake.set, {}, {})

    def _forget(self, old: Output) -> None:
        """Take a step that was replaced out of the counts; those who took its rows wait for more."""
        if has_ended(old):
            self._graph.open_outputs += sum(len(output.sinks) for output in old.outputs)
        if isinstance(old, Step):
            self._graph.queued -= old.held_back

    # ---- looking at it -------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The state of every operator, by step; taken between steps, when the queues are empty."""
        self._require_pause("a snapshot is taken between two steps of a query")
        states = self._graph.snapshot()
        if self._steering.state != SteeringState():
            states[CONTROL] = self._steering.state
        return states

    def counters(self) -> dict[str, Counters]:
        """What every source and step has done, idle-waiting that still goes on included."""
        now = self._clock.now()
        for step in self._graph.steps:
            if step.idle_since is not None:
                step.counters.idle_waiting += now - step.idle_since
                step.idle_since = now
        sources = {source.name: replace(source.counters) for source in self._graph.sources}
        return sources | counts.counters(self._graph.steps)

    def progress(self, *, calendar: bool) -> Progress:
        """How far the query has come."""
        counters, graph = self.counters(), self._graph
        held = {step.name: counters[step.name].buffered for step in graph.steps}
        ends = [output for _, output in graph.ends if not output.late]
        sent = {id(output.counters): output.counters for output in ends}
        return Progress(
            calendar,
            min((output.complete_before for output in ends), default=BEGINNING),
            {source.name: source.newest for source in graph.sources},
            {name: rows for name, rows in held.items() if rows},
            total_in=sum(counters[source.name].rows_in for source in graph.sources),
            total_out=sum(one.rows_out for one in sent.values()),
            total_late=sum(one.late for one in counters.values()),
            waits=counts.open_events(graph.steps),
        )

    def why(self) -> tuple[Why, ...]:
        """For every step that decides how far a stream is complete: why no further, and what those hold who follow."""
        found = []
        for step in self._graph.steps:
            why = step.operator.why()
            if why is not None:
                why = self._steering.shown(step, why)
                behind = self._graph.steps_behind(step)
                held = {one.name: rows for one in behind if (rows := one.operator.buffered())}
                found.append(replace(why.with_held(held), moves_next_at=step.operator.goes_on_at()))
        return tuple(found)

    def close(self) -> None:
        """End the live sources, read the others to their end, and flush what is held."""
        for source in self._graph.sources:
            if source.live:
                source.close()
        self.work()
        self.abandon()

    def abandon(self) -> None:
        """Close every reading without running anything more."""
        for source in self._graph.sources:
            source.close()
