"""Columns in a form that Arrow can compare, and back."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from slackwater.errors import SchemaMismatch
from slackwater.operators.aggregate.group_keys import comparable, in_own_type, key_fields, number_groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from slackwater.kernels.columns.number_pairs import Numbered

COLUMNS = [
    pa.array(["b", None, "a", "b"]),
    pa.array(["b", None, "a", "b"], pa.large_string()),
    pa.array([b"b", None, b"", b"b"]),
    pa.array([True, None, False, True]),
    pa.array([7, None, -7, 7], pa.int16()),
    pa.array([1.5, None, -2.0, 1.5], pa.float32()),
    pa.array(np.array([1.5, 0.0, -2.0, 1.5], dtype=np.float16)),
    pa.array([date(2026, 1, 2), None, date(1960, 1, 1), date(2026, 1, 2)]),
    pa.array([1, None, 0, 1], pa.timestamp("ns", "Europe/Berlin")),
    pa.array([Decimal("1.25"), None, Decimal("-0.01"), Decimal("1.25")]),
    pa.array(["b", None, "a", "b"]).dictionary_encode(),
    pa.DictionaryArray.from_arrays(pa.array([1, None, 0, 1], pa.int8()), pa.array(["x", "y"]), ordered=True),
    pa.array([None, None, None, None]),
]
"""One column of each type that can be a key."""


def _partition(values: Iterable[Any]) -> list[int]:
    """Replace each value by the number of different ones before its first appearance."""
    seen: dict[Any, int] = {}
    return [seen.setdefault(value, len(seen)) for value in values]


def _numbered(columns: Sequence[pa.Array], rows: int) -> Numbered:
    return number_groups(np.zeros(rows, dtype=np.int64), columns)


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.type))
def test_a_column_comes_back_in_its_own_type(column: pa.Array) -> None:
    """Values, nulls and type."""
    back = in_own_type(comparable(column), column.type)
    assert back.type == column.type
    assert back.to_pylist() == column.to_pylist()


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.type))
def test_every_type_can_be_grouped_by(column: pa.Array) -> None:
    """Null is a group like any other."""
    numbers, firsts = _numbered([comparable(column)], len(column))
    assert numbers.tolist() == _partition(column.to_pylist())
    assert numbers[firsts].tolist() == list(range(len(firsts)))


def test_zeros_are_one_group_and_so_are_nans() -> None:
    """As in Spark, whatever their bytes are."""
    odd_nan = np.array([0x7FF8000000000001], dtype=np.uint64).view(np.float64)[0]
    column = comparable(pa.array([0.0, math.nan, -0.0, odd_nan, None]))
    assert _numbered([column], 5).numbers.tolist() == [0, 1, 0, 1, 2]


def test_without_keys_all_rows_are_one_group() -> None:
    """Also when there are no rows."""
    assert _numbered([], 3).numbers.tolist() == [0, 0, 0]
    assert _numbered([], 0).numbers.tolist() == []
    assert _numbered([pa.array([], pa.string())], 0).numbers.tolist() == []


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.uuid()])
def test_a_key_that_arrow_cannot_group_by_is_refused(kind: pa.DataType) -> None:
    """Before any row comes; nested ones, and those that Arrow itself says no to."""
    with pytest.raises(SchemaMismatch, match=r"(?s)compared as a whole.*group by a part of it"):
        key_fields(pa.schema({"key": kind}), ["key"], "aggregate#1")
