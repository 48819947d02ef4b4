"""Punctuating: every output against the oracle, what is late and what becomes of it, and times at the ends of int64."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import BadTime, LateEvent, SchemaMismatch
from slackwater.events.batch import EventBatch
from slackwater.events.elements import Element, Insert, Punctuate, batch_of, elements_of
from slackwater.events.schema import EventSchema
from slackwater.operators.emission import LATE, NOTHING, Emission, band_output
from slackwater.operators.late_rows import late_schema
from slackwater.operators.punctuate import PunctuateOperator, PunctuateState
from slackwater.policies.cadence import Every
from slackwater.policies.late import Late
from slackwater.policies.windows import Tumbling
from slackwater.progress.instants import BEGINNING, FOREVER, UNTIMED
from slackwater.testing.oracles.punctuate import punctuate_oracle

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hypothesis.strategies import DrawFn

POINTS = EventSchema.of(pa.schema({"at": pa.int64(), "x": pa.string()}), time="at")
"""Point events with a name."""

LASTING = EventSchema.of(pa.schema({"at": pa.int64(), "to": pa.int64(), "x": pa.string()}), time="at", until="to")
"""Events with a lifetime and a name."""

_UNTIMED = {True: POINTS.with_untimed_rows(), False: LASTING.with_untimed_rows()}
"""The same, for rows that may have no time."""

_EXTREMES = [BEGINNING, BEGINNING + 1, BEGINNING + 9, FOREVER - 9, FOREVER - 1]
_STARTS = st.one_of(st.integers(0, 40), st.integers(0, 40), st.integers(-40, 40), st.sampled_from(_EXTREMES))
_LENGTHS = st.one_of(st.integers(0, 12), st.just(FOREVER))
_PATIENCES = st.sets(st.one_of(st.integers(0, 30), st.sampled_from([FOREVER - 3, FOREVER])), min_size=1, max_size=4)
_CADENCES = st.one_of(
    st.builds(Every.rows, st.integers(1, 6)),
    st.builds(Every.time, st.one_of(st.integers(1, 9), st.sampled_from([FOREVER - 1, FOREVER]))),
    st.just(Every.batch()),
)
_WINDOWS = st.one_of(
    st.none(),
    st.builds(Tumbling, st.one_of(st.integers(1, 12), st.sampled_from([FOREVER - 1, FOREVER])), st.integers(-20, 20)),
)
_POLICIES = st.sampled_from([Late.divert(), Late.drop(), Late.adjust()])


@st.composite
def _streams(draw: DrawFn, *, points: bool) -> list[Element]:
    """Rows in any order and with any time, and punctuations that they may contradict."""
    elements: list[Element] = []
    for number in range(draw(st.integers(0, 30))):
        if draw(st.integers(0, 5)) == 0:
            elements.append(Punctuate(draw(st.one_of(_STARTS, st.just(FOREVER)))))
        else:
            start = draw(_STARTS)
            end = start + 1 if points else min(start + draw(_LENGTHS), FOREVER)
            elements.append(Insert((f"row {number}",), start, end))
    return elements


@st.composite
def _untimed_streams(draw: DrawFn, *, points: bool) -> list[Element]:
    """Rows in any order, some of which have no time."""
    elements: list[Element] = []
    for number in range(draw(st.integers(0, 30))):
        start = draw(st.one_of(st.just(UNTIMED), _STARTS.filter(lambda start: start != UNTIMED)))
        end = draw(st.integers(-5, 40)) if start == UNTIMED else min(start + draw(_LENGTHS), FOREVER)
        elements.append(Insert((f"row {number}",), start, start + 1 if points else end))
    return elements


@st.composite
def _cut(draw: DrawFn, elements: list[Element]) -> list[list[Element]]:
    places = sorted(draw(st.lists(st.integers(0, len(elements)), max_size=6)))
    return [elements[first:stop] for first, stop in pairwise([0, *places, len(elements)])]


def _batch(elements: list[Element], *, points: bool = True) -> EventBatch:
    """The elements, with no column that is not needed."""
    batch = batch_of(elements, POINTS.payload)
    return EventBatch(
        batch.payload,
        batch.start,
        None if points else batch.end,
        batch.kind if any(isinstance(element, Punctuate) for element in elements) else None,
    )


def _at(*starts: int) -> EventBatch:
    return _batch([Insert((f"at {start}",), start, start + 1) for start in starts])


def _operator(
    patiences: Iterable[int],
    every: Every,
    late: Late,
    resume: PunctuateState | None = None,
    schema: EventSchema = POINTS,
    windows: Tumbling | None = None,
) -> PunctuateOperator:
    cadence = every.resolved(calendar=schema.calendar)
    return PunctuateOperator(schema, sorted(patiences), cadence, late, "punctuate#1", resume, windows)


def _fed(operator: PunctuateOperator, parts: list[list[Element]]) -> list[Emission]:
    return [operator.on_batch(0, _batch(part)) for part in parts]


def _outputs(emissions: Iterable[Emission]) -> dict[str, list[Element]]:
    """All that was emitted, output by output; the main one is called band 0."""
    emitted: dict[str, list[Element]] = {}
    for emission in emissions:
        named = [*(("band 0", batch) for batch in emission.batches), *emission.side]
        assert len({name for name, _ in named}) == len(named), "one batch per output and call"
        for name, batch in named:
            assert len(batch)
            batch.check()
            emitted.setdefault(name, []).extend(elements_of(batch))
    return emitted


def _expected(
    parts: list[list[Element]], patiences: Iterable[int], every: Every, late: Late, **options: Any
) -> tuple[dict[str, list[Element]], int, int]:
    cadence = every.resolved(calendar=False)
    split = punctuate_oracle(parts, sorted(patiences), cadence, late, **options)
    named = {band_output(band): emitted for band, emitted in enumerate(split.bands)} | {LATE: [*split.diverted]}
    return {name: emitted for name, emitted in named.items() if emitted}, split.late, split.adjusted


def _shown(emitted: dict[str, list[Element]]) -> dict[str, list[str]]:
    return {name: [str(element) for element in elements] for name, elements in emitted.items()}


# ---- against the oracle ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("untimed", [False, True], ids=["timed", "untimed"])
@pytest.mark.parametrize("points", [True, False], ids=["points", "lasting"])
@given(data=st.data(), patiences=_PATIENCES, every=_CADENCES, late=_POLICIES, windows=_WINDOWS)
def test_every_output_says_what_the_oracle_says(
    data: st.DataObject,
    patiences: set[int],
    every: Every,
    late: Late,
    windows: Tumbling | None,
    points: bool,
    untimed: bool,
) -> None:
    """All bands and the late output, element for element, for any cuts and with a restore at each of them."""
    restore = data.draw(st.booleans())
    parts = data.draw(_cut(data.draw((_untimed_streams if untimed else _streams)(points=points))))
    schema = _UNTIMED[points] if untimed else POINTS if points else LASTING
    operator = _operator(patiences, every, late, None, schema, windows)
    emissions = []
    for part in parts:
        if restore:
            operator = _operator(patiences, every, late, operator.snapshot(), schema, windows)
        emissions.append(operator.on_batch(0, _batch(part, points=points)))
        operator.check()
    assert operator.on_end(0) is NOTHING
    assert operator.buffered() == 0
    found = (_outputs(emissions), operator.late(), operator.snapshot().adjusted)
    assert found == _expected(parts, patiences, every, late, points=points, untimed=untimed, windows=windows)


@given(data=st.data(), patiences=_PATIENCES, every=_CADENCES, late=_POLICIES)
def test_rows_in_are_rows_out_and_late_rows(data: st.DataObject, patiences: set[int], every: Every, late: Late) -> None:
    """Under every policy and at any time; what is diverted is what is counted."""
    operator = _operator(patiences, every, late, schema=LASTING)
    came = went = diverted = 0
    for part in data.draw(_cut(data.draw(_streams(points=False)))):
        emission = operator.on_batch(0, _batch(part, points=False))
        came += sum(isinstance(element, Insert) for element in part)
        went += sum(batch.rows for batch in emission.batches)
        went += sum(batch.rows for name, batch in emission.side if name != LATE)
        diverted += sum(batch.rows for name, batch in emission.side if name == LATE)
        assert came == went + operator.late()
        assert diverted == (operator.late() if late == Late.divert() else 0)


@given(data=st.data(), patiences=_PATIENCES, late=_POLICIES)
def test_cuts_decide_nothing_unless_the_cadence_is_the_batch(
    data: st.DataObject, patiences: set[int], late: Late
) -> None:
    """Every n rows and every d of time are places in the stream."""
    stream = data.draw(_streams(points=True))
    every = data.draw(_CADENCES.filter(lambda every: every != Every.batch()))
    whole, cut = (
        _outputs(_fed(_operator(patiences, every, late), parts))
        for parts in ([stream], [[element] for element in stream])
    )
    assert whole == cut


@given(data=st.data(), patiences=_PATIENCES, every=_CADENCES)
def test_no_output_contradicts_its_own_punctuations(data: st.DataObject, patiences: set[int], every: Every) -> None:
    """Punctuations rise strictly, and no row of a band is older than the last one."""
    parts = data.draw(_cut(data.draw(_streams(points=True))))
    for elements in _outputs(_fed(_operator(patiences, every, Late.adjust()), parts)).values():
        bound = BEGINNING
        for element in elements:
            if isinstance(element, Punctuate):
                assert element.complete_before > bound
                bound = element.complete_before
            else:
                assert element.start >= bound


@given(data=st.data(), patiences=_PATIENCES, every=_CADENCES)
def test_the_first_late_row_is_refused_where_that_was_chosen(
    data: st.DataObject, patiences: set[int], every: Every
) -> None:
    """The same row at which the oracle stops, or none."""
    parts = data.draw(_cut(data.draw(_streams(points=True))))
    cadence = every.resolved(calendar=False)
    refused = punctuate_oracle(parts, sorted(patiences), cadence, Late.raise_error(), points=True).refused
    operator = _operator(patiences, every, Late.raise_error())
    if refused is None:
        _fed(operator, parts)
        assert operator.late() == 0
        return
    assert isinstance(refused.payload, tuple)
    with pytest.raises(LateEvent, match=f"'{refused.payload[0]}'"):
        _fed(operator, parts)


@given(data=st.data(), patiences=_PATIENCES, every=_CADENCES)
def test_a_row_without_a_time_is_refused_where_late_rows_are(
    data: st.DataObject, patiences: set[int], every: Every
) -> None:
    """By a word of its own, unless a row that is late for its time came first."""
    parts = data.draw(_cut(data.draw(_untimed_streams(points=True))))
    cadence, late = every.resolved(calendar=False), Late.raise_error()
    refused = punctuate_oracle(parts, sorted(patiences), cadence, late, points=True, untimed=True).refused
    operator = _operator(patiences, every, late, schema=_UNTIMED[True])
    if refused is None:
        _fed(operator, parts)
        return
    assert isinstance(refused.payload, tuple)
    error, at = (BadTime, "'at': None") if refused.start == UNTIMED else (LateEvent, f"'at': {refused.start}")
    with pytest.raises(error, match=f"{at}, 'x': '{refused.payload[0]}'"):
        _fed(operator, parts)


@given(gone=st.sets(st.integers(100, 5_999), max_size=8))
def test_a_few_late_rows_of_many_are_left_out(gone: set[int]) -> None:
    """However few and wherever they are, the others come out in their order and with their own payload."""
    start = np.arange(6_000)
    start[sorted(gone)] = 0
    rows = EventBatch.inserts(pa.record_batch({"x": [f"row {number}" for number in range(6_000)]}), start)
    emission = _operator([50], Every.rows(100), Late.drop()).on_batch(0, rows)
    kept = [f"row {number}" for number in range(6_000) if number not in gone]
    assert emission.batches[0].payload.column("x").to_pylist() == kept
    emission.batches[0].check()
    assert emission.batches[0].data().start.tolist() == [number for number in range(6_000) if number not in gone]


# ---- what is late ---------------------------------------------------------------------------------------------------


def test_an_event_at_the_bound_is_on_time_and_one_before_it_is_late() -> None:
    """The high water is 20 and the patience 5: complete before 15."""
    emitted = _outputs([_operator([5], Every.rows(1), Late.divert()).on_batch(0, _at(20, 15, 14))])
    assert _shown(emitted) == {
        "band 0": ["insert(('at 20',), 20, 21)", "punctuate(15)", "insert(('at 15',), 15, 16)"],
        "late": ["insert(('at 14', 15, 1), 14, 15)"],
    }


def test_a_row_without_a_time_belongs_to_its_batch_where_batches_are_instants() -> None:
    """It is moved to the bound of the batches before its own, wherever it stands; in the first there is none."""
    operator = _operator([5], Every.batch(), Late.adjust(), schema=_UNTIMED[True])
    first: list[Element] = [Insert(("a",), 20, 21), Insert(("b",), UNTIMED, UNTIMED + 1)]
    second: list[Element] = [Insert(("c",), 30, 31), Insert(("d",), UNTIMED, UNTIMED + 1)]
    emitted = _outputs(_fed(operator, [first, second]))
    assert _shown(emitted) == {
        "band 0": [
            *("insert(('a',), 20, 21)", "punctuate(15)"),
            *("insert(('c',), 30, 31)", "insert(('d',), 15, 16)", "punctuate(25)"),
        ]
    }
    assert (operator.late(), operator.snapshot().adjusted) == (1, 1)


def test_nothing_is_late_before_the_first_instant() -> None:
    """The third row makes it; what came before is checked by nothing."""
    emitted = _outputs([_operator([5, 9], Every.rows(3), Late.divert()).on_batch(0, _at(100, 3, 50, 94))])
    assert _shown(emitted) == {
        "band 0": [*(f"insert(('at {at}',), {at}, {at + 1})" for at in (100, 3, 50)), "punctuate(95)"],
        "band 1": ["punctuate(91)", "insert(('at 94',), 94, 95)"],
    }


def test_a_row_goes_to_the_least_patient_band_that_can_take_it() -> None:
    """Patience for a second, a minute and an hour, and an event that is later still."""
    operator = _operator([1, 60, 3_600], Every.rows(1), Late.divert())
    operator.on_batch(0, _at(10_000))
    emitted = _outputs([operator.on_batch(0, _at(9_999, 9_998, 9_940, 9_939, 6_400, 6_399))])
    starts = {name: [e.start for e in elements if isinstance(e, Insert)] for name, elements in emitted.items()}
    assert starts == {"band 0": [9_999], "band 1": [9_998, 9_940], "band 2": [9_939, 6_400], "late": [6_399]}


def test_late_rows_count_for_the_high_water_and_for_the_cadence() -> None:
    """The input had guaranteed 50; the second row of two is 30, late, and yet the newest so far."""
    operator = _operator([5, 40], Every.rows(2), Late.drop())
    rows: list[Element] = [Insert(("a",), 10, 11), Punctuate(50), Insert(("b",), 30, 31)]
    assert _shown(_outputs([operator.on_batch(0, _batch(rows))])) == {
        "band 0": ["insert(('a',), 10, 11)", "punctuate(50)"],
        "band 1": ["punctuate(50)"],
    }
    assert operator.snapshot() == PunctuateState(30, 30, 0, 50, late=1)


def test_what_the_input_guarantees_every_band_guarantees() -> None:
    """And a punctuation that says nothing new is not repeated."""
    operator = _operator([0, 10], Every.rows(1), Late.drop())
    rows: list[Element] = [Insert(("a",), 20, 21), Punctuate(15), Punctuate(15), Insert(("b",), 15, 16), Punctuate(30)]
    assert _shown(_outputs([operator.on_batch(0, _batch(rows))])) == {
        "band 0": ["insert(('a',), 20, 21)", "punctuate(20)", "punctuate(30)"],
        "band 1": ["punctuate(10)", "punctuate(15)", "insert(('b',), 15, 16)", "punctuate(30)"],
    }


def test_rows_of_one_batch_are_simultaneous_if_the_cadence_is_the_batch() -> None:
    """None is late against another of its batch; the guarantee moves after the last row, before what follows it."""
    operator = _operator([5], Every.batch(), Late.divert())
    first: list[Element] = [*elements_of(_at(100, 3)), Punctuate(96)]
    emitted = _outputs([operator.on_batch(0, _batch(first)), operator.on_batch(0, _at(95))])
    assert _shown(emitted) == {
        "band 0": ["insert(('at 100',), 100, 101)", "insert(('at 3',), 3, 4)", "punctuate(95)", "punctuate(96)"],
        "late": ["insert(('at 95', 96, 1), 95, 96)"],
    }


def test_the_time_cadence_is_a_grid_that_does_not_depend_on_the_first_row() -> None:
    """Tens are passed at 7 (the first row), 12 and 31, not at 19."""
    emitted = _outputs([_operator([0], Every.time(10), Late.drop()).on_batch(0, _at(7, 9, 12, 19, 31))])
    assert [str(e) for e in emitted["band 0"] if isinstance(e, Punctuate)] == [
        "punctuate(7)",
        "punctuate(12)",
        "punctuate(31)",
    ]


# ---- batches --------------------------------------------------------------------------------------------------------


def test_a_batch_without_elements_does_nothing() -> None:
    """Not even if the cadence is the batch."""
    operator = _operator([5], Every.batch(), Late.divert())
    assert operator.on_batch(0, _at()) is NOTHING
    assert operator.snapshot() == PunctuateState()


@pytest.mark.parametrize("every", [Every.rows(1), Every.time(1), Every.batch()], ids=str)
def test_a_batch_of_punctuations_only_is_passed_on_and_makes_no_instant(every: Every) -> None:
    """There is no row after which there could be one."""
    operator = _operator([5, 6], every, Late.divert())
    emitted = _outputs([operator.on_batch(0, _batch([Punctuate(3), Punctuate(4)]))])
    assert _shown(emitted) == {name: ["punctuate(3)", "punctuate(4)"] for name in ("band 0", "band 1")}
    assert operator.snapshot() == PunctuateState(complete_before=4)


def test_a_batch_passes_as_it_is_when_there_is_nothing_to_say() -> None:
    """No column is copied."""
    rows = _at(5, 3, 9)
    (passed,) = _operator([5], Every.rows(10), Late.divert()).on_batch(0, rows).batches
    assert passed is rows


def test_the_payload_is_not_copied_while_nothing_is_late() -> None:
    """Punctuations are put between the times only, ends included."""
    rows = _batch([Insert(("a",), 5, 9), Insert(("b",), 6, 7)], points=False)
    (passed,) = _operator([5], Every.rows(1), Late.divert(), schema=LASTING).on_batch(0, rows).batches
    assert passed.payload is rows.payload
    assert passed.ends().tolist() == [9, 0, 7, 1]


def test_a_stream_of_calendar_time_without_payload_can_be_split() -> None:
    """Rows of no columns are still rows; late ones get their two."""
    schema = EventSchema.of(pa.schema({"at": pa.timestamp("s", "UTC")}), time="at")
    rows = schema.read(pa.record_batch({"at": pa.array([90, 80, 20], schema.time.type)}), "test")
    emission = _operator([30_000_000], Every.rows(1), Late.divert(), schema=schema).on_batch(0, rows)
    assert emission.batches[0].rows == 2
    assert late_schema(schema).show(emission.side[0][1]).to_pylist() == [
        {
            "at": datetime(1970, 1, 1, 0, 0, 20, tzinfo=UTC),
            "late_bound": datetime(1970, 1, 1, 0, 1, 0, tzinfo=UTC),
            "late_by": timedelta(seconds=40),
        }
    ]


# ---- what becomes of late rows --------------------------------------------------------------------------------------


def test_adjusted_points_stay_points_and_go_to_the_last_band() -> None:
    """Their start is its bound."""
    operator = _operator([1, 5], Every.rows(1), Late.adjust())
    emitted = _outputs([operator.on_batch(0, _at(20, 3))])
    assert _shown(emitted)["band 1"] == ["punctuate(15)", "insert(('at 3',), 15, 16)"]
    assert (operator.late(), operator.snapshot().adjusted) == (0, 1)


def test_an_adjusted_event_that_had_ended_is_dropped_and_counted() -> None:
    """One that ends at the bound has no time left; one that ends after it keeps its end."""
    operator = _operator([5], Every.rows(1), Late.adjust(), schema=LASTING)
    rows = [Insert(("a",), 20, 30), Insert(("b",), 3, 15), Insert(("c",), 3, 16), Insert(("d",), 3, 3)]
    emitted = _outputs([operator.on_batch(0, _batch([*rows], points=False))])
    assert _shown(emitted) == {"band 0": ["insert(('a',), 20, 30)", "punctuate(15)", "insert(('c',), 15, 16)"]}
    assert (operator.late(), operator.snapshot().adjusted) == (2, 1)


def test_an_event_after_the_end_of_all_time_cannot_be_adjusted() -> None:
    """No event starts at FOREVER."""
    operator = _operator([5], Every.rows(9), Late.adjust())
    emitted = _outputs([operator.on_batch(0, _batch([Punctuate(FOREVER), Insert(("a",), 3, 4)]))])
    assert _shown(emitted) == {"band 0": ["punctuate(forever)"]}
    assert operator.late() == 1


def test_a_refused_event_is_named_with_its_time_and_the_bound() -> None:
    """As users see the row, with what to do."""
    with pytest.raises(LateEvent) as caught:
        _operator([5], Every.rows(1), Late.raise_error()).on_batch(0, _at(20, 14))
    assert str(caught.value) == (
        "step 'punctuate#1' got a late row: its time was complete already\n"
        "    event            {'at': 14, 'x': 'at 14'}\n"
        "    event time       14\n"
        "    complete before  15\n"
        "    hint: have more patience, or another policy for late events: "
        "Late.divert(), Late.drop() or Late.adjust()"
    )


def test_the_late_output_has_two_columns_more() -> None:
    """Instants as users see computed ones, and a length in the units of the stream."""
    dates = EventSchema.of(pa.schema({"day": pa.date32(), "x": pa.string()}), time="day")
    assert late_schema(dates).shown == pa.schema(
        {"day": pa.date32(), "x": pa.string(), "late_bound": pa.timestamp("us"), "late_by": pa.duration("us")}
    )
    assert late_schema(LASTING).columns == ("at", "to", "x", "late_bound", "late_by")
    assert late_schema(LASTING).payload.field("late_by").type == pa.int64()


@pytest.mark.parametrize("name", ["late_bound", "late_by"])
def test_a_column_that_is_called_like_one_of_them_is_refused(name: str) -> None:
    """Before anything runs, and only if rows are diverted."""
    schema = EventSchema.of(pa.schema({"at": pa.int64(), name: pa.int64()}), time="at")
    with pytest.raises(SchemaMismatch, match=name):
        _operator([5], Every.rows(1), Late.divert(), schema=schema)
    _operator([5], Every.rows(1), Late.drop(), schema=schema)


# ---- the ends of int64 ----------------------------------------------------------------------------------------------


def test_a_bound_below_int64_is_no_bound() -> None:
    """It stays at BEGINNING, and nothing is emitted."""
    operator = _operator([10], Every.rows(1), Late.divert())
    rows = _at(BEGINNING + 10, BEGINNING, BEGINNING + 11, BEGINNING)
    assert _shown(_outputs([operator.on_batch(0, rows)])) == {
        "band 0": [
            f"insert(('at {BEGINNING + 10}',), {BEGINNING + 10}, {BEGINNING + 11})",
            f"insert(('at {BEGINNING}',), {BEGINNING}, {BEGINNING + 1})",
            f"insert(('at {BEGINNING + 11}',), {BEGINNING + 11}, {BEGINNING + 12})",
            f"punctuate({BEGINNING + 1})",
        ],
        "late": [f"insert(('at {BEGINNING}', {BEGINNING + 1}, 1), {BEGINNING}, {BEGINNING + 1})"],
    }


def test_lateness_beyond_int64_is_emitted_as_much_as_int64_can() -> None:
    """From one end to the other."""
    emitted = _outputs([_operator([0], Every.rows(1), Late.divert()).on_batch(0, _at(FOREVER - 1, BEGINNING))])
    (row,) = emitted["late"]
    assert isinstance(row, Insert)
    assert row.payload == (f"at {BEGINNING}", FOREVER - 1, FOREVER)


def test_a_high_water_from_elsewhere_begins_a_count_of_rows() -> None:
    """The next punctuation comes with the third row after it, and not sooner."""
    node: Any = sw.stream([{"at": 1}], time="at").sort(patience=3, every=sw.Every.rows(3)).node
    operator = node.input.build("punctuate#1")
    schema = node.schema

    def punctuated(*times: int) -> list[int | None]:
        rows = schema.read(pa.record_batch({"at": list(times)}), "here")
        return [batch.last_punctuation() for batch in operator.on_batch(0, rows).batches]

    assert punctuated(5, 6) == [None]
    assert [batch.last_punctuation() for batch in operator.advance_high_water(10).batches] == [7]
    assert punctuated(20, 21) == [None]
    assert punctuated(22) == [19]
