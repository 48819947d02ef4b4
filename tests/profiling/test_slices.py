"""A recording that is measured slice by slice is as one that is measured in one piece, wherever it is cut."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from profiles_agree import assert_agrees
from slices_in_process import RowsInProcess

import slackwater as sw
from slackwater.profiling.log_buckets import RESOLUTION, Buckets, bucket_of, bucket_of_signed
from slackwater.profiling.measures import Spread
from slackwater.profiling.on_spark import measure
from slackwater.profiling.profile import profile_of
from slackwater.profiling.recording import Columns
from slackwater.progress.instants import BEGINNING, FOREVER

_LENGTHS = st.integers(0, 2**64 - 1) | st.integers(0, 70_000)


@given(st.lists(_LENGTHS, min_size=1, max_size=60))
def test_a_bucket_is_as_wide_as_its_resolution_says(lengths: list[int]) -> None:
    """And longer lengths are never in a lesser bucket."""
    ordered = np.sort(np.array(lengths, dtype=np.uint64))
    buckets = bucket_of(ordered)
    assert (np.diff(buckets) >= 0).all()
    for number in np.unique(buckets):
        its = [int(one) for one in ordered[buckets == number]]
        assert its[-1] - its[0] <= its[0] * RESOLUTION
    found, exact = Buckets.of(ordered).spread(), Spread.of(ordered)
    assert found.greatest == exact.greatest
    assert all(exact[share] <= length <= exact[share] * (1 + RESOLUTION) for share, length in found.at)
    for one in Buckets.of(ordered).greatest.tolist():
        assert Buckets.of(ordered).at_most_longer(one) == np.count_nonzero(ordered > np.uint64(one))


@given(st.lists(st.integers(BEGINNING, FOREVER), min_size=2, max_size=40))
def test_lengths_below_0_are_in_order_too(lengths: list[int]) -> None:
    """The least int64 included."""
    ordered = np.sort(np.array(lengths, dtype=np.int64))
    assert (np.diff(bucket_of_signed(ordered)) >= 0).all()
    assert [one < 0 for one in bucket_of_signed(ordered)] == [one < 0 for one in ordered]


_TIMES = st.none() | st.integers(0, 900) | st.sampled_from([5_000, -(10**6), 4 * 10**9, -(4 * 10**9)])
_WHO = st.sampled_from(["a", "b", "c", "d", None])
_ROWS = st.lists(st.tuples(_TIMES, st.integers(0, 60), _WHO, st.integers(0, 2)), min_size=1, max_size=40).filter(
    lambda rows: any(row[0] is not None for row in rows)
)


@given(_ROWS, st.integers(1, 12), st.sampled_from([0.7, 1]), st.booleans())
@example([(n if who != "c" else n - 4 * 10**9, n, who, 0) for n, who in enumerate("abcd" * 8)], 7, 0.7, True)
@example([(FOREVER - 1, 3, "a", 0), (BEGINNING + 1, 4, "a", 0), (0, 5, "b", 0)], 1, 1, True)
def test_wherever_a_recording_is_cut_its_profile_is_the_same(
    rows: list[tuple[int | None, int, str | None, int]], slice_rows: int, first: float, by_source: bool
) -> None:
    """Within the resolution that it says; rows that arrive at one instant come in order of time."""
    rows = sorted(rows, key=lambda row: (row[1], row[0] is None, row[0] or 0, row[2] or ""))
    origin = "who" if by_source else None
    at, came, who, what = zip(*rows, strict=True)
    table = pa.table({"at": pa.array(at, pa.int64()), "came": came, "who": pa.array(who, pa.string()), "what": what})
    table = table if by_source else table.drop(["who"])
    exact = sw.profile(table, time="at", arrived="came", origin=origin, first=first)
    narrow = RowsInProcess([row if by_source else (row[0], row[1], None, row[3]) for row in rows])
    columns = Columns("at", "came", origin)
    found = measure(narrow, columns, (False, False), first, copies=True, slice_rows=slice_rows)  # type: ignore[arg-type]
    assert_agrees(profile_of("table", found), exact, slices=found.found.runs.num_rows)


@pytest.mark.parametrize("slice_rows", [40, 400, 10_000])
def test_quantiles_of_many_rows_are_as_good_as_they_say(slice_rows: int) -> None:
    """Delays of some size, in one slice and in many."""
    rng = np.random.default_rng(20)
    came = np.arange(4_000) * 1_000
    times = came - rng.exponential(40_000, 4_000).astype(np.int64)
    who = [f"s{number}" for number in rng.integers(0, 5, 4_000).tolist()]
    exact = sw.profile(pa.table({"at": times, "came": came, "who": who}), time="at", arrived="came", origin="who")
    narrow = RowsInProcess(list(zip(times.tolist(), came.tolist(), who, [0] * 4_000, strict=True)))
    columns = Columns("at", "came", "who")
    found = measure(narrow, columns, (False, False), 0.7, copies=True, slice_rows=slice_rows)  # type: ignore[arg-type]
    assert_agrees(profile_of("table", found), exact, slices=found.found.runs.num_rows)
    assert found.found.runs.num_rows == -(-4_000 // slice_rows)
