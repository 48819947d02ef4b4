"""The plan node that merges replicas of one stream: it chooses LMerge's case by what is known of them.

The less is known, the more must be remembered: nothing but a time for strictly ordered replicas, every event that is
not frozen for replicas that are revised.
Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section IV-D.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from slackwater.errors import NeedsOrder, PlanError, message
from slackwater.operators.merging.ordered_with_key import MergeOrderedWithKey
from slackwater.operators.merging.revised import MergeRevised
from slackwater.operators.merging.revised_with_key import MergeRevisedWithKey
from slackwater.operators.merging.strictly_ordered import MergeStrictlyOrdered
from slackwater.plan.combining_steps import require_same_columns
from slackwater.plan.node import Node, StepNode
from slackwater.plan.properties import Extent, Order, Properties
from slackwater.policies.agreement import Agreement

if TYPE_CHECKING:
    from slackwater.events.schema import EventSchema
    from slackwater.operators.operator import Operator


class Case(Enum):
    """What replicas may do, and so what must be remembered of them; by the papers' names."""

    R0 = "strictly ordered: the newest time is all that is remembered"
    R2 = "ordered, and start and payload are a key: the rows of the newest time are remembered"
    R3 = "disordered or revised, and start and payload are a key: one node for each event that is not frozen"
    R4 = "no key is known, so that equal events count: as many of each as a replica has"


@dataclass(frozen=True, eq=False)
class MergeReplicas(StepNode):
    """Tells once what several replicas of one stream tell, each in its own way."""

    replicas: tuple[Node, ...]
    agreement: Agreement
    verb = "merge_replicas"

    def __post_init__(self) -> None:
        for replica in self.replicas:
            require_same_columns(self.verb, self.replicas[0].schema, replica.schema)
            if replica.properties.latent:
                raise PlanError(
                    message("merge_replicas needs times, and these events have none", {}, "stamp them first")
                )
            if not replica.properties.progressive:
                raise NeedsOrder.at(self.verb, replica.line)
        if self.case in {Case.R3, Case.R4} and self.agreement != Agreement.frozen():
            facts = {"agreement": str(self.agreement), "case": self.case.value}
            hint = "choose Agreement.frozen(): every event is told once, when it will not change any more"
            raise PlanError(message("no step takes the revisions that this merge would make", facts, hint))

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The replicas."""
        return self.replicas

    @cached_property
    def case(self) -> Case:
        """The cheapest case that allows what is known of all replicas."""
        facts = [replica.properties for replica in self.replicas]
        inserted = all(one.insert_only for one in facts)
        if inserted and all(one.order is Order.STRICT for one in facts):
            return Case.R0
        if not all(one.keyed for one in facts):
            return Case.R4
        return Case.R2 if inserted and all(one.ordered for one in facts) else Case.R3

    @property
    def schema(self) -> EventSchema:
        """The columns of the replicas."""
        return self.replicas[0].schema

    @property
    def properties(self) -> Properties:
        """What holds of all replicas; what is told when it is frozen comes in no order, and says how far it is."""
        facts = [replica.properties for replica in self.replicas]
        extents = {one.extent for one in facts}
        order = {Case.R0: Order.STRICT, Case.R2: Order.TIES}.get(self.case, Order.NONE)
        return facts[0].but(
            order=order,
            extent=extents.pop() if len(extents) == 1 else Extent.INTERVALS,
            punctuated=order is Order.NONE,
            insert_only=True,
            keyed=all(one.keyed for one in facts),
        )

    def details(self) -> str:
        """How many, and the case."""
        return f"of {len(self.replicas)}, case {self.case.name}"

    def reason(self) -> str:
        """Why this case."""
        return self.case.value

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        replicas, no_rows, where = len(self.replicas), self.schema.no_rows, f"step {step!r}"
        if self.case is Case.R0:
            return MergeStrictlyOrdered(replicas, no_rows, where, resume)
        if self.case is Case.R2:
            return MergeOrderedWithKey(replicas, no_rows, where, resume)
        ordered = [port for port, replica in enumerate(self.replicas) if replica.properties.ordered]
        if self.case is Case.R3:
            return MergeRevisedWithKey(replicas, no_rows, where, resume, self.agreement, ordered)
        return MergeRevised(replicas, no_rows, where, resume, self.agreement, ordered)
