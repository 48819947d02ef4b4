"""One bound: what a row guarantees of later rows, in lengths that users write, and in the units of a stream."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from slackwater.errors import PlanError, message
from slackwater.policies.bound_rules import Pair
from slackwater.progress.instants import as_duration

if TYPE_CHECKING:
    from slackwater.policies.punctuations import Length
    from slackwater.progress.instants import Duration


@dataclass(frozen=True)
class Units:
    """Which kind of time a stream has, and which kind its arrivals: calendar time, or plain numbers."""

    calendar: bool
    clock_calendar: bool = True

    def time(self, length: Length) -> Duration:
        """A length of the stream's time; zero is zero in every unit."""
        return 0 if is_zero(length) else as_duration(length, calendar=self.calendar)

    def clock(self, length: Length) -> Duration:
        """A length of the time at which rows arrive."""
        return 0 if is_zero(length) else as_duration(length, calendar=self.clock_calendar)


@dataclass(frozen=True)
class Bound:
    """What a row guarantees of later rows: how far behind its time they are at most.

    - `behind`: how far, inclusive; with `strictly=True` they are nearer than that, and with `behind=0` newer.
    - `after`: from how long after the row on, by the clock; or `rows`: after how many further rows of that source.

    >>> str(Bound("5s", after="10s")), str(Bound(rows=3, strictly=True))
    ('at most 5s behind, from 10s after it on', 'newer, after 3 further rows')
    """

    behind: Length = 0
    after: Length = 0
    rows: int = 0
    strictly: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 0:
            raise PlanError(message("rows= is a number of further rows, not below zero", {"got": repr(self.rows)}))
        if self.rows and not is_zero(self.after):
            facts, hint = {"after": self.after, "rows": self.rows}, "write two bounds: both hold then"
            raise PlanError(message("a bound counts a time or rows, not both", facts, hint))

    def pair(self, units: Units) -> Pair:
        """The same in the units of a stream, as the paper has it.

        >>> Bound("5ms", after="1ms").pair(Units(calendar=True))
        Pair(delta=5001, wait=1000, rows=0)
        """
        return Pair(units.time(self.behind) + (not self.strictly), units.clock(self.after), self.rows)

    def __str__(self) -> str:
        behind = "newer" if self.strictly else "not older"
        if not is_zero(self.behind):
            behind = (
                f"less than {shown(self.behind)} behind" if self.strictly else f"at most {shown(self.behind)} behind"
            )
        if self.rows:
            return f"{behind}, after {self.rows} further row{'s' * (self.rows > 1)}"
        return behind if is_zero(self.after) else f"{behind}, from {shown(self.after)} after it on"


def is_zero(length: Length) -> bool:
    """Whether it is no length, which is the same in every unit."""
    return as_duration(length, calendar=not isinstance(length, int)) == 0


def shown(length: Any) -> str:
    """A length as users write it."""
    return str(length) if not isinstance(length, timedelta) else f"{length / timedelta(seconds=1):g}s"
