"""Rows of several streams in the order of their arrival, whichever of them is read first, and in whatever pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slackwater.operators.heartbeats import arrival_order
from slackwater.operators.heartbeats.arrival_order import ArrivalOrder

if TYPE_CHECKING:
    from random import Random

    import pytest

_NONE = np.empty(0, dtype=np.int64)
_ARRIVALS = st.lists(st.lists(st.integers(0, 9), max_size=8).map(sorted), min_size=2, max_size=3)


@given(_ARRIVALS, st.booleans(), st.randoms(use_true_random=False))
def test_by_a_column_rows_go_in_the_order_of_their_arrival(
    arrivals: list[list[int]], restored: bool, rng: Random
) -> None:
    """All of them, each when no other that arrived before it can still come; nobody waits for who is quiet for now."""
    order = ArrivalOrder(len(arrivals), by_clock=False)
    left = {port: list(some) for port, some in enumerate(arrivals)}
    went: list[int] = []
    while left:
        if restored:
            order = ArrivalOrder(len(arrivals), by_clock=False, resume=order.snapshot())
        waits = order.waits_for()
        port = rng.choice(list(left)) if waits is None else waits
        if not left[port]:
            order.end(port)
            del left[port]
        else:
            count = rng.randint(1, len(left[port]))
            some, left[port] = left[port][:count], left[port][count:]
            order.take(port, np.array(some), np.array(some))
        released = [one for of in order.release() for part in of for one in part.arrivals.tolist()]
        order.check()
        went += sorted(released)
    assert went == sorted(one for some in arrivals for one in some)
    assert order.rows == 0


def test_who_is_quiet_is_asked_again_when_somebody_has_given_something() -> None:
    """A stream that had nothing a moment ago may have rows that arrived before those."""
    order = ArrivalOrder(2, by_clock=False)
    order.take(0, np.array([1]), np.array([10]))
    order.note_quiet(1)
    assert [len(one) for one in order.release()] == [1, 0]
    order.take(0, np.array([2]), np.array([20]))
    assert (order.waits_for(), [len(one) for one in order.release()]) == (1, [0, 0])
    order.take(1, np.array([3]), np.array([5]))
    assert [len(one) for one in order.release()] == [0, 1], "20 waits: more that arrived before it may come"
    assert order.waits_for() == 1


def test_by_the_clock_all_that_waits_to_be_read_is_one_instant() -> None:
    """However many pieces it is in, until each stream is quiet, or has ended."""
    order = ArrivalOrder(3, by_clock=True)
    order.end(2)
    order.take(0, np.array([1]), _NONE)
    order.take(0, np.array([2]), _NONE)
    order.note_quiet(0)
    assert (order.waits_for(), any(order.release())) == (1, False)
    order.take(1, np.array([3]), _NONE)
    assert (order.waits_for(), any(order.release())) == (0, False)
    order.note_quiet(0)
    order.note_quiet(1)
    assert [sum(len(part.times) for part in one) for one in order.release()] == [2, 1, 0]


def test_a_stream_that_is_never_quiet_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock, after very many rows of it."""
    monkeypatch.setattr(arrival_order, "AT_ONCE", 3)
    order = ArrivalOrder(2, by_clock=True)
    for _ in range(2):
        order.take(0, np.array([1, 2]), _NONE)
    assert order.waits_for() == 1
    order.note_quiet(1)
    assert order.waits_for() is None
    assert [len(one) for one in order.release()] == [2, 0]
