"""Plan nodes that sum up rows before their aggregate does: where they are split by lateness, or where they are read.

written      rows ──> punctuate ──> tumbling ──> in_bands
in process   rows ──> punctuate (windows, groups) ──> in_bands          rows are not gathered for each band
on Spark     rows ──> tumbling ──> preaggregate ──> punctuate ──> in_bands    groups travel, not rows
             rows ──┬──────── those that may be late ─────────> punctuate (windows, groups) ──> in_bands
                    └─> tumbling ──> preaggregate ──> the others ──┘
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from slackwater.operators.aggregate.group_rows import GroupRows
from slackwater.operators.aggregate.preaggregate import Preaggregate
from slackwater.operators.punctuate import PunctuateOperator
from slackwater.plan.node import Node, let_go_by
from slackwater.plan.nodes.aggregating import summed_up_in_words
from slackwater.plan.nodes.ordering import Punctuate
from slackwater.plan.traits import Traits
from slackwater.policies.late import LateAction

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from slackwater.events.schema import EventSchema
    from slackwater.plan.node import StepNode
    from slackwater.plan.properties import Properties
    from slackwater.policies.aggregates import Aggregate
    from slackwater.policies.cadence import Cadence
    from slackwater.policies.windows import Tumbling
    from slackwater.progress.instants import Duration, Instant


@dataclass(frozen=True)
class RowsToGroups:
    """What becomes of rows once it is known which are late: steps that give them windows, and groups."""

    steps: tuple[StepNode, ...]
    groups: GroupRows


@dataclass(frozen=True, eq=False)
class PunctuateGroups(Punctuate):
    """Says what is complete, sums rows up, and sends the groups to bands by how late their windows are."""

    rows_to_groups: RowsToGroups = field(kw_only=True)

    @cached_property
    def schema(self) -> EventSchema:
        """The window, the keys, what was summed up."""
        return self.rows_to_groups.groups.schema

    @property
    def properties(self) -> Properties:
        """Those of rows that have windows."""
        return self.rows_to_groups.steps[-1].properties

    @property
    def holds_back(self) -> Duration:
        """What the steps do that give rows windows."""
        return sum(step.holds_back for step in self.rows_to_groups.steps)

    def lets_go(self, newest: Instant) -> Instant:
        """Up to where the windows are complete that rows are given."""
        return super().lets_go(let_go_by(self.rows_to_groups.steps, newest) - 1)

    def details(self) -> str:
        """The patiences, and what is summed up."""
        groups = self.rows_to_groups.groups
        _window, *others = self.rows_to_groups.steps
        steps = [step.line for step in others]
        return "; ".join([super().details(), *steps, summed_up_in_words(groups.aggregates, groups.keys)])

    def reason(self) -> str:
        """What it saves."""
        return f"{super().reason()}; rows are summed up first, and groups go to the bands"

    def build_with(self, cadence: Cadence, step: str, resume: Any = None) -> PunctuateOperator:
        """Make the operator, with another cadence."""
        assert self.windows is not None
        steps = [one.build(f"{step} ({one.verb})") for one in self.rows_to_groups.steps]
        return PunctuateOperator(
            self.input.schema,
            self.patiences,
            cadence,
            self.late,
            step,
            resume,
            self.windows,
            preaggregate=Preaggregate(steps, self.rows_to_groups.groups, self.windows.size),
        )


@dataclass(frozen=True, eq=False)
class PunctuateUnlessSummedUp(PunctuateGroups):
    """The same where rows that cannot be late come as groups already: they are summed up where they are read."""

    @property
    def window_of_moved_rows(self) -> Tumbling | None:
        """The windows of which the first that is open gets rows that were late; None where it gets none.

        Which group of it came first, nobody could say of a row that was moved and one in a sum.
        """
        return self.windows if self.late.action is LateAction.ADJUSTED else None

    def reason(self) -> str:
        """Which rows travel."""
        when = Punctuate.reason(self)
        return f"{when}; rows that cannot be late are summed up where they are read, the others here"


@dataclass(frozen=True, eq=False)
class PreaggregatedRows(Node):
    """Rows that stand for groups of events. How many rows there are for one group is left to the runner."""

    input: Node
    keys: tuple[str, ...]
    aggregates: Mapping[str, Aggregate]
    verb = "preaggregate"
    traits = Traits(map_side=True)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The events, which have windows."""
        return (self.input,)

    @cached_property
    def groups(self) -> GroupRows:
        """How rows stand for groups."""
        return GroupRows(self.input.schema, self.keys, self.aggregates, self.verb)

    @property
    def schema(self) -> EventSchema:
        """The window, the keys, what was summed up."""
        return self.groups.schema

    @property
    def properties(self) -> Properties:
        """Those of the events."""
        return self.input.properties

    def details(self) -> str:
        """The aggregates and the keys."""
        return summed_up_in_words(self.aggregates, self.keys)

    def reason(self) -> str:
        """What it saves."""
        return "done where rows are read: groups are moved, not rows"
