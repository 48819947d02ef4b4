"""The plan node that finds the rows of a live source that come behind its own punctuations.

A source with times of its own punctuates t + elapsed - skew by the clock, and a row may still come behind that: the
skew was only believed. Such a row is late, and the user chooses what becomes of it, as at any step with a patience.
Where such a step comes next, it finds both, and there is no other (docs/decisions/0033).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.operators.punctuate import DRIVEN_BY_RUNNER, PunctuateOperator
from slackwater.plan.nodes.ordering import LatenessStep
from slackwater.plan.traits import TieOrder, Traits
from slackwater.policies.late import Late
from slackwater.policies.lateness import Lateness

if TYPE_CHECKING:
    from slackwater.operators.emission import OutputName
    from slackwater.operators.operator import Operator
    from slackwater.plan.node import Node
    from slackwater.progress.instants import Duration


@dataclass(frozen=True, eq=False)
class SourceLateness(LatenessStep):
    """Finds the rows that came behind a punctuation of their source, and does with them what was chosen."""

    chosen: bool = True
    """Whether the user chose what becomes of late rows here; if not, a later step with a patience may do it."""

    verb = "source_lateness"
    traits = Traits(tie_order=TieOrder.KEPT, flushes_at_end=False)

    @classmethod
    def behind(cls, source: Node, late: Late | None) -> SourceLateness:
        """Find the late rows of a source; None for the policy means that nobody chose one."""
        action = Late.divert() if late is None else late
        return cls(source, Lateness.by_punctuations(action), chosen=late is not None)

    def longest_wait(self, output: OutputName | None = None) -> Duration | None:  # noqa: ARG002 - nobody waits here
        """Nobody waits here: the source says when a time is complete."""
        return self.input.longest_wait()

    def details(self) -> str:
        """What becomes of late rows."""
        return f"late rows {self.late}"

    def reason(self) -> str:
        """Which rows are late."""
        return "a row is late when its source has punctuated past its time"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator: a punctuate that passes on the punctuations of its input, and makes none."""
        return PunctuateOperator(self.input.schema, self.patiences, DRIVEN_BY_RUNNER, self.late, step, resume)


def without_source_lateness(node: Node) -> Node:
    """The same stream without a step for rows behind its source's punctuations, where nobody chose what that one does.

    For steps with a patience, which obey the punctuations of their input, too. Steps between the two treat each row by
    itself, late or not.
    """
    if isinstance(node, SourceLateness) and not node.chosen:
        return node.input
    if node.traits.row_by_row:
        (read,) = node.inputs
        source = without_source_lateness(read)
        return node if source is read else node.with_inputs(source)
    return node
