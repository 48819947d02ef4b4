"""Exact sums of floats: the result of math.fsum, however the summands are split into parts."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slackwater.operators.aggregate.exact_sum import digits_of, sums_of

FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        [0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, 2.0**52 + 0.5, 2.0**53, 1.0, 0.1, 1e16, 1.7e308, -1.7e308]
    ),
)


def _sum(values: list[float]) -> float:
    _, place, digit = digits_of(np.array(values, dtype=np.float64))
    added = pa.table({"place": place, "digit": digit}).group_by("place").aggregate([("digit", "sum")])
    places, digits = added.column("place").to_numpy(), added.column("digit_sum").to_numpy()
    return float(sums_of(np.zeros(len(places), dtype=np.int64), places, digits, groups=1)[0])


def _rounded(values: list[float]) -> float:
    """The exact sum as a fraction, rounded once."""
    exact = sum(map(Fraction, values), Fraction())
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


@given(st.lists(FLOATS, max_size=12))
def test_a_sum_is_rounded_once_to_the_nearest_float(values: list[float]) -> None:
    """Also across the whole range, with cancellation, and beyond float64."""
    assert _sum(values) == _rounded(values)
    opposed = values + [-value for value in values[1:]]
    assert _sum(opposed) == _rounded(opposed)


def test_small_summands_are_not_swallowed() -> None:
    """A plain loop gives 0.0 and 0.9999999999999999."""
    assert _sum([1e16, 1.0, -1e16]) == 1.0
    assert _sum([0.1] * 10) == 1.0


def test_an_overflow_on_the_way_does_no_harm() -> None:
    """Only the final sum has to fit."""
    assert _sum([1.7e308, 1.7e308, -1.7e308]) == 1.7e308
    assert _sum([1.7e308, 1.7e308]) == math.inf


def test_infinities_and_nan_follow_ieee_754() -> None:
    """Opposite infinities have no sum."""
    assert _sum([math.inf, 1.0]) == math.inf
    assert _sum([-math.inf, 1.0, -math.inf]) == -math.inf
    assert math.isnan(_sum([math.inf, -math.inf]))
    assert math.isnan(_sum([math.nan, 1.0]))


def test_groups_are_summed_side_by_side() -> None:
    """A group without digits has the sum zero; who asks must know that it is empty."""
    group, place, digit = digits_of(np.array([2.5, -1e300, 3e-300]))
    assert sums_of(group, place, digit, groups=4).tolist() == [2.5, -1e300, 3e-300, 0.0]
