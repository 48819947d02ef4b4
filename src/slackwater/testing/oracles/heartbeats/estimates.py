"""Bounds estimated from the rows seen: the greatest skew so far (section 6.1), and one that adapts (Figure 4).

Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, section 6.

An estimate is the delta of a bound at arrival, latency included, for each wait from 0 to the longest. All start at 0.
As printed, a row is compared with all that came t ticks before it or earlier, itself included if t is 0; by the
definition of a bound it would be those more than t ticks before it, `strictly`. All rows of a tick are seen by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, TypeAlias

from slackwater.testing.oracles.heartbeats.figure_2 import figure_2
from slackwater.testing.oracles.heartbeats.system import NOTHING_YET, Skew, System

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction

    from slackwater.testing.oracles.heartbeats.system import Arrival, Source, Tick, Time

    Number: TypeAlias = int | float | Fraction
    """Averages are exact if alpha is."""

    Estimates: TypeAlias = dict[tuple[Source, Source], list[Number]]
    """The delta of each source on each, by the wait."""


def estimate(arrivals: Sequence[Arrival], i: Source, row: Arrival, wait: Tick, *, strictly: bool = False) -> Time:
    """What one row shows about the bound of source i on its own, after a wait.

    >>> rows = [(0, 0, 70), (5, 1, 66)]
    >>> [estimate(rows, 0, rows[1], wait) for wait in (0, 5, 6)], estimate(rows, 0, rows[1], 5, strictly=True)
    ([5, 5, 0], 0)
    """
    tick, _, time = row
    until = tick - wait - (1 if strictly else 0)
    seen = [other for arrived, source, other in arrivals if source == i and arrived <= until]
    return max(max(seen) - time + 1, 0) if seen else 0


def greatest_skew(arrivals: Sequence[Arrival], n: int, longest: Tick, *, strictly: bool = False) -> Estimates:
    """The greatest skew that was seen between n sources, for each wait up to the longest (section 6.1).

    >>> greatest_skew([(0, 0, 70), (5, 1, 66)], 2, longest=6)[0, 1]
    [5, 5, 5, 5, 5, 5, 0]
    """
    deltas: Estimates = {(i, j): [0] * (longest + 1) for i in range(n) for j in range(n)}
    for row in arrivals:
        for i in range(n):
            of_pair = deltas[i, row[1]]
            for wait in range(longest + 1):
                of_pair[wait] = max(of_pair[wait], estimate(arrivals, i, row, wait, strictly=strictly))
    return deltas


def adaptive(
    arrivals: Sequence[Arrival],
    n: int,
    longest: Tick,
    window: float,
    alpha: Number,
    *,
    strictly: bool = False,
    by_ticks: bool = False,
    adapts: bool = False,
    start: Number = 0,
) -> Estimates:
    """Estimates that fall again when they were not exceeded for a window of rows: Figure 4, line by line.

    `by_ticks`: the window is one of time, W ticks since it began; the first begins with the first row of the source.
    `adapts`: the window doubles when an estimate is exceeded in the window after it was lowered, and is halved when
    three windows in a row lowered it, up to 64 times and down to a 64th; the paper has no formula. `start`: what
    estimates are before anything has come; 0 in the paper.

    >>> rows = [(0, 0, 70), (1, 0, 60), (2, 0, 71), (3, 0, 72), (4, 0, 73)]
    >>> [adaptive(rows[:seen], 1, 0, window=1, alpha=0.5)[0, 0][0] for seen in range(1, 6)]
    [1, 11, 11, 6.0, 6.0]
    """
    chosen = _Chosen(window, alpha, by_ticks, adapts)
    cells = {
        (i, j): [_Cell(delta=start, window=window) for _ in range(longest + 1)] for i in range(n) for j in range(n)
    }
    for row in arrivals:
        for i in range(n):
            for wait, cell in enumerate(cells[i, row[1]]):
                cell.take(estimate(arrivals, i, row, wait, strictly=strictly), row[0], chosen)
    return {pair: [cell.delta for cell in of_pair] for pair, of_pair in cells.items()}


_FALLS = 3
"""So many windows in a row that lowered an estimate shorten its window."""


@dataclass(frozen=True)
class _Chosen:
    """What Figure 4 is given."""

    window: float
    alpha: Number
    by_ticks: bool
    adapts: bool


@dataclass
class _Cell:
    """What Figure 4 keeps for one i, j and t; and its window, where that adapts."""

    delta: Number
    window: float
    num: int = 0
    win: Time = 0
    began: Tick | None = None
    falls: int = 0

    def take(self, est: Time, now: Tick, chosen: _Chosen) -> None:
        self.num += 1
        self.began = now if self.began is None else self.began
        if est > self.delta:
            self.delta = est
            if chosen.adapts and self.falls > 0:
                self.window = min(2 * self.window, 64 * chosen.window)
            self.falls = 0
            self._reset(now)
            return
        self.win = max(self.win, est)
        if (now - self.began if chosen.by_ticks else self.num) > self.window:
            lowered = chosen.alpha * self.delta + (1 - chosen.alpha) * self.win
            self.falls = self.falls + 1 if lowered < self.delta else 0
            self.delta = lowered
            if chosen.adapts and self.falls == _FALLS:
                self.window, self.falls = max(self.window / 2, chosen.window / 64), 0
            self._reset(now)

    def _reset(self, now: Tick) -> None:
        self.num, self.win, self.began = 0, 0, now


def by_estimates(
    arrivals: Sequence[Arrival], n: int, until: Tick, estimated: Callable[[Sequence[Arrival]], Estimates]
) -> list[list[Time]]:
    """Heartbeats from estimates that change: rows of a tick are learnt from, then they set slots (section 6).

    A slot that was set stays, though the estimate may have grown since; a fraction of a time counts as a whole one.

    >>> rows = [(0, 0, 70), (1, 0, 60), (2, 0, 80)]
    >>> beats = by_estimates(rows, 1, 2, lambda seen: greatest_skew(seen, 1, longest=0))
    >>> [beat for (beat,) in beats]
    [69, 69, 69]
    """
    beats = [[NOTHING_YET] * n for _ in range(until + 1)]
    for now in sorted({tick for tick, _, _ in arrivals}):
        learnt = estimated([row for row in arrivals if row[0] <= now])
        bounds = {pair: tuple(Skew(wait, ceil(delta)) for wait, delta in enumerate(d)) for pair, d in learnt.items()}
        set_now = figure_2(System((0,) * n, bounds), [row for row in arrivals if row[0] == now], until)
        beats = [[max(pair) for pair in zip(*both, strict=True)] for both in zip(beats, set_now, strict=True)]
    return beats


def by_current_estimates(
    arrivals: Sequence[Arrival], n: int, until: Tick, estimated: Callable[[Sequence[Arrival]], Estimates]
) -> list[list[Time]]:
    """Heartbeats from estimates as they are when heartbeats are found, not as they were when a row came.

    An estimate that has grown since a row came does not count as it was then, and one that has fallen counts at once.
    Heartbeats never fall all the same.

    >>> rows = [(0, 0, 70), (1, 0, 60), (2, 0, 80)]
    >>> beats = by_current_estimates(rows, 1, 2, lambda seen: greatest_skew(seen, 1, longest=0))
    >>> [beat for (beat,) in beats]
    [69, 69, 69]
    """
    beats: list[list[Time]] = []
    for now in range(until + 1):
        seen = [row for row in arrivals if row[0] <= now]
        learnt = estimated(seen)
        bounds = {pair: tuple(Skew(wait, ceil(delta)) for wait, delta in enumerate(d)) for pair, d in learnt.items()}
        found = figure_2(System((0,) * n, bounds), seen, now)[now]
        beats.append([max(pair) for pair in zip(found, beats[-1], strict=True)] if beats else found)
    return beats
