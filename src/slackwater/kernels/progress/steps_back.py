"""Finds the first time that is behind one before it: the check of every stream that is declared to be in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import int64

from slackwater.kernels.compile import kernel
from slackwater.kernels.progress.follow_punctuations import NOBODY

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@kernel("int64(Array(int64, 1, 'A', readonly=True), int64)")
def first_step_back(times: NDArray[np.int64], after: int) -> Any:
    """Return the position of the first time that is less than one before it, or than `after`; NOBODY where none is.

    >>> import numpy as np
    >>> [first_step_back(np.array([3, 3, 5, 4]), after) for after in (3, 4)]
    [3, 0]
    """
    for position in range(len(times)):
        if times[position] < after:
            return int64(position)
        after = times[position]
    return int64(NOBODY)
