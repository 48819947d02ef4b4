"""map_batches as users type it: one row out for each row in, times kept, whatever the cut of the stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import PlanError, SchemaMismatch, StepFailed
from slackwater.operators.pass_through import PassThroughOperator
from slackwater.plan.nodes.rows import UnaryNode
from slackwater.plan.traits import Traits

if TYPE_CHECKING:
    from slackwater.operators.operator import Operator
    from slackwater.plan.properties import Properties

_ROWS = pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64()})


def _table(*times: int) -> pa.Table:
    columns = [list(times), ["xyz"[at % 3] for at in times], [at * at for at in times]]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, _ROWS, strict=True)], schema=_ROWS)


def _stream(*times: int) -> sw.DisorderedStream:
    return sw.stream(_table(*times), time="at")


def doubled(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Twice the number."""
    return pa.record_batch({"k": rows["k"], "v": pc.multiply(rows["v"], 2)})


@given(times=st.lists(st.integers(0, 50), max_size=30), batch_rows=st.integers(1, 10))
def test_it_equals_a_select_of_the_same_computation_whatever_the_cut(times: list[int], batch_rows: int) -> None:
    """Row by row, in the order in which they came."""
    collected: list[dict[str, Any]] = []
    mapped = _stream(*times).map_batches(doubled)
    with mapped.open(lambda rows: collected.extend(rows.to_pylist()), batch_rows=batch_rows) as query:
        query.work()
    assert collected == _stream(*times).select("k", v=nw.col("v") * 2).run().table.to_pylist()


def test_times_stay_in_front_or_where_the_function_leaves_them() -> None:
    """They may be left in the answer, or not."""
    apart = _stream(1, 2).map_batches(doubled)
    assert apart.schema.names == ["at", "k", "v"]
    together = _stream(1, 2).map_batches(lambda rows: pa.table({"w": rows["v"], "at": rows["at"]}))
    assert together.schema.names == ["w", "at"]
    assert together.run().table.to_pydict() == {"w": [1, 4], "at": [1, 2]}


def test_it_keeps_what_is_known_of_a_stream_but_for_its_key() -> None:
    """Rows that differed may be answered alike."""
    counts = _stream(1, 2, 3).assume_ordered().tumbling(2).group_by("k").aggregate(n=sw.count())
    mapped = counts.map_batches(lambda rows: rows.select(["n"]))
    assert isinstance(mapped, sw.OrderedStream)
    assert mapped.properties == counts.properties.replace(keyed=False)
    assert "map_batches#1" in mapped.explain()


def test_a_function_that_does_not_answer_row_for_row_is_refused_when_it_is_written() -> None:
    """One that drops rows, one that looks at others, one that moves times, one that answers no columns."""
    rows = _stream(1, 2)
    with pytest.raises(PlanError, match=r"(?s)was given 5 rows and answered 2.*where\(\) leaves rows out"):
        rows.map_batches(lambda batch: batch.slice(0, 2))
    with pytest.raises(PlanError, match="computation over many rows"):
        rows.map_batches(lambda batch: pa.record_batch({"sum": pc.cumulative_sum(batch["v"].cast(pa.float64()))}))
    with pytest.raises(PlanError, match="answered other times in column 'at'"):
        rows.map_batches(lambda batch: pa.record_batch({"at": pc.add(batch["at"], 1), "v": batch["v"]}))
    with pytest.raises(SchemaMismatch, match="one column beside the times"):
        rows.map_batches(lambda batch: batch.select(["at"]))
    with pytest.raises(PlanError, match=r"not a pa\.RecordBatch"):
        rows.map_batches(lambda batch: batch["v"])
    with pytest.raises(PlanError, match="takes a function"):
        rows.map_batches("v")  # type: ignore[arg-type]
    with pytest.raises(SchemaMismatch, match="schema= names the columns"):
        rows.map_batches(doubled, schema={"v": pa.int64()})
    twice = pa.schema([("v", pa.int64()), ("v", pa.int64())])
    with pytest.raises(SchemaMismatch, match="its own name"):
        rows.map_batches(doubled, schema=twice)


def test_a_function_whose_columns_are_named_is_not_tried() -> None:
    """It sees the rows of the stream and no others; what it answers is brought into the types that were named."""
    seen: list[int] = []

    def looked_up(rows: pa.RecordBatch) -> pa.RecordBatch:
        seen.extend(rows["at"].to_pylist())
        return pa.record_batch({"v": pa.array(rows["v"].to_pylist(), pa.int16())})

    mapped = _stream(1, 2).map_batches(looked_up, schema=pa.schema({"v": pa.int64()}))
    assert seen == []
    assert mapped.run().table.schema == pa.schema({"at": pa.int64(), "v": pa.int64()})
    assert seen == [1, 2]


def test_an_answer_that_does_not_fit_what_was_named_stops_the_query_and_says_so() -> None:
    """Other columns, other types, and another number of rows."""
    named = pa.schema({"v": pa.int64()})
    for function, cause in (
        (lambda rows: rows.select(["k"]), "answered the columns k; planned were v"),
        (lambda rows: pa.record_batch({"v": rows["k"]}), "ArrowInvalid"),
        (lambda rows: rows.select(["v"]).slice(1), "was given 1 rows and answered 0"),
    ):
        with pytest.raises(StepFailed, match=cause):
            _stream(4).map_batches(function, schema=named).run()


def test_a_function_that_fails_names_the_first_row_that_fails_by_itself() -> None:
    """With its values, and the step."""

    def fussy(rows: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"v": [1 // (value - 9) for value in rows["v"].to_pylist()]})

    with pytest.raises(StepFailed, match=r"(?s)'map_batches#1'.*row     2.*'v': 9.*ZeroDivisionError"):
        _stream(1, 2, 3, 4).map_batches(fussy, schema=pa.schema({"v": pa.int64()})).run()


def test_a_table_of_many_chunks_is_an_answer_too() -> None:
    """Put together to one batch."""

    def in_chunks(rows: pa.RecordBatch) -> pa.Table:
        return pa.Table.from_batches([rows.slice(0, 1), rows.slice(1)]).select(["v"])

    assert _stream(1, 2, 3).map_batches(in_chunks).run().table["v"].to_pylist() == [1, 4, 9]


def test_words_of_many_batches_fit_into_a_dictionary() -> None:
    """Though Arrow would number those of a few rows by as few bits."""
    mapped = _stream(*range(6)).map_batches(lambda rows: pa.record_batch({"k": rows["k"].dictionary_encode()}))
    narrow = mapped.map_batches(
        lambda rows: pa.record_batch({"k": rows["k"].cast(pa.dictionary(pa.int8(), pa.string()))})
    )
    assert narrow.schema.field("k").type.index_type == pa.int32()
    assert narrow.run().table["k"].to_pylist() == ["x", "y", "z", "x", "y", "z"]


@dataclass(frozen=True, eq=False)
class _Revised(UnaryNode):
    """Says that a stream may revise its events."""

    verb = "revised"
    traits = Traits()

    @property
    def properties(self) -> Properties:
        """As before, but not inserts only."""
        return self.input.properties.replace(insert_only=False)

    def details(self) -> str:
        """Nothing was chosen."""
        return ""

    def reason(self) -> str:
        """It is for this test."""
        return "for tests"

    def build(self, step: str, resume: None = None) -> Operator[Any]:  # noqa: ARG002 - nothing happens here
        """Pass on what comes."""
        return PassThroughOperator()


def test_of_events_that_may_be_revised_the_function_does_not_see_the_ends() -> None:
    """What it answers for an event must not change with its end; the ends themselves stay."""
    seen: set[str] = set()

    def watched(rows: pa.RecordBatch) -> pa.RecordBatch:
        seen.update(rows.schema.names)
        return rows.select(["v"])

    lasting = sw.stream([{"at": 1, "until": 5, "v": 7}], time="at", until="until")
    revised = sw.DisorderedStream(_Revised(lasting.node)).map_batches(watched)
    assert revised.run().table.to_pylist() == [{"at": 1, "until": 5, "v": 7}]
    assert seen == {"at", "v"}
    lasting.map_batches(watched).run()
    assert seen == {"at", "until", "v"}


def test_rows_of_a_window_come_to_a_later_function_in_order_of_time() -> None:
    """Also when map_batches stands between the window and it, and the sort could have gone behind the window."""
    windows = _stream(5, 3, 1, 12).sort(10).tumbling(10).map_batches(lambda rows: rows.select(["at"]))
    listed = windows.map_windows(lambda rows: pa.record_batch({"times": [rows["at"].to_pylist()]}))
    assert listed.run().table["times"].to_pylist() == [[1, 3, 5], [12]]


def test_patience_counts_by_the_times_before_a_window_that_map_batches_follows() -> None:
    """As it does without it: 9 and 1 are in time until 15 has been seen, and then no more."""
    mapped = _stream(8, 14, 9, 1, 15, 9).tumbling(10).map_batches(lambda rows: rows.select(["at"])).sort(5).run()
    assert mapped.table["at"].to_pylist() == [8, 9, 1, 14, 15]
    assert [late["at"].to_pylist() for late in mapped.late_by_source.values()] == [[9]]
