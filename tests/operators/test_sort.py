"""The sort operator: a stable sort of the rows, handed out as far as punctuations say that they are complete."""

from __future__ import annotations

import dataclasses
import pickle
from decimal import Decimal
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import BrokenPunctuation
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.elements import Element, Insert, Punctuate, batch_of, elements_of
from slackwater.events.gather import no_columns
from slackwater.events.schema import EventSchema
from slackwater.kernels.sorting import impatience_sort
from slackwater.operators.emission import NOTHING
from slackwater.operators.sort import SortOperator, SortState
from slackwater.plan.node import StepNode
from slackwater.plan.nodes.ordering import Sort
from slackwater.plan.rewrites.optimizer import optimized
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.testing.strategies import batch_cuts, disordered_batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

POINTS = EventSchema.of(pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64()}), time="at")
"""Point events with a key and a number."""

LASTING = EventSchema.of(
    pa.schema({"at": pa.int64(), "to": pa.int64(), "k": pa.string(), "v": pa.int64()}), time="at", until="to"
)
"""Events with a lifetime, a key and a number."""

NUMBERED = EventSchema.of(pa.schema({"at": pa.int64(), "n": pa.int64()}), time="at")
"""Point events that know in which place they came."""


@pytest.fixture(autouse=True, params=[0, impatience_sort._FEW], ids=["in runs", "few together"])
def _few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small examples are put onto runs as large ones are, and sorted together as few events are."""
    monkeypatch.setattr(impatience_sort, "_FEW", request.param)


_BLOCK = 65_536
"""Rows that are sorted at once."""


def _due(waiting: list[Insert], complete_before: int) -> list[Insert]:
    """What a stable sort of all that waits gives, up to a bound."""
    return sorted((row for row in waiting if row.start < complete_before), key=lambda row: row.start)


def _emitted(batches: Iterable[EventBatch]) -> list[Element]:
    emitted: list[Element] = []
    for batch in batches:
        batch.check()
        emitted += elements_of(batch)
    return emitted


def _follow(schema: EventSchema, parts: Sequence[EventBatch], *, restore: bool) -> None:
    """Feed a sort and end it; after every call compare what it sent and holds with a list that is sorted then."""
    operator = SortOperator(schema)
    waiting: list[Insert] = []
    bound = BEGINNING
    for part in parts:
        if restore:
            operator = SortOperator(schema, resume=operator.snapshot())
        emission = operator.on_batch(0, part)
        operator.check()
        waiting += [element for element in elements_of(part) if isinstance(element, Insert)]
        punctuated = part.last_punctuation()
        expected: list[Element] = []
        if punctuated is not None and punctuated > bound:
            bound = punctuated
            expected = [*_due(waiting, bound), Punctuate(bound)]
            waiting = [row for row in waiting if row.start >= bound]
        assert _emitted(emission.batches) == expected
        assert emission.side == ()
        assert operator.buffered() == len(waiting)
        assert operator.idle_waiting_on() == (0 if waiting else None)
    assert _emitted(operator.on_end(0).batches) == [*_due(waiting, FOREVER), Punctuate(FOREVER)]
    assert operator.buffered() == 0
    assert operator.idle_waiting_on() is None


# ---- against a list -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [POINTS, LASTING], ids=["points", "lasting"])
@given(data=st.data(), restore=st.booleans())
def test_equals_a_stable_sort_for_any_cuts_and_punctuations(
    schema: EventSchema, data: st.DataObject, restore: bool
) -> None:
    """Row for row at every call, ends included; nothing is sent early, nothing is held that is complete."""
    batch = data.draw(disordered_batches(schema.payload, intervals=schema is LASTING))
    _follow(schema, data.draw(batch_cuts(batch)), restore=restore)


_FAR = st.one_of(st.integers(-5, 5), st.sampled_from([BEGINNING, BEGINNING + 1, FOREVER - 2, FOREVER - 1]))


@given(starts=st.lists(_FAR, max_size=20), at=st.integers(0, 20), restore=st.booleans())
def test_times_may_lie_at_the_ends_of_int64(starts: list[int], at: int, restore: bool) -> None:
    """The first instant and the last, and some that are as far apart as can be."""
    bound = min(starts[at:], default=FOREVER)
    rows: list[Element] = [Insert((n,), start, start + 1) for n, start in enumerate(starts)]
    parts = [batch_of(part, NUMBERED.payload) for part in (rows[:at], [Punctuate(bound)], rows[at:])]
    _follow(NUMBERED, parts, restore=restore)


def test_events_that_last_for_ever_keep_their_end() -> None:
    """And those that do not last at all keep theirs."""
    rows = [Insert(("a", 1), 7, FOREVER), Insert(("b", 2), 3, 3), Insert(("c", 3), 3, FOREVER)]
    operator = SortOperator(LASTING)
    operator.on_batch(0, batch_of(rows, LASTING.payload))
    assert _emitted(operator.on_end(0).batches) == [rows[1], rows[2], rows[0], Punctuate(FOREVER)]


def _numbered(starts: NDArray[np.int64] | Sequence[int], first: int = 0) -> EventBatch:
    times = np.array(starts, dtype=np.int64)
    return EventBatch.inserts(pa.record_batch({"n": np.arange(first, first + len(times))}), times)


_RNG = np.random.default_rng(7)
_N = 2 * _BLOCK + 1_000
_SHAPES: dict[str, NDArray[np.int64]] = {
    "nothing": np.empty(0, dtype=np.int64),
    "a single row": np.array([5]),
    "ordered": np.arange(_N),
    "descending": np.arange(_N, 0, -1),
    "constant": np.full(_N, 3),
    "some late": np.arange(_N) - np.where(_RNG.random(_N) < 0.1, _RNG.integers(0, 5_000, _N), 0),
    "random": _RNG.integers(0, _N, _N),
    "few times": _RNG.integers(0, 4, _N),
    "anywhere in int64": _RNG.integers(BEGINNING, FOREVER, _N),
}


@pytest.mark.parametrize("batch_rows", [7_001, 200_000])
@pytest.mark.parametrize("shape", _SHAPES)
def test_many_rows_of_any_shape_come_out_in_order(shape: str, batch_rows: int) -> None:
    """Rows over several blocks and segments; a punctuation after each batch, as far as it is true."""
    starts = _SHAPES[shape]
    operator = SortOperator(NUMBERED)
    firsts = range(0, len(starts), batch_rows)
    sent: list[EventBatch] = []
    for first in firsts:
        to_come = starts[first + batch_rows :]
        sent += operator.on_batch(0, _numbered(starts[first : first + batch_rows], first)).batches
        bound = int(to_come.min()) if len(to_come) else 0
        sent += operator.on_batch(0, punctuation_like(NUMBERED.no_rows, bound)).batches
        out = sum(batch.rows for batch in sent)
        assert operator.buffered() == min(first + batch_rows, len(starts)) - out
        operator.check()
    sent += operator.on_end(0).batches
    rows = [batch for batch in sent if batch.rows]
    numbers = np.concatenate([np.empty(0, dtype=np.int64), *(batch.payload.column("n").to_numpy() for batch in rows)])
    assert np.array_equal(numbers, np.argsort(starts, kind="stable"))
    assert np.array_equal(np.concatenate([starts[:0], *(batch.start for batch in rows)]), np.sort(starts))


@given(starts=st.lists(st.integers(0, 3), max_size=40), data=st.data())
def test_ties_keep_their_order_of_arrival(starts: list[int], data: st.DataObject) -> None:
    """Also when some of them came before a punctuation, and others after it."""
    operator = SortOperator(NUMBERED)
    numbers: list[int] = []
    for part in data.draw(batch_cuts(_numbered(starts))):
        emission = operator.on_batch(0, part)
        bound = min(starts[int(part.payload.column("n")[-1].as_py()) + 1 :], default=0) if part.rows else 0
        released = operator.on_batch(0, punctuation_like(NUMBERED.no_rows, bound))
        for batch in (*emission.batches, *released.batches):
            numbers += batch.payload.column("n").to_pylist()
    for batch in operator.on_end(0).batches:
        numbers += batch.payload.column("n").to_pylist()
    assert numbers == sorted(range(len(starts)), key=lambda n: starts[n])


# ---- payloads -------------------------------------------------------------------------------------------------------

_COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [1, 2, 3, 4, 5, 6]),
    "uint16": (pa.uint16(), [1, 2, 3, 4, 5, None]),
    "float32": (pa.float32(), [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]),
    "float64": (pa.float64(), [1.5, None, 3.5, None, 5.5, 6.5]),
    "bool": (pa.bool_(), [True, False, False, True, None, True]),
    "string": (pa.string(), ["a", "", None, "d", "e", "a word that is longer than twelve bytes"]),
    "string_view": (pa.string_view(), ["a", "", None, "d", "e", "a word that is longer than twelve bytes"]),
    "dictionary": (pa.dictionary(pa.int16(), pa.string()), ["x", "y", "x", None, "z", "y"]),
    "decimal": (pa.decimal128(9, 2), [Decimal("1.50"), None, Decimal("-2.25"), Decimal(0), Decimal(1), Decimal(2)]),
    "list": (pa.list_(pa.string()), [["a"], [], None, ["b", None], ["c"], ["d"]]),
    "struct": (pa.struct({"a": pa.int64()}), [{"a": 1}, None, {"a": None}, {"a": 4}, {"a": 5}, {"a": 6}]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("k", 1)], None, [], [("l", 2)], [("m", 3)], []]),
    "run_end_encoded": (pa.run_end_encoded(pa.int32(), pa.int64()), [1, 1, 1, None, None, 2]),
    "all_null": (pa.null(), [None] * 6),
}
_ORDER = [4, 1, 5, 2, 0, 3]
"""Where each of six rows comes from when they are in order of time."""


def _column(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(pa.array(values, kind.value_type), run_end_type=kind.run_end_type)
    return pa.array(values, kind)


@pytest.mark.parametrize("lasting", [False, True], ids=["points", "lasting"])
@pytest.mark.parametrize("cuts", [(), (1, 3), (1, 2, 3, 4, 5)], ids=["one batch", "three", "six"])
@pytest.mark.parametrize("name", _COLUMNS)
def test_columns_of_every_type_are_sorted_with_their_rows(name: str, cuts: tuple[int, ...], lasting: bool) -> None:
    """However the rows came; also in a slice of longer columns."""
    kind, values = _COLUMNS[name]
    until = {"to": pa.int64()} if lasting else {}
    schema = EventSchema.of(
        pa.schema({"at": pa.int64(), **until, name: kind}), time="at", until="to" if lasting else None
    )
    starts = [_ORDER.index(number) for number in range(6)]
    payload = pa.RecordBatch.from_arrays([_column(kind, [values[0], *values])], schema=schema.payload).slice(1)
    ends = [start + 10 for start in starts] if lasting else None
    batch = EventBatch.inserts(payload, starts, ends)
    operator = SortOperator(schema)
    for first, stop in pairwise([0, *cuts, 6]):
        operator.on_batch(0, batch.slice(first, stop))
    rows, _ = operator.on_end(0).batches
    rows.check()
    rows.payload.validate(full=True)
    assert rows.payload.schema == schema.payload
    assert rows.payload.column(name).to_pylist() == [values[number] for number in _ORDER]
    assert (rows.start.tolist(), rows.ends().tolist()) == (
        list(range(6)),
        [start + (10 if lasting else 1) for start in range(6)],
    )


@pytest.mark.parametrize("lasting", [False, True], ids=["points", "lasting"])
def test_events_of_nothing_but_times_are_sorted(lasting: bool) -> None:
    """Rows of no columns are still rows."""
    columns = {"at": pa.int64(), "to": pa.int64()} if lasting else {"at": pa.int64()}
    schema = EventSchema.of(pa.schema(columns), time="at", until="to" if lasting else None)
    operator = SortOperator(schema)
    for starts in ([5, 3], [4], [3, 9, 1]):
        operator.on_batch(
            0, EventBatch.inserts(no_columns(len(starts)), starts, [9] * len(starts) if lasting else None)
        )
    assert operator.buffered() == 6
    rows, _ = operator.on_end(0).batches
    rows.check()
    assert (rows.rows, rows.start.tolist()) == (6, [1, 3, 3, 4, 5, 9])


# ---- punctuations ---------------------------------------------------------------------------------------------------


def test_several_punctuations_of_a_batch_are_obeyed_at_once() -> None:
    """What each would have released comes in order before the last of them, which stands for all."""
    elements: list[Element] = [
        Insert((0,), 9, 10),
        Insert((1,), 2, 3),
        Punctuate(3),
        Insert((2,), 4, 5),
        Punctuate(5),
        Insert((3,), 6, 7),
    ]
    operator = SortOperator(NUMBERED)
    emission = operator.on_batch(0, batch_of(elements, NUMBERED.payload))
    assert [str(element) for element in _emitted(emission.batches)] == [
        "insert((1,), 2, 3)",
        "insert((2,), 4, 5)",
        "punctuate(5)",
    ]
    assert operator.buffered() == 2


def test_an_event_exactly_at_the_bound_stays() -> None:
    """More may come at 5, and is sorted behind it."""
    operator = SortOperator(NUMBERED)
    first = operator.on_batch(0, batch_of([Insert((0,), 5, 6), Punctuate(5)], NUMBERED.payload))
    assert _emitted(first.batches) == [Punctuate(5)]
    second = operator.on_batch(0, batch_of([Insert((1,), 5, 6), Punctuate(6)], NUMBERED.payload))
    assert _emitted(second.batches) == [Insert((0,), 5, 6), Insert((1,), 5, 6), Punctuate(6)]


def test_what_says_nothing_new_is_not_repeated() -> None:
    """An empty batch, and a punctuation that was emitted before."""
    operator = SortOperator(NUMBERED)
    operator.on_batch(0, batch_of([Punctuate(5)], NUMBERED.payload))
    for again in ([], [Punctuate(5)], [Punctuate(4)]):
        assert operator.on_batch(0, batch_of(again, NUMBERED.payload)) is NOTHING


def test_a_punctuation_passes_though_nothing_waits() -> None:
    """Whoever is behind may wait for it."""
    operator = SortOperator(NUMBERED)
    assert _emitted(operator.on_batch(0, batch_of([Punctuate(5)], NUMBERED.payload)).batches) == [Punctuate(5)]


@pytest.mark.parametrize("parts", [[[Punctuate(10)], [Insert((1,), 9, 12)]], [[Punctuate(10), Insert((1,), 9, 12)]]])
def test_an_event_that_breaks_a_punctuation_is_refused(parts: list[list[Element]]) -> None:
    """It is named with the step, in the same batch or a later one; nothing is emitted out of order."""
    operator = SortOperator(NUMBERED, "sort#3")
    *before, last = (batch_of(part, NUMBERED.payload) for part in parts)
    for part in before:
        operator.on_batch(0, part)
    with pytest.raises(BrokenPunctuation, match=r"(?s)step 'sort#3'.*insert\(\(1,\), 9, 12\).*complete before  10"):
        operator.on_batch(0, last)


# ---- state ----------------------------------------------------------------------------------------------------------


def _parts(state: object) -> Iterator[Any]:
    """Every column and batch of a state, wherever it lies."""
    if isinstance(state, np.ndarray | pa.RecordBatch):
        yield state
    elif dataclasses.is_dataclass(state):
        for field in dataclasses.fields(state):
            yield from _parts(getattr(state, field.name))
    elif isinstance(state, tuple | list):
        for part in state:
            yield from _parts(part)


def _large(state: SortState) -> dict[int, Any]:
    """The parts of a state that have many rows, by identity."""
    return {
        id(part): part
        for part in _parts(state)
        if (part.num_rows if isinstance(part, pa.RecordBatch) else part.size) > 5_000
    }


def _late(first: int, rows: int) -> NDArray[np.int64]:
    """Times of which every fifth is late by up to ten thousand."""
    numbers = np.arange(first, first + rows)
    return np.where(numbers % 5 == 0, numbers - numbers * 7_919 % 10_000, numbers)


def test_a_snapshot_shares_what_a_step_did_not_touch() -> None:
    """States before and after a small batch have the same columns and batches, not equal ones."""
    operator = SortOperator(NUMBERED)
    for first in range(0, 5 * _BLOCK, _BLOCK):
        operator.on_batch(0, _numbered(_late(first, _BLOCK), first))
    before = operator.snapshot()
    operator.on_batch(0, _numbered(_late(5 * _BLOCK, 10), 5 * _BLOCK))
    after = operator.snapshot()
    assert len(_large(before)) >= 10
    assert set(_large(before)) <= set(_large(after))
    rows = [kept for kept in _large(before).values() if isinstance(kept, pa.RecordBatch)]
    assert sum(batch.num_rows for batch in rows) == 5 * _BLOCK


def test_a_release_copies_nothing_of_what_stays() -> None:
    """What is left of a column is a view of it, and batches of which rows went are the same batches."""
    operator = SortOperator(NUMBERED)
    for first in range(0, 5 * _BLOCK, _BLOCK):
        operator.on_batch(0, _numbered(_late(first, _BLOCK), first))
    before = list(_large(operator.snapshot()).values())
    operator.on_batch(0, punctuation_like(NUMBERED.no_rows, 3 * _BLOCK))
    assert 0 < operator.buffered() < 3 * _BLOCK
    kept = list(_large(operator.snapshot()).values())
    assert kept
    for part in kept:
        if isinstance(part, pa.RecordBatch):
            assert any(part is earlier for earlier in before)
        else:
            assert any(isinstance(earlier, np.ndarray) and np.shares_memory(part, earlier) for earlier in before)


def test_a_snapshot_is_not_changed_by_what_follows() -> None:
    """Going on from it, after the first operator has gone on, gives what was held then; also when it was stored."""
    operator = SortOperator(LASTING)
    rng = Random(3)
    rows = [Insert((str(n), n), rng.randrange(50), 60) for n in range(200)]
    operator.on_batch(0, batch_of(rows, LASTING.payload))
    operator.on_batch(0, batch_of([Punctuate(20)], LASTING.payload))
    snapshot = operator.snapshot()
    stored = pickle.dumps(snapshot)
    operator.on_batch(0, batch_of([Insert(("late", 0), 30, 60), Punctuate(40)], LASTING.payload))
    operator.on_end(0)
    for state in (snapshot, pickle.loads(stored)):  # noqa: S301 - our own bytes
        resumed = SortOperator(LASTING, resume=state)
        resumed.check()
        with pytest.raises(BrokenPunctuation):
            SortOperator(LASTING, resume=state).on_batch(0, batch_of([Insert(("x", 0), 19, 60)], LASTING.payload))
        left = [row for row in rows if row.start >= 20]
        assert resumed.buffered() == len(left)
        assert _emitted(resumed.on_end(0).batches) == [*_due(left, FOREVER), Punctuate(FOREVER)]


def test_thousands_of_batches_of_one_row_keep_few_segments() -> None:
    """Disordered rows, each in a batch of its own, with a punctuation a hundred behind after each."""
    starts = (np.arange(4_000) - np.arange(4_000) * 7_919 % 90).tolist()
    operator = SortOperator(NUMBERED)
    numbers: list[int] = []
    for number, start in enumerate(starts):
        for batch in (_numbered([start], number), punctuation_like(NUMBERED.no_rows, number - 100)):
            for sent in operator.on_batch(0, batch).batches:
                numbers += sent.payload.column("n").to_pylist()
        assert len(numbers) + operator.buffered() == number + 1
    state = operator.snapshot()
    assert len(state.rows.segments) <= 20
    assert len(list(_parts(state.times))) <= 120
    for sent in operator.on_end(0).batches:
        numbers += sent.payload.column("n").to_pylist()
    assert numbers == sorted(range(4_000), key=starts.__getitem__)


def test_thousands_of_batches_that_all_wait_keep_few_segments() -> None:
    """Descending rows, none of which is ever complete before the end."""
    operator = SortOperator(NUMBERED)
    for number in range(4_000):
        operator.on_batch(0, _numbered([4_000 - number], number))
        operator.on_batch(0, punctuation_like(NUMBERED.no_rows, number - 5_000))
    state = operator.snapshot()
    assert len(state.rows.segments) <= 20
    assert operator.buffered() == 4_000
    rows, _ = operator.on_end(0).batches
    assert rows.payload.column("n").to_pylist() == list(range(3_999, -1, -1))


@pytest.mark.parametrize("near", [0, -(2**63) + 20, 2**63 - 25])
def test_ends_of_windows_are_not_held_and_come_out_all_the_same(near: int) -> None:
    """They follow from the starts, up to the end of time, where a window is open."""
    rows = pa.record_batch({"at": [near + time for time in (15, 3, 18, 1, 21, 12, 9)], "v": list(range(7))})
    events = sw.stream(pa.table(rows), time="at")
    (node,) = optimized(events.tumbling(10).sort(30).node)
    assert isinstance(node, Sort)
    assert isinstance(node.input, StepNode)
    without, with_ends = node.build("sort"), SortOperator(node.schema)
    (windows,) = node.input.build("tumbling").on_batch(0, events.node.schema.read(rows, "rows")).batches
    for operator in (without, with_ends):
        operator.on_batch(0, windows)
    assert [held.schema.names for _, held, _ in without.snapshot().rows.segments] == [["at", "v"]]
    sent, expected = (operator.on_end(0).batches[0] for operator in (without, with_ends))
    assert sent.payload.equals(expected.payload)
    assert sent.start.tolist() == expected.start.tolist()
    assert sent.ends().tolist() == expected.ends().tolist()
