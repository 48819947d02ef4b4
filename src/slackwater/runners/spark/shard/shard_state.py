"""What the state of a shard is made of: the classes that its operators name, and the shard's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.runners.spark.shard.idle_sources import SourceActivity
from slackwater.runners.spark.shard.totals import Totals
from slackwater.runners.spark.state.state_codec import StateCodec
from slackwater.runners.steering import SteeringState

if TYPE_CHECKING:
    from slackwater.runners.spark.planning.shard_plan import ShardPlan


def codec_of(plan: ShardPlan) -> StateCodec:
    """What writes and reads the state of a shard of a plan."""
    operators = [node.build_driven(name) for node, name in plan.steps.items()]
    return StateCodec(
        [SourceActivity, SteeringState, Totals, *(one for operator in operators for one in operator.state_types)]
    )
