"""Which plans sum up rows where they are read, and that they say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.plan.node import Node, walk
from slackwater.plan.nodes.bands import BandedAggregate
from slackwater.plan.nodes.ordering import Punctuate
from slackwater.plan.nodes.preaggregating import PreaggregatedRows, PunctuateUnlessSummedUp
from slackwater.plan.rewrites.optimizer import optimized
from slackwater.plan.rewrites.preaggregate import Placement, preaggregate, why_not_map_side

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SCHEMA = pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64()})
_DROP = sw.Late.drop()


def _rows(**options: Any) -> sw.DisorderedStream:
    return sw.stream(sw.PushSource(_SCHEMA), time="at", **options)


def _bands(stream: Any, *patiences: int, late: sw.Late = _DROP) -> Sequence[sw.OrderedStream]:
    bands: Sequence[sw.OrderedStream] = stream.in_bands(*(patiences or (2, 9)), late=late, n=sw.count())
    return bands


def _run(streams: Sequence[Any]) -> list[Node]:
    return preaggregate(Placement.MAP_SIDE, *optimized(*(stream.node for stream in streams)))


def test_windows_and_sums_come_before_the_check() -> None:
    """What splits by lateness counts groups by their events; the answers have the columns that they had."""
    written = _bands(_rows().tumbling(10).group_by("k"))
    first, second = _run(written)
    verbs = ["source", "select", "tumbling", "preaggregate", "punctuate", "output", "in_bands", "output"]
    assert [node.verb for node in walk(first, second)] == verbs
    assert [one.schema for one in (first, second)] == [one.node.schema for one in written]
    assert [one.properties for one in (first, second)] == [one.node.properties for one in written]
    assert isinstance(first, BandedAggregate)
    check, summed_up = first.bands[0], next(node for node in walk(first) if isinstance(node, PreaggregatedRows))
    assert isinstance(check, Punctuate)
    assert check.event_count_column == summed_up.groups.event_count_column
    assert check.patiences == (2, 9)


_SUMMED_UP: dict[str, Callable[[], Sequence[Any]]] = {
    "no keys": lambda: _bands(_rows().tumbling(10)),
    "columns chosen behind the window": lambda: _bands(_rows().tumbling(10).select("k", w=nw.col("v") + 1)),
    "rows left out before the window": lambda: _bands(_rows().where(nw.col("v") > 0).tumbling(10).group_by("k")),
    "the first of two bands": lambda: _bands(_rows().tumbling(10))[:1],
    "what is read behind the bands": lambda: [_bands(_rows().tumbling(10))[1].where(nw.col("n") > 1)],
}
_SUMMED_UP_UNLESS_LATE: dict[str, Callable[[], Sequence[Any]]] = {
    "late rows are shown": lambda: _bands(_rows().tumbling(10), late=sw.Late.divert()),
    "late rows are moved": lambda: _bands(_rows().tumbling(10), late=sw.Late.adjust()),
    "late rows are refused": lambda: _bands(_rows().tumbling(10), late=sw.Late.raise_error()),
    "a key that is chosen": lambda: _bands(
        _rows().tumbling(10).select("k", w=nw.col("v") + 1).group_by("k"), late=sw.Late.divert()
    ),
}
_NOT_SUMMED_UP: dict[str, Callable[[], Sequence[Any]]] = {
    "a key that is computed": lambda: _bands(
        _rows().tumbling(10).select(k=nw.col("v") + 1).group_by("k"), late=sw.Late.divert()
    ),
    "a key that had another name": lambda: _bands(
        _rows().tumbling(10).select(k="v", v="k").group_by("k"), late=sw.Late.divert()
    ),
    "no windows": lambda: _bands(_rows()),
    "windows that overlap": lambda: _bands(_rows().hopping(10, 5)),
    "windows of windows": lambda: _bands(_rows().tumbling(10).tumbling(30)),
    "rows left out behind the window": lambda: _bands(_rows().tumbling(10).where(nw.col("v") > 0)),
    "rows without a time": lambda: _bands(_rows(untimed_is_late=True).tumbling(10)),
    "events of the bands": lambda: _rows().tumbling(10).in_bands(2, 9, late=_DROP),
    "an aggregate that answers early": lambda: [
        _rows().tumbling(10).group_by().aggregate_early(patience=5, late=_DROP, n=sw.count())
    ],
}


@pytest.mark.parametrize("name", _SUMMED_UP)
def test_rows_are_summed_up_where_whole_windows_are_late(name: str) -> None:
    """Once, however many bands there are."""
    nodes = list(walk(*_run(_SUMMED_UP[name]())))
    assert sum(isinstance(node, PreaggregatedRows) for node in nodes) == 1
    assert sum(isinstance(node, Punctuate) for node in nodes) == 1


@pytest.mark.parametrize("name", _NOT_SUMMED_UP)
def test_all_other_plans_stay_as_they_are(name: str) -> None:
    """Node by node."""
    written = optimized(*(stream.node for stream in _NOT_SUMMED_UP[name]()))
    assert preaggregate(Placement.MAP_SIDE, *written) == written


_WHY_NOT = {
    "a key that is computed": "its key k is computed behind the window",
    "a key that had another name": "its key k is computed behind the window",
    "no windows": "rows are late one by one",
    "windows that overlap": "rows are late one by one",
    "windows of windows": "more than columns is changed between the window and in_bands()",
    "rows left out behind the window": "where comes between the window and in_bands()",
    "rows without a time": "rows without a time are in no window",
    "an aggregate that answers early": "aggregate_early n=count(): its answers follow each row",
}


@pytest.mark.parametrize("name", _NOT_SUMMED_UP)
def test_each_aggregate_of_such_a_plan_has_a_reason(name: str) -> None:
    """One that says what to write instead, where something can be done; who aggregates nothing needs none."""
    reasons = why_not_map_side(*_run(_NOT_SUMMED_UP[name]()))
    assert len(reasons) == (name in _WHY_NOT)
    assert all(_WHY_NOT[name] in reason for reason in reasons)


@pytest.mark.parametrize("name", _SUMMED_UP_UNLESS_LATE)
def test_rows_that_cannot_be_late_are_summed_up_where_late_ones_are_wanted(name: str) -> None:
    """By one step, which takes the others as rows; what is answered, and what is late, has the same columns."""
    written = _SUMMED_UP_UNLESS_LATE[name]()
    run = _run(written)
    (step,) = (node for node in walk(*run) if isinstance(node, Punctuate))
    assert isinstance(step, PunctuateUnlessSummedUp)
    assert [node.schema for node in run] == [stream.node.schema for stream in written]
    assert [node.properties for node in run] == [stream.node.properties for stream in written]
    assert why_not_map_side(*run) == []


@pytest.mark.parametrize("name", _SUMMED_UP)
def test_what_is_summed_up_where_it_is_read_needs_no_reason(name: str) -> None:
    """Nor does what is done with the answers."""
    assert why_not_map_side(*_run(_SUMMED_UP[name]())) == []


def test_rows_that_somebody_else_reads_are_not_summed_up() -> None:
    """A step that reads the events of a band, beside the aggregate, needs the events."""
    (counted, *_) = optimized(*(stream.node for stream in _bands(_rows().tumbling(10))))
    assert isinstance(counted, BandedAggregate)
    for also_read in counted.bands:
        assert preaggregate(Placement.MAP_SIDE, counted, also_read)[0] is counted
        assert why_not_map_side(counted, also_read) == ["in_bands n=count(): another step reads the same rows"]
