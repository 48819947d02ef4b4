"""Closed systems, time-outs and stalls: the paper's theorem as corrected, against what Figure 2 does."""

from __future__ import annotations

import pytest
from hypothesis import given

from slackwater.testing.oracles.heartbeats.figure_2 import figure_2, overall
from slackwater.testing.oracles.heartbeats.simulate import Sent, arrivals_of
from slackwater.testing.oracles.heartbeats.strategies import closed_systems, simulations, systems
from slackwater.testing.oracles.heartbeats.system import Skew, System
from slackwater.testing.oracles.heartbeats.systems import closed, global_counter, repeating, sensors, uniform
from slackwater.testing.oracles.heartbeats.theorems import can_stall, closed_under_composition, needs_timeout

_LONG = 40
"""Ticks in which every wait and latency of a drawn system ends."""

_TWO = System((0, 0), {(0, 0): (Skew(0, 0),), (0, 1): (Skew(0, 5),), (1, 0): (Skew(0, 9),), (1, 1): (Skew(0, 0),)})
"""The matrix of section 3.3, where it shows a difference greater than 0."""


@pytest.mark.parametrize(
    ("system", "closed_too", "timeout", "stalls"),
    [
        (uniform(3, Skew(2, 6), latency=4), True, True, False),
        (uniform(3, Skew(2, 0), latency=4), True, False, False),
        (_TWO, True, True, False),
        (global_counter([(1, 3), (2, 5)], [1, 1]), False, False, False),
        (global_counter([(1, 3), (2, 5)], [1, 1], by_rows=False), True, False, False),
        (sensors([2, 3], [4, 0]), True, True, False),
        (sensors([3, 1, 3], [4, 0, 0], rates=[1, 1, 1]), False, False, False),
        (repeating(3), False, True, False),
        (repeating(0), True, False, False),
        (System((0, 0), {(0, 0): (Skew(0, 0),), (1, 1): (Skew(0, 0),)}), True, True, True),
        (System((0, 0), {(i, j): (Skew.rows(i != j, 0),) for i in (0, 1) for j in (0, 1)}), False, True, True),
    ],
    ids=[
        *("uniform", "strictly after a wait", "two sources", "counter", "counter by ticks", "sensors", "with rates"),
        *("repeats", "no repeats", "unrelated", "by rows of the other"),
    ],
)
def test_known_systems(system: System, closed_too: bool, timeout: bool, stalls: bool) -> None:
    """Sections 3.1, 3.3, 4.1 and 4.2, with a row each."""
    assert closed_under_composition(system) == closed_too
    assert needs_timeout(system) == timeout
    assert can_stall(system) == stalls


@given(closed_systems(most_latency=0))
def test_closing_closes(system: System) -> None:
    """And closing what is closed changes nothing."""
    assert closed_under_composition(system)
    assert closed(system) == system


@given(simulations(systems()))
def test_theorem_3_3_without_need_of_a_time_out_all_rows_get_out_when_all_pause(
    drawn: tuple[System, list[Sent]],
) -> None:
    """The greatest time seen becomes the heartbeat of all."""
    system, sent = drawn
    if needs_timeout(system):
        system = System(
            system.latency, {(i, j): (*system.entry(i, j), Skew(3, 0)) for i in system.sources for j in system.sources}
        )
    arrivals = arrivals_of(sent)
    beats = figure_2(system, arrivals, arrivals[-1][0] + _LONG)
    assert overall(beats)[-1] == max(time for _, _, time in arrivals)


@given(systems())
def test_theorem_3_3_a_time_out_is_needed_where_one_row_can_be_stuck(system: System) -> None:
    """The row of some source, alone, never gets out; and it does where none is needed."""
    stuck = [i for i in system.sources if overall(figure_2(system, [(0, i, 7)], _LONG))[-1] < 7]
    assert needs_timeout(system) == bool(stuck)


@given(systems())
def test_a_system_can_stall_where_the_rows_of_one_source_are_not_enough(system: System) -> None:
    """One source sends, all others pause for ever: either the heartbeat of all moves on, or the system can stall."""

    def moves(i: int) -> bool:
        rows = [(tick, i, 10 * tick) for tick in range(_LONG)]
        middle, end = (overall(figure_2(system, rows, tick))[-1] for tick in (_LONG // 2, _LONG))
        return middle < end

    assert can_stall(system) != all(moves(i) for i in system.sources)


def test_a_time_out_does_not_help_against_a_stall() -> None:
    """It needs all to pause, and one goes on."""
    unrelated = System((0, 0), {(0, 0): (Skew(0, 0),), (1, 1): (Skew(0, 0),)})
    rows = [(0, 1, 5), *((tick, 0, 10 + tick) for tick in range(_LONG))]
    assert overall(figure_2(unrelated, rows, _LONG - 1, timeout=3))[-1] == 5
