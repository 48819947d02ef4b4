"""Numbers of rows: the same for the same row in every batch, another for every other row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from slackwater.columns.row_codec import WORD, RowCodec
from slackwater.columns.row_numbers import RowNumbers
from slackwater.kernels.columns.number_rows import compare_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.columns.row_codec import RowBytes

_ROWS = st.lists(st.tuples(st.sampled_from(["", "a", "b", "a word of some length", None]), st.integers(-2, 2)))
_CODEC = RowCodec(pa.schema({"k": pa.string(), "v": pa.int64()}))


def _bytes(rows: Sequence[tuple[str | None, int]]) -> RowBytes:
    columns = [pa.array([k for k, _ in rows], pa.string()), pa.array([v for _, v in rows], pa.int64())]
    return _CODEC.encode(pa.RecordBatch.from_arrays(columns, ["k", "v"]))


@given(batches=st.lists(_ROWS, max_size=6))
def test_rows_are_numbered_as_a_dictionary_would(batches: list[list[tuple[str | None, int]]]) -> None:
    """By first appearance, over all batches."""
    numbers, oracle = RowNumbers(), dict[object, int]()
    for rows in batches:
        assert numbers.number(_bytes(rows)).tolist() == [oracle.setdefault(row, len(oracle)) for row in rows]
        assert len(numbers) == len(oracle)
        numbers.check()


@given(rows=st.lists(st.integers(0, 500), unique=True), data=st.data())
def test_rows_that_are_kept_are_numbered_anew_and_others_are_forgotten(rows: list[int], data: st.DataObject) -> None:
    """In the order given; a row that was forgotten is new when it comes again."""
    named = [(f"{row}" * (row % 4), row) for row in rows]
    numbers = RowNumbers()
    numbers.number(_bytes(named))
    kept = data.draw(st.lists(st.sampled_from(range(len(rows))), unique=True)) if rows else []
    left = numbers.only(np.array(kept, dtype=np.int64))
    left.check()
    assert left.number(_bytes([named[place] for place in kept])).tolist() == list(range(len(kept)))
    gone = [row for place, row in enumerate(named) if place not in kept]
    assert left.number(_bytes(gone)).tolist() == [len(kept) + i for i in range(len(gone))]


def test_many_rows_find_their_numbers_again() -> None:
    """The table grows several times."""
    numbers = RowNumbers()
    rows = [(f"row {n}" * (n % 3), n) for n in range(20_000)]
    for first in range(0, 20_000, 1_000):
        numbers.number(_bytes(rows[first : first + 1_000]))
    assert numbers.number(_bytes(rows[::-7])).tolist() == [n for _, n in rows[::-7]]
    numbers.check()


@given(rows=_ROWS, pairs=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100))))
def test_rows_are_compared_as_a_whole(rows: list[tuple[str | None, int]], pairs: list[tuple[int, int]]) -> None:
    """Whatever their lengths."""
    if not rows:
        return
    ones, others = (np.array([pair[i] % len(rows) for pair in pairs], dtype=np.int64) for i in range(2))
    encoded, equal = _bytes(rows), np.empty(len(pairs), dtype=np.bool_)
    compare_rows(encoded.offsets // WORD, encoded.words, ones, others, equal)
    assert equal.tolist() == [rows[a] == rows[b] for a, b in zip(ones, others, strict=True)]
