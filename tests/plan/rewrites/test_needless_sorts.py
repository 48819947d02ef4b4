"""The sort before an aggregate is left out, and nothing else changes: not an answer, not its place, not a late row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.plan.node import walk
from slackwater.plan.nodes.ordering import Sort
from slackwater.plan.rewrites import optimizer as rewrites
from slackwater.plan.rewrites.optimizer import optimized

if TYPE_CHECKING:
    from collections.abc import Callable

    from slackwater.streams.stream import Stream

_SCHEMA = pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64(), "f": pa.float64()})
_AGGREGATES = {
    "n": sw.count(),
    "total": sw.sum("v"),
    "exact": sw.sum("f"),
    "average": sw.mean("f"),
    "most": sw.max("v"),
    "top": sw.top_k("v", 2),
    "different": sw.count_distinct("v"),
}


def _events() -> sw.DisorderedStream:
    return sw.stream(pa.table({"at": [3, 1], "k": ["a", "b"], "v": [1, 2], "f": [0.5, 0.1]}, _SCHEMA), time="at")


def _sorts(*streams: Stream) -> int:
    return sum(isinstance(node, Sort) for node in walk(*optimized(*(stream.node for stream in streams))))


_UNSORTED: dict[str, Callable[[], Stream]] = {
    "tumbling": lambda: _events().sort(5).tumbling(10).group_by("k").aggregate(n=sw.count()),
    "late by windows": lambda: _events().tumbling(10).sort(5).group_by("k").aggregate(n=sw.count()),
    "steps between": lambda: _events().sort(5).where(nw.col("v") > 0).tumbling(10).select("v").aggregate(n=sw.count()),
    "no windows": lambda: _events().sort(5).aggregate(n=sw.count()),
    "hopping without keys": lambda: _events().sort(5).hopping(10, 5).aggregate(n=sw.count()),
    "late rows are read, too": lambda: (
        _events().sort(5).late.sort(9, late=sw.Late.drop()).tumbling(10).aggregate(n=sw.count())
    ),
}
_SORTED: dict[str, Callable[[], Stream]] = {
    "a function sees the rows": lambda: _events().sort(5).tumbling(10).map_windows(lambda rows: rows.select(["v"])),
    "hopping with keys": lambda: _events().sort(5).hopping(10, 5).group_by("k").aggregate(n=sw.count()),
    "lifetimes": lambda: _events().sort(5).sliding(10).aggregate(n=sw.count()),
    "early answers": lambda: _events().sort(5).tumbling(10).group_by().aggregate_early(n=sw.count()),
    "nothing says what is complete": lambda: _events().sort().tumbling(10).aggregate(n=sw.count()),
    "rows": lambda: _events().sort(5).tumbling(10),
}


@pytest.mark.parametrize("name", _UNSORTED)
def test_the_sort_before_an_aggregate_is_left_out(name: str) -> None:
    """And the plan says so."""
    assert _sorts(_UNSORTED[name]()) == 0
    assert "the sort before it is left out" in _UNSORTED[name]().explain()


@pytest.mark.parametrize("name", _SORTED)
def test_a_sort_stays_where_its_order_is_seen(name: str) -> None:
    """By a user's function, by who cuts lifetimes, by who takes the rows, or in the order of groups."""
    assert _sorts(_SORTED[name]()) == 1
    assert "is left out" not in _SORTED[name]().explain()


def test_a_sort_that_somebody_else_reads_stays() -> None:
    """It is done for them, and its rows are counted as they come."""
    ordered = _events().sort(5)
    assert _sorts(ordered.tumbling(10).aggregate(n=sw.count()), ordered) == 1


_ROWS = st.fixed_dictionaries(
    {
        "at": st.one_of(st.integers(0, 60), st.sampled_from([-(2**62), 2**62])),
        "k": st.sampled_from(["a", "b", None]),
        "v": st.none() | st.integers(-9, 9),
        "f": st.sampled_from([0.1, 0.2, 1e16, -1e16, None]),
    }
)
_WINDOWS: list[Callable[[sw.DisorderedStream, Any], Any]] = [
    lambda events, sort: events.sort(**sort).tumbling(10),
    lambda events, sort: events.tumbling(10).sort(**sort),
    lambda events, sort: events.sort(**sort).where(nw.col("v") > -5).tumbling(10),
    lambda events, sort: events.sort(**sort).hopping(10, 4),
    lambda events, sort: events.sort(**sort).hopping(3, 7),
    lambda events, sort: events.sort(**sort),
]


@settings(max_examples=60)
@given(
    batches=st.lists(st.lists(_ROWS, max_size=12), max_size=5),
    window=st.sampled_from(_WINDOWS),
    keys=st.sampled_from([(), ("k",)]),
    late=st.sampled_from([sw.Late.divert(), sw.Late.drop(), sw.Late.adjust()]),
    every=st.sampled_from([sw.Every.rows(1), sw.Every.rows(5), sw.Every.time(7), sw.Every.batch()]),
    patience=st.sampled_from([0, 3, 20, 2**61]),
)
def test_answers_come_as_with_the_sort(
    batches: list[list[dict[str, Any]]],
    window: Callable[[sw.DisorderedStream, Any], Any],
    keys: tuple[str, ...],
    late: sw.Late,
    every: sw.Every,
    patience: int,
) -> None:
    """After every push the same rows in the same order, the same late rows, and as many counted; at the end all."""

    def emitted() -> list[Any]:
        source = sw.PushSource(_SCHEMA)
        windows = window(sw.stream(source, time="at"), {"patience": patience, "every": every, "late": late})
        answers: list[pa.RecordBatch] = []
        late_rows: list[pa.RecordBatch] = []
        stream = windows.group_by(*keys).aggregate(**_AGGREGATES)
        query = stream.open(answers.append, clock=sw.ManualClock(), on_late=late_rows.append)
        after_each = []
        for batch in batches:
            source.push(pa.Table.from_pylist(batch, _SCHEMA))
            query.work()
            after_each.append([row for part in answers for row in part.to_pylist()])
        query.close()
        after_each.append([row for part in answers for row in part.to_pylist()])
        late_counted = sum(counters.late for counters in query.counters().values())
        return [after_each, [row for part in late_rows for row in part.to_pylist()], late_counted]

    without = emitted()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewrites, "without_needless_sorts", lambda *roots: list(roots))
        assert without == emitted()
