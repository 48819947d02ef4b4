"""assume_keyed: passes a revised stream on while no event is told twice, and finds the first that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BadElement, UnknownEvent
from slackwater.events.elements import Adjust, Insert, Punctuate, batch_of, elements_of
from slackwater.operators.assume_keyed import AssumeKeyedOperator
from slackwater.operators.interest import Interest
from slackwater.progress.instants import BEGINNING
from slackwater.temporal.table import earliest_concerned
from slackwater.testing.oracles.keyed import first_broken_key

if TYPE_CHECKING:
    from slackwater.events.elements import Element

_PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64()})
_NO_ROWS = batch_of([], _PAYLOAD).payload
_PAYLOAD_ROW = ("a", 1)


@st.composite
def _streams(draw: st.DrawFn, *, wrong: bool = True) -> list[Element]:
    """Inserts and adjusts of few events, most of them right, and punctuations that none of them contradicts."""
    told: list[Insert | Adjust] = []
    ends: dict[int, int] = {}
    for _ in range(draw(st.integers(0, 20))):
        start = draw(st.integers(0, 2))
        end, other = draw(st.integers(start, start + 4)), draw(st.integers(start, start + 4))
        if start not in ends or (wrong and draw(st.integers(0, 9)) == 0):
            told.append(Insert(_PAYLOAD_ROW, start, max(end, start + 1)))
        else:
            prior = other if wrong and draw(st.integers(0, 9)) == 0 else ends[start]
            told.append(Adjust(_PAYLOAD_ROW, start, prior, end))
        ends[start] = told[-1].end
        if ends[start] == start:
            del ends[start]
    punctuated: list[Element] = []
    for place, element in enumerate(told):
        if draw(st.booleans()):
            true_until = min(earliest_concerned(later) for later in told[place:])
            said = max((one.complete_before for one in punctuated if isinstance(one, Punctuate)), default=BEGINNING)
            punctuated.append(Punctuate(max(said, true_until - draw(st.integers(0, 1)))))
        punctuated.append(element)
    return punctuated


@given(told=_streams(), cut=st.integers(1, 5), restore=st.booleans())
def test_the_first_event_that_breaks_the_key_is_found(told: list[Element], cut: int, restore: bool) -> None:
    """As a plain dictionary finds it, however the stream is cut; what is frozen and forgotten is never needed again."""
    operator = AssumeKeyedOperator(_NO_ROWS)
    expected, passed = first_broken_key(told), 0
    for first in range(0, len(told), cut):
        part = told[first : first + cut]
        broken = expected is not None and first <= expected < first + cut
        if restore:
            operator = AssumeKeyedOperator(_NO_ROWS, resume=operator.snapshot())
        if broken:
            assert expected is not None
            kind = UnknownEvent if isinstance(told[expected], Adjust) else BadElement
            with pytest.raises(kind) as refused:
                operator.on_batch(0, batch_of(part, _PAYLOAD))
            assert str(told[expected]) in str(refused.value)
            return
        (batch,) = operator.on_batch(0, batch_of(part, _PAYLOAD)).batches
        assert list(elements_of(batch)) == part
        passed += len(part)
        operator.check()
    assert expected is None
    assert passed == len(told)


@given(told=_streams(wrong=False), data=st.data(), restore=st.booleans())
def test_a_stream_with_a_key_passes_whatever_feedback_leaves_out(
    told: list[Element], data: st.DataObject, restore: bool
) -> None:
    """Rows of no interest are missing, at any time, in front of the step; what is missed is no reason to complain."""
    interest, operator, cut = Interest(), AssumeKeyedOperator(_NO_ROWS), data.draw(st.integers(1, 3))
    for first in range(0, len(told), cut):
        if restore:
            operator = AssumeKeyedOperator(_NO_ROWS, resume=operator.snapshot())
        if data.draw(st.booleans()):
            operator.ignore_before(data.draw(st.integers(-1, 6)))
            interest.begin_at(operator.of_interest_from(0))
        operator.on_batch(0, interest.rows_of(batch_of(told[first : first + cut], _PAYLOAD)))
        operator.check()


def test_what_is_frozen_is_forgotten() -> None:
    """Memory is for the events that may still be told of, twice as many at most."""
    operator = AssumeKeyedOperator(_NO_ROWS)
    for first in range(0, 100_000, 1_000):
        elements: list[Element] = [Insert(("a", n), n, n + 1) for n in range(first, first + 1_000)]
        operator.on_batch(0, batch_of([*elements, Punctuate(first + 1_000)], _PAYLOAD))
        operator.check()
    assert len(operator.snapshot().known) <= 2
    assert len(operator._table) <= 16_384


@pytest.mark.parametrize("restore", [False, True])
def test_an_event_that_ends_where_the_stream_is_complete_is_remembered(restore: bool) -> None:
    """Its end may still be revised, and then rightly."""
    operator = AssumeKeyedOperator(_NO_ROWS)
    operator.on_batch(0, batch_of([Insert(("a", 1), 2, 5), Punctuate(5)], _PAYLOAD))
    if restore:
        operator = AssumeKeyedOperator(_NO_ROWS, resume=operator.snapshot())
    with pytest.raises(UnknownEvent):
        operator.on_batch(0, batch_of([Adjust(("a", 1), 2, 6, 7)], _PAYLOAD))


def test_an_event_that_was_removed_may_come_back_and_one_that_is_not_known_may_be_adjusted() -> None:
    """The second was told before this stream began."""
    operator = AssumeKeyedOperator(_NO_ROWS)
    told: list[Element] = [Insert(("a", 1), 2, 5), Adjust(("a", 1), 2, 5, 2), Insert(("a", 1), 2, 9)]
    told.append(Adjust(("b", 1), 1, 7, 8))
    assert len(operator.on_batch(0, batch_of(told, _PAYLOAD)).batches) == 1
    with pytest.raises(UnknownEvent):
        operator.on_batch(0, batch_of([Adjust(("b", 1), 1, 7, 9)], _PAYLOAD))
