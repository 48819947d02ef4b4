"""Putting times into cells equals a stable sort, however times are spread and in however many stretches they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.sorting import cell_sort
from slackwater.kernels.sorting.cell_sort import CellSorter, Unsorted, _lay_end_to_end, settle
from slackwater.kernels.sorting.pairs import Piece, room_for

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ANY_TIME = st.integers(-(2**63), 2**63 - 1)
_NEAR_TIME = st.integers(-50, 50)
_TIMES = st.lists(st.one_of(_NEAR_TIME, _ANY_TIME), max_size=40)


def _column(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def _sorted(times: NDArray[np.int64]) -> Piece:
    whole = Unsorted.whole(times, _column([0]))
    return CellSorter().sort([whole], int(times.min()), int(times.max()), room_for(len(times)))


def _assert_sorted(times: NDArray[np.int64], in_order: Piece) -> None:
    order = np.argsort(times, kind="stable")
    assert np.array_equal(in_order.rows, order)
    assert np.array_equal(in_order.times, times[order])


@pytest.fixture(params=["evenly", "by marks", "without moves"])
def _split(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All ways to find cells, also for few pairs; and cells that do not help."""
    if request.param == "by marks":
        monkeypatch.setattr(cell_sort, "_WORTH_SAMPLING", 1)
        monkeypatch.setattr(cell_sort, "_MANY", 2**62)
        monkeypatch.setattr(cell_sort, "_lay_end_to_end", lambda cells: _lay_end_to_end(cells) or 1)
        monkeypatch.setattr(cell_sort, "_much_denser", lambda *_: True)
    elif request.param == "without moves":
        monkeypatch.setattr(cell_sort, "_MOVES", 0)


@pytest.mark.usefixtures("_split")
@given(parts=st.lists(st.tuples(st.lists(_TIMES, min_size=1, max_size=4), st.booleans()), min_size=1, max_size=4))
def test_equals_a_stable_sort_of_all_stretches(parts: list[tuple[list[list[int]], bool]]) -> None:
    """Parts of several stretches, cut out of longer columns, their rows given or numbered on."""
    given_parts, expected, first_row = [], [], 0
    for stretches, numbered_on in parts:
        column = _column([0, *(time for stretch in stretches for time in (*stretch, 0))])
        rows = np.arange(first_row, first_row + len(column))
        heads = np.cumsum([1, *(len(stretch) + 1 for stretch in stretches[:-1])])
        ends = heads + [len(stretch) for stretch in stretches]
        pairs = int((ends - heads).sum())
        given_parts.append(Unsorted(column, rows[:1] if numbered_on else rows, heads, ends, pairs))
        places = [i for head, end in zip(heads, ends, strict=True) for i in range(head, end)]
        expected += [(int(column[i]), int(rows[i])) for i in places]
        first_row += len(column)
    if not expected:
        return
    expected.sort()
    in_order = CellSorter().sort(given_parts, expected[0][0], expected[-1][0], room_for(len(expected)))
    assert list(zip(in_order.times.tolist(), in_order.rows.tolist(), strict=True)) == expected


def test_sorts_columns_of_every_nature(disordered_times: NDArray[np.int64]) -> None:
    """Spread evenly, crowded, far apart: each at once, and with memory that a sort before has used."""
    _assert_sorted(disordered_times, _sorted(disordered_times))
    sorter, n = CellSorter(), len(disordered_times) // 2
    for times in (disordered_times[:n], disordered_times[n:]):
        whole = Unsorted.whole(times, _column([0]))
        _assert_sorted(times, sorter.sort([whole], int(times.min()), int(times.max()), room_for(len(times))))


def test_bounds_that_are_wider_than_the_times_do_no_harm() -> None:
    """What is known of the least and the greatest time may be no more than a bound."""
    times = _column([5, 3, 9, 3])
    whole = Unsorted.whole(times, _column([0]))
    _assert_sorted(times, CellSorter().sort([whole], -(2**63), 2**63 - 1, room_for(4)))


def test_one_wrong_clock_does_not_make_all_others_crowd() -> None:
    """Cells follow a sample of the times: only those next to the gap share one, no more than lie between two marks."""
    rng = np.random.default_rng(0)
    times = np.arange(65_536) * 1_000 - rng.integers(0, 64_000, 65_536)
    times[::100] = -(2**60)
    sorter = CellSorter()
    sorter.sort([Unsorted.whole(times, _column([0]))], int(times.min()), int(times.max()), room_for(len(times)))
    pairs = np.sort(np.bincount(sorter.scratch[1][: len(times)][times > -(2**60)]))
    assert pairs[-1] <= 512
    assert pairs[-2] <= 64


def test_ties_do_not_crowd() -> None:
    """A clock that counts seconds needs no other cells, however many events share one."""
    times = np.arange(65_536) // 100 * 1_000_000
    sorter = CellSorter()
    sorter.sort([Unsorted.whole(times, _column([0]))], int(times.min()), int(times.max()), room_for(len(times)))
    assert len(np.unique(sorter.scratch[1])) == len(np.unique(times))


@given(times=_TIMES)
def test_settling_is_a_stable_sort_or_gives_up(times: list[int]) -> None:
    """It says which; and when it gives up, no pair is lost."""
    column = _column(times)
    inversions = sum(a > b for i, b in enumerate(times) for a in times[:i])
    for moves in (inversions, inversions - 1):
        piece = Piece(column.copy(), np.arange(len(times)))
        assert settle(*piece, moves) == (moves >= inversions or inversions == 0)
        assert sorted(piece.rows.tolist()) == list(range(len(times)))
        assert np.array_equal(column[piece.rows], piece.times)
        if moves >= inversions:
            _assert_sorted(column, piece)
