"""Turns a plan into the graph of steps and arcs that the runner executes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from slackwater.plan.node import Node, SideOutput, SourceNode, StepNode, name_steps
from slackwater.plan.nodes.ordering import LatenessStep
from slackwater.plan.nodes.replicas import MergeReplicas
from slackwater.plan.rewrites.optimizer import optimized_in_process
from slackwater.policies.cadence import CadenceUnit
from slackwater.runners.graph_parts import Arc, Step
from slackwater.runners.in_process.replicas import take_attendance
from slackwater.runners.in_process.source_driver import SourceDriver
from slackwater.runners.snapshot import describe_steps, require_same_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from slackwater.progress.clock import Clock
    from slackwater.progress.frontier import Port
    from slackwater.runners.graph_parts import Output, Sink


@dataclass
class Graph:
    """The sources, and the steps in an order in which producers come before consumers.

    Plans that share nothing become separate components of one graph; plans that share steps share them here too.
    """

    sources: list[SourceDriver] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    plan: dict[str, str] = field(default_factory=dict)
    ends: list[tuple[Step | SourceDriver, Output]] = field(default_factory=list)
    """The outputs whose rows somebody takes, and who puts them out; only those of events that have times."""

    nodes: dict[Step | SourceDriver, Node] = field(default_factory=dict)
    """What each source and step does."""

    def sources_above(self, step: Step, port: Port | None = None) -> set[SourceDriver]:
        """The sources that feed a step, or one of its inputs."""
        found: set[SourceDriver] = set()
        seen: set[Step | SourceDriver] = set()
        ahead = [arc.producer for arc in (step.inputs if port is None else [step.inputs[port]])]
        while ahead:
            producer = ahead.pop()
            if isinstance(producer, SourceDriver):
                found.add(producer)
            elif producer not in seen:
                seen.add(producer)
                ahead += [arc.producer for arc in producer.inputs]
        return found


def build_graph(
    outputs: Sequence[tuple[Node, Sink]], clock: Clock, wake: Callable[[], None], resume: Mapping[str, Any]
) -> Graph:
    """Build every operator once, fresh or from its snapshot, and connect them, up to the sinks."""
    roots = optimized_in_process(*(root for root, _ in outputs))
    names = name_steps(*roots)
    plan = describe_steps(names)
    require_same_plan(resume, plan)
    graph, made = build_nodes(names, clock, wake, resume)
    graph.plan = plan
    for root, (_, sink) in zip(roots, outputs, strict=True):
        producer, output = made[root]
        output.sinks.append(sink)
        output.ordered = root.properties.ordered and not root.properties.latent
        if not root.properties.latent:
            graph.ends.append((producer, output))
    return graph


def build_nodes(
    names: Mapping[Node, str], clock: Clock, wake: Callable[[], None], resume: Mapping[str, Any]
) -> tuple[Graph, dict[Node, tuple[Step | SourceDriver, Output]]]:
    """Build and connect some nodes, given with those they read before them; return who puts out what each gives."""
    graph = Graph()
    steps: dict[Node, Step] = {}
    made: dict[Node, tuple[Step | SourceDriver, Output]] = {}
    together = _batches_mean_nothing(names)
    for node, name in names.items():
        if isinstance(node, SourceNode):
            driver = SourceDriver(name, node, node.feed.open(clock, wake), clock.now(), together=together)
            graph.sources.append(driver)
            made[node] = (driver, driver)
        elif isinstance(node, StepNode):
            step = Step(name, node.build(name, resume.get(name)), len(node.inputs), node.side_outputs())
            for port, source in enumerate(node.inputs):
                producer, output = made[source]
                arc = Arc(producer, step, port)
                output.arcs.append(arc)
                step.inputs.append(arc)
            if isinstance(node, MergeReplicas):
                take_attendance(step, node, resume.get(name))
            graph.steps.append(step)
            steps[node] = step
            made[node] = (step, step)
        elif isinstance(node, SideOutput):
            step = steps[node.step]
            made[node] = (step, step.side[node.output])
    graph.nodes = {producer: node for node, (producer, output) in made.items() if producer is output}
    return graph, made


def _batches_mean_nothing(nodes: Iterable[Node]) -> bool:
    """Whether pushes that wait may be taken together: no step goes by batches, and none by the order of processing.

    Where several sources have no times, their rows pass a union as they are read, a push of each in turn.
    """
    by_batch = any(isinstance(node, LatenessStep) and node.cadence.unit is CadenceUnit.BATCH for node in nodes)
    sources = [node for node in nodes if isinstance(node, SourceNode)]
    return not by_batch and (len(sources) == 1 or not any(source.properties.latent for source in sources))
