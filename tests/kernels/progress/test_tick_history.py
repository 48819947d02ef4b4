"""What was so at which tick: one entry for each, no more than there are places for, and the latest of them found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.progress.tick_history import entry_at, note


def _noted(entries: list[tuple[int, int]], *ticks: int, spacing: int = 0, places: int = 8) -> list[list[int]]:
    """The history after further ticks, each with its hundredfold for a value."""
    history, length = np.full((places, 2), -1, np.int64), len(entries)
    history[:length] = np.array(entries, np.int64).reshape(length, 2)
    for tick in ticks:
        length = note(history, length, tick, spacing, 2)
        history[length - 1, 1] = 100 * tick
    return history[:length].tolist()


def test_a_tick_has_one_entry() -> None:
    """Whatever its value was; one of another tick gets one of its own."""
    assert _noted([], 5) == [[5, 500]]
    assert _noted([(5, 7)], 5) == [[5, 500]]
    assert _noted([(3, 5), (4, 5)], 4, 4) == [[3, 5], [4, 400]]
    assert _noted([(3, 5), (4, 5)], 5) == [[3, 5], [4, 5], [5, 500]]
    assert _noted([(3, 6)], 6) == [[3, 6], [6, 600]]


def test_the_last_entry_is_put_off_while_it_is_near_to_the_one_before_it() -> None:
    """Never the first: there is none before it. Two that are as far apart as the spacing stay."""
    assert _noted([(3, 0)], 4, spacing=5) == [[3, 0], [4, 400]]
    assert _noted([(3, 0), (7, 0)], 9, spacing=5) == [[3, 0], [9, 900]]
    assert _noted([(3, 0), (8, 0)], 9, spacing=5) == [[3, 0], [8, 0], [9, 900]]


def test_when_all_places_are_taken_the_oldest_quarter_goes() -> None:
    """The others keep their values."""
    full = [[tick, 10 * tick] for tick in range(8)]
    assert _noted([(tick, value) for tick, value in full], 8) == [*full[2:], [8, 800]]
    assert _noted([(tick, value) for tick, value in full[:7]], 8) == [*full[:7], [8, 800]]


@pytest.mark.parametrize("length", range(9))
@given(ticks=st.sets(st.integers(0, 30), min_size=8, max_size=8), tick=st.integers(-1, 31))
def test_the_entry_at_a_tick_is_the_last_that_is_not_after_it(length: int, ticks: set[int], tick: int) -> None:
    """Of those that count; behind them anything may stand."""
    history = np.zeros((8, 2), np.int64)
    history[:, 0] = sorted(ticks)
    counting = sorted(ticks)[:length]
    assert entry_at(history, length, tick) == sum(one <= tick for one in counting) - 1
