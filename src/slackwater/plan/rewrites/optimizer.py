"""From the plan that was written to the plan that is run: every rewrite, in the order in which they are done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.plan.rewrites.changes_in_shards import with_changes_in_shards
from slackwater.plan.rewrites.heartbeats_in_shards import with_heartbeats_in_shards
from slackwater.plan.rewrites.hold_by_label import held_by_label
from slackwater.plan.rewrites.last_punctuations import with_last_punctuations
from slackwater.plan.rewrites.needless_sorts import without_needless_sorts
from slackwater.plan.rewrites.panes import in_panes
from slackwater.plan.rewrites.preaggregate import Placement, preaggregate
from slackwater.plan.rewrites.sort_as_needed import sort_as_needed
from slackwater.plan.rewrites.unread_bands import without_unread_bands
from slackwater.plan.rewrites.unread_columns import without_unread_columns

if TYPE_CHECKING:
    from slackwater.plan.node import Node


def optimized(*roots: Node) -> list[Node]:
    """Return plans that say the same temporal tables, and cost less, whoever runs them.

    Plans that are run together are given together.
    """
    sorted_as_needed = without_needless_sorts(*sort_as_needed(*without_unread_bands(*roots)))
    return without_unread_columns(*in_panes(*sorted_as_needed))


def optimized_in_process(*roots: Node) -> list[Node]:
    """Return plans as the in-process runner does them, at less cost still."""
    return held_by_label(*with_last_punctuations(*preaggregate(Placement.BEFORE_BANDS, *optimized(*roots))))


def optimized_for_spark(*roots: Node) -> list[Node]:
    """Return plans as the Spark runner does them: rows are summed up before they travel, where they can be."""
    run = with_heartbeats_in_shards(*preaggregate(Placement.MAP_SIDE, *optimized(*roots)))
    return held_by_label(*with_changes_in_shards(*run))
