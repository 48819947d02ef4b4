"""Measures disorder while a stream flows: what one pass with little memory can know.

Inversions and quantiles need the whole column; DisorderProfile has them. The rest is exact here too, in memory that
follows the number of interleaved runs, not of events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.kernels.sorting.measure_disorder import append_to_runs, count_runs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slackwater.progress.instants import Duration, Instant


class DisorderMeter:
    """Counts events, natural and interleaved runs, late events and the greatest lateness, batch by batch.

    >>> meter = DisorderMeter()
    >>> meter.add(np.array([2, 6, 5, 1]))
    >>> meter.add(np.array([4, 3, 7, 8]))
    >>> meter.events, meter.runs, meter.interleaved, meter.late, meter.greatest_lateness
    (8, 4, 4, 4, 5)
    """

    __slots__ = ("_last", "_tails", "events", "greatest_lateness", "late", "runs")

    def __init__(self) -> None:
        self.events = 0
        self.runs = 0
        self.late = 0
        self.greatest_lateness: Duration = 0
        self._last: Instant | None = None
        self._tails = np.empty(0, dtype=np.int64)

    @property
    def interleaved(self) -> int:
        """The fewest ordered streams that could have been interleaved to give this one so far."""
        return len(self._tails)

    @property
    def high_water(self) -> Instant | None:
        """The greatest time seen so far: the last time of the first run."""
        return int(self._tails[0]) if len(self._tails) else None

    def add(self, times: NDArray[np.int64]) -> None:
        """Take the next times, in order of arrival. Cost: O(n log runs)."""
        if not len(times):
            return
        before = self.high_water
        high_water = np.maximum.accumulate(times)
        if before is not None:
            high_water = np.maximum(high_water, before)
        behind = high_water.view(np.uint64) - times.view(np.uint64)
        self.events += len(times)
        self.runs += count_runs(times) - (self._last is not None and int(times[0]) >= self._last)
        self.late += int(np.count_nonzero(behind))
        self.greatest_lateness = max(self.greatest_lateness, int(behind.max()))
        self._tails = append_to_runs(times, self._tails).copy()
        self._last = int(times[-1])
