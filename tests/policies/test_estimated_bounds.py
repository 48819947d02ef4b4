"""Estimated bounds as users write them: what is refused, and what follows beside declared ones."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from slackwater.errors import BadDuration, PlanError
from slackwater.policies.bound import Units
from slackwater.policies.bounds import Bounds
from slackwater.policies.cadence import Every

_PLAIN = Units(calendar=False, clock_calendar=False)


def _any(value: Any) -> Any:
    """What a type checker would refuse."""
    return value


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Bounds.estimated(0), "above 0 and below 1"),
        (lambda: Bounds.estimated(1), "above 0 and below 1"),
        (lambda: Bounds.estimated(_any("0.1")), "above 0 and below 1"),
        (lambda: Bounds.estimated(0.1, after=[]), "after= needs a length"),
        (lambda: Bounds.adaptive(0), "rows above zero"),
        (lambda: Bounds.adaptive(Every.batch()), "a number of rows, or a length"),
        (lambda: Bounds.adaptive("0s"), "above zero"),
        (lambda: Bounds.adaptive(5, alpha=1.5), "from 0 to 1"),
        (lambda: Bounds.adaptive(5, alpha=1, adapts=True), "alpha=1 never does"),
        (lambda: Bounds.greatest(pairs="ab"), "a list of sources"),
        (lambda: Bounds.greatest() & Bounds.estimated(0.1), "in one way, not in two"),
        (lambda: Bounds.greatest(pairs=["a"]).in_fleets({"x": ["a"]}).rules(_PLAIN), "know no fleets"),
        (lambda: Bounds.greatest(clock=True).rules(Units(calendar=False)), "of another kind"),
        (lambda: Bounds.adaptive("5s").rules(_PLAIN), "does not fit"),
    ],
)
def test_what_means_nothing_is_refused(make: Any, says: str) -> None:
    """With what to write instead."""
    with pytest.raises((PlanError, BadDuration), match=says):
        make()


def test_declared_rules_come_first_in_whatever_order_bounds_are_written() -> None:
    """Estimates are known by their place."""
    for bounds in (Bounds.greatest() & Bounds.patience(5), Bounds.patience(5) & Bounds.greatest()):
        rules = bounds.rules(_PLAIN).rules
        assert [rule.estimated for rule in rules] == [False, True, True]


def test_an_estimate_guarantees_nothing_when_all_is_silent() -> None:
    """Theorem 3.3 is about what is declared, though an estimate may be 0."""
    assert Bounds.greatest().rules(_PLAIN).timeout_needed() is not None
    assert (Bounds.greatest() & Bounds.delay(5)).rules(_PLAIN).timeout_needed() is None


@pytest.mark.parametrize(
    ("bounds", "from_where"),
    [
        (Bounds.estimated(0.1), None),
        (Bounds.estimated(0.1) & Bounds.in_order(), None),
        (Bounds.estimated(0.1) & Bounds.idle(5), None),
        (Bounds.estimated(0.1) & Bounds.uniform({"a": 9}), None),
        ((Bounds.estimated(0.1) & Bounds.uniform({"a": 9})).only("a"), 10),
        ((Bounds.estimated(0.1) & Bounds.uniform({"a": 9})).only("a", "b"), None),
        (Bounds.estimated(0.1) & Bounds.patience(7), 8),
        (Bounds.estimated(0.1) & Bounds.patience(7) & Bounds.delay(30), 30),
        ((Bounds.estimated(0.1) & Bounds.patience(7)).in_fleets({"x": ["a"], "y": ["b"]}), 8),
    ],
)
def test_estimates_come_down_from_what_holds_for_all_sources(bounds: Bounds, from_where: int | None) -> None:
    """The longest of it; nothing where some source is not covered."""
    assert bounds.rules(_PLAIN).comes_down_from == from_where


def test_lengths_are_those_of_the_stream_and_of_its_clock() -> None:
    """Whiles and windows go by the clock of arrivals, a start by the times of rows; numbers of rows by neither."""
    calendar = Units(calendar=True)
    rules = Bounds.adaptive(timedelta(seconds=3), start="2ms", after=[0, "1ms"]).rules(calendar)
    assert rules.estimation is not None
    assert (rules.estimation.window, rules.estimation.by_time, rules.estimation.start) == (3_000_000, True, 2_001)
    assert [rule.pair.default.wait for rule in rules.rules if rule.pair.default] == [0, 0, 1_000]
    by_rows = Bounds.adaptive(7).rules(calendar).estimation
    assert by_rows is not None
    assert (by_rows.window, by_rows.by_time) == (7, False)


def test_latency_is_part_of_what_is_learnt() -> None:
    """It does not put estimates off, as it does what is declared of rows when they are sent."""
    rules = (Bounds.greatest() & Bounds.disorder(3, latency=10)).rules(_PLAIN)
    assert rules.latency["anybody"] == 10
    assert rules.needs_clock
    assert not Bounds.greatest().rules(_PLAIN).needs_clock
    assert Bounds.greatest(after=3).rules(_PLAIN).needs_clock
    assert Bounds.greatest(clock=True).rules(_PLAIN).needs_clock
