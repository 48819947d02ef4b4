"""Bounds that differ by source, and from when on sources are waited for."""

from __future__ import annotations

import numpy as np
import pytest

from slackwater.errors import PlanError
from slackwater.operators.heartbeats.generator import HeartbeatGenerator
from slackwater.policies.bound import Bound, Units
from slackwater.policies.bound_rules import Pair
from slackwater.policies.bounds import Bounds
from slackwater.progress.instants import BEGINNING

_PLAIN = Units(calendar=False, clock_calendar=False)


def test_disorder_within_sources_is_one_rule_for_all_of_them() -> None:
    """Written one by one, entries would make as many rules as there are sources."""
    by_name = Bounds.disorder({"a": 3, "b": 5}).rules(_PLAIN)
    one_by_one = Bounds({("a", "a"): [Bound(3)], ("b", "b"): [Bound(5)]}).rules(_PLAIN)
    assert len(by_name.rules) == 1
    for sender in "ab":
        for receiver in "ab":
            assert by_name.pairs(sender, receiver) == one_by_one.pairs(sender, receiver)


def test_a_uniform_bound_may_differ_by_the_source_that_is_behind() -> None:
    """The rows of one come sooner than those of others."""
    rules = Bounds.uniform({"a": 3, ...: 9}, after=4).rules(_PLAIN)
    assert rules.pairs("b", "a") == [Pair(4, 4)]
    assert rules.pairs("a", "b") == rules.pairs("c", "b") == [Pair(10, 4)]


def _after_a_row_of_a(bounds: Bounds) -> int:
    generator = HeartbeatGenerator(bounds.rules(_PLAIN))
    generator.follow(np.array([0]), generator.places_of(["a"]), np.array([20]), closes=True)
    return generator.complete_before


def test_a_named_source_is_waited_for_from_the_beginning_or_once_it_was_seen() -> None:
    """What was not seen holds nobody up then, and is waited for after its first row."""
    bounds = Bounds.disorder({"a": 0, "b": 0})
    assert _after_a_row_of_a(bounds) == BEGINNING
    assert _after_a_row_of_a(bounds.once_seen()) == 20
    generator = HeartbeatGenerator(bounds.once_seen().rules(_PLAIN))
    places = generator.places_of(["a", "b", "a"])
    generator.follow(np.array([0, 1, 2]), places, np.array([20, 25, 30]), closes=True)
    assert generator.complete_before == 25


def test_a_source_that_nobody_named_is_not_waited_for_before_its_first_row() -> None:
    """However rows are cut into batches: that its place is known already does not count."""
    bounds = Bounds.disorder(0)
    whole, cut = (HeartbeatGenerator(bounds.rules(_PLAIN)) for _ in range(2))
    ticks, times = np.array([0, 1, 2]), np.array([20, 21, 5])
    found = whole.follow(ticks, whole.places_of(["a", "a", "b"]), times, closes=True)
    bounds_found = []
    for row, name in enumerate("aab"):
        one = slice(row, row + 1)
        bounds_found += cut.follow(ticks[one], cut.places_of([name]), times[one], closes=True)[1].tolist()
    assert found[1].tolist() == bounds_found == [20, 21]


def test_bounds_of_some_sources_only_are_not_for_once_they_are_seen() -> None:
    """Both say from when on sources are waited for."""
    with pytest.raises(PlanError, match="contradict"):
        Bounds.in_order().only("a").once_seen()
    with pytest.raises(PlanError, match="contradict"):
        Bounds.in_order().once_seen().only("a")


def test_once_seen_stays_when_bounds_are_put_together() -> None:
    """On whichever side it stands."""
    one, other = Bounds.in_order(), Bounds.lull(3).once_seen()
    assert (one & other).as_seen
    assert (other & one).rules(_PLAIN).as_seen
