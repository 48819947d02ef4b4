"""Sums and differences of times that stay within int64: what would leave it is held at BEGINNING or FOREVER.

Whoever adds a length to a time, or takes one from it, does it here (or, in compiled loops, in kernels/saturating.py),
so that a length of 2**62 is as good as one of a second. FOREVER is after every event and BEGINNING before every event,
so a time held there still compares rightly with the time of every event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slackwater.progress.instants import Duration, Instant


def within_int64(time: int) -> Instant:
    """Hold a time that was computed with whole numbers of any size at the ends of int64.

    >>> within_int64(FOREVER + 5) == FOREVER, within_int64(-7)
    (True, -7)
    """
    return min(max(time, BEGINNING), FOREVER)


def later(times: NDArray[np.int64], by: Duration | NDArray[np.int64]) -> NDArray[np.int64]:
    """Times a length later, or each its own, FOREVER where int64 has none; no length is negative.

    >>> later(np.array([5, FOREVER - 3]), 10).tolist() == [15, FOREVER]
    True
    """
    return np.add(np.minimum(times, FOREVER - by), by, dtype=np.int64)


def earlier(times: NDArray[np.int64], by: Duration | NDArray[np.int64]) -> NDArray[np.int64]:
    """Times a length earlier, or each its own, BEGINNING where int64 has none; no length is negative.

    >>> earlier(np.array([5, BEGINNING + 3]), 10).tolist() == [-5, BEGINNING]
    True
    """
    return np.subtract(np.maximum(times, BEGINNING + by), by, dtype=np.int64)


def difference(ones: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.int64]:
    """How much later each time is than another; BEGINNING or FOREVER where int64 has no such number.

    >>> difference(np.array([7, FOREVER, BEGINNING]), np.array([9, -1, 1])).tolist() == [-2, FOREVER, BEGINNING]
    True
    """
    found = np.subtract(ones, others, dtype=np.int64)
    wrapped = ((ones ^ others) & (ones ^ found)) < 0
    if wrapped.any():
        found[wrapped] = np.where(ones[wrapped] < 0, BEGINNING, FOREVER)
    return found
