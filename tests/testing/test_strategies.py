"""The strategies draw what they say: valid streams with true punctuations, and corners often enough."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from slackwater.events.batch import EventBatch
from slackwater.events.elements import Adjust
from slackwater.progress.instants import FOREVER
from slackwater.temporal.freeze import Freeze, freeze_of
from slackwater.temporal.table import temporal_table_of
from slackwater.testing.strategies import (
    KEYED,
    LONGEST,
    batch_cuts,
    disordered_batches,
    element_streams,
    intervals,
    keyed_tables,
    ordered_batches,
    temporal_tables,
)
from slackwater.testing.tables import assert_same_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import SearchStrategy

    from slackwater.events.elements import Element
    from slackwater.temporal.table import TemporalTable


@given(ordered_batches())
def test_ordered_batches_are_ordered_points_with_true_punctuations(batch: EventBatch) -> None:
    """Starts never decrease, ends are absent, and reconstituting finds no broken punctuation."""
    batch.check()
    starts = batch.data().start.tolist()
    assert starts == sorted(starts)
    assert batch.end is None
    assert len(temporal_table_of(batch)) == batch.rows


@given(ordered_batches(schema=KEYED, intervals=True, max_rows=5))
def test_ordered_batches_take_a_schema_a_length_and_intervals(batch: EventBatch) -> None:
    """The arguments are kept; every interval lasts for 1 to LONGEST units, or has no end."""
    batch.check()
    data = batch.data()
    assert batch.payload.schema == KEYED
    assert batch.rows <= 5
    ends = zip(data.start.tolist(), data.ends().tolist(), strict=True)
    assert all(end == FOREVER or 1 <= end - start <= LONGEST for start, end in ends)


@given(disordered_batches(intervals=True))
def test_disordered_batches_have_true_punctuations(batch: EventBatch) -> None:
    """Whatever the order, no row comes after a punctuation that rules it out."""
    batch.check()
    assert len(temporal_table_of(batch)) == batch.rows


@given(st.one_of(ordered_batches(punctuated=False), disordered_batches(punctuated=False)))
def test_batches_without_punctuations_have_no_kind_column(batch: EventBatch) -> None:
    """Absent columns are statements, and this one is made."""
    assert batch.kind is None


@given(ordered_batches(schema=pa.schema([])))
def test_batches_may_have_no_payload_columns_at_all(batch: EventBatch) -> None:
    """The rows are still counted."""
    batch.check()
    assert len(temporal_table_of(batch)) == batch.rows


@given(st.data())
def test_cuts_are_consecutive_and_complete(data: st.DataObject) -> None:
    """Put together again they are the batch, element by element."""
    batch = data.draw(st.one_of(ordered_batches(), disordered_batches(intervals=True)))
    parts = data.draw(batch_cuts(batch))
    assert sum(map(len, parts)) == len(batch)
    assert EventBatch.concat(parts).start.tolist() == batch.start.tolist()
    assert_same_table(parts, batch)


@given(intervals())
def test_intervals_last(interval: tuple[int, int]) -> None:
    """Each lasts for at least one unit."""
    assert interval[0] < interval[1]


@given(keyed_tables())
def test_keyed_tables_are_keyed(table: TemporalTable) -> None:
    """Payload and start occur once."""
    assert table.is_keyed()


@given(element_streams())
def test_element_streams_are_valid(stream: list[Element]) -> None:
    """Every element fits those before it."""
    temporal_table_of(stream)


def _has_tie(batch: EventBatch) -> bool:
    return any(one == other for one, other in pairwise(batch.data().start.tolist()))


def _has_event_exactly_at_a_punctuation(batch: EventBatch) -> bool:
    return bool(set(batch.punctuations().tolist()) & set(batch.data().start.tolist()))


def _has_null(batch: EventBatch) -> bool:
    return batch.payload.column(0).null_count > 0


def _has_removal(stream: list[Element]) -> bool:
    return any(isinstance(element, Adjust) and element.end == element.start for element in stream)


def _has_half_frozen(stream: list[Element]) -> bool:
    table = temporal_table_of(stream)
    return any(freeze_of(event, table.complete_before) is Freeze.HALF_FROZEN for event in table)


def _is_disordered(batch: EventBatch) -> bool:
    starts = batch.data().start.tolist()
    return starts != sorted(starts) and len(batch.punctuations()) > 0


@pytest.mark.parametrize(
    ("strategy", "corner"),
    [
        (ordered_batches(), _has_tie),
        (ordered_batches(), _has_event_exactly_at_a_punctuation),
        (ordered_batches(), _has_null),
        (disordered_batches(), _is_disordered),
        (element_streams(), _has_removal),
        (element_streams(), _has_half_frozen),
        (temporal_tables(), lambda table: not table.is_keyed()),
    ],
)
def test_the_corners_are_drawn(strategy: SearchStrategy[object], corner: Callable[[object], bool]) -> None:
    """Ties, coincidences, nulls, removals and half frozen events are found within a few hundred draws."""
    find(strategy, corner, settings=settings(max_examples=500, database=None, phases=[Phase.generate]))
