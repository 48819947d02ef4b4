"""Leaves out columns that nobody reads before the steps that copy rows: the sort, and the dealing of late rows.

What an aggregate does not look at need not be gathered on the way to it. Rows that may be shown to somebody keep all
that they have: those that come out, late rows that are diverted or named in an error, and those that a function sees.
So do those that deduplicate chooses among: of two rows of one time, any column may decide.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from slackwater.events.schema import with_names_before
from slackwater.operators.emission import DIVERTED
from slackwater.plan.node import SideOutput, walk
from slackwater.plan.nodes.aggregating import AggregateStep
from slackwater.plan.nodes.bands import BandedAggregate
from slackwater.plan.nodes.ordering import Punctuate, Sort
from slackwater.plan.nodes.rows import AssignWindow, Select
from slackwater.policies.late import LateAction

if TYPE_CHECKING:
    from slackwater.plan.node import Node

    Names = frozenset[str]


@dataclass(frozen=True, eq=False)
class SelectRead(Select):
    """A select that nobody wrote."""

    def reason(self) -> str:
        """Who put it here, and why."""
        return "added by the plan: from here on only these columns are read"


def without_unread_columns(*roots: Node) -> list[Node]:
    """Return the same plans with fewer columns on the way to their aggregates."""
    nodes = list(walk(*roots))
    read: dict[Node, Names] = {node: frozenset() for node in nodes}
    for root in roots:
        read[root] = _all(root)
    for node in reversed(nodes):
        for source in node.inputs:
            read[source] |= columns_read_by(node, read[node], source)
    made: dict[Node, Node] = {}
    for node in nodes:
        sources = [made[source] for source in node.inputs]
        if isinstance(node, Sort | Punctuate):
            sources = [_selected(sources[0], read[node.input])]
        if sources == list(node.inputs):
            made[node] = node
        elif isinstance(node, AssignWindow):
            made[node] = replace(node, input=sources[0])  # its own columns depend on those of its input
        else:
            made[node] = node.with_inputs(*sources)
    return [made[root] for root in roots]


def _all(node: Node) -> Names:
    return frozenset(node.schema.payload.names)


def columns_read_by(node: Node, names: Names, source: Node) -> Names:
    """The columns of a source that a node looks at, or hands on because the columns named are read behind it."""
    match node:
        case SideOutput() if node.output not in DIVERTED:
            return names
        case Sort():
            return names
        case Punctuate() if node.late.action not in {LateAction.DIVERTED, LateAction.REFUSED}:
            return names
        case AssignWindow():
            shown = source.schema.shown
            kept = with_names_before(shown, [column.name for column in node.schema.time_columns()], node.verb)
            behind = dict(zip(shown.names, kept.names, strict=True))
            return frozenset(name for name in _all(source) if behind[name] in names)
        case AggregateStep() | BandedAggregate():
            summed = (what.column for what in node.aggregates.values())
            return frozenset([*node.keys, *(column for column in summed if column is not None)])
    return _all(source)


def _selected(below: Node, read: Names) -> Node:
    names = below.schema.payload.names
    if read.issuperset(names):
        return below
    return SelectRead(below, {name: name for name in names if name in read})
