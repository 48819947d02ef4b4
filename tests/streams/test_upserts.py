"""upserts as users write it: the table of the updates in order of time, in any order of arrival; what is refused."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import NeedsOrder, PlanError, SchemaMismatch
from slackwater.events.elements import Insert
from slackwater.progress.instants import FOREVER
from slackwater.testing.by_column_cases import in_order_of_arrival
from slackwater.testing.oracles.upserts import upserts_oracle

SCHEMA = pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64(), "gone": pa.bool_()})


def _table(rows: list[Any]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def _values(table: pa.Table) -> list[tuple[Any, ...]]:
    rows = [
        (row["at"], FOREVER if row["until"] is None else row["until"], row["k"], row["v"]) for row in table.to_pylist()
    ]
    return sorted(rows, key=repr)


_ROWS = st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abc"), st.integers(0, 9), st.booleans()), max_size=30)


@given(rows=_ROWS, patience=st.integers(0, 7), rng=st.randoms(use_true_random=False))
def test_the_table_is_that_of_the_updates_in_order_of_time_whatever_the_order_of_arrival(
    rows: list[Any], patience: int, rng: Any
) -> None:
    """Within the patience; settled, and read back from the changes themselves."""
    updates = [Insert(row[1:], row[0]) for row in sorted(rows)]
    arrived = [(event.start, *event.payload) for event in in_order_of_arrival(updates, patience, rng)]  # type: ignore[misc]
    wanted = sorted(((e.start, e.end, *e.payload) for e in upserts_oracle(updates, [0], 2)), key=repr)  # type: ignore[misc]
    stream = sw.upserts(_table(arrived), time="at", key="k", deleted="gone", patience=patience)
    assert _values(stream.settle().run().table) == wanted
    shown = stream.run().table
    assert set(shown["change"].to_pylist()) <= {"insert", "adjust"}
    again = sw.changes(shown, time="at", until="until", punctuated=False, keyed=True)
    assert _values(again.settle().run().table) == wanted


def test_a_late_update_goes_to_the_late_output_and_changes_nothing() -> None:
    """As any late row; with drop it is only counted."""
    rows = [(1, "a", 1, False), (20, "a", 2, False), (3, "a", 9, False), (30, "a", 3, False)]
    result = sw.upserts(_table(rows), time="at", key="k", deleted="gone", patience=5).run()
    assert result.late.to_pylist() == [
        {"at": 3, "k": "a", "v": 9, "gone": False, "late_bound": 15, "late_by": 12},
    ]
    dropped = sw.upserts(_table(rows), time="at", key="k", deleted="gone", patience=5, late=sw.Late.drop())
    values = dropped.settle().run().table
    assert _values(values) == [(1, 20, "a", 1), (20, 30, "a", 2), (30, FOREVER, "a", 3)]


def test_streams_that_have_an_order_of_their_own_need_no_patience() -> None:
    """Two sources of updates, put together; one that is both is refused."""
    one, other = (sw.stream(_table([(at, "a", at, False)]), time="at").assume_ordered() for at in (1, 4))
    values = sw.upserts(sw.union(one, other), key="k", deleted="gone").settle().run().table
    assert _values(values) == [(1, 4, "a", 1), (4, FOREVER, "a", 4)]
    with pytest.raises(PlanError, match="in order"):
        sw.upserts(one, key="k", patience=3)
    with pytest.raises(PlanError, match="has a time and columns already"):
        sw.upserts(one, key="k", time="at")


def test_calendar_times_dictionaries_and_several_key_columns() -> None:
    """As files have them; ends are shown as times are."""
    at = pa.array([0, 900_000, 400_000], pa.timestamp("us", "UTC"))
    table = pa.table(
        {"at": at, "k": pa.array(["x", "x", "x"]).dictionary_encode(), "n": pa.array([1, 1, 2], pa.int16())}
    )
    stream = sw.upserts(table, time="at", key=["k", "n"], until="to", patience="1s")
    assert stream.schema.names == ["at", "to", "k", "n", "change", "to_before"]
    values = stream.settle().run().table.to_pylist()
    assert [row["at"].microsecond for row in values] == [0, 400_000, 900_000]
    assert [row["to"] for row in values] == [values[2]["at"], None, None]


def test_rows_are_chosen_behind_it_and_updates_are_counted() -> None:
    """A value that nobody wants still ends the one before it."""
    rows = [(1, "a", 1, False), (2, "a", -1, False), (2, "a", -1, False), (3, "a", 2, False)]
    stream = sw.upserts(_table(rows), time="at", key="k", deleted="gone", patience=9)
    result = stream.where(nw.col("v") > 0).settle().run()
    assert _values(result.table) == [(1, 2, "a", 1), (3, FOREVER, "a", 2)]
    assert result.counters["upserts#1"].duplicates == 1
    assert "by k, deleted=gone" in stream.explain()
    assert stream.properties.keyed


def test_values_go_out_while_the_query_runs_and_are_adjusted_later() -> None:
    """In process, from a live source, over a snapshot."""
    source, out = sw.PushSource(SCHEMA), []
    stream = sw.upserts(
        source, time="at", key="k", deleted="gone", patience=2, every=sw.Every.rows(1), late=sw.Late.drop()
    )
    query = stream.open(lambda rows: out.extend(rows.to_pylist()), clock=sw.ManualClock())
    source.push(_table([(1, "a", 1, False), (4, "b", 1, False)]))
    query.work()
    assert [(row["change"], row["at"], row["until"]) for row in out] == [("insert", 1, None)]
    kept = query.snapshot()
    source.push(_table([(9, "a", 2, False)]))
    query.close()
    assert [(row["change"], row["at"], row["until"], row["until_before"]) for row in out[1:]] == [
        ("insert", 4, None, None), ("adjust", 1, 9, None), ("insert", 9, None, None)]  # fmt: skip
    another, more = sw.PushSource(SCHEMA), []
    stream = sw.upserts(
        another, time="at", key="k", deleted="gone", patience=2, every=sw.Every.rows(1), late=sw.Late.drop()
    )
    resumed = stream.open(lambda rows: more.extend(rows.to_pylist()), clock=sw.ManualClock(), resume=kept)
    another.push(_table([(9, "a", 2, False)]))
    resumed.close()
    assert more == out[1:]


_REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"time": None}, PlanError, "needs time="),
    ({"key": []}, PlanError, "key columns"),
    ({"key": "nobody"}, SchemaMismatch, "nobody"),
    ({"key": "at"}, SchemaMismatch, "time column as a key"),
    ({"key": ["k", "k"]}, SchemaMismatch, "twice"),
    ({"deleted": "v"}, SchemaMismatch, "yes or no"),
    ({"deleted": "none"}, SchemaMismatch, "none"),
    ({"key": "gone", "deleted": "gone"}, SchemaMismatch, "one column as key= and deleted="),
    ({"until": "v"}, SchemaMismatch, "v"),
    ({"patience": None}, NeedsOrder, "neither"),
    ({"patience": None, "every": sw.Every.rows(1)}, PlanError, "patience"),
]


@pytest.mark.parametrize(("options", "error", "text"), _REFUSED)
def test_what_cannot_work_is_refused_when_it_is_written(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    """With a message that names what was asked for."""
    with pytest.raises(error, match=text):
        sw.upserts(_table([]), **{"time": "at", "key": "k", "deleted": "gone", "patience": 5, **options})


def test_events_that_have_ends_or_are_revised_are_no_updates() -> None:
    """Their ends would be lost."""
    rows = [{"at": 1, "to": 3, "k": "a"}]
    with pytest.raises(SchemaMismatch, match="happen at one time"):
        sw.upserts(sw.stream(rows, time="at", until="to").assume_ordered(), key="k")
    revised: Any = sw.changes([{"change": "insert", "at": 1, "k": "a"}], time="at")
    with pytest.raises(PlanError, match="not a source of rows"):
        sw.upserts(revised, key="k", time="at")
