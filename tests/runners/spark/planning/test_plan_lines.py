"""Two plans have the same lines if and only if one may go on from the state of the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.runners.spark.planning.plan_lines import Line, differences
from slackwater.runners.spark.planning.shard_plan import ShardPlan
from slackwater.runners.spark.runner import plan_of

if TYPE_CHECKING:
    from collections.abc import Callable

_TYPES = {
    "at": pa.int64(),
    "sent": pa.int64(),
    "landed": pa.int64(),
    "who": pa.string(),
    "k": pa.string(),
    "v": pa.int64(),
}


def _rows(name: str = "rows", types: dict[str, Any] | None = None, **times: Any) -> Any:
    return sw.stream(sw.PushSource(types or _TYPES, name=name), **{"time": "at", "name": name, **times})


def _sent(**times: Any) -> Any:
    return _rows(origin="who", arrived="landed", **times)


def _lines(*streams: Any, shards: int = 2) -> dict[str, Line]:
    return plan_of([stream.node for stream in streams], shards).lines


def _counted(rows: Any) -> Any:
    return rows.group_by("k").aggregate(n=sw.count())


def _bands(rows: Any, *patiences: int) -> Any:
    return list(rows.tumbling(10).group_by("k").in_bands(*patiences, late=sw.Late.drop(), n=sw.count()))


def _counted_of(which: int) -> Any:
    both = [_rows("a").sort(5), _rows("b", time="sent").sort(6)]
    return [*both, _counted(both[which].tumbling(10))]


def _big(rows: pa.RecordBatch) -> pa.Array:
    return pa.array([True] * rows.num_rows)


def _doubled(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows


def _first(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.select(["v"]).slice(0, 1)


def _last(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.select(["v"]).slice(rows.num_rows - 1)


_IN_ORDER = sw.Bounds.in_order() & sw.Bounds.lull(100)

_OTHER: dict[str, tuple[Callable[[], Any], Callable[[], Any], str]] = {
    "patience": (lambda: _rows().sort(5), lambda: _rows().sort(6), "patience=6"),
    "patience of a window": (
        lambda: _counted(_rows().tumbling(10).sort(5)),
        lambda: _counted(_rows().sort(5).tumbling(10)),
        "whole windows",
    ),
    "what becomes of late rows": (lambda: _rows().sort(5), lambda: _rows().sort(5, late=sw.Late.drop()), "dropped"),
    "adjusted or dropped": (
        lambda: _rows().sort(5, late=sw.Late.adjust()),
        lambda: _rows().sort(5, late=sw.Late.drop()),
        "dropped",
    ),
    "size of a window": (
        lambda: _counted(_rows().tumbling(10).sort(5)),
        lambda: _counted(_rows().tumbling(20).sort(5)),
        "size=20",
    ),
    "offset of a window": (
        lambda: _counted(_rows().tumbling(10).sort(5)),
        lambda: _counted(_rows().tumbling(10, offset=3).sort(5)),
        "offset=3",
    ),
    "offset of a window in bands": (
        lambda: _bands(_rows(), 5, 9)[0],
        lambda: _rows().tumbling(10, offset=3).group_by("k").in_bands(5, 9, late=sw.Late.drop(), n=sw.count())[0],
        "offset=3",
    ),
    "windows of the same panes": (
        lambda: _rows().sort(5).hopping(60, 1).aggregate(n=sw.count()),
        lambda: _rows().sort(5).hopping(90, 1).aggregate(n=sw.count()),
        "size=90",
    ),
    "how long events last": (
        lambda: _counted(_rows().sort(5).sliding(10)),
        lambda: _counted(_rows().sort(5).sliding(20)),
        "size=20",
    ),
    "an aggregate": (
        lambda: _rows().sort(5).tumbling(10).aggregate(x=sw.min("v")),
        lambda: _rows().sort(5).tumbling(10).aggregate(x=sw.max("v")),
        "max(v)",
    ),
    "how many are kept": (
        lambda: _rows().sort(5).tumbling(10).aggregate(x=sw.top_k("v", 2)),
        lambda: _rows().sort(5).tumbling(10).aggregate(x=sw.top_k("v", 3)),
        "top_k(v, 3)",
    ),
    "the key of groups": (
        lambda: _rows().sort(5).tumbling(10).group_by("k").aggregate(n=sw.count()),
        lambda: _rows().sort(5).tumbling(10).group_by("who").aggregate(n=sw.count()),
        "by who",
    ),
    "bands": (lambda: _bands(_rows(), 5, 9), lambda: _bands(_rows(), 5, 12), "patience=5, 12"),
    "a further output": (lambda: _bands(_rows(), 5, 9)[:1], lambda: _bands(_rows(), 5, 9), "output main#2"),
    "outputs exchanged": (lambda: _bands(_rows(), 5, 9), lambda: _bands(_rows(), 5, 9)[::-1], "output main"),
    "a filter before a patience": (
        lambda: _rows().where(nw.col("v") > 1).sort(5),
        lambda: _rows().where(nw.col("v") > 2).sort(5),
        "v > 2",
    ),
    "a filter before an aggregate": (
        lambda: _counted(_rows().sort(5).tumbling(10)),
        lambda: _counted(_rows().sort(5).where(_big).tumbling(10)),
        "where#1 _big",
    ),
    "columns before an aggregate": (
        lambda: _counted(_rows().sort(5).select("v", k="k").tumbling(10)),
        lambda: _counted(_rows().sort(5).select("v", k="who").tumbling(10)),
        "k=who",
    ),
    "columns that are held": (
        lambda: _rows().sort(5).select("k", "v"),
        lambda: _rows().sort(5).select("k", "who"),
        "gives",
    ),
    "columns of an output": (
        lambda: _counted(_rows().sort(5).tumbling(10)),
        lambda: _counted(_rows().sort(5).tumbling(10)).select(m="n"),
        "output main",
    ),
    "the function of windows": (
        lambda: _rows().sort(5).tumbling(10).map_windows(_first),
        lambda: _rows().sort(5).tumbling(10).map_windows(_last),
        "_last",
    ),
    "rows of windows": (
        lambda: _rows().sort(5).tumbling(10).top_rows(2, by="v"),
        lambda: _rows().sort(5).tumbling(10).top_rows(2, by="sent"),
        "sent",
    ),
    "the time": (lambda: _rows().sort(5), lambda: _rows(time="sent").sort(5), "time=sent"),
    "when rows end": (
        lambda: _rows(until="sent").sort(5),
        lambda: _rows(until="landed").sort(5),
        "until=landed",
    ),
    "who sent a row": (
        lambda: _sent().sort(bounds=_IN_ORDER),
        lambda: _rows(origin="k", arrived="landed").sort(bounds=_IN_ORDER),
        "origin=k",
    ),
    "when a row arrived": (
        lambda: _sent().sort(bounds=_IN_ORDER),
        lambda: _rows(origin="who", arrived="sent").sort(bounds=_IN_ORDER),
        "arrived=sent",
    ),
    "the type of a column": (
        lambda: _rows().sort(5),
        lambda: _rows(types={**_TYPES, "v": pa.float64()}).sort(5),
        "v: double",
    ),
    "the kind of bounds": (
        lambda: _sent().sort(bounds=_IN_ORDER),
        lambda: _sent().sort(bounds=_IN_ORDER & sw.Bounds.sensors(2)),
        "clocks at most 2 off",
    ),
    "a bound": (
        lambda: _sent().sort(bounds=_IN_ORDER & sw.Bounds.sensors(2)),
        lambda: _sent().sort(bounds=_IN_ORDER & sw.Bounds.sensors(3)),
        "clocks at most 3 off",
    ),
    "a bound of one source": (
        lambda: _sent().sort(bounds=_IN_ORDER & sw.Bounds.sensors({"a": 2, "b": 3})),
        lambda: _sent().sort(bounds=_IN_ORDER & sw.Bounds.sensors({"a": 2, "b": 4})),
        "4",
    ),
    "the sources there are": (
        lambda: _sent().sort(bounds=_IN_ORDER.only("a", "b")),
        lambda: _sent().sort(bounds=_IN_ORDER.only("a", "c")),
        "c",
    ),
    "a patience that caps bounds": (
        lambda: _sent().sort(5, bounds=_IN_ORDER),
        lambda: _sent().sort(6, bounds=_IN_ORDER),
        "6",
    ),
    "the share that may be late": (
        lambda: _sent().sort(50, bounds=sw.Bounds.estimated(loss=0.01) & sw.Bounds.lull(100)),
        lambda: _sent().sort(50, bounds=sw.Bounds.estimated(loss=0.02) & sw.Bounds.lull(100)),
        "2 %",
    ),
    "how far ahead rows may be": (
        lambda: _sent().sort(bounds=_IN_ORDER, ahead=3),
        lambda: _sent().sort(bounds=_IN_ORDER, ahead=4),
        "at most 4 ahead",
    ),
    "what becomes of rows that are ahead": (
        lambda: _sent().sort(bounds=_IN_ORDER, ahead=3, late=sw.Late.divert()),
        lambda: _sent().sort(bounds=_IN_ORDER, ahead=3, late=sw.Late.drop()),
        "dropped",
    ),
    "how fine arrivals are looked at": (
        lambda: _sent().sort(bounds=_IN_ORDER, every=sw.Every.time(2)),
        lambda: _sent().sort(bounds=_IN_ORDER, every=sw.Every.time(3)),
        "every 3",
    ),
    "bounds of each source by itself": (
        lambda: _sent().sort_within_origins(bounds=_IN_ORDER),
        lambda: _sent().sort_within_origins(bounds=_IN_ORDER & sw.Bounds.delay(3)),
        "3",
    ),
    "a window before progress by source": (
        lambda: _sent().tumbling(10).sort_within_origins(bounds=_IN_ORDER),
        lambda: _sent().tumbling(10, offset=4).sort_within_origins(bounds=_IN_ORDER),
        "offset=4",
    ),
    "what makes a row another's duplicate": (
        lambda: _rows().deduplicate("k", within=5, patience=3),
        lambda: _rows().deduplicate("who", within=5, patience=3),
        "on who",
    ),
    "how long duplicates are known": (
        lambda: _rows().deduplicate("k", within=5, patience=3),
        lambda: _rows().deduplicate("k", within=6, patience=3),
        "within 6",
    ),
    "which duplicate is kept": (
        lambda: _rows().deduplicate("k", within=5, patience=3),
        lambda: _rows().deduplicate("k", within=5, patience=3, keep="last"),
        "keeps the last",
    ),
    "which replica a row is of": (
        lambda: _rows().merge_replicas("who", patience=3),
        lambda: _rows().merge_replicas("k", patience=3),
        "by k",
    ),
    "rows that a merge leaves out": (
        lambda: _rows().merge_replicas("who", patience=3),
        lambda: _rows().merge_replicas("who", patience=3, left_out=sw.LeftOutRows.divert()),
        "left-out rows",
    ),
    "which stream a step reads": (lambda: _counted_of(0), lambda: _counted_of(1), "reads sort#2"),
    "a union the other way round": (
        lambda: sw.union(_rows("a").sort(5), _rows("b").sort(6)),
        lambda: sw.union(_rows("b").sort(6), _rows("a").sort(5)),
        "patience=6",
    ),
    "a join the other way round": (
        lambda: _rows("a").sort(5).join(_rows("b", time="sent").sort(5), on="k", within=3),
        lambda: _rows("b", time="sent").sort(5).join(_rows("a").sort(5), on="k", within=3),
        "time=sent",
    ),
    "how near rows must be": (
        lambda: _rows("a").sort(5).join(_rows("b").sort(5), on="k", within=3),
        lambda: _rows("a").sort(5).join(_rows("b").sort(5), on="k", within=4),
        "4",
    ),
    "how soon a row must follow": (
        lambda: _rows("a").sort(5).followed_by(_rows("b").sort(5), on="k", within=3),
        lambda: _rows("a").sort(5).followed_by(_rows("b").sort(5), on="k", within=4),
        "4",
    ),
    "a step that compares rows": (
        lambda: _rows().sort(5),
        lambda: _rows().sort(5).assume_keyed(),
        "assume_keyed",
    ),
}  # fmt: skip
"""Pairs of plans that differ where a state, or what was decided, depends on it; and what a line says of that."""

_ALIKE: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "the name of a source": (lambda: _rows("a").sort(5), lambda: _rows("b").sort(5)),
    "a filter of answers": (
        lambda: _counted(_rows().sort(5).tumbling(10)).where(nw.col("n") > 1),
        lambda: _counted(_rows().sort(5).tumbling(10)).where(nw.col("n") > 2),
    ),
    "a filter of answers that was not there": (
        lambda: _counted(_rows().sort(5).tumbling(10)),
        lambda: _counted(_rows().sort(5).tumbling(10)).where(nw.col("n") > 2).where(_big),
    ),
    "a filter behind a sort, which runs before it": (
        lambda: _rows().sort(5),
        lambda: _rows().sort(5).where(nw.col("v") > 2),
    ),
    "a filter behind a union": (
        lambda: sw.union(_rows("a").sort(5), _rows("b").sort(5)),
        lambda: sw.union(_rows("a").sort(5), _rows("b").sort(5).where(_big)).where(_big),
    ),
    "how a column of answers is computed": (
        lambda: _counted(_rows().sort(5).tumbling(10)).select("k", m=nw.col("n") + 1),
        lambda: _counted(_rows().sort(5).tumbling(10)).select("k", m=nw.col("n") + 2),
    ),
    "a function over answers": (
        lambda: _counted(_rows().sort(5).tumbling(10)),
        lambda: _counted(_rows().sort(5).tumbling(10)).map_batches(_doubled),
    ),
    "a column that nobody reads": (
        lambda: _counted(_rows().tumbling(10).sort(5, late=sw.Late.drop())),
        lambda: _counted(_rows(types={**_TYPES, "w": pa.int64()}).tumbling(10).sort(5, late=sw.Late.drop())),
    ),
    "a filter of one output, and not of the other": (
        lambda: [_rows().sort(5).where(_big), _counted(_rows().where(_big).sort(5).tumbling(10))],
        lambda: [_rows().sort(5), _counted(_rows().where(_big).sort(5).tumbling(10))],
    ),
}
"""Pairs of plans of which one may go on where the other was."""


def _both(one: Callable[[], Any], other: Callable[[], Any]) -> list[dict[str, Line]]:
    made = [[stream] if not isinstance(stream, list) else stream for stream in (one(), other())]
    return [_lines(*streams) for streams in made]


@pytest.mark.parametrize("what", _OTHER)
def test_what_a_state_depends_on_is_in_a_line(what: str) -> None:
    """Such a plan is another one, and the lines that differ say where."""
    one, other, words = _OTHER[what]
    then, now = _both(one, other)
    found = differences(then, now)
    assert any(words in line for line in found), found
    assert {line[0] for line in found} <= {"-", "+"}
    assert differences(then, then) == []


@pytest.mark.parametrize("what", _ALIKE)
def test_what_decides_nothing_may_change(what: str) -> None:
    """For all shards and in both directions."""
    then, now = _both(*_ALIKE[what])
    assert differences(then, now) == []


def test_shards_and_what_decides_them_are_in_a_line() -> None:
    """With another number, or by another column, the rows of a key would look for their state in vain."""
    counted = _counted(_rows().sort(5).tumbling(10))
    assert differences(_lines(counted), _lines(counted, shards=3)) == ["- shards 2", "+ shards 3"]
    assert _lines(counted)["shards"] == Line("2", "k of punctuate#1")
    assert _lines(_rows().sort(5))["shards"] == Line("1")


def test_a_line_shows_columns_only_where_they_differ() -> None:
    """A step of many columns is shown by what was chosen."""
    then, now = _lines(_rows().sort(5)), _lines(_rows().sort(9))
    assert differences(then, now) == [
        "- punctuate#1 patience=5 every 1, late rows diverted",
        "+ punctuate#1 patience=9 every 1, late rows diverted",
    ]


def test_lines_are_the_same_in_every_process() -> None:
    """Workers make them of plans that travelled to them."""
    import pickle

    plan = plan_of([_counted(_rows().sort(5).tumbling(10)).node], 2)
    assert pickle.loads(pickle.dumps(plan.lines)) == plan.lines  # noqa: S301 - our own
    assert ShardPlan(plan.outputs, plan.wanted_shards).described() == plan.described()
