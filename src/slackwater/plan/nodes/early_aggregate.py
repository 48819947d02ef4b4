"""The plan node of answers that do not wait: an aggregate that is sent at once, and revised as rows come."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from slackwater.errors import NeedsOrder, PlanError, message
from slackwater.operators.aggregate.early import EarlyAggregateOperator, early_schema
from slackwater.plan.nodes.aggregating import GroupingNode
from slackwater.plan.properties import Extent, Properties
from slackwater.plan.traits import Traits

if TYPE_CHECKING:
    from slackwater.events.schema import EventSchema
    from slackwater.operators.operator import Operator


@dataclass(frozen=True, eq=False)
class EarlyAggregate(GroupingNode):
    """Sums up the events of each window and the key columns, and sends what it has, again and again."""

    verb = "aggregate_early"
    traits = Traits()

    def __post_init__(self) -> None:
        facts, stream = self.input.properties, {"stream": self.input.line}
        if facts.extent is not Extent.WINDOWS:
            hint = 'assign windows of one length first, by tumbling("1h") or hopping("1h", "5m")'
            raise PlanError(message(f"{self.verb} needs windows, and these events have none", stream, hint))
        if not facts.progressive:
            hint = f'say how long to wait for late rows: {self.verb}(patience="1h", ...)'
            raise NeedsOrder(message("the answers of this step would never become final", stream, hint))
        super().__post_init__()

    @cached_property
    def schema(self) -> EventSchema:
        """The window, the keys, the aggregates."""
        return early_schema(self.input.schema, self.keys, self.aggregates, self.verb)

    @property
    def properties(self) -> Properties:
        """Revised, in no order; punctuations say which answers are final. A group has one answer at a time."""
        return Properties(
            stamps=self.input.properties.stamps,
            extent=Extent.WINDOWS,
            punctuated=True,
            insert_only=False,
            keyed=self.input.fixed_length is not None,  # else windows that start together may differ
        )

    def reason(self) -> str:
        """When answers go out, and how long they may change."""
        return "answers go out at once, and are revised until the start of their window is complete"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        ordered = self.input.properties.ordered
        return EarlyAggregateOperator(
            self.input.schema, self.keys, self.aggregates, ordered=ordered, step=step, resume=resume
        )
