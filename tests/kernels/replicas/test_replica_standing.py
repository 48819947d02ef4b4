"""Who is believed among replicas, by the rule of an agreement: one replica at any time, also among equals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.replicas.replica_standing import (
    FIRST_RULE,
    LIVE_EVENTS,
    NEWEST,
    PUNCTUATED,
    REVISE_WHEN_LEADING,
    REVISION_RULE,
    STANDING,
    WHEN_FULLEST,
    WHEN_LEADING,
    WHEN_NEWEST,
    is_believed,
    may_revise,
)

_HOW_FAR = st.lists(st.integers(0, 3), min_size=1, max_size=5)


@pytest.mark.parametrize(
    ("rule", "column"), [(WHEN_LEADING, PUNCTUATED), (WHEN_NEWEST, NEWEST), (WHEN_FULLEST, LIVE_EVENTS)]
)
@given(how_far=_HOW_FAR)
def test_of_equals_the_one_with_the_least_number_is_believed(rule: int, column: int, how_far: list[int]) -> None:
    """The first of the greatest; and the same one may revise, where the leader may."""
    standing = np.zeros((len(how_far), STANDING), dtype=np.int64)
    standing[:, column] = how_far
    rules = np.zeros(4, dtype=np.int64)
    rules[FIRST_RULE], rules[REVISION_RULE] = rule, REVISE_WHEN_LEADING
    first = how_far.index(max(how_far))
    assert [is_believed(rules, standing, one) for one in range(len(how_far))] == [
        one == first for one in range(len(how_far))
    ]
    if column == PUNCTUATED:
        assert [may_revise(rules, standing, one) for one in range(len(how_far))] == [
            one == first for one in range(len(how_far))
        ]
