"""Sums up events by pane where windows overlap, so that an event is looked at once, not once for each of its windows.

    written   events ──> hopping size=60s hop=1s ──> aggregate
    run       events ──> panes of 1s ──> aggregate               each window is merged from its 60 panes

It is done where the answers are the same, in the same order: groups of one window come as they first appeared, which is
the order of panes where events come in order, and where there is one group. Where no pane is long enough to be shared
by many events, windows are assigned as written (operators.aggregate.panes).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeGuard

from slackwater.operators.aggregate.panes import Panes, pane_of
from slackwater.operators.window import WindowOperator
from slackwater.plan.nodes.aggregating import AggregateStep
from slackwater.plan.nodes.rows import AssignWindow
from slackwater.plan.rewrites.transform import readers_of, transform
from slackwater.policies.windows import Hopping, Tumbling
from slackwater.progress.instants import format_duration

if TYPE_CHECKING:
    from slackwater.operators.operator import Operator
    from slackwater.plan.node import Node
    from slackwater.plan.rewrites.transform import Made
    from slackwater.progress.instants import Duration, Instant


@dataclass(frozen=True, eq=False)
class AssignPanes(AssignWindow):
    """Gives every event the interval of its pane, of which windows are made later."""

    panes_of: Hopping = field(kw_only=True)

    @property
    def verb(self) -> str:
        """As it was written."""
        return "hopping"

    @property
    def holds_back(self) -> Duration:
        """As much as the windows do that are made of panes."""
        return 2 * self.panes_of.size

    def lets_go(self, newest: Instant) -> Instant:
        """Windows are waited for, and not panes."""
        return self.panes_of.closed_behind(newest)

    def details(self) -> str:
        """The lengths."""
        size = format_duration(self.window.size) if self.input.schema.calendar else str(self.window.size)
        written = AssignWindow(self.input, self.panes_of)
        return f"{written.details()}, panes of {size}"

    def reason(self) -> str:
        """What it saves."""
        return "an event falls into one pane, and panes into several windows: needs no order, and copies no event"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        ordered = self.input.properties.ordered
        return WindowOperator(self.window, self.input.schema, ordered, step, resume, panes_of=self.panes_of)


def in_panes(*roots: Node) -> list[Node]:
    """Return the same plans with panes instead of windows that overlap, wherever an aggregate alone reads these."""
    readers = readers_of(roots)

    def rule(node: Node, anew: Node, made: Made) -> Node:
        if not (isinstance(node, AggregateStep) and isinstance(anew, AggregateStep)):
            return anew
        hopping = node.input
        if _can_be_panes(hopping, keys=bool(node.keys)) and len(readers[hopping]) == 1:
            return _over_panes(anew, hopping, made[hopping.input])
        return anew

    return transform(roots, rule)


def _can_be_panes(node: Node, *, keys: bool) -> TypeGuard[AssignWindow]:
    if not (isinstance(node, AssignWindow) and isinstance(node.window, Hopping)) or node.input.properties.untimed:
        return False
    return pane_of(node.window) is not None and (node.input.properties.ordered or not keys)


def _over_panes(node: AggregateStep, hopping: AssignWindow, events: Node) -> AggregateStep:
    window = hopping.window
    assert isinstance(window, Hopping)
    pane = pane_of(window)
    assert pane is not None
    return replace(
        node,
        input=AssignPanes(events, Tumbling(pane, window.offset), panes_of=window),
        panes=Panes(window),
    )
