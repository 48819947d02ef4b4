"""How a query stands, in words: the same in process, on Spark, and for who looks at a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.progress.clock import SystemClock
from slackwater.progress.instants import BEGINNING, format_instant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.operators.why import Why
    from slackwater.progress.instants import Instant
    from slackwater.runners.in_process.progress import Progress


@dataclass(frozen=True)
class Standing:
    """A query at a moment: how far it has come, why no further, and how fast rows come."""

    progress: Progress
    why: Sequence[Why] = ()
    rows_per_second: float | None = None
    """None while nobody knows."""

    def counts(self) -> str:
        """How many rows, in one line.

        >>> from slackwater.runners.in_process.progress import Progress
        >>> Standing(Progress(False, 4, {}, {"sort#1": 3}, 1_000, 900, 10), (), 500.0).counts()
        '1,000 rows in (500/s), 900 out, 3 held, 10 late (1.00 %)'
        """
        one = self.progress
        rate = "" if self.rows_per_second is None else f" ({self.rows_per_second:,.0f}/s)"
        share = f" ({one.total_late / one.total_in:.2%})".replace("%", " %") if one.total_late and one.total_in else ""
        held = sum(one.held.values())
        return f"{one.total_in:,} rows in{rate}, {one.total_out:,} out, {held:,} held, {one.total_late:,} late{share}"

    def line(self) -> str:
        """Everything that changes most, in one line."""
        waits = dict.fromkeys(why.source for why in self.why if why.source is not None)
        waiting = f"; waits for {', '.join(waits)}" if waits else ""
        return f"{self.counts()}; complete before {self._shown(self.progress.complete_before)}{waiting}"

    def lines(self) -> list[str]:
        """The same in several lines, with every source and step that says how far it has come."""
        read = [f"{source}  read up to {self._shown(time)}" for source, time in self.progress.newest.items()]
        whys = [line for why in self.why for line in str(why).splitlines()]
        return [self.counts(), f"complete before {self._shown(self.progress.complete_before)}", *read, *whys]

    def _shown(self, time: Instant) -> str:
        return "nothing yet" if time == BEGINNING else format_instant(time, calendar=self.progress.calendar)


class Rate:
    """How many rows come in a second, over the last look or the last several.

    >>> from slackwater.progress.clock import ManualClock
    >>> clock = ManualClock()
    >>> rate = Rate(clock)
    >>> clock.advance(2_000_000)
    >>> rate.of(10), rate.of(10)
    (5.0, 5.0)
    """

    def __init__(self, clock: SystemClock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._begun = self._looked = self._clock.now()
        self._rows = 0
        self._latest: float | None = None

    def of(self, rows: int) -> float | None:
        """The rate, when there have been so many rows in all; None while no time has passed."""
        now = self._clock.now()
        if now - self._looked >= _LONG_ENOUGH:
            self._latest = (rows - self._rows) * 1e6 / (now - self._looked)
            self._looked, self._rows = now, rows
        return self._latest

    def seconds(self) -> float:
        """How long it has gone on."""
        return (self._clock.now() - self._begun) / 1e6


_LONG_ENOUGH = 1_000_000
"""Microseconds between two looks that make a rate."""
