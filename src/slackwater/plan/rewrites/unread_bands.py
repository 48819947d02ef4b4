"""Leaves out the patience bands that nobody reads: for the streams that are read, their rows are late.

`in_bands("1s", "1h")[0]` run alone is the stream of one second. What comes later than that is late for it, and goes
where late rows go, instead of to a band from which nobody takes it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slackwater.operators.emission import band_output
from slackwater.plan.node import SideOutput, walk
from slackwater.plan.nodes.ordering import Punctuate

if TYPE_CHECKING:
    from slackwater.plan.node import Node


def without_unread_bands(*roots: Node) -> list[Node]:
    """Return the same plans with as many bands as are read."""
    nodes = list(walk(*roots))
    side = {(node.step, node.output) for node in nodes if isinstance(node, SideOutput)}
    main = {*roots, *(source for node in nodes if not isinstance(node, SideOutput) for source in node.inputs)}
    made: dict[Node, Node] = {}
    for node in nodes:
        sources = [made[source] for source in node.inputs]
        made[node] = node if sources == list(node.inputs) else node.with_inputs(*sources)
        # Where only the late rows are read, they are those of the last band, as they were written.
        if isinstance(node, Punctuate) and node in main:
            bands = [0, *(band for band in range(1, len(node.patiences)) if (node, band_output(band)) in side)]
            if bands[-1] + 1 < len(node.patiences):
                made[node] = replace(node, input=sources[0], patiences=node.patiences[: bands[-1] + 1])
    return [made[root] for root in roots]
