"""Leaves out columns that nobody reads before the steps that copy rows: the sort, and the split by lateness.

What an aggregate does not look at need not be gathered on the way to it. Rows that may be shown to somebody keep all
that they have: those that come out, late rows that are diverted or named in an error, and those that a function sees.
So do those that deduplicate chooses among: of two rows of one time, any column may decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.plan.node import walk
from slackwater.plan.nodes.rows import Select
from slackwater.plan.rewrites.transform import transform

if TYPE_CHECKING:
    from slackwater.plan.node import Names, Node
    from slackwater.plan.rewrites.transform import Made


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
        read[root] = frozenset(root.schema.payload.names)
    for node in reversed(nodes):
        for source in node.inputs:
            read[source] |= node.columns_read(read[node], source)

    def rule(node: Node, anew: Node, made: Made) -> Node:
        if not node.traits.copies_rows:
            return anew
        (source,) = node.inputs
        below = _selected(made[source], read[source])
        return anew if below is made[source] else node.with_inputs(below)

    return transform(roots, rule)


def _selected(below: Node, read: Names) -> Node:
    names = below.schema.payload.names
    if read.issuperset(names):
        return below
    return SelectRead(below, {name: name for name in names if name in read})
