"""Weaving batches together: order, ties, and every type of column as it was."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.columns.weave import weave_batches
from slackwater.events.batch import EventBatch
from slackwater.events.elements import elements_of
from slackwater.testing.strategies import KEYED, MEASURED, ordered_batches

_COLUMNS: dict[str, pa.Array] = {
    "string": pa.array(["a", "", "c", "d"]),
    "string with nulls": pa.array(["a", None, "c", None]),
    "large string": pa.array(["a", "b", "c", "d"], pa.large_string()),
    "binary": pa.array([b"", b"\x00", None, b"x"]),
    "fixed binary": pa.array([b"ab", b"cd", None, b"ef"], pa.binary(2)),
    "boolean": pa.array([True, False, True, True]),
    "boolean with nulls": pa.array([True, None, False, None]),
    "all null": pa.nulls(4),
    "decimal128": pa.array([Decimal("1.5"), Decimal("2.5"), Decimal("-3.5"), Decimal("4.5")]),
    "decimal256": pa.array([Decimal("1.5"), None, Decimal("-3.5"), Decimal("4.5")], pa.decimal256(50, 1)),
    "time zone": pa.array([1, 2, 3, 4], pa.timestamp("ns", "Asia/Tokyo")),
    "time zone with nulls": pa.array([1, None, 3, 4], pa.timestamp("us", "Europe/Zurich")),
    "date": pa.array([dt.date(2026, 1, day) for day in (1, 2, 3, 4)]),
    "time of day": pa.array([dt.time(1), dt.time(2), dt.time(3), dt.time(4)]),
    "duration": pa.array([1, 2, 3, 4], pa.duration("s")),
    "calendar interval": pa.array([pa.MonthDayNano([month, 2, 3]) for month in (1, 2, 3, 4)]),
    "half float": pa.array([1.5, 2.5, 3.5, 4.5], pa.float16()),
    "float with not-a-number": pa.array([1.5, float("inf"), -0.0, 4.5], pa.float32()),
    "integer with nulls": pa.array([1, None, 3, 4], pa.int16()),
    "list": pa.array([[1], None, [], [2, 3]]),
    "fixed-size list": pa.array([[1, 2], [3, 4], None, [5, 6]], pa.list_(pa.int64(), 2)),
    "struct": pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}, {"a": 2, "b": []}]),
    "map": pa.array([[("k", 1)], None, [], [("l", 2)]], pa.map_(pa.string(), pa.int64())),
    "dictionary": pa.array(["x", "y", None, "x"]).dictionary_encode(),
    "list of dictionary": pa.array([["x"], ["y", "x"], None, []], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
}


def _batch(column: pa.Array, start: list[int]) -> EventBatch:
    return EventBatch.inserts(pa.record_batch({"c": column}), start)


@pytest.mark.parametrize("name", _COLUMNS)
def test_columns_of_every_type_are_woven(name: str) -> None:
    """Values, nulls and the type itself come out as they went in, from slices too."""
    column = _COLUMNS[name]
    whole = _batch(column, [1, 3, 5, 7])
    woven = weave_batches([whole.slice(0, 3), _batch(column, [0, 2, 4, 6]).slice(1, 4)])
    woven.check()
    values: list[Any] = column.to_pylist()
    assert woven.start.tolist() == [1, 2, 3, 4, 5, 6]
    assert woven.payload.schema.field("c").type == column.type
    assert woven.payload.column("c").to_pylist() == [values[i] for i in (0, 1, 1, 2, 2, 3)]


@pytest.mark.parametrize("name", _COLUMNS)
def test_columns_of_every_type_are_put_one_after_the_other(name: str) -> None:
    """Batches that do not overlap in time take the short way, with the same result."""
    column = _COLUMNS[name]
    woven = weave_batches([_batch(column, [1, 1, 2, 2]), _batch(column, [2, 3, 3, 4])])
    woven.check()
    assert woven.payload.schema.field("c").type == column.type
    assert woven.payload.column("c").to_pylist() == column.to_pylist() * 2


def test_dictionaries_that_differ_are_brought_together() -> None:
    """Each side numbers its own values; the woven column means the same values."""
    one = pa.array(["x", "y"]).dictionary_encode()
    other = pa.array(["z", "y"]).dictionary_encode()
    woven = weave_batches([_batch(one, [1, 3]), _batch(other, [2, 4])])
    assert woven.payload.column("c").to_pylist() == ["x", "z", "y", "y"]
    assert woven.payload.schema.field("c").type == one.type


def test_nulls_on_one_side_only_are_minded() -> None:
    """The side without nulls has no mask at all."""
    woven = weave_batches([_batch(pa.array([1, 3]), [1, 3]), _batch(pa.array([None, 4], pa.int64()), [2, 4])])
    assert woven.payload.column("c").to_pylist() == [1, None, 3, 4]


def test_rows_without_columns_are_woven_too() -> None:
    """Their number is kept."""
    bare = pa.record_batch({"x": [1, 2]}).select([])
    woven = weave_batches([EventBatch.inserts(bare, [1, 3]), EventBatch.inserts(bare, [2, 4])])
    woven.check()
    assert (woven.rows, woven.start.tolist()) == (4, [1, 2, 3, 4])


def test_columns_that_cannot_be_null_stay_so() -> None:
    """The schema of the first batch is the schema of all."""
    schema = pa.schema([pa.field("c", pa.int64(), nullable=False)])
    batches = [EventBatch.inserts(pa.record_batch([pa.array([i])], schema=schema), [i]) for i in (2, 1)]
    assert weave_batches(batches).payload.schema == schema


def test_memory_that_is_not_aligned_is_woven() -> None:
    """Arrow data from the network may start at any address."""
    raw = pa.py_buffer(bytes([0, *bytearray((7).to_bytes(8, "little")), *bytearray((9).to_bytes(8, "little"))]))
    crooked = pa.Array.from_buffers(pa.int64(), 2, [None, raw.slice(1)])
    woven = weave_batches([_batch(crooked, [1, 3]), _batch(crooked, [2, 4])])
    assert woven.payload.column("c").to_pylist() == [7, 7, 9, 9]


@given(st.sampled_from([KEYED, MEASURED]), st.booleans(), st.data())
def test_woven_batches_are_a_stable_sort_of_their_elements(
    schema: pa.Schema, intervals: bool, data: st.DataObject
) -> None:
    """By time; ties keep the order of the batches and within each."""
    batches = [
        data.draw(ordered_batches(schema, intervals=intervals, max_rows=12, punctuated=False))
        for _ in range(data.draw(st.integers(1, 4)))
    ]
    woven = weave_batches(batches)
    woven.check()
    expected = sorted((e for batch in batches for e in elements_of(batch)), key=lambda e: e.start)  # type: ignore[union-attr]
    assert list(elements_of(woven)) == expected
