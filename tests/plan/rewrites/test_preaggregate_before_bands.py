"""Which plans split groups to bands instead of rows, and that they say the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.plan.node import walk
from slackwater.plan.nodes.ordering import Punctuate
from slackwater.plan.nodes.preaggregating import PunctuateGroups
from slackwater.plan.rewrites.optimizer import optimized, optimized_in_process
from slackwater.plan.rewrites.preaggregate import Placement, preaggregate
from slackwater.runners.in_process import graph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SCHEMA = pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64()})
_FATES = [sw.Late.divert(), sw.Late.drop(), sw.Late.adjust()]
_AGGREGATES: dict[str, Any] = {
    "n": sw.count(),
    "total": sw.sum("v"),
    "mean": sw.mean("v"),
    "distinct": sw.count_distinct("v"),
    "top": sw.top_k("v", 2),
}


def _rows(**options: Any) -> sw.DisorderedStream:
    return sw.stream(sw.PushSource(_SCHEMA), time="at", **options)


_SPLITTING_GROUPS: dict[str, Callable[[], Sequence[Any]]] = {
    "late rows diverted": lambda: _rows().tumbling(10).in_bands(2, 9, n=sw.count()),
    "late rows dropped": lambda: _rows().tumbling(10).in_bands(2, 9, late=sw.Late.drop(), n=sw.count()),
    "late rows moved": lambda: _rows().tumbling(10).in_bands(2, 9, late=sw.Late.adjust(), n=sw.count()),
    "late rows refused": lambda: _rows().tumbling(10).in_bands(2, 9, late=sw.Late.raise_error(), n=sw.count()),
    "columns chosen": lambda: _rows().tumbling(10).select("k", w=nw.col("v") + 1).in_bands(2, 9, n=sw.count()),
    "one band": lambda: _rows().tumbling(10).group_by("k").in_bands(5, n=sw.count()),
}
_SPLITTING_ROWS: dict[str, Callable[[], Sequence[Any]]] = {
    "no windows": lambda: _rows().in_bands(2, 9, n=sw.count()),
    "windows that overlap": lambda: _rows().hopping(10, 5).in_bands(2, 9, n=sw.count()),
    "rows left out behind the window": lambda: _rows().tumbling(10).where(nw.col("v") > 0).in_bands(2, n=sw.count()),
    "rows without a time": lambda: _rows(untimed_is_late=True).tumbling(10).in_bands(2, 9, n=sw.count()),
    "events of the bands": lambda: _rows().tumbling(10).in_bands(2, 9),
}


@pytest.mark.parametrize("name", _SPLITTING_GROUPS)
def test_groups_are_split_where_whole_windows_are_checked(name: str) -> None:
    """By one step, whatever becomes of late rows; answers keep their columns."""
    written = _SPLITTING_GROUPS[name]()
    run = optimized_in_process(*(stream.node for stream in written))
    assert sum(isinstance(node, PunctuateGroups) for node in walk(*run)) == 1
    assert [node.schema for node in run] == [stream.node.schema for stream in written]
    assert [node.properties for node in run] == [stream.node.properties for stream in written]


@pytest.mark.parametrize("name", _SPLITTING_ROWS)
def test_rows_are_split_in_all_other_plans(name: str) -> None:
    """They stay as they were planned."""
    nodes = list(walk(*optimized_in_process(*(stream.node for stream in _SPLITTING_ROWS[name]()))))
    assert not any(isinstance(node, PunctuateGroups) for node in nodes)


def test_late_rows_are_read_from_the_step_that_checks_groups() -> None:
    """As one who reads them in the same query must: lateness is decided once, and no late row is emitted twice."""
    bands = _rows().tumbling(10).in_bands(2, 9, n=sw.count())
    nodes = list(walk(*optimized_in_process(bands[0].node, bands[0].late.node)))
    assert [type(node) for node in nodes if isinstance(node, Punctuate)] == [PunctuateGroups]


def test_rows_are_split_where_somebody_reads_them() -> None:
    """A step that reads the rows of a band, beside the aggregate, needs rows."""
    counted = optimized(_rows().tumbling(10).in_bands(2, 9, n=sw.count())[0].node)[0]
    for also_read in counted.inputs:
        assert not any(
            isinstance(node, PunctuateGroups)
            for node in walk(*preaggregate(Placement.BEFORE_BANDS, counted, also_read))
        )


@pytest.mark.parametrize("late", [sw.Late.divert(), sw.Late.drop()], ids=str)
def test_a_function_behind_the_window_does_not_see_late_rows(late: sw.Late) -> None:
    """One that it would refuse is left out before."""
    rows = [{"at": 1, "k": "1"}, {"at": 60, "k": "2"}, {"at": 2, "k": "late"}]
    windows = sw.stream(pa.Table.from_pylist(rows), time="at").tumbling(10)
    numbers = windows.select(v=lambda batch: pc.cast(batch["k"], pa.int64()))
    results = numbers.in_bands(5, 20, every=sw.Every.rows(1), late=late, total=sw.sum("v")).run()
    assert [result.table["total"].to_pylist() for result in results] == [[1, 2]] * 2


def test_a_step_that_fails_is_named_with_the_one_it_is_a_part_of() -> None:
    """So that it is found in explain()."""
    windows = sw.stream(pa.table({"at": [-(2**63) + 3]}), time="at").tumbling(10)
    with pytest.raises(sw.errors.BadTime, match=r"step 'punctuate#1 \(tumbling\)'"):
        windows.in_bands(5, n=sw.count()).run()


_TIMES = st.one_of(st.integers(0, 60), st.integers(-(2**63) + 1, -(2**63) + 12))


@given(
    rows=st.lists(
        st.fixed_dictionaries({"at": _TIMES, "k": st.sampled_from("ab"), "v": st.none() | st.integers(-9, 9)}),
        max_size=40,
    ),
    late=st.sampled_from(_FATES),
    every=st.sampled_from([sw.Every.rows(1), sw.Every.rows(5), sw.Every.time(7), sw.Every.batch()]),
    keys=st.sampled_from([(), ("k",)]),
)
def test_splitting_groups_says_what_splitting_rows_does(
    rows: list[dict[str, Any]], late: sw.Late, every: sw.Every, keys: tuple[str, ...]
) -> None:
    """All answers, all late rows, and how many they are; also where a late row lies before all windows."""
    rows = [{"at": 0, "k": "a", "v": 0}, {"at": 40, "k": "b", "v": 1}, *rows]
    table = pa.Table.from_pylist(rows, _SCHEMA)

    def answers() -> Any:
        windows = sw.stream(table, time="at").tumbling(10).group_by(*keys)
        try:
            results = windows.in_bands(3, 15, 30, every=every, late=late, **_AGGREGATES).run()
        except sw.errors.BadTime as refusal:  # a row that is in time, and has no window
            return type(refusal)
        return [(one.table, one.late, sum(c.late for c in one.counters.values())) for one in results]

    by_groups = answers()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph, "optimized_in_process", optimized)
        assert by_groups == answers()
