"""Estimates: section 6.1 and Figure 4 by hand, and what makes the greatest skew the right one."""

from __future__ import annotations

from fractions import Fraction
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.testing.oracles.heartbeats.estimates import adaptive, by_estimates, greatest_skew
from slackwater.testing.oracles.heartbeats.system import NOTHING_YET, Emitted, Skew, System, obeys

_TIMES = [10, 4, 11, 12, 13, 12, 14, 13, 10, 12, 15, 16, 17, 18, 19]
_ROWS = [(tick, 0, time) for tick, time in enumerate(_TIMES)]
"""One source, a row a tick."""

_LONGEST = 3

arrivals = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 1), st.integers(0, 9)), min_size=1, max_size=10).map(
    lambda rows: sorted(rows, key=lambda row: row[0])
)
"""Any rows of two sources."""


def _system(deltas: dict[tuple[int, int], list[int]]) -> System:
    return System((0, 0), {pair: tuple(Skew(t, delta) for t, delta in enumerate(of)) for pair, of in deltas.items()})


@pytest.mark.parametrize(
    ("alpha", "deltas"),
    [
        # Row 5: (7 + 1) / 2; row 8: (4 + 2) / 2; row 9: 14 - 10 + 1; row 12: (5 + 3) / 2; row 15: (4 + 1) / 2.
        (Fraction(1, 2), [1, 7, 7, 7, 4, 4, 4, 3, 5, 5, 5, 4, 4, 4, Fraction(5, 2)]),
        # Row 5: the greatest of the window, 1, which row 6 exceeds; row 12: that of row 10, not the last.
        (0, [1, 7, 7, 7, 1, 2, 2, 2, 5, 5, 5, 3, 3, 3, 1]),
        (1, [1, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]),
    ],
    ids=["half", "only the window", "never lower"],
)
def test_figure_4_by_hand(alpha: Fraction | int, deltas: list[Fraction | int]) -> None:
    """A window of more than two rows that did not exceed the estimate lowers it."""
    found = [adaptive(_ROWS[:seen], 1, 0, window=2, alpha=alpha)[0, 0] for seen in range(1, len(_ROWS) + 1)]
    assert found == [[delta] for delta in deltas]


def test_figure_4_with_a_window_of_time() -> None:
    """The spike at tick 1 begins a window; the first row more than 5 ticks later ends it, however few came."""
    rows = [(0, 0, 10), (1, 0, 4), (6, 0, 11), (7, 0, 12), (8, 0, 13)]
    found = [adaptive(rows[:seen], 1, 0, window=5, alpha=0, by_ticks=True)[0, 0] for seen in range(1, 6)]
    assert found == [[1], [7], [7], [1], [1]]


def test_section_6_1_by_hand() -> None:
    """Between two sources: 0 was at 20 from tick 1 on; 1 is 5 behind at tick 4, and 3 behind at tick 7."""
    rows = [(1, 0, 20), (4, 1, 15), (7, 1, 17)]
    assert greatest_skew(rows, 2, 6) == {
        (0, 0): [1, 0, 0, 0, 0, 0, 0],
        (0, 1): [6, 6, 6, 6, 4, 4, 4],
        (1, 0): [0, 0, 0, 0, 0, 0, 0],
        (1, 1): [1, 0, 0, 0, 0, 0, 0],
    }


def test_section_6_1_as_printed_a_row_counts_against_itself() -> None:
    """A source in strict order needs no difference at all; as printed it gets one of 1."""
    rows = [(tick, 0, 10 + tick) for tick in range(5)]
    assert greatest_skew(rows, 1, 1) == {(0, 0): [1, 0]}
    assert greatest_skew(rows, 1, 1, strictly=True) == {(0, 0): [0, 0]}


def test_section_6_1_rows_of_one_tick_are_all_seen_then() -> None:
    """The older of two rows counts against the newer, whichever stands first; strictly, neither does."""
    for rows in ([(0, 0, 9), (0, 0, 5)], [(0, 0, 5), (0, 0, 9)]):
        assert greatest_skew(rows, 1, 0) == {(0, 0): [5]}
        assert greatest_skew(rows, 1, 0, strictly=True) == {(0, 0): [0]}


@given(arrivals)
def test_the_greatest_skew_is_the_least_that_holds_of_all_rows(rows: list[tuple[int, int, int]]) -> None:
    """By the definition of bounds at arrival: all hold, and with one less none does."""
    deltas = greatest_skew(rows, 2, _LONGEST, strictly=True)
    at_arrival = [Emitted(*row) for row in rows]
    system = _system({pair: [int(delta) for delta in of] for pair, of in deltas.items()})
    assert obeys(system, at_arrival)
    for pair, of in deltas.items():
        tighter = [System((0, 0), {pair: (Skew(t, int(delta) - 1),)}) for t, delta in enumerate(of) if delta > 0]
        assert not any(obeys(one, at_arrival) for one in tighter)


@given(arrivals)
def test_as_printed_estimates_are_safe(rows: list[tuple[int, int, int]]) -> None:
    """They are never less than what the definition asks for, and differ only by rows exactly t ticks before."""
    printed, strict = (greatest_skew(rows, 2, _LONGEST, strictly=strictly) for strictly in (False, True))
    for pair, deltas in printed.items():
        assert all(delta >= least for delta, least in zip(deltas, strict[pair], strict=True))
        assert strict[pair][:-1] == deltas[1:]


@given(arrivals, st.booleans())
def test_figure_4_without_lowering_is_the_greatest_skew(rows: list[tuple[int, int, int]], strictly: bool) -> None:
    """Section 6.2: alpha = 1, or a window that never ends."""
    greatest = greatest_skew(rows, 2, _LONGEST, strictly=strictly)
    assert adaptive(rows, 2, _LONGEST, window=2, alpha=1, strictly=strictly) == greatest
    assert adaptive(rows, 2, _LONGEST, window=inf, alpha=0, strictly=strictly) == greatest


@given(arrivals, st.integers(0, 3), st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(1)]))
def test_figure_4_is_never_above_the_greatest_skew(
    rows: list[tuple[int, int, int]], window: int, alpha: Fraction
) -> None:
    """Averages of what was seen."""
    adapted, greatest = adaptive(rows, 2, 1, window, alpha), greatest_skew(rows, 2, 1)
    assert all(
        0 <= delta <= most for pair, of in adapted.items() for delta, most in zip(of, greatest[pair], strict=True)
    )


def test_section_6_heartbeats_follow_the_estimates() -> None:
    """In order at first, so 9 is complete; the row at 4 shows a difference of 7, and heartbeats stay where they are."""
    beats = by_estimates(_ROWS[:4], 1, 4, lambda seen: greatest_skew(seen, 1, 1))
    # tick 0: 10 - 1; tick 1: 10 - 0, after a tick without a row before it; from tick 2 on less than that.
    assert [beat for (beat,) in beats] == [9, 10, 10, 10, 10]


def test_section_6_a_fraction_of_a_time_counts_as_a_whole_one() -> None:
    """After row 15 the estimate is 5/2: rows newer than 19 - 5/2 are those from 17 on."""
    beats = by_estimates(_ROWS, 1, 14, lambda seen: adaptive(seen, 1, 0, window=2, alpha=Fraction(1, 2)))
    assert beats[13:] == [[14], [16]]


def test_section_6_nothing_is_complete_before_a_row() -> None:
    """And of a source without rows nothing but what the others show."""
    beats = by_estimates([(1, 0, 10)], 2, 1, lambda seen: greatest_skew(seen, 2, 0))
    assert beats == [[NOTHING_YET, NOTHING_YET], [9, 10]]
