"""Turns plans into the graph that the in-process runner executes: sources that it reads, and steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slackwater.plan.node import Node, SourceNode, StepNode, name_steps
from slackwater.plan.nodes.replicas import MergeReplicas
from slackwater.plan.rewrites.optimizer import optimized_in_process
from slackwater.runners.graph_parts import Step
from slackwater.runners.in_process.replicas import take_attendance
from slackwater.runners.in_process.source_driver import SourceDriver
from slackwater.runners.operator_graph import OperatorGraph, build_operators
from slackwater.runners.snapshot import describe_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from slackwater.operators.operator import Operator
    from slackwater.progress.clock import Clock
    from slackwater.progress.frontier import Port
    from slackwater.runners.graph_parts import Output, Sink


class SourceGraph(OperatorGraph):
    """The operator graph of a query, and the sources that feed it.

    Plans that share nothing become separate components of one graph; plans that share steps share them here too.
    """

    def __init__(
        self,
        names: Mapping[Node, str],
        operators: Mapping[StepNode, Operator[Any]],
        plan: Mapping[str, str],
        drivers: Mapping[Node, SourceDriver],
    ) -> None:
        super().__init__(names, operators, plan, drivers)
        assert not self.entrances, "all rows come from sources"
        self.sources = list(drivers.values())
        self.ends: list[tuple[Output, Output]] = []
        """The outputs whose rows somebody takes, and who puts them out; only those of events that have times."""

    def add_sink(self, node: Node, sink: Sink) -> tuple[Output, Output]:
        """Let somebody take the rows of a node, and note how far they are complete."""
        producer, output = super().add_sink(node, sink)
        output.ordered = node.properties.ordered and not node.properties.latent
        if not node.properties.latent:
            self.ends.append((producer, output))
        return producer, output

    def sources_above(self, step: Step, port: Port | None = None) -> set[SourceDriver]:
        """The sources that feed a step, or one of its inputs."""
        found: set[SourceDriver] = set()
        seen: set[Output] = set()
        ahead = [arc.producer for arc in (step.inputs if port is None else [step.inputs[port]])]
        while ahead:
            producer = ahead.pop()
            if isinstance(producer, SourceDriver):
                found.add(producer)
            elif isinstance(producer, Step) and producer not in seen:
                seen.add(producer)
                ahead += [arc.producer for arc in producer.inputs]
        return found

    def take_over(self, part: SourceGraph, swap: Mapping[Output, Output]) -> None:
        """Put steps and sources of another graph into the places of some, with those who take their rows."""
        for old, new in swap.items():
            for before, after in zip(old.outputs, new.outputs, strict=True):
                after.sinks, after.sinks_want_from = before.sinks, before.sinks_want_from
                self.ends = [(new, after) if output is before else (who, output) for who, output in self.ends]
            del self.nodes[old]
            if isinstance(old, SourceDriver):
                old.close()
        self.nodes |= part.nodes
        self.places = {node: place for node, place in self.places.items() if place[0] not in swap} | part.places
        self.steps = [swap.get(step, step) for step in self.steps]  # type: ignore[misc]
        self.sources = [swap.get(source, source) for source in self.sources]  # type: ignore[misc]


def build_graph(
    outputs: Sequence[tuple[Node, Sink]], clock: Clock, wake: Callable[[], None], resume: Mapping[str, Any]
) -> SourceGraph:
    """Build every operator once, fresh or from its snapshot, and connect them, up to the sinks."""
    roots = optimized_in_process(*(root for root, _ in outputs))
    names = name_steps(*roots)
    graph = build_nodes(names, clock, wake, resume, describe_steps(names))
    for root, (_, sink) in zip(roots, outputs, strict=True):
        graph.add_sink(root, sink)
    return graph


def build_nodes(
    names: Mapping[Node, str],
    clock: Clock,
    wake: Callable[[], None],
    resume: Mapping[str, Any],
    plan: Mapping[str, str],
) -> SourceGraph:
    """Build and connect some nodes, given with those they read before them. Sources are opened last."""
    steps = {node: name for node, name in names.items() if isinstance(node, StepNode)}
    operators = build_operators(steps, plan, resume, lambda node, name, state: node.build(name, state))
    together = _batches_mean_nothing(names)
    drivers: dict[Node, SourceDriver] = {
        node: SourceDriver(name, node, node.feed.open(clock, wake), clock.now(), together=together)
        for node, name in names.items()
        if isinstance(node, SourceNode)
    }
    graph = SourceGraph(names, operators, plan, drivers)
    for node, name in steps.items():
        if isinstance(node, MergeReplicas):
            take_attendance(graph.step_of(node), node, resume.get(name))
    return graph


def _batches_mean_nothing(nodes: Iterable[Node]) -> bool:
    """Whether pushes that wait may be taken together: no step goes by batches, and none by the order of processing.

    Where several sources have no times, their rows pass a union as they are read, a push of each in turn.
    """
    by_batch = any(node.goes_by_batches for node in nodes)
    sources = [node for node in nodes if isinstance(node, SourceNode)]
    return not by_batch and (len(sources) == 1 or not any(source.properties.latent for source in sources))
