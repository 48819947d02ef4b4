"""deduplicate as users write it: what is kept, late and counted, in any order of arrival; what is refused, and why."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import narwhals as nw
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.events.elements import Insert
from slackwater.plan.rewrites.optimizer import optimized_in_process
from slackwater.policies.keep import Keep
from slackwater.testing.by_column_cases import in_order_of_arrival
from slackwater.testing.oracles.deduplicate import deduplicate_oracle

FRAMES = [(3, "a", 1), (1, "a", 2), (2, "b", 1), (9, "a", 1), (12, "b", 3), (4, "c", 2)]


def _stream(rows: list[Any] = FRAMES, **options: Any) -> sw.DisorderedStream:
    table = [{"at": at, "frame": frame, "gateway": gateway} for at, frame, gateway in rows]
    schema = pa.schema({"at": pa.int64(), "frame": pa.string(), "gateway": pa.int64()})
    return sw.stream(pa.Table.from_pylist(table, schema), time="at", **options)


def _rows(result: sw.Result) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in result.table.to_pylist()]


def test_each_frame_is_kept_once_in_order() -> None:
    """With a patience of its own, or behind a sort: the same, and the late row is in the late output either way."""
    alone = _stream().deduplicate(on="frame", within=5, patience=6)
    behind = _stream().sort(6).deduplicate(on="frame", within=5)
    for stream in (alone, behind):
        result = stream.run()
        assert _rows(result) == [(1, "a", 2), (2, "b", 1), (9, "a", 1), (12, "b", 3)]
        assert [row["at"] for row in result.late.to_pylist()] == [4]
        assert result.counters["deduplicate#1"].duplicates == 1
        assert "duplicates 1" in str(result)


def test_a_late_row_is_late_though_it_repeats_another() -> None:
    """It goes where late rows go, and is no duplicate."""
    result = _stream([(1, "a", 1), (50, "b", 1), (1, "a", 2)]).deduplicate(on="frame", within=5, patience=3).run()
    assert (result.late.num_rows, result.counters["deduplicate#1"].duplicates) == (1, 0)


@pytest.mark.parametrize("keep", ["first", "last"])
@given(
    rows=st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abc"), st.integers(0, 9)), max_size=30),
    within=st.integers(0, 9),
    patience=st.integers(0, 7),
    rng=st.randoms(use_true_random=False),
)
def test_the_table_is_that_of_the_oracle_whatever_the_order_of_arrival(
    keep: str, rows: list[tuple[int, str, int]], within: int, patience: int, rng: Any
) -> None:
    """Within the patience, and ties that differ included."""
    events = [Insert((frame, gateway), at) for at, frame, gateway in sorted(rows)]
    arrived = [(event.start, *event.payload) for event in in_order_of_arrival(events, patience, rng)]  # type: ignore[misc]
    result = _stream(arrived).deduplicate("frame", within=within, keep=keep, patience=patience).run()
    wanted = deduplicate_oracle(events, [0], within, Keep.of(keep))
    assert sorted(_rows(result)) == sorted((event.start, *event.payload) for event in wanted)  # type: ignore[misc]
    starts = result.table["at"].to_pylist()
    assert starts == sorted(starts)


def test_calendar_times_dictionaries_and_several_key_columns() -> None:
    """As files have them."""
    at = pa.array([0, 400_000, 900_000, 2_000_000], pa.timestamp("us", "UTC"))
    device = pa.array(["x", "x", "y", "x"]).dictionary_encode()
    table = pa.table({"at": at, "device": device, "n": pa.array([1, 1, 1, 1], pa.int16())})
    kept = sw.stream(table, time="at").deduplicate(["device", "n"], within="1s", patience="5s").run().table
    assert kept["device"].to_pylist() == ["x", "y", "x"]


@pytest.mark.parametrize(
    ("kind", "least", "greatest"),
    [
        (pa.decimal32(5, 1), Decimal("-1.5"), Decimal("25.6")),
        (pa.decimal64(15), Decimal(-1), Decimal(256)),
        (pa.decimal128(38, 2), Decimal("-0.10"), Decimal("2.56")),
        (pa.decimal256(76), Decimal(-1), Decimal(256)),
        (pa.dictionary(pa.int32(), pa.float64()), -0.0, 0.0),
    ],
    ids=str,
)
def test_rows_of_one_time_are_chosen_by_their_values_whatever_the_type(
    kind: pa.DataType, least: object, greatest: object
) -> None:
    """Not by the bytes of decimals, and not by which of two zeros came first."""
    for values in ([least, greatest], [greatest, least]):
        column = pa.array(values, kind.value_type).dictionary_encode() if pa.types.is_dictionary(kind) else None
        rows = pa.table({"at": [1, 1], "k": ["a", "a"], "v": pa.array(values, kind) if column is None else column})
        stream = sw.stream(rows, time="at").assume_ordered()
        for keep, kept in (("first", least), ("last", greatest)):
            (row,) = stream.deduplicate(on="k", within=0, keep=keep).run().table["v"].to_pylist()
            assert repr(row) == repr(kept), (values, keep)


def test_columns_that_cannot_be_compared_are_refused_before_any_row_flows() -> None:
    """Rows of one key and time are compared by all columns, so none may have a type that has no values to compare."""
    heard = pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])])
    rows = sw.stream(pa.table({"at": [1, 1], "k": ["a", "a"], "heard": heard}), time="at").assume_ordered()
    with pytest.raises(sw.errors.SchemaMismatch, match=r"deduplicate cannot use the type of a column\n.*heard"):
        rows.deduplicate(on="k", within=5)
    assert rows.select("k").deduplicate(on="k", within=5).run().table["k"].to_pylist() == ["a"]


def test_a_row_with_a_lifetime_goes_by_its_start_and_keeps_its_end() -> None:
    """Whatever the ends of the others."""
    rows = [{"at": 1, "to": 90, "k": "a"}, {"at": 3, "to": 4, "k": "a"}]
    stream = sw.stream(rows, time="at", until="to").assume_ordered()
    assert stream.deduplicate("k", within=2).run().table["to"].to_pylist() == [90]
    assert stream.deduplicate("k", within=2, keep="last").run().table["to"].to_pylist() == [4]


def test_behind_a_window_rows_go_by_its_start() -> None:
    """One row per window and key: the least, the time before the window first."""
    result = _stream().tumbling(10).deduplicate("frame", within=0, patience=20).run()
    assert [(row["window_start"], row["frame"], row["at"]) for row in result.table.to_pylist()] == [
        (0, "a", 1), (0, "b", 2), (0, "c", 4), (10, "b", 12),
    ]  # fmt: skip


def test_a_live_stream_gives_rows_as_their_time_is_complete() -> None:
    """A source that is asked says how far it has come."""
    source = sw.PushSource({"k": pa.string()}, name="frames")
    seen: list[str] = []
    clock = sw.ManualClock(start=1_000)
    once = sw.arrivals(source).deduplicate("k", within="5us")
    query = once.open(lambda rows: seen.extend(rows.column("k").to_pylist()), clock=clock)
    for key, moved in (("a", 2), ("a", 2), ("b", 6), ("a", 1)):
        source.push({"k": key})
        query.work()
        clock.advance(moved)
    query.work()
    query.close()
    assert seen == ["a", "b", "a"]


def test_what_comes_out_has_a_key_and_an_order() -> None:
    """No two rows have the same key and time: replicas of it are merged by a cheaper case."""
    once = _stream().deduplicate("frame", within=5, patience=6)
    assert once.properties.ordered
    assert once.properties.keyed


def test_explain_says_what_is_held_and_the_sort_before_it_is_left_out() -> None:
    """It puts rows in order itself."""
    stream = _stream().sort(6).where(nw.col("gateway") > 0).deduplicate("frame", within=5)
    top, below, *_ = (" ".join(line.split()) for line in stream.explain().splitlines())
    shown = "deduplicate#1 on frame, within 5, keeps the first ordered, points, keyed"
    assert top == f"{shown} a row goes when its time is complete; the keys of the last 5 are remembered"
    assert below.startswith("└─ where#1 gateway > 0 disordered, points, punctuated")
    (run,) = optimized_in_process(stream.node)
    assert "sort" not in {node.verb for node in (run, *run.inputs, *run.inputs[0].inputs)}
    last = _stream().deduplicate("frame", within=5, keep="last", patience=6)
    assert "keeps the last" in last.explain()
    assert "no later one can take its place" in last.explain()


def test_a_sort_that_others_read_is_run_once() -> None:
    """It stays where it was written."""
    ordered = _stream().sort(6)
    rows, once = sw.run_together(ordered, ordered.deduplicate("frame", within=5))
    assert (rows.table.num_rows, once.table.num_rows) == (5, 4)
    assert [name for name in once.counters if name.startswith("sort")] == ["sort#1"]


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"on": "frame", "within": 5}, 'deduplicate(..., patience="5s")'),
        ({"on": "frame", "within": 5, "late": sw.Late.drop()}, "need a patience"),
        ({"on": "frame", "within": 5, "every": sw.Every.rows(1)}, "need a patience"),
        ({"on": "nobody", "within": 5, "patience": 1}, "not there"),
        ({"on": [], "within": 5, "patience": 1}, "name the columns"),
        ({"on": "at", "within": 5, "patience": 1}, "as a key"),
        ({"on": ["frame", "frame"], "within": 5, "patience": 1}, "twice"),
        ({"on": 7, "within": 5, "patience": 1}, "on= names columns"),
        ({"on": "frame", "within": -1, "patience": 1}, "negative"),
        ({"on": "frame", "within": sw.FOREVER + 1, "patience": 1}, "fit int64"),
        ({"on": "frame", "within": "5s", "patience": 1}, "5s"),
        ({"on": "frame", "within": 5, "patience": 1, "keep": "any"}, 'keep="first"'),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused_with_a_hint(options: dict[str, Any], refusal: str) -> None:
    """When the pipeline is built."""
    with pytest.raises(sw.errors.PlanError) as refused:
        _stream().deduplicate(**options)
    assert refusal in str(refused.value)


def test_the_hints_can_be_followed() -> None:
    """A copy of a time column can be part of the key; a revised stream is settled first."""
    copied = _stream().select("frame", copy=nw.col("at")).deduplicate(["frame", "copy"], within=5, patience=20)
    assert copied.run().table.num_rows == 6
    changes = sw.changes([{"change": "insert", "at": 1, "k": "a"}, {"change": "insert", "at": 2, "k": "a"}], time="at")
    with pytest.raises(sw.errors.PlanError, match=r"stream.settle\(\).deduplicate"):
        changes.deduplicate("k", within=5)  # type: ignore[attr-defined]
    assert changes.settle().deduplicate("k", within=5).run().table.num_rows == 1
