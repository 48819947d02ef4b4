"""DisorderProfile: the measures of disorder of one stream, as a value to print and compare."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slackwater import notebook
from slackwater.kernels.sorting.measure_disorder import append_to_runs, count_inversions, count_runs, greatest_distance
from slackwater.progress.instants import Duration, format_duration

if TYPE_CHECKING:
    from numpy.typing import NDArray

QUANTILES = (0.5, 0.9, 0.99, 0.999)
"""The quantiles of lateness that a profile has, besides the greatest."""


@dataclass(frozen=True, repr=False)
class DisorderProfile:
    """How disordered a stream is (Impatience paper, section II, Table I), and how late its late events are.

    >>> DisorderProfile.of(np.array([2, 6, 5, 1, 4, 3, 7, 8]))
    <DisorderProfile of 8 events, 4 late (50.0%), by 5 at most>
    """

    events: int
    inversions: int
    """Pairs of events that came in the wrong order."""

    distance: int
    """How many places apart the farthest such pair is."""

    runs: int
    """Maximal stretches in order."""

    interleaved: int
    """The fewest ordered streams that could have been interleaved to give this one."""

    late: int
    """Events older than one that came before them."""

    lateness: dict[float, Duration]
    """Quantiles of (high water - event time) over the late events; key 1.0 is the greatest. Empty when none is late."""

    calendar: bool
    """Whether lateness is in microseconds; otherwise it counts sequence numbers."""

    at_least: bool = False
    """Whether inversions, distance and interleaved are the least that there can be: rows were not all in one place."""

    @classmethod
    def of(cls, times: NDArray[np.int64], *, calendar: bool = False) -> DisorderProfile:
        """Measure a column of event times in order of arrival. Cost: O(n log n), some copies of the column.

        >>> profile = DisorderProfile.of(np.array([2, 6, 5, 1, 4, 3, 7, 8]))
        >>> profile.inversions, profile.distance, profile.runs, profile.interleaved, profile.late_fraction
        (9, 4, 4, 4, 0.5)
        """
        high_water = np.maximum.accumulate(times)
        # Unsigned, because the difference of two int64 may be greater than any int64.
        behind = (high_water.view(np.uint64) - times.view(np.uint64))[times < high_water]
        return cls(
            events=len(times),
            inversions=count_inversions(times),
            distance=greatest_distance(times),
            runs=count_runs(times),
            interleaved=len(append_to_runs(times)),
            late=len(behind),
            lateness=_quantiles(behind),
            calendar=calendar,
        )

    @property
    def late_fraction(self) -> float:
        """The part of the events that is late."""
        return self.late / self.events if self.events else 0.0

    def __repr__(self) -> str:
        greatest = f", by {self._written(self.lateness[1.0])} at most" if self.lateness else ""
        return f"<DisorderProfile of {self.events:,} events, {self.late:,} late ({self.late_fraction:.1%}){greatest}>"

    def _repr_html_(self) -> str:
        return notebook.block(repr(self), notebook.table(["measure", "value"], self._measures().items()))

    def __str__(self) -> str:
        shown = self._measures()
        width = max(map(len, shown))
        return "\n".join(f"{name:<{width}}  {value}" for name, value in shown.items())

    def _measures(self) -> dict[str, str]:
        """All measures, in words."""
        least = "at least " if self.at_least else ""
        shown = {
            "events": f"{self.events:,}",
            "inversions": f"{least}{self.inversions:,}",
            "distance": f"{least}{self.distance:,} places",
            "natural runs": f"{self.runs:,}",
            "interleaved runs": f"{least}{self.interleaved:,}",
            "late": f"{self.late:,} ({self.late_fraction:.1%})",
        }
        for quantile, lateness in self.lateness.items():
            name = "greatest lateness" if quantile == 1.0 else f"lateness p{100 * quantile:g}"
            shown[name] = self._written(lateness)
        return shown

    def _written(self, lateness: Duration) -> str:
        return format_duration(lateness) if self.calendar else f"{lateness:,}"


def _quantiles(lateness: NDArray[np.uint64]) -> dict[float, Duration]:
    """Nearest-rank quantiles, exact: an event of that lateness was seen."""
    if not len(lateness):
        return {}
    ranks = [min(int(quantile * len(lateness)), len(lateness) - 1) for quantile in QUANTILES]
    ordered = np.partition(lateness, sorted({*ranks, len(lateness) - 1}))
    return {
        **{quantile: int(ordered[rank]) for quantile, rank in zip(QUANTILES, ranks, strict=True)},
        1.0: int(ordered[-1]),
    }
