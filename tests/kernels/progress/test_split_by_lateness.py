"""Stretches and bounds by hand, splitting and putting between against NumPy; the operator's oracle does the rest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.progress.split_by_lateness import NEVER, Stretches, bands_of, follow, put_between
from slackwater.progress.instants import BEGINNING, FOREVER

_NOTHING = np.empty(0, dtype=np.int64)


def _column(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def test_a_guarantee_of_the_input_after_a_row_comes_after_what_the_row_caused() -> None:
    """Three stretches though the last two begin at the same row, so that both punctuations are emitted."""
    progress = _column(BEGINNING, BEGINNING, 0, BEGINNING)
    found = follow(_column(20, 30), (_column(1), _column(25)), _column(5), (1, NEVER), progress)
    assert found.first.tolist() == [0, 1, 1]
    assert found.bounds.tolist() == [[BEGINNING], [15], [25]]
    assert not found.behind
    assert progress.tolist() == [30, 30, 0, 25]


def test_a_guarantee_that_moves_one_band_only_is_a_stretch_for_all() -> None:
    """Each band picks out its own punctuations."""
    progress = _column(20, 20, 0, 12)
    found = follow(_column(23), (_NOTHING, _NOTHING), _column(5, 10), (1, NEVER), progress)
    assert found.bounds.tolist() == [[15, 12], [18, 13]]
    found = follow(_column(23), (_column(0), _column(16)), _column(5, 10), (2, NEVER), progress)
    assert found.bounds.tolist() == [[18, 13], [18, 16]]
    assert [column.tolist() for column in found.punctuations(0)] == [[], []]
    assert [column.tolist() for column in found.punctuations(1)] == [[0], [16]]


@pytest.mark.parametrize("high_water", [BEGINNING, -1, 0, FOREVER - 1])
def test_a_guarantee_before_all_rows_makes_no_instant(high_water: int) -> None:
    """Neither for a grid nor for rows; a cadence that names no instants is none."""
    for every in ((NEVER, NEVER), (3, NEVER), (NEVER, 7), (NEVER, FOREVER)):
        progress = _column(high_water, BEGINNING, 0, BEGINNING)
        follow(_NOTHING, (_column(0), _column(5)), _column(0), every, progress)
        assert progress.tolist() == [high_water, BEGINNING, 0, 5]


def test_the_last_cell_of_a_grid_may_reach_beyond_int64() -> None:
    """Nothing passes its end, so it makes no instant more."""
    progress = _column(FOREVER - 5, FOREVER - 5, 0, BEGINNING)
    found = follow(_column(FOREVER - 1), (_NOTHING, _NOTHING), _column(0), (NEVER, 1 << 62), progress)
    assert found.first.tolist() == [0]
    assert progress.tolist() == [FOREVER - 1, FOREVER - 5, 1, BEGINNING]


@given(data=st.data(), times=st.lists(st.integers(-9, 9), max_size=40), bands=st.integers(1, 4))
def test_a_row_is_in_the_band_whose_number_of_bounds_it_misses(
    data: st.DataObject, times: list[int], bands: int
) -> None:
    """Against all rows and all bounds."""
    first = [0, *sorted(data.draw(st.lists(st.integers(0, len(times)), max_size=5)))]
    bounds = np.array(
        [sorted(data.draw(st.lists(st.integers(-9, 9), min_size=bands, max_size=bands)), reverse=True) for _ in first],
        dtype=np.int64,
    )
    stretches = Stretches(_column(*first), bounds, behind=True)
    stretch_of = [max(k for k, start in enumerate(first) if start <= row) for row in range(len(times))]
    wanted = [int((bounds[k] > time).sum()) for k, time in zip(stretch_of, times, strict=True)]
    assert bands_of(_column(*times), stretches).tolist() == wanted
    assert stretches.bounds_at(np.arange(len(times))).tolist() == [bounds[k, -1] for k in stretch_of]


@given(data=st.data(), column=st.lists(st.integers(BEGINNING, FOREVER), max_size=40))
def test_values_are_put_before_the_rows_they_name(data: st.DataObject, column: list[int]) -> None:
    """As by NumPy's insert, several at one place included."""
    places = sorted(data.draw(st.lists(st.integers(0, len(column)), max_size=20)))
    values = list(range(len(places)))
    wanted = np.insert(_column(*column), places, values)
    assert put_between(_column(*column), _column(*places), _column(*values)).tolist() == wanted.tolist()
