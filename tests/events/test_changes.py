"""Tables of changes: read row by row into elements, and shown so that they can be read again."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BackwardInterval, BadElement, BadTime, SchemaMismatch
from slackwater.events.changes import WORDS, ChangeLog, ChangeSchema, concerned_from
from slackwater.events.elements import Adjust, Element, Insert, Punctuate, batch_of, elements_of
from slackwater.events.schema import EventSchema
from slackwater.progress.instants import FOREVER
from slackwater.temporal.table import earliest_concerned

_COLUMNS = pa.schema(
    {"change": pa.string(), "at": pa.int64(), "until": pa.int64(), "until_before": pa.int64(), "x": pa.string()}
)
_PAYLOAD = pa.schema({"x": pa.string()})


def _schema(**changes: Any) -> ChangeSchema:
    return ChangeSchema.of_changes(_COLUMNS, **{"time": "at", "until": "until", **changes})


def _table(rows: list[dict[str, Any]], columns: pa.Schema = _COLUMNS) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{name: row.get(name) for name in columns.names} for row in rows], columns)


def _element_of(row: dict[str, Any]) -> Element:
    """One row, spelled out as its docstring says: the slow and obvious reading."""
    payload, start = (row.get("x"),), row["at"]
    until, before = (FOREVER if row.get(name) is None else row[name] for name in ("until", "until_before"))
    match row["change"].lower():
        case "insert":
            return Insert(payload, start, until)
        case "adjust":
            return Adjust(payload, start, before, until)
        case "remove":
            return Adjust(payload, start, before, start)
        case _:
            return Punctuate(start)


@st.composite
def _rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    rows = []
    for word in draw(st.lists(st.sampled_from([*WORDS, "INSERT", "Remove"]), max_size=12)):
        start = draw(st.integers(-5, 5))
        ends = st.none() | st.integers(start, start + 5)
        row = {"change": word, "at": start, "until": draw(ends), "until_before": draw(ends)}
        rows.append({**row, "x": draw(st.sampled_from(["a", "b", None]))})
    return rows


@given(rows=_rows())
def test_rows_are_read_as_their_words_say(rows: list[dict[str, Any]]) -> None:
    """Each by itself, in the order in which they stand; the columns of a punctuation but its time are not looked at."""
    batch = _schema().read(_table(rows), "source")
    batch.check()
    assert list(elements_of(batch)) == [_element_of(row) for row in rows]


@given(rows=_rows(), points=st.booleans())
def test_what_is_shown_is_read_back_as_the_same_elements(rows: list[dict[str, Any]], points: bool) -> None:
    """All but the punctuations, which are not shown; of events that happen at one time, without columns of ends."""
    if points:
        rows = [row for row in rows if row["change"] != "adjust"]
        columns = pa.schema([field for field in _COLUMNS if not field.name.startswith("until")])
        schema = ChangeSchema.of_changes(columns, time="at")
    else:
        columns, schema = _COLUMNS, _schema()
    batch = schema.read(_table(rows, columns), "source")
    log = ChangeLog(schema)
    shown = log.show(batch)
    assert shown.schema == log.shown
    again = ChangeSchema.of_changes(shown.schema, time="at", until=None if points else "until").read(shown, "log")
    sent = [one for one in elements_of(batch) if not isinstance(one, Punctuate)]
    assert list(elements_of(again)) == sent


@given(rows=_rows())
def test_the_earliest_time_concerned_is_that_of_each_element(rows: list[dict[str, Any]]) -> None:
    """As the temporal table has it."""
    batch = _schema().read(_table(rows), "source")
    assert concerned_from(batch).tolist() == [earliest_concerned(one) for one in elements_of(batch)]


def test_a_batch_of_inserts_alone_is_a_plain_batch() -> None:
    """No kinds, no ends before; and points have no ends at all."""
    batch = _schema().read(_table([{"change": "insert", "at": 1, "until": 3, "x": "a"}]), "source")
    assert batch.kind is None
    assert batch.prior_end is None
    columns = pa.schema({"change": pa.string(), "at": pa.int64()})
    points = ChangeSchema.of_changes(columns, time="at").read(_table([{"change": "insert", "at": 1}], columns), "s")
    assert points.end is None
    assert points.rows == 1


def test_events_without_payload_are_read_and_shown() -> None:
    """Punctuations among them take no row."""
    columns = pa.schema({"change": pa.string(), "at": pa.int64()})
    schema = ChangeSchema.of_changes(columns, time="at")
    rows = [{"change": "insert", "at": 1}, {"change": "punctuate", "at": 1}, {"change": "remove", "at": 1}]
    batch = schema.read(_table(rows, columns), "source")
    assert [str(one) for one in elements_of(batch)] == ["insert((), 1, 2)", "punctuate(1)", "adjust((), 1, 2, 1)"]
    assert ChangeLog(schema).show(batch).to_pylist() == [{"at": 1, "change": "insert"}, {"at": 1, "change": "remove"}]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_words_may_stand_in_any_kind_of_text_column(kind: pa.DataType) -> None:
    """Dictionaries too, with words that no row has."""
    columns = pa.schema({"change": kind, "at": pa.int64()})
    schema = ChangeSchema.of_changes(columns, time="at")
    rows = _table([{"change": "insert", "at": 1}, {"change": "punctuate", "at": 2}], columns)
    assert schema.read(rows, "source").kinds().tolist() == [0, 2]
    assert schema.read(rows.slice(1), "source").kinds().tolist() == [2]


def test_calendar_times_come_back_in_their_own_type_and_unknown_ends_as_null() -> None:
    """Seconds of a zone, here."""
    time = pa.timestamp("s", "Europe/Berlin")
    columns = pa.schema({"change": pa.string(), "at": time, "until": time, "until_before": time})
    table = pa.RecordBatch.from_arrays(
        [
            pa.array(["insert", "adjust"]),
            pa.array([1, 1], pa.int64()).cast(time),
            pa.array([None, 9], pa.int64()).cast(time),
            pa.array([None, None], pa.int64()).cast(time),
        ],
        schema=columns,
    )
    schema = ChangeSchema.of_changes(columns, time="at", until="until")
    batch = schema.read(table, "source")
    assert batch.ends().tolist() == [FOREVER, 9_000_000]
    assert batch.prior_ends().tolist()[1] == FOREVER
    shown = ChangeLog(schema).show(batch)
    assert shown.select(columns.names).equals(table.cast(shown.select(columns.names).schema))


# ---- what is refused ------------------------------------------------------------------------------------------------


def _refusal(error: type[Exception], *rows: dict[str, Any], **changes: Any) -> str:
    with pytest.raises(error) as refused:
        _schema(**changes).read(_table(list(rows)), "source 'leases'")
    return str(refused.value)


def test_a_row_that_is_no_change_is_named_with_what_was_guaranteed_and_what_came() -> None:
    """A word that nobody knows, and none at all."""
    good = {"change": "insert", "at": 1, "until": 2, "x": "a"}
    assert _refusal(BadElement, good, {"change": "upsert", "at": 3}) == (
        "source 'leases' got a row that is not a valid change\n"
        "    row       1: {'change': 'upsert', 'at': 3, 'until': None, 'until_before': None, 'x': None}\n"
        "    column    change\n"
        "    declared  insert, adjust, punctuate, remove\n"
        "    came      'upsert'\n"
        "    hint: write one of these words, in any letter case"
    )
    assert "came      None" in _refusal(BadElement, good, {"at": 3})


def test_times_that_are_missing_or_run_backward_are_refused_with_the_row() -> None:
    """Ends before starts, ends before that lie before starts, no time at all."""
    assert "row     0" in _refusal(BadTime, {"change": "punctuate"})
    assert "row 1" in _refusal(
        BackwardInterval, {"change": "insert", "at": 1, "until": 1}, {"change": "insert", "at": 3, "until": 2}
    )
    assert "row 0" in _refusal(BackwardInterval, {"change": "adjust", "at": 3, "until": 4, "until_before": 2})
    assert "row 0" in _refusal(BackwardInterval, {"change": "remove", "at": 3, "until_before": 2})
    assert "very end" in _refusal(BadTime, {"change": "insert", "at": FOREVER})


def test_what_is_not_looked_at_cannot_be_wrong() -> None:
    """The end of a removal, the end before an insert, all of a punctuation but its time, which may be the last."""
    rows = [
        {"change": "remove", "at": 3, "until": 1, "until_before": 5},
        {"change": "insert", "at": 3, "until": 5, "until_before": 1},
        {"change": "punctuate", "at": FOREVER, "until": 1, "until_before": 1},
    ]
    assert len(_schema().read(_table(rows), "source")) == 3


def test_what_the_stream_declared_not_to_have_is_refused() -> None:
    """Adjusts of events that happen at one time; punctuations where there are none."""
    columns = pa.schema({"change": pa.string(), "at": pa.int64()})
    with pytest.raises(BadElement, match="events that happen at one time"):
        ChangeSchema.of_changes(columns, time="at").read(_table([{"change": "adjust", "at": 1}], columns), "source")
    assert "no punctuations" in _refusal(BadElement, {"change": "punctuate", "at": 1}, punctuated=False)


def test_columns_that_cannot_do_are_refused_when_the_stream_is_made() -> None:
    """Missing ones, those of the wrong type, one with two roles, and names that a log needs for itself."""
    with pytest.raises(SchemaMismatch, match="op"):
        _schema(kind="op")
    with pytest.raises(SchemaMismatch, match="ended_before"):
        _schema(prior="ended_before")
    with pytest.raises(SchemaMismatch, match="a column of words"):
        _schema(kind="until_before", prior="until_before")
    with pytest.raises(SchemaMismatch, match="column of its own"):
        _schema(prior="until")
    with pytest.raises(SchemaMismatch, match="without until="):
        ChangeSchema.of_changes(_COLUMNS, time="at", prior="until_before")
    moments = pa.schema([*_COLUMNS.remove(3), pa.field("until_before", pa.timestamp("us"))])
    with pytest.raises(SchemaMismatch, match="the same kind of time"):
        ChangeSchema.of_changes(moments, time="at", until="until")
    events = EventSchema.of(pa.schema({"at": pa.int64(), "change": pa.string()}), time="at")
    with pytest.raises(SchemaMismatch, match="two columns of one name"):
        _ = ChangeLog(events).shown


def test_elements_made_by_hand_are_shown() -> None:
    """An adjust, a removal of an event whose end was not known, and an insert."""
    sent: list[Element] = [Insert(("a",), 1, FOREVER), Adjust(("a",), 1, FOREVER, 4), Adjust(("a",), 1, 4, 1)]
    log = ChangeLog(_schema()).show(batch_of(sent, _PAYLOAD)).to_pylist()
    assert [(row["change"], row["until"], row["until_before"]) for row in log] == [
        ("insert", None, None),
        ("adjust", 4, None),
        ("remove", 1, 4),
    ]
