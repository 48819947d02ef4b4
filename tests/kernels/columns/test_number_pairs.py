"""Numbering pairs, and what is done by the numbers, against dictionaries and lists."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.columns.number_pairs import add_by_number, keep_greatest, number_pairs

_ANY = st.integers(-(2**63), 2**63 - 1)
_FEW = st.integers(-2, 2)


@given(st.lists(st.tuples(st.one_of(_FEW, _ANY), st.one_of(_FEW, _ANY)), max_size=200))
def test_numbers_are_those_of_a_dictionary(pairs: list[tuple[int, int]]) -> None:
    """Equal pairs get equal numbers, new ones the next, up to the ends of int64."""
    a, b = np.array(pairs, dtype=np.int64).reshape(-1, 2).T.copy()
    numbers, firsts = number_pairs(a, b)
    known: dict[tuple[int, int], int] = {}
    assert numbers.tolist() == [known.setdefault(pair, len(known)) for pair in pairs]
    assert [pairs[first] for first in firsts] == list(known)


@pytest.mark.parametrize(("spread", "step"), [(40, 1), (5_000, 1), (100_000, 1), (100_000, 3_600_000_000)])
def test_many_pairs_are_numbered_in_a_table_or_by_hashing(spread: int, step: int) -> None:
    """Few that could be, many, and so many that the table grows several times."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, spread, 50_000) * step, rng.integers(0, 3, 50_000)
    numbers, firsts = number_pairs(a, b)
    _, expected_firsts, inverse = np.unique(a * 3 + b, return_index=True, return_inverse=True)
    assert np.array_equal(firsts, np.sort(expected_firsts))
    assert np.array_equal(firsts[numbers], expected_firsts[inverse])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-9, 9)), max_size=60), st.integers(1, 4))
def test_the_greatest_of_each_number_are_kept(rows: list[tuple[int, int]], most: int) -> None:
    """As sorting each group would."""
    numbers, values = np.array(rows, dtype=np.int64).reshape(-1, 2).T.copy()
    kept = np.empty((6, most), dtype=np.int64)
    counts = keep_greatest(values, numbers, most, kept)
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for number, value in rows:
        groups[number].append(value)
    for number in range(6):
        assert kept[number, : counts[number]].tolist() == heapq.nlargest(most, groups[number])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-9, 9)), max_size=60))
def test_values_are_added_to_their_number(rows: list[tuple[int, int]]) -> None:
    """As a counter would."""
    numbers, values = np.array(rows, dtype=np.int64).reshape(-1, 2).T.copy()
    sums = np.zeros(6, dtype=np.int64)
    add_by_number(values, numbers, sums)
    expected: Counter[int] = Counter()
    for number, value in rows:
        expected[number] += value
    assert sums.tolist() == [expected[number] for number in range(6)]
