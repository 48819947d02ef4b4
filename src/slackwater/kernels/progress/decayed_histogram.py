"""Counts lengths in buckets that widen with the length, older counts weighing less: for quantiles of what is recent.

Lengths up to 63 units have a bucket each; from there on every doubling has 32, so that the upper edge of a bucket is at
most a 32nd above what is in it. A unit is a power of two (`shift`). All counts are halved now and then: what came
before weighs half, what came before that a quarter, and nothing has to be remembered for it.

Cost: O(1) for each length, O(buckets) for a quantile and for halving.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slackwater.kernels.compile import kernel
from slackwater.kernels.saturating import GREATEST

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Weights = NDArray[np.float64]

_FINE: Final = 64
"""So many lengths have a bucket of their own; half as many buckets have those of every doubling."""

BEYOND: Final = 544
"""The last bucket: for all that is 2 ** 21 units or longer. It has no upper edge."""

BUCKETS: Final = BEYOND + 1

NO_BUCKET: Final = -1


@kernel("int64(int64, int64)")
def bucket_of(length: int, shift: int) -> int:
    """The bucket of a length that is not negative, in units of 2 ** shift.

    >>> bucket_of(63, 0), bucket_of(64, 0), bucket_of(65, 0), bucket_of(66, 0), bucket_of(2**40, 0) == BEYOND
    (63, 64, 64, 65, True)
    >>> bucket_of(9, 3)
    2
    """
    units = length >> shift
    if units << shift != length:
        units += 1
    if units < _FINE:
        return units
    octaves = 1
    while units >> octaves >= _FINE:
        octaves += 1
    return min(octaves * (_FINE // 2) + (units >> octaves), BEYOND)


@kernel("int64(int64, int64)")
def upper_edge(bucket: int, shift: int) -> int:
    """The greatest length in a bucket.

    >>> upper_edge(63, 0), upper_edge(64, 0), upper_edge(2, 3), upper_edge(BEYOND, 0) == GREATEST
    (63, 65, 16, True)
    """
    units = bucket
    if bucket >= _FINE:
        octaves = bucket // (_FINE // 2) - 1
        units = ((bucket - octaves * (_FINE // 2) + 1) << octaves) - 1
    return GREATEST if bucket >= BEYOND or units > GREATEST >> shift else units << shift


@kernel("int64(float64[::1], float64, float64)")
def bucket_beyond_which(weights: Weights, total: float, level: float) -> int:
    """The least bucket beyond which lie no more than a part of all counts, one more counted there; NO_BUCKET for none.

    The one more is the length that comes next: of so few that one alone is too many, nothing can be concluded.

    >>> import numpy as np
    >>> weights = np.zeros(BUCKETS)
    >>> weights[[2, 7]] = 18, 1
    >>> bucket_beyond_which(weights, 19.0, 0.1), bucket_beyond_which(weights, 19.0, 0.05), NO_BUCKET
    (2, 7, -1)
    >>> bucket_beyond_which(weights, 19.0, 0.04)
    -1
    """
    allowed, beyond, found = level * (total + 1), 1.0, NO_BUCKET
    if beyond > allowed:
        return found
    found = BEYOND
    while found > 0:
        beyond += weights[found]
        if beyond > allowed:
            break
        found -= 1
    return found


@kernel("void(float64[:, ::1])")
def halve(weights: Weights) -> None:
    """Let all counts weigh half."""
    for one in range(len(weights)):
        for bucket in range(weights.shape[1]):
            weights[one, bucket] *= 0.5
