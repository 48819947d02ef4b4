"""The merge of two ordered columns, against a stable sort of both; and the weaving of other columns alongside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.sorting.merge_ordered import merge, weave, weave_order
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TIMES = st.lists(
    st.one_of(st.integers(0, 8), st.sampled_from([BEGINNING, BEGINNING + 1, FOREVER - 1, FOREVER])), max_size=40
).map(sorted)

_WIDTHS = ["int8", "int16", "int32", "int64", "uint8", "uint64", "float16", "float32", "float64", "datetime64[us]"]


def _column(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def _stable_order(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.argsort(np.concatenate([a, b]), kind="stable")


@given(_TIMES, _TIMES)
def test_a_merge_is_a_stable_sort_of_both_columns(first: list[int], second: list[int]) -> None:
    """Ties take the first column first; extremes of int64 are times like any other."""
    a, b = _column(first), _column(second)
    merged, from_b = merge(a, b)
    order = _stable_order(a, b)
    assert merged.tolist() == np.concatenate([a, b])[order].tolist()
    assert from_b.tolist() == (order >= len(a)).tolist()
    assert weave_order(from_b).tolist() == order.tolist()


@pytest.mark.parametrize("dtype", _WIDTHS)
@given(_TIMES, _TIMES, st.randoms(use_true_random=False))
def test_other_columns_are_woven_as_the_times_are(dtype: str, first: list[int], second: list[int], rng: Any) -> None:
    """Whatever their width, and bit for bit."""
    a, b = _column(first), _column(second)
    left, right = (np.frombuffer(rng.randbytes(len(side) * np.dtype(dtype).itemsize), dtype=dtype) for side in (a, b))
    _, from_b = merge(a, b)
    woven = weave(from_b, left, right)
    assert woven.dtype == np.dtype(dtype)
    assert woven.tobytes() == np.concatenate([left, right])[_stable_order(a, b)].tobytes()


def test_not_a_number_and_negative_zero_keep_their_bits() -> None:
    """Floats travel as bits."""
    values = np.array([np.nan, -0.0, np.inf])
    woven = weave(np.array([False, True, False, True]), values[:2], values[1:])
    assert woven.tobytes() == np.array([np.nan, -0.0, -0.0, np.inf]).tobytes()


@pytest.mark.parametrize(("first", "second"), [([], []), ([], [1, 2]), ([1, 2], []), ([1], [1])])
def test_an_empty_side_leaves_the_other_as_it_is(first: list[int], second: list[int]) -> None:
    """None, one or both may be empty."""
    a, b = _column(first), _column(second)
    merged, from_b = merge(a, b)
    assert merged.tolist() == [*first, *second]
    assert from_b.tolist() == [False] * len(first) + [True] * len(second)
    assert weave(from_b, a, b).tolist() == [*first, *second]


def test_inputs_may_be_read_only_and_are_left_alone() -> None:
    """The columns of a batch cannot be written; nor would they be."""
    a, b = _column([1, 3, 5]), _column([2, 3])
    for column in (a, b):
        column.setflags(write=False)
    merged, from_b = merge(a, b)
    assert merged.tolist() == [1, 2, 3, 3, 5]
    from_b.setflags(write=False)
    assert weave(from_b, a, b).tolist() == [1, 2, 3, 3, 5]
    assert (a.tolist(), b.tolist()) == ([1, 3, 5], [2, 3])
    assert merged.flags.writeable


def test_long_runs_of_very_uneven_columns_are_merged() -> None:
    """A thousand to one, on either side, before, after and in between."""
    rng = np.random.default_rng(7)
    many = np.sort(rng.integers(0, 1_000, 10_000))
    for few in ([-5], [0], [500] * 10, [2_000], [-5, 500, 2_000]):
        for a, b in ((many, _column(few)), (_column(few), many)):
            merged, from_b = merge(a, b)
            order = _stable_order(a, b)
            assert np.array_equal(merged, np.concatenate([a, b])[order])
            assert np.array_equal(from_b, order >= len(a))
