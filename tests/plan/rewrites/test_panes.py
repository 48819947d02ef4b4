"""Overlapping windows made of panes give the answers of windows that are assigned event by event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.operators.aggregate.partials import Partial
from slackwater.plan.node import walk
from slackwater.plan.rewrites import optimizer as rewrites
from slackwater.plan.rewrites.optimizer import optimized
from slackwater.plan.rewrites.panes import AssignPanes

if TYPE_CHECKING:
    from collections.abc import Callable

    from slackwater.events.batch import EventBatch
    from slackwater.operators.aggregate.recipes import Grouping
    from slackwater.streams.stream import Stream

_SCHEMA = pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64(), "f": pa.float64()})
_AGGREGATES = {
    "n": sw.count(),
    "present": sw.count("v"),
    "total": sw.sum("v"),
    "exact": sw.sum("f"),
    "average": sw.mean("f"),
    "least": sw.min("k"),
    "most": sw.max("f"),
    "top": sw.top_k("v", 2),
    "different": sw.count_distinct("v"),
}


def _events() -> sw.DisorderedStream:
    return sw.stream(pa.table({"at": [3, 1], "k": ["a", "b"], "v": [1, 2], "f": [0.5, 0.1]}, _SCHEMA), time="at")


def _panes(stream: Stream) -> list[int]:
    return [node.window.size for node in walk(*optimized(stream.node)) if isinstance(node, AssignPanes)]


def test_panes_are_the_greatest_length_that_divides_size_and_hop() -> None:
    """Whether rows are sorted first or not; with keys they must be."""
    for size, hop, pane in ((60, 10, 10), (60, 25, 5), (7, 2, 1)):
        windows = _events().sort(5).hopping(size, hop)
        assert _panes(windows.aggregate(n=sw.count())) == [pane]
        assert _panes(windows.group_by("k").aggregate(n=sw.count())) == [pane]
        assert f"panes of {pane} " in windows.aggregate(n=sw.count()).explain()


_AS_WRITTEN: dict[str, Callable[[], Stream]] = {
    "windows side by side": lambda: _events().sort(5).hopping(10, 10).aggregate(n=sw.count()),
    "gaps": lambda: _events().sort(5).hopping(10, 20).aggregate(n=sw.count()),
    "panes that nobody shares": lambda: _events().sort(5).hopping(100, 37).aggregate(n=sw.count()),
    "a function": lambda: _events().sort(5).hopping(10, 5).map_windows(lambda rows: rows.select(["v"])),
    "early answers": lambda: _events().hopping(10, 5).group_by().aggregate_early(patience=5, n=sw.count()),
    "rows": lambda: _events().sort(5).hopping(10, 5),
}


@pytest.mark.parametrize("name", _AS_WRITTEN)
def test_windows_are_assigned_as_written_where_panes_save_nothing(name: str) -> None:
    """Or where somebody looks at the rows of a window."""
    assert _panes(_AS_WRITTEN[name]()) == []


def test_each_event_is_summed_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many windows it is in: what is grouped are the events, and then groups."""
    grouped = 0
    of = Partial.of

    def counted(rows: EventBatch, grouping: Grouping) -> Partial:
        nonlocal grouped
        grouped += rows.rows
        return of(rows, grouping)

    monkeypatch.setattr(Partial, "of", counted)
    table = pa.table({"at": list(range(10_000)), "v": [1] * 10_000})
    answers = sw.stream(table, time="at").sort(5).hopping(600, 10).aggregate(n=sw.count()).run().table
    assert len(answers) == 1_059
    assert pc.sum(answers["n"]).as_py() == 60 * 10_000
    assert grouped == 10_000


def test_no_more_is_laid_out_at_once_than_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows are answered some at a time."""
    monkeypatch.setattr("slackwater.operators.aggregate.panes._AT_ONCE", 100)
    moved: list[int] = []
    move = Partial.moved

    def counted(self: Partial, groups: Any, starts: Any, size: int) -> Partial:
        moved.append(len(groups))
        return move(self, groups, starts, size)

    monkeypatch.setattr(Partial, "moved", counted)
    table = pa.table({"at": list(range(0, 3_000, 3))})
    answers = sw.stream(table, time="at").sort(5).hopping(30, 10).aggregate(n=sw.count()).run().table
    assert answers["n"].to_pylist()[2:-2] == [10] * 298
    assert answers["window_start"].to_pylist() == list(range(-20, 3_000, 10))
    assert len(moved) > 5
    assert max(moved) <= 100


_TIMES = st.one_of(
    st.integers(0, 60), st.integers(-(2**63) + 1, -(2**63) + 40), st.integers(2**63 - 40, 2**63 - 2), st.just(-(2**62))
)
_ROWS = st.fixed_dictionaries(
    {
        "at": _TIMES,
        "k": st.sampled_from(["a", "b", None]),
        "v": st.none() | st.integers(-9, 9),
        "f": st.sampled_from([0.1, 0.2, 1e16, -1e16, float("inf"), None]),
    }
)


@settings(max_examples=80)
@given(
    batches=st.lists(st.lists(_ROWS, max_size=12), max_size=5),
    window=st.sampled_from([(10, 5), (10, 4), (12, 8), (7, 2), (60, 3)]),
    offset=st.integers(0, 7),
    keys=st.sampled_from([(), ("k",)]),
    every=st.sampled_from([sw.Every.rows(1), sw.Every.rows(5), sw.Every.time(7), sw.Every.batch()]),
    patience=st.sampled_from([0, 3, 20]),
    restored=st.booleans(),
    ignored=st.none() | st.integers(0, 60),
)
def test_answers_are_those_of_windows(
    batches: list[list[dict[str, Any]]],
    window: tuple[int, int],
    offset: int,
    keys: tuple[str, ...],
    every: sw.Every,
    patience: int,
    restored: bool,
    ignored: int | None,
) -> None:
    """After every push, bit by bit and in order, restored or not, near the ends of time, with a past nobody wants."""

    def opened(answers: list[pa.RecordBatch], resume: Any = None) -> tuple[sw.PushSource, sw.Query]:
        source = sw.PushSource(_SCHEMA)
        events = sw.stream(source, time="at").sort(patience, every=every, late=sw.Late.drop())
        stream = events.hopping(*window, offset=offset).group_by(*keys).aggregate(**_AGGREGATES)
        return source, stream.open(answers.append, clock=sw.ManualClock(), resume=resume)

    def emitted() -> Any:
        answers: list[pa.RecordBatch] = []
        after_each = []
        source, query = opened(answers)
        try:
            for number, batch in enumerate(batches):
                source.push(pa.Table.from_pylist(batch, _SCHEMA))
                query.work()
                if restored:
                    source, query = opened(answers, query.snapshot())
                if number == 1 and ignored is not None:
                    query.ignore_before(ignored)
                after_each.append(str([row for part in answers for row in part.to_pylist()]))
            query.close()
        except sw.errors.BadTime as refusal:
            return str(refusal)
        return [*after_each, str([row for part in answers for row in part.to_pylist()])]

    in_panes = emitted()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewrites, "in_panes", lambda *roots: list(roots))
        assert in_panes == emitted()
