"""Sums up rows of bands before they come to their aggregate, at one of two places.

Where whole windows are judged, all rows of a group that are judged together are in time for the same bands: the start
of their window tells for which. So rows may be summed up as soon as they are judged, whatever becomes of late ones, and
groups are split by lateness; rows need not be gathered for each band. Where the rows of a micro-batch are judged
together and late ones are dropped, rows may even be summed up where they are read, so that only groups travel; who
wants to see late rows needs the rows.
"""

from __future__ import annotations

from dataclasses import fields, replace
from enum import Enum
from typing import TYPE_CHECKING

from slackwater.operators.aggregate.group_rows import GroupRows
from slackwater.operators.emission import LATE
from slackwater.plan.node import SideOutput, walk
from slackwater.plan.nodes.bands import BandedAggregate, outputs_of
from slackwater.plan.nodes.ordering import Punctuate
from slackwater.plan.nodes.preaggregating import PreaggregatedRows, PunctuateGroups, RowsToGroups
from slackwater.plan.nodes.rows import AssignWindow, Select
from slackwater.plan.rewrites.transform import readers_of
from slackwater.policies.late import LateAction

if TYPE_CHECKING:
    from slackwater.plan.node import Node
    from slackwater.plan.rewrites.transform import Readers


class Placement(Enum):
    """Where rows are summed up."""

    BEFORE_BANDS = "where rows are split by lateness"
    MAP_SIDE = "where rows are read"


def preaggregate(placement: Placement, *roots: Node) -> list[Node]:
    """Return the same plans with rows of bands summed up at one place, wherever that can be done.

    Plans that are run together are given together.
    """
    readers = readers_of(roots)
    nodes = list(walk(*roots))
    aggregates = [node for node in nodes if isinstance(node, BandedAggregate)]
    judged = {judge: node for node in aggregates if (judge := _judge_of(node, readers)) is not None}
    make = _before_bands if placement is Placement.BEFORE_BANDS else _map_side
    made: dict[Node, Node] = {}
    for node in nodes:
        if isinstance(node, Punctuate) and node in judged:
            anew = make(judged[node], node, made[node.input])
            if anew is not None:
                # Late rows may be read from the judge, so what is read must be the one that judges now.
                made[node], made[judged[node]] = anew.bands[0], anew
        if node not in made:
            inputs = [made[source] for source in node.inputs]
            made[node] = node if inputs == list(node.inputs) else node.with_inputs(*inputs)
    return [made[root] for root in roots]


def _before_bands(node: BandedAggregate, judge: Punctuate, rows: Node) -> BandedAggregate:
    steps = _steps_behind(node)
    groups = GroupRows(steps[-1].schema, node.keys, node.aggregates, node.verb, counted=False)
    chosen = {one.name: getattr(judge, one.name) for one in fields(judge)}
    split = PunctuateGroups(**{**chosen, "input": rows}, rows_to_groups=RowsToGroups(steps, groups))
    return replace(node, bands=tuple(outputs_of(split, len(node.bands))), groups=groups)


def _map_side(node: BandedAggregate, judge: Punctuate, rows: Node) -> BandedAggregate | None:
    if judge.late.action is not LateAction.DROPPED:
        return None
    for step in _steps_behind(node):
        rows = step.with_inputs(rows)
    summed_up = PreaggregatedRows(rows, node.keys, node.aggregates)
    judged = replace(judge, input=summed_up, event_count_column=summed_up.groups.event_count_column)
    return replace(node, bands=tuple(outputs_of(judged, len(node.bands))), groups=summed_up.groups)


def _steps_behind(node: BandedAggregate) -> tuple[AssignWindow | Select, ...]:
    """The steps between the judge and the aggregate, in the order in which they are done, of one band."""
    return tuple(step for step in reversed(_way_up(node.bands[0])) if isinstance(step, AssignWindow | Select))


def _judge_of(node: BandedAggregate, readers: Readers) -> Punctuate | None:
    """The step that splits rows by lateness, if it may as well split groups."""
    judge = _way_up(node.bands[0])[-1]
    if not (isinstance(judge, Punctuate) and judge.windows is not None):
        return None
    if judge.input.properties.untimed:
        return None  # rows without a time are in no window
    ways = [_way_up(band) for band in node.bands]
    between = [[step for step in way if isinstance(step, AssignWindow | Select)] for way in ways]
    alike = all([step.line for step in way] == [step.line for step in between[0]] for way in between)
    # A step that left rows out would leave out late ones, too, and nobody would count these.
    only_columns = all(isinstance(step, Select) for step in between[0][:-1]) and isinstance(
        between[0][-1], AssignWindow
    )
    split = [one for way in ways for one in way]
    late = [one for one in readers[judge] if isinstance(one, SideOutput) and one.output == LATE]
    read_by_others = any(set(readers[one]) - {node, *split, *late} for one in split)
    return judge if alike and only_columns and not read_by_others else None


def _way_up(node: Node) -> list[Node]:
    """From a band up to the step that splits rows, or to the first that is none that treats each row by itself."""
    way = [node]
    while isinstance(way[-1], SideOutput | Select | AssignWindow):
        way += way[-1].inputs
    return way
