"""assume_keyed: passes a stream on while no event comes twice, revised or not, and finds the first that does."""

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
from slackwater.progress.instants import BEGINNING, FOREVER
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
    sent: list[Insert | Adjust] = []
    ends: dict[int, int] = {}
    for _ in range(draw(st.integers(0, 20))):
        start = draw(st.integers(0, 2))
        end, other = draw(st.integers(start, start + 4)), draw(st.integers(start, start + 4))
        if start not in ends or (wrong and draw(st.integers(0, 9)) == 0):
            sent.append(Insert(_PAYLOAD_ROW, start, max(end, start + 1)))
        else:
            prior = other if wrong and draw(st.integers(0, 9)) == 0 else ends[start]
            sent.append(Adjust(_PAYLOAD_ROW, start, prior, end))
        ends[start] = sent[-1].end
        if ends[start] == start:
            del ends[start]
    punctuated: list[Element] = []
    for place, element in enumerate(sent):
        if draw(st.booleans()):
            true_until = min(earliest_concerned(later) for later in sent[place:])
            punctuated_until = max(
                (one.complete_before for one in punctuated if isinstance(one, Punctuate)), default=BEGINNING
            )
            punctuated.append(Punctuate(max(punctuated_until, true_until - draw(st.integers(0, 1)))))
        punctuated.append(element)
    return punctuated


@given(sent=_streams(), cut=st.integers(1, 5), restore=st.booleans())
def test_the_first_event_that_breaks_the_key_is_found(sent: list[Element], cut: int, restore: bool) -> None:
    """As a plain dictionary finds it, however the stream is cut; what is frozen and forgotten is never needed again."""
    operator = AssumeKeyedOperator(_NO_ROWS)
    expected, passed = first_broken_key(sent), 0
    for first in range(0, len(sent), cut):
        part = sent[first : first + cut]
        broken = expected is not None and first <= expected < first + cut
        if restore:
            operator = AssumeKeyedOperator(_NO_ROWS, resume=operator.snapshot())
        if broken:
            assert expected is not None
            kind = UnknownEvent if isinstance(sent[expected], Adjust) else BadElement
            with pytest.raises(kind) as refused:
                operator.on_batch(0, batch_of(part, _PAYLOAD))
            assert str(sent[expected]) in str(refused.value)
            return
        (batch,) = operator.on_batch(0, batch_of(part, _PAYLOAD)).batches
        assert list(elements_of(batch)) == part
        passed += len(part)
        operator.check()
    assert expected is None
    assert passed == len(sent)


@given(sent=_streams(wrong=False), data=st.data(), restore=st.booleans())
def test_a_stream_with_a_key_passes_whatever_feedback_leaves_out(
    sent: list[Element], data: st.DataObject, restore: bool
) -> None:
    """Rows of no interest are missing, at any time, in front of the step; what is missed is no reason to complain."""
    interest, operator, cut = Interest(), AssumeKeyedOperator(_NO_ROWS), data.draw(st.integers(1, 3))
    for first in range(0, len(sent), cut):
        if restore:
            operator = AssumeKeyedOperator(_NO_ROWS, resume=operator.snapshot())
        if data.draw(st.booleans()):
            operator.ignore_before(data.draw(st.integers(-1, 6)))
            interest.begin_at(operator.of_interest_from(0))
        operator.on_batch(0, interest.rows_of(batch_of(sent[first : first + cut], _PAYLOAD)))
        operator.check()


def test_what_is_frozen_is_forgotten() -> None:
    """Memory is for the events that may still be changed, twice as many at most."""
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
    """The second was sent before this stream began."""
    operator = AssumeKeyedOperator(_NO_ROWS)
    sent: list[Element] = [Insert(("a", 1), 2, 5), Adjust(("a", 1), 2, 5, 2), Insert(("a", 1), 2, 9)]
    sent.append(Adjust(("b", 1), 1, 7, 8))
    assert len(operator.on_batch(0, batch_of(sent, _PAYLOAD)).batches) == 1
    with pytest.raises(UnknownEvent):
        operator.on_batch(0, batch_of([Adjust(("b", 1), 1, 7, 9)], _PAYLOAD))


# ---- streams that only insert ----------------------------------------------------------------------------------------

_INSTANTS = st.one_of(st.integers(0, 4), st.sampled_from([BEGINNING + 1, BEGINNING + 2, FOREVER - 2, FOREVER - 1]))


@st.composite
def _inserted(draw: st.DrawFn, *, ordered: bool) -> list[Element]:
    """Inserts of few payloads, some with long lives, and punctuations that none of them contradicts."""
    starts = draw(st.lists(_INSTANTS, max_size=16))
    starts = sorted(starts) if ordered else starts
    sent: list[Element] = []
    punctuated_until = BEGINNING
    for place, start in enumerate(starts):
        if draw(st.integers(0, 3)) == 0:
            punctuated_until = max(punctuated_until, min(starts[place:]))
            sent.append(Punctuate(punctuated_until))
        end = draw(st.sampled_from([start + 1, min(start, FOREVER - 9) + 9, FOREVER]))
        sent.append(Insert((draw(st.sampled_from("ab")), 1), start, end))
    return sent + [Punctuate(FOREVER)] * draw(st.booleans())


@pytest.mark.parametrize("ordered", [False, True])
@given(data=st.data(), cut=st.integers(1, 5), restore=st.booleans(), ignored=st.booleans())
def test_the_first_row_that_comes_twice_is_found(
    ordered: bool, data: st.DataObject, cut: int, restore: bool, ignored: bool
) -> None:
    """By its start and payload, whatever its end and however the stream is cut; feedback makes no difference."""
    sent = data.draw(_inserted(ordered=ordered))
    seen: set[object] = set()
    expected = None
    for place, element in enumerate(sent):
        if isinstance(element, Insert) and expected is None:
            expected = place if (element.payload, element.start) in seen else None
            seen.add((element.payload, element.start))
    operator = AssumeKeyedOperator(_NO_ROWS, final=True, ordered=ordered)
    for first in range(0, len(sent), cut):
        if restore:
            operator = AssumeKeyedOperator(_NO_ROWS, resume=operator.snapshot(), final=True, ordered=ordered)
        if ignored:
            operator.ignore_before(3)
        part = sent[first : first + cut]
        if expected is not None and first <= expected < first + cut:
            with pytest.raises(BadElement, match="deduplicate") as refused:
                operator.on_batch(0, batch_of(part, _PAYLOAD))
            assert str(sent[expected]) in str(refused.value)
            return
        (batch,) = operator.on_batch(0, batch_of(part, _PAYLOAD)).batches
        assert list(elements_of(batch)) == part
        operator.check()
    assert expected is None


@pytest.mark.parametrize("ordered", [False, True])
def test_rows_of_complete_times_are_forgotten_though_they_last_for_ever(ordered: bool) -> None:
    """By a punctuation, or by the order of rows: memory is for the rows of times that are not complete."""
    operator = AssumeKeyedOperator(_NO_ROWS, final=True, ordered=ordered)
    for first in range(0, 100_000, 1_000):
        sent: list[Element] = [Insert(("a", n), n, FOREVER) for n in range(first, first + 1_000)]
        operator.on_batch(0, batch_of(sent if ordered else [*sent, Punctuate(first + 1_000)], _PAYLOAD))
        operator.check()
    assert len(operator.snapshot().known) <= 1
    assert len(operator._table) <= 16_384
