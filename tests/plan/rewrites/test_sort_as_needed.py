"""The sort goes behind steps that need no order, and nothing else changes: not the rows, and not which are late."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.events.elements import Insert
from slackwater.operators.emission import LATE
from slackwater.plan.node import Node, SideOutput, walk
from slackwater.plan.nodes.ordering import Punctuate, Sort
from slackwater.plan.rewrites.sort_as_needed import sort_as_needed
from slackwater.policies.cadence import default_cadence
from slackwater.policies.windows import Tumbling
from slackwater.testing.oracles.punctuate import punctuate_oracle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hypothesis.strategies import DrawFn

    from slackwater.streams.stream import Stream

_SCHEMA = pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64()})


def _rows(*times: int) -> pa.Table:
    return pa.table(
        {"at": times, "k": ["abc"[i % 3] for i in range(len(times))], "v": list(range(len(times)))}, schema=_SCHEMA
    )


def _sorted(patience: int | None = 5) -> sw.OrderedStream:
    return sw.stream(_rows(3, 1, 2), time="at").sort(patience)


def _verbs(*streams: Stream) -> list[list[str]]:
    """The steps of each stream as they will run, along the first input, the last step first."""
    chains = []
    for root in sort_as_needed(*(stream.node for stream in streams)):
        chain, node = [root.verb], root
        while node.inputs:
            node = node.inputs[0]
            chain.append(node.verb)
        chains.append(chain)
    return chains


# ---- what moves -----------------------------------------------------------------------------------------------------

_MOVES: dict[str, Callable[[sw.OrderedStream], sw.OrderedStream]] = {
    "where": lambda stream: stream.where(nw.col("v") > 0),
    "select": lambda stream: stream.select("v"),
    "tumbling": lambda stream: stream.tumbling(5),
    "sliding": lambda stream: stream.sliding(5),
}

_STAYS: dict[str, Callable[[sw.OrderedStream], Stream]] = {
    "hopping": lambda stream: stream.hopping(5, 2),
    "aggregate": lambda stream: stream.group_by("k").aggregate(total=sw.sum("v")),
    "union": lambda stream: stream.union(sw.stream(_rows(), time="at").assume_ordered()),
    "join": lambda stream: stream.join(sw.stream(_rows(), time="at").assume_ordered(), within=2),
    "map_windows": lambda stream: stream.map_windows(lambda rows: rows.select(["v"])),
    "followed_by": lambda stream: stream.followed_by(sw.stream(_rows(), time="at").assume_ordered(), within=2),
}


@pytest.mark.parametrize("step", _MOVES)
def test_a_step_that_treats_each_row_by_itself_runs_before_the_sort(step: str) -> None:
    """With patience and without."""
    assert _verbs(_MOVES[step](_sorted())) == [["sort", step, "punctuate", "source"]]
    assert _verbs(_MOVES[step](_sorted(None))) == [["sort", step, "source"]]


@pytest.mark.parametrize("step", _STAYS)
def test_a_step_that_needs_order_or_loses_it_runs_after_the_sort(step: str) -> None:
    """Hopping puts one row into several windows, and says what is complete by their order."""
    assert _verbs(_STAYS[step](_sorted())) == [[step, "sort", "punctuate", "source"]]


def test_all_steps_up_to_the_first_that_needs_order_move_in_the_order_in_which_they_were_written() -> None:
    """Those behind it stay."""
    stream = _sorted().where(nw.col("v") > 0).select("k", "v").tumbling(5).where(nw.col("k") == "a")
    counted = stream.select("v").aggregate(n=sw.count("v")).where(nw.col("n") > 1)
    assert _verbs(counted) == [
        ["where", "aggregate", "sort", "select", "where", "tumbling", "select", "where", "punctuate", "source"]
    ]


def test_a_sort_stays_before_a_window_whose_rows_are_looked_at_in_their_order() -> None:
    """Steps before the window move, the window does not: its rows are handed over in order of their own times."""
    ordered = _sorted().where(nw.col("v") > 0).tumbling(5).select("at", "v")
    mapped = ordered.map_windows(lambda rows: rows.select(["v"]))
    assert _verbs(mapped) == [["map_windows", "select", "tumbling", "sort", "where", "punctuate", "source"]]
    ranked = ordered.top_rows(1, by="v")
    assert _verbs(ranked) == [["top_rows", "sort", "select", "tumbling", "where", "punctuate", "source"]]


def test_every_sort_of_a_plan_is_moved_for_itself() -> None:
    """Also one before another, with a step in between that loses the order."""
    hopped = _sorted().select("v").hopping(6, 3).sort().where(nw.col("v") > 0)
    assert _verbs(hopped) == [["sort", "where", "hopping", "sort", "select", "punctuate", "source"]]


def test_the_punctuation_stays_where_it_was_written() -> None:
    """A filter before it decides which rows are checked, one behind it does not."""
    stream = sw.stream(_rows(3, 1, 2), time="at").where(nw.col("v") > 0).sort(5).where(nw.col("v") > 1)
    assert _verbs(stream) == [["sort", "where", "punctuate", "where", "source"]]


def test_a_sort_that_is_read_twice_stays_and_runs_once() -> None:
    """By two steps, by a step and whoever asked for it, or by the two sides of a join."""
    ordered = _sorted()
    big, small = ordered.where(nw.col("v") > 1), ordered.where(nw.col("v") <= 1)
    assert _verbs(big, small) == [["where", "sort", "punctuate", "source"]] * 2
    assert _verbs(big, ordered) == [["where", "sort", "punctuate", "source"], ["sort", "punctuate", "source"]]
    assert _verbs(big.union(small)) == [["union", "where", "sort", "punctuate", "source"]]
    planned = list(walk(*sort_as_needed(big.node, small.node)))
    assert sum(isinstance(node, Sort) for node in planned) == 1


def test_a_sort_moves_up_to_a_step_that_is_read_twice() -> None:
    """What both readers share is done before it."""
    shared = _sorted().where(nw.col("v") > 0)
    assert _verbs(shared.select("v"), shared.tumbling(5)) == [
        ["select", "sort", "where", "punctuate", "source"],
        ["tumbling", "sort", "where", "punctuate", "source"],
    ]


def test_a_plan_in_which_nothing_moves_is_left_as_it_is() -> None:
    """The very nodes."""
    stream = _sorted().hopping(5, 2).aggregate(n=sw.count())
    (planned,) = sort_as_needed(stream.node)
    assert planned is stream.node
    assert sort_as_needed(_sorted().node)[0].verb == "sort"


def test_the_plan_that_was_written_is_not_changed() -> None:
    """Planning makes new nodes."""
    stream = _sorted().where(nw.col("v") > 0)
    sort_as_needed(stream.node)
    assert [node.verb for node in walk(stream.node)] == ["source", "punctuate", "sort", "where"]


def test_what_is_known_of_the_stream_stays_known() -> None:
    """Columns and facts of every output are those that were written."""
    for make in _MOVES.values():
        stream = make(make(_sorted().where(nw.col("v") > 0)))
        (planned,) = sort_as_needed(stream.node)
        assert planned.schema == stream.node.schema
        assert planned.properties == stream.properties


def test_side_outputs_survive() -> None:
    """The late output and the bands belong to the one punctuate step of the plan that runs."""
    early, final = sw.stream(_rows(3, 1, 2), time="at").select("v").in_bands(2, 9)
    roots = sort_as_needed(early.where(nw.col("v") > 0).node, final.select("v").node, final.late.node)
    (punctuate,) = (node for node in walk(*roots) if isinstance(node, Punctuate))
    outputs = [node for node in walk(*roots) if isinstance(node, SideOutput)]
    assert all(node.step is punctuate for node in outputs)
    assert sorted(node.output for node in outputs) == ["band 1", LATE]


def test_a_moved_plan_is_explained() -> None:
    """Which steps went first, each kind once, and why."""
    stream = _sorted().where(nw.col("v") > 0).where(nw.col("v") < 9).tumbling(5)
    line = stream.explain().splitlines()[0]
    assert line.startswith("sort#1 ")
    assert "moved behind where, tumbling: " in line
    assert "moved" not in _sorted().explain()


def test_counters_show_that_less_is_sorted() -> None:
    """Rows that a filter leaves out never wait."""
    stream = sw.stream(_rows(*range(100, 0, -1)), time="at").sort(200).where(nw.col("v") >= 90)
    counters = stream.run().counters
    assert (counters["where#1"].rows_in, counters["sort#1"].rows_in) == (100, 10)
    assert counters["sort#1"].peak_buffered == 10


# ---- the same rows --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pipeline:
    """Steps behind a sort, as they were written."""

    steps: tuple[tuple[str, int], ...]

    def behind(self, stream: sw.OrderedStream) -> sw.OrderedStream:
        for verb, number in self.steps:
            stream = _STEPS[verb](stream, number)
        return stream

    @property
    def verbs(self) -> list[str]:
        """The steps, the last one first."""
        written = [["select", verb] if verb in {"tumbling", "sliding"} else [verb.split()[0]] for verb, _ in self.steps]
        return [verb for verbs in written for verb in verbs][::-1]

    @property
    def keeps_order_of_ties(self) -> bool:
        """Whether no step makes equal times of different ones."""
        return "tumbling" not in dict(self.steps)


def _double(rows: pa.RecordBatch) -> pa.Array:
    return pa.array([2 * v for v in rows.column("v").to_pylist()], pa.int64())


_STEPS: dict[str, Callable[[sw.OrderedStream, int], sw.OrderedStream]] = {
    "where": lambda stream, number: stream.where(nw.col("v") % (2 + number % 3) == 0),
    "where of a function": lambda stream, _: stream.where(
        lambda rows: pa.array([k != "a" for k in rows.column("k").to_pylist()])
    ),
    "select": lambda stream, number: stream.select("k", v=nw.col("v") + number),
    "select of a function": lambda stream, _: stream.select("k", v=_double),
    "tumbling": lambda stream, number: stream.select("k", "v").tumbling(3 + number, offset=1),
    "sliding": lambda stream, number: stream.select("k", "v").sliding(1 + number),
}


@st.composite
def _pipelines(draw: DrawFn) -> _Pipeline:
    names = st.tuples(st.sampled_from(list(_STEPS)), st.integers(0, 6))
    return _Pipeline(tuple(draw(st.lists(names, max_size=5))))


_ORDERINGS = st.builds(
    lambda patience, every, late: {"patience": patience, "every": every, "late": late},
    st.integers(0, 12),
    st.sampled_from([sw.Every.rows(1), sw.Every.rows(4), sw.Every.time(3), sw.Every.batch()]),
    st.sampled_from([sw.Late.divert(), sw.Late.drop(), sw.Late.adjust()]),
)


def _as_multiset(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    return Counter(map(repr, rows))


@given(times=st.lists(st.integers(0, 30), max_size=25), pipeline=_pipelines(), ordering=_ORDERINGS)
def test_a_moved_sort_gives_the_rows_of_the_sort_that_was_written(
    times: list[int], pipeline: _Pipeline, ordering: dict[str, Any]
) -> None:
    """The same table and the same late rows; a second reader keeps the other sort where it was written."""
    ordered = sw.stream(_rows(*times), time="at").sort(**ordering)
    stream = pipeline.behind(ordered)
    moved = stream.run()
    written, _ = sw.run_together(stream, ordered)
    assert _verbs(stream) == [["sort", *pipeline.verbs, "punctuate", "source"]]
    assert _verbs(stream, ordered)[0] == [*pipeline.verbs, "sort", "punctuate", "source"]
    assert moved.table.schema == written.table.schema
    if pipeline.keeps_order_of_ties:
        assert moved.table.to_pylist() == written.table.to_pylist()
    assert _as_multiset(moved.table.to_pylist()) == _as_multiset(written.table.to_pylist())
    assert {name: table.to_pylist() for name, table in moved.late_by_source.items()} == {
        name: table.to_pylist() for name, table in written.late_by_source.items()
    }
    assert moved.counters["punctuate#1"] == written.counters["punctuate#1"]
    starts = moved.table.column(stream.node.schema.time.name).to_pylist()
    assert starts == sorted(starts)


@given(times=st.lists(st.integers(0, 30), max_size=25), pipeline=_pipelines(), ordering=_ORDERINGS)
def test_steps_that_need_order_see_the_same_behind_a_moved_sort(
    times: list[int], pipeline: _Pipeline, ordering: dict[str, Any]
) -> None:
    """Aggregates behind it, over whatever lifetimes the steps have made."""
    ordered = sw.stream(_rows(*times), time="at").sort(**ordering)
    counted = pipeline.behind(ordered).group_by("k").aggregate(n=sw.count(), total=sw.sum("v"), top=sw.top_k("v", 2))
    moved = counted.run().table
    written, _ = sw.run_together(counted, ordered)
    assert _as_multiset(moved.to_pylist()) == _as_multiset(written.table.to_pylist())


def _first_and_last(rows: pa.RecordBatch) -> pa.RecordBatch:
    values = rows.column("v").to_pylist()
    return pa.record_batch({"v": [values[0], values[-1]]})


@given(times=st.lists(st.integers(0, 30), max_size=25), pipeline=_pipelines(), ordering=_ORDERINGS)
def test_rows_of_a_window_are_handed_over_as_behind_the_sort_that_was_written(
    times: list[int], pipeline: _Pipeline, ordering: dict[str, Any]
) -> None:
    """A function that looks at the order of the rows answers the same, whatever windows and filters are before it."""
    ordered = sw.stream(_rows(*times), time="at").sort(**ordering)
    mapped = pipeline.behind(ordered).map_windows(_first_and_last)
    written, _ = sw.run_together(mapped, ordered)
    assert mapped.run().table.to_pylist() == written.table.to_pylist()


def _nodes(stream: Stream, kind: type[Node]) -> list[Node]:
    return [node for node in walk(stream.node) if isinstance(node, kind)]


@given(times=st.lists(st.integers(0, 30), max_size=25), pipeline=_pipelines())
def test_windows_before_the_sort_are_checked_whole_and_sorted_as_windows_behind_it(
    times: list[int], pipeline: _Pipeline
) -> None:
    """Patience counts by the times that events came with; what is not late is as in sort().tumbling()."""
    rows = _rows(*times)
    before = sw.stream(rows, time="at").tumbling(7).sort(5)
    assert all(node.inputs[0].schema.columns == ("at", "k", "v") for node in _nodes(before, Punctuate))
    checked = pipeline.behind(before).run()
    cadence, windows = default_cadence(5, calendar=False).resolved(calendar=False), Tumbling(7)
    inserts = [Insert((place,), at, at + 1) for place, at in enumerate(times)]
    split = punctuate_oracle([inserts], [5], cadence, sw.Late.divert(), points=True, windows=windows)
    late: list[Any] = [row.payload for row in split.diverted]
    in_time = pa.array([place not in {payload[0] for payload in late} for place in range(len(times))], pa.bool_())
    behind = pipeline.behind(sw.stream(rows.filter(in_time), time="at").sort().tumbling(7)).run()
    assert checked.table.to_pylist() == behind.table.to_pylist()
    late_rows = checked.late.to_pylist()
    assert [(row["at"], row["late_bound"], row["late_by"]) for row in late_rows] == [
        (times[place], bound, by) for place, bound, by in late
    ]
