"""Holding rows for other streams: how far they go, whom they wait for, and what a change of that may not do."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BrokenOrder
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.operators.hold import HoldOperator
from slackwater.operators.progress_only import ProgressOnlyOperator
from slackwater.progress.instants import FOREVER
from slackwater.testing.torture import assert_lawful

_NO_ROWS = pa.record_batch({"x": pa.array([], pa.int64())})


def _rows(*starts: int) -> EventBatch:
    return EventBatch.inserts(pa.record_batch({"x": pa.array(starts, pa.int64())}), start=list(starts))


def _until(instant: int) -> EventBatch:
    return punctuation_like(_NO_ROWS, instant)


def _starts(batches: tuple[EventBatch, ...]) -> list[int]:
    return [int(start) for batch in batches for start in batch.data().start]


def test_rows_go_up_to_and_including_the_least_of_those_that_are_waited_for() -> None:
    """What is still to come there may be simultaneous with them, never older."""
    hold = HoldOperator(3, _NO_ROWS)
    assert hold.on_batch(0, _rows(1, 5, 9)).batches == ()
    assert hold.on_batch(1, _until(7)).batches == ()
    assert _starts(hold.on_batch(2, _until(5)).batches) == [1, 5]
    assert hold.idle_waiting_on() == 2
    sent = hold.on_batch(2, _until(8)).batches
    assert [batch.last_punctuation() for batch in sent] == [7]
    assert hold.idle_waiting_on() == 1
    assert _starts(hold.on_end(1).batches) == []
    assert _starts(hold.on_end(2).batches) == [9]


def test_rows_of_those_that_are_waited_for_do_not_matter() -> None:
    """Only their punctuations do: whoever reads rows is another step."""
    hold = HoldOperator(2, _NO_ROWS)
    hold.on_batch(0, _rows(1))
    assert hold.on_batch(1, _rows(4)).batches == ()
    assert hold.of_interest_from(1) == FOREVER


def test_a_stream_that_goes_back_is_refused() -> None:
    """It was declared to be in order."""
    hold = HoldOperator(2, _NO_ROWS)
    hold.on_batch(0, _rows(5))
    with pytest.raises(BrokenOrder, match="time 4"):
        hold.on_batch(0, _rows(4))


def test_peaks_count_rows_that_wait_and_those_that_come_to_them() -> None:
    """What goes at once was not held."""
    hold = HoldOperator(2, _NO_ROWS)
    hold.on_batch(1, _until(3))
    hold.on_batch(0, _rows(1, 2, 3))
    assert hold.peak_buffered() == 0
    hold.on_batch(0, _rows(3, 4))
    hold.on_batch(0, _rows(5, 6))
    assert (hold.held_back(), hold.peak_buffered()) == (3, 3)


_CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("rows"), st.integers(0, 5)),
        st.tuples(st.integers(1, 2), st.integers(0, 40)),
        st.tuples(st.just("wait"), st.sets(st.integers(1, 2))),
    ),
    max_size=20,
)


@given(_CALLS)
def test_whoever_is_waited_for_rows_come_out_once_in_order_and_as_far_as_they_may(
    calls: list[tuple[Any, Any]],
) -> None:
    """Against the obvious: a row may go when nobody who is waited for is behind it; what was sent stays sent."""
    hold = HoldOperator(3, _NO_ROWS)
    came: list[int] = []
    reached, waits = {1: -1, 2: -1}, {1, 2}
    emitted: list[EventBatch] = []
    gone = 0
    for what, value in calls:
        if what == "rows":
            came.append((came[-1] if came else 0) + value)
            emitted += hold.on_batch(0, _rows(came[-1])).batches
        elif what == "wait":
            waits = set(value)
            emitted += hold.wait_for(sorted(waits)).batches
        else:
            reached[what] = max(reached[what], value)
            emitted += hold.on_batch(what, _until(value)).batches
        bound = min((reached[port] for port in waits), default=FOREVER)
        gone = max(gone, sum(at <= bound for at in came))
        hold.check()
        assert _starts(tuple(emitted)) == came[:gone]
        assert hold.held_back() == len(came) - gone
    for port in range(3):
        emitted += hold.on_end(port).batches
    assert_lawful(emitted, ordered=True)
    assert _starts(tuple(emitted)) == came


def test_progress_is_passed_on_without_rows() -> None:
    """By punctuations, and by rows where they come in order; never back."""
    ordered, disordered = (ProgressOnlyOperator(_NO_ROWS, ordered=one) for one in (True, False))
    assert [batch.last_punctuation() for batch in ordered.on_batch(0, _rows(2, 7)).batches] == [7]
    assert ordered.on_batch(0, _until(5)).batches == ()
    assert disordered.on_batch(0, _rows(9, 7)).batches == ()
    assert [batch.last_punctuation() for batch in disordered.on_batch(0, _until(5)).batches] == [5]
