"""Sums up rows where they are read, before it is known whether they are late, so that only groups need to travel.

    written   rows ──> punctuate ──> tumbling ──> in_bands
    run       rows ──> tumbling ──> sum_up ──> punctuate ──> in_bands

That is the same only where a window is judged as a whole, and by the rows of a micro-batch together: then all rows of a
group are in time for the same bands, and the start of their window tells for which. It is done where late rows are
dropped; who wants to see them needs the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from slackwater.operators.aggregate.group_rows import GroupRows
from slackwater.plan.node import Node
from slackwater.plan.nodes.aggregating import summed_up_in_words
from slackwater.plan.nodes.bands import outputs_of
from slackwater.plan.rewrites.band_aggregates import rewrite_band_aggregates, steps_behind_bands
from slackwater.policies.late import LateAction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slackwater.events.schema import EventSchema
    from slackwater.plan.nodes.bands import BandedAggregate
    from slackwater.plan.nodes.ordering import Punctuate
    from slackwater.plan.properties import Properties
    from slackwater.policies.aggregates import Aggregate


@dataclass(frozen=True, eq=False)
class SumUp(Node):
    """Rows that stand for groups of events. How many rows there are for one group is left to the runner."""

    input: Node
    keys: tuple[str, ...]
    aggregates: Mapping[str, Aggregate]
    verb = "sum_up"

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


def preaggregate_in_inputs(*roots: Node) -> list[Node]:
    """Return the same plans, in which rows are summed up as soon as they are read, wherever that can be done."""
    return rewrite_band_aggregates(roots, _preaggregated)


def _preaggregated(node: BandedAggregate, judge: Punctuate, rows: Node) -> BandedAggregate | None:
    if judge.late.action is not LateAction.DROPPED:
        return None
    for step in steps_behind_bands(node):
        rows = step.with_inputs(rows)
    summed_up = SumUp(rows, node.keys, node.aggregates)
    judged = replace(judge, input=summed_up, event_count_column=summed_up.groups.event_count_column)
    return replace(node, bands=tuple(outputs_of(judged, len(node.bands))), groups=summed_up.groups)
