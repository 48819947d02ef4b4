"""Bounds and the definitions of what keeps to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from slackwater.testing.oracles.heartbeats.strategies import simulations, systems
from slackwater.testing.oracles.heartbeats.system import Emitted, Skew, System, check_arrivals, obeys

if TYPE_CHECKING:
    from slackwater.testing.oracles.heartbeats.simulate import Sent


def test_after_the_wait_is_strictly_after_it() -> None:
    """Section 2: rows emitted after c + t have times > x - delta; exactly at c + t they may be older."""
    system = System((0, 0), {(0, 1): (Skew(2, 3),)})
    first = Emitted(10, 0, 100)
    assert obeys(system, [first, Emitted(12, 1, 0)])
    assert not obeys(system, [first, Emitted(13, 1, 97)])
    assert obeys(system, [first, Emitted(13, 1, 98)])


def test_further_rows_are_counted_strictly_between() -> None:
    """Section 3.1: after j has emitted n rows after c."""
    system = System((0, 0), {(0, 1): (Skew.rows(1, 0),)})
    first = Emitted(10, 0, 100)
    assert obeys(system, [first, Emitted(10, 1, 7), Emitted(11, 1, 7), Emitted(11, 1, 8)])
    assert not obeys(system, [first, Emitted(11, 1, 7), Emitted(12, 1, 8)])


def test_a_bound_is_not_symmetric() -> None:
    """0 does not bound itself, nor does 1 bound 0."""
    system = System((0, 0), {(0, 1): (Skew(0, 0),)})
    assert obeys(system, [Emitted(0, 1, 100), Emitted(1, 0, 50), Emitted(2, 0, 40), Emitted(3, 1, 51)])


@pytest.mark.parametrize(
    "wrong", [lambda: Skew(-1, 0), lambda: Skew(0, -1), lambda: System((-1,)), lambda: System((0,), {(0, 1): ()})]
)
def test_impossible_bounds_are_refused(wrong: type[object]) -> None:
    """Negative waits, differences and latencies, and sources there are not."""
    with pytest.raises(ValueError, match=r"negative|there is no entry"):
        wrong()


def test_arrivals_of_a_source_there_is_not_are_refused() -> None:
    """They are numbered from 0."""
    with pytest.raises(ValueError, match="there are 1 sources"):
        check_arrivals(System((0,)), [(0, 1, 5)])


@given(simulations(systems(), most_rows=25))
def test_simulated_rows_keep_to_bounds_and_latencies(drawn: tuple[System, list[Sent]]) -> None:
    """The simulator's own least times against the definition over all rows."""
    system, sent = drawn
    assert obeys(system, [row for row, _ in sent])
    assert all(0 <= arrived - row.emitted <= system.latency[row.source] for row, arrived in sent)
