"""Columns that nobody reads are left out where rows are copied, and the answers are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals as nw
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.plan.node import walk
from slackwater.plan.nodes.ordering import Punctuate, Sort
from slackwater.plan.rewrites.optimizer import optimized_in_process
from slackwater.plan.rewrites.sort_as_needed import sort_as_needed
from slackwater.plan.rewrites.unread_columns import without_unread_columns

if TYPE_CHECKING:
    from slackwater.streams.stream import Stream

_SCHEMA = pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64()})
_DROP = sw.Late.drop()


def _rows(*times: int) -> pa.Table:
    return pa.table(
        {"at": times, "k": ["abc"[i % 3] for i in range(len(times))], "v": list(range(len(times)))}, schema=_SCHEMA
    )


def _events() -> sw.DisorderedStream:
    return sw.stream(_rows(3, 1, 2), time="at")


def _columns(kind: type, *streams: Stream) -> list[list[str]]:
    """The payload columns that come to each step of a kind, as the plan runs."""
    nodes = walk(*optimized_in_process(*(stream.node for stream in streams)))
    return [node.inputs[0].schema.payload.names for node in nodes if isinstance(node, kind)]


def _sorted_columns(stream: Stream) -> list[list[str]]:
    """The payload columns that come to each sort; those before an aggregate are there, too."""
    nodes = walk(*without_unread_columns(*sort_as_needed(stream.node)))
    return [node.inputs[0].schema.payload.names for node in nodes if isinstance(node, Sort)]


def test_before_an_aggregate_only_the_columns_that_it_looks_at_are_sorted() -> None:
    """Keys and what is summed up, each once; none at all for a count of rows."""
    windows = _events().sort(5).tumbling(5)
    summed = windows.group_by("k").aggregate(n=sw.count(), a=sw.sum("v"), b=sw.max("v"))
    assert _sorted_columns(summed) == [["k", "v"]]
    assert _sorted_columns(windows.aggregate(n=sw.count())) == [[]]
    assert _sorted_columns(windows.aggregate(n=sw.count("at"))) == [["at"]]
    dropped = _events().sort(5, late=_DROP).tumbling(5).aggregate(n=sw.count())
    assert "added by the plan" in dropped.explain()


def test_what_two_aggregates_look_at_is_sorted_once() -> None:
    """Each takes its own."""
    windows = _events().sort(5).tumbling(5)
    both = windows.aggregate(n=sw.count()).union(windows.group_by("k").aggregate(n=sw.count()).select("n"))
    assert _columns(Sort, both) == [["k"]]


def test_late_rows_that_are_dropped_need_no_columns() -> None:
    """Those that are shown to somebody keep all that they have."""
    windows = _events().tumbling(5).group_by("k")
    assert _columns(Punctuate, *windows.in_bands(2, 9, late=_DROP, n=sw.count())) == [["k"]]
    for late in (sw.Late.divert(), sw.Late.raise_error()):
        assert _columns(Punctuate, *windows.in_bands(2, 9, late=late, n=sw.count())) == [["k", "v"]]
    sorted_windows = _events().sort(5, late=_DROP).tumbling(5).aggregate(n=sw.max("v"))
    assert _columns(Punctuate, sorted_windows) == [["v"]]


def test_all_columns_are_carried_where_others_may_look_at_them() -> None:
    """A function over windows, a predicate, and whoever takes the stream."""
    ordered = _events().sort(5, late=_DROP)
    assert _columns(Sort, ordered.tumbling(5).map_windows(lambda rows: rows.select(["v"]))) == [["k", "v"]]
    assert _columns(Punctuate, ordered.where(nw.col("v") > 0).aggregate(n=sw.count())) == [["k", "v"]]
    assert _columns(Sort, ordered) == [["k", "v"]]


def test_a_column_that_a_window_renames_is_known_by_its_older_name() -> None:
    """The window before becomes window_start_before, and is counted by that."""
    ordered = _events().sort(20, late=_DROP).tumbling(5).tumbling(10)
    counted = ordered.group_by("window_start_before").aggregate(n=sw.count())
    assert _sorted_columns(counted) == [["window_start_before"]]
    assert counted.run().table.column("window_start_before").to_pylist() == [0]
    twice = _events().tumbling(5).tumbling(10)
    banded = twice.group_by("window_start_before").in_bands(2, 9, late=_DROP, n=sw.count())[1]
    assert banded.run().table.column("n").to_pylist() == [3]


@pytest.mark.parametrize("late", [_DROP, sw.Late.adjust(), sw.Late.divert()], ids=str)
def test_answers_are_those_of_all_columns(late: sw.Late) -> None:
    """Nothing but what is read is carried, and every row is counted."""
    times = [(7_919 * n) % 1_000 for n in range(3_000)]
    windows = sw.stream(_rows(*times), time="at").tumbling(100)
    for answers in (
        sw.stream(_rows(*times), time="at").sort(1_000, late=late).tumbling(100).aggregate(n=sw.count(), v=sw.sum("v")),
        windows.in_bands(10, 1_000, late=late, n=sw.count(), v=sw.sum("v"))[1],
    ):
        table = answers.run().table
        assert table.column("n").to_pylist() == [300] * 10
        assert sum(table.column("v").to_pylist()) == sum(range(3_000))
