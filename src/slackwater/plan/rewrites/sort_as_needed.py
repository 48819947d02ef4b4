"""Moves the sort behind the steps that need no order: they leave fewer, smaller and less disordered rows to sort.

A step that treats each row by itself gives the same rows before a sort as after it. What decides on late rows, the
punctuate step, stays where it was written, so that the same rows are late. Behind a window the rows of a window tie: a
sort stays before it where a later step looks at their order.
Paper: Chandramouli, Goldstein, Li. Impatience Is a Virtue. ICDE 2018, section IV.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

from slackwater.plan.node import walk
from slackwater.plan.nodes.aggregating import MapWindows
from slackwater.plan.nodes.combining import Union
from slackwater.plan.nodes.deduplicate import Deduplicate
from slackwater.plan.nodes.ordering import Sort
from slackwater.plan.nodes.revisions import AssumeKeyed
from slackwater.plan.nodes.rows import AssignWindow, MapBatches, Select, UnaryNode, Where, is_narrow
from slackwater.policies.windows import Hopping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slackwater.plan.node import Node


def sort_as_needed(*roots: Node) -> list[Node]:
    """Return the same plans with every sort as late as it can be.

    A sort that several steps read stays before them, and is run once for all.
    """
    nodes = list(walk(*roots))
    readers = Counter(source for node in nodes for source in node.inputs)
    readers.update(roots)
    in_order = {window for node in nodes if _looks_at_order(node) for window in _windows_before(node)}
    made: dict[Node, Node] = {}
    for node in nodes:
        sources = [made[source] for source in node.inputs]
        below = sources[0] if sources else None
        if isinstance(below, Sort) and isinstance(node, Deduplicate) and readers[node.input] == 1:
            made[node] = node.with_inputs(below.input)  # it puts rows in order itself
        elif isinstance(below, Sort) and _needs_no_order(node) and node not in in_order and readers[node.input] == 1:
            made[node] = replace(below, input=node.with_inputs(below.input), moved=(*below.moved, node.verb))
        else:
            made[node] = node if sources == list(node.inputs) else node.with_inputs(*sources)
    return [made[root] for root in roots]


def _looks_at_order(node: Node) -> bool:
    return isinstance(node, MapWindows) and not node.any_order


def _windows_before(node: Node) -> Iterator[Node]:
    """The windows whose rows a step gets in the order in which they come."""
    for source in node.inputs:
        if isinstance(source, AssignWindow):
            yield source
        if isinstance(source, Where | Select | MapBatches | AssignWindow | AssumeKeyed | Sort | Deduplicate | Union):
            yield from _windows_before(source)


def _needs_no_order(node: Node) -> TypeGuard[UnaryNode]:
    """Whether a step treats each row by itself, leaves an ordered stream ordered, and gives what can be sorted."""
    if isinstance(node, Select) and any(is_narrow(field.type) for field in node.schema.payload):
        return False  # a sort brings rows of several batches together, whose words need not fit then
    window = isinstance(node, AssignWindow) and not isinstance(node.window, Hopping)
    return window or isinstance(node, Where | Select)
