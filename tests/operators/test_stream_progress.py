"""Progress of one input, and the elements that contradict it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from slackwater.errors import BrokenOrder, BrokenPunctuation
from slackwater.events.elements import Adjust, Element, Insert, Punctuate, batch_of
from slackwater.operators.stream_progress import StreamProgress, insert_only

PAYLOAD = pa.schema({"x": pa.string()})


def _after(*elements: Element, progress: StreamProgress | None = None, ordered: bool = False) -> StreamProgress:
    return (progress or StreamProgress()).after(batch_of(elements, PAYLOAD), "step 'test'", ordered=ordered)


def test_only_punctuations_move_a_disordered_stream() -> None:
    """An event at 9 says nothing about what comes later."""
    assert _after(Punctuate(3), Insert(("a",), 9, 10)).complete_before == 3


def test_events_move_an_ordered_stream() -> None:
    """A punctuation behind them says nothing new."""
    assert _after(Insert(("a",), 9, 10), Punctuate(3), ordered=True).complete_before == 9


@pytest.mark.parametrize("ordered", [True, False])
def test_an_event_exactly_at_the_bound_is_on_time(ordered: bool) -> None:
    """Punctuations are half-open."""
    assert _after(Punctuate(3), Insert(("a",), 3, 4), ordered=ordered).complete_before == 3


@pytest.mark.parametrize("cut", [True, False])
def test_an_event_behind_a_punctuation_is_named(cut: bool) -> None:
    """Within one batch and from one batch to the next, with the punctuation that it contradicts."""
    fine: list[Element] = [Punctuate(3), Punctuate(7)]
    late: list[Element] = [Insert(("fine",), 8, 9), Insert(("late",), 6, 9), Punctuate(20)]
    progress = _after(*fine) if cut else None
    kept = [] if cut else fine
    with pytest.raises(BrokenPunctuation, match=r"(?s)step 'test'.*late.*6.*complete before  7"):
        _after(*kept, *late, progress=progress)


@pytest.mark.parametrize("cut", [True, False])
def test_an_event_behind_another_is_named_on_an_ordered_stream(cut: bool) -> None:
    """Within one batch and from one batch to the next."""
    first, second = Insert(("first",), 8, 9), Insert(("second",), 6, 9)
    progress = _after(first, ordered=True) if cut else None
    with pytest.raises(BrokenOrder, match=r"(?s)step 'test'.*second.*8"):
        _after(*([] if cut else [first]), second, progress=progress, ordered=True)


def test_a_batch_is_insert_only_unless_it_has_an_adjust() -> None:
    """Whether or not it has the column for adjusts."""
    assert insert_only(batch_of([Insert(("a",), 1, 2), Punctuate(2)], PAYLOAD))
    assert not insert_only(batch_of([Adjust(("a",), 1, 2, 1)], PAYLOAD))
