"""Rivals of bounds, written as formulas over whole recordings, against the generator that goes tick by tick."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from heartbeat_rivals import UNITS, best, by_clock, by_patience, measured
from slackwater.operators.heartbeats.recording import Recording

_ROWS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 1), st.integers(0, 40)), min_size=1, max_size=25).map(
    lambda rows: sorted(rows, key=lambda row: row[0])
)


def _recording(rows: list[tuple[int, int, int]]) -> Recording:
    arrived, codes, times = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Recording(arrived, codes, times, ("a", "b"))


def _same(recording: Recording, formula: np.ndarray, bounds: sw.Bounds) -> None:
    """The same rows are late, and the others are given out in the same ticks."""
    replayed = recording.replayed(bounds.rules(UNITS)).of_all
    late = replayed < recording.ticks
    assert (formula < recording.ticks).tolist() == late.tolist()
    assert formula[~late].tolist() == replayed[~late].tolist()


@given(_ROWS, st.integers(0, 15), st.integers(1, 9))
def test_a_patience_with_a_time_out_is_the_uniform_bound_with_a_lull(
    rows: list[tuple[int, int, int]], patience: int, lull: int
) -> None:
    """Whatever pauses."""
    recording = _recording(rows)
    formula = by_patience(recording, np.maximum.accumulate(recording.times), patience, lull)
    _same(recording, formula, sw.Bounds.uniform(patience) & sw.Bounds.lull(lull))


@given(_ROWS, st.integers(0, 15))
def test_the_clock_less_a_delay_is_a_delay_of_all_sources(rows: list[tuple[int, int, int]], delay: int) -> None:
    """But for the first tick, in which the generator has not begun yet, and nothing is late."""
    recording = _recording(rows)
    formula = by_clock(recording, delay)
    replayed = recording.replayed(sw.Bounds.delay(delay).rules(UNITS)).of_all
    later = recording.ticks > recording.ticks[0]
    assert (formula < recording.ticks)[later].tolist() == (replayed < recording.ticks)[later].tolist()
    in_time = formula >= recording.ticks
    assert formula[in_time].tolist() == replayed[in_time].tolist()


def test_what_is_measured_is_the_part_that_is_late_and_how_long_others_wait() -> None:
    """Late rows do not wait."""
    recording = Recording(np.array([0, 10]) * 10**6, np.array([0, 0]), np.array([0, 1]), ("a",), 10**6)
    assert measured(recording, np.array([4, 9])) == (0.5, 4.0)
    assert best([(0.5, 4.0), (0.0, 9.0), (0.1, 5.0)], 0.1) == 5.0
    assert best([(0.5, 4.0)], 0.1) == float("inf")
