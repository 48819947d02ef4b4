"""The loop of the window join against its slow twin."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.kernels.match.chains import LINKED, VISITED
from slackwater.kernels.match.match_alive import match_alive
from slackwater.testing.matching_streams import unchained
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


def test_rows_pair_while_they_live_and_ties_take_left_first() -> None:
    """Left lives for [0, 5); right starts at 0, 4 and 5."""
    left, right = (
        unchained([Timed(0, 5, 1), Timed(4, 9, 1)], codes=3),
        unchained([Timed(0, 1, 1), Timed(4, 5, 1), Timed(5, 6, 1)], codes=3),
    )
    from_left, from_right = match_alive(*left, 0, 2, *right, 0, 3)
    assert list(zip(from_left.tolist(), from_right.tolist(), strict=True)) == [(0, 0), (0, 1), (1, 1), (1, 2)]


def test_more_pairs_than_rows_make_the_result_grow() -> None:
    """100 rows against 100 rows of one key are 10,000 pairs."""
    rows = [Timed(1, 2, 0)] * 100
    from_left, from_right = match_alive(*unchained(rows, codes=3), 0, 100, *unchained(rows, codes=3), 0, 100)
    assert len(set(zip(from_left.tolist(), from_right.tolist(), strict=True))) == len(from_left) == 10_000


@settings(max_examples=200, deadline=None)
@given(ROWS, ROWS)
def test_all_pairs_of_the_slow_twin_are_found_in_its_order(left: list[Timed], right: list[Timed]) -> None:
    """In one call, everything new."""
    from_left, from_right = match_alive(
        *unchained(left, codes=3), 0, len(left), *unchained(right, codes=3), 0, len(right)
    )
    assert list(zip(from_left.tolist(), from_right.tolist(), strict=True)) == alive_pairs(left, right)


@settings(max_examples=100, deadline=None)
@given(ROWS, ROWS, st.integers(0, 21))
def test_a_second_call_goes_on_where_the_first_stopped(left: list[Timed], right: list[Timed], cut: int) -> None:
    """Both sides are cut at one time; the pairs of both calls together are those of one."""
    sides = unchained(left, codes=3), unchained(right, codes=3)
    stops = [sum(row.start < cut for row in rows) for rows in (left, right)]
    calls = [match_alive(*sides[0], 0, stops[0], *sides[1], 0, stops[1])]
    calls.append(match_alive(*sides[0], stops[0], len(left), *sides[1], stops[1], len(right)))
    found = [pair for a, b in calls for pair in zip(a.tolist(), b.tolist(), strict=True)]
    assert found == alive_pairs(left, right)


@settings(max_examples=100, deadline=None)
@given(ROWS, ROWS)
def test_every_visit_finds_a_pair_or_removes_a_node(left: list[Timed], right: list[Timed]) -> None:
    """The cost law: visits are exactly pairs plus nodes unlinked."""
    sides = unchained(left, codes=3), unchained(right, codes=3)
    pairs = len(match_alive(*sides[0], 0, len(left), *sides[1], 0, len(right))[0])
    linked, visited = (sum(int(tally[place]) for _, _, tally in sides) for place in (LINKED, VISITED))
    assert visited == pairs + len(left) + len(right) - linked
