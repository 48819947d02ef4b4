"""Takes the states of shards to another number of shards: each is parted by keys, and what comes to one is united.

    2 shards      3 shards
    ┌───┐  split  ┌─┬─┬─┐           unite   ┌───┐
    │ A │ ──────▶ │A│A│A│ ──┐ ┌──▶ [A B] ──▶│   │
    └───┘         └─┴─┴─┘   ├─┤    [A B] ──▶│...│
    │ B │ ──────▶ │B│B│B│ ──┘ └──▶ [A B] ──▶│   │
    └───┘         └─┴─┴─┘                   └───┘

Operators say themselves how (`Operator.split`, `Operator.unite`); a plan in which one cannot is refused. How far
sources have come all shards know alike. What was counted stays with the first of those that it is split
among, so that sums over all shards are what they were.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from slackwater.errors import PlanError, message
from slackwater.progress.instants import format_duration
from slackwater.runners.snapshot import Snapshot
from slackwater.runners.spark.shard.shard import TOTALS
from slackwater.runners.spark.shard.totals import Totals
from slackwater.runners.steering import CONTROL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.progress.instants import Duration
    from slackwater.runners.spark.planning.shard_plan import ShardPlan


_AS_BEFORE: Final = "go on with as many shards as before, or start anew with another checkpoint and other folders"


def refuse_unless_divisible(plan: ShardPlan, *, timeout: Duration | None = None) -> None:
    """Refuse a plan of which a step, or the timers, cannot be taken to another number of shards."""
    if timeout is not None:
        # All shards must be woken at the instants that were set, and Spark fires timers that are due as it takes them.
        facts = {"timeout": format_duration(timeout)}
        raise PlanError(message("timers cannot be taken to another number of shards yet", facts, _AS_BEFORE))
    lacking = [node.line for node, name in plan.steps.items() if not node.build_driven(name).splits]
    if lacking:
        what = "what a step remembers cannot be taken to another number of shards yet"
        raise PlanError(message(what, {"step": ", ".join(dict.fromkeys(lacking))}, _AS_BEFORE))


def why_fixed(plan: ShardPlan, *, timeout: Duration | None = None) -> str:
    """Why a plan cannot be taken to another number of shards; empty if it can."""
    if replace(plan, wanted_shards=max(plan.wanted_shards, 2)).columns is None:
        return f"one shard does all the work: {plan.why_one}"
    try:
        refuse_unless_divisible(plan, timeout=timeout)
    except PlanError as refusal:
        headline, fact, *_ = str(refusal).splitlines()
        return f"{headline}: {' '.join(fact.split())}"
    return ""


def split_snapshot(plan: ShardPlan, snapshot: Snapshot) -> list[Snapshot]:
    """What each shard of a plan gets of the state of one that had other neighbours."""
    totals: Totals = snapshot[TOTALS]
    other = replace(totals, rows_in=0, rows_out=0)
    parts: list[dict[str, Any]] = [{TOTALS: totals}, *({TOTALS: other} for _ in range(1, plan.shards))]
    if CONTROL in snapshot:
        for part in parts:
            part[CONTROL] = snapshot[CONTROL]
    for node, name in plan.steps.items():
        states = node.build_driven(name, snapshot.get(name)).split(plan.spreads_of(node))
        for part, state in zip(parts, states, strict=True):
            part[name] = state
    return [Snapshot(part, plan.described()) for part in parts]


def unite_snapshots(plan: ShardPlan, snapshots: Sequence[Snapshot]) -> Snapshot:
    """The state of one shard, of all that it gets."""
    states = {
        name: node.build_driven(name).unite([snapshot[name] for snapshot in snapshots])
        for node, name in plan.steps.items()
    }
    states[TOTALS] = Totals.together([snapshot[TOTALS] for snapshot in snapshots])
    if CONTROL in snapshots[0]:
        states[CONTROL] = snapshots[0][CONTROL]  # all have read the same
    return Snapshot(states, plan.described())
