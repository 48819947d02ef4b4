"""Bounds as users write them: what they mean in the paper's terms, and what is refused."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BadDuration, PlanError
from slackwater.operators.heartbeats.generator import HeartbeatGenerator
from slackwater.policies.bound import Bound, Units
from slackwater.policies.bound_rules import Pair
from slackwater.policies.bounds import Bounds
from slackwater.testing.oracles.heartbeats.groups import essential, grouped
from slackwater.testing.oracles.heartbeats.processes import run_counter, run_sensors
from slackwater.testing.oracles.heartbeats.simulate import arrivals_of
from slackwater.testing.oracles.heartbeats.strategies import systems
from slackwater.testing.oracles.heartbeats.systems import global_counter, sensors
from slackwater.testing.oracles.heartbeats.theorems import needs_timeout

if TYPE_CHECKING:
    from slackwater.policies.bound_rules import Rules
    from slackwater.testing.oracles.heartbeats import System
    from slackwater.testing.oracles.heartbeats.simulate import Sent

PLAIN = Units(calendar=False, clock_calendar=False)
_SMALL = st.integers(0, 4)


def written(system: System) -> Bounds:
    """A system of the paper as a user writes it."""
    entries = {
        both: [
            Bound(s.delta, 0 if s.ticks is None else s.ticks, s.wait if s.ticks is None else 0, strictly=True)
            for s in pairs
        ]
        for both, pairs in system.bounds.items()
        if pairs
    }
    return Bounds(entries, latency=dict(enumerate(system.latency)))


def _entry(rules: Rules, i: Any, j: Any) -> set[tuple[int, int, int]]:
    """What a row of one source guarantees of another, without what follows from the rest."""
    by_time = [pair for pair in rules.pairs(i, j) if not pair.rows]
    kept = {
        (p.wait, p.delta, 0)
        for p in by_time
        if not any(q != p and q.wait <= p.wait and q.delta <= p.delta for q in by_time)
    }
    return kept | {(0, pair.delta, pair.rows) for pair in rules.pairs(i, j) if pair.rows}


def _printed(system: System, i: int, j: int) -> set[tuple[int, int, int]]:
    by_time = essential([skew for skew in system.entry(i, j) if skew.ticks is not None])
    counted = {(0, skew.delta, skew.wait) for skew in system.entry(i, j) if skew.ticks is None}
    return {(skew.wait, skew.delta, 0) for skew in by_time} | counted


def _unbroken(rules: Rules, sent: list[Sent]) -> bool:
    """Whether no row comes at or behind the heartbeat of its source."""
    generator = HeartbeatGenerator(rules)
    ticks, sources, times = (np.array(column, np.int64) for column in zip(*arrivals_of(sent), strict=True))
    generator.follow(ticks, generator.places_of(sources.tolist()), times, closes=True)
    return generator.violations() == {} and generator.complete_before > 0


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4)), min_size=2, max_size=4), st.randoms(use_true_random=False)
)
def test_the_global_counter_is_that_of_the_paper_and_its_rows_break_nothing(
    drawn: list[tuple[int, int]], rng: Random
) -> None:
    """Section 4.1: entries as printed, and sources that really draw numbers."""
    processing = [(least, least + more) for least, more in drawn]
    latency = [rng.randint(0, 3) for _ in processing]
    bounds: dict[Any, Any] = dict(enumerate(processing))
    rules = Bounds.global_counter(bounds, latency=dict(enumerate(latency))).rules(PLAIN)
    system = global_counter(processing, latency)
    for i in system.sources:
        for j in system.sources:
            if i != j:
                assert _printed(system, i, j) <= _entry(rules, i, j) | {(0, 0, 1)}
    assert rules.timeout_needed() is None
    assert _unbroken(rules, run_counter(processing, latency, Random(rng.random()), until=60))


@given(st.lists(_SMALL, min_size=2, max_size=4), st.booleans(), st.randoms(use_true_random=False))
def test_sensors_are_those_of_the_paper_and_their_rows_break_nothing(
    deviation: list[int], running: bool, rng: Random
) -> None:
    """Section 4.2, with one more than the paper has, for clocks that show the same time twice."""
    latency = [rng.randint(0, 3) for _ in deviation]
    rate = 2 if running else None
    given_: dict[Any, Any] = dict(enumerate(deviation))
    rules = Bounds.sensors(given_, rate=rate, latency=dict(enumerate(latency))).rules(PLAIN)
    if not running:
        system = sensors(deviation, latency)
        for i in system.sources:
            for j in system.sources:
                assert _entry(rules, i, j) == _printed(system, i, j), (i, j)
    assert (rules.timeout_needed() is None) == running
    rates = [2] * len(deviation) if running else None
    assert _unbroken(rules, run_sensors(deviation, latency, Random(rng.random()), until=60, rates=rates))


@given(systems(most_sources=4))
def test_a_timeout_is_needed_as_the_theorem_corrected_has_it(system: System) -> None:
    """Theorem 3.3: without a bound of zero on some pair, the last rows of a pause are held."""
    rules = written(system).only(*system.sources).rules(PLAIN) if any(system.bounds.values()) else None
    if rules is not None:
        assert (rules.timeout_needed() is not None) == needs_timeout(system)


@given(systems(most_sources=4, missing=False), st.data())
def test_fleets_have_the_weakest_bounds_between_their_members(system: System, data: st.DataObject) -> None:
    """Section 5.2, set against the paper's own expression."""
    fleet_of = [data.draw(st.integers(0, 1)) for _ in system.sources]
    groups = [[j for j in system.sources if fleet_of[j] == fleet] for fleet in sorted(set(fleet_of))]
    fleets = {f"fleet {number}": members for number, members in enumerate(groups)}
    rules = written(system).in_fleets(fleets).rules(PLAIN)
    expected = grouped(system, groups)
    for i, sender in enumerate(fleets):
        for j, receiver in enumerate(fleets):
            assert _entry(rules, sender, receiver) == _printed(expected, i, j)
            assert rules.latency[receiver] == expected.latency[j]


def test_sources_of_one_kind_take_one_place_in_what_is_looked_at() -> None:
    """A thousand sensors are not a million entries."""
    deviations: dict[Any, Any] = dict.fromkeys(range(1000), 5)
    rules = Bounds.sensors(deviations).rules(PLAIN)
    assert len(rules.classes) == 2
    assert len(rules.rules) == 2
    assert str(Bounds.sensors(deviations)) == "clocks at most 5 (0), 5 (1), 5 (2), and of 997 more off"


def test_a_source_of_which_nothing_is_known_holds_up_nobody() -> None:
    """Nobody named it, and nothing holds for all others: its rows may be late, and nobody waits for it."""
    named: dict[Any, Any] = {"a": 2}
    rules = Bounds.sensors(named).rules(PLAIN)
    generator = HeartbeatGenerator(rules)
    rows = [(1, "a", 10), (2, "stranger", 1), (3, "a", 20)]
    ticks, sources, times = zip(*rows, strict=True)
    generator.follow(np.array(ticks), generator.places_of(sources), np.array(times), closes=True)
    assert generator.complete_before == 18
    assert not rules.waits_for("stranger")
    assert (Bounds.sensors(named) & Bounds.idle(5)).rules(PLAIN).waits_for("stranger")


def test_lengths_are_inclusive_and_zero_is_zero_in_every_unit() -> None:
    """The paper's delta is one more, or none less where newer is meant."""
    calendar = Units(calendar=True)
    assert Bound("5s").pair(calendar) == Pair(5_000_001)
    assert Bound(0, strictly=True).pair(calendar) == Pair(0)
    assert Bound("0s").pair(calendar) == Bound(0).pair(PLAIN) == Pair(1)
    with pytest.raises(BadDuration):
        Bound(5).pair(calendar)


def _any(value: Any) -> Any:
    """What a type checker would refuse."""
    return value


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Bound(rows=-1), "not below zero"),
        (lambda: Bound(after=3, rows=2), "a time or rows, not both"),
        (lambda: Bounds({("a", "b"): []}), "an entry is a list of Bound"),
        (lambda: Bounds({("a", "b"): _any([3])}), "an entry is a list of Bound"),
        (lambda: Bounds.in_order(strictly=True, repeats=2), "the same thing differently"),
        (lambda: Bounds.in_order(repeats=0), "above zero"),
        (lambda: Bounds.sensors({}), "names no source"),
        (lambda: Bounds.sensors(3, rate=0), "above zero"),
        (lambda: Bounds.global_counter(_any((1, 2, 3))), "the least and the most"),
        (lambda: Bounds.global_counter((3, 1)).rules(PLAIN), "the least time is more than the most"),
        (Bounds.delay, "needs a length"),
        (lambda: Bounds.idle("0s"), "above zero"),
        (lambda: Bounds.sensors({"a": 1}).only("b"), "name a source that there is not"),
        (lambda: Bounds.sensors({"a": 1, "b": 1}).in_fleets({"x": ["a"]}), "belongs to one fleet"),
        (lambda: Bounds.delay("5s").rules(Units(calendar=False)), "sequence numbers"),
        (lambda: Bounds.in_order().only("a") & Bounds.in_order().only("b"), "disagree on which sources"),
    ],
)
def test_what_means_nothing_is_refused(make: Any, says: str) -> None:
    """With what to write instead."""
    with pytest.raises((PlanError, BadDuration), match=says):
        make()
