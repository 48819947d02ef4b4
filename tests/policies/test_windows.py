"""Windows: which of them contain an instant, and which guarantee survives them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BadDuration
from slackwater.policies.windows import Hopping, Sliding, Tumbling, Window
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.testing.oracles.windows import least_start_from, window_starts

SMALL_WINDOWS: list[Window] = [
    Tumbling(1),
    Tumbling(5),
    Tumbling(5, offset=2),
    Tumbling(5, offset=-13),
    Hopping(6, 2),
    Hopping(6, 4),
    Hopping(6, 4, offset=3),
    Hopping(5, 5),
    Hopping(2, 5),
    Hopping(1, 7, offset=-2),
    Sliding(4),
]


def _starts(window: Window, at: int) -> list[int]:
    times = np.array([at])
    count = window.count(times)
    first = at - int(window.back(times)[0])
    return [first + i * window.apart for i in range(1 if count is None else int(count[0]))]


def _guarantee(window: Window, at: int) -> int:
    return int(window.punctuations(np.array([at]))[0])


def test_a_tumbling_window_starts_at_the_last_multiple_of_its_size() -> None:
    """Also before zero: -1 lies in the window that starts at -10."""
    assert [_starts(Tumbling(10), at) for at in (-1, 0, 9, 10)] == [[-10], [0], [0], [10]]


def test_an_offset_moves_the_grid() -> None:
    """Windows of 10 with offset 3 start at ..., -7, 3, 13."""
    assert [_starts(Tumbling(10, offset=3), at) for at in (2, 3, 12, 13)] == [[-7], [3], [3], [13]]


def test_hopping_windows_overlap_and_come_in_order() -> None:
    """An event at 7 is in the windows of 10 that start at 0 and at 5."""
    assert _starts(Hopping(10, 5), 7) == [0, 5]


def test_hopping_windows_with_gaps_leave_events_out() -> None:
    """With 2 of every 5 covered, an event at 3 is in none."""
    assert [_starts(Hopping(2, 5), at) for at in (0, 1, 2, 3, 4, 5)] == [[0], [0], [], [], [], [5]]


def test_a_sliding_window_starts_with_its_event() -> None:
    """There is no grid."""
    assert _starts(Sliding(4), 7) == [7]


@pytest.mark.parametrize("window", SMALL_WINDOWS, ids=str)
def test_the_windows_of_an_instant_are_those_found_by_trial(window: Window) -> None:
    """For every instant of a small range."""
    for at in range(-30, 31):
        assert _starts(window, at) == window_starts(at, window)


@pytest.mark.parametrize("window", SMALL_WINDOWS, ids=str)
def test_a_translated_punctuation_is_the_greatest_that_holds(window: Window) -> None:
    """It holds: no later event starts before it. It is the greatest: some later event starts exactly there."""
    for at in range(-30, 31):
        guaranteed = _guarantee(window, at)
        later = [start for instant in range(at, at + 40) for start in window_starts(instant, window)]
        assert guaranteed == min(later) == least_start_from(at, window)


@pytest.mark.parametrize("window", SMALL_WINDOWS, ids=str)
def test_translated_punctuations_never_go_back(window: Window) -> None:
    """A later guarantee is never translated to an earlier one."""
    guaranteed = window.punctuations(np.arange(-50, 50))
    assert (np.diff(guaranteed) >= 0).all()


@given(
    st.integers(1, FOREVER),
    st.integers(1, FOREVER),
    st.integers(BEGINNING, FOREVER),
    st.lists(st.integers(BEGINNING, FOREVER), min_size=1, max_size=8),
)
def test_guarantees_are_exact_and_stay_within_int64(size: int, hop: int, offset: int, times: list[int]) -> None:
    """The same with whole numbers of any size, held at the ends of int64."""
    expected = [
        FOREVER if at == FOREVER else max(BEGINNING, min(FOREVER, -((offset - at + size - 1) // hop) * hop + offset))
        for at in times
    ]
    assert Hopping(size, hop, offset).punctuations(np.array(times)).tolist() == expected
    floors = [FOREVER if at == FOREVER else max(BEGINNING, (at - offset) // size * size + offset) for at in times]
    assert Tumbling(size, offset).punctuations(np.array(times)).tolist() == floors


@pytest.mark.parametrize("window", SMALL_WINDOWS, ids=str)
def test_the_ends_of_time_stay_where_they_are(window: Window) -> None:
    """BEGINNING guarantees nothing and FOREVER everything, before a window and after it."""
    assert _guarantee(window, FOREVER) == FOREVER
    assert _guarantee(window, BEGINNING) <= BEGINNING + window.size + window.apart


@pytest.mark.parametrize(
    "make", [lambda: Tumbling(0), lambda: Sliding(-1), lambda: Hopping(5, 0), lambda: Hopping(0, 5)]
)
def test_windows_need_a_length(make: object) -> None:
    """A window of no length contains nothing, and a hop of no length never ends."""
    with pytest.raises(BadDuration, match="above zero"):
        make()  # type: ignore[operator]


def test_windows_are_values() -> None:
    """Equal windows are equal, can be keys, and say what they are."""
    assert Tumbling(5) == Tumbling(5, offset=0)
    assert len({Hopping(5, 2), Hopping(5, 2), Hopping(5, 3)}) == 2
    assert str(Hopping(5, 2)) == "Hopping(size=5, hop=2, offset=0)"
