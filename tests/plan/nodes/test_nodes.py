"""Plan nodes: the columns and properties that every step has, and what is refused while a pipeline is built."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slackwater as sw
from slackwater.errors import BadDuration, NeedsOrder, PlanError, SchemaMismatch
from slackwater.plan.node import SideOutput, StepNode, diverting_steps, name_steps, nearest_diverting_steps, walk
from slackwater.plan.properties import Extent, Order, Properties, Stamps
from slackwater.runners.snapshot import describe_steps

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Parting

    from slackwater.streams.stream import Stream

_ROWS = [{"at": 1, "k": "a", "v": 5, "ok": True}]


def _disordered(**changes: Any) -> sw.DisorderedStream:
    return sw.stream([{**_ROWS[0], **changes}], time="at")


def _ordered(**changes: Any) -> sw.OrderedStream:
    return _disordered(**changes).assume_ordered()


def _lasting() -> sw.OrderedStream:
    return sw.stream([{"at": 1, "to": 4, "k": "a", "v": 5}], time="at", until="to").assume_ordered()


def _count_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"n": [rows.num_rows]})


def _live(**columns: pa.DataType) -> sw.PushSource:
    return sw.PushSource({"k": pa.string(), **columns})


# ---- properties and schemas -----------------------------------------------------------------------------------------

_PROPERTIES: dict[str, tuple[Callable[[], Stream], str]] = {
    "stream": (_disordered, "disordered, points"),
    "stream with ends": (lambda: sw.stream([{"a": 1, "b": 2}], time="a", until="b"), "disordered, intervals"),
    "live stream": (
        lambda: sw.stream(_live(at=pa.timestamp("us")), time="at", punctuations=sw.Punctuations.on_demand(skew="1s")),
        "disordered, points, punctuated",
    ),
    "arrivals": (lambda: sw.arrivals(_ROWS), "ordered, points"),
    "unstamped": (lambda: sw.unstamped(_ROWS), "latent, points"),
    "assume_ordered": (_ordered, "ordered, points"),
    "where": (lambda: _ordered().where(nw.col("ok")), "ordered, points"),
    "where on disorder": (lambda: _disordered().where(nw.col("ok")), "disordered, points"),
    "select": (lambda: _ordered().select("k"), "ordered, points"),
    "tumbling": (lambda: _ordered().tumbling(5), "ordered, windows"),
    "tumbling on disorder": (lambda: _disordered().tumbling(5), "disordered, windows"),
    "hopping": (lambda: _ordered().hopping(5, 2), "disordered, windows, punctuated"),
    "hopping on disorder": (lambda: _disordered().hopping(5, 2), "disordered, windows"),
    "sliding": (lambda: _ordered().sliding(5), "ordered, intervals"),
    "union": (lambda: sw.union(_ordered(), _ordered()), "ordered, points"),
    "union of points and lifetimes": (
        lambda: sw.union(_ordered().sliding(1), _ordered().tumbling(1)),
        "ordered, intervals",
    ),
    "union of latent": (lambda: sw.union(sw.unstamped(_ROWS), sw.unstamped(_ROWS)), "latent, points"),
    "join within": (lambda: _ordered().join(_ordered(), on="k", within=2), "ordered, points"),
    "join of lifetimes": (lambda: _lasting().join(_lasting(), on="k"), "ordered, intervals"),
    "followed_by": (lambda: _ordered().followed_by(_ordered(), on="k", within=2), "ordered, points"),
    "aggregate of points": (lambda: _ordered().aggregate(n=sw.count()), "strictly ordered, points, keyed"),
    "aggregate of windows": (
        lambda: _ordered().tumbling(5).aggregate(n=sw.count()),
        "strictly ordered, windows, keyed",
    ),
    "aggregate by key": (
        lambda: _ordered().tumbling(5).group_by("k").aggregate(n=sw.count()),
        "ordered, windows, keyed",
    ),
    "aggregate of lifetimes": (lambda: _lasting().aggregate(n=sw.count()), "strictly ordered, intervals, keyed"),
    "aggregate of hopping windows": (
        lambda: _ordered().hopping(5, 2).aggregate(n=sw.count()),
        "strictly ordered, windows, keyed",
    ),
    "map_windows of points": (lambda: _ordered().map_windows(_count_rows), "ordered, points"),
    "map_windows of windows": (lambda: _ordered().tumbling(5).map_windows(_count_rows), "ordered, windows"),
    "map_windows of hopping windows": (
        lambda: _ordered().hopping(5, 2).map_windows(_count_rows),
        "ordered, windows",
    ),
    "map_windows of lifetimes": (lambda: _lasting().map_windows(_count_rows), "ordered, intervals"),
    "select that keeps the key": (
        lambda: _ordered().tumbling(5).group_by("k").aggregate(n=sw.count()).select("n", "k"),
        "ordered, windows, keyed",
    ),
    "select that loses the key": (
        lambda: _ordered().tumbling(5).group_by("k").aggregate(n=sw.count()).select("n"),
        "ordered, windows",
    ),
}


@pytest.mark.parametrize("name", _PROPERTIES)
def test_every_step_knows_what_is_true_of_its_output(name: str) -> None:
    """Order, extent, punctuations and keys, as explain() shows them."""
    make, facts = _PROPERTIES[name]
    assert str(make().properties) == facts


def test_stamps_are_known_along_the_plan() -> None:
    """Who gave the events their times."""
    assert _disordered().properties.stamps is Stamps.EXTERNAL
    assert sw.arrivals(_ROWS).where(nw.col("ok")).properties.stamps is Stamps.INTERNAL
    assert sw.unstamped(_ROWS).select("k").properties.stamps is Stamps.LATENT
    assert sw.unstamped(_ROWS).tumbling("1s").properties.stamps is Stamps.PROCESSED
    mixed = sw.arrivals([{"k": "a"}]).join(
        sw.stream(pa.table({"at": pa.array([1], pa.timestamp("us", "UTC"))}), time="at").assume_ordered(), within="1s"
    )
    assert mixed.properties.stamps is Stamps.EXTERNAL


def test_properties_are_values() -> None:
    """Changed by copying; revised streams say so."""
    facts = Properties()
    assert facts.replace(order=Order.STRICT).ordered
    assert not facts.ordered
    assert str(facts.replace(insert_only=False)) == "disordered, points, revised"
    assert Properties(punctuated=True).progressive
    assert not Properties().progressive
    assert Properties(extent=Extent.WINDOWS) == Properties(extent=Extent.WINDOWS)


_SCHEMAS: dict[str, tuple[Callable[[], Stream], list[str]]] = {
    "source": (_disordered, ["at", "k", "v", "ok"]),
    "arrivals": (lambda: sw.arrivals([{"x": 1}]), ["arrived_at", "x"]),
    "where": (lambda: _disordered().where(nw.col("ok")), ["at", "k", "v", "ok"]),
    "select": (lambda: _disordered().select("v", double=nw.col("v") * 2), ["at", "v", "double"]),
    "select with the time in place": (lambda: _disordered().select("v", "at", "k"), ["v", "at", "k"]),
    "select nothing": (lambda: _disordered().select(), ["at"]),
    "tumbling": (lambda: _disordered().tumbling(5), ["window_start", "window_end", "at", "k", "v", "ok"]),
    "union": (lambda: sw.union(_ordered(), _ordered()), ["at", "k", "v", "ok"]),
    "join": (
        lambda: _ordered().select("k").join(_ordered().select("k", "v"), on="k", within=1),
        ["matched_at", "at", "k", "at_right", "v"],
    ),
    "join of lifetimes": (
        lambda: _lasting().select("k").join(_lasting().select("k"), on="k"),
        ["matched_at", "matched_until", "at", "to", "k", "at_right", "to_right"],
    ),
    "followed_by": (
        lambda: _ordered().select("k").followed_by(_ordered().select("k"), on="k", within=1),
        ["matched_at", "at", "k", "at_right"],
    ),
    "aggregate": (
        lambda: _ordered().tumbling(5).group_by("k").aggregate(n=sw.count(), most=sw.max("v")),
        ["window_start", "window_end", "k", "n", "most"],
    ),
    "map_windows": (lambda: _ordered().tumbling(5).map_windows(_count_rows), ["window_start", "window_end", "n"]),
    "map_windows of lifetimes": (lambda: _lasting().map_windows(_count_rows), ["at", "to", "n"]),
    "map_windows with named columns": (
        lambda: _ordered().map_windows(_count_rows, schema=pa.schema({"n": pa.int8()})),
        ["at", "n"],
    ),
}


@pytest.mark.parametrize("name", _SCHEMAS)
def test_every_step_knows_its_columns_before_it_runs(name: str) -> None:
    """And a run gives exactly these, types included."""
    make, columns = _SCHEMAS[name]
    stream = make()
    assert stream.schema.names == columns
    assert stream.run(clock=sw.ManualClock()).table.schema.equals(stream.schema)


# ---- what is refused ------------------------------------------------------------------------------------------------

_NEEDS_ORDER: dict[str, tuple[Callable[[], Stream], str]] = {
    "aggregate": (lambda: _disordered().aggregate(n=sw.count()), "source rows time=at"),
    "aggregate by key": (lambda: _disordered().group_by("k").aggregate(n=sw.count()), "source rows time=at"),
    "aggregate of windows": (lambda: _disordered().tumbling(5).aggregate(n=sw.count()), "tumbling size=5"),
    "aggregate of hopping windows": (
        lambda: _disordered().hopping(4, 2).aggregate(n=sw.count()),
        "hopping size=4 hop=2",
    ),
    "aggregate of lifetimes": (lambda: _disordered().sliding(5).aggregate(n=sw.count()), "sliding size=5"),
    "map_windows": (lambda: _disordered().map_windows(_count_rows), "source rows time=at"),
    "map_windows of windows": (lambda: _disordered().tumbling(5).map_windows(_count_rows), "tumbling size=5"),
    "union, first": (lambda: sw.union(_disordered(), _ordered()), "source rows time=at"),
    "union, second": (lambda: sw.union(_ordered(), _disordered().where(nw.col("v") > 3)), "where v > 3"),
    "join": (lambda: _ordered().join(_disordered(), on="k", within=1), "source rows time=at"),
    "join with hopping windows": (lambda: _ordered().join(_ordered().hopping(4, 2), on="k", within=1), "hopping"),
    "followed_by": (lambda: _ordered().followed_by(_disordered(), on="k", within=1), "source rows time=at"),
}


@pytest.mark.parametrize("name", _NEEDS_ORDER)
def test_an_order_sensitive_step_on_a_disordered_stream_is_refused(name: str) -> None:
    """The step and the line of the plan at fault are named, and what to do."""
    build, line = _NEEDS_ORDER[name]
    verb = name.split(maxsplit=1)[0].rstrip(",")
    with pytest.raises(NeedsOrder) as refused:
        build()
    text = str(refused.value)
    assert text.startswith(verb)
    assert line in text
    assert "hint: sort(patience=" in text


_REFUSED: dict[str, tuple[Callable[[], Any], type[PlanError], str]] = {
    "select of an unknown column": (lambda: _disordered().select("vv"), SchemaMismatch, r"select.*vv.*at, k, v, ok"),
    "expression over an unknown column": (lambda: _disordered().select(x=nw.col("vv")), PlanError, r"select.*vv"),
    "where over an unknown column": (lambda: _disordered().where(nw.col("vv") > 1), PlanError, r"where.*vv"),
    "positional expression over an unknown column": (lambda: _disordered().select(nw.col("vv")), PlanError, "vv"),
    "a predicate that is a number": (
        lambda: _disordered().where(nw.col("v")),
        SchemaMismatch,
        r"where.*int64.*a boolean for each row",
    ),
    "a predicate that is a text": (lambda: _disordered().where(nw.col("k")), SchemaMismatch, "boolean"),
    "a function that answers numbers": (
        lambda: _disordered().where(lambda rows: rows.column("v")),
        SchemaMismatch,
        "boolean",
    ),
    "a function that fails on no rows": (
        lambda: _disordered().select(x=lambda rows: pa.array([rows.column("v")[0]])),
        PlanError,
        r"select.*cannot be computed",
    ),
    "the time column replaced by an expression": (
        lambda: _disordered().select(at=nw.col("v")),
        SchemaMismatch,
        r"(?s)cannot replace a time column.*at.*hint: use another name",
    ),
    "the time column replaced by another column": (
        lambda: _disordered().select(at="v"),
        SchemaMismatch,
        r"(?s)cannot replace a time column.*at.*hint: use another name",
    ),
    "the end column replaced": (
        lambda: _lasting().select(to=nw.col("v")),
        SchemaMismatch,
        r"(?s)cannot replace a time column.*to.*hint: use another name",
    ),
    "one name for two columns": (lambda: _disordered().select("v", nw.col("v") * 2), SchemaMismatch, r"select.*v"),
    "a mean": (lambda: _disordered().select(m=nw.col("v").mean()), PlanError, r"over many rows.*mean.*hint.*aggregate"),
    "a running sum": (lambda: _disordered().select(s=nw.col("v").cum_sum()), PlanError, r"over many rows.*hint"),
    "a shift": (lambda: _disordered().select(s=nw.col("v").shift(1)), PlanError, "over many rows"),
    "a comparison with the mean": (
        lambda: _disordered().where(nw.col("v") > nw.col("v").mean()),
        PlanError,
        "many rows",
    ),
    "a mean compared with a number": (lambda: _disordered().where(nw.col("v").mean() > 1_000), PlanError, "many rows"),
    "a greatest value compared": (lambda: _disordered().where(nw.col("v").max() > 1_000), PlanError, "many rows"),
    "any": (lambda: _disordered().where((nw.col("v") > 1_000).any()), PlanError, "many rows"),
    "duplicates": (lambda: _disordered().where(nw.col("k").is_duplicated()), PlanError, "many rows"),
    "a forward fill": (
        lambda: _disordered().select(f=nw.col("k").fill_null(strategy="forward")),
        PlanError,
        "many rows",
    ),
    "a rank": (lambda: _disordered().select(r=nw.col("v").rank(method="min")), PlanError, "many rows"),
    "an aggregate over partitions": (
        lambda: _disordered().select(s=nw.col("v").sum().over("k")),
        PlanError,
        "many rows",
    ),
    "a function over the whole batch": (
        lambda: _disordered().select(c=lambda rows: pc.cumulative_sum(rows.column("v"))),
        PlanError,
        "many rows",
    ),
    "a group by an unknown column": (
        lambda: _ordered().group_by("kk").aggregate(n=sw.count()),
        SchemaMismatch,
        r"aggregate.*kk",
    ),
    "an aggregate of an unknown column": (
        lambda: _ordered().aggregate(n=sw.sum("vv")),
        SchemaMismatch,
        r"aggregate.*vv",
    ),
    "a sum of texts": (lambda: _ordered().aggregate(n=sw.sum("k")), SchemaMismatch, r"aggregate.*k"),
    "an aggregate of nothing": (
        lambda: _ordered().aggregate(),
        PlanError,
        r"given no aggregates.*aggregate\(n=sw.count",
    ),
    "a window function that answers its time columns": (
        lambda: _ordered().tumbling(5).map_windows(lambda rows: rows),
        SchemaMismatch,
        r"map_windows.*name  window_start\n.*hint: .*leave window_start and window_end out",
    ),
    "named answers that are called as a time column": (
        lambda: _ordered().map_windows(_count_rows, schema=pa.schema({"at": pa.int64()})),
        SchemaMismatch,
        r"map_windows.*name  at\n.*leave at out",
    ),
    "a window function that answers one name twice": (
        lambda: _ordered().map_windows(lambda rows: rows.select(["k", "k"])),
        SchemaMismatch,
        r"map_windows.*name  k\n",
    ),
    "answers that are named by no schema": (
        lambda: _ordered().map_windows(_count_rows, schema={"n": pa.int64()}),
        SchemaMismatch,
        r"schema= names the columns.*hint: write schema=pa\.schema",
    ),
    "a window function that is none": (
        lambda: _ordered().map_windows(nw.col("v").sum()),  # type: ignore[arg-type]
        PlanError,
        r"map_windows takes a function.*hint: write a function from a pa\.RecordBatch",
    ),
    "a union of other columns": (
        lambda: sw.union(_ordered(), _ordered().select("k")),
        SchemaMismatch,
        r"union.*same columns.*hint: select\(\) the same columns",
    ),
    "a union of other types": (lambda: sw.union(_ordered(), _ordered(v="x")), SchemaMismatch, "union.*same columns"),
    "a union of other time columns": (
        lambda: sw.union(_ordered(), sw.stream(_ROWS, time="v").assume_ordered()),
        SchemaMismatch,
        "union.*time columns",
    ),
    "a join on an unknown column": (
        lambda: _ordered().join(_ordered(), on="kk", within=1),
        SchemaMismatch,
        r"join.*kk",
    ),
    "a join on columns of two types": (
        lambda: _ordered().join(_ordered(k=7), on="k", within=1),
        SchemaMismatch,
        r"join.*k.*hint: cast",
    ),
    "a join of calendar time and sequence numbers": (
        lambda: _ordered().join(sw.arrivals(_ROWS), on="k", within=1),
        SchemaMismatch,
        r"join.*same kind of time",
    ),
    "three windows one after the other": (
        lambda: _ordered().tumbling(5).tumbling(10).tumbling(20),
        SchemaMismatch,
        r"(?s)tumbling.*window_start_before.*hint: leave the older column out",
    ),
    "a window of no length": (lambda: _ordered().tumbling(0), BadDuration, "above zero"),
    "a hop of no length": (lambda: _ordered().hopping(5, 0), BadDuration, "above zero"),
    "a window of texts on sequence numbers": (
        lambda: _ordered().tumbling("5s"),
        BadDuration,
        r"sequence numbers.*plain int",
    ),
    "a window of numbers on calendar time": (lambda: sw.arrivals(_ROWS).tumbling(5), BadDuration, r"calendar time.*5s"),
    "stamped with latent in a join": (
        lambda: sw.arrivals(_ROWS).join(sw.unstamped(_ROWS), within="1s"),
        PlanError,
        r"one stream has times and the other has none.*hint: stamp both or neither",
    ),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_a_pipeline_that_cannot_work_is_refused_when_it_is_built(name: str) -> None:
    """With the step, what is wrong with it and, where something helps, a hint."""
    build, error, text = _REFUSED[name]
    with pytest.raises(error, match=rf"(?s){text}"):
        build()


@pytest.mark.parametrize("latent_first", [True, False])
def test_a_union_of_stamped_and_latent_streams_is_refused(latent_first: bool) -> None:
    """Which is which is named rightly, in whatever order they were given."""
    latent, stamped = sw.unstamped(_ROWS, name="plain"), sw.arrivals(_ROWS, name="stamped")
    streams = (latent, stamped) if latent_first else (stamped, latent)
    with pytest.raises(PlanError, match=r"(?s)union") as refused:
        sw.union(*streams)
    text = str(refused.value)
    assert "stamped  source stamped" in text
    assert "latent   source plain" in text


def test_a_window_after_a_renamed_window_is_fine() -> None:
    """The hint of the refusal works."""
    hourly = _ordered().tumbling(5).aggregate(n=sw.count())
    assert hourly.schema.names == ["window_start", "window_end", "n"]


# ---- the graph ------------------------------------------------------------------------------------------------------


def test_nodes_are_frozen_and_compared_by_identity() -> None:
    """The same node used twice is one step; two alike are two."""
    one, other = _ordered().node, _ordered().node
    assert one != other
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.input = other  # type: ignore[attr-defined]


def test_a_walk_visits_every_node_once_inputs_first() -> None:
    """However often it is used."""
    ordered = _ordered()
    both = sw.union(ordered.where(nw.col("ok")), ordered)
    names = list(name_steps(both.node).values())
    assert names == ["source#1", "assume_ordered#1", "where#1", "union#1"]
    assert [node.verb for node in walk(both.node, ordered.node)] == [name.split("#")[0] for name in names]


def test_steps_of_a_kind_are_numbered() -> None:
    """So that messages and counters can distinguish them."""
    stream = _ordered().where(nw.col("ok")).where(nw.col("v") > 1)
    assert list(name_steps(stream.node).values())[-2:] == ["where#1", "where#2"]


# ---- outputs beside the main one ------------------------------------------------------------------------------------


def test_a_side_output_has_the_columns_and_properties_that_its_step_gives_it(part: Parting) -> None:
    """They need not be those of the main output."""
    main, band = part(_ordered())
    assert band.schema == main.schema
    assert main.late.schema.names == [*main.schema.names, "why"]
    assert (str(band.properties), str(main.late.properties)) == ("ordered, points", "disordered, points")
    assert main.late.node.line == "output late"


def test_an_output_that_a_step_does_not_have_is_refused(part: Parting) -> None:
    """With those that it has."""
    step, where = part(_ordered())[0].node, _ordered().where(nw.col("ok")).node
    assert isinstance(step, StepNode)
    assert isinstance(where, StepNode)
    with pytest.raises(PlanError, match=r"(?s)part has no output 'band 2'.*there are  late, band 1"):
        SideOutput(step, "band 2")
    with pytest.raises(PlanError, match=r"(?s)where has no output 'late'.*there are  none beside the main one"):
        SideOutput(where, "late")


def test_side_outputs_are_nodes_with_names_but_change_no_name_of_a_step(part: Parting) -> None:
    """The step is visited once, before all of its outputs, however many nodes stand for one of them."""
    main, band = part(_ordered())
    plain = name_steps(main.node)
    names = name_steps(main.node, band.node, main.late.node, main.late.node)
    assert list(names.values()) == ["source#1", "assume_ordered#1", "part#1", "output#1", "output#2", "output#3"]
    assert plain.items() <= names.items()


def test_snapshots_know_nothing_of_side_outputs(part: Parting) -> None:
    """They have no operator and no state, so that reading one more of them leaves the plan the same."""
    main, band = part(_ordered())
    assert describe_steps(name_steps(main.node)) == describe_steps(name_steps(band.node, main.late.node))


def test_the_diverting_steps_of_a_plan_are_found_with_their_names(part: Parting) -> None:
    """All of them, and those that are met first on the ways up."""
    first, _ = part(_ordered())
    second, _ = part(first.where(nw.col("ok")))
    other, _ = part(_ordered())
    both = sw.union(second.where(nw.col("v") > 1), second, other)
    assert list(diverting_steps(both.node).values()) == ["part#1", "part#2", "part#3"]
    assert nearest_diverting_steps(both.node) == [second.node, other.node]
    assert nearest_diverting_steps(second.late.node) == [second.node]
    assert nearest_diverting_steps(_ordered().node) == []
