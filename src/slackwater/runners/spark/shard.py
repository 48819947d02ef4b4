"""The operators of a plan as one shard runs them: rows of a micro-batch go in, what they release comes out.

A micro-batch is one instant: none of its rows is late against another. So the runner punctuates, once all rows are in,
at the high water of the whole micro-batch less the patience; the step that judges lateness does so by this alone.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.errors import PlanError, message
from slackwater.events.batch import punctuation_like
from slackwater.operators.punctuate import PunctuateOperator
from slackwater.plan.node import Node, SideOutput, SourceNode, StepNode, name_steps
from slackwater.plan.ordering_steps import Punctuate
from slackwater.policies.cadence import Cadence, Occasion
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.runners.in_process.state import Snapshot, describe_steps, require_same_plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from slackwater.events.batch import EventBatch
    from slackwater.operators.emission import Emission, OutputName
    from slackwater.operators.operator import Operator
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant

_NEVER = Cadence(Occasion.ROWS, FOREVER)
"""The cadence of a step that leaves it to the runner to punctuate."""


@dataclass(frozen=True)
class ShardPlan:
    """The plan that every shard runs: its outputs, by name. It is sent to Python workers."""

    outputs: Mapping[str, Node]

    def __post_init__(self) -> None:
        names = name_steps(*self.outputs.values())
        sources = [node for node in names if isinstance(node, SourceNode)]
        if len(sources) != 1:
            raise _not_yet("one DataFrame", ", ".join(node.details() for node in sources))
        readers = [node for node in names if sources[0] in node.inputs]
        if not all(isinstance(node, Punctuate) and len(node.patiences) == 1 for node in readers) or len(readers) != 1:
            raise _not_yet("sort(patience=...) right behind the source", ", ".join(node.line for node in readers))
        occasion = self.punctuate.cadence.occasion
        if occasion is not Occasion.BATCH:
            facts = {"step": self.punctuate.line}
            hint = "say so: sort(patience=..., every=Every.batch())"
            raise PlanError(message("on Spark the rows of a micro-batch are simultaneous", facts, hint))

    @property
    def source(self) -> SourceNode:
        """The one source."""
        (source,) = (node for node in name_steps(*self.outputs.values()) if isinstance(node, SourceNode))
        return source

    @property
    def punctuate(self) -> Punctuate:
        """The one step that says what is complete."""
        (step,) = (node for node in name_steps(*self.outputs.values()) if isinstance(node, Punctuate))
        return step


class Shard:
    """One copy of the operators, fresh or as a snapshot has them."""

    def __init__(self, plan: ShardPlan, resume: Snapshot | None = None) -> None:
        names = name_steps(*plan.outputs.values())
        states: dict[str, Any] = {} if resume is None else resume
        self._plan = describe_steps(names)
        require_same_plan(states, self._plan)
        self._source = plan.source
        self._patience = plan.punctuate.patiences[0]
        self._operators = {
            node: _build(node, name, states.get(name)) for node, name in names.items() if isinstance(node, StepNode)
        }
        self._names = {node: names[node] for node in self._operators}
        self._consumers: dict[Node, list[tuple[StepNode, Port]]] = defaultdict(list)
        self._side: dict[tuple[StepNode, OutputName], list[SideOutput]] = defaultdict(list)
        for node in names:
            if isinstance(node, SideOutput):
                self._side[node.step, node.output].append(node)
            elif isinstance(node, StepNode):
                for port, producer in enumerate(node.inputs):
                    self._consumers[producer].append((node, port))
        self._outputs: dict[Node, list[str]] = defaultdict(list)
        for output, node in plan.outputs.items():
            self._outputs[node].append(output)
        self._released: list[tuple[str, pa.RecordBatch]] = []

    def take(self, chunks: Iterable[pa.RecordBatch], high_water: Instant) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Take in a micro-batch, its rows first, then the punctuation; give out what is released, with its output."""
        for chunk in chunks:
            self._put(self._source, self._source.schema.read(chunk, f"source {self._source.name!r}"))
            yield from self._handed_out()
        complete_before = max(BEGINNING, high_water - self._patience)
        self._put(self._source, punctuation_like(self._source.schema.no_rows, complete_before))
        yield from self._handed_out()

    def end(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Give out all that is held: no micro-batch will come any more."""
        for step, operator in self._operators.items():  # producers before consumers
            for port in range(len(step.inputs)):
                self._put_all(step, operator.on_end(port))
        yield from self._handed_out()

    def snapshot(self) -> Snapshot:
        """The state of every step."""
        return Snapshot({self._names[node]: op.snapshot() for node, op in self._operators.items()}, self._plan)

    def _put(self, producer: Node, batch: EventBatch) -> None:
        if batch.rows:
            self._released += [(output, producer.schema.show(batch)) for output in self._outputs[producer]]
        for step, port in self._consumers[producer]:
            self._put_all(step, self._operators[step].on_batch(port, batch))

    def _put_all(self, step: StepNode, emission: Emission) -> None:
        for batch in emission.batches:
            self._put(step, batch)
        for output, batch in emission.side:
            for reader in self._side[step, output]:
                self._put(reader, batch)

    def _handed_out(self) -> list[tuple[str, pa.RecordBatch]]:
        released, self._released = self._released, []
        return released


def _build(node: StepNode, name: str, resume: Any) -> Operator[Any]:
    if isinstance(node, Punctuate):
        return PunctuateOperator(node.schema, node.patiences, _NEVER, node.late, name, resume)
    return node.build(name, resume)


def _not_yet(what: str, got: str) -> PlanError:
    return PlanError(message(f"the Spark runner takes {what}, and nothing else yet", {"got": got}))
