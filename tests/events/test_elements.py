"""Single elements: how they are written, and the way from batches to elements and back."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.events.batch import EventBatch
from slackwater.events.elements import Adjust, Element, Insert, Punctuate, batch_of, elements_of, rows_of
from slackwater.progress.instants import FOREVER
from slackwater.testing.strategies import element_streams, ordered_batches

_NAMES = pa.schema({"x": pa.string()})


@given(element_streams())
def test_batch_of_is_the_inverse_of_elements_of(elements: list[Element]) -> None:
    """Inserts, adjusts, removals and punctuations all come back as they were."""
    batch = batch_of(elements, _NAMES)
    batch.check()
    assert list(elements_of(batch)) == elements


@given(st.one_of(ordered_batches(), ordered_batches(pa.schema([]))))
def test_elements_of_is_the_inverse_of_batch_of(batch: EventBatch) -> None:
    """A batch made of its own elements says the same, with all columns spelled out."""
    again = batch_of(elements_of(batch), batch.payload.schema)
    again.check()
    assert list(elements_of(again)) == list(elements_of(batch))
    assert again.payload.equals(batch.payload)


_VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "string": (pa.string(), "a"),
    "empty string": (pa.string(), ""),
    "binary": (pa.binary(), b"\x00"),
    "boolean": (pa.bool_(), True),
    "decimal": (pa.decimal128(5, 2), Decimal("1.50")),
    "float": (pa.float64(), -0.5),
    "list": (pa.list_(pa.int64()), [1, None]),
    "list of lists": (pa.list_(pa.list_(pa.string())), [["a"], [], None]),
    "struct": (pa.struct({"a": pa.int64(), "b": pa.string()}), {"a": 1, "b": None}),
    "list of structs": (pa.list_(pa.struct({"a": pa.int64()})), [{"a": 1}, None]),
    "map": (pa.map_(pa.string(), pa.int64()), [("k", 1)]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), "a"),
    "null": (pa.null(), None),
}


@pytest.mark.parametrize("name", _VALUES)
def test_values_of_every_type_come_back_as_they_were(name: str) -> None:
    """Rows are hashable on the way, Arrow again at the end, and null stays null."""
    kind, value = _VALUES[name]
    payload = pa.record_batch({"c": pa.array([value, None], kind)})
    elements = list(elements_of(EventBatch.inserts(payload, start=[1, 2])))
    assert len({hash(element) for element in elements}) == 2
    assert batch_of(elements, payload.schema).payload.equals(payload)


@pytest.mark.parametrize(
    "payload",
    [
        pa.record_batch({"c": pa.array([math.nan, 1.0])}),
        pa.record_batch({"c": pa.array([[math.nan, 1.0], []])}),
        pa.record_batch({"c": pa.array([{"a": math.nan}, {"a": 1.0}])}),
    ],
    ids=["alone", "in a list", "in a struct"],
)
def test_not_a_number_equals_itself_in_a_row(payload: pa.RecordBatch) -> None:
    """Two rows that hold NaN are the same payload, and NaN comes back as NaN."""
    once, again = (list(rows_of(payload)) for _ in range(2))
    assert once == again
    assert hash(once[0]) == hash(again[0])
    back = batch_of(elements_of(EventBatch.inserts(payload, start=[1, 2])), payload.schema).payload
    assert str(back.to_pylist()) == str(payload.to_pylist())


@pytest.mark.parametrize("text", ["<NaN>", "NaN", "nan"])
def test_a_string_that_looks_like_not_a_number_is_a_string(text: str) -> None:
    """Whatever stands for NaN is no value that a user could have."""
    payload = pa.record_batch({"c": [text], "nested": [[text]]})
    assert batch_of(elements_of(EventBatch.inserts(payload, start=[1])), payload.schema).payload.equals(payload)
    (row,) = rows_of(payload)
    assert row != next(rows_of(pa.record_batch({"c": [math.nan], "nested": [[math.nan]]})))


def test_no_elements_make_an_empty_batch_of_the_schema() -> None:
    """Nothing stated is something to stand for."""
    batch = batch_of([], _NAMES)
    batch.check()
    assert len(batch) == 0
    assert batch.payload.schema == _NAMES


def test_elements_are_written_as_the_papers_write_them() -> None:
    """FOREVER is written as a word; a plain string payload without quotes."""
    written = [Insert("A", 1, 4), Insert(("A", 2), 1), Adjust("A", 1, FOREVER, 1), Punctuate(7), Punctuate(FOREVER)]
    assert [str(element) for element in written] == [
        "insert(A, 1, 4)",
        "insert(('A', 2), 1, forever)",
        "adjust(A, 1, forever, 1)",
        "punctuate(7)",
        "punctuate(forever)",
    ]
