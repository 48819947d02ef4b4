"""Why a stream is complete no further: whom it waits for, by which bound, and when that will move."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from slackwater.progress.instants import BEGINNING, Instant, format_instant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slackwater.operators.heartbeats.observed_loss import ObservedLoss


SHOWN_ORIGINS: Final = 5
"""So many sources are named, the slowest first, where each goes by its own heartbeat."""


class Grounds(Enum):
    """On what ground a time counts as complete."""

    NOTHING = "nothing is complete yet"
    PATIENCE = "waited for as long as the patience"
    PUNCTUATED = "punctuated by its input"
    PROVEN = "proven by bounds"
    ESTIMATED = "estimated from the rows so far"
    ASSUMED = "assumed of silence"


class BrokenBounds(NamedTuple):
    """How often a source broke its bounds, and which it was at last.

    >>> print(BrokenBounds(1, 9, "9", "in order").with_more(BrokenBounds(2, 7, "7", "in order")))
    3 rows, the last at 9: in order
    """

    rows: int
    time: Instant
    """The time of the last of these rows."""

    shown: str
    """The same as people read it."""

    rule: str

    def with_more(self, other: BrokenBounds) -> BrokenBounds:
        """Both together; which came last nobody knows, so that it is the newer one."""
        return max(self, other, key=lambda one: one.time)._replace(rows=self.rows + other.rows)

    def __str__(self) -> str:
        return f"{self.rows} rows, the last at {self.shown}: {self.rule}"


@dataclass(frozen=True)
class OriginWhy:
    """How far one source is complete, where its rows go by its own heartbeat, and why no further.

    >>> print(OriginWhy("b", 5, 2, Grounds.PROVEN, "clocks at most 2 off", "a", 9).shown(calendar=False))
    b complete before 5, holds 2; proven by bounds: clocks at most 2 off; by a row of a at 9
    """

    origin: str
    complete_before: Instant
    """Its later rows are not before this; BEGINNING while nothing is complete."""

    held: int
    """How many of its rows, or partial results, wait for it."""

    ground: Grounds
    rule: str
    sender: str | None = None
    """Whose row that goes by: its own, or that of another source."""

    time: Instant = BEGINNING
    """The time of that row."""

    def shown(self, *, calendar: bool) -> str:
        """One line for people."""
        at = format_instant(self.complete_before, calendar=calendar)
        how_far = "nothing complete" if self.complete_before == BEGINNING else f"complete before {at}"
        ground = self.ground.value + (f": {self.rule}" if self.rule else "")
        by = (
            ""
            if self.sender is None
            else f"; by a row of {self.sender} at {format_instant(self.time, calendar=calendar)}"
        )
        return f"{self.origin} {how_far}, holds {self.held}; {ground}{by}"


@dataclass(frozen=True)
class Why:
    """How far one step lets a stream be complete, and why no further. Times are written as such on calendar time.

    >>> print(Why("punctuate#1", 5, 8, Grounds.PATIENCE, "patience 3", calendar=False))
    punctuate#1  complete before 5, the newest row is at 8
      ground     waited for as long as the patience: patience 3
    """

    step: str
    complete_before: Instant
    """No row before this is waited for; BEGINNING while nothing is complete."""

    newest: Instant
    """The greatest time that has come."""

    ground: Grounds
    rule: str
    """The bound, the patience or the assumption that it goes by."""

    source: str | None = None
    """The source that all others wait for, where sources are distinguished."""

    sender: str | None = None
    """Whose row that goes by: its own, or that of another source."""

    time: Instant = BEGINNING
    """The time of that row."""

    arrived: Instant | None = None
    """When that row arrived."""

    moves_next_at: Instant | None = None
    """When more will be complete though no row comes, by the clock of arrivals; None if nothing will."""

    broken: Mapping[str, str] = field(default_factory=dict)
    """For each source that broke its bounds: how often, and which it was at last."""

    held: Mapping[str, int] = field(default_factory=dict)
    """How many rows, or partial results, the steps hold that follow."""

    estimate: ObservedLoss | None = None
    """How many rows were late by estimates, and whether they are taken back; None where all bounds are declared."""

    origins: tuple[OriginWhy, ...] = ()
    """Where each source goes by its own heartbeat: the slowest of those of which something waits."""

    more_origins: int = 0
    """How many others there are of which something waits."""

    calendar: bool = True
    clock_calendar: bool = True

    def with_held(self, held: Mapping[str, int]) -> Why:
        """The same, with what the steps hold that follow.

        >>> why = Why("punctuate#1", 5, 8, Grounds.PATIENCE, "patience 3", calendar=False)
        >>> print(str(why.with_held({"sort#1": 2})).splitlines()[-1])
          held       sort#1 2
        """
        return replace(self, held=held)

    def __str__(self) -> str:
        complete = "nothing is complete"
        if self.complete_before > BEGINNING:
            complete = f"complete before {self._at(self.complete_before)}"
        newest = "no row has come" if self.newest == BEGINNING else f"the newest row is at {self._at(self.newest)}"
        lines = [f"{self.step}  {complete}, {newest}"]
        if self.source is not None:
            lines.append(f"  waits for  {self.source}")
        lines.append(f"  ground     {self.ground.value}" + (f": {self.rule}" if self.rule else ""))
        if self.sender is not None:
            when = "" if self.arrived is None else f", arrived {self._clock(self.arrived)}"
            lines.append(f"  by         a row of {self.sender} at {self._at(self.time)}{when}")
        if self.moves_next_at is not None:
            lines.append(f"  goes on    {self._clock(self.moves_next_at)} by the clock, or with the next row")
        if self.estimate is not None:
            lines.append(f"  estimate   {self.estimate}")
        lines += [f"  by origin  {origin.shown(calendar=self.calendar)}" for origin in self.origins]
        lines += [f"  by origin  and {self.more_origins} more hold something"] if self.more_origins else []
        lines += [f"  held       {name} {rows}" for name, rows in self.held.items()]
        lines += [f"  broken     {source}: {what}" for source, what in self.broken.items()]
        return "\n".join(lines)

    def _at(self, time: Instant) -> str:
        return format_instant(time, calendar=self.calendar)

    def _clock(self, time: Instant) -> str:
        return format_instant(time, calendar=self.clock_calendar)
