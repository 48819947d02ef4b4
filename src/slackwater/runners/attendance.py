"""Replicas that come and go by control records: who of the inputs of a merge takes part.

All replicas are inputs of the plan from the beginning, and all of them are read. What comes from one that is detached
is dropped by the merge. It has no end while it is detached, so that attached again it begins anew.

Invariant: a merge has as many open inputs as it has attached replicas that have not ended.
Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section V-B.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slackwater.errors import PlanError, message
from slackwater.operators.replicas.replica_merge import ReplicaMerge
from slackwater.plan.node import Node, SourceNode, walk
from slackwater.plan.nodes.replicas import MergeReplicas
from slackwater.runners.control_records import ReplicaOf
from slackwater.runners.operator_graph import end_input

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slackwater.progress.instants import Instant
    from slackwater.runners.graph_parts import Arc
    from slackwater.runners.operator_graph import OperatorGraph


class Attendance:
    """The replicas of the merges of a graph, by the names of their streams."""

    def __init__(self, graph: OperatorGraph) -> None:
        self._graph = graph
        self._found: dict[str, list[tuple[Arc, MergeReplicas]]] = {}
        for step in graph.steps:
            node = graph.nodes[step]
            if isinstance(node, MergeReplicas):
                for arc, replica in zip(step.inputs, node.inputs, strict=True):
                    self._found.setdefault(sources_of(replica), []).append((arc, node))

    def about(self) -> dict[str, ReplicaOf]:
        """What may be asked of each."""
        return {name: ReplicaOf(found[0][1].schema.calendar, _why_fixed(found)) for name, found in self._found.items()}

    def require(self, action: str, replica: str) -> None:
        """Refuse to attach one that is attached, and to detach one that is not, or that is the only one."""
        arc = self._arc(replica)
        facts = {"step": arc.consumer.name, "replica": replica}
        if action == "attach" and arc.attached:
            raise PlanError(message("this replica is attached already", facts, "detach it first"))
        if action == "detach" and not arc.attached:
            raise PlanError(message("this replica is not attached", facts))
        if action == "detach" and not any(other.attached for other in arc.consumer.inputs if other is not arc):
            raise PlanError(message("this is the only replica that is attached", facts, "attach another one first"))

    def attach(self, replica: str, complete_from: Instant) -> Iterator[None]:
        """Listen to a replica."""
        arc = self._arc(replica)
        merge_of(arc).attach(arc.port, complete_from)
        arc.attached, arc.ended = True, False
        arc.consumer.open_inputs += 1
        yield from self._left_out(arc)

    def detach(self, replica: str) -> Iterator[None]:
        """Listen to a replica no longer."""
        arc = self._arc(replica)
        merge_of(arc).detach(arc.port)
        yield from self._left_out(arc)
        self._graph.release(arc.consumer, end_input(arc))
        arc.attached = False
        yield

    def _left_out(self, arc: Arc) -> Iterator[None]:
        """Hand over what a merge leaves out because a replica has come or gone."""
        self._graph.release(arc.consumer, merge_of(arc).left_out_between())
        yield

    def _arc(self, replica: str) -> Arc:
        ((arc, _),) = self._found[replica]
        return arc


def note_attendance(graph: OperatorGraph) -> None:
    """Note which replicas of merges take part, at the beginning or as a snapshot has them."""
    for step in graph.steps:
        if isinstance(step.operator, ReplicaMerge):
            for arc, replica in zip(step.inputs, step.operator.replicas, strict=True):
                arc.attached = replica.attached
            step.open_inputs = sum(arc.attached for arc in step.inputs)


def sources_of(replica: Node) -> str:
    """What a replica is called: by the streams that it is made of."""
    return ", ".join(one.name for one in walk(replica) if isinstance(one, SourceNode))


def merge_of(arc: Arc) -> ReplicaMerge[Any]:
    """The merge that an input is one of."""
    assert isinstance(arc.consumer.operator, ReplicaMerge)
    return arc.consumer.operator


def _why_fixed(found: list[tuple[Arc, MergeReplicas]]) -> str:
    if len(found) > 1:
        return "several replicas of the query are called so: sw.stream(..., name=...) gives each its own"
    if found[0][1].attendance.fixed:
        return "its merge was not made for replicas that come and go: merge_replicas(..., attachable=True)"
    return ""
