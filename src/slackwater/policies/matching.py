"""When two events of a join match in time: while both last, or when one follows the other closely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from slackwater.errors import BadDuration, message
from slackwater.progress.instants import FOREVER, Duration, format_duration


@dataclass(frozen=True, slots=True)
class Overlap:
    """Events match while both last; the result lasts for the time they share.

    Use it when events have lifetimes: an outage and the orders placed during it. An event that lasts for no time
    at all matches nothing.
    """

    def describe(self, *, calendar: bool) -> str:  # noqa: ARG002 - the same for both kinds of time
        """As explain() shows it."""
        return "while both last"


@dataclass(frozen=True, slots=True)
class Within:
    """Events match when their starts are close, wherever they end; the result is a point at the later start.

    Use it for streams of moments: a click and the purchase at most an hour after it. Bounds are inclusive.

    >>> Within.of(5)
    Within(left_before_right=5, right_before_left=5)
    """

    left_before_right: Duration
    """How much later the right event may start, when the left one comes first."""

    right_before_left: Duration
    """How much later the left event may start, when the right one comes first."""

    def __post_init__(self) -> None:
        for bound in (self.left_before_right, self.right_before_left):
            if not 0 <= bound <= FOREVER:
                raise BadDuration(
                    message("a join needs a distance in time that is not negative and fits int64", {"got": bound})
                )

    @classmethod
    def of(cls, distance: Duration) -> Within:
        """Allow the same distance whichever event comes first."""
        return cls(distance, distance)

    def describe(self, *, calendar: bool) -> str:
        """As explain() shows it.

        >>> Within(5, 0).describe(calendar=False)
        'right within 5 after left or left within 0 after right'
        """
        after_left, after_right = (
            format_duration(bound) if calendar else str(bound)
            for bound in (self.left_before_right, self.right_before_left)
        )
        if after_left == after_right:
            return f"within {after_left}"
        return f"right within {after_left} after left or left within {after_right} after right"


Matching: TypeAlias = Overlap | Within
"""The ways in which events of a join may match in time."""
