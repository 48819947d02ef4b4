"""Replicas that come and go in a running query: who takes part in its merges, and how each of them stands.

All replicas are inputs of the plan from the beginning. One that waits is not read: what its source has, or gets, stays
there until it is attached. One that is detached is read, so that nobody who feeds it is held up, and not listened to.
One that has died comes back as a stream of the same plan with a source of its own, which takes its place.

Invariant: a merge has as many open inputs as it has attached replicas that have not ended.
Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section V-B.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slackwater.errors import PlanError, ReplicasGone, message
from slackwater.operators.replicas.by_column import MergeByColumnOperator
from slackwater.operators.replicas.compare import CompareReplicasOperator
from slackwater.operators.replicas.replica_merge import ReplicaMerge
from slackwater.plan.node import Node, SideOutput, SourceNode, walk
from slackwater.plan.nodes.compare_replicas import CompareReplicas
from slackwater.plan.nodes.replicas import MergeReplicas, as_replica
from slackwater.plan.nodes.revisions import CompleteAtEnd, UntrustedEnd
from slackwater.plan.rewrites.optimizer import optimized_in_process
from slackwater.runners.attendance import merge_of, sources_of
from slackwater.runners.graph_parts import Arc, Step
from slackwater.runners.in_process.replica_failures import reason_of
from slackwater.runners.in_process.replica_status import ReplicaStanding, standings_by_column
from slackwater.runners.in_process.source_driver import SourceDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant
    from slackwater.runners.graph_parts import Output
    from slackwater.runners.in_process.graph import SourceGraph

    Build = Callable[[dict[Node, str]], SourceGraph]


def take_attendance(step: Step, node: MergeReplicas, state: Any) -> None:
    """Note which replicas of a merge take part, at the beginning or as a snapshot has them."""
    for arc in step.inputs:
        arc.attached = arc.port not in node.attendance.standby if state is None else state.replicas[arc.port].attached
        arc.asleep = not arc.attached and arc.port in node.attendance.standby
    step.open_inputs = sum(arc.attached for arc in step.inputs)
    if state is not None:
        _merge_at(step).listen_again()


def sources_asleep(graph: SourceGraph) -> set[SourceDriver]:
    """The sources that nobody reads before a replica is attached. Cost: that of a walk through the graph."""
    if not any(arc.asleep for step in graph.steps for arc in step.inputs):
        return set()
    awake: set[Output] = set()
    producers: list[Output] = [*reversed(graph.steps), *graph.sources]
    for producer in producers:
        for output in producer.outputs:
            if output.sinks or any(not arc.asleep and arc.consumer in awake for arc in output.arcs):
                awake.add(producer)
    return {source for source in graph.sources if source not in awake}


class Replicas:
    """The replicas of the merges of one graph, by the nodes under which users know them."""

    def __init__(self, graph: SourceGraph) -> None:
        self._graph = graph
        self._merges = {step: node for step, node in graph.nodes.items() if isinstance(node, MergeReplicas)}
        self._known: dict[Node, list[tuple[Step, Port]]] = {}
        self._names: dict[tuple[Step, Port], str] = {}
        self._planned: dict[tuple[Step, Port], Node] = {}
        for step, merge in self._merges.items():
            assert isinstance(step, Step)
            for port, planned in enumerate(merge.inputs):
                self._planned[step, port] = planned
                self._names[step, port] = sources_of(planned)
            for node, port in merge.given.items():
                self._known.setdefault(node, []).append((step, port))

    def arc_of(self, replica: Node) -> Arc:
        """The input of a merge by which a replica comes."""
        places = self._known.get(replica, [])
        if len(places) != 1:
            facts = {"stream": replica.line, "replicas": ", ".join(self._names.values()) or "none"}
            what = "several merges of this query read this stream" if places else "this is not a replica of this query"
            raise PlanError(message(what, facts, "name a stream that was given to merge_replicas()"))
        ((step, port),) = places
        return step.inputs[port]

    def called(self, name: str) -> Node:
        """The replica that users know by the name of its stream."""
        (found,) = [node for node, places in self._known.items() for place in places if self._names[place] == name]
        return found

    def prepare_to_attach(self, arc: Arc) -> None:
        """Refuse to attach where nobody could listen."""
        step = arc.consumer
        facts = {"step": step.name, "replica": self._names[step, arc.port]}
        if self._merges[step].attendance.fixed:
            hint = "say so when the plan is written: merge_replicas(..., attachable=True), or standby=[...]"
            raise PlanError(message("this merge was not made for replicas that come later", facts, hint))
        if step.open_inputs == 0:
            hint = "attach another replica before the last one ends"
            raise PlanError(message("this merge has ended: all its replicas had", facts, hint))

    def attach(self, arc: Arc, complete_from: Instant) -> None:
        """Listen to a replica."""
        if arc.attached and not arc.ended:
            raise PlanError(message("this replica is attached already", self._facts(arc), "detach it first"))
        self.require_source(arc)
        merge_of(arc).attach(arc.port, complete_from)
        arc.attached, arc.asleep, arc.ended = True, False, False
        arc.consumer.open_inputs += 1

    def require_source(self, arc: Arc) -> None:
        """Refuse a replica from which no row can come any more."""
        if self._has_ended(arc):
            hint = "attach a stream with a new source instead of it: attach(new, complete_from=..., instead_of=old)"
            raise PlanError(message("this replica has ended and sends no more rows", self._facts(arc), hint))

    def _facts(self, arc: Arc) -> dict[str, str]:
        return {"step": arc.consumer.name, "replica": self._names[arc.consumer, arc.port]}

    def leave(self, arc: Arc, error: BaseException) -> ReplicasGone | None:
        """Let a replica leave that has failed; if it was the last that was attached, return what that means."""
        merge = merge_of(arc)
        merge.leave(arc.port, reason_of(error))
        if not arc.attached or any(
            other.attached and not other.cut for other in arc.consumer.inputs if other is not arc
        ):
            return None
        reasons = {
            f"replica {port} ({self._names[arc.consumer, port]})": replica.left
            for port, replica in enumerate(merge.replicas)
            if replica.left
        }
        return ReplicasGone.of(arc.consumer.name, reasons)

    def left_before(self) -> list[Arc]:
        """The inputs of replicas that had left when the snapshot was taken from which this query goes on."""
        arcs = [arc for step in self._merges for arc in (step.inputs if isinstance(step, Step) else ())]
        return [arc for arc in arcs if merge_of(arc).replicas[arc.port].left]

    def why_left(self, arc: Arc) -> str:
        """Why a replica has left; empty if it has not."""
        return merge_of(arc).replicas[arc.port].left

    def detach(self, arc: Arc) -> None:
        """Listen to a replica no longer. The merge has still to learn of its end, unless it had ended."""
        facts = self._facts(arc)
        if not arc.attached:
            raise PlanError(message("this replica is not attached", facts))
        if not any(other.attached for other in arc.consumer.inputs if other is not arc):
            hint = "attach another one first, or close() the query"
            raise PlanError(message("this is the only replica that is attached", facts, hint))
        merge_of(arc).detach(arc.port)

    def stand_in(self, arc: Arc, replica: Node, build: Build) -> list[Output]:
        """Let a new stream of the same plan take the place of a replica that is over; return what it replaces."""
        place = arc.consumer, arc.port
        facts = {"step": arc.consumer.name, "replica": self._names[place]}
        if arc.attached and not arc.ended:
            raise PlanError(message("this replica is attached, and has not ended", facts, "detach it first"))
        (planned,) = optimized_in_process(as_replica(replica))
        olds, news = _steps_of(self._planned[place]), _steps_of(planned)
        if len(olds) != len(news) or not all(map(_alike, olds, news)):
            facts |= {"its plan": olds[-1].line, "the new one": news[-1].line}
            hint = "write the same steps on the new source: names, columns and what is known of them must agree"
            raise PlanError(message("a replica can only be replaced by one of the same plan", facts, hint))
        producers = {node: producer for producer, node in self._graph.nodes.items()}
        replaced = [producers[node] for node in olds]
        self._refuse_shared(arc, replaced, facts)
        names = {node: old.name for node, old in zip(news, replaced, strict=True)}
        part = build({node: names.get(node, node.verb) for node in walk(planned)})
        self._graph.take_over(part, dict(zip(replaced, (part.places[node][0] for node in news), strict=True)))
        producer, output = part.places[planned]
        arc.consumer.inputs[arc.port] = new = Arc(producer, arc.consumer, arc.port)
        output.arcs.append(new)
        if arc.attached:
            merge_of(arc).detach(arc.port)
        new.attached = False
        self._planned[place], self._names[place] = planned, sources_of(planned)
        self._known.setdefault(replica, []).append(place)
        return replaced

    def _refuse_shared(self, arc: Arc, replaced: list[Output], facts: dict[str, str]) -> None:
        for producer in replaced:
            for output in producer.outputs:
                if any(one is not arc and one.consumer not in replaced for one in output.arcs):
                    facts = {**facts, "shared": producer.name}
                    raise PlanError(message("this replica shares a step with others, and cannot be replaced", facts))

    def mark_end_untrusted(self, source: SourceDriver) -> None:
        """Let readers of replicas know which of them get only flushes, now that a source has ended."""
        for step, node in self._graph.nodes.items():
            if not isinstance(node, MergeReplicas | CompareReplicas):
                continue
            assert isinstance(step, Step)
            for arc in step.inputs:
                above = self._graph.sources_above(step, arc.port)
                if source in above and all(one.end_sent for one in above) and self._flushes(arc):
                    reader = step.operator
                    assert isinstance(reader, ReplicaMerge | CompareReplicasOperator)
                    reader.mark_end_untrusted(arc.port, max(one.newest for one in above))

    def _flushes(self, arc: Arc) -> bool:
        """Whether steps of a replica flush at its end, which nobody has declared to be more than a cut."""
        node = self._graph.nodes.get(arc.producer)
        return isinstance(node, UntrustedEnd) and not any(isinstance(one, CompleteAtEnd) for one in walk(node))

    def waits_to_join(self, arc: Arc) -> bool:
        """Whether a replica is attached and its punctuations do not count yet."""
        return arc.port in merge_of(arc).waits_to_join()

    def standings(self) -> list[ReplicaStanding]:
        """How every replica stands, also those that a column names."""
        found: list[ReplicaStanding] = []
        for step, node in self._graph.nodes.items():
            if isinstance(node, MergeReplicas):
                found += self._standings_at(step, node)
            elif isinstance(step, Step) and isinstance(step.operator, MergeByColumnOperator):
                found += standings_by_column(step.name, step.operator, calendar=node.schema.calendar)
        return found

    def _standings_at(self, step: Any, merge: MergeReplicas) -> Iterator[ReplicaStanding]:
        merged_before, replicas = step.operator.complete_before, step.operator.replicas
        joined = [replica.has_joined(merged_before) for replica in replicas]
        leading = [has and not arc.ended for has, arc in zip(joined, step.inputs, strict=True)]
        left_out, open_events = step.operator.left_out_by_replica(), step.operator.open_events()
        for arc, replica, has_joined in zip(step.inputs, replicas, joined, strict=True):
            yield ReplicaStanding(
                step.name,
                arc.port,
                self._names[step, arc.port],
                attached=replica.attached,
                joined=has_joined,
                ended=self._has_ended(arc),
                complete_from=replica.complete_from,
                complete_before=replica.complete_before,
                merged_before=merged_before,
                alone=replica.attached and not has_joined and not any(leading),
                calendar=merge.schema.calendar,
                left_out=left_out[arc.port],
                left=replica.left,
                times_left=replica.times_left,
                open_events=open_events,
            )

    def _has_ended(self, arc: Arc) -> bool:
        if arc.cut:
            return any(source.end_sent for source in self._graph.sources_above(arc.consumer, arc.port))
        return (arc.attached and arc.ended) or has_ended(arc.producer)


def has_ended(producer: Output) -> bool:
    """Whether a producer has put out its last."""
    if isinstance(producer, Step):
        return producer.open_inputs == 0
    return isinstance(producer, SourceDriver) and producer.end_sent


def _merge_at(step: Step) -> ReplicaMerge[Any]:
    assert isinstance(step.operator, ReplicaMerge)
    return step.operator


def _steps_of(node: Node) -> list[Node]:
    return [one for one in walk(node) if not isinstance(one, SideOutput)]


def _alike(old: Node, new: Node) -> bool:
    """Whether two nodes do the same, but for the source that the rows come from."""
    same = type(old) is type(new) and old.schema.shown == new.schema.shown and old.properties == new.properties
    return same and (isinstance(old, SourceNode) or old.line == new.line)
