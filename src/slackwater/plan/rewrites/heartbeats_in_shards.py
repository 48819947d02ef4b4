"""Makes heartbeats where rows come to shards, as far behind the source as they can be.

    in process   rows ──> heartbeats ──> where ──> select ──> punctuate
    on Spark     rows ──> where ──> select ─┆─> heartbeats ──> punctuate
                   └── statistics ──────────┘

What all rows say is taken where they are read, before any step; so steps that treat each row by itself may come first,
and what they leave out need not travel. A step that drops a column which heartbeats look at, or changes times, stays
behind them. Steps that go by origin, and make heartbeats themselves, do such a step inside, as in process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.plan.nodes.by_origin import ByOrigin
from slackwater.plan.nodes.heartbeats import Heartbeats, HeartbeatsInShards
from slackwater.plan.rewrites.transform import readers_of, transform
from slackwater.plan.rewrites.unread_columns import without_unread_columns

if TYPE_CHECKING:
    from slackwater.plan.node import Node
    from slackwater.plan.rewrites.transform import Made


def with_heartbeats_in_shards(*roots: Node) -> list[Node]:
    """Return the same plans with heartbeats as shards make them; columns that nobody reads do not travel."""
    readers = readers_of(roots)

    def rule(node: Node, anew: Node, made: Made) -> Node:
        if isinstance(anew, Heartbeats):
            return anew.in_shards()
        if isinstance(anew, ByOrigin):
            return anew.in_shards()
        if len(node.inputs) != 1 or len(readers[node.inputs[0]]) != 1:
            return anew
        before = made[node.inputs[0]]
        if isinstance(before, HeartbeatsInShards) and before.follows(anew):
            return before.with_inputs(node.with_inputs(before.input))
        return anew

    changed = transform(roots, rule)
    return changed if changed == list(roots) else without_unread_columns(*changed)
