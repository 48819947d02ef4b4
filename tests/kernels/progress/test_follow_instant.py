"""Rows of one instant that are taken in blocks, against the same rows one after the other."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import slackwater as sw
from slackwater.operators.heartbeats.estimating import generator_for
from slackwater.operators.heartbeats.source_words import Words
from slackwater.policies.bound import Bound, Units
from slackwater.progress.instants import BEGINNING, FOREVER

_UNITS = Units(calendar=False, clock_calendar=False)

_BOUNDS = {
    "sensors": sw.Bounds.sensors(300),
    "sensors and a delay": sw.Bounds.sensors(300) & sw.Bounds.delay(900),
    "sensors with latency": sw.Bounds.sensors(300, latency=3),
    "own disorder": sw.Bounds.disorder(300),
    "own disorder after a while": sw.Bounds({(one, one): [Bound(300, after=3)] for one in "abcdefgh"}),
    "further rows": sw.Bounds.in_order(repeats=5),
    "idle": sw.Bounds.sensors(300) & sw.Bounds.idle(2),
    "learnt": sw.Bounds.greatest(),
}


def _batches(seed: int) -> list[tuple[int, np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Ticks, numbers of words and times: batches of few and of many rows, of all sources or some, early and late."""
    rng = np.random.default_rng(seed)
    found, tick = [], 0
    for _ in range(7):
        rows = int(rng.choice([1, 60, 2_048, 5_000]))
        present = np.flatnonzero(rng.random(8) < rng.choice([0.5, 1.0]))
        present = present if len(present) else np.array([3])
        codes = present[rng.integers(0, len(present), rows)].astype(np.int32)
        back = rng.integers(0, 300 if rng.random() < 0.7 else 3_000, rows)
        times = tick * 1_000 + np.arange(rows) * 1_000 // rows - back
        if rng.random() < 0.3:
            times[rng.integers(0, rows, 3)] = rng.choice([BEGINNING, BEGINNING + 1, FOREVER - 1])
        found.append((tick, codes, times))
        tick += int(rng.integers(1, 5))
    return found


@pytest.mark.parametrize("name", list(_BOUNDS))
@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_same_as_one_row_after_the_other(name: str, seed: int) -> None:
    """The same punctuations, and the same tables behind every batch: heartbeats, who set them, broken bounds."""
    rules = _BOUNDS[name].rules(_UNITS)
    at_once, one_by_one = generator_for(rules), generator_for(rules)
    for tick, codes, times in _batches(seed):
        used = np.unique(codes)
        place_of = np.full(9, -1)
        place_of[used] = at_once.places_of(["abcdefgh"[word] for word in used.tolist()])
        one_by_one.places_of(["abcdefgh"[word] for word in used.tolist()])
        found = at_once.follow_instant(tick, Words(codes, place_of), times)
        expected = one_by_one.follow(np.full(len(times), tick), place_of[codes], times, closes=True)
        assert [column.tolist() for column in found] == [column.tolist() for column in expected]
        state, other = at_once.snapshot(), one_by_one.snapshot()
        for field in fields(state):
            if field.name != "learnt":
                np.testing.assert_array_equal(getattr(state, field.name), getattr(other, field.name), field.name)
        at_once.check()


def test_blocks_that_move_nothing_are_skipped_only_where_they_may_be() -> None:
    """A source whose only row is the first of many, far behind the others, and breaks nothing: it is seen."""
    generator = generator_for(sw.Bounds.sensors(10_000).only("a", "b").rules(_UNITS))
    words = Words(np.array([1] + [0] * 4_999, dtype=np.int32), generator.places_of("ab"))
    generator.follow_instant(1, words, np.arange(5_000))
    generator.follow_instant(2, words, np.arange(5_000, 10_000))
    newest = generator.snapshot().sources.reshape(-1, 3)[0]
    assert newest.tolist()[1:] == [9_999, 5_000]


def test_the_newest_row_of_a_source_may_stand_anywhere() -> None:
    """Times that fall slowly, so that every block is a little newer than the one behind it."""
    generator = generator_for(sw.Bounds.sensors(10_000).only("a", "b").rules(_UNITS))
    words = Words(np.arange(5_000, dtype=np.int32) % 2, generator.places_of("ab"))
    generator.follow_instant(1, words, 5_000 - np.arange(5_000) // 50)
    assert (generator.newest, generator.snapshot().sources.reshape(-1, 3)[0].tolist()[1:]) == (5_000, [5_000, 5_000])


@pytest.mark.parametrize(("behind", "broken"), [(0, {"b": 1}), (1, {"b": 1}), (-1, {})])
def test_a_row_that_breaks_a_bound_is_found_among_many(behind: int, broken: dict[str, int]) -> None:
    """One at the heartbeat of its source, or just behind it; the next is none."""
    generator = generator_for(sw.Bounds.sensors(10).only("a", "b").rules(_UNITS))
    words = Words(np.arange(5_000, dtype=np.int32) % 2, generator.places_of("ab"))
    generator.follow_instant(1, words, np.full(5_000, 900))
    times = np.full(5_000, 1_000)
    times[2_501] = generator.heartbeats()["b"] - behind
    generator.follow_instant(2, words, times)
    assert {name: rows for name, (rows, _, _) in generator.violations().items()} == broken
