"""Plan nodes that sum up: aggregate, and the cutting of intervals that makes it exact on overlapping lifetimes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from slackwater.errors import NeedsOrder, PlanError, message
from slackwater.events.schema import EventSchema
from slackwater.operators.aggregate import AggregateOperator, aggregate_schema
from slackwater.operators.cut_at_changes import CutAtChangesOperator
from slackwater.plan.combining_steps import Union, require_order
from slackwater.plan.node import walk
from slackwater.plan.properties import Extent, Order, Properties
from slackwater.plan.row_steps import RowStep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slackwater.operators.operator import Operator
    from slackwater.plan.node import Node
    from slackwater.policies.aggregates import Aggregate


@dataclass(frozen=True, eq=False)
class CutAtChanges(RowStep):
    """Cuts events where the set of living events of their group changes."""

    keys: tuple[str, ...]
    verb = "cut_at_changes"

    def __post_init__(self) -> None:
        require_order(self.verb, self.input)

    @cached_property
    def schema(self) -> EventSchema:
        """The input's; a piece may start where another event ends, so both time columns take the finer type."""
        source = self.input.schema
        if source.until is None or source.until.type == source.time.type:
            return source
        time, until = (column.renamed(column.name) for column in (source.time, source.until))
        return EventSchema(source.payload, time, until, source.columns)

    @property
    def properties(self) -> Properties:
        """Pieces come as they become final; punctuations say how far."""
        return self.input.properties.but(extent=Extent.WINDOWS, order=Order.NONE, punctuated=True)

    def details(self) -> str:
        """The group."""
        return f"per {', '.join(self.keys)}" if self.keys else ""

    def reason(self) -> str:
        """Why it is here."""
        return "lifetimes overlap: each piece between two changes is summed up by itself"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        return CutAtChangesOperator(self.schema, self.keys, step=step, resume=resume)


@dataclass(frozen=True, eq=False)
class AggregateStep(RowStep):
    """Sums up the events that share an interval and the key columns."""

    keys: tuple[str, ...]
    aggregates: Mapping[str, Aggregate]
    verb = "aggregate"

    def __post_init__(self) -> None:
        if not self.input.properties.progressive:
            raise NeedsOrder.at("aggregate", self.input.line)
        if not self.input.properties.insert_only:
            raise PlanError(message("aggregate takes inserts only, and this stream revises them"))
        _ = self.schema

    @cached_property
    def schema(self) -> EventSchema:
        """The window, the keys, the aggregates."""
        return aggregate_schema(self.input.schema, self.keys, self.aggregates, "aggregate")

    @property
    def properties(self) -> Properties:
        """Ordered by window; one row per window makes it strict, one per window and key makes that a key."""
        facts = self.input.properties
        # A union may bring windows of several lengths together, which start at the same time.
        one_per_start = not self.keys and not any(isinstance(node, Union) for node in walk(self.input))
        order = Order.STRICT if one_per_start else Order.TIES
        # Pieces of different groups end where they end: to sum them up again is to cut them again.
        extent = Extent.INTERVALS if isinstance(self.input, CutAtChanges) else facts.extent
        return Properties(order=order, stamps=facts.stamps, extent=extent, keyed=True)

    def details(self) -> str:
        """The aggregates and the keys."""
        named = ", ".join(f"{name}={what}" for name, what in self.aggregates.items())
        return f"{named} by {', '.join(self.keys)}" if self.keys else named

    def reason(self) -> str:
        """When results go out."""
        return "a window is sent when its start is complete; partial results are held, not events"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        ordered = self.input.properties.ordered
        return AggregateOperator(
            self.input.schema, self.keys, self.aggregates, ordered=ordered, step=step, resume=resume
        )


def aggregate(node: Node, keys: tuple[str, ...], aggregates: Mapping[str, Aggregate]) -> AggregateStep:
    """Plan an aggregation: directly over points and windows, over pieces where lifetimes overlap freely."""
    if node.properties.extent is Extent.INTERVALS:
        if not node.properties.ordered:
            raise NeedsOrder.at("aggregate", node.line)
        node = CutAtChanges(node, keys)
    return AggregateStep(node, keys, aggregates)
