"""Sums up rows as soon as they are judged, so that groups are dealt to bands, and rows need not be gathered for each.

    written   rows ──> punctuate ──> tumbling ──> in_bands
    run       rows ──> punctuate (judge, give windows, sum up, deal groups) ──> in_bands

It is done where whole windows are judged, whatever becomes of late rows, by the in-process runner.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

from slackwater.operators.aggregate.group_rows import GroupRows
from slackwater.operators.aggregate.preaggregate import Preaggregate
from slackwater.operators.punctuate import PunctuateOperator
from slackwater.plan.nodes.aggregating import summed_up_in_words
from slackwater.plan.nodes.bands import outputs_of
from slackwater.plan.nodes.ordering import Punctuate
from slackwater.plan.rewrites.band_aggregates import rewrite_band_aggregates, steps_behind_bands

if TYPE_CHECKING:
    from typing import Any

    from slackwater.events.schema import EventSchema
    from slackwater.plan.node import Node, StepNode
    from slackwater.plan.nodes.bands import BandedAggregate
    from slackwater.plan.properties import Properties
    from slackwater.policies.cadence import Cadence


@dataclass(frozen=True)
class RowsToGroups:
    """What becomes of rows once they are judged: steps that give them windows, and groups."""

    steps: tuple[StepNode, ...]
    groups: GroupRows


@dataclass(frozen=True, eq=False)
class PunctuateGroups(Punctuate):
    """Says what is complete, sums rows up, and deals the groups by how late their windows are."""

    rows_to_groups: RowsToGroups = field(kw_only=True)

    @cached_property
    def schema(self) -> EventSchema:
        """The window, the keys, what was summed up."""
        return self.rows_to_groups.groups.schema

    @property
    def properties(self) -> Properties:
        """Those of rows that have windows."""
        return self.rows_to_groups.steps[-1].properties

    def details(self) -> str:
        """The patiences, and what is summed up."""
        groups = self.rows_to_groups.groups
        _window, *others = self.rows_to_groups.steps
        steps = [step.line for step in others]
        return "; ".join([super().details(), *steps, summed_up_in_words(groups.aggregates, groups.keys)])

    def reason(self) -> str:
        """What it saves."""
        return f"{super().reason()}; rows are summed up first, and groups are dealt"

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


def preaggregate_in_bands(*roots: Node) -> list[Node]:
    """Return the same plans, in which rows are summed up before they are dealt to bands, wherever that can be done."""
    return rewrite_band_aggregates(roots, _preaggregated)


def _preaggregated(node: BandedAggregate, judge: Punctuate, rows: Node) -> BandedAggregate:
    steps = steps_behind_bands(node)
    groups = GroupRows(steps[-1].schema, node.keys, node.aggregates, node.verb, counted=False)
    chosen = {one.name: getattr(judge, one.name) for one in fields(judge)}
    dealing = PunctuateGroups(**{**chosen, "input": rows}, rows_to_groups=RowsToGroups(steps, groups))
    return replace(node, bands=tuple(outputs_of(dealing, len(node.bands))), groups=groups)
