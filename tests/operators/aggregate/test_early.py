"""Early answers: emitted at once, revised when rows change them, and at every punctuation the same however cut."""

from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BrokenOrder, BrokenPunctuation, RunError
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.elements import Adjust, Element, Insert, Punctuate, batch_of, elements_of
from slackwater.events.schema import EventSchema
from slackwater.operators.aggregate.early import EarlyAggregateOperator, EarlyAggregateState, early_schema
from slackwater.operators.aggregate.partials import Partial
from slackwater.operators.replicas.revised_with_key import MergeRevisedWithKey
from slackwater.operators.window import WindowOperator, windowed_schema
from slackwater.policies import aggregates as sw
from slackwater.policies.agreement import Agreement, Revise
from slackwater.policies.windows import Hopping, Tumbling
from slackwater.temporal.compatibility import check_compatible
from slackwater.temporal.table import TableBuilder, TemporalEvent, temporal_table_of
from slackwater.testing.oracles.aggregate import aggregate_oracle
from slackwater.testing.oracles.early_aggregate import EarlyAggregateOracle
from slackwater.testing.strategies import MEASURED, batch_cuts, disordered_batches, ordered_batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from slackwater.operators.emission import Emission
    from slackwater.policies.aggregates import Aggregate

NAMES = EventSchema.of(pa.schema({"from": pa.int64(), "to": pa.int64(), "x": pa.string()}), time="from", until="to")
"""Windows with a name."""

WINDOWS = EventSchema.of(
    pa.schema({"from": pa.int64(), "to": pa.int64(), **{field.name: field.type for field in MEASURED}}),
    time="from",
    until="to",
)
"""Windows with a key, an integer and a float."""

POINTS = EventSchema.of(pa.schema({"at": pa.int64(), **{field.name: field.type for field in MEASURED}}), time="at")
"""Points with the same."""

COUNT: dict[str, Aggregate] = {"n": sw.count()}

EVERYTHING: dict[str, Aggregate] = {
    "rows": sw.count(),
    "present": sw.count("x"),
    "total": sw.sum("v"),
    "float_total": sw.sum("x"),
    "least": sw.min("x"),
    "greatest": sw.max("v"),
    "average": sw.mean("x"),
    "different": sw.count_distinct("v"),
    "top": sw.top_k("v", 2),
}

CHANGING_BACK: dict[str, Aggregate] = {"total": sw.sum("v"), "greatest": sw.max("x")}
"""Answers that often stay as they are, or become what they were."""


def _named(*elements: Element) -> EventBatch:
    return batch_of(elements, NAMES.payload)


def _row(name: str, start: int) -> Insert:
    """An event in the window of ten from a start on."""
    return Insert((name,), start, start + 10)


def _counting(keys: Sequence[str] = ("x",), resume: EarlyAggregateState | None = None) -> EarlyAggregateOperator:
    return EarlyAggregateOperator(NAMES, keys, COUNT, resume=resume)


def _elements(emission: Emission) -> list[Element]:
    for batch in emission.batches:
        batch.check()
        assert len(batch)
    return [element for batch in emission.batches for element in elements_of(batch)]


def _emitted_texts(emission: Emission) -> list[str]:
    return [str(element) for element in _elements(emission)]


# ---- against the oracle ---------------------------------------------------------------------------------------------


def _stretches(elements: Iterable[Element]) -> list[tuple[Counter[str], Element | None]]:
    """What is emitted up to each punctuation, in any order, and the punctuation; after the last there is none."""
    stretches, emitted = [], Counter[str]()
    for element in elements:
        if isinstance(element, Punctuate):
            stretches.append((emitted, element))
            emitted = Counter()
        else:
            emitted[str(element)] += 1
    return [*stretches, (emitted, None)]


def _in_windows(batch: EventBatch) -> EventBatch:
    """The same elements in windows of fifteen: so few groups that most rows revise an answer."""
    start = batch.start - batch.start % 15
    return EventBatch(batch.payload, start, start + 15, batch.kind)


_STREAMS = {
    "intervals": disordered_batches(MEASURED, intervals=True),
    "windows": disordered_batches(MEASURED).map(_in_windows),
    "ordered windows": ordered_batches(MEASURED).map(_in_windows),
}


@pytest.mark.parametrize("what", [EVERYTHING, CHANGING_BACK], ids=["everything", "changing back"])
@pytest.mark.parametrize("keys", [(), ("k",), ("v", "k")], ids=str)
@given(data=st.data(), restore=st.booleans())
def test_every_call_sends_what_the_oracle_sends(
    keys: tuple[str, ...], what: Mapping[str, Aggregate], data: st.DataObject, restore: bool
) -> None:
    """Any cuts, any order, intervals of any length, restored anywhere; each element is one the table can take."""
    batch = data.draw(_STREAMS[data.draw(st.sampled_from(list(_STREAMS)))])
    operator = EarlyAggregateOperator(WINDOWS, keys, what)
    oracle, output = EarlyAggregateOracle(MEASURED.names, keys, what), TableBuilder()
    for cut in data.draw(batch_cuts(batch)):
        if restore:
            operator = EarlyAggregateOperator(WINDOWS, keys, what, resume=operator.snapshot())
        emitted = _elements(operator.on_batch(0, cut))
        operator.check()
        assert _stretches(emitted) == _stretches(oracle.take(list(elements_of(cut))))
        for element in emitted:
            output.add(element)
        expected = aggregate_oracle(oracle.rows, MEASURED.names, keys, what)
        assert output.table() == temporal_table_of(expected)
        assert operator.buffered() == sum(answer.start >= oracle.punctuated_until for answer in expected)
    assert _elements(operator.on_end(0)) == oracle.end()
    assert operator.buffered() == 0
    operator.check()


@given(data=st.data())
def test_at_a_punctuation_the_table_is_that_of_the_rows_before_it(data: st.DataObject) -> None:
    """Whatever the cuts. Windows that overlap, and punctuations as windows pass them on."""
    window = data.draw(st.sampled_from([Tumbling(15), Hopping(16, 9, 1), Hopping(2, 5)]))
    assign = WindowOperator(window, POINTS, ordered=False)
    (batch,) = assign.on_batch(0, data.draw(disordered_batches(MEASURED))).batches or (_nothing(),)
    elements = list(elements_of(batch))
    operator = EarlyAggregateOperator(windowed_schema(POINTS), ["k"], CHANGING_BACK)
    output = TableBuilder()
    for cut in data.draw(batch_cuts(batch)):
        for element in _elements(operator.on_batch(0, cut)):
            output.add(element)
            if isinstance(element, Punctuate):
                came = [row for row in elements[: elements.index(element)] if isinstance(row, Insert)]
                columns = windowed_schema(POINTS).payload.names
                assert output.table() == temporal_table_of(aggregate_oracle(came, columns, ["k"], CHANGING_BACK))
    punctuations = [element for element in elements if isinstance(element, Punctuate)]
    assert not punctuations or output.complete_before == punctuations[-1].complete_before


def _nothing() -> EventBatch:
    return batch_of([], windowed_schema(POINTS).payload)


@given(data=st.data())
def test_the_rows_of_an_ordered_input_close_what_is_before_them(data: st.DataObject) -> None:
    """As punctuations do: no group is open that starts before the last row."""
    batch = data.draw(_STREAMS["ordered windows"])
    operator = EarlyAggregateOperator(WINDOWS, ["k"], EVERYTHING, ordered=True)
    output, came = TableBuilder(), list[Insert]()
    for cut in data.draw(batch_cuts(batch)):
        came += [element for element in elements_of(cut) if isinstance(element, Insert)]
        for element in _elements(operator.on_batch(0, cut)):
            output.add(element)
        operator.check()
        expected = aggregate_oracle(came, MEASURED.names, ["k"], EVERYTHING)
        assert output.table() == temporal_table_of(expected)
        reached = max((row.start for row in came), default=0)
        assert operator.buffered() <= sum(answer.start >= reached for answer in expected)
        assert not came or output.complete_before >= reached


# ---- one by one -----------------------------------------------------------------------------------------------------


def test_answers_are_emitted_at_once_and_revised_when_they_change() -> None:
    """The removal of the former answer stands right before the new one."""
    operator = _counting()
    assert _emitted_texts(operator.on_batch(0, _named(_row("a", 0), _row("b", 10), _row("a", 0)))) == [
        "insert(('a', 2), 0, 10)",
        "insert(('b', 1), 10, 20)",
    ]
    assert _emitted_texts(operator.on_batch(0, _named(_row("c", 20), _row("b", 10), _row("a", 0)))) == [
        "adjust(('a', 2), 0, 10, 0)",
        "insert(('a', 3), 0, 10)",
        "adjust(('b', 1), 10, 20, 10)",
        "insert(('b', 2), 10, 20)",
        "insert(('c', 1), 20, 30)",
    ]


def test_an_answer_that_stays_the_same_is_not_emitted_again() -> None:
    """Also where zeros and NaNs of different looks are in it, and lists."""
    schema = EventSchema.of(pa.schema({"at": pa.int64(), "v": pa.float64()}), time="at")
    what = {"greatest": sw.max("v"), "top": sw.top_k("v", 1), "least": sw.min("v")}
    operator = EarlyAggregateOperator(schema, [], what)

    def take(*values: float) -> list[str]:
        payload = pa.record_batch({"v": pa.array(values, pa.float64())})
        return _emitted_texts(operator.on_batch(0, EventBatch.inserts(payload, [0] * len(values))))

    assert take(-0.0) == ["insert((0.0, (0.0,), 0.0), 0, 1)"]
    assert take(0.0, -0.0) == []
    assert take(-1.0) == ["adjust((0.0, (0.0,), 0.0), 0, 1, 0)", "insert((0.0, (0.0,), -1.0), 0, 1)"]
    assert take(float("nan")) == []


def test_an_answer_may_come_back() -> None:
    """The same start and payload is removed, and inserted again."""
    schema = EventSchema.of(pa.schema({"at": pa.int64(), "v": pa.int64()}), time="at")
    operator = EarlyAggregateOperator(schema, [], {"total": sw.sum("v")})
    emitted = [
        _emitted_texts(operator.on_batch(0, EventBatch.inserts(pa.record_batch({"v": [v]}), [5])))
        for v in (3, 1, -1, 0, -1)
    ]
    assert emitted == [
        ["insert((3,), 5, 6)"],
        ["adjust((3,), 5, 6, 5)", "insert((4,), 5, 6)"],
        ["adjust((4,), 5, 6, 5)", "insert((3,), 5, 6)"],
        [],
        ["adjust((3,), 5, 6, 5)", "insert((2,), 5, 6)"],
    ]


def test_rows_before_and_after_a_punctuation_are_emitted_before_and_after_it() -> None:
    """Of several punctuations the furthest is emitted; one that is no further is not."""
    operator = _counting()
    batch = _named(_row("a", 0), Punctuate(5), _row("a", 10), Punctuate(8), _row("a", 10), Punctuate(8))
    assert _emitted_texts(operator.on_batch(0, batch)) == [
        "insert(('a', 1), 0, 10)",
        "insert(('a', 1), 10, 20)",
        "punctuate(8)",
        "adjust(('a', 1), 10, 20, 10)",
        "insert(('a', 2), 10, 20)",
    ]
    assert _emitted_texts(operator.on_batch(0, _named(Punctuate(8), Punctuate(3)))) == []


def test_a_group_is_forgotten_when_its_start_is_complete_and_not_before() -> None:
    """Punctuations are half-open: more may come at 10. Nobody idle-waits for what was emitted."""
    operator = _counting()
    operator.on_batch(0, _named(_row("a", 0), _row("b", 0), _row("a", 10)))
    assert operator.buffered() == 3
    operator.on_batch(0, _named(Punctuate(0)))
    assert operator.buffered() == 3
    operator.on_batch(0, _named(Punctuate(10)))
    assert operator.buffered() == 1
    assert operator.idle_waiting_on() is None
    assert _emitted_texts(operator.on_batch(0, _named(_row("a", 10)))) == [
        "adjust(('a', 1), 10, 20, 10)",
        "insert(('a', 2), 10, 20)",
    ]
    assert _emitted_texts(operator.on_end(0)) == ["punctuate(forever)"]
    assert operator.buffered() == 0


def test_empty_batches_and_empty_streams_say_nothing_but_the_end() -> None:
    """There is no answer for a window that nothing fell into."""
    operator = _counting()
    assert _emitted_texts(operator.on_batch(0, _named())) == []
    assert _emitted_texts(operator.on_end(0)) == ["punctuate(forever)"]
    assert _emitted_texts(operator.on_end(0)) == []


def test_keys_in_dictionaries_come_back_as_dictionaries() -> None:
    """Those of several batches have different words."""
    kind = pa.dictionary(pa.int32(), pa.string())
    schema = EventSchema.of(pa.schema({"at": pa.int64(), "k": kind}), time="at")
    operator = EarlyAggregateOperator(schema, ["k"], COUNT)
    emitted = []
    for words in (["b", "a"], [None, "b"], ["a", "c", None]):
        payload = pa.record_batch({"k": pa.array(words).dictionary_encode()})
        emission = operator.on_batch(0, EventBatch.inserts(payload, [0] * len(words)))
        assert all(batch.payload.schema == early_schema(schema, ["k"], COUNT).payload for batch in emission.batches)
        emitted += _elements(emission)
    assert set(temporal_table_of(emitted)) == {
        TemporalEvent(payload, 0, 1) for payload in (("a", 2), ("b", 2), ("c", 1), (None, 2))
    }


def test_a_broken_guarantee_names_the_event() -> None:
    """A row older than a punctuation before it; a row out of order where order was declared."""
    with pytest.raises(BrokenPunctuation, match=r"(?s)step 'soon'.*late.*complete before  10"):
        EarlyAggregateOperator(NAMES, [], COUNT, step="soon").on_batch(0, _named(Punctuate(10), _row("late", 9)))
    with pytest.raises(BrokenOrder, match="late"):
        EarlyAggregateOperator(NAMES, [], COUNT, ordered=True).on_batch(0, _named(_row("a", 10), _row("late", 9)))


def test_a_sum_beyond_int64_stops_the_step_with_its_name() -> None:
    """No wrap-around, also when the parts came in different batches."""
    schema = EventSchema.of(pa.schema({"at": pa.int64(), "v": pa.int64()}), time="at")
    large = batch_of([Insert((2**62,), 0, 10)], schema.payload)
    operator = EarlyAggregateOperator(schema, [], {"total": sw.sum("v")}, step="totals")
    operator.on_batch(0, large)
    with pytest.raises(RunError, match=r"(?s)step 'totals'.*sum\(v\).*\[0, 10\).*9223372036854775808"):
        operator.on_batch(0, large)


def test_a_snapshot_is_not_changed_by_what_follows() -> None:
    """Going on from it twice gives the same twice."""
    operator = _counting()
    operator.on_batch(0, _named(_row("a", 0), _row("b", 0)))
    snapshot = operator.snapshot()
    operator.on_batch(0, _named(_row("a", 0), Punctuate(5), _row("c", 20)))
    for _ in range(2):
        resumed = _counting(resume=snapshot)
        assert _emitted_texts(resumed.on_batch(0, _named(_row("a", 0)))) == [
            "adjust(('a', 1), 0, 10, 0)",
            "insert(('a', 2), 0, 10)",
        ]


# ---- what it costs --------------------------------------------------------------------------------------------------


def test_punctuations_inside_a_batch_cost_no_grouping_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A punctuation after every row but the last ones: two partials, before and after the furthest."""
    made: list[int] = []
    of = Partial.of

    def counted(rows: EventBatch, *rest: object) -> Partial:
        made.append(rows.rows)
        return of(rows, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Partial, "of", counted)
    elements = [element for at in range(50) for element in (_row("a", at), Punctuate(at))]
    _counting().on_batch(0, _named(*elements, _row("a", 60), _row("a", 61)))
    assert made == [50, 2]


def _parts(state: object) -> Iterator[Any]:
    """Every column of a state, wherever it lies."""
    if isinstance(state, np.ndarray | pa.Array | pa.Table):
        yield state
    elif dataclasses.is_dataclass(state):
        yield from _parts(tuple(getattr(state, field.name) for field in dataclasses.fields(state)))
    elif isinstance(state, tuple | list):
        for part in state:
            yield from _parts(part)


def _rows_made(held: int) -> int:
    """Let many groups be open far ahead, then let rows come into few, and count the rows of new columns."""
    schema = EventSchema.of(pa.schema({"at": pa.int64(), "v": pa.int64()}), time="at")
    operator = EarlyAggregateOperator(schema, ["v"], {"n": sw.count(), "different": sw.count_distinct("v")})
    ahead = pa.record_batch({"v": pa.array(range(held), pa.int64())})
    operator.on_batch(0, EventBatch.inserts(ahead, np.full(held, 10**6)))
    made, before = 0, {id(part): part for part in _parts(operator.snapshot())}
    for start in range(300):
        rows = pa.record_batch({"v": pa.array([start % 7, start % 3], pa.int64())})
        operator.on_batch(0, EventBatch.inserts(rows, [start, start + 5]))
        operator.on_batch(0, EventBatch.inserts(rows, [10**6, start + 5]))
        operator.on_batch(0, punctuation_like(rows.slice(0, 0), start))
        now = {id(part): part for part in _parts(operator.snapshot())}
        made += sum(len(part) for key, part in now.items() if key not in before)
        before = now
    assert operator.buffered() > held
    return made


def test_many_more_open_groups_make_no_more_work() -> None:
    """Columns that are made while other groups change do not depend on how many are open."""
    assert _rows_made(200_000) == _rows_made(20_000)


# ---- replicas -------------------------------------------------------------------------------------------------------

_VALUED = EventSchema.of(
    pa.schema({"from": pa.int64(), "to": pa.int64(), "k": pa.string(), "v": pa.int64()}), time="from", until="to"
)
_TOTALS: dict[str, Aggregate] = {"total": sw.sum("v")}

_AGREEMENTS = [
    agreement.revising(revise).lagging(lag)
    for agreement in (
        Agreement.first(),
        Agreement.quorum_of(0.5),
        Agreement.quorum_of(1),
        Agreement.leading(),
        Agreement.newest(),
        Agreement.fullest(),
        Agreement.half_frozen(),
        Agreement.frozen(),
    )
    for revise, lag in ((Revise.WHEN_FROZEN, 0), (Revise.ALWAYS, 0), (Revise.LEADING, 3))
]


@st.composite
def _rows_in_windows(draw: st.DrawFn) -> list[Insert]:
    """Rows in windows of five, with values that often add up to what was there before."""
    drawn = draw(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([-1, 0, 1]), st.integers(0, 4))))
    return [Insert((k, v), 5 * window, 5 * window + 5) for k, v, window in drawn]


def _replica(rows: Sequence[Insert], rng: Random) -> list[Element]:
    """What an early aggregate emits of the rows, which come in some order, with true guarantees, in some cuts."""
    order = sorted(rows, key=lambda row: row.start + rng.randint(0, 15))
    elements: list[Element] = []
    for place, row in enumerate(order):
        if rng.random() < 0.4:
            elements.append(Punctuate(min(later.start for later in order[place:]) - rng.choice([0, 0, 2])))
        elements.append(row)
    places = sorted(rng.randrange(len(elements) + 1) for _ in range(rng.randrange(8)))
    operator = EarlyAggregateOperator(_VALUED, ["k"], _TOTALS)
    emitted: list[Element] = []
    for first, stop in pairwise([0, *places, len(elements)]):
        emitted += _elements(operator.on_batch(0, batch_of(elements[first:stop], _VALUED.payload)))
    return [*emitted, *_elements(operator.on_end(0))]


@given(
    rows=_rows_in_windows(),
    seed=st.integers(0, 10**6),
    replicas=st.integers(2, 3),
    agreement=st.sampled_from(_AGREEMENTS),
    restore=st.booleans(),
)
def test_replicas_that_answer_early_are_merged_to_the_aggregate_of_all_rows(
    rows: list[Insert], seed: int, replicas: int, agreement: Agreement, restore: bool
) -> None:
    """Each in another order and other cuts; the output can follow both at every prefix, and is right in the end."""
    rng = Random(seed)
    waiting = [_replica(rows, rng) for _ in range(replicas)]
    payload = early_schema(_VALUED, ["k"], _TOTALS).payload
    no_rows = batch_of([], payload).payload
    merge = MergeRevisedWithKey(replicas, no_rows, agreement=agreement)
    inputs, output = [TableBuilder() for _ in waiting], TableBuilder()
    while any(waiting):
        port = rng.choice([port for port, left in enumerate(waiting) if left])
        size = rng.randint(1, 4)
        emitted, waiting[port] = waiting[port][:size], waiting[port][size:]
        if restore:
            merge = MergeRevisedWithKey(replicas, no_rows, "merge", merge.snapshot(), agreement)
        for element in emitted:
            inputs[port].add(element)
        for element in _elements(merge.on_batch(port, batch_of(emitted, payload))):
            output.add(element)
        merge.check()
        check_compatible(output.table(), [one.table() for one in inputs])
    expected = temporal_table_of(aggregate_oracle(rows, ["k", "v"], ["k"], _TOTALS))
    assert output.table() == expected
    assert all(one.table() == expected for one in inputs)


def test_replicas_do_take_answers_back_and_send_them_again() -> None:
    """The test above would not be worth much otherwise."""
    rows = [Insert(("a", v), 0, 5) for v in (1, 1, -1, 1, -1, -1)]
    came_back = 0
    for seed in range(40):
        removed = set()
        for element in _replica(rows, Random(seed)):
            if isinstance(element, Insert):
                came_back += element.payload in removed
            elif isinstance(element, Adjust):
                removed.add(element.payload)
    assert came_back > 10
