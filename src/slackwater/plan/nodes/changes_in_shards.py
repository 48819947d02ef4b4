"""The plan node at which the changes of a log come to shards: those of a micro-batch are taken together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.operators.net_changes import NetChangesOperator
from slackwater.plan.nodes.revisions import columns_of_events
from slackwater.plan.nodes.rows import UnaryNode
from slackwater.plan.traits import PunctuationUse, Traits

if TYPE_CHECKING:
    from slackwater.operators.operator import Operator


@dataclass(frozen=True, eq=False)
class ChangesInShards(UnaryNode):
    """Sends what the changes of a micro-batch come to, and then the greatest of its punctuations."""

    checked: bool
    """Whether a change is refused that comes behind the log's own punctuations; else the reader looks after those."""

    verb = "net_changes"
    traits = Traits(punctuations=PunctuationUse.LAST_OF_BATCH, keeps_columns=True, needs_order=False)

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The changes of an event must be seen together."""
        return columns_of_events(self.input)

    def details(self) -> str:
        """Nothing was chosen."""
        return ""

    def reason(self) -> str:
        """Why it is here."""
        return "rows of a micro-batch come in no order: what all its changes of an event come to is one change"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        return NetChangesOperator(self.schema, step, resume, checked=self.checked)
