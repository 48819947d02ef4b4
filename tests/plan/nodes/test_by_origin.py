"""Plans by origin: what may follow, what is refused and why, and what explain() shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import pytest

import slackwater as sw
from slackwater.errors import MixedOrigins, PlanError

if TYPE_CHECKING:
    from collections.abc import Callable

_BOUNDS = sw.Bounds.in_order()


def _rows(**options: Any) -> sw.DisorderedStream:
    rows = [{"landed": 1, "who": "a", "at": 1, "x": 2}]
    return sw.stream(rows, **{"time": "at", "origin": "who", "arrived": "landed", **options})


def _by_origin() -> sw.StreamByOrigin:
    return _rows().sort_within_origins(bounds=_BOUNDS)


def _ordered() -> sw.OrderedStream:
    return _rows().sort(bounds=_BOUNDS)


_MIXING: dict[str, Callable[[], Any]] = {
    "union": lambda: _by_origin().union(_by_origin()),
    "union with an ordered stream": lambda: sw.union(_ordered(), _by_origin()),
    "join": lambda: _by_origin().join(_ordered(), on="who", within=3),
    "join of an ordered stream": lambda: _ordered().join(_by_origin(), on="who", within=3),
    "followed_by": lambda: _by_origin().followed_by(_ordered(), within=3),
    "aggregate": lambda: _by_origin().tumbling(5).aggregate(n=sw.count()),
    "aggregate by another column": lambda: _by_origin().tumbling(5).group_by("x").aggregate(n=sw.count()),
    "in_bands by another column": lambda: _by_origin().tumbling(5).group_by("x").in_bands(1, n=sw.count()),
    "aggregate, the origin computed": lambda: (
        _by_origin().select("x", who=nw.col("x") * 2).tumbling(5).group_by("who").aggregate(n=sw.count())
    ),
    "map_windows": lambda: _by_origin().tumbling(5).map_windows(lambda rows: rows.select(["x"])),
    "top_rows": lambda: _by_origin().tumbling(5).top_rows(1, by="x"),
    "deduplicate": lambda: _by_origin().deduplicate("who", within=3),
    "assume_keyed": lambda: _by_origin().assume_keyed(),
    "merge_replicas": lambda: sw.merge_replicas(_by_origin(), _by_origin()),
    "compare_replicas": lambda: sw.compare_replicas(_by_origin(), _by_origin()),
}


@pytest.mark.parametrize("step", _MIXING)
def test_what_mixes_sources_is_refused(step: str) -> None:
    """With the column by which it may not mix, and what to do instead."""
    with pytest.raises(MixedOrigins, match=r"mixes rows of several sources") as refused:
        _MIXING[step]()
    assert "origin  who" in str(refused.value)
    assert "sort(bounds=...)" in str(refused.value)


def test_answers_are_summed_up_once() -> None:
    """A further aggregate would not know how far each source is."""
    answers = _by_origin().tumbling(5).group_by("who").aggregate(n=sw.count())
    with pytest.raises(PlanError, match="these are answers"):
        answers.tumbling(10).group_by("who").aggregate(n=sw.sum("n"))


def test_rows_may_be_chosen_computed_and_renamed() -> None:
    """Before and behind it; the column that names the source keeps its meaning under another name."""
    chosen = _rows().select("who", "landed", y=nw.col("x") + 1).where(nw.col("y") > 0)
    renamed = chosen.sort_within_origins(bounds=_BOUNDS).select("y", gateway="who").tumbling(5)
    answers = renamed.group_by("gateway").aggregate(most=sw.max("y"))
    assert str(answers.node.properties) == "disordered, windows, punctuated, keyed, by origin gateway"
    assert answers.run().table.to_pylist() == [{"window_start": 0, "window_end": 5, "gateway": "a", "most": 3}]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: _rows(origin=None).sort_within_origins(bounds=_BOUNDS), "which row is of which source"),
        (
            lambda: _rows().sort_within_origins(bounds=sw.Bounds.patience(5) & sw.Bounds.estimated(loss=0.1)),
            "for one order of all",
        ),
        (lambda: _rows().select("x").sort_within_origins(bounds=_BOUNDS), "is left out"),
        (lambda: _rows().sort_within_origins(bounds=_BOUNDS, late=sw.Late.adjust()), "no late row is moved"),
        (lambda: _rows().sort_within_origins(bounds=_BOUNDS, late="drop"), "Late"),  # type: ignore[arg-type]
        (lambda: _rows().sort_within_origins(bounds="5s"), "takes Bounds"),  # type: ignore[arg-type]
        (lambda: _by_origin().sliding(5).group_by("who").aggregate(n=sw.count()), "points or windows"),
        (lambda: _by_origin().tumbling(5).group_by("who").aggregate(), "no aggregates"),
        (lambda: _by_origin().tumbling(5).group_by("who").in_bands(n=sw.count()), "at least one patience"),
        (lambda: _by_origin().tumbling(5).group_by("who").in_bands(5, 3, n=sw.count()), "rising order"),
    ],
)
def test_what_means_nothing_is_refused(make: Callable[[], Any], says: str) -> None:
    """When it is written."""
    with pytest.raises(PlanError, match=says):
        make()


def test_it_is_shown_as_what_it_is() -> None:
    """Which column, by which bounds, and the steps that are done inside."""
    answers = _rows().where(nw.col("x") > 0).tumbling(5).sort_within_origins(bounds=_BOUNDS).group_by("who")
    text = answers.aggregate(n=sw.count()).explain()
    for part in (
        "aggregate#1 n=count() by who; of tumbling size=5; by origin who from each source: in order",
        "whole windows of 5",
        "after where x > 0",
        "late rows diverted",
        "disordered, windows, punctuated, keyed, by origin who",
        "a group is sent when its own source is complete past it",
    ):
        assert part in text
    assert len(text.splitlines()) == 2


@pytest.mark.parametrize("grouped", [True, False])
def test_on_spark_rows_come_to_shards_by_their_source(grouped: bool) -> None:
    """Steps before it are done where rows are read, and not once more inside; a group is of one source anyway."""
    stream: Any = _rows().where(nw.col("x") > 0).tumbling(5).sort_within_origins(bounds=_BOUNDS)
    stream = stream.group_by("x", "who").aggregate(n=sw.count()) if grouped else stream
    text = stream.explain(runner="spark", shards=3)
    for part in (
        "shards     3, by who: all rows that a step needs together agree on that",
        "statistics of each source are taken before filters and sent to all shards; a row arrives when column landed",
        "└─ where#1 x > 0",
        "whole windows of 5, late rows diverted",
        "when its own source is complete past it",
        "by statistics of all rows as they are read, the same in every shard",
        "outputs    main, late rows of rows",
        "aggregate by origin who: bounds follow the arrivals of rows, and not of groups" if grouped else "map tasks",
    ):
        assert part in text
    assert "after where" not in text
