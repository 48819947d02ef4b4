"""The walk that all rewrites share: every node is made anew on what its inputs have become, inputs first."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

from slackwater.plan.node import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from slackwater.plan.node import Node

    Made: TypeAlias = Mapping[Node, Node]
    """What has become of the nodes so far."""

    Rule: TypeAlias = Callable[[Node, Node, Made], Node]
    """Says what becomes of a node, from what it was and the same on its new inputs."""

    Readers: TypeAlias = Mapping[Node, Sequence[Node | None]]
    """Who reads each node; None stands for whoever runs the plan."""


def transform(roots: Sequence[Node], rule: Rule) -> list[Node]:
    """Return the same plans with each node replaced as a rule says. Plans that are run together are given together."""
    made: dict[Node, Node] = {}
    for node in walk(*roots):
        inputs = [made[source] for source in node.inputs]
        made[node] = rule(node, node if inputs == list(node.inputs) else node.with_inputs(*inputs), made)
    return [made[root] for root in roots]


def readers_of(roots: Sequence[Node]) -> Readers:
    """Who reads each node of some plans."""
    readers: dict[Node, list[Node | None]] = defaultdict(list)
    for node in walk(*roots):
        for source in node.inputs:
            readers[source].append(node)
    for root in roots:
        readers[root].append(None)
    return readers
