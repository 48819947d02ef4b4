"""Which aggregates get sums beside rows, and why others do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.plan.node import walk
from slackwater.plan.nodes.aggregating import AggregateStep
from slackwater.plan.rewrites.optimizer import optimized_for_spark
from slackwater.plan.rewrites.preaggregate import why_not_map_side
from slackwater.plan.rewrites.sums_beside_rows import SumsBesideRows, sums_beside_rows
from slackwater.plan.rewrites.transform import readers_of

if TYPE_CHECKING:
    from collections.abc import Callable

_TIME = pa.timestamp("us")
_SCHEMA = pa.schema({"at": _TIME, "k": pa.string(), "v": pa.int64(), "landed": _TIME})
_DROP = sw.Late.drop()
_BOUNDS = sw.Bounds.in_order() & sw.Bounds.lull("1d")


def _rows(**options: Any) -> sw.DisorderedStream:
    return sw.stream(sw.PushSource(_SCHEMA, name="rows"), time="at", **options)


def _counted(stream: Any, *keys: str) -> sw.OrderedStream:
    counted: sw.OrderedStream = stream.group_by(*keys).aggregate(n=sw.count())
    return counted


def _bounded(late: sw.Late = _DROP, **options: Any) -> Any:
    return _rows(origin="k", **options).sort(bounds=_BOUNDS, late=late)


def _two_counts() -> list[Any]:
    ordered = _rows().sort("5s", late=_DROP)
    return [_counted(ordered.tumbling("1m"), "k"), _counted(ordered.tumbling("1h"), "k")]


def _found(streams: list[Any]) -> list[SumsBesideRows | str]:
    run = optimized_for_spark(*(stream.node for stream in streams))
    readers = readers_of(run)
    return [sums_beside_rows(node, readers) for node in walk(*run) if isinstance(node, AggregateStep)]


_SUMMED_UP: dict[str, tuple[Callable[[], Any], bool]] = {
    "rows are late one by one": (lambda: _counted(_rows().sort("5s", late=_DROP).tumbling("1m"), "k"), False),
    "windows are late": (lambda: _counted(_rows().tumbling("1m").sort("5s", late=_DROP), "k"), True),
    "late windows are seen": (lambda: _counted(_rows().tumbling("1m").sort("5s"), "k"), False),
    "late windows are moved": (lambda: _counted(_rows().tumbling("1m").sort("5s", late=sw.Late.adjust()), "k"), False),
    "columns that are chosen": (
        lambda: _counted(_rows().tumbling("1m").sort("5s", late=_DROP).select(w="k"), "w"),
        True,
    ),
    "columns that are computed": (
        lambda: _counted(_rows().tumbling("1m").sort("5s", late=_DROP).select("k", w=nw.col("v") + 1), "k"),
        False,
    ),
    "a filter behind the window": (
        lambda: _counted(_rows().tumbling("1m").sort("5s", late=_DROP).where(nw.col("v") > 1), "k"),
        False,
    ),
    "rows without a time": (
        lambda: _counted(_rows(untimed_is_late=True).tumbling("1m").sort("5s", late=_DROP), "k"),
        False,
    ),
    "bounds by the clock": (lambda: _counted(_bounded().tumbling("1m"), "k"), False),
    "windows by bounds": (
        lambda: _counted(_rows(origin="k").tumbling("1m").sort(bounds=_BOUNDS, late=_DROP), "k"),
        False,
    ),
    "panes": (lambda: _counted(_rows().sort("5s", late=_DROP).hopping("1m", "10s")), False),
}


@pytest.mark.parametrize("name", _SUMMED_UP)
def test_sums_come_beside_rows_where_these_are_seen_by_the_aggregate_alone(name: str) -> None:
    """All of them only where late rows are dropped with their window, and nothing in between may leave one out."""
    make, all_rows = _SUMMED_UP[name]
    (found,) = _found([make()])
    assert isinstance(found, SumsBesideRows)
    assert found.of_late_rows == all_rows
    assert why_not_map_side(*optimized_for_spark(make().node)) == []


_WHY_NOT: dict[str, tuple[Callable[[], Any], str]] = {
    "no windows": (lambda: _counted(_rows().sort("5s"), "k"), "there is no window before it"),
    "two readers": (_two_counts, "another step reads the sorted rows"),
    "rows that are read, too": (
        lambda: [ordered := _rows().sort("5s", late=_DROP), _counted(ordered.tumbling("1m"), "k")],
        "another step reads the sorted rows",
    ),
    "windows that overlap, with keys": (
        lambda: _counted(_rows().sort("5s").hopping("1m", "10s"), "k"),
        "groups of windows that overlap come in the order of their rows",
    ),
    "a function of batches": (
        lambda: _counted(_rows().sort("5s").map_batches(lambda rows: rows.select(["k"])).tumbling("1m"), "k"),
        "map_batches gets rows in order; do it before they are sorted",
    ),
    "the time as a key": (lambda: _counted(_rows().sort("5s").tumbling("1m"), "at", "k"), "its key at is the time"),
    "the time by another name": (
        lambda: _counted(_rows().sort("5s").tumbling("1m").select("k", when="at"), "k", "when"),
        "its key at is the time",
    ),
    "windows of windows that late rows are moved to": (
        lambda: _counted(_rows().sort("5s", late=sw.Late.adjust()).tumbling("1m").tumbling("1h"), "k"),
        "late rows are moved, and windows are windows of windows",
    ),
    "arrivals by a column": (
        lambda: _counted(_bounded(arrived="landed").tumbling("1m"), "k"),
        "within a micro-batch a row is late by those that arrived before it, as landed says",
    ),
    "rows ahead of the clock": (
        lambda: _counted(_rows(origin="k").sort(bounds=_BOUNDS, ahead="1m", late=_DROP).tumbling("1m"), "k"),
        "only shards know which rows are ahead of the clock",
    ),
    "a union": (
        lambda: _counted(sw.union(_rows().sort("5s"), _rows().sort("5s")).tumbling("1m"), "k"),
        "its rows come from union, which is done in shards",
    ),
}


@pytest.mark.parametrize("name", _WHY_NOT)
def test_there_is_a_reason_where_all_rows_come_as_they_are(name: str) -> None:
    """As explain() has it."""
    make, reason = _WHY_NOT[name]
    made = make()
    found = _found(made if isinstance(made, list) else [made])
    assert found
    assert all(isinstance(one, str) and reason in one for one in found), found


def test_rows_that_go_on_to_another_band_come_as_they_are() -> None:
    """What one band has, the next gets, too."""
    early, later = _rows().in_bands("5s", "1m", late=_DROP)
    found = _found([_counted(early.tumbling("1m"), "k"), _counted(later.tumbling("1m"), "k")])
    assert not any(isinstance(one, SumsBesideRows) for one in found)
