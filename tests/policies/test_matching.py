"""The ways in which events of a join may match."""

from __future__ import annotations

import pytest

from slackwater.errors import BadDuration
from slackwater.policies.matching import Overlap, Within
from slackwater.progress.instants import FOREVER


def test_of_makes_both_distances_equal() -> None:
    """A symmetric window."""
    assert Within.of(7) == Within(left_before_right=7, right_before_left=7)


@pytest.mark.parametrize("distances", [(-1, 0), (0, -1), (FOREVER + 1, 0)])
def test_distances_that_cannot_be_are_refused(distances: tuple[int, int]) -> None:
    """Negative ones, and those that do not fit int64."""
    with pytest.raises(BadDuration, match="not negative and fits int64"):
        Within(*distances)


def test_policies_describe_themselves_in_the_units_of_the_stream() -> None:
    """As explain() shows them."""
    assert Overlap().describe(calendar=True) == "while both last"
    assert Within.of(5_000_000).describe(calendar=True) == "within 5s"
    assert Within.of(5).describe(calendar=False) == "within 5"
    asymmetric = Within(left_before_right=60_000_000, right_before_left=0)
    assert asymmetric.describe(calendar=True) == "right within 1m after left or left within 0s after right"


def test_policies_are_equal_by_value() -> None:
    """Frozen values, usable as keys."""
    assert {Overlap(), Overlap(), Within.of(1), Within.of(1)} == {Overlap(), Within.of(1)}
