"""The aggregation operator: each group once, when it is complete, in an order that does not depend on the cuts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BrokenOrder, BrokenPunctuation, RunError
from slackwater.events.elements import Element, Insert, Punctuate, batch_of, elements_of
from slackwater.events.schema import EventSchema
from slackwater.operators.aggregate.aggregate import AggregateOperator, AggregateState, aggregate_schema
from slackwater.operators.aggregate.partials import Partial
from slackwater.operators.window import WindowOperator, windowed_schema
from slackwater.policies import aggregates as sw
from slackwater.policies.windows import Hopping, Tumbling, Window
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.testing.oracles.aggregate import aggregate_oracle
from slackwater.testing.oracles.windows import window_oracle
from slackwater.testing.strategies import MEASURED, batch_cuts, disordered_batches, ordered_batches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slackwater.events.batch import EventBatch
    from slackwater.policies.aggregates import Aggregate

NAMES = EventSchema.of(pa.schema({"from": pa.int64(), "to": pa.int64(), "x": pa.string()}), time="from", until="to")
"""Intervals with a name."""

POINTS = EventSchema.of(pa.schema({"at": pa.int64(), **{field.name: field.type for field in MEASURED}}), time="at")
"""Points with a key, an integer and a float."""

COUNT: dict[str, Aggregate] = {"n": sw.count()}

EVERYTHING: dict[str, Aggregate] = {
    "rows": sw.count(),
    "present": sw.count("x"),
    "total": sw.sum("v"),
    "float_total": sw.sum("x"),
    "least": sw.min("x"),
    "greatest": sw.max("v"),
    "average": sw.mean("x"),
    "different": sw.count_distinct("v"),
    "top": sw.top_k("v", 2),
}


def _run(
    batches: Sequence[EventBatch], schema: EventSchema, keys: list[str], what: Mapping[str, Aggregate], *, ordered: bool
) -> list[Element]:
    """Feed batches and end, resuming a new operator from a snapshot at every boundary."""
    emitted: list[Element] = []
    resume: AggregateState | None = None
    for batch in [*batches, None]:
        operator = AggregateOperator(schema, keys, what, ordered=ordered, resume=resume)
        emission = operator.on_end(0) if batch is None else operator.on_batch(0, batch)
        operator.check()
        for out in emission.batches:
            out.check()
            assert out.payload.schema == aggregate_schema(schema, keys, what).payload
            emitted += elements_of(out)
        resume = operator.snapshot()
    assert operator.buffered() == 0
    return emitted


def _named(*elements: Element) -> EventBatch:
    return batch_of(elements, NAMES.payload)


def _inserts(elements: Sequence[Element]) -> list[Insert]:
    return [element for element in elements if isinstance(element, Insert)]


def _check_guarantees(emitted: Sequence[Element]) -> None:
    """Rows are ordered, punctuations go forward, and no row contradicts a punctuation or a row before it."""
    guaranteed = BEGINNING
    for element in emitted:
        at = element.complete_before if isinstance(element, Punctuate) else element.start
        assert at >= guaranteed, (element, guaranteed)
        guaranteed = at


def test_a_group_is_emitted_when_its_start_is_complete() -> None:
    """The first window goes when an event of the second comes; the second goes at the end."""
    first, second = Insert(("a",), 0, 10), Insert(("b",), 10, 20)
    operator = AggregateOperator(NAMES, [], COUNT, ordered=True)
    assert operator.on_batch(0, _named(first, first)).batches[0].last_punctuation() == 0
    assert operator.buffered() == 1
    emitted = [element for batch in operator.on_batch(0, _named(second)).batches for element in elements_of(batch)]
    assert emitted == [Insert((2,), 0, 10), Punctuate(10)]
    assert [str(element) for element in elements_of(operator.on_end(0).batches[0])] == ["insert((1,), 10, 20)"]
    assert operator.buffered() == 0


def test_without_order_only_punctuations_release() -> None:
    """Events far ahead say nothing; the punctuation 10 closes the window that starts at 0."""
    ahead, behind = Insert(("a",), 50, 60), Insert(("b",), 0, 10)
    emitted = _run([_named(ahead, behind), _named(Punctuate(10))], NAMES, ["x"], COUNT, ordered=False)
    assert emitted == [Insert(("b", 1), 0, 10), Punctuate(10), Insert(("a", 1), 50, 60), Punctuate(FOREVER)]


def test_a_group_that_starts_exactly_at_the_bound_stays_open() -> None:
    """Punctuations are half-open: more may come at 10."""
    at_bound = Insert(("a",), 10, 20)
    emitted = _run([_named(at_bound, Punctuate(10)), _named(at_bound)], NAMES, ["x"], COUNT, ordered=False)
    assert emitted == [Punctuate(10), Insert(("a", 2), 10, 20), Punctuate(FOREVER)]


def test_groups_of_one_start_come_by_end_then_by_first_appearance() -> None:
    """Windows of different length may start together."""
    events = [Insert((x,), 0, end) for x, end in [("b", 9), ("a", 5), ("c", 9), ("a", 9), ("b", 5), ("c", 9)]]
    emitted = _run([_named(*events[:4]), _named(*events[4:])], NAMES, ["x"], COUNT, ordered=True)
    assert [(row.end, row.payload) for row in _inserts(emitted)] == [
        (5, ("a", 1)),
        (5, ("b", 1)),
        (9, ("b", 1)),
        (9, ("c", 2)),
        (9, ("a", 1)),
    ]


def test_a_punctuation_that_says_no_more_than_the_rows_is_not_repeated() -> None:
    """Nothing new, nothing emitted."""
    emitted = _run([_named(Punctuate(5)), _named(Punctuate(5)), _named(Punctuate(4))], NAMES, [], COUNT, ordered=False)
    assert emitted == [Punctuate(5), Punctuate(FOREVER)]


def test_forever_releases_everything() -> None:
    """A stream that says it is over need not be ended to be heard."""
    batch = _named(Insert(("a",), 7, FOREVER), Punctuate(FOREVER))
    operator = AggregateOperator(NAMES, [], COUNT, ordered=False)
    emitted = [element for out in operator.on_batch(0, batch).batches for element in elements_of(out)]
    assert emitted == [Insert((1,), 7, FOREVER), Punctuate(FOREVER)]
    assert operator.on_end(0).batches == ()


def test_empty_batches_and_empty_streams_say_nothing() -> None:
    """There is no row for a window that nothing fell into; only the end is emitted."""
    what = {"n": sw.count(), "different": sw.count_distinct("x"), "top": sw.top_k("x", 2)}
    assert _run([_named(), _named()], NAMES, ["x"], what, ordered=True) == [Punctuate(FOREVER)]


def test_a_broken_guarantee_names_the_event() -> None:
    """A row older than a punctuation before it, within one batch."""
    batch = _named(Punctuate(10), Insert(("late",), 9, 20), Punctuate(30))
    with pytest.raises(BrokenPunctuation, match=r"(?s)step 'hourly'.*late.*complete before  10"):
        AggregateOperator(NAMES, [], COUNT, ordered=False, step="hourly").on_batch(0, batch)


def test_broken_order_names_the_event() -> None:
    """A row older than the row before it, on a stream that was declared ordered."""
    batch = _named(Insert(("a",), 10, 20), Insert(("late",), 9, 20))
    with pytest.raises(BrokenOrder, match="late"):
        AggregateOperator(NAMES, [], COUNT, ordered=True).on_batch(0, batch)


def test_a_sum_beyond_int64_stops_the_step_with_its_name() -> None:
    """No wrap-around, also when the parts came in different batches."""
    schema = EventSchema.of(pa.schema({"at": pa.int64(), "v": pa.int64()}), time="at")
    large = batch_of([Insert((2**62,), 0, 10)], schema.payload)
    operator = AggregateOperator(schema, [], {"total": sw.sum("v")}, ordered=False, step="totals")
    for _ in range(2):
        operator.on_batch(0, large)
    with pytest.raises(RunError, match=r"(?s)step 'totals'.*sum\(v\).*\[0, 10\).*9223372036854775808"):
        operator.on_end(0)


def test_punctuations_inside_a_batch_cost_no_grouping_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A punctuation after every row: still one partial per batch."""
    made: list[int] = []
    of = Partial.of

    def counted(rows: EventBatch, *rest: object) -> Partial:
        made.append(rows.rows)
        return of(rows, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Partial, "of", counted)
    elements = [element for at in range(50) for element in (Insert(("a",), at, at + 5), Punctuate(at))]
    emitted = _run([_named(*elements)], NAMES, ["x"], COUNT, ordered=False)
    assert made == [50]
    assert len(_inserts(emitted)) == 50


def test_a_snapshot_is_not_changed_by_later_calls() -> None:
    """Going on from it twice gives the same twice."""
    operator = AggregateOperator(NAMES, ["x"], COUNT, ordered=False)
    operator.on_batch(0, _named(Insert(("a",), 0, 10)))
    snapshot = operator.snapshot()
    operator.on_batch(0, _named(Insert(("a",), 0, 10), Insert(("b",), 0, 10)))
    resumed = AggregateOperator(NAMES, ["x"], COUNT, ordered=False, resume=snapshot)
    assert list(elements_of(resumed.on_end(0).batches[0])) == [Insert(("a", 1), 0, 10)]


@given(st.data())
def test_windows_of_a_disordered_stream_equal_the_oracle_row_by_row(data: st.DataObject) -> None:
    """All aggregates, hopping windows, nulls as keys, any cuts, restored at every boundary: the same list."""
    window = data.draw(st.sampled_from([Tumbling(7), Hopping(6, 4, 1), Hopping(2, 5)]))
    batch = data.draw(disordered_batches(MEASURED))
    _compare(data.draw(batch_cuts(batch)), batch, window, ordered=False)


@given(st.data())
def test_windows_of_an_ordered_stream_equal_the_oracle_row_by_row(data: st.DataObject) -> None:
    """Tumbling keeps the order, hopping only the progress."""
    window = data.draw(st.sampled_from([Tumbling(7, 3), Hopping(6, 4, 1)]))
    batch = data.draw(ordered_batches(MEASURED))
    _compare(data.draw(batch_cuts(batch)), batch, window, ordered=True)


def _compare(cuts: list[EventBatch], whole: EventBatch, window: Window, *, ordered: bool) -> None:
    assign = WindowOperator(window, POINTS, ordered)
    windowed = [out for batch in cuts for out in assign.on_batch(0, batch).batches]
    still_ordered = ordered and not isinstance(window, Hopping)
    emitted = _run(windowed, windowed_schema(POINTS), ["k"], EVERYTHING, ordered=still_ordered)
    assigned = _inserts(window_oracle(elements_of(whole), window))
    expected = aggregate_oracle(assigned, MEASURED.names, ["k"], EVERYTHING)
    assert _inserts(emitted) == expected
    _check_guarantees(emitted)


@given(st.data())
def test_intervals_group_by_their_exact_ends(data: st.DataObject) -> None:
    """Without keys, and with two."""
    batch = data.draw(ordered_batches(MEASURED, intervals=True))
    keys = data.draw(st.sampled_from([[], ["v", "k"]]))
    emitted = _run(data.draw(batch_cuts(batch)), POINTS, keys, EVERYTHING, ordered=True)
    expected = aggregate_oracle(_inserts(list(elements_of(batch))), MEASURED.names, keys, EVERYTHING)
    assert _inserts(emitted) == expected
    _check_guarantees(emitted)
