"""Follows the punctuations that stand among the rows of a batch, and finds the first row that contradicts one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slackwater.kernels.compile import kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NOBODY: Final = -1
"""No row contradicts a punctuation."""

_INSERT: Final = 0  # as in events.kinds
_TIMES = "Array(int64, 1, 'C', readonly=True)"


@kernel("UniTuple(int64, 2)(Array(int64, 1, 'C', readonly=True), Array(int8, 1, 'C', readonly=True), int8, int64)")
def follow_punctuations(
    starts: NDArray[np.int64], kinds: NDArray[np.int8], punctuate: int, complete_before: int
) -> tuple[int, int]:
    """Return the last punctuation, and the first row that is older than one before it, or NOBODY.

    `punctuate` is the kind of a punctuation, `complete_before` the last one of the batches before. Cost: one pass.

    >>> import numpy as np
    >>> follow_punctuations(np.array([3, 5, 4]), np.array([0, 2, 0], dtype=np.int8), 2, 0)
    (5, 2)
    """
    broken = NOBODY
    for i in range(len(starts)):
        if kinds[i] == punctuate:
            complete_before = max(complete_before, starts[i])
        elif starts[i] < complete_before and broken == NOBODY:
            broken = i
    return complete_before, broken


@kernel(f"UniTuple(int64, 2)({', '.join([_TIMES] * 3)}, Array(int8, 1, 'C', readonly=True), int8, int64)")
def follow_revised(
    starts: NDArray[np.int64],
    prior_ends: NDArray[np.int64],
    ends: NDArray[np.int64],
    kinds: NDArray[np.int8],
    punctuate: int,
    complete_before: int,
) -> tuple[int, int]:
    """The same for a batch with adjusts, each of which concerns the time from the lesser of its two ends on."""
    broken = NOBODY
    for i in range(len(starts)):
        if kinds[i] == punctuate:
            complete_before = max(complete_before, starts[i])
            continue
        concerned = starts[i] if kinds[i] == _INSERT else min(prior_ends[i], ends[i])
        if concerned < complete_before and broken == NOBODY:
            broken = i
    return complete_before, broken
