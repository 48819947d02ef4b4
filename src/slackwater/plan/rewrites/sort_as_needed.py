"""Moves the sort behind the steps that need no order: they leave fewer, smaller and less disordered rows to sort.

A step that treats each row by itself gives the same rows before a sort as after it. What decides on late rows, the
punctuate step, stays where it was written, so that the same rows are late. Behind a window the rows of a window tie: a
sort stays before it where a later step looks at their order.
Paper: Chandramouli, Goldstein, Li. Impatience Is a Virtue. ICDE 2018, section IV.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slackwater.plan.node import walk
from slackwater.plan.nodes.ordering import Sort
from slackwater.plan.nodes.rows import AssignWindow
from slackwater.plan.rewrites.transform import readers_of, transform
from slackwater.plan.traits import TieOrder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slackwater.plan.node import Node
    from slackwater.plan.rewrites.transform import Made


def sort_as_needed(*roots: Node) -> list[Node]:
    """Return the same plans with every sort as late as it can be.

    A sort that several steps read stays before them, and is run once for all.
    """
    readers = readers_of(roots)
    in_order = {window for node in walk(*roots) if node.traits.reads_tie_order for window in _windows_before(node)}

    def rule(node: Node, anew: Node, made: Made) -> Node:
        if len(node.inputs) != 1 or len(readers[node.inputs[0]]) != 1:
            return anew
        below = made[node.inputs[0]]
        if not isinstance(below, Sort):
            return anew
        if node.traits.sorts_itself:
            return node.with_inputs(below.input)
        if node.commutes_with_sort and node not in in_order:
            return replace(below, input=node.with_inputs(below.input), moved=(*below.moved, node.verb))
        return anew

    return transform(roots, rule)


def _windows_before(node: Node) -> Iterator[Node]:
    """The windows whose rows a step gets in the order in which they come."""
    for source in node.inputs:
        if isinstance(source, AssignWindow):
            yield source
        if source.traits.tie_order in {TieOrder.KEPT, TieOrder.INTERLEAVED}:
            yield from _windows_before(source)
