"""Sorting a whole column equals a stable argsort, whatever the column is like."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.sorting import sort_times as module
from slackwater.kernels.sorting.sort_times import sort_times

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slackwater.kernels.sorting.pairs import Piece


def _assert_sorted(times: NDArray[np.int64], in_order: Piece) -> None:
    order = np.argsort(times, kind="stable")
    assert np.array_equal(in_order.rows, order)
    assert np.array_equal(in_order.times, times[order])


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of eight, so that small examples have many."""
    monkeypatch.setattr(module, "BLOCK", 8)
    monkeypatch.setattr(module, "_REACH", 16)
    monkeypatch.setattr(module, "_SLICE", 6)
    monkeypatch.setattr(module, "_SAMPLED", 2)
    monkeypatch.setattr(module, "LONG_RUN", 3)


def test_sorts_a_column_of_several_blocks(disordered_times: NDArray[np.int64]) -> None:
    """Blocks of every nature, and the seams between them; the column itself is left alone."""
    before = disordered_times.copy()
    _assert_sorted(before, sort_times(disordered_times))
    assert np.array_equal(disordered_times, before)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_sorts_next_to_nothing(n: int) -> None:
    """Columns without a block to speak of."""
    times = np.array([7, 3][:n], dtype=np.int64)
    _assert_sorted(times, sort_times(times))


def test_sorts_up_to_the_ends_of_int64() -> None:
    """Long runs that begin and end there."""
    run = np.concatenate([[-(2**63)], np.arange(1_000), [2**63 - 1]])
    times = np.concatenate([run, run])
    _assert_sorted(times, sort_times(times))


def test_takes_every_other_time() -> None:
    """A column need not lie in one piece."""
    times = np.array([9, 0, 3, 0, 5, 0])[::2]
    _assert_sorted(times, sort_times(times))


@pytest.mark.usefixtures("small_blocks")
@given(
    st.lists(
        st.tuples(
            st.one_of(st.integers(-100, 100), st.integers(-(2**63), 2**63 - 2)),
            st.lists(st.integers(-3, 10), max_size=12),
        ),
        max_size=20,
    )
)
def test_equals_a_stable_argsort(runs: list[tuple[int, list[int]]]) -> None:
    """Runs of any lengths from anywhere."""
    anywhere = [first + step * i for first, steps in runs for i, step in enumerate(steps)]
    times = np.array([min(max(time, -(2**63)), 2**63 - 2) for time in anywhere], dtype=np.int64)
    _assert_sorted(times, sort_times(times))
