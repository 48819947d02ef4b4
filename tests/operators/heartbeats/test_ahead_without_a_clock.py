"""Rows that are ahead where no clock says how far time has come: the newest row that counts stands for it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.runners.spark.planning.shard_plan import ShardPlan
from slackwater.testing.oracles.heartbeats.ahead import ahead_of_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROWS = pa.schema({"at": pa.int64(), "who": pa.string(), "n": pa.int64()})

Row = tuple[str, int]
"""Who sent it, and its time."""


def _stream(rows: Sequence[Row], edges: Sequence[int] = (), leave_out: Sequence[int] = ()) -> sw.DisorderedStream:
    """Rows that come in batches, cut at these places; some may be left out."""
    columns = [{"at": at, "who": who, "n": n} for n, (who, at) in enumerate(rows)]
    parts = [columns[first:stop] for first, stop in pairwise([0, *sorted(edges), len(rows)])]
    kept = [[row for row in part if row["n"] not in leave_out] for part in parts]
    batches = [pa.RecordBatch.from_pylist(part, schema=_ROWS) for part in kept]
    return sw.stream(pa.RecordBatchReader.from_batches(_ROWS, batches), time="at", origin="who")


_EXTREMES = st.sampled_from([BEGINNING + 1, -(2**62), 2**62, FOREVER - 2, FOREVER - 1])
_DRAWN = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 40) | _EXTREMES), min_size=1, max_size=30)
_BOUNDS = st.sampled_from(
    [sw.Bounds.in_order(), sw.Bounds.uniform(5), sw.Bounds.in_order() & sw.Bounds.patience(3), sw.Bounds.greatest()]
)


@given(_DRAWN, _BOUNDS, st.integers(0, 20), st.data())
def test_a_row_that_is_ahead_counts_as_little_as_if_it_had_never_come(
    drawn: list[Row], bounds: sw.Bounds, allowed: int, data: st.DataObject
) -> None:
    """Which rows these are does not depend on how rows are cut into batches; all others are as without them."""
    edges = data.draw(st.lists(st.integers(0, len(drawn)), max_size=4))
    expected = ahead_of_rows([at for _, at in drawn], allowed)
    got = _stream(drawn, edges).sort(bounds=bounds, ahead=allowed).run()
    without = _stream(drawn, edges, leave_out=expected).sort(bounds=bounds).run()
    assert got.counters["heartbeats#1"].late == len(expected)
    late = [n for table in got.late_by_source.values() for n in table["n"].to_pylist()]
    assert sorted(late) == sorted([*expected, *without.late["n"].to_pylist()])
    assert got.table["n"].to_pylist() == without.table["n"].to_pylist()


def test_one_fast_clock_makes_no_honest_row_late() -> None:
    """And the late output shows the latest time that was allowed."""
    rows = [("a", 9), ("b", 5_000), ("a", 11), ("b", 12)]
    bounds = sw.Bounds.uniform(5)
    result = _stream(rows, [1, 2, 3]).sort(bounds=bounds, ahead=3).run()
    assert result.table["at"].to_pylist() == [9, 11, 12]
    (ahead,) = (table.to_pylist() for table in result.late_by_source.values() if table.num_rows)
    assert ahead == [{"at": 5_000, "who": "b", "n": 1, "latest_allowed": 12, "ahead_by": 4_988}]
    without = _stream(rows, [1, 2, 3]).sort(bounds=bounds).run()
    assert without.table["at"].to_pylist() == [9, 5_000], "which is what the guard is for"


def test_a_source_that_pauses_while_others_go_on_is_not_ahead() -> None:
    """However long: it is compared with all rows, not with its own alone."""
    rows = [("a", 0), *(("b", at) for at in range(0, 1_000, 10)), ("a", 1_000)]
    result = _stream(rows).sort(bounds=sw.Bounds.in_order(), ahead=15).run()
    assert (result.table.num_rows, result.counters["heartbeats#1"].late) == (len(rows), 0)


def test_a_pause_of_all_sources_that_is_longer_than_allowed_shows_in_the_late_output() -> None:
    """Rows alone do not show whether time went on or a clock jumped: nothing is lost silently, and nothing moves."""
    rows = [("a", 0), ("b", 1), ("a", 100), ("b", 101)]
    result = _stream(rows).sort(bounds=sw.Bounds.in_order(), ahead=15).run()
    assert (result.table["at"].to_pylist(), result.counters["heartbeats#1"].late) == ([0, 1], 2)


def test_numbers_are_compared_with_numbers_though_a_clock_runs() -> None:
    """A live stream of sequence numbers: the clock says nothing of them; a snapshot remembers the newest."""
    source = sw.PushSource(_ROWS)
    bounds = sw.Bounds.in_order() & sw.Bounds.lull("1d")
    ordered = sw.stream(source, time="at", origin="who").sort(bounds=bounds, ahead=10)
    late: list[int] = []
    query = ordered.open(id, on_late=lambda rows: late.extend(rows["n"].to_pylist()), clock=sw.ManualClock(0))
    for n, at in enumerate([5, 900, 15, 26, 25]):
        source.push([{"at": at, "who": "a", "n": n}])
        query.work()
    query.stop()
    assert late == [1, 3]


def test_the_plan_shows_what_rows_are_compared_with() -> None:
    """And Spark refuses it with the reason."""
    ordered = _stream([("a", 1)]).sort(bounds=sw.Bounds.in_order(), ahead=15)
    assert "at most 15 ahead of the newest row" in str(ordered.explain())
    with pytest.raises(PlanError, match="rows of a micro-batch have no order"):
        ShardPlan.of({"main": ordered.node}, 1)
