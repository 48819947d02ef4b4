"""Buckets of lengths: none is put below its bucket's edge, and a quantile is what sorting would find."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.progress.decayed_histogram import (
    BEYOND,
    BUCKETS,
    NO_BUCKET,
    bucket_of,
    halve,
    moved_bucket,
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


@given(
    st.lists(st.tuples(st.integers(0, BEYOND), st.sampled_from([1.0, 0.5, 8.0])), max_size=40),
    st.sampled_from([0.01, 0.1, 0.5]),
    st.integers(0, BEYOND),
)
def test_a_quantile_is_found_from_wherever_it_was(counted: list[tuple[int, float]], level: float, was: int) -> None:
    """The least bucket that so much, and one more, is beyond at most; found going up or down."""
    weights = np.zeros(BUCKETS)
    for bucket, weight in counted:
        weights[bucket] += weight
    total = float(weights.sum())
    found, beyond = moved_bucket(weights, total, level, was, float(weights[was + 1 :].sum()))
    fit = [bucket for bucket in range(BUCKETS) if 1 + weights[bucket + 1 :].sum() <= level * (total + 1)]
    assert found == (fit[0] if fit else NO_BUCKET)
    assert found == NO_BUCKET or beyond == weights[int(found) + 1 :].sum()


def test_halving_keeps_shares() -> None:
    """And lets what is new weigh more."""
    weights = np.zeros((2, BUCKETS))
    weights[:, 3], weights[1, 9] = 8, 4
    halve(weights)
    assert weights[0, 3] == 4
    assert weights[1, [3, 9]].tolist() == [4, 2]
