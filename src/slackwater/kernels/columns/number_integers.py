"""Gives whole numbers the numbers of places in a range of values: those that are near each other need no dictionary.

Cost: one pass over the values, without a look-up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slackwater.kernels.compile import kernel
from slackwater.kernels.saturating import GREATEST, LEAST

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]
    Numbers = NDArray[np.int32]

_READ = "Array(int64, 1, 'C', readonly=True)"


@kernel(f"UniTuple(int64, 2)({_READ}, int64, int32[::1])")
def number_integers(values: Column, first: int, numbers: Numbers) -> Any:
    """Fill in how far each value is past the first of a range; return the least and the greatest value.

    Where one of these is not in the range what was filled in means nothing.

    >>> import numpy as np
    >>> numbers = np.empty(3, dtype=np.int32)
    >>> number_integers(np.array([7, 5, 9]), 5, numbers), numbers.tolist()
    ((5, 9), [2, 0, 4])
    """
    least, greatest = GREATEST, LEAST
    for row in range(len(values)):
        value = values[row]
        least = min(least, value)
        greatest = max(greatest, value)
        numbers[row] = value - first
    return least, greatest


@kernel(f"boolean(Array(int32, 1, 'C', readonly=True), {_READ})")
def all_placed(numbers: Numbers, place_of: Column) -> bool:
    """Whether each number stands for something that has a place, which is not below zero.

    >>> import numpy as np
    >>> (
    ...     all_placed(np.array([1, 1], dtype=np.int32), np.array([-1, 0])),
    ...     all_placed(np.zeros(1, np.int32), np.array([-1])),
    ... )
    (True, False)
    """
    least = GREATEST
    for row in range(len(numbers)):
        least = min(least, place_of[numbers[row]])
    return least >= 0
