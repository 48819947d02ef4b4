"""Executes a query graph depth first, and asks sources for punctuations when somebody idle-waits.

After each execution step the next operator is chosen by three rules:
    forward    the operator has put something out: go on to its consumer
    encore     something is left in its input: execute it again
    backtrack  otherwise go to the producer of the input it waits for, and repeat the rules there; when that leads to a
               source with nothing to give, the source punctuates on demand
Paper: Bai, Thakkar, Wang, Zaniolo. Optimizing Timestamp Management in Data Stream Management Systems. ICDE 2007,
sections 3 to 5.

Invariant: between two steps every queue is empty; what is held is held inside operators, so a snapshot has it all.
"""

from __future__ import annotations

import threading
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from slackwater.errors import BrokenOrder, BrokenPunctuation, PlanError, RunError, StepFailed, message
from slackwater.operators.emission import DIVERTED, NOTHING
from slackwater.operators.replicas.by_column import MergeByColumnOperator
from slackwater.operators.replicas.replica_merge import ReplicaMerge
from slackwater.plan.node import StepNode
from slackwater.progress.instants import BEGINNING, FOREVER, Instant
from slackwater.progress.punctuation import Ground
from slackwater.runners.graph_parts import Step
from slackwater.runners.in_process.feedback import pass_back, pass_back_from_sinks
from slackwater.runners.in_process.graph import build_graph, build_nodes
from slackwater.runners.in_process.progress import Progress
from slackwater.runners.in_process.replica_failures import cut_off, is_unheard, put_back, replicas_fed_by
from slackwater.runners.in_process.replicas import Replicas, has_ended, sources_asleep
from slackwater.runners.in_process.source_driver import SourceDriver
from slackwater.runners.in_process.ticks import next_wake, punctuate_due
from slackwater.runners.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from slackwater.events.batch import EventBatch
    from slackwater.operators.emission import Emission
    from slackwater.plan.node import Node
    from slackwater.progress.clock import Clock
    from slackwater.runners.graph_parts import Arc, Output, Sink
    from slackwater.runners.in_process.graph import Graph
    from slackwater.runners.in_process.replica_status import ReplicaStanding
    from slackwater.runners.result import Counters

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
        self._batch_rows = batch_rows
        self._buffer_limit = buffer_limit
        self._graph = build_graph(outputs, clock, self._wake.set, resume or {})
        self._asked: set[SourceDriver | Step] = set()
        self._asked_in_vain = 0
        self._read_already: set[SourceDriver] = set()
        self._moved = False
        self._failure: BaseException | None = None
        self._turn = 0
        self._queued = 0
        self.peak_queued = 0
        self._open_outputs = len(outputs)
        merges = (ReplicaMerge, MergeByColumnOperator)
        self._may_overlap_little = {step for step in self._graph.steps if isinstance(step.operator, merges)}
        self._replicas = Replicas(self._graph)
        self._asleep = sources_asleep(self._graph)
        self._at_work = False
        self._wanted_from: Instant = BEGINNING
        self._heeded: Instant = BEGINNING
        for arc in self._replicas.left_before():
            self._cut_off(arc)
        for step in self._graph.steps:
            if step.operator.begins_feedback:
                pass_back(step)  # one that was restored knows already what it needs no more

    # ---- driving -----------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether every output has ended."""
        return self._open_outputs == 0

    def wait(self) -> None:
        """Sleep until a source or the clock gives something to do; returns at once if that came since the last step."""
        if not self.finished:
            waits = any(step.holds and step.operator.idle_waiting_on() is not None for step in self._graph.steps)
            seconds = next_wake(self._graph.sources, self._clock.now(), self._asked_in_vain if waits else None)
            woken = self._wake.wait(seconds)
            self._asked_in_vain = 0 if woken else self._asked_in_vain + 1
            self._asked.clear()

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
        self._asked.clear()
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
        self._read_already.clear()
        self._moved = False
        if self._wanted_from > self._heeded:
            self._heeded = self._wanted_from
            pass_back_from_sinks(self._graph.ends, self._heeded)
        punctuate_due(self._graph.sources, self._clock.now(), self._put)
        self._run_all()
        waiting = [step for step in self._graph.steps if step.holds and step.operator.idle_waiting_on() is not None]
        found = self._ask_for_progress(waiting)
        # What a waiting step needs has been read; what it does not wait for can stay where it is.
        skip = set().union(*map(self._graph.sources_above, waiting)) if found else self._held_back()
        self._read_one(skip)
        self._run_all()
        return self._moved

    # ---- replicas that come and go -------------------------------------------------------------------------------

    def attach(self, replica: Node, complete_from: Instant, instead_of: Node | None = None) -> None:
        """Listen, from the next step on, to a replica that tells everything from a time on.

        It waited, was detached, or is a new stream of the same plan that comes instead of a replica that is over.
        """
        self._require_pause()
        arc = self._replicas.arc_of(replica if instead_of is None else instead_of)
        self._replicas.prepare_to_attach(arc)
        if instead_of is not None:
            for old in self._replicas.stand_in(arc, replica, self._build_nodes):
                self._forget(old)
            arc = self._replicas.arc_of(replica)
        elif arc.cut:
            self._replicas.require_source(arc)
            self._put_back(arc)
        self._replicas.attach(arc, complete_from)
        self._at_once(lambda: self._divert_left_out(arc))
        self._asleep = sources_asleep(self._graph)
        self._wake.set()

    def detach(self, replica: Node) -> None:
        """Listen to a replica no longer; if all others have ended, so does the merged stream."""
        self._require_pause()
        arc = self._replicas.arc_of(replica)
        self._replicas.detach(arc)
        self._at_once(lambda: self._divert_left_out(arc))
        if not arc.ended:
            arc.queue.append(None)
            self._at_once(self._run_all)
        arc.heard = False

    def _divert_left_out(self, arc: Arc) -> None:
        """Hand over what a merge leaves out because a replica is gone."""
        merge = arc.consumer.operator
        assert isinstance(merge, ReplicaMerge)
        self._release(arc.consumer, merge.left_out_between())

    def replicas(self) -> list[ReplicaStanding]:
        """How every replica of every merge stands."""
        return self._replicas.standings()

    def waits_to_join(self, replica: Node) -> bool:
        """Whether a replica is attached and its promises do not count yet."""
        return self._replicas.waits_to_join(self._replicas.arc_of(replica))

    def why_left(self, replica: Node) -> str:
        """Why a replica has left; empty if it has not."""
        return self._replicas.why_left(self._replicas.arc_of(replica))

    # ---- replicas that fail --------------------------------------------------------------------------------------

    def _survives(self, failed: Step | SourceDriver, error: Exception) -> bool:
        """Let the replicas leave that alone needed what has failed; say whether the query can go on."""
        arcs = [] if isinstance(error, MemoryError) else replicas_fed_by(failed)
        for arc in arcs:
            if not arc.cut:
                self._let_leave(arc, error)
        return bool(arcs)

    def _let_leave(self, arc: Arc, error: Exception) -> None:
        gone = self._replicas.leave(arc, error)
        self._divert_left_out(arc)
        if gone is not None and not self._survives(arc.consumer, gone):
            raise gone from error
        self._queued -= arc.clear()
        self._cut_off(arc)
        if gone is None and arc.heard and not arc.ended:
            arc.queue.append(None)  # the merge may have to end: all others have

    def _cut_off(self, arc: Arc) -> None:
        for step in cut_off(arc):
            for above in step.inputs:
                self._queued -= above.clear()
            self._queued -= step.held_back
            step.open_inputs = step.held_back = step.counters.buffered = 0
            step.idle_since = None
            node = self._graph.nodes[step]
            assert isinstance(node, StepNode)
            if not isinstance(step.operator, ReplicaMerge):
                step.operator = node.build(step.name)
            for output in DIVERTED:
                if output in step.side:
                    self._put(step.side[output], None)

    def _put_back(self, arc: Arc) -> None:
        """Let rows of a replica come to its merge again that has left, from the sources that it had."""
        for step in put_back(arc):
            step.open_inputs = len(step.inputs)
            self._open_outputs += sum(len(step.side[output].sinks) for output in DIVERTED if output in step.side)

    def _require_pause(self, rule: str = "replicas come and go between two steps of a query") -> None:
        self._refuse_if_failed()
        if self._at_work:
            raise PlanError(message(rule, {}, "do it where the query is driven, not in a callback"))

    def _build_nodes(self, names: dict[Node, str]) -> tuple[Graph, dict[Node, tuple[Step | SourceDriver, Output]]]:
        return build_nodes(names, self._clock, self._wake.set, {})

    def _forget(self, old: Step | SourceDriver) -> None:
        """Take a step that was replaced out of the counts; those who took its rows wait for more."""
        outputs = (old, *old.side.values()) if isinstance(old, Step) else (old,)
        if has_ended(old):
            self._open_outputs += sum(len(output.sinks) for output in outputs)
        if isinstance(old, Step):
            self._queued -= old.held_back

    # ---- looking at it -------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The state of every operator, by step; taken between steps, when the queues are empty."""
        self._require_pause("a snapshot is taken between two steps of a query")
        states = {step.name: step.operator.snapshot() for step in self._graph.steps}
        return Snapshot(states, self._graph.plan)

    def counters(self) -> dict[str, Counters]:
        """What every source and step has done, idle-waiting that still goes on included."""
        now = self._clock.now()
        for step in self._graph.steps:
            step.counters.late = step.operator.late()
            step.counters.duplicates = step.operator.duplicates()
            step.counters.ignored = step.operator.ignored_rows()
            step.counters.leave_out(step.operator.left_out())
            if isinstance(step.operator, ReplicaMerge):
                step.counters.left = step.operator.times_left
            if step.idle_since is not None:
                step.counters.idle_waiting += now - step.idle_since
                step.idle_since = now
        everyone: Iterable[SourceDriver | Step] = (*self._graph.sources, *self._graph.steps)
        return {one.name: replace(one.counters) for one in everyone}

    def progress(self, *, calendar: bool) -> Progress:
        """How far the query has come."""
        counters = self.counters()
        held = {step.name: counters[step.name].buffered for step in self._graph.steps}
        merges = {step.name: step.operator for step in self._graph.steps if isinstance(step.operator, ReplicaMerge)}
        waits = {name: merge.open_events() for name, merge in merges.items()}
        sent = {id(output.counters): output.counters for _, output in self._graph.ends if not output.late}
        return Progress(
            calendar,
            min((output.complete_before for _, output in self._graph.ends if not output.late), default=BEGINNING),
            {source.name: source.newest for source in self._graph.sources},
            {name: rows for name, rows in held.items() if rows},
            total_in=sum(counters[source.name].rows_in for source in self._graph.sources),
            total_out=sum(one.rows_out for one in sent.values()),
            total_late=sum(one.late for one in counters.values()),
            waits={name: events for name, events in waits.items() if events.count},
        )

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

    # ---- choosing the next operator ------------------------------------------------------------------------------

    def _run(self, step: Step | None) -> None:
        while step is not None:
            self._execute(step)
            if step.operator.begins_feedback:
                pass_back(step)
            step = self._next_operator(step)

    def _next_operator(self, step: Step) -> Step | None:
        return step.next_from_here() or self._backtrack(step, demanded=False)

    def _backtrack(self, step: Step, *, demanded: bool) -> Step | None:
        port = step.operator.idle_waiting_on()
        demanded = demanded or port is not None
        for arc in step.inputs if port is None else (step.inputs[port],):
            found = self._look_behind(arc, demanded=demanded)
            if found is not None:
                return found
        return None

    def _look_behind(self, arc: Arc, *, demanded: bool) -> Step | None:
        """Repeat the rules at the producer of an arc; a source gives something only when somebody waits for it."""
        producer = arc.producer
        if isinstance(producer, SourceDriver):
            return arc.consumer if demanded and self._demand(producer) else None
        found = producer.next_from_here()
        if found is not None:
            return found
        if demanded and producer.operator.ticks and self._demand_of_step(producer):
            return arc.consumer
        return self._backtrack(producer, demanded=demanded)

    # ---- executing -------------------------------------------------------------------------------------------------

    def _execute(self, step: Step) -> None:
        arc = step.waiting_arc()
        if arc is None:
            return
        counters = step.counters
        batch = arc.queue[0]
        if step.operator.ticks:
            step.operator.on_tick(self._clock.now())
        # Idle-waiting ends when something to go on with is there, not when the work on it is done.
        begun = self._clock.now() if step.idle_since is not None else 0
        emission = self._taken_by(arc, batch)
        if emission is None:
            return
        if batch is not None:
            counters.rows_in += batch.rows
            counters.punctuations_in += len(batch) - batch.rows
            self._queued -= len(batch)
        arc.queue.popleft()
        if step.holds:
            self._note_waiting(step, begun)
        self._release(step, emission)
        if step in self._may_overlap_little:
            self._warn_of_little_overlap(step)
        if batch is None and arc.heard and step.open_inputs == 0:
            for ended in (step, *step.side.values()):
                self._put(ended, None)
        if arc.cut:
            arc.heard = False

    def _warn_of_little_overlap(self, step: Step) -> None:
        """Say, once for each merge, that its replicas hardly share any rows."""
        assert isinstance(step.operator, ReplicaMerge | MergeByColumnOperator)
        overlap = step.operator.overlap()
        if overlap.is_small:
            self._may_overlap_little.discard(step)
            warnings.warn(overlap.warning(step.name), stacklevel=2)

    def _release(self, step: Step, emission: Emission) -> None:
        for released in emission.batches:
            self._put(step, released)
        if emission.side:
            for output, released in emission.side:
                self._put(step.side[output], released)

    def _taken_by(self, arc: Arc, batch: EventBatch | None) -> Emission | None:
        """What a step releases when it takes a batch, or an end; None if replicas have left because it failed."""
        step = arc.consumer
        try:
            return _end_of(arc) if batch is None else step.operator.on_batch(arc.port, batch)
        except (BrokenOrder, BrokenPunctuation) as error:
            if isinstance(step.operator, ReplicaMerge):  # which fails of what this replica has sent
                self._let_leave(arc, error)
            elif not self._survives(step, error):
                raise
        except Exception as error:
            if not self._survives(step, error):
                raise
        return None

    def _put(self, output: Output, batch: EventBatch | None) -> None:
        self._moved = True
        if batch is not None:
            output.counters.rows_out += batch.rows
            output.counters.punctuations_out += len(batch) - batch.rows
            self._queued += len(batch) * sum(not arc.cut for arc in output.arcs)
            self.peak_queued = max(self.peak_queued, self._queued)
        for arc in output.arcs:
            if not arc.cut:
                arc.queue.append(batch)
        if batch is None:
            self._open_outputs -= len(output.sinks)
            output.complete_before = FOREVER
        elif output.sinks:
            output.note_progress(batch)
            if batch.rows:
                for sink in output.sinks:
                    _deliver(sink, batch, output.name)

    def _note_waiting(self, step: Step, begun: Instant) -> None:
        counters = step.counters
        buffered = counters.buffered = step.operator.buffered()
        counters.peak_buffered = max(counters.peak_buffered, buffered, step.operator.peak_buffered())
        held = step.operator.held_back()
        if held == step.held_back:
            return
        self._queued += held - step.held_back
        step.held_back = held
        if held and step.idle_since is None:
            step.idle_since = self._clock.now()
        elif not held and step.idle_since is not None:
            counters.idle_waiting += begun - step.idle_since
            step.idle_since = None

    # ---- sources ---------------------------------------------------------------------------------------------------

    def _read_one(self, skip: set[SourceDriver]) -> None:
        """Read a batch from the next source in turn that has one."""
        sources = self._graph.sources
        for offset in range(len(sources)):
            source = sources[(self._turn + offset) % len(sources)]
            if source not in skip and self._read(source):
                self._turn = (self._turn + offset + 1) % len(sources)
                return

    def _read(self, source: SourceDriver) -> bool:
        """Put the source's next rows, or its end, into the graph; once in a step."""
        if source.end_sent or source in self._read_already or source in self._asleep:
            return False
        self._read_already.add(source)
        if is_unheard(source):
            return self._drop(source)
        try:
            batch = source.read(self._batch_rows)
        except Exception as error:
            if not self._survives(source, error):
                raise
            self._end_if_broken(source)
            self._moved = True
            return True
        if batch is not None:
            self._asked.clear()
            self._moved = True  # though nobody may be interested in what was read: more may wait
            if len(batch):
                self._put(source, batch)
        if source.exhausted:
            source.end_sent = True
            self._replicas.mark_end_untrusted(source)
            self._put(source, None)
        return batch is not None or source.end_sent

    def _drop(self, source: SourceDriver) -> bool:
        """Read a live source whose rows nobody takes any more, so that its feeder is not held up."""
        if not source.live:
            return False
        try:
            dropped = source.drop(self._batch_rows)
        except Exception:  # noqa: BLE001 - nobody needs it
            self._end_if_broken(source)
            return False
        self._moved |= dropped
        source.end_sent = source.exhausted
        return dropped

    def _end_if_broken(self, source: SourceDriver) -> None:
        """Read a source no more whose reader has raised."""
        if source.broken:
            source.end_sent = True
            source.close()

    def _demand(self, source: SourceDriver) -> bool:
        """Give what somebody waits for: rows if there are any, else a punctuation if the source makes them."""
        if source.promises_by_clock and source not in self._asked and source not in self._asleep:
            # A source that can promise has no rows to give, so it is asked for its promise first.
            punctuation = source.promise(Ground.DEMAND)
            if punctuation is not None:
                self._asked.add(source)
                self._put(source, source.batch_of(punctuation))
                return True
        return self._read(source)

    def _demand_of_step(self, step: Step) -> bool:
        """Ask a step that knows the time by itself, such as a stamp, how far it has come."""
        if step in self._asked:
            return False
        self._asked.add(step)
        step.operator.on_tick(self._clock.now())
        promised = step.operator.on_demand()
        self._release(step, promised)
        return bool(promised.batches or promised.side)

    def _ask_for_progress(self, waiting: Iterable[Step]) -> bool:
        """Let idle-waiting steps look for what they wait for; say whether any found it."""
        found = False
        for step in waiting:
            behind = self._backtrack(step, demanded=True)
            found = found or behind is not None
            self._run(behind)
        return found

    def _run_all(self) -> None:
        """Run until every queue is empty: a depth-first walk may leave a side branch behind."""
        for step in self._graph.steps:
            while step.waiting_arc() is not None:
                self._run(step)

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


def _end_of(arc: Arc) -> Emission:
    """Tell a step that an input has ended; a replica that nobody listens to has left already."""
    if not arc.heard:
        return NOTHING
    arc.ended = True
    arc.consumer.open_inputs -= 1
    return arc.consumer.operator.on_end(arc.port)


def _deliver(sink: Sink, batch: EventBatch, output: str) -> None:
    try:
        sink(batch)
    except Exception as cause:
        raise StepFailed.at(f"sink of {output}", None, None, cause) from cause
