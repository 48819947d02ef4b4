"""The paper's two systems as they run keep to the bounds that section 4 derives for them, where those are right."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.testing.oracles.heartbeats.figure_2 import figure_2, overall
from slackwater.testing.oracles.heartbeats.processes import run_counter, run_sensors
from slackwater.testing.oracles.heartbeats.simulate import Sent, arrivals_of
from slackwater.testing.oracles.heartbeats.system import Skew, System, obeys
from slackwater.testing.oracles.heartbeats.systems import global_counter, global_counter_at_once, sensors

_SEEDS = st.integers(0, 10_000)
_PROCESSING = st.tuples(st.integers(1, 4), st.integers(0, 6)).map(lambda drawn: (drawn[0], sum(drawn)))
_LATENCY = [0, 2, 5]


@given(_SEEDS, st.lists(_PROCESSING, min_size=3, max_size=3))
def test_section_4_1_numbers_of_a_counter_keep_to_its_bounds(seed: int, processing: list[tuple[int, int]]) -> None:
    """And no row arrives at or behind a heartbeat."""
    system = global_counter(processing, _LATENCY)
    sent = run_counter(processing, _LATENCY, Random(seed), until=25)
    assert obeys(system, [row for row, _ in sent])
    _assert_none_is_late(system, sent)


def test_section_4_1_the_wait_is_no_longer_than_it_must_be() -> None:
    """With a tick less, some row is older than it may be."""
    processing = [(1, 3), (2, 5)]
    shorter = System((0, 0), {(0, 1): (Skew(5 - 1 - 1, 0),)})
    runs = [run_counter(processing, [0, 0], Random(seed), until=40) for seed in range(20)]
    assert not all(obeys(shorter, [row for row, _ in sent]) for sent in runs)


@given(_SEEDS, st.lists(_PROCESSING, min_size=3, max_size=3))
def test_section_4_1_bounds_without_a_wait_hold_too(seed: int, processing: list[tuple[int, int]]) -> None:
    """A row in a tick before is strictly before, so that what is printed suffices."""
    sent = run_counter(processing, _LATENCY, Random(seed), until=25)
    assert obeys(global_counter_at_once(processing, _LATENCY), [row for row, _ in sent])


def test_section_4_1_bounds_without_a_wait_are_very_weak() -> None:
    """A source that may be busy for 50 ticks holds all 50 numbers of another back for ever, if both pause."""
    processing, arrivals = [(1, 3), (2, 50)], [(tick, 0, tick) for tick in range(100)]
    waiting, at_once = (of(processing, [0, 0]) for of in (global_counter, global_counter_at_once))
    assert overall(figure_2(waiting, arrivals, 300))[99::201] == [50, 99]
    assert overall(figure_2(at_once, arrivals, 300))[99::201] == [49, 49]


@given(_SEEDS, st.lists(st.integers(0, 5), min_size=3, max_size=3))
def test_section_4_2_sensors_keep_to_their_bounds(seed: int, deviation: list[int]) -> None:
    """With one more than printed, as two readings of a clock may be equal."""
    system = sensors(deviation, _LATENCY)
    sent = run_sensors(deviation, _LATENCY, Random(seed), until=25)
    assert obeys(system, [row for row, _ in sent])
    _assert_none_is_late(system, sent)


def test_section_4_2_as_printed_equal_readings_break_the_bounds() -> None:
    """Clocks without deviation would have to read a newer time with each row."""
    sent = run_sensors([0], [0], Random(1), until=25)
    assert not obeys(sensors([0], [0], as_printed=True), [row for row, _ in sent])
    assert obeys(sensors([0], [0]), [row for row, _ in sent])


@given(_SEEDS, st.lists(st.integers(0, 5), min_size=3, max_size=3), st.lists(st.integers(1, 3), min_size=3, max_size=3))
def test_section_4_2_clocks_with_a_rate_make_up_for_their_deviation(
    seed: int, deviation: list[int], rates: list[int]
) -> None:
    """As long as none is set back."""
    system = sensors(deviation, _LATENCY, rates)
    sent = run_sensors(deviation, _LATENCY, Random(seed), until=25, rates=rates)
    assert obeys(system, [row for row, _ in sent])
    _assert_none_is_late(system, sent)


def test_a_number_takes_a_tick_at_least() -> None:
    """In ticks nothing takes no time."""
    with pytest.raises(ValueError, match="one tick at least"):
        run_counter([(0, 3)], [0], Random(0), until=5)


def _assert_none_is_late(system: System, sent: list[Sent]) -> None:
    arrivals = arrivals_of(sent)
    beats = figure_2(system, arrivals, until=max((tick for tick, _, _ in arrivals), default=0))
    assert all(time > beats[tick - 1][source] for tick, source, time in arrivals if tick > 0)
