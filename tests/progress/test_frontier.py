"""The registers of several inputs: they never go back, and the least of them is how far all have come."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.progress.frontier import Frontier
from slackwater.progress.instants import BEGINNING, FOREVER

_INSTANTS = st.one_of(st.integers(0, 10), st.sampled_from([BEGINNING, FOREVER]))


def test_a_new_frontier_has_come_nowhere() -> None:
    """Before any punctuation, everything may come."""
    frontier = Frontier(ports=3)
    assert frontier.complete_before == BEGINNING
    assert frontier.registers == (BEGINNING,) * 3
    assert frontier.holding_back() == 0


def test_the_frontier_moves_with_the_slowest_input() -> None:
    """Advancing a faster input changes nothing; advancing the slowest does."""
    frontier = Frontier(ports=2)
    assert not frontier.advance(0, 7)
    assert frontier.advance(1, 5)
    assert frontier.complete_before == 5
    assert frontier.holding_back() == 1


def test_the_first_of_several_slowest_inputs_is_named() -> None:
    """Ties are decided, so that the same calls give the same answers."""
    frontier = Frontier(ports=3, registers=[9, 4, 4])
    assert frontier.holding_back() == 1


def test_a_register_never_goes_back() -> None:
    """An older guarantee adds nothing to a newer one, nor does the same again."""
    frontier = Frontier(ports=1)
    assert frontier.advance(0, 5)
    assert not frontier.advance(0, 5)
    assert not frontier.advance(0, 3)
    assert frontier.registers == (5,)


def test_an_ended_input_holds_nobody_back() -> None:
    """Its register is FOREVER; when all have ended, so is the frontier."""
    frontier = Frontier(ports=2)
    frontier.advance(0, 5)
    assert frontier.end(1)
    assert frontier.complete_before == 5
    assert frontier.end(0)
    assert frontier.complete_before == FOREVER


def test_check_fails_on_a_broken_frontier() -> None:
    """The invariant is worth its name."""
    frontier = Frontier(ports=2, registers=[3, 4])
    frontier.check()
    frontier.complete_before = 4
    with pytest.raises(AssertionError):
        frontier.check()


@given(st.lists(st.tuples(st.integers(0, 2), _INSTANTS), max_size=30))
def test_the_frontier_is_the_least_of_the_greatest_guarantees(guarantees: list[tuple[int, int]]) -> None:
    """Whatever punctuations come, in whatever order; a frontier rebuilt from its registers goes on the same."""
    frontier = Frontier(ports=3)
    best = [BEGINNING] * 3
    for port, instant in guarantees:
        before = min(best)
        best[port] = max(best[port], instant)
        assert frontier.advance(port, instant) == (min(best) > before)
        frontier.check()
        assert frontier.registers == tuple(best)
        assert frontier.complete_before == min(best)
        frontier = Frontier(3, frontier.registers)
