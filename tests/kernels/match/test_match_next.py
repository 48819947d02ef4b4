"""The loop of followed_by against its slow twin."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.kernels.match.chains import LINKED, VISITED, Table
from slackwater.kernels.match.match_next import match_next
from slackwater.testing.matching_streams import unchained
from slackwater.testing.oracles.matching import Timed, next_pairs

WITHIN = 6
"""How long first rows live unmatched."""

ROWS = st.lists(
    st.builds(lambda start, code: Timed(start, start + WITHIN, code), st.integers(0, 20), st.integers(0, 2)),
    max_size=20,
).map(sorted)
"""Rows of three keys, in the order of their starts."""


def columns(rows: list[Timed]) -> tuple[Table, Table]:
    """Starts and codes, read-only as in batches."""
    start, code = (np.array([getattr(row, name) for row in rows], dtype=np.int64) for name in ("start", "code"))
    start.flags.writeable = False
    return start, code


def pairs_of(found: tuple[Table, Table]) -> list[tuple[int, int]]:
    """The result of the kernel as pairs."""
    return list(zip(found[0].tolist(), found[1].tolist(), strict=True))


def test_each_row_pairs_with_the_next_later_ones() -> None:
    """Simultaneous rows are not later; the two at 4 are both next; a code of -1 pairs with nothing."""
    first = unchained([Timed(1, 9, 0), Timed(4, 9, 0)], codes=3)
    then = columns([Timed(1, 0, 0), Timed(3, 0, -1), Timed(4, 0, 0), Timed(4, 0, 0), Timed(5, 0, 0)])
    assert pairs_of(match_next(*first, 0, 2, *then)) == [(0, 2), (0, 3), (1, 4)]


def test_more_pairs_than_rows_make_the_result_grow() -> None:
    """100 rows followed by 100 simultaneous ones are 10,000 pairs."""
    found, _ = match_next(*unchained([Timed(1, 9, 0)] * 100, codes=3), 0, 100, *columns([Timed(2, 0, 0)] * 100))
    assert len(found) == 10_000


@settings(max_examples=200, deadline=None)
@given(ROWS, ROWS, st.integers(0, 21), st.integers(0, 20))
def test_all_pairs_of_the_slow_twin_are_found_in_its_order(
    first: list[Timed], then: list[Timed], cut: int, some: int
) -> None:
    """In two calls that part the rows at one time; of simultaneous followers some may come in the second."""
    nodes = unchained(first, codes=3)
    stop = sum(row.start < cut for row in first)
    early = sum(row.start < cut for row in then)
    early = min(early + some, sum(row.start <= cut for row in then))
    start, code = columns(then)
    found = pairs_of(match_next(*nodes, 0, stop, start[:early], code[:early]))
    later = pairs_of(match_next(*nodes, stop, len(first), start[early:], code[early:]))
    assert [*found, *((i, j + early) for i, j in later)] == next_pairs(first, then)


@settings(max_examples=100, deadline=None)
@given(ROWS, ROWS)
def test_every_visit_finds_a_pair_or_removes_a_node(first: list[Timed], then: list[Timed]) -> None:
    """The cost law: visits are exactly pairs plus nodes unlinked, however many are simultaneous."""
    nodes, chains, tally = unchained(first, codes=3)
    pairs = len(match_next(nodes, chains, tally, 0, len(first), *columns(then))[0])
    assert tally[VISITED] == pairs + len(first) - tally[LINKED]
