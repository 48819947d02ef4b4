"""The select operator: columns by name without a copy, columns computed, times and punctuations untouched."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

from slackwater.errors import StepFailed
from slackwater.events.batch import EventBatch
from slackwater.events.elements import Insert, elements_of
from slackwater.events.schema import EventSchema
from slackwater.operators.select import SelectOperator, select_columns
from slackwater.testing.strategies import KEYED, disordered_batches

_SCHEMA = EventSchema.of(pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64()}), time="at")
_ROWS = pa.record_batch({"k": ["a", "b", None], "v": [1, 2, 3]})


def _selected(outputs: dict[str, Any], payload: pa.RecordBatch = _ROWS) -> dict[str, list[Any]]:
    batch = EventBatch.inserts(payload, start=range(payload.num_rows))
    (out,) = SelectOperator(_SCHEMA, outputs).on_batch(0, batch).batches
    out.check()
    return dict(out.payload.to_pydict())


@given(disordered_batches(KEYED, intervals=True))
def test_times_and_punctuations_pass(batch: EventBatch) -> None:
    """Only the payload is another."""
    emission = SelectOperator(_SCHEMA, {"w": nw.col("v") + 1}).on_batch(0, batch)
    emitted = [element for out in emission.batches for element in elements_of(out)]
    assert emitted == [
        Insert((element.payload[1] + 1,), element.start, element.end) if isinstance(element, Insert) else element  # type: ignore[index]
        for element in elements_of(batch)
    ]


def test_columns_are_made_in_the_order_they_are_named() -> None:
    """By name, renamed, by expression and by function, side by side."""
    made = _selected({"n": nw.col("v") * 2, "k": "k", "name": "k", "f": lambda rows: pc.negate(rows.column("v"))})
    assert list(made) == ["n", "k", "name", "f"]
    assert made == {"n": [2, 4, 6], "k": ["a", "b", None], "name": ["a", "b", None], "f": [-1, -2, -3]}


def test_a_column_may_replace_one_that_others_are_computed_from() -> None:
    """Everything is computed from the input, nothing from each other."""
    assert _selected({"v": nw.col("v") * 10, "w": nw.col("v") + 1}) == {"v": [10, 20, 30], "w": [2, 3, 4]}


def test_the_time_can_be_read_by_a_computation() -> None:
    """It is a column like the others."""
    assert _selected({"w": nw.col("at") + nw.col("v")}) == {"w": [1, 3, 5]}


def test_a_constant_is_spread_over_all_rows() -> None:
    """One value per row, of one type."""
    assert _selected({"c": nw.lit(7)}) == {"c": [7, 7, 7]}


def test_no_column_at_all_leaves_the_times() -> None:
    """The rows are still as many."""
    batch = EventBatch.inserts(_ROWS, start=[1, 2, 3])
    (out,) = SelectOperator(_SCHEMA, {}).on_batch(0, batch).batches
    out.check()
    assert (out.rows, out.payload.num_columns) == (3, 0)


def test_columns_taken_by_name_are_not_copied() -> None:
    """The same memory under another name, with what the field stated about itself."""
    schema = pa.schema([pa.field("v", pa.int64(), nullable=False, metadata={"unit": "m"})])
    rows = pa.record_batch([pa.array([1, 2])], schema=schema)
    made = select_columns({"w": "v"}, rows, "select")
    assert made.column("w").buffers()[1].address == rows.column("v").buffers()[1].address
    assert made.schema.equals(pa.schema([schema.field("v").with_name("w")]), check_metadata=True)


def test_a_function_may_answer_with_a_python_list() -> None:
    """Arrow makes an array of it."""
    assert _selected({"w": lambda rows: [value % 2 == 0 for value in rows.column("v").to_pylist()]}) == {
        "w": [False, True, False]
    }


def test_a_computation_that_fails_names_the_step_and_the_row() -> None:
    """Whichever of the columns it was."""

    def fussy(rows: pa.RecordBatch) -> pa.Array:
        return pa.array([name.upper() for name in rows.column("k").to_pylist()])

    batch = EventBatch.inserts(_ROWS, start=[1, 2, 3])
    with pytest.raises(StepFailed, match=r"(?s)step 'select#3'.*row     2.*'k': None.*AttributeError"):
        SelectOperator(_SCHEMA, {"v": "v", "upper": fussy}, "select#3").on_batch(0, batch)


def test_a_batch_of_punctuations_alone_has_the_new_columns() -> None:
    """Its payload is empty but of the right schema."""
    (out,) = (
        SelectOperator(_SCHEMA, {"w": nw.col("v") * 2})
        .on_batch(0, EventBatch.inserts(_ROWS, [1, 2, 3]).punctuation(9))
        .batches
    )
    assert out.payload.schema == pa.schema({"w": pa.int64()})
    assert out.last_punctuation() == 9
