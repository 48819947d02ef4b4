"""Remainders by quotients of doubles are those of the integers, everywhere on the axis of time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.progress.past_grid import past_grid

_NEAR_THE_EDGES = st.builds(
    lambda edge, step: min(max(edge + step, -(2**63)), 2**63 - 1),
    st.sampled_from([0, 2**31, 2**52, -(2**52), 2**53, 2**62, -(2**62), 2**63 - 1, -(2**63)]),
    st.integers(-1_000, 1_000),
)


@given(
    st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), _NEAR_THE_EDGES), max_size=20),
    st.one_of(st.integers(1, 100), st.integers(1, 2**63 - 1), st.sampled_from([3_600_000_000, 86_400_000_000])),
    st.integers(-(2**63), 2**63 - 1),
)
def test_equals_python_integers(times: list[int], step: int, offset: int) -> None:
    """Python's own modulo, which cannot overflow."""
    assert past_grid(np.array(times, dtype=np.int64), step, offset).tolist() == [(t - offset) % step for t in times]


def test_every_multiple_and_its_neighbours() -> None:
    """Where a rounded quotient would fall on the wrong side."""
    for step in (3, 7, 10, 1_000, 3_600_000_000):
        lines = np.arange(-2_000, 2_000) * step
        times = np.concatenate([lines - 1, lines, lines + 1, lines + 10**15 // step * step])
        assert np.array_equal(past_grid(times, step, 0), times % step)
