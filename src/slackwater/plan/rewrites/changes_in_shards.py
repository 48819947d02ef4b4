"""Lets the changes of a log come to shards by micro-batches, right behind the source.

in process   changes ──> late_changes ──> settle
on Spark     changes ─┆─> net_changes ──> late_changes ──> settle
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.plan.node import SourceNode
from slackwater.plan.nodes.changes_in_shards import ChangesInShards
from slackwater.plan.nodes.revisions import LateChanges
from slackwater.plan.rewrites.transform import readers_of, transform

if TYPE_CHECKING:
    from slackwater.plan.node import Node
    from slackwater.plan.rewrites.transform import Made


def with_changes_in_shards(*roots: Node) -> list[Node]:
    """Return the same plans with a step behind each log of changes that takes those of a micro-batch together."""
    readers = readers_of(roots)

    def rule(node: Node, anew: Node, made: Made) -> Node:  # noqa: ARG001 - a rule is asked with all that is made
        if not isinstance(node, SourceNode) or node.properties.insert_only:
            return anew
        return ChangesInShards(anew, checked=not all(isinstance(reader, LateChanges) for reader in readers[node]))

    return transform(roots, rule)
