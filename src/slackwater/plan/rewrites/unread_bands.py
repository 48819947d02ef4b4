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
from slackwater.plan.rewrites.transform import transform

if TYPE_CHECKING:
    from slackwater.plan.node import Node
    from slackwater.plan.rewrites.transform import Made


def without_unread_bands(*roots: Node) -> list[Node]:
    """Return the same plans with as many bands as are read."""
    nodes = list(walk(*roots))
    side = {(node.step, node.output) for node in nodes if isinstance(node, SideOutput)}
    main = {*roots, *(source for node in nodes if not isinstance(node, SideOutput) for source in node.inputs)}

    def rule(node: Node, anew: Node, made: Made) -> Node:  # noqa: ARG001 - a rule is asked with all that is made
        # Where only the late rows are read, they are those of the last band, as they were written.
        if isinstance(anew, Punctuate) and node in main:
            bands = [0, *(band for band in range(1, len(anew.patiences)) if (node, band_output(band)) in side)]
            if bands[-1] + 1 < len(anew.patiences):
                return replace(anew, lateness=anew.lateness.first(bands[-1] + 1))
        return anew

    return transform(roots, rule)
