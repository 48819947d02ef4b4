"""Recorded arrivals, to be replayed: how long rows would have waited by some bounds, and which would have been late.

Delay is counted by the clock of arrival, from the arrival of a row to when it could be given out, in whole ticks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from slackwater.operators.heartbeats.estimating import generator_for
from slackwater.progress.instants import FOREVER

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from slackwater.policies.bound_rules import Rules
    from slackwater.progress.instants import Duration

    Column = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Recording:
    """Rows in order of arrival: instants of arrival, the number of the source, times.

    >>> from slackwater.policies.bound import Units
    >>> from slackwater.policies.bounds import Bounds
    >>> recorded = Recording(np.array([0, 1, 5]), np.array([0, 1, 0]), np.array([10, 11, 15]), ("a", "b"))
    >>> rules = Bounds.uniform(2).rules(Units(calendar=False, clock_calendar=False))
    >>> recorded.replayed(rules).of_all.tolist() == [5, 5, FOREVER]
    True
    """

    arrived: Column
    codes: Column
    times: Column
    names: Sequence[Hashable]
    grid: Duration = 1
    """How many units of the clock of arrival are one tick."""

    @cached_property
    def ticks(self) -> Column:
        """The ticks of arrival."""
        return self.arrived // self.grid

    @cached_property
    def by_time(self) -> Column:
        """The rows in order of time."""
        return np.argsort(self.times, kind="stable")

    def by_source(self, sources: Column, count: int) -> tuple[Column, Column]:
        """The rows in order of their source and time, and where each of so many sources begins; and the end."""
        of_rows = sources[self.by_time]
        # NumPy sorts short numbers by counting them.
        short = of_rows.astype(np.uint16) if count <= np.iinfo(np.uint16).max else of_rows
        ordered = self.by_time[np.argsort(short, kind="stable")]
        return ordered, np.append(0, np.cumsum(np.bincount(sources, minlength=count)))

    def replayed(self, rules: Rules) -> Replayed:
        """What comes of it by some rules. Cost: that of a run, without what follows."""
        return Replayed(self, *generator_for(rules, self.grid).release_ticks(self))


@dataclass(frozen=True, eq=False)
class Replayed:
    """For each row, at the end of which tick its time was complete; FOREVER if it never was."""

    recording: Recording
    of_all: Column
    """Of all sources that are waited for."""

    of_own: Column
    """Of its own source."""

    def late(self, *, by_origin: bool = False) -> NDArray[np.bool_]:
        """Which rows came after their time was complete."""
        return (self.of_own if by_origin else self.of_all) < self.recording.ticks

    def delays(self, *, by_origin: bool = False) -> Column:
        """How long each row waits, in units of the clock of arrival; late rows do not at all.

        Rows that are never given out wait until the last arrival.
        """
        ticks, released = self.recording.ticks, self.of_own if by_origin else self.of_all
        if not len(ticks):
            return released
        released = np.where(released == FOREVER, ticks[-1], released)
        return np.maximum(released - ticks, 0) * self.recording.grid
