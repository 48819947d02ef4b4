"""The waiting room of ordered inputs: registers, the relaxed condition, and what is handed over."""

from __future__ import annotations

import pyarrow as pa
import pytest

from slackwater.errors import BrokenOrder
from slackwater.events.batch import EventBatch
from slackwater.operators.waiting_room import WaitingRoom
from slackwater.progress.instants import BEGINNING, FOREVER


def _events(*starts: int) -> EventBatch:
    return EventBatch.inserts(pa.record_batch({"x": pa.array([f"e{s}" for s in starts], pa.string())}), list(starts))


def _released(room: WaitingRoom) -> list[list[int]]:
    released = [[int(start) for batch in batches for start in batch.start] for batches in room.release()]
    room.check()
    return released


def test_an_empty_room_waits_for_nobody() -> None:
    """Nothing held, nothing emitted."""
    room = WaitingRoom(2, "test")
    assert room.complete_before == BEGINNING
    assert room.idle_waiting_on() is None
    assert _released(room) == [[], []]


def test_everything_up_to_and_including_the_least_register_is_handed_over() -> None:
    """The batch that reaches beyond it is cut."""
    room = WaitingRoom(2, "test")
    room.take(0, _events(1, 3, 3, 5))
    room.take(1, _events(2, 3))
    assert room.complete_before == 3
    assert _released(room) == [[1, 3, 3], [2, 3]]
    assert room.buffered() == 1
    assert room.idle_waiting_on() == 1


def test_whole_batches_are_handed_over_without_a_copy() -> None:
    """What came as one batch goes as one batch."""
    room = WaitingRoom(1, "test")
    batch = _events(1, 2)
    room.take(0, batch)
    assert room.release() == [[batch]]
    assert room.buffered() == 0


def test_punctuations_move_the_register_and_are_not_held() -> None:
    """Only the last one of a batch matters: they never go back."""
    room = WaitingRoom(2, "test")
    room.take(0, EventBatch.concat([_events(1), _events().punctuation(4), _events().punctuation(6)]))
    room.take(1, _events().punctuation(FOREVER))
    assert room.complete_before == 6
    assert _released(room) == [[1], []]


def test_an_event_between_punctuations_says_as_much_as_a_punctuation() -> None:
    """The register is the greater of both."""
    room = WaitingRoom(1, "test")
    room.take(0, EventBatch.concat([_events().punctuation(4), _events(7)]))
    assert room.complete_before == 7


def test_rows_that_go_back_behind_their_register_are_refused() -> None:
    """By an event or by a punctuation, it is the same guarantee; the place is named."""
    room = WaitingRoom(2, "step 'join#1'")
    room.take(1, _events().punctuation(5))
    room.take(1, _events(5))
    with pytest.raises(BrokenOrder, match=r"(?s)step 'join#1'.*input 1, time 4.*time 5"):
        room.take(1, _events(4))


def test_ended_inputs_release_what_waited_for_them() -> None:
    """When all have ended nothing is held."""
    room = WaitingRoom(2, "test")
    room.take(0, _events(1, 9))
    room.end(1)
    assert _released(room) == [[1, 9], []]
    room.end(0)
    assert room.complete_before == FOREVER


def test_a_room_rebuilt_from_its_snapshot_holds_the_same() -> None:
    """Rows, registers and whom it waits for."""
    room = WaitingRoom(2, "test")
    room.take(0, _events(1, 9))
    room.take(1, _events(4))
    room.release()
    again = WaitingRoom(2, "test", room.snapshot())
    again.check()
    assert (again.buffered(), again.idle_waiting_on(), again.complete_before) == (1, 1, 4)
    again.end(1)
    assert _released(again) == [[9], []]
    assert room.buffered() == 1
