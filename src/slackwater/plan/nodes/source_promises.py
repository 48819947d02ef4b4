"""The plan node that holds rows of a live source to what the source has promised by the clock.

A source with times of its own promises t + elapsed - skew, and a row may still come behind that: the skew was only
believed. Such a row is late, by the promise that was sent, and the user says what becomes of it, as at any step with a
patience. Where such a step comes next, it judges both, and there is no other (docs/decisions/0033).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slackwater.operators.punctuate import DRIVEN_BY_RUNNER, PunctuateOperator
from slackwater.plan.nodes.ordering import LatenessStep
from slackwater.plan.traits import TieOrder, Traits
from slackwater.policies.cadence import Every
from slackwater.policies.late import Late
from slackwater.policies.lateness import Lateness
from slackwater.progress.instants import FOREVER

if TYPE_CHECKING:
    from slackwater.operators.operator import Operator
    from slackwater.plan.node import Node

_NO_PROMISE: Final = (FOREVER,)
"""The patience of a step that promises nothing of its own."""


@dataclass(frozen=True, eq=False)
class SourceLateness(LatenessStep):
    """Says which rows came behind a promise of their source, and what becomes of them."""

    chosen: bool = True
    """Whether the user said what becomes of late rows here; if not, a later step that judges may do it."""

    verb = "judge"
    traits = Traits(tie_order=TieOrder.KEPT, flushes_at_end=False)

    @classmethod
    def behind(cls, source: Node, late: Late | None) -> SourceLateness:
        """Judge the rows of a source; None for the policy means that nobody chose one."""
        action = Late.divert() if late is None else late
        return cls(source, Lateness(_NO_PROMISE, Every.rows(FOREVER), action), chosen=late is not None)

    def details(self) -> str:
        """What becomes of late rows."""
        return f"late rows {self.late}"

    def reason(self) -> str:
        """Which rows are late."""
        return "a row is late when its source has promised that its time was over"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator: a punctuate that passes on what its input promises, and promises no more."""
        return PunctuateOperator(self.input.schema, self.patiences, DRIVEN_BY_RUNNER, self.late, step, resume)


def without_source_lateness(node: Node) -> Node:
    """The same stream without a step that judges its source's promises, where nobody chose what that one does.

    For steps that judge by a patience, and by the promises of their input. Steps between the two treat each row by
    itself, late or not.
    """
    if isinstance(node, SourceLateness) and not node.chosen:
        return node.input
    if node.traits.row_by_row:
        (read,) = node.inputs
        source = without_source_lateness(read)
        return node if source is read else node.with_inputs(source)
    return node
