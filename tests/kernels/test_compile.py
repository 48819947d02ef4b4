"""The decorator of compiled loops: several signatures, named tuples handed on as one, loops for loops only."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import int64, none

from slackwater.kernels.compile import handed_as_one, kernel


class _Pair(NamedTuple):
    first: Any
    second: Any


_PAIR = handed_as_one(_Pair, int64[::1], int64[:, ::1])


@kernel(int64(int64, none), int64(int64, _PAIR), inner=True)
def _sum(number: int, pair: _Pair | None) -> int:
    if pair is not None:
        number += pair.first[0] + pair.second[0, 0]
    return number


@kernel(int64(int64))
def _alone(number: int) -> int:
    return _sum(number, None)


@kernel(int64(int64, _PAIR))
def _with_pair(number: int, pair: _Pair) -> int:
    return _sum(number, pair)


def test_a_loop_is_compiled_with_and_without_what_may_be_missing() -> None:
    """What is asked by `is not None` is left out where nothing is handed over, and done where something is."""
    pair = _Pair(np.array([10]), np.array([[100]]))
    assert (_alone(1), _with_pair(1, pair), _alone(2)) == (1, 111, 2)


def test_a_loop_for_other_loops_refuses_python() -> None:
    """Before and after it was compiled for another loop: there is no way into it, and a call must not look for one."""
    with pytest.raises(TypeError, match="other loops"):
        _sum(1, None)
    assert _alone(1) == 1
    with pytest.raises(TypeError, match="other loops"):
        _sum(1, None)
