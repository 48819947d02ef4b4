"""Clocks: one that is set, and one that reads it but never goes back."""

from __future__ import annotations

import time

import pytest

from slackwater.progress.clock import Clock, ManualClock, SystemClock


def test_a_manual_clock_moves_only_when_asked() -> None:
    """It starts where it was set, and adds up."""
    clock = ManualClock(100)
    assert clock.now() == clock.now() == 100
    clock.advance(5)
    clock.advance(0)
    assert clock.now() == 105
    assert ManualClock().now() == 0


def test_a_manual_clock_refuses_to_go_back() -> None:
    """Not even by a microsecond; it stays where it was."""
    clock = ManualClock(7)
    with pytest.raises(ValueError, match="never goes back: cannot advance by -1"):
        clock.advance(-1)
    assert clock.now() == 7


def test_the_system_clock_stands_still_while_the_machine_sets_its_clock_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Microseconds since 1970, and the greatest so far while the time of day is behind it."""
    readings = iter([5_000_999, 4_000_000, 5_001_000, 6_000_000])
    monkeypatch.setattr(time, "time_ns", lambda: next(readings))
    clock = SystemClock()
    assert [clock.now() for _ in range(4)] == [5_000, 5_000, 5_001, 6_000]


@pytest.mark.parametrize("clock", [ManualClock(3), SystemClock()], ids=["manual", "system"])
def test_every_clock_never_goes_back(clock: Clock) -> None:
    """Both keep the one guarantee of a clock."""
    readings = [clock.now() for _ in range(100)]
    assert readings == sorted(readings)
