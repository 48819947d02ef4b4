"""Computations over rows: what they may answer, and how the first failing row is found."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.columns.expressions import compute, compute_mask
from slackwater.errors import StepFailed

_ROWS = pa.record_batch({"k": ["a", "b", "c"], "v": [1, 2, 3]})


class _Doubled:
    """A callable that is not a function."""

    def __call__(self, rows: pa.RecordBatch) -> pa.Array:
        return pc.multiply(rows.column("v"), 2)


def test_a_failing_function_names_the_step_the_first_row_that_fails_alone_and_the_cause() -> None:
    """The cause is chained, for the traceback."""

    def inverse(rows: pa.RecordBatch) -> pa.Array:
        return pa.array([1 / value for value in rows.column("v").to_pylist()])

    rows = pa.record_batch({"v": [1, 2, 0, 4, 0]})
    with pytest.raises(
        StepFailed, match=r"(?s)step 'select#1' failed.*row     2.*\{'v': 0\}.*division by zero"
    ) as failed:
        compute({"w": inverse}, rows, "select#1")
    assert isinstance(failed.value.__cause__, ZeroDivisionError)


@given(st.integers(1, 200), st.data())
def test_the_first_failing_row_is_found_wherever_it_is(count: int, data: st.DataObject) -> None:
    """By halving, in a batch of any length and with any other failing rows after it."""
    bad = data.draw(st.sets(st.integers(0, count - 1), min_size=1))

    def fussy(rows: pa.RecordBatch) -> pa.Array:
        if bad & set(rows.column("v").to_pylist()):
            raise ValueError("bad row")
        return rows.column("v")

    with pytest.raises(StepFailed, match=rf"(?s)row     {min(bad)} .*{{'v': {min(bad)}}}"):
        compute({"w": fussy}, pa.record_batch({"v": list(range(count))}), "select#1")


def test_a_failing_expression_names_its_row_too() -> None:
    """Narwhals and Arrow raise whatever they raise."""
    rows = pa.record_batch({"s": ["1", "2", "x"]})
    with pytest.raises(StepFailed, match=r"(?s)step 'select#1'.*row     2.*\{'s': 'x'\}.*ArrowInvalid"):
        compute({"n": nw.col("s").cast(nw.Int64)}, rows, "select#1")


def test_a_failure_of_all_rows_together_names_no_row() -> None:
    """A function that cannot take more than one row fails by no row in particular."""

    def lonely(rows: pa.RecordBatch) -> pa.Array:
        if rows.num_rows > 1:
            raise ValueError("too many")
        return rows.column("v")

    with pytest.raises(StepFailed, match="too many") as failed:
        compute({"w": lonely}, _ROWS, "select#1")
    assert "row " not in str(failed.value)


@pytest.mark.parametrize("wrong", [lambda _: pa.array([1]), lambda rows: rows.column("v").slice(1), lambda _: []])
def test_a_function_must_answer_for_every_row(wrong: Any) -> None:
    """The message counts the rows it was given and the answers that came."""
    with pytest.raises(StepFailed, match=r"(?s)step 'select#1'.*was given 3 rows and answered [012]"):
        compute({"w": wrong}, _ROWS, "select#1")


def test_a_function_may_answer_with_a_chunked_array() -> None:
    """Arrow's own functions on tables do; it is an answer like any other."""
    made = compute(
        {"w": lambda rows: pa.chunked_array([rows.column("v").slice(0, 1), rows.column("v").slice(1)])}, _ROWS, "s"
    )
    assert made.column("w").to_pylist() == [1, 2, 3]


def test_a_function_that_answers_with_no_column_fails_as_a_step() -> None:
    """None is no answer."""
    with pytest.raises(StepFailed, match="select#1"):
        compute({"w": lambda _: None}, _ROWS, "select#1")


def test_names_do_not_get_in_each_others_way() -> None:
    """A computed column may have the name of a column that another one reads."""
    made = compute({"v": nw.col("k"), "k": nw.col("v"), "d": _Doubled()}, _ROWS, "select")
    assert made.to_pydict() == {"v": ["a", "b", "c"], "k": [1, 2, 3], "d": [2, 4, 6]}


def test_no_rows_give_no_answers_of_the_right_type() -> None:
    """That is how the plan learns the types."""
    made = compute({"w": nw.col("v") / 2}, _ROWS.slice(0, 0), "select")
    assert (made.num_rows, made.schema.field("w").type) == (0, pa.float64())


@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        (nw.col("v") > 1, [False, True, True]),
        (lambda _: pa.array([None, True, False]), [False, True, False]),
        (lambda rows: pa.nulls(rows.num_rows), [False, False, False]),
        (lambda rows: pa.nulls(rows.num_rows, pa.bool_()), [False, False, False]),
        (nw.col("k") == nw.lit(None), [False, False, False]),
    ],
)
def test_null_means_no(predicate: Any, kept: list[bool]) -> None:
    """In a mask there are only yes and no."""
    assert compute_mask(predicate, _ROWS, "where").tolist() == kept
