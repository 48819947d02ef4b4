"""Sums and differences of times that stay within int64, for compiled loops; see progress/saturating.py.

Lengths are not negative.
"""

from __future__ import annotations

from typing import Final

from slackwater.kernels.compile import kernel

LEAST: Final = -(2**63)
"""BEGINNING, for compiled loops."""

GREATEST: Final = 2**63 - 1
"""FOREVER, for compiled loops."""


@kernel("int64(int64, int64)")
def plus(time: int, length: int) -> int:
    """A time a length later, or the greatest there is.

    >>> plus(5, 10), plus(GREATEST - 3, 10) == GREATEST
    (15, True)
    """
    return time + length if time <= GREATEST - length else GREATEST


@kernel("int64(int64, int64)")
def minus(time: int, length: int) -> int:
    """A time a length earlier, or the least there is.

    >>> minus(5, 10), minus(LEAST + 3, 10) == LEAST
    (-5, True)
    """
    return time - length if time >= LEAST + length else LEAST
