"""A stream taken at its word that it is ordered: passed on unchanged, stopped at the first element that is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import BrokenOrder
from slackwater.events.batch import EventBatch
from slackwater.events.elements import Insert, Punctuate, batch_of
from slackwater.events.schema import EventSchema
from slackwater.operators.assume_ordered import AssumeOrderedOperator
from slackwater.progress.instants import BEGINNING
from slackwater.testing.strategies import KEYED, batch_cuts, ordered_batches

if TYPE_CHECKING:
    from slackwater.events.elements import Element

_SCHEMA = EventSchema.of(pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64()}), time="at")


def _events(*starts: int) -> EventBatch:
    payload = pa.record_batch({"k": pa.array(["x"] * len(starts), pa.string()), "v": pa.array(starts, pa.int64())})
    return EventBatch.inserts(payload, list(starts))


@given(ordered_batches(KEYED), st.data())
def test_an_ordered_stream_passes_unchanged(batch: EventBatch, data: st.DataObject) -> None:
    """However it is cut, and restored at every cut; batches are passed on, not copied."""
    operator = AssumeOrderedOperator(_SCHEMA)
    for piece in data.draw(batch_cuts(batch)):
        operator = AssumeOrderedOperator(_SCHEMA, resume=operator.snapshot())
        out = operator.on_batch(0, piece).batches
        assert len(out) == (1 if len(piece) else 0)
        assert all(one is piece for one in out)
    assert operator.on_end(0).batches == ()


def test_ties_are_in_order() -> None:
    """Within a batch and across two."""
    operator = AssumeOrderedOperator(_SCHEMA)
    operator.on_batch(0, _events(3, 3))
    operator.on_batch(0, _events(3, 4))
    assert operator.snapshot() == 4


def test_an_older_event_within_a_batch_is_refused() -> None:
    """The row is shown as users see it, and what it came after."""
    operator = AssumeOrderedOperator(_SCHEMA, "assume_ordered#2")
    with pytest.raises(
        BrokenOrder, match=r"(?s)'assume_ordered#2'.*\{'at': 4, 'k': 'x', 'v': 4\}.*came after  5.*hint"
    ):
        operator.on_batch(0, _events(3, 5, 4, 1))


def test_an_older_event_in_a_later_batch_is_refused() -> None:
    """Also after a restore."""
    operator = AssumeOrderedOperator(_SCHEMA)
    operator.on_batch(0, _events(5))
    with pytest.raises(BrokenOrder, match="came after  5"):
        AssumeOrderedOperator(_SCHEMA, resume=operator.snapshot()).on_batch(0, _events(4))


def test_a_refused_batch_leaves_no_trace() -> None:
    """What was passed on before stays what was passed on."""
    operator = AssumeOrderedOperator(_SCHEMA)
    operator.on_batch(0, _events(5))
    with pytest.raises(BrokenOrder):
        operator.on_batch(0, _events(9, 1))
    assert operator.snapshot() == 5


def test_a_punctuation_may_guarantee_less_than_the_events_have_shown() -> None:
    """It is late, not wrong."""
    operator = AssumeOrderedOperator(_SCHEMA)
    batch = EventBatch.concat([_events(5), _events().punctuation(3), _events(5)])
    assert operator.on_batch(0, batch).batches == (batch,)


def test_an_event_that_a_punctuation_had_ruled_out_is_refused() -> None:
    """A punctuation counts as progress of an ordered stream."""
    operator = AssumeOrderedOperator(_SCHEMA)
    operator.on_batch(0, _events().punctuation(5))
    operator.on_batch(0, _events(5))
    with pytest.raises(BrokenOrder, match="came after  5"):
        operator.on_batch(0, _events(4))


def test_calendar_times_are_written_for_people() -> None:
    """Not as microseconds."""
    schema = EventSchema.of(pa.schema({"at": pa.timestamp("us", "UTC")}), time="at")
    batch = schema.read(pa.record_batch({"at": pa.array([1_000_000, 0], pa.timestamp("us", "UTC"))}), "test")
    with pytest.raises(BrokenOrder, match=r"came after  1970-01-01T00:00:01\.000000Z"):
        AssumeOrderedOperator(schema).on_batch(0, batch)


def test_the_very_first_instant_is_in_order() -> None:
    """Nothing comes before the beginning."""
    operator = AssumeOrderedOperator(_SCHEMA)
    operator.on_batch(0, _events(BEGINNING, BEGINNING + 1))
    assert operator.snapshot() == BEGINNING + 1


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_strictly_ordered_means_that_no_two_events_have_one_time(cut: int) -> None:
    """Wherever batches are cut; what a punctuation names may still come, once."""
    schema = EventSchema.of(pa.schema({"at": pa.int64(), "x": pa.int64()}), time="at")
    payload = pa.schema({"x": pa.int64()})
    sent: list[Element] = [Insert((1,), 4), Punctuate(6), Insert((2,), 6), Insert((3,), 6)]
    step = AssumeOrderedOperator(schema, strictly=True)
    step.on_batch(0, batch_of(sent[:cut], payload))
    step = AssumeOrderedOperator(schema, "assume_ordered", step.snapshot(), strictly=True)
    with pytest.raises(BrokenOrder):
        step.on_batch(0, batch_of(sent[cut:], payload))
    AssumeOrderedOperator(schema).on_batch(0, batch_of(sent, payload))


def test_ties_of_plain_events_are_refused_too() -> None:
    """Batches without punctuations, in which nothing says what is an event: within one, and from one to the next."""
    for starts in ([3, 3], [1, 2, 2, 5]):
        with pytest.raises(BrokenOrder):
            AssumeOrderedOperator(_SCHEMA, strictly=True).on_batch(0, _events(*starts))
    step = AssumeOrderedOperator(_SCHEMA, strictly=True)
    step.on_batch(0, _events(1, 3))
    with pytest.raises(BrokenOrder):
        step.on_batch(0, _events(3))
    assert step.on_batch(0, _events(4)).batches


def test_replicas_that_are_declared_strictly_ordered_are_merged_by_the_newest_time() -> None:
    """Case R0."""
    rows = [{"at": at} for at in (1, 2, 5)]
    merged = sw.merge_replicas(*(sw.stream(rows, time="at").assume_ordered(strictly=True) for _ in range(2)))
    assert "case R0" in merged.explain()
    assert merged.run().table["at"].to_pylist() == [1, 2, 5]
