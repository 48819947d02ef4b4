"""Leaves out punctuations that nobody looks at: of those in one batch a sort or an aggregate obeys the last.

To put punctuations between the rows of a batch, and to take them out again, is to copy its times twice. Where every
way from the step that punctuates leads to a step that acts once for each batch, the last one follows the rows instead.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slackwater.operators.emission import LATE
from slackwater.plan.node import SideOutput, walk
from slackwater.plan.nodes.aggregating import AggregateStep
from slackwater.plan.nodes.bands import BandedAggregate
from slackwater.plan.nodes.early_aggregate import EarlyAggregate
from slackwater.plan.nodes.ordering import Punctuate, Sort
from slackwater.plan.nodes.rows import AssignWindow, MapBatches, Select, Where

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slackwater.plan.node import Node


def with_last_punctuations(*roots: Node) -> list[Node]:
    """Return the same plans, in which steps punctuate once for each batch wherever nobody could tell."""
    nodes = list(walk(*roots))
    readers: dict[Node, list[Node]] = {node: [] for node in nodes}
    for node in nodes:
        for source in node.inputs:
            readers[source].append(node)
    made: dict[Node, Node] = {}
    for node in nodes:
        sources = [made[source] for source in node.inputs]
        made[node] = node if sources == list(node.inputs) else node.with_inputs(*sources)
        if isinstance(node, Punctuate) and node not in roots and _all_obey_the_last(node, readers, roots):
            made[node] = replace(node, input=sources[0], only_last=True)
    return [made[root] for root in roots]


def _all_obey_the_last(node: Node, readers: Mapping[Node, list[Node]], roots: tuple[Node, ...]) -> bool:
    """Whether every way down from a step leads to one that acts once for each batch, at its last punctuation."""
    for reader in readers[node]:
        if isinstance(reader, SideOutput) and reader.output == LATE:
            continue
        if isinstance(reader, Sort | AggregateStep | BandedAggregate) and not isinstance(reader, EarlyAggregate):
            continue
        passes_on = isinstance(reader, SideOutput | Where | Select | MapBatches | AssignWindow)
        if not passes_on or reader in roots or not _all_obey_the_last(reader, readers, roots):
            return False
    return True
