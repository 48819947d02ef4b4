"""How far instants are past the last line of a grid: remainders, without the processor's slow division."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.kernels.compile import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EXACT: Final = 2**52
"""Below this, up to its sign, a quotient of doubles is at most one away from that of the integers."""


@kernel("void(Array(int64, 1, 'C', readonly=True), int64, int64, int64[::1])")
def _past_grid(times: NDArray[np.int64], step: int, shift: int, past: NDArray[np.int64]) -> None:
    least, greatest = 0, 0
    for i in range(len(times)):
        least = min(least, times[i])
        greatest = max(greatest, times[i])
    if step < _EXACT and least > -_EXACT and greatest < _EXACT:
        per_step = 1.0 / step
        for i in range(len(times)):
            time = times[i] - shift
            left = time - math.floor(time * per_step) * step
            left += step if left < 0 else 0
            past[i] = left - (step if left >= step else 0)
    else:
        for i in range(len(times)):
            past[i] = (times[i] % step - shift) % step


def past_grid(times: NDArray[np.int64], step: int, offset: int) -> NDArray[np.int64]:
    """(times - offset) modulo step, without the difference that might overflow.

    >>> past_grid(np.array([2, 3, 12, -1]), 10, 3).tolist()
    [9, 0, 9, 6]
    """
    past = np.empty(len(times), dtype=np.int64)
    _past_grid(np.ascontiguousarray(times), step, offset % step, past)
    return past
