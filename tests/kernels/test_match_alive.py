"""The loop of the window join against its slow twin."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.kernels.chains import CHAIN_COLUMNS, EMPTY_CHAIN, LINKED, NODE_COLUMNS, NOBODY, VISITED, Table
from slackwater.kernels.match_alive import match_alive
from slackwater.testing.oracles.matching import Timed, alive_pairs

ROWS = st.lists(
    st.builds(
        lambda start, length, code: Timed(start, start + length, code),
        st.integers(0, 20),
        st.integers(1, 9),
        st.integers(0, 2),
    ),
    max_size=20,
).map(sorted)
"""Rows of three keys, in the order of their starts."""


def side(rows: list[Timed], codes: int = 3) -> tuple[Table, Table, Table]:
    """Nodes, chains and tally, with no node chained yet."""
    nodes = np.full((len(rows), NODE_COLUMNS), NOBODY, dtype=np.int64)
    nodes[:, :3] = np.array(rows, dtype=np.int64).reshape(-1, 3)
    chains = np.empty((codes, CHAIN_COLUMNS), dtype=np.int64)
    chains[:] = EMPTY_CHAIN
    return nodes, chains, np.zeros(2, dtype=np.int64)


def test_rows_pair_while_they_live_and_ties_take_left_first() -> None:
    """Left lives for [0, 5); right starts at 0, 4 and 5."""
    left, right = side([Timed(0, 5, 1), Timed(4, 9, 1)]), side([Timed(0, 1, 1), Timed(4, 5, 1), Timed(5, 6, 1)])
    from_left, from_right = match_alive(*left, 0, 2, *right, 0, 3)
    assert list(zip(from_left.tolist(), from_right.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 1), (1, 2)]


def test_more_pairs_than_rows_make_the_result_grow() -> None:
    """100 rows against 100 rows of one key are 10,000 pairs."""
    rows = [Timed(1, 2, 0)] * 100
    from_left, from_right = match_alive(*side(rows), 0, 100, *side(rows), 0, 100)
    assert len(set(zip(from_left.tolist(), from_right.tolist(), strict=True))) == len(from_left) == 10_000


@settings(max_examples=200, deadline=None)
@given(ROWS, ROWS)
def test_all_pairs_of_the_slow_twin_are_found_in_its_order(left: list[Timed], right: list[Timed]) -> None:
    """In one call, everything new."""
    from_left, from_right = match_alive(*side(left), 0, len(left), *side(right), 0, len(right))
    assert list(zip(from_left.tolist(), from_right.tolist(), strict=True)) == alive_pairs(left, right)


@settings(max_examples=100, deadline=None)
@given(ROWS, ROWS, st.integers(0, 21))
def test_a_second_call_goes_on_where_the_first_stopped(left: list[Timed], right: list[Timed], cut: int) -> None:
    """Both sides are cut at one time; the pairs of both calls together are those of one."""
    sides = side(left), side(right)
    stops = [sum(row.start < cut for row in rows) for rows in (left, right)]
    calls = [match_alive(*sides[0], 0, stops[0], *sides[1], 0, stops[1])]
    calls.append(match_alive(*sides[0], stops[0], len(left), *sides[1], stops[1], len(right)))
    found = [pair for a, b in calls for pair in zip(a.tolist(), b.tolist(), strict=True)]
    assert found == alive_pairs(left, right)


@settings(max_examples=100, deadline=None)
@given(ROWS, ROWS)
def test_every_visit_finds_a_pair_or_removes_a_node(left: list[Timed], right: list[Timed]) -> None:
    """The cost law: visits are exactly pairs plus nodes unlinked."""
    sides = side(left), side(right)
    pairs = len(match_alive(*sides[0], 0, len(left), *sides[1], 0, len(right))[0])
    linked, visited = (sum(int(tally[place]) for _, _, tally in sides) for place in (LINKED, VISITED))
    assert visited == pairs + len(left) + len(right) - linked
