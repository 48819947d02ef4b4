"""Gathering from segments equals gathering from one column, for every width and wherever the segments lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.columns.gather_segments import WIDTHS, Places, gather_segments, locate

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn
    from numpy.typing import NDArray

_LENGTHS = st.lists(st.one_of(st.integers(1, 5), st.integers(1, 3_000), st.integers(4_090, 4_100)), min_size=1)


def _firsts(lengths: list[int], first: int = 0) -> NDArray[np.int64]:
    return np.cumsum([first, *lengths])


def _segment_of_each(places: Places) -> NDArray[np.int64]:
    return np.repeat(places.segments, np.diff(places.begins))


@st.composite
def _asked(draw: DrawFn, rows: int) -> NDArray[np.int64]:
    numbers = st.one_of(st.integers(0, rows - 1), st.sampled_from([0, rows // 2, rows - 1]))
    return np.array(draw(st.lists(numbers, max_size=30)), dtype=np.int64)


@given(lengths=_LENGTHS, first=st.integers(0, 10_000), data=st.data())
def test_rows_are_located_as_by_binary_search(lengths: list[int], first: int, data: st.DataObject) -> None:
    """Short segments and long ones, those that fill a page exactly included; the first may have any number."""
    firsts = _firsts(lengths, first)
    rows = first + data.draw(_asked(sum(lengths)))
    places = locate(rows, firsts)
    expected = np.searchsorted(firsts, rows, side="right") - 1
    assert _segment_of_each(places).tolist() == expected.tolist()
    assert (np.diff(places.segments) != 0).all(), "neighbours in one segment are one stretch"
    assert places.counts.tolist() == np.bincount(expected, minlength=len(lengths)).tolist()


@given(lengths=_LENGTHS, gone=st.sets(st.integers(0, 50)), data=st.data())
def test_rows_are_located_across_segments_that_have_gone(
    lengths: list[int], gone: set[int], data: st.DataObject
) -> None:
    """Their numbers are not asked for; those of the segments around them are found."""
    firsts = _firsts(lengths)
    left = [i for i in range(len(lengths)) if i not in gone] or [0]
    segments = np.array(data.draw(st.lists(st.sampled_from(left), max_size=20)), dtype=np.int64)
    rows = np.array([firsts[i] + data.draw(st.integers(0, lengths[i] - 1)) for i in segments], dtype=np.int64)
    places = locate(rows, np.array([*(firsts[i] for i in left), firsts[-1]]))
    assert [left[at] for at in _segment_of_each(places)] == segments.tolist()


@pytest.mark.parametrize("length", [1, 63, 64, 65, 66, 128, 129, 200])
def test_a_stretch_ends_with_the_first_row_of_another_segment(length: int) -> None:
    """Wherever that row is among those that are looked at together; numbers below the segment are outside, too."""
    inside = 1_000 + np.arange(length)
    for other in (999, 1_500):
        places = locate(np.array([*inside, other, *inside]), np.array([0, 1_000, 1_400, 2_000]))
        assert places.begins.tolist() == [0, length, length + 1, 2 * length + 1]
        assert places.segments.tolist() == [1, 0 if other < 1_000 else 2, 1]
        assert places.counts[1] == 2 * length


@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "f2", "i4", "f4", "i8", "u8", "f8", "M8[us]"])
@given(lengths=st.lists(st.integers(1, 20), min_size=1, max_size=8), data=st.data())
def test_values_are_gathered_as_from_one_column(kind: str, lengths: list[int], data: st.DataObject) -> None:
    """Every bit of them; the segments lie anywhere in memory, at any offset of what holds them."""
    rng = np.random.default_rng(sum(lengths))
    width = np.dtype(kind).itemsize
    held = [np.frombuffer(rng.bytes((length + 3) * width), dtype=kind) for length in lengths]
    segments = [segment[2:-1] for segment in held]
    addresses = np.array([segment.ctypes.data for segment in segments], dtype=np.uint64)
    rows = data.draw(_asked(sum(lengths)))
    gathered = np.empty(len(rows), dtype=f"i{width}")
    gather_segments(addresses, locate(rows, _firsts(lengths)), gathered)
    assert gathered.tobytes() == np.concatenate(segments)[rows].tobytes()


def test_all_widths_of_whole_bytes_are_known() -> None:
    """Callers ask by this set."""
    assert sorted(WIDTHS) == [8, 16, 32, 64]


def test_nothing_is_gathered_where_nothing_is_asked_for() -> None:
    """Neither a place nor a value."""
    places = locate(np.empty(0, dtype=np.int64), np.array([5, 8]))
    assert [column.tolist() for column in places] == [[], [0], [], [5, 8], [0]]
    gather_segments(np.zeros(1, dtype=np.uint64), places, np.empty(0, dtype=np.int32))


def test_columns_that_are_read_only_are_taken() -> None:
    """As those of batches are."""
    segment = np.array([1.5, 2.5, 3.5])
    columns = [np.array([2, 0]), np.array([0, 3]), segment]
    for column in columns:
        column.setflags(write=False)
    places = locate(columns[0], columns[1])
    for column in places:
        column.setflags(write=False)
    addresses = np.array([segment.ctypes.data], dtype=np.uint64)
    addresses.setflags(write=False)
    gathered = np.empty(2)
    gather_segments(addresses, Places(*places), gathered.view(np.int64))
    assert gathered.tolist() == [3.5, 1.5]
