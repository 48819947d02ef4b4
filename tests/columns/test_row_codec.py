"""Rows as bytes: equal rows are equal bytes, different rows are different, and they come back as they were."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.columns.row_codec import RowCodec
from slackwater.errors import SchemaMismatch
from slackwater.events.elements import rows_of
from slackwater.events.gather import no_rows

if TYPE_CHECKING:
    from slackwater.columns.row_codec import RowBytes

_UTC = UTC

COLUMNS: dict[str, pa.Array] = {
    "int64": pa.array([1, None, -(2**63), 1]),
    "uint8": pa.array([1, None, 255, 1], pa.uint8()),
    "bool": pa.array([True, None, False, True]),
    "float64": pa.array([1.5, None, -0.25, 1.5]),
    "float32": pa.array([1.5, None, -0.25, 1.5], pa.float32()),
    "float16": pa.array(np.array([1.5, 0.5, -0.25, 1.5], dtype=np.float16)),
    "date": pa.array([date(2026, 1, 1), None, date(1960, 1, 1), date(2026, 1, 1)]),
    "timestamp": pa.array([datetime(2026, 1, 1, tzinfo=_UTC), None, None, datetime(2026, 1, 1, tzinfo=_UTC)]),
    "decimal": pa.array([Decimal("1.25"), None, Decimal("-0.01"), Decimal("1.25")]),
    "decimal256": pa.array([Decimal("1.25"), None, Decimal("-0.01"), Decimal("1.25")], pa.decimal256(50, 2)),
    "string": pa.array(["a", None, "", "a"]),
    "large_string": pa.array(["a", None, "öä", "a"], pa.large_string()),
    "string_view": pa.array(["a", None, "a word that is rather long", "a"], pa.string_view()),
    "binary": pa.array([b"a", None, b"", b"a"]),
    "fixed_binary": pa.array([b"abc", None, b"abd", b"abc"], pa.binary(3)),
    "null": pa.nulls(4),
    "dictionary": pa.array(["a", None, "b", "a"]).dictionary_encode(),
    "struct": pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": ""}, {"x": 1, "y": "a"}]),
    "no fields": pa.array([{}, None, {}, {}], pa.struct([])),
    "list": pa.array([[1, 2], None, [], [1, 2]]),
    "large_list": pa.array([["a", None], None, [""], ["a", None]], pa.large_list(pa.string())),
    "fixed_list": pa.array([[1, 2], None, [3, None], [1, 2]], pa.list_(pa.int64(), 2)),
    "nested": pa.array([[{"x": [1]}], None, [{"x": []}, {"x": None}], [{"x": [1]}]]),
    "map": pa.array([[("a", 1)], None, [], [("a", 1)]], pa.map_(pa.string(), pa.int64())),
}
"""One column of each type: the first and the last value are equal, all others are different from them."""


def _row(rows: RowBytes, i: int) -> bytes:
    return rows.data[rows.offsets[i] : rows.offsets[i + 1]].tobytes()


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("first", [0, 1])
def test_every_type_comes_back_as_it_was(name: str, first: int) -> None:
    """Slices too: what lies before them in memory is not theirs."""
    batch = pa.record_batch({"c": COLUMNS[name], "n": [1, 2, 3, 4]}).slice(first)
    codec = RowCodec(batch.schema)
    back = codec.decode(codec.encode(batch))
    back.validate(full=True)
    assert back.schema == batch.schema
    assert back.to_pylist() == batch.to_pylist()


@pytest.mark.parametrize("name", COLUMNS)
def test_no_rows_of_every_type_are_no_bytes_and_come_back(name: str) -> None:
    """A batch of nothing but punctuations has a payload like this one."""
    schema = pa.schema({name: COLUMNS[name].type})
    codec = RowCodec(schema)
    rows = codec.encode(no_rows(schema))
    assert (rows.offsets.tolist(), len(rows.data)) == ([0], 0)
    assert codec.decode(rows).equals(no_rows(schema))


@pytest.mark.parametrize("name", COLUMNS)
def test_equal_values_are_equal_bytes_and_others_are_not(name: str) -> None:
    """As Python compares them."""
    batch = pa.record_batch({"c": COLUMNS[name]})
    rows, spelled_out = RowCodec(batch.schema).encode(batch), list(rows_of(batch))
    for i in range(4):
        for j in range(4):
            assert (_row(rows, i) == _row(rows, j)) == (spelled_out[i] == spelled_out[j]), (i, j)


def test_zeros_are_one_value_and_so_are_nans() -> None:
    """Whatever their bytes are."""
    odd_nan = np.array([0x7FF8000000000001], dtype=np.uint64).view(np.float64)[0]
    batch = pa.record_batch({"x": [0.0, -0.0, math.nan, odd_nan, None]})
    rows = RowCodec(batch.schema).encode(batch)
    assert _row(rows, 0) == _row(rows, 1)
    assert _row(rows, 2) == _row(rows, 3)
    assert len({_row(rows, i) for i in range(5)}) == 3


def test_what_lies_behind_a_null_does_not_count() -> None:
    """Two nulls are equal though their slots hold different things."""
    hidden = pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x00"), pa.py_buffer(np.array([1, 2]))])
    words = pa.Array.from_buffers(
        pa.string(), 2, [pa.py_buffer(b"\x00"), pa.py_buffer(np.array([0, 1, 3], dtype=np.int32)), pa.py_buffer(b"abc")]
    )
    batch = pa.record_batch({"n": hidden, "w": words})
    rows = RowCodec(batch.schema).encode(batch)
    assert _row(rows, 0) == _row(rows, 1)


def test_rows_without_columns_are_all_equal() -> None:
    """There are as many as there were."""
    batch = pa.record_batch({"x": [1, 2]}).select([])
    codec = RowCodec(batch.schema)
    assert codec.decode(codec.encode(batch)).num_rows == 2


def test_a_type_that_cannot_be_distinguished_is_refused() -> None:
    """When the codec is made."""
    union = pa.dense_union([pa.field("a", pa.int64())])
    with pytest.raises(SchemaMismatch, match="can be compared"):
        RowCodec(pa.schema({"u": union}))


_VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i": (pa.int64(), st.one_of(st.none(), st.integers(-2, 2))),
    "s": (pa.string(), st.one_of(st.none(), st.sampled_from(["", "a", "ab", "b"]))),
    "l": (pa.list_(pa.string()), st.one_of(st.none(), st.lists(st.sampled_from([None, "", "a"]), max_size=3))),
}


@given(st.lists(st.tuples(*(values for _, values in _VALUES.values())), max_size=12))
def test_bytes_distinguish_rows_as_python_does(rows: list[tuple[Any, ...]]) -> None:
    """Neighbouring columns of varying length do not run into each other."""
    arrays = [pa.array([row[i] for row in rows], kind) for i, (kind, _) in enumerate(_VALUES.values())]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(_VALUES))
    codec = RowCodec(batch.schema)
    encoded = codec.encode(batch)
    assert codec.decode(encoded).to_pylist() == batch.to_pylist()
    spelled_out = list(rows_of(batch))
    for i, one in enumerate(spelled_out):
        for j, other in enumerate(spelled_out):
            assert (_row(encoded, i) == _row(encoded, j)) == (one == other)
