"""Why the steps of a shard are complete no further, as text: it travels with the metrics of a micro-batch.

All shards decide the same, and so they all say the same of a step, but for what each of them holds and which of its own
rows broke bounds; that is added up. Where each source goes by its own heartbeat every shard names the slowest of its
sources, and the slowest of these are named.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from slackwater.operators.heartbeats.follows_arrivals import FollowsArrivals
from slackwater.operators.heartbeats.observed_loss import ObservedLoss
from slackwater.operators.why import SHOWN_ORIGINS, BrokenBounds, Grounds, OriginWhy, Why
from slackwater.runners.steering import SteeringState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from slackwater.progress.instants import Instant
    from slackwater.runners.graph_parts import Step
    from slackwater.runners.operator_graph import OperatorGraph
    from slackwater.runners.steering import Steering

_BY_ROW: Final = "ground:string,rule:string,sender:string,time:bigint"
WHY_SPARK: Final = (
    "array<struct<step:string,complete_before:bigint,newest:bigint,source:string,"
    f"{_BY_ROW},arrived:bigint,moves_next_at:bigint,held:map<string,bigint>,"
    "broken:map<string,struct<rows:bigint,time:bigint,shown:string,rule:string>>,"
    "estimate:struct<rows:bigint,late:bigint,asked:double,taken_back:boolean,times_taken_back:bigint>,"
    f"origins:array<struct<origin:string,complete_before:bigint,held:bigint,{_BY_ROW}>>,more_origins:bigint,"
    "calendar:boolean,clock_calendar:boolean>>"
)
"""The same in columns of Spark, as sinks for metrics get it. Times are microseconds or sequence numbers."""

_CONTROL: Final = "control"
"""The name of what somebody has asked; no step is called so."""

_MOST_NAMED: Final = 100
"""So many sources that broke bounds are named, those first that did it most often: metrics must stay small."""


def reasons_of(
    graph: OperatorGraph, look_again_at: Instant | None, idle: Mapping[Step, str], steering: Steering
) -> str:
    """What the steps of a shard say, which looks at the clock again at an instant though no row comes, or does not.

    `idle` are the steps that nothing punctuates but the timeout, which is an assumption; and what it assumes. Behind
    them stands what somebody has asked, if anybody did.
    """
    found: list[dict[str, Any]] = []
    for step in graph.steps:
        why = step.operator.why()
        if why is not None and why.ground is Grounds.PUNCTUATED and step in idle:
            why = replace(why, ground=Grounds.ASSUMED, rule=idle[step])
        if why is not None:
            why = steering.shown(step, why)
            held = {one.name: rows for one in graph.steps_behind(step) if (rows := one.operator.buffered())}
            again, broken = None, {}
            if isinstance(step.operator, FollowsArrivals):
                again, broken = look_again_at if step.operator.by_clock else None, step.operator.broken()
            found.append(_form(replace(why, held=held, broken={}, moves_next_at=again), broken))
    if steering.state != SteeringState():
        found.append({_CONTROL: asdict(steering.state)})
    return json.dumps(found)


def steering_of(texts: Iterable[str]) -> SteeringState:
    """What somebody has asked of all shards; they have read the same.

    >>> steering_of(['[{"control": {"read_to": 1, "paused": ["b"]}}]', "[]"]).paused
    ('b',)
    """
    for text in texts:
        for form in json.loads(text):
            if _CONTROL in form:
                return SteeringState.shown(form[_CONTROL])
    return SteeringState()


def _form(why: Why, broken: Mapping[str, BrokenBounds]) -> dict[str, Any]:
    worst = sorted(broken.items(), key=lambda one: (-one[1].rows, one[0]))[:_MOST_NAMED]
    named = asdict(why) | {"ground": why.ground.name}
    named |= {"origins": [asdict(origin) | {"ground": origin.ground.name} for origin in why.origins]}
    return named | {"broken": {source: what._asdict() for source, what in worst}}


def reasons_together(texts: Iterable[str]) -> tuple[Why, ...]:
    """What all shards say, in the order of the plan.

    >>> why = Why("heartbeats#1", 5, 8, Grounds.PROVEN, "in order", held={"sort#1": 2}, calendar=False)
    >>> text = json.dumps([_form(why, {"a": BrokenBounds(1, 4, "4", "in order")})])
    >>> both = reasons_together([text, text])[0]
    >>> both.held, both.broken
    ({'sort#1': 4}, {'a': '2 rows, the last at 4: in order'})
    """
    by_step: dict[str, list[dict[str, Any]]] = {}
    for text in texts:
        for form in json.loads(text):
            if _CONTROL in form:
                continue
            by_step.setdefault(form["step"], []).append(form)
    return tuple(map(_together, by_step.values()))


def _together(forms: list[dict[str, Any]]) -> Why:
    held: Counter[str] = Counter()
    broken: dict[str, BrokenBounds] = {}
    for form in forms:
        held.update(form["held"])
        for source, found in form["broken"].items():
            one = BrokenBounds(**found)
            broken[source] = one if source not in broken else broken[source].with_more(one)
    furthest = max(forms, key=lambda form: int(form["complete_before"]))
    origins = _origins_together(forms)
    estimate = furthest["estimate"]
    return Why(
        **furthest
        | {
            "ground": Grounds[furthest["ground"]],
            "estimate": None if estimate is None else ObservedLoss(**estimate),
            "held": dict(held),
            "broken": {source: str(one) for source, one in broken.items()},
            "origins": origins[:SHOWN_ORIGINS],
            "more_origins": len(origins[SHOWN_ORIGINS:]) + sum(form["more_origins"] for form in forms),
        }
    )


def _origins_together(forms: Iterable[dict[str, Any]]) -> tuple[OriginWhy, ...]:
    """The sources that shards name, the slowest first; what those of one fleet hold is added up."""
    found: dict[str, OriginWhy] = {}
    for named in (origin for form in forms for origin in form["origins"]):
        one = OriginWhy(**named | {"ground": Grounds[named["ground"]]})
        held = found[one.origin].held if one.origin in found else 0
        found[one.origin] = replace(one, held=one.held + held)
    return tuple(sorted(found.values(), key=lambda one: (one.complete_before, one.origin)))
