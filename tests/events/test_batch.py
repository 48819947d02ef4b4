"""Event batches against the slow form: every operation does to the columns what it says it does to the elements."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.elements import Element, Punctuate, batch_of, elements_of
from slackwater.events.kinds import Kind
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.testing.strategies import batch_cuts, disordered_batches, element_streams, ordered_batches

_NAMES = pa.schema({"x": pa.string()})
_NO_COLUMNS = pa.schema([])


def _streams() -> st.SearchStrategy[EventBatch]:
    """Batches of every shape: points and intervals, with and without punctuations, adjusts and columns."""
    return st.one_of(
        ordered_batches(),
        disordered_batches(intervals=True),
        ordered_batches(_NO_COLUMNS),
        element_streams().map(lambda elements: batch_of(elements, _NAMES)),
    )


def _spelled(batch: EventBatch) -> list[Element]:
    batch.check()
    return list(elements_of(batch))


@given(_streams(), st.data())
def test_a_slice_is_the_slice_of_the_elements(batch: EventBatch, data: st.DataObject) -> None:
    """Punctuations have no payload row, and rows after them are still found."""
    first = data.draw(st.integers(0, len(batch)))
    stop = data.draw(st.integers(first, len(batch)))
    assert _spelled(batch.slice(first, stop)) == _spelled(batch)[first:stop]


@given(_streams(), st.data())
def test_cut_batches_put_together_are_the_batch_again(batch: EventBatch, data: st.DataObject) -> None:
    """Empty pieces included."""
    assert _spelled(EventBatch.concat(data.draw(batch_cuts(batch)))) == _spelled(batch)


@given(st.lists(ordered_batches(_NAMES, max_rows=6), min_size=1, max_size=4))
def test_batches_with_and_without_kinds_and_ends_can_be_put_together(batches: list[EventBatch]) -> None:
    """What is absent in one and present in another is spelled out."""
    together = EventBatch.concat(batches)
    assert _spelled(together) == [element for batch in batches for element in _spelled(batch)]


def test_points_and_intervals_can_be_put_together() -> None:
    """A point is the interval of one unit."""
    points = EventBatch.inserts(pa.record_batch({"x": ["a"]}), start=[3])
    lasting = EventBatch.inserts(pa.record_batch({"x": ["b"]}), start=[4], end=[FOREVER])
    both = EventBatch.concat([points, points.punctuation(4), lasting])
    assert [str(element) for element in _spelled(both)] == [
        "insert(('a',), 3, 4)",
        "punctuate(4)",
        "insert(('b',), 4, forever)",
    ]


@given(_streams(), st.data())
def test_kept_rows_are_the_marked_rows_and_every_punctuation(batch: EventBatch, data: st.DataObject) -> None:
    """The mask has one entry per payload row, none per punctuation."""
    keep = data.draw(st.lists(st.booleans(), min_size=batch.rows, max_size=batch.rows))
    marks = iter(keep)
    expected = [element for element in _spelled(batch) if isinstance(element, Punctuate) or next(marks)]
    assert _spelled(batch.keep_rows(np.array(keep, dtype=np.bool_))) == expected


@given(_streams())
def test_data_and_punctuations_are_the_two_parts_of_a_batch(batch: EventBatch) -> None:
    """Nothing is in both, and nothing is in neither."""
    elements = _spelled(batch)
    guarantees = [element.complete_before for element in elements if isinstance(element, Punctuate)]
    assert _spelled(batch.data()) == [element for element in elements if not isinstance(element, Punctuate)]
    assert batch.punctuations().tolist() == guarantees
    assert batch.last_punctuation() == (guarantees[-1] if guarantees else None)
    assert len(batch) == batch.rows + len(guarantees)


@given(_streams())
def test_absent_columns_spelled_out_say_the_same(batch: EventBatch) -> None:
    """kinds, ends and is_data agree with the elements."""
    elements = _spelled(batch)
    assert len(batch.kinds()) == len(batch.ends()) == len(batch.prior_ends()) == len(elements)
    data = batch.is_data()
    assert (data is None) == (batch.kind is None)
    if data is not None:
        assert data.tolist() == [not isinstance(element, Punctuate) for element in elements]


def test_rows_are_gathered_by_number() -> None:
    """Any order, any number of times, with their intervals."""
    batch = EventBatch.inserts(pa.record_batch({"x": ["a", "b", "c"]}), start=[1, 2, 3], end=[4, 5, 6])
    taken = batch.take_rows(np.array([2, 0, 0]))
    assert taken.payload.column("x").to_pylist() == ["c", "a", "a"]
    assert (taken.start.tolist(), taken.ends().tolist()) == ([3, 1, 1], [6, 4, 4])


def test_other_columns_can_be_put_over_the_same_elements() -> None:
    """Times and punctuations stay."""
    batch = EventBatch.concat([_batch("a", "b"), _batch("c").punctuation(9)])
    renamed = batch.with_payload(pa.record_batch({"y": [1, 2]}))
    renamed.check()
    assert renamed.payload.column_names == ["y"]
    assert renamed.start is batch.start
    assert renamed.last_punctuation() == 9


def test_a_batch_cannot_be_changed() -> None:
    """Neither its fields nor its columns; the caller's own array stays writable."""
    times = np.array([1, 2], dtype=np.int64)
    batch = EventBatch.inserts(pa.record_batch({"x": ["a", "b"]}), start=times, end=times)
    with pytest.raises(dataclasses.FrozenInstanceError):
        batch.start = times  # type: ignore[misc]
    for column in (batch.start, batch.end, punctuation_like(batch.payload.slice(0, 0), 3).kind):
        assert column is not None
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 7
    times[0] = 0
    assert times.flags.writeable


def test_int64_times_are_not_copied() -> None:
    """A batch over a column of a million times costs nothing to make."""
    times = np.arange(3, dtype=np.int64)
    assert np.shares_memory(EventBatch.inserts(pa.record_batch({"x": [1, 2, 3]}), start=times).start, times)
    batch = _batch("a", "b", "c")
    assert np.shares_memory(batch.slice(1, 3).start, batch.start)
    assert EventBatch.concat([batch]) is batch
    assert batch.data() is batch
    assert batch.keep_rows(np.ones(3, dtype=np.bool_)) is batch


def test_a_payload_without_columns_still_has_rows() -> None:
    """Streams of nothing but times are streams too, whatever is done to them."""
    payload = pa.record_batch({"x": [1, 2, 3]}).select([])
    batch = EventBatch.inserts(payload, start=[1, 2, 3])
    assert batch.rows == 3
    assert batch.slice(1, 3).rows == 2
    assert batch.keep_rows(np.array([True, False, True])).rows == 2
    assert batch.take_rows(np.array([0, 0])).rows == 2
    assert EventBatch.concat([batch, batch.punctuation(4), batch]).rows == 6
    for made in (batch, batch.slice(1, 2), batch.keep_rows(np.array([False, False, True]))):
        made.check()


def test_an_empty_batch_is_a_batch() -> None:
    """It has no elements, no rows and no punctuations."""
    empty = EventBatch.inserts(pa.record_batch({"x": pa.array([], pa.string())}), start=[])
    empty.check()
    assert (len(empty), empty.rows, empty.last_punctuation()) == (0, 0, None)
    assert _spelled(empty) == []


@pytest.mark.parametrize("instant", [BEGINNING, 0, FOREVER])
def test_a_punctuation_may_be_anywhere_in_time(instant: int) -> None:
    """From the beginning, which guarantees nothing, to the end of the stream."""
    batch = _batch("a").punctuation(instant)
    batch.check()
    assert _spelled(batch) == [Punctuate(instant)]
    assert batch.payload.schema == _NAMES


@pytest.mark.parametrize(
    "broken",
    [
        EventBatch(pa.record_batch({"x": ["a"]}), np.array([1, 2])),
        EventBatch(pa.record_batch({"x": ["a"]}), np.array([1]), np.array([1, 2])),
        EventBatch(pa.record_batch({"x": ["a"]}), np.array([2]), np.array([1])),
        EventBatch(pa.record_batch({"x": ["a"]}), np.array([1]), None, np.array([Kind.ADJUST], dtype=np.int8)),
        EventBatch(pa.record_batch({"x": ["a"]}), np.array([1]), None, np.array([Kind.PUNCTUATE], dtype=np.int8)),
        EventBatch(pa.record_batch({"x": ["a"]}), np.array([FOREVER])),
    ],
    ids=["rows", "lengths", "backward", "adjust without prior end", "payload of a punctuation", "at the end of time"],
)
def test_check_finds_columns_that_do_not_fit_together(broken: EventBatch) -> None:
    """Each of its assertions can fail."""
    with pytest.raises(AssertionError):
        broken.check()


def _batch(*names: str) -> EventBatch:
    return EventBatch.inserts(pa.record_batch({"x": list(names)}), start=range(len(names)))
