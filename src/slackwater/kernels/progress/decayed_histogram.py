"""Counts lengths in buckets that widen with the length, older counts weighing less: for quantiles of what is recent.

Lengths up to 63 units have a bucket each; from there on every doubling has 32, so that the upper edge of a bucket is at
most a 32nd above what is in it. A unit is a power of two (`shift`). All counts are halved now and then: what came
before weighs half, what came before that a quarter, and nothing has to be remembered for it.

Cost: O(1) for each length, O(buckets) for halving; a quantile is followed in as many steps as it moves.
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


@kernel("UniTuple(float64, 2)(float64[::1], float64, float64, int64, float64)")
def moved_bucket(weights: Weights, total: float, level: float, bucket: int, beyond: float) -> tuple[float, float]:
    """The least bucket beyond which lie no more than a part of all counts, one more counted there; and what lies there.

    It is found from a bucket and what lies beyond that, such as it was before. NO_BUCKET if there is none: the one more
    is the length that comes next, and of so few that one alone is too many nothing can be concluded.
    Cost: O(buckets that it moves by).

    >>> import numpy as np
    >>> weights = np.zeros(BUCKETS)
    >>> weights[[2, 7]] = 18, 1
    >>> moved_bucket(weights, 19.0, 0.1, 7, 0.0), moved_bucket(weights, 19.0, 0.05, 2, 1.0)
    ((2.0, 1.0), (7.0, 0.0))
    """
    allowed = level * (total + 1)
    if allowed < 1:
        return float(NO_BUCKET), 0.0
    while 1 + beyond > allowed:
        bucket += 1
        beyond -= weights[bucket]
    while bucket > 0 and 1 + (beyond + weights[bucket]) <= allowed:
        beyond += weights[bucket]
        bucket -= 1
    return float(bucket), beyond


@kernel("void(float64[:, ::1])")
def halve(weights: Weights) -> None:
    """Let all counts weigh half."""
    for one in range(len(weights)):
        for bucket in range(weights.shape[1]):
            weights[one, bucket] *= 0.5
