"""Groups as rows: written, cut, read and merged, they give the answer that the events give at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.events.batch import EventBatch
from slackwater.events.schema import EventSchema
from slackwater.operators.aggregate.group_rows import GroupRows
from slackwater.operators.aggregate.partials import Partial
from slackwater.operators.aggregate.recipes import Grouping

_KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "words": (pa.string(), ["a", "b", None, ""]),
    "categories": (pa.dictionary(pa.int32(), pa.string()), ["a", "b", None]),
    "floats": (pa.float64(), [0.0, -0.0, float("nan"), None]),
}
_AGGREGATES = {
    "n": sw.count(),
    "present": sw.count("x"),
    "total": sw.sum("x"),
    "exact": sw.sum("i"),
    "least": sw.min("i"),
    "average": sw.mean("x"),
    "different": sw.count_distinct("x"),
    "top": sw.top_k("i", 2),
}
_ROWS = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.integers(0, 3),
        st.sampled_from([None, 0.1, 0.2, 1e16, -1e16, -0.0]),
        st.sampled_from([None, -7, 0, 3]),
    ),
    max_size=40,
)


def _groups(kind: pa.DataType, keys: tuple[str, ...]) -> GroupRows:
    columns = pa.schema({"from": pa.int64(), "to": pa.int64(), "k": kind, "x": pa.float64(), "i": pa.int64()})
    return GroupRows(EventSchema.of(columns, time="from", until="to"), keys, _AGGREGATES, "test")


def _events(rows: list[tuple[Any, ...]], kind: pa.DataType, keys: list[Any]) -> EventBatch:
    starts = np.array([10 * row[0] for row in rows], dtype=np.int64)
    columns = [
        pa.array([keys[row[1] % len(keys)] for row in rows], kind),
        pa.array([row[2] for row in rows], pa.float64()),
        pa.array([row[3] for row in rows], pa.int64()),
    ]
    return EventBatch.inserts(pa.RecordBatch.from_arrays(columns, names=["k", "x", "i"]), starts, starts + 10)


def _answers(partial: Partial) -> list[str]:
    answer = partial.finish()
    rows = zip(answer.start.tolist(), answer.ends().tolist(), answer.payload.to_pylist(), strict=True)
    return sorted(map(repr, rows))


@pytest.mark.parametrize("keys", [(), ("k",)], ids=["no key", "a key"])
@pytest.mark.parametrize("name", _KEYS)
@given(rows=_ROWS, cut=st.integers(0, 40), parts=st.integers(1, 3))
def test_groups_that_travel_give_the_answer_of_their_events(
    name: str, keys: tuple[str, ...], rows: list[tuple[Any, ...]], cut: int, parts: int
) -> None:
    """However events are cut before they are summed up, and however the rows of the groups are cut after it."""
    kind, values = _KEYS[name]
    groups = _groups(kind, keys)
    whole = _events(rows, kind, values)
    read = []
    for some in (whole.slice(0, min(cut, len(rows))), whole.slice(min(cut, len(rows)), len(rows))):
        written = groups.rows(groups.summed_up(some))
        assert written.payload.schema == groups.schema.payload
        assert sum(written.payload.column(groups.event_count_column).to_pylist()) == some.rows
        for part in range(parts):
            chosen = written.take_rows(np.arange(part, written.rows, parts))
            read.append(groups.partial(chosen))
            read[-1].check()
    plain = Grouping.of(whole.payload.schema, keys, _AGGREGATES, "test")
    assert _answers(Partial.merge(read)) == _answers(Partial.of(whole, plain))


def test_a_part_of_a_partial_is_written_with_its_own_members() -> None:
    """What is cut off in front leaves the members of the others the numbers they had."""
    kind, values = _KEYS["words"]
    groups = _groups(kind, ("k",))
    whole = groups.summed_up(_events([(n, 0, 0.5, n) for n in range(5)], kind, values))
    _, after = whole.split(20)
    rows = groups.rows(after)
    assert rows.start.tolist() == [20, 30, 40]
    assert groups.partial(rows).finish().payload.column("top").to_pylist() == [[2], [3], [4]]


def test_the_column_that_counts_events_is_called_like_no_other() -> None:
    """Not even where a user chose its name."""
    events = EventSchema.of(pa.schema({"from": pa.int64(), "to": pa.int64(), "events_": pa.int64()}), "from", "to")
    groups = GroupRows(events, ("events_",), {"events__": sw.count()}, "test")
    assert len(set(groups.schema.payload.names)) == len(groups.schema.payload.names)
