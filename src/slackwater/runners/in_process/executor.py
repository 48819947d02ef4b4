"""Executes a query graph depth first, and asks sources for punctuations when somebody idle-waits.

After each execution step the next operator is chosen by three rules:
    forward    the operator has put something out: go on to its consumer
    encore     something is left in its input: execute it again
    backtrack  otherwise go to the producer of the input it waits for, and repeat the rules there; when that leads to a
               source with nothing to give, the source punctuates on demand
Paper: Bai, Thakkar, Wang, Zaniolo. Optimizing Timestamp Management in Data Stream Management Systems. ICDE 2007,
sections 3 to 5.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from slackwater.errors import BrokenOrder, BrokenPunctuation
from slackwater.operators.replicas.by_column import MergeByColumnOperator
from slackwater.operators.replicas.replica_merge import ReplicaMerge
from slackwater.runners.graph_parts import Step
from slackwater.runners.in_process.feedback import pass_back
from slackwater.runners.in_process.source_driver import SourceDriver
from slackwater.runners.operator_graph import take_first

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slackwater.operators.emission import Emission
    from slackwater.progress.clock import Clock
    from slackwater.progress.instants import Instant
    from slackwater.runners.graph_parts import Arc
    from slackwater.runners.in_process.graph import SourceGraph
    from slackwater.runners.in_process.reading import SourceReading
    from slackwater.runners.in_process.replica_failures import ReplicaFailures


class DepthFirstExecutor:
    """Lets the steps of a graph take what waits for them, and looks for what they wait for."""

    def __init__(self, graph: SourceGraph, clock: Clock, reading: SourceReading, failures: ReplicaFailures) -> None:
        self._graph = graph
        self._clock = clock
        self._reading = reading
        self._failures = failures
        merges = (ReplicaMerge, MergeByColumnOperator)
        self._may_overlap_little = {step for step in graph.steps if isinstance(step.operator, merges)}

    def run_all(self) -> None:
        """Run until every queue is empty: a depth-first walk may leave a side branch behind."""
        self._graph.run_each(self._run)

    def ask_for_progress(self, waiting: Iterable[Step]) -> bool:
        """Let idle-waiting steps look for what they wait for; say whether any found it."""
        found = False
        for step in waiting:
            behind = self._backtrack(step, demanded=True)
            while behind is None and self._goes_on_without(step):
                found = True
                behind = step.next_from_here() or self._backtrack(step, demanded=True)
            found = found or behind is not None
            self._run(behind)
        return found

    def _goes_on_without(self, step: Step) -> bool:
        """Let a step go on without the source that it waits for, if that has nothing to give; say whether it does."""
        port = step.operator.idle_waiting_on() if step.operator.asks_who_is_quiet else None
        source = None if port is None else step.inputs[port].producer
        if port is None or not isinstance(source, SourceDriver) or not source.quiet:
            return False
        now = self._clock.now()
        step.operator.on_tick(now)
        self._graph.release(step, step.operator.on_quiet(port))
        self._note_waiting(step, now)
        return True

    # ---- choosing the next operator --------------------------------------------------------------------------------

    def _run(self, step: Step | None) -> None:
        while step is not None:
            self._execute(step)
            if step.operator.begins_feedback:
                pass_back(step)
            step = step.next_from_here() or self._backtrack(step, demanded=False)

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
            return arc.consumer if demanded and self._reading.demand(producer) else None
        assert isinstance(producer, Step)
        found = producer.next_from_here()
        if found is not None:
            return found
        if demanded and producer.operator.ticks and self._reading.demand_of_step(producer):
            return arc.consumer
        return self._backtrack(producer, demanded=demanded)

    # ---- executing -------------------------------------------------------------------------------------------------

    def _execute(self, step: Step) -> None:
        arc = step.waiting_arc()
        if arc is None:
            return
        operator = step.operator
        if operator.ticks:
            operator.on_tick(self._clock.now())
        # Idle-waiting ends when something to go on with is there, not when the work on it is done.
        begun = self._clock.now() if step.idle_since is not None else 0
        emission = self._taken(arc)
        if emission is None:
            return
        if step.holds:
            self._note_waiting(step, begun)
        self._graph.finish(arc, emission)
        if step in self._may_overlap_little:
            self._warn_of_little_overlap(step)

    def _taken(self, arc: Arc) -> Emission | None:
        """What a step releases when it takes a batch, or an end; None if replicas have left because it failed."""
        step = arc.consumer
        try:
            return take_first(arc)
        except (BrokenOrder, BrokenPunctuation) as error:
            if isinstance(step.operator, ReplicaMerge):  # which fails of what this replica has sent
                self._failures.let_leave(arc, error)
            elif not self._failures.survives(step, error):
                raise
        except Exception as error:
            if not self._failures.survives(step, error):
                raise
        return None

    def _note_waiting(self, step: Step, begun: Instant) -> None:
        counters = step.counters
        buffered = counters.buffered = step.operator.buffered()
        counters.peak_buffered = max(counters.peak_buffered, buffered, step.operator.peak_buffered())
        held = step.operator.held_back()
        if held == step.held_back:
            return
        self._graph.queued += held - step.held_back
        step.held_back = held
        if held and step.idle_since is None:
            step.idle_since = self._clock.now()
        elif not held and step.idle_since is not None:
            counters.idle_waiting += begun - step.idle_since
            step.idle_since = None

    def _warn_of_little_overlap(self, step: Step) -> None:
        """Say, once for each merge, that its replicas hardly share any rows."""
        assert isinstance(step.operator, ReplicaMerge | MergeByColumnOperator)
        overlap = step.operator.overlap()
        if overlap.is_small:
            self._may_overlap_little.discard(step)
            warnings.warn(overlap.warning(step.name), stacklevel=2)
