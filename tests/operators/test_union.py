"""The union of ordered streams: what goes, what waits, for whom, and what it says about its progress."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BrokenOrder
from slackwater.events.batch import EventBatch
from slackwater.events.elements import Insert, elements_of
from slackwater.operators.union import UnionOperator
from slackwater.progress.instants import FOREVER
from slackwater.testing.strategies import KEYED, batch_cuts, ordered_batches

if TYPE_CHECKING:
    from slackwater.operators.emission import Emission

_NAMES = pa.RecordBatch.from_pylist([], schema=pa.schema({"x": pa.string()}))


def _union(ports: int = 2) -> UnionOperator:
    return UnionOperator(ports, _NAMES, "step 'union#1'")


def _events(**at: int) -> EventBatch:
    return EventBatch.inserts(pa.record_batch({"x": pa.array(list(at), pa.string())}), list(at.values()))


def _guarantee(complete_before: int) -> EventBatch:
    return _events().punctuation(complete_before)


def _emitted(emission: Emission) -> list[str]:
    """Events as name@time, punctuations as they are written."""
    emitted = []
    for batch in emission.batches:
        batch.check()
        for element in elements_of(batch):
            if isinstance(element, Insert):
                assert isinstance(element.payload, tuple)
                emitted.append(f"{element.payload[0]}@{element.start}")
            else:
                emitted.append(str(element))
    return emitted


def test_an_input_that_has_sent_nothing_holds_the_others_back() -> None:
    """It might still send something older."""
    union = _union()
    assert _emitted(union.on_batch(0, _events(a=3, b=5))) == []
    assert union.idle_waiting_on() == 1
    assert (union.held_back(), union.buffered()) == (2, 2)


def test_what_every_input_has_reached_goes() -> None:
    """Up to and including the least register; the rest waits for the input that is behind."""
    union = _union()
    union.on_batch(0, _events(a=3, b=5))
    assert _emitted(union.on_batch(1, _events(c=4))) == ["a@3", "c@4"]
    assert union.idle_waiting_on() == 1
    assert _emitted(union.on_batch(1, _events(d=9))) == ["b@5"]
    assert union.idle_waiting_on() == 0


def test_a_punctuation_lets_the_others_go_and_is_passed_on() -> None:
    """Only what is new is emitted: an event at a time says as much as a punctuation there."""
    union = _union()
    union.on_batch(0, _events(a=3, b=5))
    assert _emitted(union.on_batch(1, _guarantee(4))) == ["a@3", "punctuate(4)"]
    assert _emitted(union.on_batch(1, _guarantee(5))) == ["b@5"]
    assert _emitted(union.on_batch(1, _guarantee(7))) == []
    assert _emitted(union.on_batch(0, _guarantee(6))) == ["punctuate(6)"]


def test_a_punctuation_that_is_behind_says_nothing_new() -> None:
    """Registers never go back."""
    union = _union(1)
    assert _emitted(union.on_batch(0, _events(a=5))) == ["a@5"]
    assert _emitted(union.on_batch(0, _guarantee(3))) == []
    assert _emitted(union.on_batch(0, _guarantee(5))) == []
    union.check()


def test_simultaneous_events_of_both_inputs_go_together_in_the_order_of_the_inputs() -> None:
    """What can go at once is woven; ties take the first input first."""
    union = _union()
    union.on_batch(1, _events(p=5, q=5, r=6))
    assert _emitted(union.on_batch(0, _events(a=5, b=5, c=6))) == ["a@5", "b@5", "p@5", "q@5", "c@6", "r@6"]
    assert union.buffered() == 0


def test_an_ended_input_holds_nobody_back() -> None:
    """The last one to end flushes everything and says that the stream is complete."""
    union = _union()
    union.on_batch(0, _events(a=3, b=5))
    assert _emitted(union.on_end(1)) == ["a@3", "b@5"]
    assert union.idle_waiting_on() is None
    assert _emitted(union.on_batch(0, _events(c=6))) == ["c@6"]
    assert _emitted(union.on_end(0)) == ["punctuate(forever)"]


def test_three_inputs_wait_for_the_slowest_and_name_the_first_of_equals() -> None:
    """The runner asks one source at a time."""
    union = _union(3)
    union.on_batch(1, _events(a=3))
    assert union.idle_waiting_on() == 0
    union.on_batch(0, _guarantee(9))
    assert union.idle_waiting_on() == 2
    assert _emitted(union.on_batch(2, _events(c=2))) == ["c@2"]
    assert _emitted(union.on_end(2)) == ["a@3"]


def test_nobody_waits_while_nothing_is_held() -> None:
    """An empty union demands no punctuation."""
    union = _union()
    assert union.idle_waiting_on() is None
    union.on_batch(0, _guarantee(5))
    assert union.idle_waiting_on() is None


def test_an_event_older_than_its_input_had_reached_is_refused() -> None:
    """The step, the input and both times are named."""
    union = _union()
    union.on_batch(0, _events(a=5))
    with pytest.raises(BrokenOrder, match=r"(?s)step 'union#1'.*input 0, time 4.*time 5"):
        union.on_batch(0, _events(b=4))


def test_an_empty_batch_is_no_news() -> None:
    """Nothing in, nothing out, nothing remembered."""
    union = _union()
    assert _emitted(union.on_batch(0, _events())) == []
    assert union.snapshot() == _union().snapshot()


def test_a_snapshot_is_a_frozen_value_that_later_calls_leave_alone() -> None:
    """Two unions resumed from it go on alike, whatever happened to the first since."""
    union = _union()
    union.on_batch(0, _events(a=3, b=5))
    state = union.snapshot()
    union.on_batch(1, _events(c=9))
    resumed = [UnionOperator(2, _NAMES, resume=state) for _ in range(2)]
    answers = [_emitted(one.on_batch(1, _guarantee(4))) for one in resumed]
    assert answers == [["a@3", "punctuate(4)"]] * 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.emitted_until = 7  # type: ignore[misc]


def test_intervals_keep_their_ends() -> None:
    """Points among them are intervals of one unit."""
    union = _union()
    lasting = EventBatch.inserts(pa.record_batch({"x": ["a", "b"]}), start=[1, 3], end=[FOREVER, 9])
    union.on_batch(0, lasting)
    (out,) = union.on_batch(1, EventBatch.concat([_events(p=2), _guarantee(9)])).batches
    assert (out.start.tolist(), out.ends().tolist()) == ([1, 2, 3], [FOREVER, 3, 9])


@given(st.data())
def test_the_output_is_all_events_in_order_of_time(data: st.DataObject) -> None:
    """Nothing is missing, nothing is doubled, nothing goes back."""
    streams = [data.draw(ordered_batches(KEYED, max_rows=10, punctuated=False)) for _ in range(3)]
    union = UnionOperator(3, streams[0].payload.slice(0, 0))
    emitted = [batch for port, stream in enumerate(streams) for batch in union.on_batch(port, stream).batches]
    emitted += [batch for port in range(3) for batch in union.on_end(port).batches]
    out = [element for batch in emitted for element in elements_of(batch) if isinstance(element, Insert)]
    everything = [element for stream in streams for element in elements_of(stream)]
    assert sorted(map(str, out)) == sorted(map(str, everything))
    assert [event.start for event in out] == sorted(event.start for event in out)


@given(st.data())
def test_nothing_that_every_input_has_reached_is_held_back(data: st.DataObject) -> None:
    """After each call all that waits is younger than the least register, and only then is an input waited for."""
    streams = [data.draw(batch_cuts(data.draw(ordered_batches(KEYED, max_rows=10)))) for _ in range(2)]
    union = UnionOperator(2, streams[0][0].payload.slice(0, 0))
    while any(streams):
        port = data.draw(st.sampled_from([port for port, left in enumerate(streams) if left]))
        union.on_batch(port, streams[port].pop(0))
        union.check()
        held = [int(start) for queue in union.snapshot().room.held for batch in queue for start in batch.start]
        assert len(held) == union.buffered()
        assert all(start > min(union.snapshot().room.registers) for start in held)
        assert (union.idle_waiting_on() is None) == (not held)
