"""Computations tried on made-up rows: their types are learned, and those that mix rows are found."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.events.schema import EventSchema
from slackwater.operators.window import windowed_schema
from slackwater.plan.probe import name_outputs, probe_computations, probe_window_function

if TYPE_CHECKING:
    from slackwater.columns.expressions import Computation
    from slackwater.operators.aggregate.map_windows import WindowFunction

_SCHEMA = EventSchema.of(
    pa.schema(
        {
            "at": pa.timestamp("us", "UTC"),
            "k": pa.string(),
            "v": pa.int64(),
            "x": pa.float64(),
            "ok": pa.bool_(),
            "price": pa.decimal128(9, 2),
            "word": pa.dictionary(pa.int32(), pa.string()),
            "parts": pa.list_(pa.int64()),
        }
    ),
    time="at",
)


@pytest.mark.parametrize(
    ("computation", "kind"),
    [
        (nw.col("v") * 2, pa.int64()),
        (nw.col("v") / 2, pa.float64()),
        (nw.col("v") > 2, pa.bool_()),
        (nw.col("k").str.len_chars() > 2, pa.bool_()),
        (nw.lit(7), pa.int64()),
        (nw.when(nw.col("ok")).then(nw.col("v")).otherwise(nw.lit(0)), pa.int64()),
        (nw.col("at").dt.hour(), None),
        (nw.col("x").fill_null(0.0), pa.float64()),
        (nw.col("price"), pa.decimal128(9, 2)),
        (nw.col("parts"), pa.list_(pa.int64())),
        (lambda rows: pc.add(rows.column("v"), 1), pa.int64()),
        (lambda rows: rows.column("parts"), pa.list_(pa.int64())),
    ],
)
def test_the_types_of_row_by_row_computations_are_learned(computation: Computation, kind: pa.DataType | None) -> None:
    """From no rows at all, and none of them is taken for a mixture of rows."""
    learned = probe_computations({"out": computation}, _SCHEMA, "select").field("out").type
    assert kind is None or learned == kind


@pytest.mark.parametrize(
    "computation",
    [
        nw.col("v").mean(),
        nw.col("v").sum(),
        nw.col("v").cum_sum(),
        nw.col("x").cum_sum(),
        nw.col("v").diff(),
        nw.col("k").n_unique(),
        nw.col("v") - nw.col("v").min(),
        nw.col("ok").any(),
        nw.col("v").rank(method="min"),
        nw.len(),
        lambda rows: pc.cumulative_sum(rows.column("v")),
        lambda rows: pa.array([rows.num_rows] * rows.num_rows, pa.int64()),
        lambda rows: rows.column("v").take(pa.array(range(rows.num_rows)[::-1], pa.int64())),
    ],
    ids=lambda computation: str(computation) if isinstance(computation, nw.Expr) else "function",
)
def test_computations_that_mix_rows_are_refused(computation: Computation) -> None:
    """Their answers would depend on how the stream is cut."""
    with pytest.raises(PlanError, match=r"(?s)select was given a computation over many rows.*hint"):
        probe_computations({"out": computation}, _SCHEMA, "select")


def test_a_function_that_does_not_take_made_up_values_is_given_the_benefit_of_the_doubt() -> None:
    """It may be right for the values that really come."""

    def parse(rows: pa.RecordBatch) -> pa.Array:
        return pa.array([int(text.removeprefix("id-")) for text in rows.column("k").to_pylist()], pa.int64())

    assert probe_computations({"out": parse}, _SCHEMA, "select").field("out").type == pa.int64()


def test_the_type_of_a_function_that_answers_python_lists_is_found_out() -> None:
    """An empty list has no type; a stream that runs on it must still work, or be refused when it is built."""

    def doubled(rows: pa.RecordBatch) -> Any:
        return [value * 2 for value in rows.column("v").to_pylist()]

    try:
        stream = sw.stream([{"at": 1, "v": 5}], time="at").select(w=doubled)
    except PlanError as refused:
        assert "hint" in str(refused)  # noqa: PT017 - either answer is right
        return
    assert stream.run().table.to_pylist() == [{"at": 1, "w": 10}]
    assert stream.schema.field("w").type == pa.int64()


def test_a_batch_of_nothing_but_nulls_keeps_the_learned_type() -> None:
    """The next batch may hold values; a column has one type."""

    def maybe(rows: pa.RecordBatch) -> pa.Array:
        values = [value if value > 1 else None for value in rows.column("v").to_pylist()]
        return pa.array(values, pa.int64()) if not values or any(values) else pa.nulls(len(values))

    rows = [{"at": at, "v": at} for at in (1, 2, 3)]
    collected: list[pa.RecordBatch] = []
    query = sw.stream(rows, time="at").select(w=maybe).open(collected.append, clock=sw.ManualClock(), batch_rows=1)
    query.run_to_end()
    assert [batch.column("w").to_pylist() for batch in collected] == [[None], [2], [3]]


def test_positional_columns_get_the_names_that_narwhals_gives_them() -> None:
    """Strings their own, expressions the name of their output; computed ones come last."""
    outputs = name_outputs(["k", nw.col("v") * 2, nw.col("x").alias("y")], {"z": "k"}, _SCHEMA)
    assert list(outputs) == ["k", "v", "y", "z"]


def test_an_expression_of_several_columns_computes_each_of_them() -> None:
    """Doubling two columns doubles both."""
    rows = [{"at": 1, "v": 5, "w": 7}]
    doubled = sw.stream(rows, time="at").select(nw.col("v", "w") * 2)
    assert doubled.run().table.to_pylist() == [{"at": 1, "v": 10, "w": 14}]
    assert sw.stream(rows, time="at").select(nw.col("v", "w")).run().table.to_pylist() == rows


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (nw.col("v").fill_null(0), [-7, 0, 1_000]),
        (nw.col("v").abs(), [7, None, 1_000]),
        (nw.col("v").clip(0, 100), [0, None, 100]),
        (nw.when(nw.col("v") < 900).then(nw.col("v")), [-7, None, None]),
        (nw.col("v") % 500, [493, None, 0]),
        (nw.col("v").cast(nw.Int64), [-7, None, 1_000]),
    ],
    ids=str,
)
def test_an_expression_that_changes_only_some_values_is_not_taken_for_the_column_itself(
    expression: nw.Expr, expected: list[int | None]
) -> None:
    """Made-up rows may be just those that it leaves as they are."""
    table = pa.table({"at": [1, 2, 3], "v": [-7, None, 1_000], "w": [-7, None, 1_000]})
    assert sw.stream(table, time="at").select(expression).run().table.column("v").to_pylist() == expected
    both = sw.stream(table, time="at").select(expression, nw.col("v", "w").fill_null(0).name.suffix("_"))
    assert both.run().table.column("v").to_pylist() == expected
    assert both.run().table.column("w_").to_pylist() == [-7, 0, 1_000]


def test_an_expression_over_the_time_column_is_no_time_column() -> None:
    """It may leave every made-up time as it is and still not be the time."""
    with pytest.raises(PlanError, match="cannot replace a time column"):
        sw.stream([{"at": 1, "v": 5}], time="at").select(nw.col("at").clip(0, 10**12))


def test_all_columns_can_be_selected() -> None:
    """The time column among them stays what it is."""
    rows = [{"at": 1, "v": 5, "w": 7}]
    assert sw.stream(rows, time="at").select(nw.all()).run().table.to_pylist() == rows
    assert sw.stream(rows, time="at").select(nw.col("at"), "w").run().table.to_pylist() == [{"at": 1, "w": 7}]


def test_made_up_rows_are_never_delivered() -> None:
    """They are for the plan's eyes only."""
    seen: list[Any] = []

    def noted(rows: pa.RecordBatch) -> pa.Array:
        seen.extend(rows.column("price").to_pylist())
        return rows.column("price")

    table = pa.table({"at": [1], "price": [Decimal("9.99")]})
    assert sw.stream(table, time="at").select(p=noted).run().table.to_pylist() == [{"at": 1, "p": Decimal("9.99")}]
    assert seen[-1] == Decimal("9.99")


# ---- functions over windows -----------------------------------------------------------------------------------------


def _rate(rows: pa.RecordBatch) -> pa.Table:
    """Divides by the length of the window, takes a first row, and counts on values."""
    start, end = (rows.column(name)[0].as_py() for name in ("window_start", "window_end"))
    return pa.table({"rate": [sum(rows.column("v").to_pylist()) / (end - start).total_seconds()]})


_LEARNED: list[tuple[WindowFunction, pa.Schema]] = [
    (_rate, pa.schema({"rate": pa.float64()})),
    (lambda rows: rows.select(["k", "parts"]), pa.schema({"k": pa.string(), "parts": pa.list_(pa.int64())})),
    (lambda rows: pa.table({"n": [rows.num_rows]}), pa.schema({"n": pa.int64()})),
    (lambda rows: pa.Table.from_batches([rows]).group_by("k").aggregate([("v", "sum")]), None),
    (lambda rows: rows.slice(0, 0).select(["x"]), pa.schema({"x": pa.float64()})),
    (lambda rows: rows.select([]), pa.schema([])),
]


@pytest.mark.parametrize("place", range(len(_LEARNED)))
def test_the_columns_that_a_window_function_answers_are_learned(place: int) -> None:
    """From made-up rows that share an interval of some length, and of which none is null."""
    function, columns = _LEARNED[place]
    learned = probe_window_function(function, windowed_schema(_SCHEMA), "map_windows")
    assert columns is None or learned.equals(columns, check_metadata=True)


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("s"), pa.timestamp("ns", "UTC"), pa.int8(), pa.uint64()])
def test_a_made_up_window_has_a_length_in_every_type_of_time(kind: pa.DataType) -> None:
    """Its rows share the interval; it starts before it ends."""
    seen: list[pa.RecordBatch] = []

    def look(rows: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(rows)
        return rows.select(["x"])

    schema = EventSchema.of(pa.schema({"from": kind, "x": pa.string(), "to": kind}), time="from", until="to")
    probe_window_function(look, schema, "map_windows")
    (rows,) = seen
    assert rows.schema == schema.shown
    assert rows.num_rows > 1
    assert len(set(rows.column("from").to_pylist())) == len(set(rows.column("to").to_pylist())) == 1
    assert rows.column("from")[0].as_py() < rows.column("to")[0].as_py()


def test_a_window_of_rows_without_other_columns_is_made_up_too() -> None:
    """Times alone."""
    schema = EventSchema.of(pa.schema({"at": pa.int64()}), time="at")
    learned = probe_window_function(lambda rows: pa.table({"n": [rows.num_rows]}), schema, "map_windows")
    assert learned == pa.schema({"n": pa.int64()})


def test_what_was_noted_about_made_up_rows_is_forgotten() -> None:
    """A pandas index, say."""
    frame = pa.table({"n": [1]}).to_pandas()
    learned = probe_window_function(lambda _: pa.RecordBatch.from_pandas(frame), _SCHEMA, "map_windows")
    assert learned.equals(pa.schema({"n": pa.int64()}), check_metadata=True)


def test_dictionaries_of_answers_get_room_for_the_words_of_many_windows() -> None:
    """Arrow numbers words by as few bits as the function happened to ask for."""
    narrow = pa.dictionary(pa.int8(), pa.string())
    learned = probe_window_function(lambda rows: pa.table({"k": rows.column("k").cast(narrow)}), _SCHEMA, "map_windows")
    assert learned.field("k").type == pa.dictionary(pa.int32(), pa.string())


_UNLEARNABLE: dict[str, tuple[WindowFunction, str]] = {
    "it raises": (lambda rows: rows.column("vv"), r"map_windows cannot be computed.*columns  at, k.*vv"),
    "it answers no table": (lambda rows: {"n": rows.num_rows}, r"the function answered dict, not a pa\.RecordBatch"),
    "it answers nulls": (lambda _: pa.table({"n": [1], "m": [None]}), r"cannot infer the types.*columns   m\n"),
    "it answers empty lists": (lambda _: pa.table({"m": [[]]}), r"cannot infer the types.*columns   m\n"),
    "it answers nothing": (lambda _: pa.RecordBatch.from_pylist([]), r"cannot infer the types.*none answered"),
}


@pytest.mark.parametrize("name", _UNLEARNABLE)
def test_a_window_function_of_which_nothing_can_be_learned_is_refused(name: str) -> None:
    """And the user is asked to name the columns."""
    function, text = _UNLEARNABLE[name]
    with pytest.raises(PlanError, match=rf"(?s){text}.*hint: .*schema=pa\.schema"):
        probe_window_function(function, _SCHEMA, "map_windows")
