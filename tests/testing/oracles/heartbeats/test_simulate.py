"""Simulated rows go as far as the bounds let them: one tick or one step of time less, and some break the bound."""

from __future__ import annotations

from random import Random

import pytest

from slackwater.testing.oracles.heartbeats.simulate import CROWDED, Pace, Sent, arrivals_of, simulate
from slackwater.testing.oracles.heartbeats.system import Skew, System, obeys
from slackwater.testing.oracles.heartbeats.systems import uniform


def _runs(system: System) -> list[list[Sent]]:
    return [simulate(system, Random(seed), 20, CROWDED) for seed in range(30)]


@pytest.mark.parametrize(
    ("skew", "tighter"),
    [
        (Skew(2, 3), Skew(1, 3)),
        (Skew(2, 3), Skew(2, 2)),
        (Skew.rows(2, 3), Skew.rows(1, 3)),
        (Skew.rows(2, 3), Skew.rows(2, 2)),
    ],
    ids=str,
)
def test_bounds_are_reached_exactly(skew: Skew, tighter: Skew) -> None:
    """Of itself and of the other source."""
    runs = _runs(uniform(2, skew))
    for entry in [(0, 0), (0, 1)]:
        assert not all(obeys(System((0, 0), {entry: (tighter,)}), [row for row, _ in sent]) for sent in runs)


def test_rows_overtake_each_other_and_travel_as_long_as_they_may() -> None:
    """From no tick to the latency, each."""
    runs = _runs(System((0, 3)))
    assert {arrived - row.emitted for sent in runs for row, arrived in sent if row.source == 1} == {0, 1, 2, 3}
    assert any(arrivals_of(sent) != [(arrived, *row[1:]) for row, arrived in sent] for sent in runs)


def test_times_begin_where_the_pace_starts() -> None:
    """Near the ends of all times, too."""
    start = 2**62
    sent = simulate(uniform(2, Skew(0, 5)), Random(3), 20, Pace(start=start))
    assert all(abs(row.time - start) < 1_000 for row, _ in sent)
