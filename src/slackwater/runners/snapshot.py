"""Snapshots of running queries, and the check that one belongs to the plan it is resumed by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slackwater.errors import PlanError, message
from slackwater.plan.node import Node, StepNode

if TYPE_CHECKING:
    from collections.abc import Mapping


class Snapshot(dict[str, Any]):
    """The state of every step, by its name, and what the steps were."""

    def __init__(self, states: Mapping[str, Any], plan: Mapping[str, str]) -> None:
        super().__init__(states)
        self.plan = dict(plan)

    def __repr__(self) -> str:
        return f"<Snapshot of {len(self)} step{'s' * (len(self) != 1)}: {', '.join(self)}>"

    def __reduce__(self) -> tuple[type[Snapshot], tuple[dict[str, Any], dict[str, str]]]:
        return Snapshot, (dict(self), self.plan)


def describe_steps(names: Mapping[Node, str]) -> dict[str, str]:
    """What each step does, in words that differ where the steps do."""
    return {
        name: f"{node.line} -> {', '.join(map(str, node.schema.shown))}"
        for node, name in names.items()
        if isinstance(node, StepNode)
    }


def require_same_plan(resume: Mapping[str, Any], plan: Mapping[str, str]) -> None:
    """Refuse a snapshot that was taken of other steps, and say which differ."""
    if not resume:
        return
    taken: Mapping[str, str | None] = resume.plan if isinstance(resume, Snapshot) else dict.fromkeys(resume)
    for name in {**taken, **plan}:
        then, now = taken.get(name, "absent"), plan.get(name, "absent")
        # A plain dict of states does not say what its steps were; their names must do.
        if then != now and not (then is None and name in plan):
            facts = {"step": name, "in the snapshot": then or "present", "in the plan": now}
            hint = "resume the plan it was taken of"
            raise PlanError(message("this snapshot was taken of a different plan", facts, hint))
