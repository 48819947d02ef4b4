"""The plan node that names the replicas that contradict the others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from slackwater.errors import NeedsOrder, PlanError, message
from slackwater.operators.replicas.compare import CompareReplicasOperator, divergence_schema
from slackwater.plan.node import Node, StepNode
from slackwater.plan.nodes.combining import require_same_columns
from slackwater.plan.nodes.revisions import columns_of_events
from slackwater.plan.properties import Extent, Order, Properties
from slackwater.plan.traits import Traits

if TYPE_CHECKING:
    from slackwater.events.schema import EventSchema
    from slackwater.operators.operator import Operator


@dataclass(frozen=True, eq=False)
class CompareReplicas(StepNode):
    """Names what replicas of one stream do not agree on."""

    replicas: tuple[Node, ...]
    verb = "compare_replicas"
    traits = Traits(trusts_idle_sources=False)

    def __post_init__(self) -> None:
        for replica in self.replicas:
            require_same_columns(self.verb, self.replicas[0].schema, replica.schema)
            if replica.properties.latent:
                facts, hint = {"replica": replica.line}, "give every event a time of its own: stream(..., time=...)"
                raise PlanError(message("compare_replicas needs times, and these events have none", facts, hint))
            if not replica.properties.progressive:
                raise NeedsOrder.at(self.verb, replica.line)
        _ = self.schema

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The replicas."""
        return self.replicas

    @cached_property
    def schema(self) -> EventSchema:
        """The columns of the replicas, then which of them differs, and how."""
        return divergence_schema(self.replicas[0].schema, self.verb)

    @property
    def properties(self) -> Properties:
        """Contradictions come when their events end, in no order of starts, with punctuations."""
        facts = [replica.properties for replica in self.replicas]
        extents = {one.extent for one in facts}
        extent = extents.pop() if len(extents) == 1 else Extent.INTERVALS
        return Properties(order=Order.NONE, stamps=facts[0].stamps, extent=extent, punctuated=True)

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """An event of one replica is compared with the same of another."""
        return columns_of_events(self.replicas[0])

    def details(self) -> str:
        """How many."""
        return f"of {len(self.replicas)}"

    def reason(self) -> str:
        """Whom it waits for."""
        frozen = "its start is complete" if self._final else "it is frozen"
        return f"holds an event until {frozen} in every replica; what most of them say is right"

    @property
    def _final(self) -> bool:
        """Whether no replica revises anything, so that an event is known as soon as its start is complete."""
        return all(replica.properties.insert_only for replica in self.replicas)

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        ordered = [port for port, replica in enumerate(self.replicas) if replica.properties.ordered]
        return CompareReplicasOperator(
            len(self.replicas), self.replicas[0].schema, step, resume, ordered, final=self._final
        )
