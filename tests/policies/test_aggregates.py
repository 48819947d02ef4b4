"""Aggregates as values."""

from __future__ import annotations

import pytest

from slackwater.errors import PlanError
from slackwater.policies import aggregates as sw


def test_aggregates_are_values() -> None:
    """Equal aggregates are equal, and can be keys."""
    assert sw.sum("x") == sw.sum("x") != sw.sum("y")
    assert len({sw.count(), sw.count("x"), sw.count()}) == 2


def test_aggregates_read_as_they_were_written() -> None:
    """explain() shows them so."""
    written = [
        sw.count(),
        sw.count("x"),
        sw.mean("x"),
        sw.count_distinct("x"),
        sw.top_k("x", 3),
        sw.min("x"),
        sw.max("x"),
    ]
    assert [str(aggregate) for aggregate in written] == [
        "count()",
        "count(x)",
        "mean(x)",
        "count_distinct(x)",
        "top_k(x, 3)",
        "min(x)",
        "max(x)",
    ]


@pytest.mark.parametrize("k", [0, -1])
def test_top_k_keeps_at_least_one(k: int) -> None:
    """A list that is always empty is a mistake."""
    with pytest.raises(PlanError, match="at least one value"):
        sw.top_k("x", k)
