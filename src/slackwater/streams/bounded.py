"""Where bounds come into a stream: one place for all steps that wait for late rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.errors import PlanError, message
from slackwater.plan.nodes.heartbeats import with_heartbeats
from slackwater.plan.nodes.rows import stamped, with_wide_dictionaries
from slackwater.policies.lateness import Lateness

if TYPE_CHECKING:
    from slackwater.plan.node import Node
    from slackwater.policies.bounds import Bounds
    from slackwater.policies.cadence import Every
    from slackwater.policies.late import Late
    from slackwater.policies.punctuations import Length


def waiting(
    node: Node, patience: Length | None, every: Every | None, late: Late, bounds: Bounds | None, ahead: Length | None
) -> tuple[Node, Lateness | None]:
    """A stream that steps can wait on, and how long they do; None where neither a patience nor bounds were given.

    A patience beside bounds is one of them. `every` is then how fine arrivals are looked at.
    """
    node = with_wide_dictionaries(stamped(node))
    if bounds is not None:
        return with_heartbeats(node, bounds, patience, every, ahead, late), Lateness.by_punctuations(late)
    refuse_ahead_alone(ahead)
    if patience is None:
        return node, None
    return node, Lateness.chosen([patience], every, late, calendar=node.schema.calendar)


def with_bounds(node: Node, late: Late, bounds: Bounds | None, ahead: Length | None) -> Node:
    """A stream with heartbeats, for steps that have several patiences of their own."""
    if bounds is None:
        refuse_ahead_alone(ahead)
        return node
    return with_heartbeats(with_wide_dictionaries(stamped(node)), bounds, None, None, ahead, late)


def refuse_ahead_alone(ahead: Length | None) -> None:
    """Refuse a guard where nobody follows arrivals."""
    if ahead is not None:
        hint = "give bounds, too: bounds=sw.Bounds.patience(...) for a patience alone"
        raise PlanError(message("ahead= needs bounds", {"ahead": ahead}, hint))
