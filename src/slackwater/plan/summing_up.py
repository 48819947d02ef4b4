"""Sums up rows where they are read, before it is known whether they are late, so that only groups need to travel.

    written   rows ──> punctuate ──> tumbling ──> in_bands
    run       rows ──> tumbling ──> sum_up ──> punctuate ──> in_bands

That is the same only where a window is judged as a whole: then all rows of a group are in time for the same bands, and
the start of their window tells for which. It is done where late rows are dropped; who wants to see them needs the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from slackwater.operators.group_rows import GroupRows
from slackwater.plan.aggregating_steps import summed_up_in_words
from slackwater.plan.bands import BandedAggregate, outputs_of
from slackwater.plan.node import Node, SideOutput, walk
from slackwater.plan.ordering_steps import Punctuate
from slackwater.plan.row_steps import AssignWindow, Select
from slackwater.policies.late import Fate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slackwater.events.schema import EventSchema
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


def summed_up_where_read(*roots: Node) -> list[Node]:
    """Return the same plans, in which rows are summed up as soon as they are read, wherever that can be done.

    Plans that are run together are given together.
    """
    nodes = list(walk(*roots))
    readers: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node in nodes:
        for source in node.inputs:
            readers[source].append(node)
    made: dict[Node, Node] = {}
    for node in nodes:
        if isinstance(node, BandedAggregate) and (judge := _judge_of(node, readers, roots)) is not None:
            made[node] = _summed_up(node, judge, made[judge.input])
        else:
            sources = [made[source] for source in node.inputs]
            made[node] = node if sources == list(node.inputs) else node.reading(*sources)
    return [made[root] for root in roots]


def _judge_of(node: BandedAggregate, readers: Mapping[Node, list[Node]], roots: tuple[Node, ...]) -> Punctuate | None:
    """The step that deals rows to the bands, if it may as well deal groups."""
    judge = _way_up(node.bands[0])[-1]
    if not (isinstance(judge, Punctuate) and judge.windows is not None and judge.late.fate is Fate.DROPPED):
        return None
    if judge.input.properties.untimed:
        return None  # rows without a time are in no window
    ways = [_way_up(band) for band in node.bands]
    between = [[step for step in way[:-1] if not isinstance(step, SideOutput)] for way in ways]
    alike = all([step.line for step in way] == [step.line for step in between[0]] for way in between)
    # A step that left rows out would leave out late ones, too, and nobody would count these.
    only_columns = all(isinstance(step, Select) for step in between[0][:-1]) and isinstance(
        between[0][-1], AssignWindow
    )
    dealt = [one for way in ways for one in way]
    read_by_others = any(one in roots or set(readers[one]) - {node, *dealt} for one in dealt)
    return judge if alike and only_columns and not read_by_others else None


def _way_up(node: Node) -> list[Node]:
    """From a band up to the step that deals rows, or to the first that is none that treats each row by itself."""
    way = [node]
    while isinstance(way[-1], SideOutput | Select | AssignWindow):
        way += way[-1].inputs
    return way


def _summed_up(node: BandedAggregate, judge: Punctuate, rows: Node) -> BandedAggregate:
    for step in reversed(_way_up(node.bands[0])[:-1]):
        rows = step.reading(rows)
    summed_up = SumUp(rows, node.keys, node.aggregates)
    judged = replace(judge, input=summed_up, stands_for=summed_up.groups.stands_for)
    return replace(node, bands=tuple(outputs_of(judged, len(node.bands))), groups=summed_up.groups)
