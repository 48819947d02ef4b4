"""Finds aggregates in bands whose rows could as well be summed up before they are dealt to the bands.

    rows ──> punctuate ──> tumbling, select ──> in_bands

Where whole windows are judged, all rows of a group that are judged together are in time for the same bands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.operators.emission import LATE
from slackwater.plan.node import SideOutput, walk
from slackwater.plan.nodes.bands import BandedAggregate
from slackwater.plan.nodes.ordering import Punctuate
from slackwater.plan.nodes.rows import AssignWindow, Select

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from slackwater.plan.node import Node


def rewrite_band_aggregates(
    roots: tuple[Node, ...], make: Callable[[BandedAggregate, Punctuate, Node], BandedAggregate | None]
) -> list[Node]:
    """Return the same plans with such aggregates made anew, out of what they were, their judge, and what that reads.

    The first band of one that is made anew is its new judge. Where nothing is made, they stay as they are. Plans that
    are run together are given together.
    """
    nodes = list(walk(*roots))
    readers: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node in nodes:
        for source in node.inputs:
            readers[source].append(node)
    aggregates = [node for node in nodes if isinstance(node, BandedAggregate)]
    judged = {judge: node for node in aggregates if (judge := _judge_of(node, readers, roots)) is not None}
    made: dict[Node, Node] = {}
    for node in nodes:
        if isinstance(node, Punctuate) and node in judged:
            anew = make(judged[node], node, made[node.input])
            if anew is not None:
                # Late rows may be read from the judge, so what is read must be the one that judges now.
                made[node], made[judged[node]] = anew.bands[0], anew
        if node not in made:
            sources = [made[source] for source in node.inputs]
            made[node] = node if sources == list(node.inputs) else node.with_inputs(*sources)
    return [made[root] for root in roots]


def steps_behind_bands(node: BandedAggregate) -> tuple[AssignWindow | Select, ...]:
    """The steps between the judge and the aggregate, in the order in which they are done, of one band."""
    return tuple(step for step in reversed(_way_up(node.bands[0])) if isinstance(step, AssignWindow | Select))


def _judge_of(node: BandedAggregate, readers: Mapping[Node, list[Node]], roots: tuple[Node, ...]) -> Punctuate | None:
    """The step that deals rows to the bands, if it may as well deal groups."""
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
    dealt = [one for way in ways for one in way]
    late = [one for one in readers[judge] if isinstance(one, SideOutput) and one.output == LATE]
    read_by_others = any(one in roots or set(readers[one]) - {node, *dealt, *late} for one in dealt)
    return judge if alike and only_columns and not read_by_others else None


def _way_up(node: Node) -> list[Node]:
    """From a band up to the step that deals rows, or to the first that is none that treats each row by itself."""
    way = [node]
    while isinstance(way[-1], SideOutput | Select | AssignWindow):
        way += way[-1].inputs
    return way
