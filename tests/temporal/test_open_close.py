"""Opens and closes as another way to write inserts and adjusts."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BadPairing, UnknownEvent
from slackwater.events.elements import Adjust, Insert, Punctuate
from slackwater.progress.instants import FOREVER
from slackwater.temporal.open_close import Close, Open, OpenClose, from_open_close, to_open_close
from slackwater.temporal.table import TemporalEvent, TemporalTable, temporal_table_of
from slackwater.testing.strategies import element_streams
from slackwater.testing.tables import assert_same_table

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from slackwater.events.elements import Element


def _table(stream: list[OpenClose]) -> list[str]:
    return [str(event) for event in temporal_table_of(from_open_close(stream))]


def test_an_open_event_lasts_for_ever_until_it_is_closed() -> None:
    """Each element becomes one element."""
    stream: list[OpenClose] = [Open("A", 1), Punctuate(2), Close("A", 4)]
    assert from_open_close(stream) == [Insert("A", 1, FOREVER), Punctuate(2), Adjust("A", 1, FOREVER, 4)]


def test_a_later_close_revises_an_earlier_one() -> None:
    """In both directions, and a close at FOREVER takes it back."""
    stream: list[OpenClose] = [Open("A", 1), Close("A", 4), Close("A", 6), Close("A", 3), Close("A", FOREVER)]
    ends = [_table(stream[:upto]) for upto in range(2, 6)]
    assert ends == [["A [1, 4)"], ["A [1, 6)"], ["A [1, 3)"], ["A [1, forever)"]]


def test_a_payload_may_be_opened_again_from_its_end_on() -> None:
    """Intervals are half-open, so the second event may begin exactly where the first ended."""
    assert _table([Open("A", 1), Close("A", 4), Open("A", 4)]) == ["A [1, 4)", "A [4, forever)"]


def test_a_close_means_the_last_event_that_starts_before_it() -> None:
    """So the first event can be revised after the second was opened, up to the second's start."""
    stream: list[OpenClose] = [Open("A", 1), Close("A", 4), Open("A", 6)]
    assert _table([*stream, Close("A", 5)]) == ["A [1, 5)", "A [6, forever)"]
    assert _table([*stream, Close("A", 6)]) == ["A [1, 6)", "A [6, forever)"]
    assert _table([*stream, Close("A", 7)]) == ["A [1, 4)", "A [6, 7)"]


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        ([Close("A", 4)], "no event of this payload was opened before that time"),
        ([Open("B", 1), Close("A", 4)], "no event of this payload was opened before that time"),
        ([Open("A", 5), Close("A", 4)], "no event of this payload was opened before that time"),
        ([Open("A", 5), Close("A", 5)], "no event of this payload was opened before that time"),
        ([Open("A", 1), Open("A", 2)], "an event of the same payload is active until forever"),
        ([Open("A", 1), Close("A", 4), Open("A", 3)], "an event of the same payload is active until 4"),
        ([Open("A", 6), Close("A", 8), Open("A", 1)], "an event of the same payload is active until 8"),
    ],
)
def test_opens_and_closes_that_do_not_fit_are_refused(stream: list[OpenClose], reason: str) -> None:
    """The message names the element, its position and what is in its way."""
    with pytest.raises(BadPairing) as caught:
        from_open_close(stream)
    assert reason in str(caught.value)
    assert str(stream[-1]) in str(caught.value)
    assert f"at position {len(stream) - 1} of the stream" in str(caught.value)


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        ([Insert("A", 1, 4), Adjust("A", 1, 4, 1)], "cannot remove an event"),
        ([Insert("A", 1, 1)], "let it last for no time"),
        ([Insert("A", 1, 4), Insert("A", 1, 4)], "active until 4"),
        ([Insert("A", 1, 4), Insert("A", 3, 6)], "active until 4"),
        ([Insert("A", 6, 8), Insert("A", 1, 4)], "active until 8"),
        ([Insert("A", 1, 4), Insert("A", 6, 8), Adjust("A", 1, 4, 7)], "overlap the next event"),
        ([Insert("A", 1, 4), Insert("A", 6, 8), Adjust("A", 1, 4, FOREVER)], "overlap the next event"),
    ],
)
def test_what_opens_and_closes_cannot_say_is_refused(stream: list[Element], reason: str) -> None:
    """Removal, no duration, and two active events of one payload have no form in this model."""
    with pytest.raises(BadPairing, match=reason):
        to_open_close(stream)


def test_a_stream_that_contradicts_itself_is_refused_as_such() -> None:
    """to_open_close does not hide an adjust of an event that is not there."""
    with pytest.raises(UnknownEvent):
        to_open_close([Insert("A", 1, 4), Adjust("A", 1, 5, 6)])


@given(element_streams())
def test_there_and_back_keeps_the_table_or_is_refused(stream: list[Element]) -> None:
    """Whatever the model can express, it expresses fully, punctuations included."""
    try:
        there = to_open_close(stream)
    except BadPairing:
        return
    back = from_open_close(there)
    assert_same_table(back, stream)
    assert temporal_table_of(back).complete_before == temporal_table_of(stream).complete_before


@given(st.data())
def test_opens_and_closes_survive_the_way_through_inserts_and_back(data: st.DataObject) -> None:
    """Every stream of this model comes back with the same table, from every prefix."""
    stream = data.draw(_open_close_streams())
    stream = stream[: data.draw(st.integers(0, len(stream)))]
    elements = from_open_close(stream)
    assert_same_table(from_open_close(to_open_close(elements)), elements)


@given(st.data())
def test_the_events_of_a_payload_never_overlap(data: st.DataObject) -> None:
    """The guarantee of the model holds for every stream that is accepted."""
    table = temporal_table_of(from_open_close(data.draw(_open_close_streams())))
    for payload in "AB":
        events = [event for event in table if event.payload == payload]
        assert all(one.end <= other.start for one, other in pairwise(events))


@st.composite
def _open_close_streams(draw: DrawFn) -> list[OpenClose]:
    """Streams of two payloads, drawn element by element; what does not fit is left out."""
    stream: list[OpenClose] = []
    payloads, instants = st.sampled_from("AB"), st.integers(0, 12)
    wishes = st.one_of(st.builds(Open, payloads, instants), st.builds(Close, payloads, instants))
    for wish in draw(st.lists(wishes, max_size=12)):
        try:
            from_open_close([*stream, wish])
        except BadPairing:
            continue
        stream.append(wish)
    return stream


def test_the_events_of_different_payloads_do_not_concern_each_other() -> None:
    """Each payload has its own order."""
    stream: list[OpenClose] = [Open("B", 6), Open("A", 1), Close("A", 4), Close("B", 8)]
    table = TemporalTable([TemporalEvent("A", 1, 4), TemporalEvent("B", 6, 8)])
    assert temporal_table_of(from_open_close(stream)) == table
