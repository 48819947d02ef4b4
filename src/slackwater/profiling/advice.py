"""What to set, from a recording: patiences, bands, bounds and a guard against fast clocks; and what each costs.

A patience is chosen so that every stretch of the recording is complete to the share that was asked for, the worst of
them included: a quiet day must not speak for a busy one. How much that is worth is tried out: the same is chosen from
the first part of the recording alone, and counted on the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.disorder.fit import fit_sample
from slackwater.disorder.sample import Sample
from slackwater.policies.bound import Units
from slackwater.profiling.measures import PatienceOutcome, beyond
from slackwater.progress.instants import FOREVER, Duration, rounded_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slackwater.disorder.fitted import FittedBounds
    from slackwater.profiling.recording import Recording

    Lateness = NDArray[np.uint64]

SHARES: Final = (0.9, 0.99, 0.999, 1.0)
"""The shares of the rows for which a patience is named."""

_STRETCHES: Final = 20
_LEAST_ROWS: Final = 1_000
"""Shorter stretches show too little of a thousandth."""

_MOST_FOLLOWED: Final = 40_000_000
"""So many rows are followed at most to see what patiences do, each time they are; a million takes some 30 ms."""

_LEAST_TRADE_OFFS: Final = 6

MOST_FITTED: Final = 1_000_000
"""Bounds are fitted to so many rows at most, the first ones."""

_WIDE: Final = 4
"""Bands are worth having where each waits so many times as long as the one before."""


@dataclass(frozen=True)
class HeldOut:
    """A choice made from the first part of a recording, and what it gives on the rest."""

    patience: Duration
    rows: int
    late: int

    @property
    def complete(self) -> float:
        """The part of the rest that is not late."""
        return 1 - self.late / self.rows if self.rows else 1.0


@dataclass(frozen=True)
class PatienceAdvice:
    """The patience by which a share of the rows is complete in every stretch of the recording."""

    share: float
    outcome: PatienceOutcome
    """What it does with the whole recording."""

    held_out: HeldOut | None
    """The same, chosen from the first part; None where all of the recording was to be looked at."""

    @property
    def patience(self) -> Duration:
        """How long to wait."""
        return self.outcome.patience


def patience_advice(recording: Recording, first: float) -> tuple[PatienceAdvice, ...]:
    """A patience for each share, the longest last."""
    lateness, seen = recording.lateness, max(int(len(recording.lateness) * first), 1)
    rest = lateness[seen:]
    found: list[PatienceAdvice] = []
    for share in SHARES:
        held_out = None
        if len(rest):
            chosen = _patience(lateness[:seen], share, calendar=recording.calendar)
            held_out = HeldOut(chosen, len(rest), int(np.count_nonzero(rest > np.uint64(chosen))))
        patience = _patience(lateness, share, calendar=recording.calendar)
        same = found and found[-1].patience == patience
        outcome = found[-1].outcome if same else PatienceOutcome.of(recording, patience)
        found.append(PatienceAdvice(share, outcome, held_out))
    return tuple(found)


def _patience(lateness: Lateness, share: float, *, calendar: bool) -> Duration:
    """What the worst stretch needs."""
    stretches = np.split(lateness, stretch_begins(len(lateness))[1:])
    ranks = [len(one) - 1 - beyond(len(one), share) for one in stretches]
    needed = max(int(np.partition(one, rank)[rank]) for one, rank in zip(stretches, ranks, strict=True))
    return readable(needed, calendar=calendar)


def readable(needed: int, *, calendar: bool) -> Duration:
    """A patience that is long enough, and short to write."""
    return min(rounded_up(needed) if calendar else needed, FOREVER)


def stretch_begins(rows: int) -> list[int]:
    """Where stretches of about as many rows begin.

    >>> stretch_begins(2_001), stretch_begins(7)
    ([0, 1001], [0])
    """
    stretches = min(max(rows // _LEAST_ROWS, 1), _STRETCHES)
    each, longer = divmod(rows, stretches)
    return [number * each + min(number, longer) for number in range(stretches)]


def trade_offs_of(
    recording: Recording, curve: Sequence[tuple[Duration, float]], advice: tuple[PatienceAdvice, ...]
) -> tuple[PatienceOutcome, ...]:
    """What patiences of a curve do, and the ones that are advised: fewer, the longer the recording is.

    Of those that have as many rows in time the shortest: the others only wait for longer.
    """
    known = {one.patience: one.outcome for one in advice}
    shortest = {complete: patience for patience, complete in reversed(curve)}
    others = [patience for patience in sorted(shortest.values()) if patience not in known]
    room = min(max(_MOST_FOLLOWED // len(recording.times), _LEAST_TRADE_OFFS), len(others))
    chosen = {others[place] for place in np.linspace(0, len(others) - 1, room).astype(int).tolist()}
    found = known | {one: PatienceOutcome.of(recording, one) for one in chosen}
    return tuple(found[one] for one in sorted(found))


def bands_of(advice: tuple[PatienceAdvice, ...]) -> tuple[Duration, ...]:
    """Patiences for early and for complete answers; empty where one is as good as several."""
    chosen: list[Duration] = []
    for one in advice:
        if one.patience and (not chosen or one.patience >= _WIDE * chosen[-1]):
            chosen.append(one.patience)
    longest = advice[-1].patience
    if chosen and chosen[-1] != longest:
        chosen[-1] = longest
    return tuple(chosen) if len(chosen) > 1 else ()


def bounds_advice(recording: Recording, first: float) -> FittedBounds | None:
    """Bounds for the sources; None where rows do not say from where and when they came."""
    if recording.arrived is None or recording.codes is None:
        return None
    some = slice(0, MOST_FITTED)
    times = recording.times[some]
    if not _comparable(times, recording.arrived[some]):
        return None
    units = Units(calendar=recording.calendar, clock_calendar=recording.clock_calendar)
    whole = Sample(recording.arrived[some], recording.codes[some], times, recording.names, units)
    return fit_sample(whole, 0.0, first)


def _comparable(*columns: NDArray[np.int64]) -> bool:
    """Whether differences of all of these fit."""
    return max(int(one.max()) for one in columns) - min(int(one.min()) for one in columns) <= FOREVER // 2


@dataclass(frozen=True)
class AheadGuard:
    """How far ahead of their arrival rows may be: those beyond are few, and would make honest rows late."""

    ahead: Duration
    diverted: int


def ahead_guard(recording: Recording) -> AheadGuard | None:
    """A guard where a few rows are much further ahead than nearly all; None where there is nothing to guard against."""
    if recording.delays is None:
        return None
    ahead = np.sort(np.maximum(-np.maximum(recording.delays, -FOREVER), 0))
    usual, greatest = int(ahead[len(ahead) - 1 - beyond(len(ahead), 0.999)]), int(ahead[-1])
    guard = guard_against(usual, greatest, calendar=recording.calendar)
    return None if guard is None else AheadGuard(guard, int(np.count_nonzero(ahead > guard)))


def guard_against(usual: Duration, greatest: Duration, *, calendar: bool) -> Duration | None:
    """How far ahead rows may be where nearly all are no further than usual, and one is by far."""
    guard = max(2 * usual, 1_000_000 if calendar else 1)
    guard = rounded_up(guard) if calendar else guard
    return guard if greatest > _WIDE * guard else None
