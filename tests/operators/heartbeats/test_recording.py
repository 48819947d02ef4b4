"""Replays of recordings against the generator itself, asked tick by tick."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.operators.heartbeats.generator import HeartbeatGenerator
from slackwater.operators.heartbeats.recording import Recording
from slackwater.policies.bound import Units
from slackwater.policies.bounds import Bounds
from slackwater.progress.instants import FOREVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.policies.bound_rules import Rules

_PLAIN = Units(calendar=False, clock_calendar=False)
_NAMES = ("a", "b", "c")
_LONG = 60
"""Longer than anything waits here."""

_ROWS = st.lists(
    st.tuples(st.integers(0, 12), st.sampled_from(_NAMES), st.integers(0, 20)), min_size=1, max_size=20
).map(lambda rows: sorted(rows, key=lambda row: row[0]))


@st.composite
def _bounds(draw: st.DrawFn) -> Bounds:
    lengths = st.integers(0, 8) | st.dictionaries(st.sampled_from((*_NAMES, ...)), st.integers(0, 8), min_size=1)
    made = Bounds.disorder(draw(lengths), latency=draw(st.just(0) | lengths))
    if draw(st.booleans()):
        made &= Bounds.uniform(draw(lengths), after=draw(st.integers(0, 8)))
    if draw(st.booleans()):
        made &= Bounds.delay(draw(lengths))
    if draw(st.booleans()):
        made &= Bounds.idle(draw(st.integers(1, 8)))
    if draw(st.booleans()):
        made &= Bounds.lull(draw(st.integers(1, 8)))
    return made.once_seen() if draw(st.booleans()) else made


def _asked_at_every_tick(rules: Rules, rows: Sequence[tuple[int, str, int]]) -> tuple[list[int], list[int]]:
    """At the end of which tick each time is complete, of all sources and of its own."""
    generator = HeartbeatGenerator(rules)
    generator.places_of(_NAMES)
    of_all, of_own = [FOREVER] * len(rows), [FOREVER] * len(rows)
    for tick in range(rows[0][0], rows[-1][0] + _LONG):
        now = [row for row in rows if row[0] == tick]
        if now:
            columns = (np.array([tick] * len(now)), generator.places_of([by for _, by, _ in now]))
            generator.follow(*columns, np.array([time for *_, time in now]), closes=True)
        generator.advance(tick)
        for number, (_, by, time) in enumerate(rows):
            if time < generator.complete_before:
                of_all[number] = min(of_all[number], tick)
            if time <= generator.heartbeats()[by]:
                of_own[number] = min(of_own[number], tick)
    return of_all, of_own


@given(_ROWS, _bounds())
def test_a_replay_finds_the_tick_that_the_generator_would_have_emitted(
    rows: list[tuple[int, str, int]], bounds: Bounds
) -> None:
    """Rows in time and late ones, in silence and after it, of all sources and of each.

    Where a row is late, only that it was is known: silences in which nothing is held are not gone through.
    """
    rules = bounds.rules(_PLAIN)
    arrived, by, times = zip(*rows, strict=True)
    codes = np.array([_NAMES.index(name) for name in by])
    found = Recording(np.array(arrived), codes, np.array(times), _NAMES).replayed(rules)
    for replayed, expected in zip((found.of_all, found.of_own), _asked_at_every_tick(rules, rows), strict=True):
        late = np.array(expected) < np.array(arrived)
        assert (replayed < np.array(arrived)).tolist() == late.tolist()
        assert replayed[~late].tolist() == np.array(expected)[~late].tolist()


def test_rows_that_are_never_given_out_wait_until_the_last_arrival() -> None:
    """A source that is in order says nothing of others, and holds its last row."""
    recording = Recording(np.array([0, 7]), np.array([0, 0]), np.array([1, 1]), ("a",))
    replayed = recording.replayed(Bounds.in_order().rules(_PLAIN))
    assert replayed.of_all.tolist() == [FOREVER, FOREVER]
    assert replayed.delays().tolist() == [7, 0]


def test_delays_count_units_of_the_clock_in_whole_ticks() -> None:
    """Arrivals at 5 and 17 are in ticks 0 and 1 of ten units."""
    recording = Recording(np.array([5, 17]), np.array([0, 0]), np.array([1, 9]), ("a",), grid=10)
    replayed = recording.replayed(Bounds.uniform(3).rules(_PLAIN))
    assert replayed.delays().tolist() == [10, 0]
