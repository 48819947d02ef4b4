"""The where operator: what is true stays, what is null is not true, and punctuations pass."""

from __future__ import annotations

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

from slackwater.errors import StepFailed
from slackwater.events.batch import EventBatch
from slackwater.events.elements import Insert, Punctuate, elements_of
from slackwater.events.schema import EventSchema
from slackwater.operators.where import WhereOperator
from slackwater.testing.strategies import KEYED, disordered_batches

_SCHEMA = EventSchema.of(pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64()}), time="at")


@given(disordered_batches(KEYED))
def test_rows_whose_answer_is_true_stay_and_every_punctuation_passes(batch: EventBatch) -> None:
    """At their places, in any order."""
    emission = WhereOperator(_SCHEMA, nw.col("k") == "a").on_batch(0, batch)
    emitted = [element for out in emission.batches for element in elements_of(out)]
    expected = [
        element
        for element in elements_of(batch)
        if isinstance(element, Punctuate) or (isinstance(element, Insert) and element.payload[0] == "a")  # type: ignore[index]
    ]
    assert emitted == expected


def _batch(*values: int | None) -> EventBatch:
    payload = pa.record_batch({"k": pa.array(["x"] * len(values), pa.string()), "v": pa.array(values, pa.int64())})
    return EventBatch.inserts(payload, list(range(len(values))))


def _kept(operator: WhereOperator, batch: EventBatch) -> list[int]:
    return [int(start) for out in operator.on_batch(0, batch).batches for start in out.start]


def test_a_null_answer_is_not_true() -> None:
    """Neither from an expression nor from a function."""
    assert _kept(WhereOperator(_SCHEMA, nw.col("v") > 1), _batch(1, None, 2)) == [2]
    assert _kept(WhereOperator(_SCHEMA, lambda rows: pc.greater(rows.column("v"), 1)), _batch(1, None, 2)) == [2]


def test_an_answer_of_nothing_but_nulls_keeps_nothing() -> None:
    """Also when Arrow gives it the type null, as for a batch in which every answer is None."""
    assert _kept(WhereOperator(_SCHEMA, lambda rows: pa.nulls(rows.num_rows)), _batch(1, 2)) == []
    assert _kept(WhereOperator(_SCHEMA, lambda rows: [None] * rows.num_rows), _batch(1, 2)) == []


def test_a_predicate_may_ask_for_the_time() -> None:
    """The time columns are there, under their names."""
    assert _kept(WhereOperator(_SCHEMA, nw.col("at") >= 1), _batch(5, 6, 7)) == [1, 2]


def test_a_constant_answers_for_every_row() -> None:
    """All or nothing."""
    assert _kept(WhereOperator(_SCHEMA, nw.lit(value=True)), _batch(1, 2)) == [0, 1]
    assert _kept(WhereOperator(_SCHEMA, nw.lit(value=False)), _batch(1, 2)) == []


def test_a_batch_without_rows_asks_nothing() -> None:
    """Punctuations alone do not run the user's function."""

    def never(rows: pa.RecordBatch) -> pa.Array:
        raise AssertionError(rows)

    operator = WhereOperator(_SCHEMA, never)
    (out,) = operator.on_batch(0, _batch().punctuation(5)).batches
    assert out.last_punctuation() == 5
    assert operator.on_batch(0, _batch()).batches == ()


def test_a_batch_of_which_nothing_stays_is_not_sent() -> None:
    """Downstream hears only of elements."""
    assert WhereOperator(_SCHEMA, nw.col("v") > 9).on_batch(0, _batch(1, 2)).batches == ()


def test_answers_that_are_not_booleans_are_refused() -> None:
    """A 0 or an empty string is no 'no': the step fails and says so, instead of guessing."""
    for answer in ([0, 1], ["", "x"], [1.5, 2.5]):
        operator = WhereOperator(_SCHEMA, lambda _, answer=answer: pa.array(answer), "where#1")  # type: ignore[misc]
        with pytest.raises(StepFailed, match="where#1"):
            operator.on_batch(0, _batch(1, 2))


def test_a_predicate_that_fails_names_the_step_the_row_and_the_cause() -> None:
    """The values of the row are shown as users see them, time included."""

    def fussy(rows: pa.RecordBatch) -> pa.Array:
        return pa.array([1 / value > 0 for value in rows.column("v").to_pylist()])

    with pytest.raises(StepFailed, match=r"(?s)step 'where#2'.*row     2.*'at': 2.*'v': 0.*ZeroDivisionError"):
        WhereOperator(_SCHEMA, fussy, "where#2").on_batch(0, _batch(5, 1, 0, 3))
