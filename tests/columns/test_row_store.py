"""The row store against a plain list: columns of every type, any appends, any takes, restored at any time."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.columns.row_store import RowStore, RowStoreState
from slackwater.events.gather import no_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

_KINDS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    **{f"int{bits}": (getattr(pa, f"int{bits}")(), lambda n: n % 200 - 100) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (getattr(pa, f"uint{bits}")(), lambda n: n % 200) for bits in (8, 16, 32, 64)},
    "float16": (pa.float16(), lambda n: np.float16(n % 50)),
    "float32": (pa.float32(), lambda n: n / 4),
    "float64": (pa.float64(), lambda n: float("nan") if n % 5 == 0 else n / 4),
    "bool": (pa.bool_(), lambda n: n % 3 == 0),
    "date32": (pa.date32(), lambda n: date(2026, 1, 1) + timedelta(days=n)),
    "date64": (pa.date64(), lambda n: date(2026, 1, 1) + timedelta(days=n)),
    "time32": (pa.time32("s"), lambda n: time(n % 24)),
    "time64": (pa.time64("us"), lambda n: time(n % 24, microsecond=n)),
    "timestamp": (pa.timestamp("us", "UTC"), lambda n: _NOON + timedelta(seconds=n)),
    "duration": (pa.duration("ms"), lambda n: timedelta(milliseconds=n)),
    "interval": (pa.month_day_nano_interval(), lambda n: pa.MonthDayNano([n, n + 1, n + 2])),
    "decimal32": (pa.decimal32(7, 2), lambda n: Decimal(n) / 4),
    "decimal128": (pa.decimal128(20, 2), lambda n: Decimal(n) / 4),
    "decimal256": (pa.decimal256(50, 2), lambda n: Decimal(n) / 4),
    "string": (pa.string(), lambda n: "word " * (n % 4) + str(n)),
    "large_string": (pa.large_string(), lambda n: "word " * (n % 4) + str(n)),
    "string_view": (pa.string_view(), lambda n: "word " * (n % 4) + str(n)),
    "binary": (pa.binary(), lambda n: b"\x00" * (n % 4)),
    "binary_view": (pa.binary_view(), lambda n: b"bytes " * (n % 4)),
    "fixed_size_binary": (pa.binary(3), lambda n: b"%03d" % (n % 1_000)),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), lambda n: f"word {n % 7}"),
    "list": (pa.list_(pa.int64()), lambda n: list(range(n % 4))),
    "large_list": (pa.large_list(pa.string()), lambda n: [str(n)] * (n % 3)),
    "fixed_size_list": (pa.list_(pa.int32(), 2), lambda n: [n, n + 1]),
    "list_view": (pa.list_view(pa.int64()), lambda n: list(range(n % 4))),
    "struct": (pa.struct({"a": pa.int64(), "b": pa.list_(pa.string())}), lambda n: {"a": n, "b": [str(n)] * (n % 3)}),
    "map": (pa.map_(pa.string(), pa.int64()), lambda n: [(f"key {n}", n)]),
    "null": (pa.null(), lambda _: None),
    "run_end_encoded": (pa.run_end_encoded(pa.int32(), pa.string()), lambda n: f"run {n // 3}"),
}
"""A type and a maker of values, by row number, for every kind of column there is."""

SCHEMA = pa.schema({name: kind for name, (kind, _) in _KINDS.items()})
"""One column of each kind."""

_NULLS: dict[str, Callable[[int], bool]] = {
    "none": lambda _: False,
    "every third": lambda n: n % 3 == 0,
    "from row 12 on": lambda n: n >= 12,
}


def _array(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(pa.array(values, kind.value_type), run_end_type=kind.run_end_type)
    return pa.array(values, kind)


def _batch(numbers: Iterable[int], nulls: Callable[[int], bool]) -> pa.RecordBatch:
    """Rows with these numbers, in a slice of a longer batch: every column starts at an offset."""
    known = list(numbers)
    padded = [9, *known, 9]
    columns = [
        _array(kind, [None if nulls(n) and n in known else make(n) for n in padded]) for kind, make in _KINDS.values()
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA).slice(1, len(known))


def _rows(batch: pa.RecordBatch) -> list[str]:
    """Rows as text, for NaN does not equal itself."""
    return [repr(row) for row in batch.to_pylist()]


@dataclass
class _Oracle:
    """Rows by number in a dictionary."""

    held: dict[int, str] = field(default_factory=dict)
    next: int = 0

    def append(self, rows: Sequence[str]) -> None:
        self.held |= dict(enumerate(rows, self.next))
        self.next += len(rows)

    def take(self, numbers: Sequence[int]) -> list[str]:
        return [self.held.pop(number) for number in numbers]


@pytest.mark.parametrize("nulls", _NULLS)
@given(data=st.data())
def test_rows_come_out_as_from_a_list_whatever_their_types(nulls: str, data: st.DataObject) -> None:
    """Any appends, empty ones too; any rows taken in any order; restored from a snapshot at any time."""
    store, oracle = RowStore(SCHEMA), _Oracle()
    for size in data.draw(st.lists(st.integers(0, 9), max_size=6)):
        rows = _batch(range(oracle.next, oracle.next + size), _NULLS[nulls])
        store.append(rows)
        oracle.append(_rows(rows))
        if data.draw(st.booleans()):
            store = RowStore(SCHEMA, store.snapshot())
        numbers = data.draw(st.lists(st.sampled_from(sorted(oracle.held)), unique=True)) if oracle.held else []
        taken = store.take(np.array(numbers, dtype=np.int64))
        taken.validate(full=True)
        assert taken.schema == SCHEMA
        assert _rows(taken) == oracle.take(numbers)
        assert len(store) == len(oracle.held)
    left = sorted(oracle.held)
    assert _rows(store.take(np.array(left, dtype=np.int64))) == oracle.take(left)
    assert store.snapshot() == RowStoreState((), oracle.next)


@given(data=st.data())
def test_rows_without_columns_are_still_rows(data: st.DataObject) -> None:
    """Only their number counts."""
    store = RowStore(pa.schema([]))
    held: list[int] = []
    for size in data.draw(st.lists(st.integers(0, 9), max_size=6)):
        held += range(store.snapshot().next, store.snapshot().next + size)
        store.append(no_columns(size))
        numbers = data.draw(st.lists(st.sampled_from(held), unique=True)) if held else []
        taken = store.take(np.array(numbers, dtype=np.int64))
        held = [number for number in held if number not in numbers]
        assert (taken.num_rows, taken.num_columns) == (len(numbers), 0)
        assert len(store) == len(held)


def _numbers(first: int, size: int) -> pa.RecordBatch:
    return pa.record_batch({"n": np.arange(first, first + size)})


def _numbered(*sizes: int) -> RowStore:
    """A store whose rows know their numbers; sizes that fall by more than a half stay segments of their own."""
    store = RowStore(pa.schema({"n": pa.int64()}))
    for size in sizes:
        store.append(_numbers(store.snapshot().next, size))
    return store


def _take(store: RowStore, numbers: Sequence[int] | np.ndarray[Any, Any]) -> list[int]:
    return store.take(np.array(numbers, dtype=np.int64, order="C")).column("n").to_pylist()


def test_rows_are_found_in_segments_of_many_lengths_and_across_gaps() -> None:
    """Also when all segments between two have gone, and when the first rows have."""
    store = _numbered(20_000, 9_000, 4_000, 1_900, 900, 400)
    assert len(store.snapshot().segments) == 6
    middle = np.arange(20_000, 34_900)
    assert _take(store, middle[::-1]) == middle[::-1].tolist()
    assert len(store.snapshot().segments) == 3
    far = [35_000, 19_999, 36_199, 0, 34_900, 35_799, 35_800, 4_096, 4_095]
    assert _take(store, far) == far
    rest = np.setdiff1d(np.arange(20_000), far)
    assert _take(store, rest) == rest.tolist()
    store.append(_numbers(36_200, 50_000))
    assert _take(store, [86_199, 36_198, 36_200]) == [86_199, 36_198, 36_200]


def test_many_small_appends_make_few_segments() -> None:
    """Row by row, and every row is still there."""
    store = RowStore(pa.schema({"n": pa.int64()}))
    for number in range(3_000):
        store.append(_numbers(number, 1))
        assert len(store.snapshot().segments) <= 16
    assert len(store) == 3_000
    backwards = list(range(2_999, -1, -1))
    assert _take(store, backwards) == backwards


def test_small_appends_between_takes_make_few_segments() -> None:
    """A sliding stock of rows, one in and one out."""
    store = _numbered(100)
    for number in range(100, 2_000):
        store.append(_numbers(number, 1))
        assert _take(store, [number - 100]) == [number - 100]
        assert len(store) == 100
        assert len(store.snapshot().segments) <= 16


def test_rows_of_a_large_segment_that_is_nearly_taken_are_not_copied_again() -> None:
    """It will be gone soon, while a small one, and one that is still full, are put together with what follows."""
    rows = pa.record_batch({"x": np.arange(20_000)})
    for length, taken, segments in ((20_000, 19_000, 2), (20_000, 1_000, 1), (2_000, 1_900, 1)):
        store = RowStore(rows.schema)
        store.append(rows.slice(0, length))
        store.take(np.arange(taken))
        store.append(rows.slice(0, length))
        assert len(store.snapshot().segments) == segments


def test_rows_that_follow_each_other_are_handed_over_without_a_copy() -> None:
    """As a slice of the segment in which they arrived."""
    rows = _numbers(0, 100)
    store = RowStore(rows.schema)
    store.append(rows)
    taken = store.take(np.arange(20, 60))
    assert taken.column("n").to_pylist() == list(range(20, 60))
    assert taken.column("n").buffers()[1].address == rows.column("n").buffers()[1].address


def test_memory_of_rows_that_were_taken_is_let_go() -> None:
    """As soon as the last row of a segment has gone; others stay as they are."""
    stores_of = [np.arange(first, first + 70_000) for first in (0, 70_000)]
    watched = [weakref.ref(numbers) for numbers in stores_of]
    store = RowStore(pa.schema({"n": pa.int64()}))
    for numbers in stores_of:
        store.append(pa.record_batch({"n": pa.array(numbers)}))
    del numbers, stores_of
    _take(store, np.arange(69_999, 0, -1))
    gc.collect()
    assert watched[0]() is not None
    _take(store, [100_000, 0])
    gc.collect()
    assert watched[0]() is None
    assert watched[1]() is not None
    assert len(store) == 69_999


def test_rows_that_are_discarded_are_forgotten_and_the_others_are_not() -> None:
    """In any order, and none at all."""
    store = RowStore(pa.schema({"n": pa.int64()}))
    store.append(pa.record_batch({"n": pa.array(range(10), pa.int64())}))
    store.discard(np.array([7, 2, 3]))
    assert len(store) == 7
    store.discard(np.array([], dtype=np.int64))
    assert len(store) == 7
    assert store.take(np.array([9, 0, 4])).column("n").to_pylist() == [9, 0, 4]
    store.discard(np.array([1, 5, 6, 8]))
    assert len(store) == 0


def test_a_snapshot_shares_the_segments_that_a_step_did_not_touch() -> None:
    """The very batches; and it is not changed by what follows."""
    store = _numbered(70_000, 30_000, 10_000)
    before = store.snapshot()
    store.append(_numbers(110_000, 10))
    after = store.snapshot()
    assert len(after.segments) == 4
    for (first, rows, left), (first_after, rows_after, left_after) in zip(
        before.segments, after.segments, strict=False
    ):
        assert rows is rows_after
        assert (first, left) == (first_after, left_after)
    _take(store, [5, 70_001, 109_999])
    assert [left for _, _, left in store.snapshot().segments] == [69_999, 29_999, 9_999, 10]
    assert all(one[1] is two[1] for one, two in zip(after.segments, store.snapshot().segments, strict=True))
    assert [left for _, _, left in before.segments] == [70_000, 30_000, 10_000]
    again = RowStore(pa.schema({"n": pa.int64()}), before)
    assert _take(again, [109_999, 5, 70_001]) == [109_999, 5, 70_001]


def test_dictionaries_that_differ_from_batch_to_batch_are_put_together() -> None:
    """The words matter, not their numbers."""
    kind = pa.dictionary(pa.int32(), pa.string())
    store = RowStore(pa.schema({"word": kind}))
    for words in (["a", "b", "a"], ["b", "c"], ["d"], ["c", "a", "e", "e"]):
        store.append(pa.record_batch({"word": pa.array(words).dictionary_encode()}))
    taken = store.take(np.array([9, 0, 5, 4, 1, 7]))
    assert taken.column("word").to_pylist() == ["e", "a", "d", "c", "b", "a"]
    assert taken.schema.field("word").type == kind


def test_columns_that_cannot_be_null_stay_so() -> None:
    """The schema is that of the stream, not what Arrow would guess."""
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("x", pa.string(), nullable=False)])
    store = RowStore(schema)
    for first in (0, 100, 150):
        rows = {"n": np.arange(first, first + 50), "x": [str(n) for n in range(50)]}
        store.append(pa.record_batch(rows, schema=schema))
    for numbers in ([149, 3], [5, 6, 7], []):
        assert store.take(np.array(numbers, dtype=np.int64)).schema == schema


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("nulls", [False, True])
def test_long_stretches_of_several_segments_come_as_asked_for(kind: str, nulls: bool) -> None:
    """Columns that only Arrow can gather are taken stretch by stretch then."""
    arrow_type, value = _KINDS[kind]
    values = [None if nulls and n % 7 == 0 else value(n) for n in range(1_550)]
    plain = arrow_type.value_type if pa.types.is_run_end_encoded(arrow_type) else arrow_type
    store = RowStore(pa.schema({"x": arrow_type}))
    for first, stop in ((0, 1_000), (1_000, 1_400), (1_400, 1_550)):  # so much shorter are not put together
        column = pa.array(values[first:stop], plain)
        store.append(pa.record_batch({"x": pc.run_end_encode(column) if plain != arrow_type else column}))
    asked = np.concatenate([np.arange(999, 99, -1), np.arange(1_400, 1_550), np.arange(1_000, 1_400)])
    taken = store.take(asked).column("x")
    assert taken.type == arrow_type
    whole = pa.array(values, plain).to_pylist()
    assert str(taken.to_pylist()) == str([whole[row] for row in asked])  # as words, in which NaN is NaN
    assert len(store) == 100


def test_a_dictionary_that_all_segments_share_is_not_made_anew() -> None:
    """Only the places in it are gathered; one that is not shared is put together with the others."""
    words = pa.array(["a", "b", "c"])
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 1] * 30_000, pa.int32()), words)
    store = RowStore(pa.schema({"x": column.type}))
    for first in (0, 60_000):
        store.append(pa.record_batch({"x": column.slice(first, 60_000)}))
    asked = np.arange(119_999, -1, -1)
    taken = store.take(asked[:100_000]).column("x")
    assert taken.dictionary.buffers()[2].address == words.buffers()[2].address
    assert taken.to_pylist() == column.take(pa.array(asked[:100_000])).to_pylist()
    other = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 40_000, pa.int32()), pa.array(["c", "d"]))
    store.append(pa.record_batch({"x": other}))
    rest = np.concatenate([np.arange(120_000, 200_000), asked[100_000:]])
    expected = [*other.to_pylist(), *column.take(pa.array(asked[100_000:])).to_pylist()]
    assert store.take(rest).column("x").to_pylist() == expected
