"""What is measured of recorded arrivals; the definitions are checked where they are used (`disorder/test_fit.py`)."""

from __future__ import annotations

import numpy as np

from slackwater.kernels.progress.skews import longest_silence, skew_within_source
from slackwater.kernels.saturating import LEAST


def test_nothing_beside_the_rows_is_looked_at() -> None:
    """Arrays may be part of longer ones: what lies behind them counts for nothing, at whatever instant it arrived."""
    arrived, codes, times = (np.array(values, np.int64) for values in ([1, 2, 2, 2], [0, 0, 0, 0], [7, 5, 4, 99]))
    found, high_water = np.full(4, -1, np.int64), np.full(1, LEAST, np.int64)
    for column in (arrived, codes, times):
        column.flags.writeable = False
    skew_within_source(arrived[:3], codes[:3], times[:3], high_water, found[:3])
    assert found.tolist() == [LEAST, 2, 3, -1]
    assert high_water.tolist() == [7]


def test_the_longest_silence_is_one_between_two_rows() -> None:
    """Of equal ones any; before the first row there is none."""
    arrived, first = np.array([0, 5, 6, 11, 12], np.int64), np.array([0, 0, 2, 1, 4], np.int64)
    found = np.full(5, -1, np.int64)
    for column in (arrived, first):
        column.flags.writeable = False
    longest_silence(arrived, first, np.empty(5, np.int64), found)
    assert found.tolist() == [0, 5, 0, 5, 0]
