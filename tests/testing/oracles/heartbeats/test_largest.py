"""The largest heartbeat: by trying everything, by constraints, and where the paper's is the largest."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.testing.oracles.heartbeats.constraints import by_constraints
from slackwater.testing.oracles.heartbeats.figure_2 import figure_2
from slackwater.testing.oracles.heartbeats.largest import literal_largest
from slackwater.testing.oracles.heartbeats.simulate import CROWDED, arrivals_of, simulate
from slackwater.testing.oracles.heartbeats.strategies import closed_systems, simulations, systems
from slackwater.testing.oracles.heartbeats.system import NOTHING_YET, Skew, System, obeys
from slackwater.testing.oracles.heartbeats.systems import uniform
from slackwater.testing.oracles.heartbeats.theorems import closed_under_composition

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

    from slackwater.testing.oracles.heartbeats.simulate import Sent
    from slackwater.testing.oracles.heartbeats.system import Arrival

_OVERTAKEN = System((0, 4), {(0, 1): (Skew(1, 1),), (1, 0): (Skew(3, 0),), (1, 1): (Skew(0, 1),)})
"""The smallest system in which the heartbeat of Figure 2 is not the largest."""


@st.composite
def _states(draw: DrawFn, of: SearchStrategy[System], most_rows: int = 4) -> tuple[System, list[Arrival], int]:
    """A system, arrivals and a tick at or after some of them."""
    system, sent = draw(simulations(of, most_rows, CROWDED))
    arrivals = arrivals_of(sent)
    return system, arrivals, draw(st.integers(arrivals[0][0], arrivals[-1][0] + 8))


def test_the_papers_heartbeat_is_not_the_maximum_where_there_is_latency() -> None:
    """Section 3.2, property 2, refuted: the second row is at most 3 - 1, so it was emitted by tick 2."""
    arrivals = [(1, 0, 3), (3, 1, 0)]
    paper = [beats[0] for beats in figure_2(_OVERTAKEN, arrivals, until=6)]
    largest = [literal_largest(_OVERTAKEN, arrivals, tick)[0] for tick in range(7)]
    assert paper == [NOTHING_YET] * 6 + [0]
    assert largest == [NOTHING_YET] * 5 + [0] * 2
    assert [by_constraints(_OVERTAKEN, arrivals, tick)[0] for tick in range(7)] == largest
    assert not closed_under_composition(_OVERTAKEN)


def test_nothing_is_known_before_a_row_or_without_a_bound() -> None:
    """The least time there is, less one."""
    for largest in (literal_largest, by_constraints):
        assert largest(uniform(2, Skew(0, 0)), [], 9) == [NOTHING_YET] * 2
        assert largest(System((0, 0), {(0, 0): (Skew(0, 1),)}), [(0, 0, 7)], 0) == [6, NOTHING_YET]


def test_rows_that_break_a_bound_leave_nothing_to_infer() -> None:
    """No emission times are possible, so every heartbeat would be right."""
    system, arrivals = uniform(1, Skew(0, 0)), [(0, 0, 7), (1, 0, 6)]
    for largest in (literal_largest, by_constraints):
        with pytest.raises(ValueError, match="no emission times"):
            largest(system, arrivals, 1)


def test_constraints_do_not_count_rows() -> None:
    """A bound that counts rows is no difference of two emission times."""
    with pytest.raises(ValueError, match="count rows"):
        by_constraints(uniform(1, Skew.rows(1, 0)), [], 0)


@given(_states(systems(most_latency=3)))
def test_the_papers_heartbeat_is_never_above_the_largest(state: tuple[System, list[Arrival], int]) -> None:
    """Section 3.2, property 1, with bounds by ticks and by rows, latencies and missing entries."""
    system, arrivals, tick = state
    paper, largest = figure_2(system, arrivals, tick)[tick], literal_largest(system, arrivals, tick)
    assert all(beat <= most for beat, most in zip(paper, largest, strict=True))


@given(_states(systems(most_latency=0), most_rows=6))
def test_without_latency_the_papers_heartbeat_is_the_largest(state: tuple[System, list[Arrival], int]) -> None:
    """Bounds at arrival, the matrix B' of section 6; bounds that count rows included."""
    system, arrivals, tick = state
    assert figure_2(system, arrivals, tick)[tick] == literal_largest(system, arrivals, tick)


@given(_states(closed_systems(most_latency=3)))
def test_where_bounds_are_closed_the_papers_heartbeat_is_the_largest(state: tuple[System, list[Arrival], int]) -> None:
    """What rows that overtake each other reveal, follows from a bound already."""
    system, arrivals, tick = state
    assert closed_under_composition(system)
    assert figure_2(system, arrivals, tick)[tick] == literal_largest(system, arrivals, tick)


@given(_states(closed_systems(), most_rows=12))
def test_where_bounds_are_closed_constraints_find_no_more_in_longer_streams(
    state: tuple[System, list[Arrival], int],
) -> None:
    """As above, for as many rows as cannot be tried one by one."""
    system, arrivals, tick = state
    assert figure_2(system, arrivals, tick)[tick] == by_constraints(system, arrivals, tick)


@given(_states(systems(by_rows=False, most_latency=3)))
def test_constraints_find_the_largest(state: tuple[System, list[Arrival], int]) -> None:
    """The greatest solution of the difference constraints decides what may still come."""
    system, arrivals, tick = state
    assert by_constraints(system, arrivals, tick) == literal_largest(system, arrivals, tick)


def test_where_more_can_be_inferred_than_the_paper_does_trying_finds_as_much() -> None:
    """Some rows in 4 of each 1,000 states; among these 60 runs there are such, or the comparisons show nothing."""
    rng = Random(20)
    better = 0
    for _ in range(60):
        arrivals = arrivals_of(simulate(_OVERTAKEN, rng, 4, CROWDED))
        beats = figure_2(_OVERTAKEN, arrivals, arrivals[-1][0] + 4)
        for tick, paper in enumerate(beats):
            if (found := by_constraints(_OVERTAKEN, arrivals, tick)) != paper:
                better += 1
                assert found == literal_largest(_OVERTAKEN, arrivals, tick)
    assert better > 0


@given(st.data(), simulations(systems(), most_rows=8, pace=CROWDED))
def test_one_row_that_may_come_decides_as_fewer_rows_keep_to_bounds_too(
    data: st.DataObject, drawn: tuple[System, list[Sent]]
) -> None:
    """So a row of a possible future is possible alone, with what was seen."""
    system, sent = drawn
    kept = [row for row, _ in sent if data.draw(st.booleans())]
    assert obeys(system, kept)


@given(simulations(systems(), most_rows=8, pace=CROWDED), st.integers(1, 9))
def test_a_row_that_may_be_emitted_later_may_be_emitted_now(drawn: tuple[System, list[Sent]], later: int) -> None:
    """So futures need not be tried further ahead than the next tick."""
    system, sent = drawn
    *before, last = [row for row, _ in sent]
    now = max([row.emitted for row in before], default=0) + 1
    if obeys(system, [*before, last._replace(emitted=now + later)]):
        assert obeys(system, [*before, last._replace(emitted=now)])
