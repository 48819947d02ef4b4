"""What other engines do about sources that pause, each tuned in hindsight: a patience, a delay by the clock, idleness.

All are simulated in the same ticks as ours. A setting is the one with the least mean delay among those that lose no
more than is allowed, on the very rows they are measured on; nobody who runs a query can do that.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

import slackwater as sw
from slackwater.policies.bound import Units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from slackwater.operators.heartbeats.recording import Recording

    Column = NDArray[np.int64]

UNITS = Units(calendar=False, clock_calendar=False)
"""Times and arrivals are numbers of microseconds here."""

Result = tuple[float, float]
"""The part of the rows that is late, and the mean delay of the others in seconds."""


def measured(recording: Recording, complete: Column, of: NDArray[np.bool_] | None = None) -> Result:
    """What comes of the ticks in which rows are complete; of some of the rows."""
    rows = slice(None) if of is None else of
    ticks, complete = recording.ticks[rows], complete[rows]
    late = complete < ticks
    waited = np.minimum(complete, max(int(recording.ticks[-1]), 0) + 10**9)[~late] - ticks[~late]
    return float(late.mean()), float(waited.mean()) * recording.grid / 1e6 if len(waited) else 0.0


def best(results: Iterable[Result], loss: float) -> float:
    """The least mean delay of those that lose no more; infinite if there is none."""
    return min((delay for lost, delay in results if lost <= loss), default=float("inf"))


def patiences(recording: Recording, *, quick: bool) -> Iterator[Result]:
    """One patience for all, and the paper's time-out when all pause."""
    newest = np.maximum.accumulate(recording.times)
    levels = (1, 0.9999, 0.999, 0.99) if quick else (1, 0.99999, 0.9999, 0.9995, 0.999, 0.997, 0.99, 0.97, 0.9)
    pauses = (10, 22, 60, 300, 900, 1450) if quick else (5, 10, 15, 22, 30, 60, 120, 300, 600, 900, 1200, 1450, 3000)
    patience = np.unique(np.quantile(newest - recording.times, levels, method="higher"))
    for length, lull in product(patience.tolist(), pauses):
        yield measured(recording, by_patience(recording, newest, length, lull))


def by_patience(recording: Recording, newest: Column, patience: int, lull: int) -> Column:
    """The tick at the end of which each row's time is complete, by a patience, or after so many ticks of silence."""
    ticks, times = recording.ticks, recording.times
    ends = np.append(ticks, np.iinfo(np.int64).max // 2)
    by_newest = ends[np.searchsorted(newest, times + patience + 1)]
    silent = np.append(np.flatnonzero(np.diff(ticks) > lull), len(ticks) - 1)
    since = np.searchsorted(newest, times)
    return np.minimum(by_newest, ticks[silent[np.searchsorted(silent, since)]] + lull)


def delays_by_clock(recording: Recording) -> Iterator[Result]:
    """The clock less a delay: a time is complete when it is so long ago."""
    under_way = recording.arrived - recording.times
    for delay in np.unique(np.quantile(under_way, (1, 0.9999, 0.999, 0.99, 0.97), method="higher")).tolist():
        yield measured(recording, by_clock(recording, max(delay, 0)))


def by_clock(recording: Recording, delay: int) -> Column:
    """The tick at the end of which each row's time is so long ago."""
    return -(-(recording.times + delay + 1) // recording.grid) - 1


def idle_timeouts(
    recording: Recording, slacks: Iterable[int], idles: Iterable[int], pauses: Iterable[int]
) -> Iterator[tuple[Result, Column]]:
    """A slack for each source, which is not waited for once it is idle; and when all pause, for none. Microseconds."""
    for slack, idle, pause in product(slacks, idles, pauses):
        bounds = sw.Bounds.disorder(slack) & sw.Bounds.idle(idle) & sw.Bounds.lull(pause)
        complete = recording.replayed(bounds.rules(UNITS)).of_all
        yield measured(recording, complete), complete
