"""The operators of a plan, connected by queues: the graph that every runner executes.

A runner puts batches in where rows enter, lets steps take what waits at their inputs, and what comes out goes to sinks.
How the rows come, when they end and which step is next is the runner's matter. In process every output passes on its
end behind its last batch (`put(output, None)`), since sources end one by one; a shard on Spark ends as a whole
(`end_all`).

    entrance ─▶ queue ─▶ [ step ] ─▶ queue ─▶ [ step ] ─▶ sink
                            └─ side output ─▶ queue ─▶ [ step ] ─▶ sink

Invariants: producers stand before their consumers. When a run is over every queue is empty; what is held is held inside
operators, so that a snapshot has it all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from slackwater.errors import StepFailed
from slackwater.operators.emission import NOTHING
from slackwater.plan.node import SideOutput, StepNode
from slackwater.progress.instants import FOREVER
from slackwater.runners.graph_parts import Arc, Output, Step
from slackwater.runners.result import Counters
from slackwater.runners.snapshot import Snapshot, require_same_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from slackwater.events.batch import EventBatch
    from slackwater.operators.emission import Emission
    from slackwater.operators.operator import Operator
    from slackwater.plan.node import Node
    from slackwater.runners.graph_parts import Sink

Build: TypeAlias = "Callable[[StepNode, str, Any], Operator[Any]]"
"""Makes the operator of a node, by the name of its step and, unless it is fresh, the state it had."""


def build_operators(
    names: Mapping[StepNode, str], plan: Mapping[str, str], resume: Mapping[str, Any], build: Build
) -> dict[StepNode, Operator[Any]]:
    """Build the operators of some steps, fresh or as a snapshot has them, which must be one of this plan."""
    require_same_plan(resume, plan)
    return {node: build(node, name, resume.get(name)) for node, name in names.items()}


class OperatorGraph:
    """Operators at their places: steps, connected by arcs, side outputs included.

    `names` has the nodes, with those that others read before them; those without an operator are done elsewhere.
    `sources` has who puts out what some of these give. What a step reads besides comes by an entrance of its own.
    """

    def __init__(
        self,
        names: Mapping[Node, str],
        operators: Mapping[StepNode, Operator[Any]],
        plan: Mapping[str, str],
        sources: Mapping[Node, Output] | None = None,
    ) -> None:
        self.plan = dict(plan)
        """What each step is, in words: a snapshot is of this plan."""

        self.steps: list[Step] = []
        self.nodes: dict[Output, Node] = {output: node for node, output in (sources or {}).items()}
        """What each source and step does."""

        self.places: dict[Node, tuple[Output, Output]] = {node: (one, one) for one, node in self.nodes.items()}
        """Of every node, who puts out what it gives, and by which output."""

        self.entrances: dict[StepNode, Output] = {}
        """Where batches come in for a step whose input is not in the graph."""

        self.open_outputs = 0
        """How many sinks have not come to their end."""

        self.queued = self.peak_queued = 0
        """How many elements wait, in queues and where runners add them; and the most that ever did."""

        self.moved = False
        """Whether anything was put out since somebody has cleared this."""

        for node, name in names.items():
            if isinstance(node, StepNode) and node in operators:
                self._add_step(node, name, operators[node])
            elif isinstance(node, SideOutput) and node.step in self.places:
                step = self.step_of(node.step)
                self.places[node] = step, step.side[node.output]

    def _add_step(self, node: StepNode, name: str, operator: Operator[Any]) -> None:
        step = Step(name, operator, len(node.inputs), node.side_outputs())
        for port, source in enumerate(node.inputs):
            producer, output = self.places[source] if source in self.places else self._entrance(node, name)
            arc = Arc(producer, step, port)
            output.arcs.append(arc)
            step.inputs.append(arc)
        self.steps.append(step)
        self.nodes[step], self.places[node] = node, (step, step)

    def _entrance(self, node: StepNode, name: str) -> tuple[Output, Output]:
        entrance = self.entrances[node] = Output(f"input of {name}", Counters())
        return entrance, entrance

    def step_of(self, node: StepNode) -> Step:
        """The step that does what a node says."""
        step, _ = self.places[node]
        assert isinstance(step, Step)
        return step

    def add_sink(self, node: Node, sink: Sink) -> tuple[Output, Output]:
        """Let somebody take the rows of a node; return who puts them out, and by which output."""
        producer, output = self.places[node]
        output.sinks.append(sink)
        self.open_outputs += 1
        return producer, output

    # ---- feeding ---------------------------------------------------------------------------------------------------

    def put(self, output: Output, batch: EventBatch | None) -> None:
        """Put a batch into an output, or its end: into the queues of who reads it, and to its sinks."""
        self.moved = True
        if batch is None:
            self._put_end(output)
            return
        size, rows = len(batch), batch.rows
        output.counters.rows_out += rows
        output.counters.punctuations_out += size - rows
        for arc in output.arcs:
            if not arc.cut:
                arc.queue.append(batch)
                self.queued += size
        self.peak_queued = max(self.peak_queued, self.queued)
        if output.sinks:
            output.note_progress(batch)
            if rows:
                for sink in output.sinks:
                    _deliver(sink, batch, output.name)

    def _put_end(self, output: Output) -> None:
        for arc in output.arcs:
            if not arc.cut:
                arc.queue.append(None)
        self.open_outputs -= len(output.sinks)
        output.complete_before = FOREVER

    def release(self, step: Step, emission: Emission) -> None:
        """Put what a step has released into its outputs."""
        for batch in emission.batches:
            self.put(step, batch)
        if emission.side:
            for output, batch in emission.side:
                self.put(step.side[output], batch)

    def steps_behind(self, producer: Output) -> list[Step]:
        """All steps that what somebody puts out may come to, in the order of the plan."""
        found: set[Step] = set()
        ahead: list[Output] = [producer]
        while ahead:
            for output in ahead.pop().outputs:
                ahead += [arc.consumer for arc in output.arcs if arc.consumer not in found]
                found |= {arc.consumer for arc in output.arcs}
        return [one for one in self.steps if one in found]

    # ---- executing -------------------------------------------------------------------------------------------------

    def execute(self, step: Step) -> None:
        """Let a step take what waits first at one of its inputs, if anything does."""
        arc = step.waiting_arc()
        if arc is not None:
            self.finish(arc, take_first(arc))

    def finish(self, arc: Arc, emission: Emission) -> None:
        """Remove what a step has taken from an input, and put out what that released."""
        step, batch = arc.consumer, arc.queue.popleft()
        if batch is not None:
            size, rows = len(batch), batch.rows
            step.counters.rows_in += rows
            step.counters.punctuations_in += size - rows
            self.queued -= size
        self.release(step, emission)
        if batch is None:
            self._finish_end(arc)

    def _finish_end(self, arc: Arc) -> None:
        if arc.attached and arc.consumer.open_inputs == 0:
            for output in arc.consumer.outputs:
                self.put(output, None)
        if arc.cut:
            arc.attached = False

    def run(self) -> None:
        """Execute steps until every queue is empty; a batch goes as far down as it can before the next is taken."""
        self.run_each(self._run_down)

    def _run_down(self, first: Step) -> None:
        step: Step | None = first
        while step is not None:
            self.execute(step)
            step = step.next_from_here()

    def run_each(self, run: Callable[[Step], None]) -> None:
        """Let a runner execute from every step at which something waits, until that is so nowhere.

        It may look around as it does so, and read a source: then something waits again at a step that was passed.
        """
        found = True
        while found:
            found = False
            for step in self.steps:
                while step.waiting_arc() is not None:
                    found = True
                    run(step)

    def end_all(self) -> Iterator[None]:
        """End all inputs of every step, at one moment: nothing will be put in any more.

        Producers come first, and a step learns of its first end when all is in that they have flushed. So what they
        have not sent yet (send_more) must be sent by the runner wherever this stops.
        """
        for step in self.steps:
            for arc in step.inputs:
                self.release(step, end_input(arc))
                self.run()
                yield

    # ---- its state -------------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The state of every operator, by the name of its step; taken when the queues are empty."""
        return Snapshot({step.name: step.operator.snapshot() for step in self.steps}, self.plan)

    def disconnect(self) -> None:
        """Take the graph apart: then its operators go when nobody needs them, not when Python looks for cycles."""
        outputs = [*self.entrances.values(), *(output for one in self.nodes for output in one.outputs)]
        for output in outputs:
            output.arcs.clear()
            output.sinks.clear()
        for step in self.steps:
            step.inputs.clear()


def take_first(arc: Arc) -> Emission:
    """What a step releases when it takes what waits first at an input: a batch, or the end."""
    batch = arc.queue[0]
    return end_input(arc) if batch is None else arc.consumer.operator.on_batch(arc.port, batch)


def end_input(arc: Arc) -> Emission:
    """End an input of a step; a replica that nobody listens to has left already."""
    if not arc.attached:
        return NOTHING
    arc.ended = True
    arc.consumer.open_inputs -= 1
    return arc.consumer.operator.on_end(arc.port)


def _deliver(sink: Sink, batch: EventBatch, output: str) -> None:
    try:
        sink(batch)
    except Exception as cause:
        raise StepFailed.at(f"sink of {output}", None, None, cause) from cause
