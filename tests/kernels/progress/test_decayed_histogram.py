"""Buckets of lengths: none is put below its bucket's edge, and a quantile is what sorting would find."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.progress.decayed_histogram import (
    BEYOND,
    BUCKETS,
    NO_BUCKET,
    bucket_beyond_which,
    bucket_of,
    halve,
    upper_edge,
)

_LENGTHS = st.integers(0, 200) | st.integers(0, 2**63 - 1)


@given(_LENGTHS, st.integers(0, 47))
def test_a_length_is_at_most_the_edge_of_its_bucket_and_hardly_less(length: int, shift: int) -> None:
    """A 32nd and a unit, at most; what is beyond all buckets has no edge."""
    bucket = bucket_of(length, shift)
    edge = upper_edge(bucket, shift)
    assert 0 <= bucket < BUCKETS
    assert edge >= length
    if bucket == BEYOND:
        assert length > (2**21 - 1) << shift
    elif edge < 2**63 - 1:
        assert edge - length <= length // 32 + (1 << shift)


@given(st.integers(0, BEYOND - 1), st.integers(0, 30))
def test_an_edge_is_in_its_bucket_and_the_next_length_is_not(bucket: int, shift: int) -> None:
    """So edges rise with buckets."""
    edge = upper_edge(bucket, shift)
    assert bucket_of(edge, shift) == bucket
    assert bucket_of(edge + 1, shift) == bucket + 1


@given(st.lists(st.integers(0, 63), max_size=60), st.sampled_from([0.01, 0.05, 0.1, 0.5, 0.99]))
def test_a_quantile_is_what_sorting_finds(lengths: list[int], level: float) -> None:
    """The least length that so many others, and one more, are beyond at most."""
    weights = np.zeros(BUCKETS)
    np.add.at(weights, lengths, 1)
    found = bucket_beyond_which(weights, float(len(lengths)), level)
    fit = [edge for edge in range(64) if 1 + sum(one > edge for one in lengths) <= level * (len(lengths) + 1)]
    assert found == (fit[0] if fit else NO_BUCKET)


def test_halving_keeps_shares() -> None:
    """And lets what is new weigh more."""
    weights = np.zeros((2, BUCKETS))
    weights[:, 3], weights[1, 9] = 8, 4
    halve(weights)
    assert weights[0, 3] == 4
    assert weights[1, [3, 9]].tolist() == [4, 2]
