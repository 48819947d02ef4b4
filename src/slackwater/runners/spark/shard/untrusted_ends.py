"""The end of a query that is flushed, as merges and comparisons of replicas see it: what comes then is only a flush."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.operators.replicas.compare import CompareReplicasOperator
from slackwater.operators.replicas.replica_merge import ReplicaMerge
from slackwater.plan.node import walk
from slackwater.plan.nodes.revisions import UntrustedEnd
from slackwater.runners.spark.shard.steered_ways import newest_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.plan.node import Node
    from slackwater.progress.instants import Instant
    from slackwater.runners.operator_graph import OperatorGraph
    from slackwater.runners.spark.planning.shard_plan import InputPipeline


def mark_ends_untrusted(graph: OperatorGraph, pipelines: Sequence[InputPipeline]) -> None:
    """Let merges and comparisons know that what comes from their replicas now is only a flush."""
    for step in graph.steps:
        operator = step.operator
        if isinstance(operator, ReplicaMerge | CompareReplicasOperator):
            for port, replica in enumerate(graph.nodes[step].inputs):
                if isinstance(replica, UntrustedEnd):
                    operator.mark_end_untrusted(port, _newest_above(replica, graph, pipelines))


def _newest_above(replica: Node, graph: OperatorGraph, pipelines: Sequence[InputPipeline]) -> Instant:
    above = set(walk(replica))
    return max(newest_of(graph.step_of(one.entry).operator) for one in pipelines if one.entry in above)
