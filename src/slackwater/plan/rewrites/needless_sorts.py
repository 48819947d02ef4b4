"""Leaves out the sort before an aggregate, which needs to know what is complete, not order.

    written   rows ──> punctuate ──> sort ──> tumbling ──> aggregate
    run       rows ──> punctuate ──> tumbling ──> aggregate          partial results are held, not rows

Which rows are late, the punctuate step says as before. Answers come at the same punctuations and in the same order: by
window, and groups of one window as they first appeared, which behind a tumbling window is the order of arrival with a
sort as without. Behind a hopping window it is the order of time, so with keys the sort stays there. It stays, too,
where somebody else reads the sorted rows, where a function sees the rows of a window, and where answers are sent early:
those would be sent earlier.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slackwater.plan.nodes.aggregating import AggregateStep
from slackwater.plan.nodes.ordering import Sort
from slackwater.plan.nodes.rows import AssignWindow
from slackwater.plan.rewrites.transform import readers_of, transform

if TYPE_CHECKING:
    from slackwater.plan.node import Node
    from slackwater.plan.rewrites.transform import Made, Readers


def without_needless_sorts(*roots: Node) -> list[Node]:
    """Return the same plans without sorts whose only reader is an aggregate. Sorts are as late as they can be."""
    readers = readers_of(roots)

    def rule(node: Node, anew: Node, made: Made) -> Node:
        if not (isinstance(node, AggregateStep) and isinstance(anew, AggregateStep)):
            return anew
        unsorted = _without_sort(node.input, readers, hops=not node.keys)
        if unsorted is None:
            return anew
        window, sort = unsorted
        below = made[sort.input] if window is None else window.with_inputs(made[sort.input])
        return replace(anew.with_inputs(below), sort_left_out=True)

    return transform(roots, rule)


def _without_sort(node: Node, readers: Readers, *, hops: bool) -> tuple[AssignWindow | None, Sort] | None:
    """The sort that an aggregate reads, if nobody else does, and the hopping window between them, if there is one."""
    window = node if hops and isinstance(node, AssignWindow) and len(readers[node]) == 1 else None
    sort = node if window is None else window.input
    if not (isinstance(sort, Sort) and len(readers[sort]) == 1 and sort.input.properties.progressive):
        return None
    return window, sort
