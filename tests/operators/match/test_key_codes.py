"""Key codes: every type that can be a key, exactly, over many batches."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.events.elements import rows_of
from slackwater.operators.match.key_codes import NO_KEY, KeyCodes

NAN = float("nan")
KEYS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["a", "", None, "a"]),
    (pa.large_string(), ["a", "b", None, "a"]),
    (pa.string_view(), ["a", "b", None, "a"]),
    (pa.binary(), [b"a", b"a\0", None, b"a"]),
    (pa.binary(2), [b"ab", b"a\0", None, b"ab"]),
    (pa.bool_(), [True, False, None, True]),
    (pa.int8(), [-1, 1, None, -1]),
    (pa.uint64(), [2**64 - 1, 2**63, None, 2**64 - 1]),
    (pa.int64(), [2**53 + 1, 2**53, None, 2**53 + 1]),
    (pa.float64(), [NAN, 1.5, None, NAN]),
    (pa.float32(), [0.0, 1.5, None, -0.0]),
    (pa.float16(), [np.float16(0.5), np.float16(1.5), None, np.float16(0.5)]),
    (pa.decimal32(5, 2), [Decimal("1.50"), Decimal("1.51"), None, Decimal("1.5")]),
    (pa.decimal128(30, 2), [Decimal("1.50"), Decimal("1.51"), None, Decimal("1.5")]),
    (pa.decimal256(50, 2), [Decimal("1.50"), Decimal("1.51"), None, Decimal("1.5")]),
    (pa.timestamp("us", "UTC"), [1, 2, None, 1]),
    (pa.timestamp("ns"), [1, 2, None, 1]),
    (pa.date32(), [dt.date(2026, 1, 1), dt.date(2026, 1, 2), None, dt.date(2026, 1, 1)]),
    (pa.time64("ns"), [1, 2, None, 1]),
    (pa.duration("ns"), [1, 2, None, 1]),
    (pa.month_day_nano_interval(), [(1, 2, 3), (1, 2, 4), None, (1, 2, 3)]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b", None, "a"]),
    (pa.uuid(), [b"0" * 16, b"1" * 16, None, b"0" * 16]),
]


def batch(kind: pa.DataType, values: list[Any]) -> pa.RecordBatch:
    """One key column."""
    storage = pa.array(values, pa.binary(16)) if kind == pa.uuid() else None
    column = pa.array(values, kind) if storage is None else pa.ExtensionArray.from_storage(kind, storage)
    return pa.RecordBatch.from_arrays([column], ["k"])


@pytest.mark.parametrize(("kind", "values"), KEYS, ids=[str(kind) for kind, _ in KEYS])
def test_equal_values_have_equal_codes_in_every_type(kind: pa.DataType, values: list[Any]) -> None:
    """First and last are equal, the second differs, the third is null; the next batch finds the same codes."""
    codes = KeyCodes(["k"])
    assert codes.encode(batch(kind, values)).tolist() == [0, 1, NO_KEY, 0]
    assert codes.encode(batch(kind, values[::-1])).tolist() == [0, NO_KEY, 1, 0]
    assert codes.find(batch(kind, values[1:2])).tolist() == [1]
    codes.check()


def test_a_column_of_nothing_but_null_has_no_keys() -> None:
    """The null type is a column too."""
    assert KeyCodes(["k"]).encode(pa.record_batch({"k": pa.nulls(2)})).tolist() == [NO_KEY, NO_KEY]


def test_dictionaries_may_change_between_batches_and_repeat_values() -> None:
    """What counts are values, not the places they have in a dictionary, nor nulls inside it."""
    codes = KeyCodes(["k"])
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None], pa.int8()), pa.array(["a", "a", None]))
    assert codes.encode(pa.record_batch({"k": values})).tolist() == [0, 0, NO_KEY, NO_KEY]
    assert codes.encode(pa.record_batch({"k": pa.array(["b", "a"]).dictionary_encode()})).tolist() == [1, 0]


def test_several_columns_make_one_key_and_a_null_in_any_of_them_none() -> None:
    """(1, 'a') is neither (1, 'b') nor (2, 'a')."""
    rows = pa.record_batch({"x": [1, 1, 2, 1, None], "y": ["a", "b", "a", None, "a"], "z": [NAN] * 5})
    assert KeyCodes(["x", "y", "z"]).encode(rows).tolist() == [0, 1, 2, NO_KEY, NO_KEY]


def test_without_columns_all_rows_have_one_key() -> None:
    """A join on nothing matches everything."""
    codes = KeyCodes([])
    assert codes.encode(pa.record_batch({"x": [1, None]})).tolist() == [0, 0]
    assert codes.find(pa.record_batch({"x": [3]})).tolist() == [0]


def test_an_empty_batch_has_no_codes_and_makes_none() -> None:
    """Nor does a batch of slices."""
    codes = KeyCodes(["k"])
    assert codes.encode(pa.record_batch({"k": pa.array([], pa.string())})).tolist() == []
    assert codes.encode(pa.record_batch({"k": ["a", "b", "c"]}).slice(1, 1)).tolist() == [0]
    assert len(codes) == 1


def test_find_makes_no_codes() -> None:
    """Unknown keys stay unknown."""
    codes = KeyCodes(["k"])
    assert codes.find(pa.record_batch({"k": [1, 2]})).tolist() == [NO_KEY, NO_KEY]
    assert len(codes) == 0


def test_forgotten_keys_make_room_and_the_others_are_numbered_anew() -> None:
    """Of five keys two are used: they become 0 and 1, and a forgotten key that comes again is new."""
    codes = KeyCodes(["k"])
    codes.encode(pa.record_batch({"k": list("abcde")}))
    assert codes.forget_all_but(np.array([3, 1, 3])).tolist() == [NO_KEY, 0, NO_KEY, 1, NO_KEY]
    assert codes.encode(pa.record_batch({"k": list("bdea")})).tolist() == [0, 1, 2, 3]
    codes.check()


def test_nothing_is_forgotten_while_most_keys_are_used() -> None:
    """Renumbering costs as much as there are keys, so it waits until it is worth it."""
    codes = KeyCodes(["k"])
    codes.encode(pa.record_batch({"k": list("abc")}))
    assert codes.forget_all_but(np.array([0, 2])).tolist() == [0, 1, 2]
    assert len(codes) == 3


def test_python_sees_distinct_keys_only() -> None:
    """100,000 rows of ten keys are ten look-ups."""
    codes = KeyCodes(["k"])
    with mock.patch.object(KeyCodes, "_look_up", autospec=True, side_effect=KeyCodes._look_up) as look_up:
        codes.encode(pa.record_batch({"k": np.arange(100_000) % 10}))
    assert [len(call.args[1]) for call in look_up.call_args_list] == [10, 10]


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([0.0, -0.0, NAN, 1.0, None])), max_size=8
        ),
        max_size=5,
    )
)
def test_codes_are_equal_exactly_when_keys_are(batches: list[list[tuple[str | None, float | None]]]) -> None:
    """Over any batches, two rows have one code if and only if their keys are equal and have no null."""
    codes = KeyCodes(["x", "y"])
    schema = pa.schema({"x": pa.string(), "y": pa.float64()})
    tables = [pa.RecordBatch.from_pylist([{"x": x, "y": y} for x, y in rows], schema) for rows in batches]
    numbers = [code for table in tables for code in codes.encode(table).tolist()]
    keys = [row for table in tables for row in rows_of(table)]
    for key, code in zip(keys, numbers, strict=True):
        assert (code == NO_KEY) == (None in key)
        assert code == NO_KEY or all(
            (key == other) == (code == same) for other, same in zip(keys, numbers, strict=True)
        )
