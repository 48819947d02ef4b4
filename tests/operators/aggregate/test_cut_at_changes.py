"""Cutting at changes: pieces that share an interval or do not overlap, and snapshots made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BrokenOrder, SchemaMismatch
from slackwater.events.elements import Element, Insert, Punctuate, batch_of, elements_of
from slackwater.events.schema import EventSchema
from slackwater.operators.aggregate.aggregate import AggregateOperator
from slackwater.operators.aggregate.cut_at_changes import CutAtChangesOperator, CutAtChangesState
from slackwater.operators.window import WindowOperator, windowed_schema
from slackwater.policies import aggregates as sw
from slackwater.policies.windows import Sliding
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.testing.oracles.aggregate import snapshot_oracle
from slackwater.testing.oracles.windows import window_oracle
from slackwater.testing.strategies import MEASURED, batch_cuts, ordered_batches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slackwater.events.batch import EventBatch
    from slackwater.policies.aggregates import Aggregate

NAMES = EventSchema.of(
    pa.schema({"from": pa.int64(), "to": pa.int64(), "k": pa.string(), "x": pa.string()}), time="from", until="to"
)
"""Intervals with a key and a name."""

STAYS = EventSchema.of(
    pa.schema({"from": pa.int64(), "to": pa.int64(), **{field.name: field.type for field in MEASURED}}),
    time="from",
    until="to",
)
"""Intervals with a key, an integer and a float."""

EVERYTHING: dict[str, Aggregate] = {
    "rows": sw.count(),
    "total": sw.sum("x"),
    "least": sw.min("v"),
    "average": sw.mean("x"),
    "different": sw.count_distinct("v"),
    "top": sw.top_k("v", 2),
}


def _run(batches: Sequence[EventBatch], schema: EventSchema, keys: list[str]) -> list[EventBatch]:
    """Feed batches and end, resuming a new operator from a snapshot at every boundary."""
    emitted: list[EventBatch] = []
    resume: CutAtChangesState | None = None
    for batch in [*batches, None]:
        operator = CutAtChangesOperator(schema, keys, resume=resume)
        emission = operator.on_end(0) if batch is None else operator.on_batch(0, batch)
        operator.check()
        for out in emission.batches:
            out.check()
        emitted += emission.batches
        resume = operator.snapshot()
    assert operator.buffered() == 0
    return emitted


def _snapshots(
    pieces: Sequence[EventBatch], schema: EventSchema, keys: list[str], what: Mapping[str, Aggregate]
) -> list[Insert]:
    """Aggregate the pieces; the aggregation itself refuses pieces that contradict a punctuation."""
    operator = AggregateOperator(schema, keys, what, ordered=False)
    emissions = [operator.on_batch(0, batch) for batch in pieces]
    return _inserts([batch for emission in [*emissions, operator.on_end(0)] for batch in emission.batches])


def _named(*elements: Element) -> EventBatch:
    return batch_of(elements, NAMES.payload)


def _event(key: str | None, name: str, start: int, end: int) -> Insert:
    return Insert((key, name), start, end)


def _emitted(batches: Sequence[EventBatch]) -> list[Element]:
    return [element for batch in batches for element in elements_of(batch)]


def _inserts(batches: Sequence[EventBatch]) -> list[Insert]:
    return [element for element in _emitted(batches) if isinstance(element, Insert)]


def _check_guarantees(emitted: Sequence[Element]) -> None:
    """Punctuations go forward, and no piece contradicts one."""
    guaranteed = BEGINNING
    for element in emitted:
        if isinstance(element, Punctuate):
            assert element.complete_before > guaranteed
            guaranteed = element.complete_before
        else:
            assert element.start >= guaranteed, (element, guaranteed)


def test_events_are_cut_where_others_of_their_group_start_and_end() -> None:
    """The drawing at the head of the operator's file, and a stranger that cuts nothing."""
    batch = _named(_event("k", "a", 1, 9), _event("other", "c", 2, 5), _event("k", "b", 4, 6))
    assert _inserts(_run([batch], NAMES, ["k"])) == [
        _event("k", "a", 1, 4),
        _event("other", "c", 2, 5),
        _event("k", "a", 4, 6),
        _event("k", "b", 4, 6),
        _event("k", "a", 6, 9),
    ]


def test_pieces_are_sent_as_soon_as_they_are_final() -> None:
    """And the punctuation after them holds for the pieces still to come."""
    operator = CutAtChangesOperator(NAMES, ["k"])
    steps: list[tuple[Element, list[Element]]] = [
        (_event("k", "a", 1, 9), [Punctuate(1)]),
        (_event("k", "b", 4, 6), [_event("k", "a", 1, 4), Punctuate(4)]),
        (Punctuate(5), []),
        (Punctuate(7), [_event("k", "a", 4, 6), _event("k", "b", 4, 6), Punctuate(6)]),
        (Punctuate(9), [_event("k", "a", 6, 9), Punctuate(9)]),
    ]
    for element, expected in steps:
        assert _emitted(operator.on_batch(0, _named(element)).batches) == expected
        operator.check()
    assert operator.buffered() == 0


def test_events_without_keys_are_one_group() -> None:
    """Every change cuts every event."""
    batch = _named(_event("k", "a", 1, 9), _event("other", "c", 2, 5))
    pieces = [(piece.start, piece.end) for piece in _inserts(_run([batch], NAMES, []))]
    assert pieces == [(1, 2), (2, 5), (2, 5), (5, 9)]


def test_null_is_a_group_like_any_other() -> None:
    """As GROUP BY does it."""
    batch = _named(_event(None, "a", 1, 9), _event("k", "b", 2, 5), _event(None, "c", 3, 9))
    pieces = [(piece.payload, piece.start, piece.end) for piece in _inserts(_run([batch], NAMES, ["k"]))]
    assert pieces == [((None, "a"), 1, 3), (("k", "b"), 2, 5), ((None, "a"), 3, 9), ((None, "c"), 3, 9)]


def test_events_of_no_length_neither_cut_nor_come_out() -> None:
    """They are never alive, but their time is progress."""
    batch = _named(_event("k", "a", 1, 9), _event("k", "empty", 5, 5))
    assert _emitted(_run([batch], NAMES, ["k"])) == [Punctuate(1), _event("k", "a", 1, 9), Punctuate(FOREVER)]


def test_open_ended_events_are_cut_and_finished_at_the_end() -> None:
    """FOREVER is the last change."""
    batch = _named(_event("k", "a", 1, FOREVER), _event("k", "b", 3, FOREVER))
    pieces = [(piece.start, piece.end) for piece in _inserts(_run([batch], NAMES, ["k"]))]
    assert pieces == [(1, 3), (3, FOREVER), (3, FOREVER)]


def test_there_is_no_row_where_nothing_is_alive() -> None:
    """Two stays with a gap between them give two rows, not three."""
    pieces = _run([_named(_event("k", "a", 1, 3), _event("k", "b", 5, 8))], NAMES, ["k"])
    assert _snapshots(pieces, NAMES, ["k"], {"n": sw.count()}) == [Insert(("k", 1), 1, 3), Insert(("k", 1), 5, 8)]


def test_how_many_are_alive_over_time() -> None:
    """The value holds for the longest interval in which the same events are alive."""
    pieces = _run([_named(_event("k", "a", 1, 9), _event("k", "b", 4, 6))], NAMES, ["k"])
    assert _snapshots(pieces, NAMES, ["k"], {"n": sw.count()}) == [
        Insert(("k", 1), 1, 4),
        Insert(("k", 2), 4, 6),
        Insert(("k", 1), 6, 9),
    ]


def test_empty_batches_say_nothing() -> None:
    """Nor does the end of an empty stream, but that it is over."""
    assert _emitted(_run([_named(), _named()], NAMES, ["k"])) == [Punctuate(FOREVER)]


def test_disorder_is_refused() -> None:
    """The step and the element are named."""
    operator = CutAtChangesOperator(NAMES, ["k"], step="stays")
    with pytest.raises(BrokenOrder, match=r"(?s)step 'stays'.*late"):
        operator.on_batch(0, _named(_event("k", "a", 5, 9), _event("k", "late", 4, 9)))


def test_unusable_keys_are_refused_when_built() -> None:
    """Unknown ones and nested ones."""
    nested = EventSchema.of(pa.schema({"at": pa.int64(), "list": pa.list_(pa.int64())}), time="at")
    with pytest.raises(SchemaMismatch, match="nowhere"):
        CutAtChangesOperator(NAMES, ["nowhere"])
    with pytest.raises(SchemaMismatch, match="list"):
        CutAtChangesOperator(nested, ["list"])


@given(st.data())
def test_snapshots_of_intervals_equal_the_oracle(data: st.DataObject) -> None:
    """All aggregates, any cuts, restored at every boundary."""
    batch = data.draw(ordered_batches(MEASURED, intervals=True))
    keys = data.draw(st.sampled_from([["k"], [], ["k", "v"]]))
    pieces = _run(data.draw(batch_cuts(batch)), STAYS, keys)
    _check_guarantees(_emitted(pieces))
    expected = snapshot_oracle(_inserts([batch]), MEASURED.names, keys, EVERYTHING)
    assert _by_interval(_snapshots(pieces, STAYS, keys, EVERYTHING)) == _by_interval(expected)


@given(st.data())
def test_the_rows_of_snapshots_come_in_the_same_order_whatever_the_cuts(data: st.DataObject) -> None:
    """Not only the table is the same: so is the list."""
    batch = data.draw(ordered_batches(MEASURED, intervals=True))
    whole, cut = (_run(batches, STAYS, ["k"]) for batches in ([batch], data.draw(batch_cuts(batch))))
    assert _snapshots(whole, STAYS, ["k"], EVERYTHING) == _snapshots(cut, STAYS, ["k"], EVERYTHING)


@given(st.data())
def test_sliding_windows_say_what_the_last_while_held(data: st.DataObject) -> None:
    """A sliding window, cut at changes, aggregated."""
    points = EventSchema.of(pa.schema({"at": pa.int64(), **{field.name: field.type for field in MEASURED}}), time="at")
    batch = data.draw(ordered_batches(MEASURED))
    assign = WindowOperator(Sliding(6), points, ordered=True)
    windowed = [out for part in data.draw(batch_cuts(batch)) for out in assign.on_batch(0, part).batches]
    pieces = _run(windowed, windowed_schema(points), ["k"])
    assigned = [event for event in window_oracle(elements_of(batch), Sliding(6)) if isinstance(event, Insert)]
    expected = snapshot_oracle(assigned, MEASURED.names, ["k"], EVERYTHING)
    assert _by_interval(_snapshots(pieces, windowed_schema(points), ["k"], EVERYTHING)) == _by_interval(expected)


def _by_interval(rows: Sequence[Insert]) -> list[tuple[int, int, str]]:
    """The rows as a table: in no order but that of their text."""
    return sorted((row.start, row.end, repr(row.payload)) for row in rows)
