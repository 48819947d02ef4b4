"""Sums up rows of bands before they come to their aggregate, at one of two places.

Where a whole window is late or not, all rows of a group that arrive together are in time for the same bands: the start
of their window decides for which. So rows may be summed up before they are split by lateness, whatever becomes of late
ones, and groups are split; rows need not be gathered for each band. Where the rows of a micro-batch arrive together
they may even be summed up where they are read, so that groups travel, and not rows: all of them where late ones are
dropped. Who wants to see late rows needs rows; then those are summed up that cannot be late, which is known once the
micro-batch before is done.
"""

from __future__ import annotations

from dataclasses import fields, replace
from enum import Enum
from typing import TYPE_CHECKING

from slackwater.operators.aggregate.group_rows import GroupRows
from slackwater.operators.emission import LATE
from slackwater.plan.node import SideOutput, walk
from slackwater.plan.nodes.aggregating import GroupingNode
from slackwater.plan.nodes.bands import BandedAggregate, outputs_of
from slackwater.plan.nodes.by_origin import AggregateByOrigin
from slackwater.plan.nodes.heartbeats import Heartbeats
from slackwater.plan.nodes.ordering import Punctuate
from slackwater.plan.nodes.preaggregating import (
    PreaggregatedRows,
    PunctuateGroups,
    PunctuateUnlessSummedUp,
    RowsToGroups,
)
from slackwater.plan.nodes.rows import AssignWindow, Select
from slackwater.plan.rewrites.sums_beside_rows import why_not_beside_rows
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
    split = {step: node for node in aggregates if (step := _splitting_step(node, readers)) is not None}
    make = _before_bands if placement is Placement.BEFORE_BANDS else _map_side
    made: dict[Node, Node] = {}
    for node in nodes:
        if isinstance(node, Punctuate) and node in split:
            anew = make(split[node], node, made[node.input])
            if anew is not None:
                # Late rows may be read from the step that splits, so what is read must be the one that splits now.
                made[node], made[split[node]] = anew.bands[0], anew
        if node not in made:
            inputs = [made[source] for source in node.inputs]
            made[node] = node if inputs == list(node.inputs) else node.with_inputs(*inputs)
    return [made[root] for root in roots]


def _before_bands(node: BandedAggregate, step: Punctuate, rows: Node) -> BandedAggregate:
    return _of_groups(node, step, rows, PunctuateGroups, counted=False)


def _of_groups(
    node: BandedAggregate, step: Punctuate, rows: Node, kind: type[PunctuateGroups], *, counted: bool
) -> BandedAggregate:
    """The aggregate behind a step that takes rows and gives groups."""
    steps = _steps_behind(node)
    groups = GroupRows(steps[-1].schema, node.keys, node.aggregates, node.verb, counted=counted)
    chosen = {one.name: getattr(step, one.name) for one in fields(step)}
    splitting = kind(**{**chosen, "input": rows}, rows_to_groups=RowsToGroups(steps, groups))
    return replace(node, bands=tuple(outputs_of(splitting, len(node.bands))), groups=groups)


def _map_side(node: BandedAggregate, step: Punctuate, rows: Node) -> BandedAggregate | None:
    if _has_heartbeats(step):
        return None
    if step.late.action is not LateAction.DROPPED:
        if _why_keys_part(node) is not None:
            return None
        return _of_groups(node, step, rows, PunctuateUnlessSummedUp, counted=True)
    for one in _steps_behind(node):
        rows = one.with_inputs(rows)
    summed_up = PreaggregatedRows(rows, node.keys, node.aggregates)
    splitting = replace(step, input=summed_up, event_count_column=summed_up.groups.event_count_column)
    return replace(node, bands=tuple(outputs_of(splitting, len(node.bands))), groups=summed_up.groups)


def _why_keys_part(node: BandedAggregate) -> str | None:
    """Why rows and groups would not find one shard by their keys; None if they do: rows have all, under their names."""
    steps = _steps_behind(node)
    for key in node.keys:
        if any(one.column_inputs(key) != [(one.input, key)] for one in steps):
            return f"its key {key} is computed behind the window; compute it before"
        if key == steps[0].input.schema.time.name:  # which is a column of another kind behind the window
            return f"its key {key} is the time of rows, by which sums would come to other shards"
    return None


def _steps_behind(node: BandedAggregate) -> tuple[AssignWindow | Select, ...]:
    """The steps between the one that splits and the aggregate, in the order in which they are done, of one band."""
    return tuple(step for step in reversed(_way_up(node.bands[0])) if isinstance(step, AssignWindow | Select))


def _splitting_step(node: BandedAggregate, readers: Readers) -> Punctuate | None:
    """The step that splits rows by lateness, if it may as well split groups."""
    step = _way_up(node.bands[0])[-1]
    return step if isinstance(step, Punctuate) and _why_rows(node, step, readers) is None else None


def _why_rows(node: BandedAggregate, step: Node, readers: Readers) -> str | None:
    """Why the step above all bands must split rows by lateness, and not groups; None if it need not."""
    if not isinstance(step, Punctuate):
        return f"{step.verb} comes between the window and in_bands(); rows can be left out before the window"
    if step.windows is None:
        return "rows are late one by one; in windows of tumbling(), written before in_bands(), whole windows are"
    if step.input.properties.untimed:
        return "rows without a time are in no window"
    ways = [_way_up(band) for band in node.bands]
    between = [[step for step in way if isinstance(step, AssignWindow | Select)] for way in ways]
    alike = all([step.line for step in way] == [step.line for step in between[0]] for way in between)
    # A step that left rows out would leave out late ones, too, and nobody would count these.
    only_columns = all(isinstance(step, Select) for step in between[0][:-1]) and isinstance(
        between[0][-1], AssignWindow
    )
    if not (alike and only_columns):
        return "more than columns is changed between the window and in_bands()"
    split = [one for way in ways for one in way]
    late = [one for one in readers[step] if isinstance(one, SideOutput) and one.output == LATE]
    read_by_others = any(set(readers[one]) - {node, *split, *late} for one in split)
    return "another step reads the same rows" if read_by_others else None


def why_not_map_side(*roots: Node) -> list[str]:
    """Why rows are moved to shards, and not groups: a reason for each aggregate of a plan as Spark runs it.

    There is none for an aggregate whose rows are summed up where they are read.
    """
    readers = readers_of(roots)
    reasons = []
    for node in walk(*roots):
        if isinstance(node, GroupingNode):
            why = why_not_beside_rows(node, readers)
            reasons += [] if why is None else [f"{node.line}: {why}"]
        elif isinstance(node, AggregateByOrigin):
            reasons.append(
                f"{node.verb} by origin {node.origin}: bounds follow the arrivals of rows, and not of groups"
            )
        elif isinstance(node, BandedAggregate) and node.groups is None:
            step = _way_up(node.bands[0])[-1]
            why = _why_rows(node, step, readers)
            if why is None and _has_heartbeats(step):
                why = "bounds follow the arrivals of rows, and not of groups"
            elif why is None:
                why = _why_keys_part(node)
            reasons.append(f"{node.line}: {why}")
    return reasons


def _has_heartbeats(step: Node) -> bool:
    return any(isinstance(node, Heartbeats) for node in walk(step))


def _way_up(node: Node) -> list[Node]:
    """From a band up to the step that splits rows, or to the first that is none that treats each row by itself."""
    way = [node]
    while isinstance(way[-1], SideOutput | Select | AssignWindow):
        way += way[-1].inputs
    return way
