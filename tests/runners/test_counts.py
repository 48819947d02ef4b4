"""What operators count: the same numbers for each step and for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

import slackwater as sw
from slackwater.runners import counts

if TYPE_CHECKING:
    from slackwater.runners.graph_parts import Step

_ROWS = pa.schema({"at": pa.int64(), "v": pa.int64()})


def _rows(*times: int) -> list[dict[str, int]]:
    return [{"at": at, "v": at % 3} for at in times]


def _steps(query: sw.Query) -> list[Step]:
    return query._runner._graph.steps


def test_the_sums_are_those_of_the_counters_of_all_steps() -> None:
    """Late rows, duplicates and what is held, of two branches that do not know of each other."""
    blue, green = sw.PushSource(_ROWS, name="blue"), sw.PushSource(_ROWS, name="green")
    once = sw.stream(blue, time="at").sort(2, late=sw.Late.drop()).deduplicate(on=["v"], within=100)
    late = sw.stream(green, time="at").sort(3, late=sw.Late.drop())
    query = sw.Query([(once, lambda _: None), (late, lambda _: None)], clock=sw.ManualClock())
    blue.push(_rows(1, 9, 1, 12, 20))
    green.push(_rows(30, 31, 5, 6, 32))
    query.work()
    steps = _steps(query)
    each = counts.counters(steps)
    assert counts.late(steps) == sum(one.late for one in each.values()) == 3
    assert counts.duplicates(steps) == sum(one.duplicates for one in each.values()) == 1
    assert counts.buffered(steps) == sum(one.buffered for one in each.values()) > 0
    assert list(each) == [step.name for step in steps]


def test_counters_are_copies() -> None:
    """Who keeps them sees what was, not what is."""
    source = sw.PushSource(_ROWS, name="blue")
    query = sw.Query([(sw.stream(source, time="at").assume_ordered(), lambda _: None)], clock=sw.ManualClock())
    before = counts.counters(_steps(query))
    source.push(_rows(1, 2, 3))
    query.work()
    assert {one.rows_in for one in before.values()} == {0}


def test_what_merges_leave_out_is_counted_once() -> None:
    """What went into the merge has gone out of it, or is among these."""
    blue, green = sw.PushSource(_ROWS, name="blue"), sw.PushSource(_ROWS, name="green")
    streams = [sw.stream(one, time="at").assume_ordered() for one in (blue, green)]
    query = sw.Query([(sw.merge_replicas(*streams), lambda _: None)], clock=sw.ManualClock())
    for one in (blue, green):
        one.push(_rows(1, 2, 3, 4))
    query.work()
    merge, left_out = counts.counters(_steps(query))["merge_replicas#1"], counts.left_out(_steps(query))
    assert left_out.duplicates == merge.duplicates > 0
    assert left_out.total == merge.rows_in - merge.rows_out > 1
    assert counts.open_events(_steps(query)) == {}
