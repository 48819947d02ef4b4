"""Functions over windows: each window whole, once, in order; answers with its interval; failures that name it."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BrokenOrder, BrokenPunctuation, SchemaMismatch, StepFailed
from slackwater.events.elements import Element, Insert, Punctuate, batch_of, elements_of
from slackwater.events.schema import EventSchema
from slackwater.operators.aggregate.map_windows import MapWindowsOperator, MapWindowsState, answered_rows, mapped_schema
from slackwater.progress.instants import FOREVER
from slackwater.testing.oracles.windows import map_windows_oracle
from slackwater.testing.strategies import KEYED, batch_cuts, disordered_batches, ordered_batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.events.batch import EventBatch
    from slackwater.events.elements import Row
    from slackwater.operators.aggregate.map_windows import WindowFunction

NAMES = EventSchema.of(pa.schema({"from": pa.int64(), "to": pa.int64(), "x": pa.string()}), time="from", until="to")
"""Intervals with a name."""

POINTS = EventSchema.of(pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64()}), time="at")
"""Points with a key and a number."""

INTERVALS = EventSchema.of(
    pa.schema({"at": pa.int64(), "until": pa.int64(), "k": pa.string(), "v": pa.int64()}), time="at", until="until"
)
"""The same with lifetimes."""

SPELLED = pa.schema({"all": pa.string()})


def _spell(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"all": ["".join(rows.column("x").to_pylist())]})


def _operator(function: WindowFunction = _spell, answers: pa.Schema = SPELLED, **options: Any) -> MapWindowsOperator:
    return MapWindowsOperator(NAMES, function, answers, **{"ordered": False, **options})


def _named(*elements: Element) -> EventBatch:
    return batch_of(elements, NAMES.payload)


def _emitted(operator: MapWindowsOperator, *batches: EventBatch) -> list[Element]:
    """Feed batches and end."""
    emissions = [operator.on_batch(0, batch) for batch in batches]
    emitted = [*emissions, operator.on_end(0)]
    return [element for emission in emitted for batch in emission.batches for element in elements_of(batch)]


# ---- windows --------------------------------------------------------------------------------------------------------


def test_a_window_is_handed_over_when_its_start_is_complete() -> None:
    """On an ordered input a later event says so; the last window goes at the end."""
    first, second = Insert(("a",), 0, 10), Insert(("b",), 10, 20)
    operator = _operator(ordered=True)
    assert [str(batch.last_punctuation()) for batch in operator.on_batch(0, _named(first, first)).batches] == ["0"]
    assert (operator.buffered(), operator.idle_waiting_on()) == (2, 0)
    emitted = [element for batch in operator.on_batch(0, _named(second)).batches for element in elements_of(batch)]
    assert emitted == [Insert(("aa",), 0, 10), Punctuate(10)]
    assert _emitted(operator) == [Insert(("b",), 10, 20), Punctuate(FOREVER)]
    assert (operator.buffered(), operator.idle_waiting_on()) == (0, None)


def test_without_order_only_punctuations_complete_a_window() -> None:
    """Half-open: an event exactly at the bound may still come, and does."""
    ahead, behind, at_bound = Insert(("a",), 50, 60), Insert(("b",), 0, 10), Insert(("c",), 10, 20)
    emitted = _emitted(_operator(), _named(ahead, behind, at_bound), _named(Punctuate(10)), _named(at_bound))
    assert emitted == [
        Insert(("b",), 0, 10),
        Punctuate(10),
        Insert(("cc",), 10, 20),
        Insert(("a",), 50, 60),
        Punctuate(FOREVER),
    ]


def test_windows_go_by_start_then_end_and_their_rows_as_they_came() -> None:
    """Windows of different length may start together; open-ended ones come last."""
    ends = [("b", 9), ("a", 5), ("c", 9), ("z", FOREVER), ("d", 9), ("e", 5), ("f", 0)]
    events = [Insert((x,), 0, end) for x, end in ends]
    emitted = _emitted(_operator(ordered=True), _named(*events[:4]), _named(*events[4:]))
    rows = [(element.end, element.payload) for element in emitted if isinstance(element, Insert)]
    assert rows == [(0, ("f",)), (5, ("ae",)), (9, ("bcd",)), (FOREVER, ("z",))]


def test_the_function_sees_all_columns_and_their_types() -> None:
    """Time columns in their own type and place, as users see them everywhere."""
    schema = EventSchema.of(pa.schema({"x": pa.string(), "at": pa.timestamp("s", "UTC")}), time="at")
    seen: list[pa.RecordBatch] = []

    def look(rows: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(rows)
        return rows.select(["x"])

    operator = MapWindowsOperator(schema, look, schema.payload, ordered=False)
    operator.on_batch(0, batch_of([Insert(("b",), 2_000_000, 2_000_001), Insert(("a",), 0, 1)], schema.payload))
    operator.on_end(0)
    assert [rows.schema for rows in seen] == [schema.shown, schema.shown]
    assert [rows.column("x").to_pylist() for rows in seen] == [["a"], ["b"]]
    assert [rows.column("at").cast(pa.int64()).to_pylist() for rows in seen] == [[0], [2]]


def test_answers_of_a_stream_of_points_are_points() -> None:
    """They have no end column to fill."""
    operator = MapWindowsOperator(POINTS, lambda rows: rows.select(["v"]), pa.schema({"v": pa.int64()}), ordered=True)
    batch = batch_of([Insert(("a", 1), 3, 4), Insert(("a", 2), 5, 6)], POINTS.payload)
    answers, _ = operator.on_batch(0, batch).batches
    assert answers.end is None
    assert list(elements_of(answers)) == [Insert((1,), 3, 4)]


def test_a_window_may_have_many_answers_or_none() -> None:
    """Progress is emitted in any case."""

    def letters(rows: pa.RecordBatch) -> pa.Table:
        return pa.table({"all": [letter for name in rows.column("x").to_pylist() for letter in name]}, SPELLED)

    batch = _named(Insert(("abc",), 0, 5), Insert(("",), 1, 5), Insert(("d",), 2, 5), Punctuate(2))
    emitted = _emitted(_operator(letters), batch)
    assert [str(element) for element in emitted[:-1]] == [
        "insert(('a',), 0, 5)",
        "insert(('b',), 0, 5)",
        "insert(('c',), 0, 5)",
        "punctuate(2)",
        "insert(('d',), 2, 5)",
    ]


def test_a_stream_without_events_calls_nobody() -> None:
    """There is no window that nothing fell into."""

    def never(_: pa.RecordBatch) -> pa.RecordBatch:
        raise AssertionError

    emitted = _emitted(_operator(never), _named(), _named(Punctuate(7)), _named(Punctuate(7)))
    assert emitted == [Punctuate(7), Punctuate(FOREVER)]


# ---- answers --------------------------------------------------------------------------------------------------------

_COUNTED = pa.schema({"n": pa.int32(), "x": pa.string()})
_DICTIONARY = pa.dictionary(pa.int32(), pa.string())

_ACCEPTED: dict[str, tuple[pa.Schema, pa.RecordBatch | pa.Table, list[Row]]] = {
    "a batch": (_COUNTED, pa.RecordBatch.from_pylist([{"n": 1, "x": "a"}], schema=_COUNTED), [(1, "a")]),
    "a table": (_COUNTED, pa.Table.from_pylist([{"n": 1, "x": "a"}], schema=_COUNTED), [(1, "a")]),
    "a table in chunks": (
        _COUNTED,
        pa.concat_tables([pa.Table.from_pylist([{"n": n, "x": "a"}], schema=_COUNTED) for n in (1, 2)]),
        [(1, "a"), (2, "a")],
    ),
    "columns in another order": (_COUNTED, pa.table({"x": ["a"], "n": pa.array([1], pa.int32())}), [(1, "a")]),
    "wider integers that fit": (_COUNTED, pa.table({"n": [1], "x": ["a"]}), [(1, "a")]),
    "nothing but nulls": (_COUNTED, pa.record_batch({"n": [None], "x": [None]}), [(None, None)]),
    "whole floats": (_COUNTED, pa.table({"n": [1.0], "x": ["a"]}), [(1, "a")]),
    "notes by Arrow or pandas": (
        _COUNTED,
        pa.table({"n": [1], "x": ["a"]}).replace_schema_metadata({"pandas": "{}"}),
        [(1, "a")],
    ),
    "an empty table of those columns": (_COUNTED, _COUNTED.empty_table(), []),
    "an empty list of rows": (_COUNTED, pa.RecordBatch.from_pylist([]), []),
    "an empty table": (_COUNTED, pa.table({}), []),
    "texts for a dictionary": (pa.schema({"x": _DICTIONARY}), pa.table({"x": ["a", "b"]}), [("a",), ("b",)]),
    "no columns, but rows": (pa.schema([]), pa.record_batch({"x": ["a", "b"]}).select([]), [(), ()]),
    "numbers that are never missing": (
        pa.schema([pa.field("n", pa.int64(), nullable=False)]),
        pa.table({"n": [1]}),
        [(1,)],
    ),
}


@pytest.mark.parametrize("name", _ACCEPTED)
def test_answers_are_brought_into_the_planned_columns(name: str) -> None:
    """Whatever form they come in; two windows in one release, as one batch."""
    planned, answer, rows = _ACCEPTED[name]
    operator = _operator(lambda _: answer, planned)
    operator.on_batch(0, _named(Insert(("a",), 0, 5), Insert(("b",), 7, 9)))
    batches = operator.on_end(0).batches[:-1]
    assert len(batches) == (1 if rows else 0)
    for batch in batches:
        batch.check()
        assert batch.payload.schema.equals(planned, check_metadata=True)
    emitted = [element for batch in batches for element in elements_of(batch)]
    assert emitted == [Insert(row, *window) for window in ((0, 5), (7, 9)) for row in rows]


def test_windows_may_bring_dictionaries_of_their_own() -> None:
    """Put together they say what each emitted."""
    words = pa.schema({"x": _DICTIONARY})
    operator = _operator(lambda rows: pa.table({"x": rows.column("x").dictionary_encode()}), words)
    emitted = _emitted(operator, _named(*(Insert((x,), at, 9) for at, x in enumerate("abca"))))
    assert [element.payload for element in emitted if isinstance(element, Insert)] == [("a",), ("b",), ("c",), ("a",)]


def test_a_dictionary_too_narrow_for_all_words_stops_the_step_with_its_name() -> None:
    """Only a schema that the user wrote can be so narrow."""
    narrow = pa.dictionary(pa.int8(), pa.string())

    def many(rows: pa.RecordBatch) -> pa.Table:
        (start,) = rows.column("from").to_pylist()
        return pa.table({"x": pa.array([f"{start}.{i}" for i in range(100)]).cast(narrow)})

    operator = _operator(many, pa.schema({"x": narrow}), step="words")
    with pytest.raises(StepFailed, match=r"(?s)step 'words' failed.*larger index type"):
        _emitted(operator, _named(Insert(("a",), 0, 1), Insert(("a",), 5, 6)))


_WRONG: dict[str, tuple[Any, str]] = {
    "a dictionary": ({"n": [1]}, "TypeError: the function answered dict, not a pa.RecordBatch or pa.Table"),
    "nothing": (None, "TypeError: the function answered NoneType"),
    "an array": (pa.array([1]), "TypeError: the function answered Int64Array"),
    "another column": (pa.table({"m": [1]}), "ValueError: the function answered the columns m; planned were n"),
    "a column more": (pa.table({"n": [1], "m": [1]}), "the columns n, m; planned were n"),
    "the time columns": (pa.table({"from": [0], "to": [9], "n": [1]}), "the columns from, to, n; planned were n"),
    "a column twice": (pa.table([[1], [1]], names=["n", "n"]), "the columns n, n; planned were n"),
    "rows without columns": (pa.record_batch({"x": ["a"]}).select([]), "the columns none; planned were n"),
    "a text": (pa.table({"n": ["many"]}), "ArrowInvalid: Failed to parse string: 'many'"),
    "a number too large": (pa.table({"n": [2**40]}), "ArrowInvalid: Integer value 1099511627776"),
    "half a number": (pa.table({"n": [0.5]}), "ArrowInvalid: Float value 0.5"),
    "a null where none may be": (pa.table({"n": pa.array([None], pa.int32())}), "ValueError: .*null values"),
}


@pytest.mark.parametrize("name", _WRONG)
def test_a_wrong_answer_stops_the_step_and_names_the_window(name: str) -> None:
    """With the step, the window, and what was wrong."""
    answer, text = _WRONG[name]
    planned = pa.schema([pa.field("n", pa.int32(), nullable=False)])
    good = pa.RecordBatch.from_pylist([{"n": 1}], schema=planned)
    operator = _operator(lambda rows: answer if rows.num_rows == 2 else good, planned, step="counts")
    batch = _named(Insert(("a",), 0, 5), Insert(("b",), 3, 9), Insert(("c",), 3, 9))
    with pytest.raises(
        StepFailed,
        match=rf"(?s)step 'counts' failed\n    window  \[3, 9\)\n    rows    2, the first {{.*\n    cause   .*{text}",
    ):
        _emitted(operator, batch)


def test_a_function_that_raises_stops_the_step_and_names_the_window() -> None:
    """The cause is there to be looked at. Windows in calendar time are shown as such, points by their time."""
    schema = EventSchema.of(pa.schema({"at": pa.timestamp("us"), "x": pa.string()}), time="at")

    def fail(rows: pa.RecordBatch) -> pa.RecordBatch:
        if rows.column("x")[0].as_py() == "bad":
            raise KeyError("unheard of")
        return rows.select(["x"])

    operator = MapWindowsOperator(schema, fail, schema.payload, ordered=True, step="mine")
    batch = batch_of([Insert(("good",), 5, 6), Insert(("bad",), 7, 8)], schema.payload)
    emitted = operator.on_batch(0, batch).batches[0]
    assert list(elements_of(emitted)) == [Insert(("good",), 5, 6)]
    with pytest.raises(StepFailed, match=r"(?s)step 'mine'.*window  1970-01-01T00:00:00.000007Z\n.*KeyError") as failed:
        operator.on_end(0)
    assert isinstance(failed.value.__cause__, KeyError)


def test_an_interrupt_is_not_taken_for_a_failing_function() -> None:
    """It is nobody's fault."""

    def interrupted(_: pa.RecordBatch) -> pa.RecordBatch:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _emitted(_operator(interrupted), _named(Insert(("a",), 0, 5)))


def test_answers_have_the_window_first_and_no_column_of_its_name() -> None:
    """Nor one name twice."""
    assert mapped_schema(NAMES, pa.schema({"n": pa.int64(), "m": pa.int64()})).shown.names == ["from", "to", "n", "m"]
    with pytest.raises(SchemaMismatch, match=r"(?s)map_windows.*name  to\n.*hint: .*leave from and to out of them"):
        mapped_schema(NAMES, pa.schema({"n": pa.int64(), "to": pa.int64()}))
    with pytest.raises(SchemaMismatch, match=r"(?s)name  n\n.*hint: give each column"):
        mapped_schema(NAMES, pa.schema([("n", pa.int64()), ("n", pa.string())]))


def test_a_table_without_columns_keeps_its_rows() -> None:
    """Arrow forgets them when it is careless."""
    assert answered_rows(pa.Table.from_batches([pa.record_batch({"x": ["a", "b"]})]).select([])).num_rows == 2


# ---- guarantees ------------------------------------------------------------------------------------------------------


def test_a_broken_guarantee_names_the_event() -> None:
    """A row older than a punctuation, and one older than its predecessor."""
    late = Insert(("late",), 9, 20)
    with pytest.raises(BrokenPunctuation, match=r"(?s)step 'mine'.*late.*complete before  10"):
        _operator(step="mine").on_batch(0, _named(Punctuate(10), late))
    with pytest.raises(BrokenOrder, match=r"(?s)step 'mine'.*late"):
        _operator(step="mine", ordered=True).on_batch(0, _named(Insert(("a",), 10, 20), late))


def test_a_snapshot_is_a_value_that_later_calls_do_not_change() -> None:
    """Going on from it, also in another process, gives what was held then."""
    operator = _operator(ordered=True)
    operator.on_batch(0, _named(Insert(("a",), 0, 10)))
    snapshot = pickle.loads(pickle.dumps(operator.snapshot()))  # noqa: S301 - our own
    taken = operator.snapshot()
    operator.on_batch(0, _named(Insert(("b",), 0, 10), Insert(("c",), 3, 10)))
    for state in (snapshot, taken):
        assert _emitted(_operator(ordered=True, resume=state))[0] == Insert(("a",), 0, 10)


def test_punctuations_inside_a_batch_make_one_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """A punctuation after every row: the rows of the batch are still shown at once, and cut."""
    shown: list[int] = []
    show = EventSchema.show

    def counted(schema: EventSchema, batch: EventBatch) -> pa.RecordBatch:
        shown.append(batch.rows)
        return show(schema, batch)

    monkeypatch.setattr(EventSchema, "show", counted)
    elements = [element for at in range(50) for element in (Insert(("a",), at, at + 5), Punctuate(at))]
    emitted = _emitted(_operator(), _named(*elements))
    assert shown == [49, 1]
    assert sum(isinstance(element, Insert) for element in emitted) == 50


# ---- the oracle -----------------------------------------------------------------------------------------------------

_RUNNING = pa.schema({"k": pa.string(), "so_far": pa.int64()})


def _running(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Depends on the order of rows, and answers for some of them only."""
    so_far = pc.cumulative_sum(rows.column("v"))
    return pa.RecordBatch.from_arrays([rows.column("k"), so_far], schema=_RUNNING).filter(rows.column("k").is_valid())


def _running_oracle(rows: Sequence[Row]) -> list[Row]:
    values: list[Any] = [v for _, v in rows]
    return [(k, sum(values[: place + 1])) for place, (k, _) in enumerate(rows) if k is not None]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("intervals", [True, False])
@given(data=st.data())
def test_the_answers_equal_the_oracle_row_by_row(data: st.DataObject, intervals: bool, ordered: bool) -> None:
    """Any cuts, restored at every boundary: the same list, in the same order."""
    strategy = ordered_batches if ordered else disordered_batches
    whole = data.draw(strategy(KEYED, intervals=intervals))
    schema = INTERVALS if intervals else POINTS
    emitted: list[Element] = []
    resume: MapWindowsState | None = None
    for batch in [*data.draw(batch_cuts(whole)), None]:
        operator = MapWindowsOperator(schema, _running, _RUNNING, ordered=ordered, resume=resume)
        emission = operator.on_end(0) if batch is None else operator.on_batch(0, batch)
        operator.check()
        emitted += [element for out in emission.batches for element in elements_of(out)]
        resume = operator.snapshot()
    inserts = [element for element in elements_of(whole) if isinstance(element, Insert)]
    expected = map_windows_oracle(inserts, _running_oracle)
    assert [element for element in emitted if isinstance(element, Insert)] == expected
