"""Plan nodes: what was asked, one frozen value per step.

A node knows its inputs, the schema and the properties of its output, how to say itself in explain(), and how to build
the operator that does it. Nodes are compared by identity: the same node used twice is one step, run once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from slackwater.errors import PlanError, message
from slackwater.operators.emission import DIVERTED, LATE, LEFT_OUT, OutputName
from slackwater.plan.properties import Stamps
from slackwater.plan.traits import PunctuationUse, Traits
from slackwater.policies.punctuations import When

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from slackwater.events.schema import EventSchema
    from slackwater.operators.operator import Operator
    from slackwater.plan.feed import Feed
    from slackwater.plan.properties import Properties
    from slackwater.policies.punctuations import Punctuations
    from slackwater.progress.instants import Duration, Instant

    Names: TypeAlias = frozenset[str]
    """Names of payload columns."""


@dataclass(frozen=True, eq=False)
class Node(ABC):
    """One step of a plan. Subclasses refuse, while they are made, what could not run."""

    def __init_subclass__(cls) -> None:
        # Put here, so that @dataclass does not write one that shows the whole plan above.
        cls.__repr__ = Node.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return f"<{self.line}>"

    @property
    @abstractmethod
    def inputs(self) -> tuple[Node, ...]:
        """The nodes whose output this one reads, by port."""

    @property
    def row_inputs(self) -> tuple[Node, ...]:
        """Those of the inputs whose rows it takes; of others it looks at the progress alone."""
        return self.inputs

    @property
    @abstractmethod
    def schema(self) -> EventSchema:
        """The columns of the output."""

    @property
    @abstractmethod
    def properties(self) -> Properties:
        """What is known of the output."""

    @property
    @abstractmethod
    def traits(self) -> Traits:
        """What plans and runners must know of its kind. Every class decides for itself."""

    @property
    @abstractmethod
    def verb(self) -> str:
        """The name of the step's kind, as users type it."""

    @abstractmethod
    def details(self) -> str:
        """What was chosen, in a few words."""

    @abstractmethod
    def reason(self) -> str:
        """Why the step is done this way."""

    @property
    def line(self) -> str:
        """The node's line in explain(), without the tree."""
        return f"{self.verb} {self.details()}".strip()

    @property
    def commutes_with_sort(self) -> bool:
        """Whether a sort gives the same rows behind this step as before it."""
        return False

    @property
    def not_on_spark(self) -> str | None:
        """Why Spark cannot run it, with what to do instead; None if it can."""
        return None

    @property
    def goes_by_batches(self) -> bool:
        """Whether the rows of a batch count as one instant, so that it matters how a stream is cut."""
        return False

    @property
    def waits_for_all(self) -> bool:
        """Whether rows of one input wait until all inputs have come as far."""
        return False

    @property
    def rows_per_row(self) -> float | None:
        """How many rows the step sends for each that it takes in; None where nobody knows before it runs."""
        return None

    @property
    def in_processing_order(self) -> bool:
        """Whether starts are stamps in the order of processing: streams of these need not wait for each other."""
        return False

    @property
    def fixed_length(self) -> Duration | None:
        """How long every event is, if all are windows of one length: their ends follow from their starts then."""
        return None

    @property
    def holds_back(self) -> Duration:
        """How far past the newest time the step may hold back what it sends, beside what it waits for."""
        return 0

    def lets_go(self, newest: Instant) -> Instant:
        """Up to where its input must be complete that nothing is held which has come until then."""
        return newest + 1

    def longest_wait(self, output: OutputName | None = None) -> Duration | None:  # noqa: ARG002 - most have one output
        """How long late rows were waited for, by the time rows come to an output; None if nobody chose."""
        waits = [wait for source in self.inputs if (wait := source.longest_wait()) is not None]
        return max(waits, default=None)

    @property
    def partition_keys(self) -> tuple[str, ...] | None:
        """Columns whose equal values must be in one shard; () if all rows must, None if each may be anywhere."""
        return ()

    def column_inputs(self, column: str) -> list[tuple[Node, str]]:
        """The columns of inputs that a column has its values from, unchanged; none where they are computed."""
        return [(source, column) for source in self.inputs] if self.traits.keeps_columns else []

    def columns_read(self, wanted: Names, source: Node) -> Names:  # noqa: ARG002 - the safe answer is all
        """The payload columns of an input that are looked at here, or handed on because `wanted` are read later."""
        return frozenset(source.schema.payload.names)

    def with_inputs(self, *inputs: Node) -> Self:
        """Return the same step on other inputs, which must have the columns of those it has."""
        # Copied, not made anew: what was checked when it was written stays checked.
        other, left = copy(self), iter(inputs)
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Node):
                object.__setattr__(other, field.name, next(left))
            elif isinstance(value, tuple) and value and isinstance(value[0], Node):
                object.__setattr__(other, field.name, tuple(next(left) for _ in value))
        return other


class StepNode(Node):
    """A node that an operator does."""

    @abstractmethod
    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator, fresh or from a snapshot. `step` is its name in messages and counters."""

    def build_driven(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator for a runner that says itself when rows are late, as Spark's does for each micro-batch."""
        return self.build(step, resume)

    def side_outputs(self) -> Mapping[OutputName, tuple[EventSchema, Properties]]:
        """The outputs beside the main one: the columns of each, and what is known of it. Most steps have none."""
        return {}

    def diverts(self, output: OutputName = LATE) -> bool:
        """Whether rows that do not go on have an output of their own: those that come too late, or are left out."""
        return output in self.side_outputs()


@dataclass(frozen=True, eq=False)
class SideOutput(Node):
    """An output of a step beside its main one, to be read like any stream. It only points: it runs nothing itself."""

    step: StepNode
    output: OutputName
    verb = "output"
    traits = Traits(
        punctuations=PunctuationUse.FORWARDED, flushes_at_end=False, keeps_columns=True, compares_rows=False
    )

    def __post_init__(self) -> None:
        there_are = self.step.side_outputs()
        if self.output not in there_are:
            facts = {"step": self.step.line, "there are": ", ".join(there_are) or "none beside the main one"}
            raise PlanError(message(f"{self.step.verb} has no output {self.output!r}", facts))

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The step whose output it is."""
        return (self.step,)

    @property
    def schema(self) -> EventSchema:
        """The columns that the step gives this output."""
        return self.step.side_outputs()[self.output][0]

    @property
    def properties(self) -> Properties:
        """What the step knows of this output."""
        return self.step.side_outputs()[self.output][1]

    def longest_wait(self, output: OutputName | None = None) -> Duration | None:  # noqa: ARG002 - it has one output
        """That of the band; rows that did not go on were not waited for."""
        return None if self.output in DIVERTED else self.step.longest_wait(self.output)

    @property
    def partition_keys(self) -> None:
        """It only points."""
        return

    def columns_read(self, wanted: Names, source: Node) -> Names:
        """Those that are wanted; all where rows are shown that did not go on."""
        return super().columns_read(wanted, source) if self.output in DIVERTED else wanted

    def details(self) -> str:
        """Which output."""
        return self.output

    def reason(self) -> str:
        """What the rows are."""
        if self.output == LATE:
            return "the rows that came after their time was complete"
        if self.output == LEFT_OUT:
            return "the rows that the merge did not emit: contradicted, or passed over"
        return "one output for each patience; this one waits longer than those before it"


@dataclass(frozen=True, eq=False)
class SourceNode(Node):
    """Where rows enter: a feed, how its rows get their times, and when it punctuates."""

    name: str
    feed: Feed
    event_schema: EventSchema
    facts: Properties
    punctuations: Punctuations
    origin: str | None = None
    """The column that names the source of each row, where rows of several come together."""

    arrived: str | None = None
    """The column that says when each row arrived, where one does."""

    traits = Traits(map_side=True, flushes_at_end=False)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """None: it is the beginning."""
        return ()

    @property
    def schema(self) -> EventSchema:
        """The columns of the feed, time columns distinguished."""
        return self.event_schema

    @property
    def properties(self) -> Properties:
        """What was declared of the feed."""
        return self.facts

    @property
    def verb(self) -> str:
        """Sources call themselves by their feed."""
        return "source"

    @property
    def not_on_spark(self) -> str | None:
        """Who stamps rows, or punctuates by the clock, is asked by a runner in one process."""
        if self.properties.stamps is not Stamps.EXTERNAL:
            return (
                "no clock stamps rows on Spark, where a micro-batch may be done again: let them bring a time of their "
                'own, sw.stream(frame, time="at").sort(patience=...)'
            )
        if self.punctuations.when is not When.NEVER:
            return "no source of Spark can be asked how far it is: leave punctuations= out; sort(patience=...) it"
        return None

    def details(self) -> str:
        """The feed's name and its time columns."""
        times = [f"time={self.schema.time.name}"]
        times += [] if self.schema.until is None else [f"until={self.schema.until.name}"]
        times += [f"{what}={name}" for what, name in (("origin", self.origin), ("arrived", self.arrived)) if name]
        return f"{self.name} {' '.join(times)}"

    def reason(self) -> str:
        """How times come about, and punctuations."""
        stamps = {
            "external": "times are the source's own",
            "internal": "stamped by the clock on arrival",
            "latent": "not stamped until a step needs times",
        }[self.facts.stamps.value]
        stamps = f"{stamps}; rows without one are late" if self.facts.untimed else stamps
        return f"{stamps}; punctuations {self.punctuations}" if self.feed.live else stamps


def walk(*roots: Node) -> Iterator[Node]:
    """Visit every node once, inputs before the nodes that read them."""
    return _walk(roots, lambda node: node.inputs)


def walk_rows(*roots: Node) -> Iterator[Node]:
    """Visit every node once whose rows come to the roots, inputs before the nodes that read them."""
    return _walk(roots, lambda node: node.row_inputs)


def _walk(roots: Iterable[Node], inputs_of: Callable[[Node], tuple[Node, ...]]) -> Iterator[Node]:
    seen: set[int] = set()

    def visit(node: Node) -> Iterator[Node]:
        if id(node) in seen:
            return
        seen.add(id(node))
        for source in inputs_of(node):
            yield from visit(source)
        yield node

    for root in roots:
        yield from visit(root)


def let_go_by(steps: Sequence[Node], newest: Instant) -> Instant:
    """The same of steps that follow each other: each must be complete as far as the next one needs it."""
    for step in reversed(steps):
        newest = step.lets_go(newest) - 1
    return newest + 1


def name_steps(*roots: Node) -> dict[Node, str]:
    """Give every node a name, such as 'where#2': its verb, and its place among its kind, as rows come to it.

    The names have inputs before the nodes that read them.
    """
    counts: dict[str, int] = {}
    names: dict[Node, str] = {}
    for node in dict.fromkeys((*walk_rows(*roots), *walk(*roots))):
        counts[node.verb] = counts.get(node.verb, 0) + 1
        names[node] = f"{node.verb}#{counts[node.verb]}"
    return {node: names[node] for node in walk(*roots)}


def diverting_steps(*roots: Node, output: OutputName = LATE) -> dict[StepNode, str]:
    """The steps that give rows which do not go on, such as late ones, an output of their own, with their names."""
    names = name_steps(*roots)
    return {node: name for node, name in names.items() if isinstance(node, StepNode) and node.diverts(output)}


def nearest_diverting_steps(root: Node, output: OutputName = LATE) -> list[StepNode]:
    """The diverting steps that are met first on the ways up from a node; each once."""
    found: list[StepNode] = []
    seen: set[Node] = set()
    ahead = [root]
    while ahead:
        node = ahead.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, StepNode) and node.diverts(output):
            found.append(node)
        else:
            ahead += reversed(node.inputs)
    return found
