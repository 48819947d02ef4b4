"""The oracle of progress by origin, by hand."""

from __future__ import annotations

from slackwater.testing.oracles.by_origin import Released, release_within_origins


def test_each_source_goes_by_its_own_heartbeat() -> None:
    """One source is far ahead of the other, whose row waits until its own heartbeat is past it."""
    beats = [[5, 0], [9, 1], [9, 4]]
    arrivals = [(0, 0, 5), (0, 1, 4), (1, 0, 5), (1, 1, 2), (2, 1, 9)]
    assert release_within_origins(beats, arrivals) == Released(frozenset({2}), {0: 0, 1: 2, 3: 2})


def test_whole_windows_are_late_or_go_out() -> None:
    """A bound in the middle of a window counts as its start."""
    beats = [[6], [9], [12]]
    assert release_within_origins(beats, [(0, 0, 3), (1, 0, 4), (1, 0, 6)], window=5) == Released(
        frozenset({1}), {0: 0, 2: 1}
    )
