"""top_rows(): the greatest rows of each window in rank order, the same whatever the order in which they came."""

from __future__ import annotations

import math
import struct
from functools import cmp_to_key
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import NeedsOrder, PlanError, SchemaMismatch
from slackwater.plan.nodes.replicas import Case, MergeReplicas

_SCHEMA = pa.schema({"at": pa.int64(), "who": pa.dictionary(pa.int32(), pa.string()), "v": pa.float64()})
_ROWS = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.sampled_from(["ann", "bob", None]),
        st.sampled_from([0.0, -0.0, 1.0, 2.0, math.nan, math.inf, None]),
    ),
    max_size=20,
)


def _table(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = [[row[place] for row in rows] for place in range(3)]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)], _SCHEMA)


def _bits(rows: pa.Table) -> list[tuple[Any, ...]]:
    """The rows as they are, to the last bit, in their order."""
    times = (rows["window_start"].to_pylist(), rows["at"].to_pylist(), rows["who"].to_pylist())
    values = [None if v is None else struct.pack("d", v) for v in rows["v"].to_pylist()]
    return list(zip(*times, values, strict=True))


# ---- the definition, one comparison after the other ---------------------------------------------------------------


def _compare(a: Any, b: Any, *, greatest_first: bool) -> int:
    if a is None or b is None:
        return (a is None) - (b is None)
    if a != a or b != b:  # noqa: PLR0124 - a NaN is not itself
        return (a != a) - (b != b)  # noqa: PLR0124
    return ((a > b) - (a < b)) * (-1 if greatest_first else 1)


def _rank(a: tuple[Any, ...], b: tuple[Any, ...]) -> int:
    """Rows are (window, at, who, v): by v, then by at and who, then by the bits of v."""
    for place, greatest_first in ((3, True), (1, False), (2, False)):
        compared = _compare(a[place], b[place], greatest_first=greatest_first)
        if compared:
            return compared
    bits = [0 if row[3] is None else struct.unpack("q", struct.pack("d", row[3]))[0] for row in (a, b)]
    return _compare(*bits, greatest_first=False)


def _expected(rows: list[tuple[Any, ...]], k: int, size: int, hop: int) -> list[tuple[Any, ...]]:
    found = []
    for window in range(-(size // hop + 1) * hop, 40, hop):
        inside = [(window, *row) for row in rows if window <= row[0] < window + size]
        found += sorted(inside, key=cmp_to_key(_rank))[:k]
    return [(*row[:3], None if row[3] is None else struct.pack("d", row[3])) for row in found]


def _top(rows: list[tuple[Any, ...]], k: int, hop: int) -> sw.OrderedStream:
    return sw.stream(_table(rows), time="at").sort(patience=50).hopping(10, hop).top_rows(k, by="v")


@given(rows=_ROWS, k=st.integers(1, 4), hop=st.sampled_from([5, 10]), seed=st.integers(0, 10**6))
@example(rows=[(1, "ann", 0.0), (1, "ann", -0.0)], k=1, hop=10, seed=1)
def test_the_same_rows_give_the_same_ranks_whatever_their_order(rows: Any, k: int, hop: int, seed: int) -> None:
    """As the definition has it: row for row, in the same order."""
    shuffled = Random(seed).sample(rows, len(rows))
    expected = _expected(rows, k, 10, hop)
    assert _bits(_top(rows, k, hop).run().table) == expected
    assert _bits(_top(shuffled, k, hop).run().table) == expected


@given(rows=_ROWS, cut=st.integers(0, 20), seed=st.integers(0, 10**6), first=st.booleans())
def test_replicas_of_top_rows_are_merged_as_r1(rows: Any, cut: int, seed: int, first: bool) -> None:
    """They come in other orders, and one is cut off; the merged rows are those of the whole one, in their order."""
    shuffled = Random(seed).sample(rows, len(rows))
    ordered = sorted(shuffled, key=lambda row: row[0])
    whole = sw.stream(_table(rows), time="at").sort(patience=50)
    part = sw.stream(_table(ordered[:cut]), time="at").assume_ordered()
    tops = [stream.tumbling(10).top_rows(2, by="v") for stream in ((whole, part) if first else (part, whole))]
    merged = sw.merge_replicas(*tops)
    assert isinstance(merged.node, MergeReplicas)
    assert merged.node.case is Case.R1
    if cut >= len(rows):
        assert _bits(merged.run().table) == _expected(rows, 2, 10, 10)


@pytest.mark.parametrize("kind", [pa.int8(), pa.float16(), pa.date32(), pa.decimal128(15, 2), pa.bool_(), pa.binary()])
def test_rows_are_ranked_by_columns_of_every_type_that_has_an_order(kind: pa.DataType) -> None:
    """The greatest first, and nulls last."""
    values = pa.array([0, 1, None]).cast(pa.string() if pa.types.is_binary(kind) else pa.int32()).cast(kind)
    rows = pa.table({"at": [1, 2, 3], "v": values})
    best = sw.stream(rows, time="at").assume_ordered().tumbling(10).top_rows(3, by="v").run().table
    assert best["at"].to_pylist() == [2, 1, 3]


def test_what_cannot_be_ranked_is_refused() -> None:
    """When the pipeline is built, with what to do."""
    rows = pa.table({"at": [1], "v": [1], "tags": [["a"]]})
    windows = sw.stream(rows, time="at").assume_ordered().tumbling(10)
    with pytest.raises(SchemaMismatch, match=r"cannot rank rows by such a column(.|\n)*select\(\)"):
        windows.top_rows(2, by="v")
    assert windows.select("v").top_rows(2, by="v").run().table.num_rows == 1
    with pytest.raises(SchemaMismatch, match="price"):
        windows.select("v").top_rows(2, by="price")
    for wrong in (0, True, "2"):
        with pytest.raises(PlanError, match="top_rows keeps at least one row"):
            windows.select("v").top_rows(wrong, by="v")  # type: ignore[arg-type]
    with pytest.raises(NeedsOrder, match="top_rows needs an ordered or punctuated stream"):
        sw.stream(rows, time="at").select("v").tumbling(10).top_rows(1, by="v")


def test_a_function_that_is_declared_to_need_no_order_is_tried_in_two() -> None:
    """Where made-up rows show that the declaration is false, it is refused; named columns are believed, as ever."""
    rows = [{"at": at, "v": at} for at in (1, 2, 3)]
    windows = sw.stream(rows, time="at").assume_ordered().tumbling(10)

    def first_of(window: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"v": window["v"].slice(0, 1)})

    with pytest.raises(PlanError, match="returned something else for the same rows in another order"):
        windows.map_windows(first_of, any_order=True)
    with pytest.raises(PlanError, match="any_order= is True or False"):
        windows.map_windows(first_of, any_order=1)  # type: ignore[arg-type]
    answers = pa.schema({"v": pa.int64()})
    assert windows.map_windows(first_of, schema=answers, any_order=True).run().table["v"].to_pylist() == [1]
