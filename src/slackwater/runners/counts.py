"""What operators count by themselves, since the very beginning: asked here, of each step and of all of them.

What goes in and out is counted where it does: `OperatorGraph` fills in the rest of the counters of a step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slackwater.operators.replicas.left_out import NONE_LEFT_OUT
from slackwater.operators.replicas.replica_merge import ReplicaMerge

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slackwater.operators.replicas.left_out import LeftOut
    from slackwater.operators.replicas.open_events import OpenEvents
    from slackwater.runners.graph_parts import Step
    from slackwater.runners.result import Counters


def counters(steps: Iterable[Step]) -> dict[str, Counters]:
    """What every step has done, by its name; what is held is as of the last batch that it took."""
    return {step.name: replace(_updated(step)) for step in steps}


def _updated(step: Step) -> Counters:
    found, operator = step.counters, step.operator
    found.late = operator.late()
    found.broken_bounds = operator.broken_bounds()
    found.late_by_estimate = operator.late_by_estimate()
    found.duplicates = operator.duplicates()
    found.ignored = operator.ignored_rows()
    found.leave_out(operator.left_out())
    if isinstance(operator, ReplicaMerge):
        found.left = operator.times_left
    return found


def late(steps: Iterable[Step]) -> int:
    """How many rows came too late."""
    return sum(step.operator.late() for step in steps)


def broken_bounds(steps: Iterable[Step]) -> int:
    """How many rows came though bounds ruled it out."""
    return sum(step.operator.broken_bounds() for step in steps)


def late_by_estimate(steps: Iterable[Step]) -> int:
    """How many rows came behind the stream because of estimated bounds."""
    return sum(step.operator.late_by_estimate() for step in steps)


def duplicates(steps: Iterable[Step]) -> int:
    """How many rows were left out as duplicates."""
    return sum(step.operator.duplicates() for step in steps)


def left_out(steps: Iterable[Step]) -> LeftOut:
    """What became of the rows that merges of replicas did not send. Cost: that of what they hold."""
    return sum((step.operator.left_out() for step in steps), NONE_LEFT_OUT)


def buffered(steps: Iterable[Step]) -> int:
    """How many rows and groups wait now."""
    return sum(step.operator.buffered() for step in steps)


def open_events(steps: Iterable[Step]) -> dict[str, OpenEvents]:
    """The events without an end that hold up merges of replicas, by the name of the merge; of those that wait."""
    found = {step.name: step.operator.open_events() for step in steps if isinstance(step.operator, ReplicaMerge)}
    return {name: events for name, events in found.items() if events.count}
