"""What is done when something fails that only replicas need: the replica leaves its merge, and the others go on.

A replica's chain is all that leads to its merge and to nothing else: its sources and the steps on them. When one of
these raises, whatever it is, the chain is cut off from the merge and from sources that others read, too; its steps are
made anew, so that the replica can be attached again on its own source. Late rows that its steps divert are no reason to
end the query: their sinks have ended until then. A live source without anybody to read it is read and dropped, so that
whoever feeds it is not held up.

What several streams need, or a comparison, or a sink, ends the query when it fails, as ever: docs/decisions/0007.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.errors import PlanError, message
from slackwater.operators.emission import DIVERTED
from slackwater.operators.replicas.replica_merge import ReplicaMerge
from slackwater.plan.node import StepNode
from slackwater.runners.graph_parts import Step
from slackwater.runners.in_process.source_driver import SourceDriver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slackwater.runners.graph_parts import Arc, Output
    from slackwater.runners.in_process.graph import SourceGraph
    from slackwater.runners.in_process.replicas import Replicas


class ReplicaFailures:
    """Lets replicas leave a running query when what only they need has failed, and come back."""

    def __init__(self, graph: SourceGraph, replicas: Replicas) -> None:
        self._graph = graph
        self._replicas = replicas
        for arc in replicas.left_before():
            self._cut_off(arc)

    def survives(self, failed: Output, error: Exception) -> bool:
        """Let the replicas leave that alone needed what has failed; say whether the query can go on."""
        arcs = [] if isinstance(error, MemoryError) else replicas_fed_by(failed)
        for arc in arcs:
            if not arc.cut:
                self.let_leave(arc, error)
        return bool(arcs)

    def let_leave(self, arc: Arc, error: Exception) -> None:
        """Let a replica leave its merge; if it was the last one, the merge has failed."""
        gone = self._replicas.leave(arc, error)
        self.divert_left_out(arc)
        if gone is not None and not self.survives(arc.consumer, gone):
            raise gone from error
        self._graph.queued -= arc.clear()
        self._cut_off(arc)
        if gone is None and arc.attached and not arc.ended:
            arc.queue.append(None)  # the merge may have to end: all others have

    def divert_left_out(self, arc: Arc) -> None:
        """Hand over what a merge leaves out because a replica is gone."""
        merge = arc.consumer.operator
        assert isinstance(merge, ReplicaMerge)
        self._graph.release(arc.consumer, merge.left_out_between())

    def put_back(self, arc: Arc) -> None:
        """Let rows of a replica come to its merge again that has left, from the sources that it had."""
        for step in put_back(arc):
            step.open_inputs = len(step.inputs)
            diverted = [step.side[output] for output in DIVERTED if output in step.side]
            self._graph.open_outputs += sum(len(output.sinks) for output in diverted)

    def _cut_off(self, arc: Arc) -> None:
        graph = self._graph
        for step in cut_off(arc):
            graph.queued -= step.held_back + sum(above.clear() for above in step.inputs)
            step.open_inputs = step.held_back = step.counters.buffered = 0
            step.idle_since = None
            node = graph.nodes[step]
            assert isinstance(node, StepNode)
            if not isinstance(step.operator, ReplicaMerge):
                step.operator = node.build(step.name)
            for output in DIVERTED:
                if output in step.side:
                    graph.put(step.side[output], None)


def reason_of(error: BaseException) -> str:
    """Say in one line why a replica left: what the error says, without its hint.

    >>> from slackwater.errors import SourceFailed
    >>> reason_of(SourceFailed.unreadable("blue", OSError("disk gone")))
    'SourceFailed: a source could not be read; source blue; cause OSError: disk gone'
    """
    lines = [" ".join(line.split()) for line in str(error).splitlines()]
    shown = "; ".join(line for line in lines if line and not line.startswith("hint: "))
    return f"{type(error).__name__}: {shown}" if shown else type(error).__name__


def replicas_fed_by(producer: Output) -> list[Arc]:
    """The inputs of merges that a producer leads to; none if it leads to anything else as well."""
    found: list[Arc] = []
    seen: set[Output] = {producer}
    ahead = [producer]
    while ahead:
        for output in _needed_outputs(ahead.pop()):
            if output.sinks:
                return []
            for arc in output.arcs:
                if isinstance(arc.consumer.operator, ReplicaMerge):
                    found.append(arc)
                elif arc.consumer not in seen:
                    seen.add(arc.consumer)
                    ahead.append(arc.consumer)
    return found


def cut_off(arc: Arc) -> list[Step]:
    """Cut a replica off from its merge, and its steps from their sources; return the steps that nobody needs now."""
    arc.cut = True
    producer = arc.producer
    if not isinstance(producer, Step) or not _is_unneeded(producer):
        return []
    return [producer, *(step for above in producer.inputs if not above.cut for step in cut_off(above))]


def put_back(arc: Arc) -> list[Step]:
    """Undo that; return the steps that are needed again."""
    steps = list(_cut_steps_above(arc))
    for step in steps:
        if isinstance(step.operator, ReplicaMerge):
            facts, hint = {"step": step.name}, "attach a stream with new sources instead of it: instead_of=..."
            raise PlanError(message("this replica is a merge whose own replicas have gone", facts, hint))
        diverted = [step.side[output] for output in DIVERTED if output in step.side]
        readers = [reader.consumer.name for output in diverted for reader in output.arcs]
        if readers:
            facts, hint = {"step": step.name, "read by": ", ".join(readers)}, "attach a stream instead of it"
            raise PlanError(message("late rows of this replica go to a step that has ended", facts, hint))
    arc.cut = False
    for step in steps:
        for above in step.inputs:
            if isinstance(above.producer, SourceDriver) and is_unread(above.producer):
                above.producer.begin_anew()
            above.cut = False
    if isinstance(arc.producer, SourceDriver):
        arc.producer.begin_anew()
    return steps


def is_unread(source: SourceDriver) -> bool:
    """Whether all that a source leads to has been cut off."""
    return bool(source.arcs) and not source.sinks and all(arc.cut for arc in source.arcs)


def _cut_steps_above(arc: Arc) -> Iterator[Step]:
    producer = arc.producer
    if isinstance(producer, Step) and producer.inputs and all(above.cut for above in producer.inputs):
        yield producer
        for above in producer.inputs:
            yield from _cut_steps_above(above)


def _is_unneeded(step: Step) -> bool:
    return all(arc.cut for output in _needed_outputs(step) for arc in output.arcs)


def _needed_outputs(producer: Output) -> list[Output]:
    """All outputs but those of rows that did not go on, such as late ones."""
    side = producer.side.items() if isinstance(producer, Step) else ()
    return [producer, *(output for name, output in side if name not in DIVERTED)]
