"""Disorder measured in one pass: the same figures as the whole column gives, whatever the cuts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.disorder.meter import DisorderMeter
from slackwater.disorder.profile import DisorderProfile


@given(st.lists(st.lists(st.integers(-20, 20), max_size=10), max_size=10))
def test_one_pass_in_pieces_sees_what_the_whole_column_shows(pieces: list[list[int]]) -> None:
    """Events, runs, interleaved runs, late events and the greatest lateness do not depend on the cuts."""
    meter = DisorderMeter()
    for piece in pieces:
        meter.add(np.array(piece, dtype=np.int64))
    whole = DisorderProfile.of(np.array([time for piece in pieces for time in piece], dtype=np.int64))
    assert (meter.events, meter.runs, meter.interleaved) == (whole.events, whole.runs, whole.interleaved)
    assert (meter.late, meter.greatest_lateness) == (whole.late, whole.lateness.get(1.0, 0))


def test_a_fresh_meter_has_seen_nothing() -> None:
    """There is no high water before the first event."""
    meter = DisorderMeter()
    assert meter.high_water is None
    assert (meter.events, meter.runs, meter.interleaved) == (0, 0, 0)
