"""The ways into a shard, as control records are applied to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slackwater.operators.heartbeats.follows_arrivals import FollowsArrivals
from slackwater.operators.steered import Steered
from slackwater.progress.instants import BEGINNING
from slackwater.runners.steering import Way

if TYPE_CHECKING:
    from slackwater.operators.operator import Operator
    from slackwater.progress.instants import Instant
    from slackwater.runners.graph_parts import Step
    from slackwater.runners.operator_graph import OperatorGraph
    from slackwater.runners.spark.planning.shard_plan import InputPipeline


class ShardWay(Way):
    """A way in, at whose first step a micro-batch is punctuated."""

    def __init__(self, graph: OperatorGraph, pipeline: InputPipeline) -> None:
        self.source = pipeline.source
        self.name = pipeline.source.name
        self.calendar = pipeline.entry.schema.calendar
        self._graph = graph
        self._step = graph.step_of(pipeline.entry)
        if not isinstance(self._step.operator, Steered):
            column = pipeline.replica_column
            replicas = f"column {column} names its replicas, each of which goes by its own rows"
            self.why_fixed = "it is a log, which says itself how far it is complete" if column is None else replicas

    @property
    def first_step(self) -> Step:
        """The step that decides how far it is complete."""
        return self._step

    def newest(self) -> Instant:
        """The greatest time of its rows in all shards."""
        return newest_of(self._step.operator)

    def reached(self) -> Instant:
        """Up to where it is complete, in all shards alike."""
        operator = self._step.operator
        return operator.reached() if isinstance(operator, Steered) else BEGINNING

    def punctuate(self, bound: Instant) -> None:
        """Punctuate at its first step."""
        operator = self._step.operator
        assert isinstance(operator, Steered), self.why_fixed
        self._graph.release(self._step, operator.punctuate(bound))

    def steps(self) -> list[Step]:
        """Its first step, and all behind it."""
        return [self._step, *self._graph.steps_behind(self._step)]


def newest_of(operator: Operator[Any]) -> Instant:
    """The greatest time that has come to a way in, in all shards."""
    if isinstance(operator, FollowsArrivals):
        return operator.newest()
    newest: Instant = operator.snapshot().high_water
    return newest
