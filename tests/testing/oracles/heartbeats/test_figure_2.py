"""Figure 2, tick by tick: the paper's examples, its gaps, and simulated rows that never come behind a heartbeat."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from slackwater.testing.oracles.heartbeats.figure_2 import figure_2, overall
from slackwater.testing.oracles.heartbeats.simulate import arrivals_of
from slackwater.testing.oracles.heartbeats.strategies import known_systems, simulations, systems
from slackwater.testing.oracles.heartbeats.system import NOTHING_YET, Skew, System
from slackwater.testing.oracles.heartbeats.systems import global_counter, repeating, sensors, uniform

if TYPE_CHECKING:
    from slackwater.testing.oracles.heartbeats.simulate import Sent

_ = NOTHING_YET


def _of_source(system: System, arrivals: list[tuple[int, int, int]], until: int, source: int = 0) -> list[int]:
    return [beats[source] for beats in figure_2(system, arrivals, until)]


def test_a_row_sets_the_slot_after_the_wait_and_the_latency() -> None:
    """Figure 2, line 4."""
    system = System((0, 2), {(0, 1): (Skew(3, 5),)})
    assert figure_2(system, [(1, 0, 20)], until=7) == [[_, _]] * 6 + [[_, 15]] * 2


def test_the_least_difference_of_all_that_was_set_counts() -> None:
    """Figure 2, line 4: max; and section 3.1: each pair of a set is applied."""
    system = System((0,), {(0, 0): (Skew(0, 10), Skew(2, 1))})
    assert _of_source(system, [(0, 0, 20), (1, 0, 22)], until=4) == [10, 12, 19, 21, 21]


def test_a_heartbeat_never_falls_where_a_later_slot_was_set_first() -> None:
    """As printed, slot 8 would be 7 although slot 6 is 9."""
    system = System((0, 0), {(0, 0): (Skew(8, 0),), (1, 0): (Skew(4, 0),)})
    beats = _of_source(system, [(0, 0, 7), (2, 1, 9)], until=9)
    assert beats == [_] * 6 + [9] * 4


def test_section_3_1_repeated_times_wait_for_as_many_rows() -> None:
    """In order with up to k repeats: a newer row ends the wait, and so does the k-th further row."""
    assert _of_source(repeating(2), [(0, 0, 5), (1, 0, 6), (2, 0, 6), (3, 0, 6), (4, 0, 8)], 4) == [4, 5, 5, 6, 7]


@pytest.mark.parametrize(
    ("skew", "beats"), [(Skew.rows(0, 1), [4, 4, 4, 5]), (Skew.rows(2, 0), [_, _, 5, 5])], ids=["(0, 1)", "(k, 0)"]
)
def test_section_3_1_each_of_the_two_bounds_alone_is_slower(skew: Skew, beats: list[int]) -> None:
    """With both, 5 is complete at tick 2 by the rows, and would be by a newer one."""
    rows = [(0, 0, 5), (1, 0, 5), (2, 0, 5), (3, 0, 6)]
    assert _of_source(System((0,), {(0, 0): (skew,)}), rows, 3) == beats
    assert _of_source(repeating(2), rows, 3) == [4, 4, 5, 5]


def test_no_further_rows_are_no_ticks() -> None:
    """Tuple-based with n = 0 is time-based with t = 0."""
    rows = [(0, 0, 5), (0, 0, 9), (3, 0, 7), (4, 0, 30)]
    by_rows, by_ticks = (uniform(1, skew, latency=2) for skew in (Skew.rows(0, 3), Skew(0, 3)))
    assert figure_2(by_rows, rows, 9) == figure_2(by_ticks, rows, 9)


def test_rows_count_as_further_only_if_they_were_certainly_emitted_later() -> None:
    """With a latency of 3, the row at tick 3 may have been emitted with the first; that at 4 was not."""
    system = uniform(1, Skew.rows(1, 0), latency=3)
    assert _of_source(system, [(0, 0, 5), (3, 0, 6), (4, 0, 7)], 8) == [_] * 7 + [5, 5]


def test_rows_of_one_tick_are_not_further_rows_of_each_other() -> None:
    """They come together."""
    assert _of_source(uniform(1, Skew.rows(1, 0)), [(0, 0, 5), (0, 0, 5), (1, 0, 6)], 2) == [_, 5, 5]


_TWO = System((0, 0), {(0, 0): (Skew(0, 0),), (0, 1): (Skew(0, 5),), (1, 1): (Skew(0, 0),)})
"""The matrix of section 3.3."""


def test_section_3_3_rows_are_stuck_when_all_pause() -> None:
    """S1 stops at 30, S2 at 25: all that is newer than 25 waits."""
    assert figure_2(_TWO, [(0, 0, 30), (1, 1, 25)], until=50)[50] == [30, 25]
    assert overall(figure_2(_TWO, [(0, 0, 30), (1, 1, 25)], until=50))[50] == 25


def test_section_3_3_a_time_out_lets_them_go() -> None:
    """The last row came at tick 1, so a time-out of 10 ends at tick 11, for all sources."""
    beats = figure_2(_TWO, [(0, 0, 30), (1, 1, 25)], until=12, timeout=10)
    assert beats[10:] == [[30, 25], [30, 30], [30, 30]]


def test_section_3_3_any_row_puts_the_time_out_off() -> None:
    """It holds of all sources together; and it is an assumption, as the row at tick 12 shows."""
    beats = figure_2(_TWO, [(0, 0, 30), (1, 1, 25), (9, 0, 31), (12, 1, 27)], until=30, timeout=10)
    assert overall(beats)[11] == 26
    assert overall(beats)[18:23] == [27, 27, 27, 27, 31]


def test_section_4_1_the_counter_needs_no_time_out() -> None:
    """The newest number is the heartbeat of all once each source has had the time for an older one."""
    system = global_counter([(1, 3), (2, 5)], latency=[0, 1])
    # Bounds: of 0 on 1 after 4 ticks, and 1 of latency; of 1 on 0 after 1 tick; or after one further row.
    assert figure_2(system, [(0, 0, 7), (4, 1, 9)], until=6) == [
        [7, _],
        [7, _],
        [7, _],
        [7, _],
        [7, _],
        [9, 9],
        [9, 9],
    ]


def test_section_4_1_a_further_row_ends_the_wait() -> None:
    """The tuple-based (1, 0): source 1 had the number 6 while 0 got 7; after that, it has a newer one."""
    system = global_counter([(1, 3), (2, 50)], latency=[0, 0])
    assert overall(figure_2(system, [(0, 0, 7), (1, 1, 6), (2, 0, 8)], until=2)) == [_, 7, 7]
    slower = global_counter([(1, 3), (2, 50)], latency=[0, 0], by_rows=False)
    assert overall(figure_2(slower, [(0, 0, 7), (1, 1, 6), (2, 0, 8)], until=2)) == [_, 6, 6]


def test_section_4_2_sensors() -> None:
    """Deviations of 2 and 3, as printed: the other is at most 5 behind, a clock is set back by its own at most."""
    system = sensors([2, 3], latency=[0, 0], as_printed=True)
    assert figure_2(system, [(0, 0, 50), (1, 1, 53)], until=9)[0] == [48, 45]
    assert figure_2(system, [(0, 0, 50), (1, 1, 53)], until=9)[9] == [48, 50]


def test_section_4_2_clocks_that_advance_need_no_time_out() -> None:
    """With rates of 1, 2 a tick, 5 behind is made up for in 5 and 3 ticks, the own 2 and 3 in 2 ticks each."""
    system = sensors([2, 3], latency=[0, 0], rates=[1, 2], as_printed=True)
    assert figure_2(system, [(0, 0, 50)], until=5) == [[48, 45], [48, 45], [50, 45], [50, 50], [50, 50], [50, 50]]


@given(simulations(systems() | known_systems(), most_rows=25))
def test_no_row_arrives_at_or_behind_a_heartbeat(drawn: tuple[System, list[Sent]]) -> None:
    """Section 3.2, property 1."""
    system, sent = drawn
    arrivals = arrivals_of(sent)
    beats = figure_2(system, arrivals, until=arrivals[-1][0])
    assert all(time > beats[tick - 1][source] for tick, source, time in arrivals if tick > 0)


@given(simulations(systems(), most_rows=25))
def test_heartbeats_never_fall_and_do_not_look_ahead(drawn: tuple[System, list[Sent]]) -> None:
    """What came up to a tick decides the heartbeat of that tick."""
    system, sent = drawn
    arrivals = arrivals_of(sent)
    last = arrivals[-1][0]
    beats = figure_2(system, arrivals, until=last)
    assert all(before <= after for a, b in pairwise(beats) for before, after in zip(a, b, strict=True))
    now = last // 2
    assert figure_2(system, [one for one in arrivals if one[0] <= now], until=now) == beats[: now + 1]
