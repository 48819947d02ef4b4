"""How far a running query has come, for people and for dashboards: what is held now, and what was done in all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slackwater.progress.instants import BEGINNING, Instant, format_instant

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slackwater.operators.replicas.open_events import OpenEvents


@dataclass(frozen=True)
class Progress:
    """How a query stands between two steps. Times are written as such where they are calendar time.

    >>> stands = Progress(True, 0, {"source#1": 5_000_000}, {"sort#1": 2}, total_in=9, total_out=6, total_late=1)
    >>> print(stands)
    now    complete before 1970-01-01T00:00:00.000000Z
           held 2: sort#1 2
           read up to: source#1 1970-01-01T00:00:05.000000Z
    total  rows in 9, out 6, late 1
    """

    calendar: bool
    """Whether times are microseconds in UTC; otherwise they are sequence numbers."""

    complete_before: Instant
    """Now: no later row of any output concerns time before this; BEGINNING while there was no punctuation."""

    newest: Mapping[str, Instant]
    """Now: the greatest time of the rows of each source; nothing on Spark, which does not show it."""

    held: Mapping[str, int]
    """Now: how many rows, or partial results, each step holds, or on Spark all shards; only those that hold some."""

    total_in: int
    """Since the query was opened, or on Spark since it was started for the first time: rows that its sources gave."""

    total_out: int
    """Since then: rows that its outputs sent."""

    total_late: int
    """Since the very beginning: rows that came too late."""

    waits: Mapping[str, OpenEvents] = field(default_factory=dict)
    """Now: the merges that events without an end hold up."""

    def now(self) -> list[str]:
        """What is complete, held and read, each in a line, and what merges wait for.

        >>> Progress(False, 4, {"source#1": 5}, {}, total_in=9, total_out=9, total_late=0).now()
        ['complete before 4', 'held 0', 'read up to: source#1 5']
        """
        steps = ", ".join(f"{step} {rows}" for step, rows in self.held.items())
        held = f"held {sum(self.held.values())}" + (f": {steps}" if steps else "")
        newest = ", ".join(f"{source} {self._shown(time)}" for source, time in self.newest.items())
        waits = [f"{step} {events.described(self._shown(events.first))}" for step, events in self.waits.items()]
        read = [f"read up to: {newest}"] if newest else []
        return [f"complete before {self._shown(self.complete_before)}", held, *waits, *read]

    def __str__(self) -> str:
        total = f"rows in {self.total_in}, out {self.total_out}, late {self.total_late}"
        now = "\n       ".join(self.now())
        return f"now    {now}\ntotal  {total}"

    def _shown(self, time: Instant) -> str:
        return "nothing yet" if time == BEGINNING else format_instant(time, calendar=self.calendar)
