"""Plan nodes that put ordered streams together: union, join, followed_by."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from slackwater.errors import MixedOrigins, NeedsOrder, PlanError, SchemaMismatch, message
from slackwater.operators.match.followed_by import FollowedByOperator
from slackwater.operators.match.join import JoinOperator
from slackwater.operators.match.matched_schema import matched_schema
from slackwater.operators.pass_through import PassThroughOperator
from slackwater.operators.union import UnionOperator
from slackwater.plan.node import Node, StepNode
from slackwater.plan.properties import Extent, Order, Properties, Stamps
from slackwater.plan.traits import TieOrder, Traits
from slackwater.policies.matching import Overlap, Within
from slackwater.progress.instants import format_duration

if TYPE_CHECKING:
    from slackwater.events.schema import EventSchema
    from slackwater.operators.operator import Operator
    from slackwater.progress.instants import Duration


def require_order(step: str, *inputs: Node) -> None:
    """Refuse inputs that are disordered or revised."""
    for node in inputs:
        if node.properties.origin is not None:
            raise MixedOrigins.at(step, node.line, node.properties.origin)
        if not (node.properties.ordered or node.properties.latent):
            raise NeedsOrder.at(step, node.line)
        if not node.properties.insert_only:
            raise PlanError(message(f"{step} takes inserts only, and this stream revises them", {"stream": node.line}))


@dataclass(frozen=True, eq=False)
class Union(StepNode):
    """Puts ordered streams of the same columns together."""

    streams: tuple[Node, ...]
    verb = "union"
    traits = Traits(tie_order=TieOrder.INTERLEAVED, keeps_columns=True, compares_rows=False)
    rows_per_row = 1.0

    def __post_init__(self) -> None:
        require_order("union", *self.streams)
        first = self.streams[0]
        for other in self.streams[1:]:
            require_same_columns("union", first.schema, other.schema)
            if other.properties.latent != first.properties.latent:
                stamped, latent = (other, first) if first.properties.latent else (first, other)
                facts = {"stamped": stamped.line, "latent": latent.line}
                raise PlanError(message("union cannot mix streams with times and streams without", facts))

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The streams, in the order they were given."""
        return self.streams

    @property
    def schema(self) -> EventSchema:
        """The columns they share."""
        return self.streams[0].schema

    @property
    def properties(self) -> Properties:
        """Ordered, with ties between inputs; points only if all are."""
        extents = {stream.properties.extent for stream in self.streams}
        extent = extents.pop() if len(extents) == 1 else Extent.INTERVALS
        return Properties(order=Order.TIES, stamps=self.streams[0].properties.stamps, extent=extent)

    @property
    def waits_for_all(self) -> bool:
        """Whether there are times to wait for."""
        return not self.properties.latent

    @property
    def partition_keys(self) -> None:
        """Rows wait for their turn, which comes in each shard."""
        return

    def details(self) -> str:
        """How many streams."""
        return f"of {len(self.streams)}"

    def reason(self) -> str:
        """Whom it waits for."""
        if self.streams[0].properties.latent:
            return "no times yet, so no order to keep: rows pass as they come"
        return "sends what every input has reached; asks the source of the one it waits for"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        if self.streams[0].properties.latent:
            return PassThroughOperator()
        return UnionOperator(len(self.streams), self.schema.no_rows, f"step {step!r}", resume)


def require_same_columns(step: str, first: EventSchema, other: EventSchema) -> None:
    """Refuse streams that differ in their columns or time columns."""
    if first.shown == other.shown and first.time == other.time and first.until == other.until:
        return
    facts = {side: ", ".join(_only_in(a, b)) for side, a, b in (("first", first, other), ("other", other, first))}
    hint = "select() the same columns, of the same types and in the same order, on both"
    raise SchemaMismatch(message(f"{step} takes streams of the same columns and time columns", facts, hint))


def _only_in(one: EventSchema, other: EventSchema) -> list[str]:
    """The columns, with their types, that differ; all of them when only their order or their role does."""
    theirs = {str(field) for field in other.shown}
    different = [str(field) for field in one.shown if str(field) not in theirs]
    return different or [*map(str, one.shown), f"time={one.time.name}"]


class MatchingNode(StepNode):
    """A step that pairs events of two ordered streams that agree on key columns; subclasses say which, and when."""

    on: tuple[str, ...]
    traits = Traits()

    def __post_init__(self) -> None:
        require_order(self.verb, *self.inputs)
        _ = self.schema

    @property
    def stamps(self) -> Stamps:
        """Where the times of pairs are from: where those of both inputs are, or from outside."""
        both = {side.properties.stamps for side in self.inputs}
        return both.pop() if len(both) == 1 else Stamps.EXTERNAL

    @property
    def waits(self) -> bool:
        """Whether one input may have to wait for the other: not if rows come in order, whichever they are of."""
        return not all(side.in_processing_order for side in self.inputs)

    @property
    def waits_for_all(self) -> bool:
        """Whether one input may have to wait for the other."""
        return self.waits

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """Rows of one key may match."""
        return self.on

    def column_inputs(self, column: str) -> list[tuple[Node, str]]:
        """Both sides have the key."""
        return [(side, column) for side in self.inputs] if column in self.on else []

    def details(self) -> str:
        """Key, and when events match."""
        return f"on {', '.join(self.on) or 'time alone'}, {self.when()}"

    @abstractmethod
    def when(self) -> str:
        """When events match, as users read it."""


@dataclass(frozen=True, eq=False)
class Join(MatchingNode):
    """Pairs the events of two streams that meet in time and agree on the key columns."""

    left: Node
    right: Node
    on: tuple[str, ...]
    meeting: Overlap | Within
    verb = "join"

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Left and right."""
        return (self.left, self.right)

    @cached_property
    def schema(self) -> EventSchema:
        """When they met, then both sides' columns."""
        interval = isinstance(self.meeting, Overlap)
        return matched_schema(self.left.schema, self.right.schema, self.on, interval, "join")

    @property
    def properties(self) -> Properties:
        """Results come in order of the later of the two times."""
        extent = Extent.INTERVALS if isinstance(self.meeting, Overlap) else Extent.POINTS
        return Properties(order=Order.TIES, stamps=self.stamps, extent=extent)

    def when(self) -> str:
        """How close in time."""
        return self.meeting.describe(calendar=self.left.schema.calendar)

    def reason(self) -> str:
        """Whom it waits for."""
        return "matches in order of time; asks the source of the input it waits for"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        return JoinOperator(
            self.left.schema, self.right.schema, self.on, self.meeting, step=step, waits=self.waits, resume=resume
        )


@dataclass(frozen=True, eq=False)
class FollowedBy(MatchingNode):
    """Pairs each event of the first stream with the next of the second, if it comes soon enough."""

    first: Node
    then: Node
    on: tuple[str, ...]
    within: Duration
    verb = "followed_by"

    @property
    def inputs(self) -> tuple[Node, ...]:
        """First and then."""
        return (self.first, self.then)

    @cached_property
    def schema(self) -> EventSchema:
        """When the second came, then both sides' columns."""
        return matched_schema(self.first.schema, self.then.schema, self.on, interval=False, step="followed_by")

    @property
    def properties(self) -> Properties:
        """Results come in order of the second event's time."""
        return Properties(order=Order.TIES, stamps=self.stamps)

    def when(self) -> str:
        """How soon after."""
        return f"within {format_duration(self.within) if self.first.schema.calendar else self.within}"

    def reason(self) -> str:
        """Whom it waits for."""
        return "the first strictly later event of the same key; asks the source of the input it waits for"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        return FollowedByOperator(
            self.first.schema, self.then.schema, self.on, self.within, step=step, waits=self.waits, resume=resume
        )
