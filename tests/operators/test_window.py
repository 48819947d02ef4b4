"""The window operator: rows per window, punctuations in their places, and times that do not fit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BadTime, SchemaMismatch
from slackwater.events.batch import EventBatch
from slackwater.events.elements import Element, Insert, Punctuate, batch_of, elements_of
from slackwater.events.schema import EventSchema
from slackwater.operators.window import WindowOperator, windowed_schema
from slackwater.policies.windows import Hopping, Sliding, Tumbling, Window
from slackwater.progress.instants import BEGINNING, FOREVER, UNTIMED
from slackwater.testing.oracles.windows import window_oracle
from slackwater.testing.strategies import KEYED, batch_cuts, disordered_batches, ordered_batches

SCHEMA = EventSchema.of(pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64()}), time="at")
"""Point events with a key and a number."""

NAMES = EventSchema.of(pa.schema({"at": pa.int64(), "x": pa.string()}), time="at")
"""Point events with a name."""

WINDOWS: list[Window] = [Tumbling(5, 2), Hopping(6, 2), Hopping(6, 4, 1), Hopping(2, 5), Sliding(3)]


def _run(window: Window, batches: list[EventBatch], schema: EventSchema, *, ordered: bool) -> list[Element]:
    """Feed batches, resuming a new operator from a snapshot before each."""
    emitted: list[Element] = []
    resume = None
    for batch in batches:
        operator = WindowOperator(window, schema, ordered, resume=resume)
        for out in operator.on_batch(0, batch).batches:
            out.check()
            assert out.payload.schema == windowed_schema(schema).payload
            emitted += elements_of(out)
        operator.check()
        resume = operator.snapshot()
    assert not operator.on_end(0).batches
    assert operator.buffered() == 0
    return emitted


def _named(*elements: Element) -> EventBatch:
    return batch_of(elements, NAMES.payload)


def _event(name: str, at: int) -> Insert:
    return Insert((name,), at, at + 1)


def _inserts(elements: list[Element]) -> list[Insert]:
    return [element for element in elements if isinstance(element, Insert)]


def test_tumbling_keeps_the_former_time_as_payload() -> None:
    """One row per event, with its window in front of everything it had."""
    emitted = _run(Tumbling(10), [_named(_event("a", 3), Punctuate(14), _event("b", 15))], NAMES, ordered=True)
    assert emitted == [Insert((3, "a"), 0, 10), Punctuate(10), Insert((15, "b"), 10, 20)]


def test_hopping_gives_one_row_per_window_and_says_how_far_it_is() -> None:
    """An event at 7 guarantees windows from 0 on; one at 12 guarantees windows from 5 on."""
    emitted = _run(Hopping(10, 5), [_named(_event("a", 7)), _named(_event("b", 12))], NAMES, ordered=True)
    assert emitted == [
        Insert((7, "a"), 0, 10),
        Insert((7, "a"), 5, 15),
        Punctuate(0),
        Insert((12, "b"), 5, 15),
        Insert((12, "b"), 10, 20),
        Punctuate(5),
    ]


def test_hopping_over_disorder_adds_no_guarantee() -> None:
    """Only the input's own punctuations are translated."""
    emitted = _run(Hopping(10, 5), [_named(_event("b", 12), _event("a", 7), Punctuate(7))], NAMES, ordered=False)
    assert [element for element in emitted if isinstance(element, Punctuate)] == [Punctuate(0)]


def test_an_event_in_a_gap_comes_out_in_no_window() -> None:
    """Its time is still progress: the next window that can get an event starts at 5."""
    assert _run(Hopping(2, 5), [_named(_event("a", 3))], NAMES, ordered=True) == [Punctuate(5)]


def test_sliding_lets_each_event_live_from_its_own_time() -> None:
    """Punctuations pass unchanged."""
    emitted = _run(Sliding(4), [_named(_event("a", 3), Punctuate(4), _event("b", 4))], NAMES, ordered=True)
    assert emitted == [Insert((3, "a"), 3, 7), Punctuate(4), Insert((4, "b"), 4, 8)]


def test_a_punctuation_behind_the_events_does_not_take_a_guarantee_back() -> None:
    """On an ordered stream the event at 20 had shown more than the punctuation 8 after it."""
    emitted = _run(Hopping(10, 5), [_named(_event("a", 20)), _named(Punctuate(8))], NAMES, ordered=True)
    assert [element for element in emitted if isinstance(element, Punctuate)] == [Punctuate(15), Punctuate(15)]


def test_calendar_windows_are_shown_in_the_time_zone_of_the_time_column() -> None:
    """Dates and seconds become microseconds, fine enough for every window."""
    schema = EventSchema.of(pa.schema({"at": pa.timestamp("s", "UTC"), "x": pa.string()}), time="at")
    batch = schema.read(pa.record_batch({"at": pa.array([90], schema.time.type), "x": ["a"]}), "test")
    out = WindowOperator(Tumbling(60_000_000), schema, ordered=True).on_batch(0, batch).batches[0]
    assert windowed_schema(schema).show(out).to_pylist() == [
        {
            "window_start": datetime(1970, 1, 1, 0, 1, tzinfo=UTC),
            "window_end": datetime(1970, 1, 1, 0, 2, tzinfo=UTC),
            "at": datetime(1970, 1, 1, 0, 1, 30, tzinfo=UTC),
            "x": "a",
        }
    ]


def test_a_second_window_keeps_the_columns_of_the_first() -> None:
    """Under other names, so that minutes can be rolled up to hours; a third has no name left for them."""
    twice = windowed_schema(windowed_schema(NAMES))
    assert twice.columns[:4] == ("window_start", "window_end", "window_start_before", "window_end_before")
    with pytest.raises(SchemaMismatch, match="window_start_before"):
        windowed_schema(twice)


def test_nothing_in_gives_nothing_out() -> None:
    """Empty batches are no news."""
    for window in WINDOWS:
        empty = EventBatch.inserts(NAMES.no_rows, start=[])
        assert WindowOperator(window, NAMES, ordered=True).on_batch(0, empty).batches == ()


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("instant", [BEGINNING, FOREVER])
def test_punctuations_at_the_ends_of_time_do_not_overflow(window: Window, instant: int) -> None:
    """FOREVER stays FOREVER; BEGINNING guarantees nothing that matters."""
    (emitted,) = _run(window, [_named(Punctuate(instant))], NAMES, ordered=True)
    assert isinstance(emitted, Punctuate)
    assert emitted.complete_before == FOREVER if instant == FOREVER else emitted.complete_before < BEGINNING + 100


@pytest.mark.parametrize(
    ("window", "at"),
    [
        (Tumbling(10), BEGINNING + 3),
        (Hopping(10, 5), BEGINNING + 3),
        (Hopping(FOREVER, 1 << 62), BEGINNING + 3),
        (Tumbling((1 << 62) + 1), BEGINNING + 3),
    ],
    ids=str,
)
def test_a_window_that_starts_before_all_times_is_an_error_that_names_the_element(window: Window, at: int) -> None:
    """The event, the window and the step are named."""
    batch = _named(Punctuate(BEGINNING), _event("fine", 0), _event("edge", at))
    with pytest.raises(BadTime, match=r"(?s)step 'window'.*edge.*size="):
        WindowOperator(window, NAMES, ordered=False).on_batch(0, batch)


def test_an_event_in_a_gap_is_in_no_window_even_at_the_beginning_of_time() -> None:
    """Nothing of it would start before all times: it is left out as in any other gap, and its neighbour is not."""
    window = Hopping(size=5, hop=10)
    assert BEGINNING % 10 == 2
    batch = _named(_event("gap", BEGINNING + 3), _event("next", BEGINNING + 8))
    operator = WindowOperator(window, NAMES, ordered=False)
    (windowed,) = operator.on_batch(0, batch).batches
    assert windowed.start.tolist() == [BEGINNING + 8]
    with pytest.raises(BadTime, match=r"(?s)step 'window'.*edge"):
        operator.on_batch(0, _named(_event("edge", BEGINNING + 2)))


@given(st.integers(1, FOREVER), st.integers(1, 4), st.integers(BEGINNING, FOREVER - 1))
def test_windows_are_held_at_the_end_of_int64_and_refused_before_its_beginning(size: int, parts: int, at: int) -> None:
    """Starts and ends are those of whole numbers of any size; an end past int64 is FOREVER."""
    hop = -(-size // parts)
    hops = [start for i in range(parts) if (start := (at // hop - parts + 1 + i) * hop) > at - size]
    starts: dict[Window, list[int]] = {
        Tumbling(size): [at // size * size],
        Sliding(size): [at],
        Hopping(size, hop): hops,
    }
    batch = EventBatch.inserts(pa.record_batch({"x": ["a"]}), start=[at])
    for window, expected in starts.items():
        operator = WindowOperator(window, NAMES, ordered=True)
        if expected[0] < BEGINNING:
            with pytest.raises(BadTime):
                operator.on_batch(0, batch)
        else:
            out = operator.on_batch(0, batch).batches[0]
            assert out.start.tolist() == expected
            assert out.ends().tolist() == [min(start + size, FOREVER) for start in expected]


@given(st.data(), st.sampled_from(WINDOWS))
def test_disordered_streams_equal_the_oracle_element_by_element(data: st.DataObject, window: Window) -> None:
    """However they are cut and restored."""
    batch = data.draw(disordered_batches(KEYED))
    emitted = _run(window, data.draw(batch_cuts(batch)), SCHEMA, ordered=False)
    expected = window_oracle(elements_of(batch), window)
    assert [_without_time(element) for element in emitted] == expected


@given(st.data(), st.sampled_from(WINDOWS))
def test_ordered_streams_equal_the_oracle_and_keep_every_guarantee(data: st.DataObject, window: Window) -> None:
    """The rows are those of the oracle; punctuations never go back, and no row contradicts one."""
    batch = data.draw(ordered_batches(KEYED))
    emitted = _run(window, data.draw(batch_cuts(batch)), SCHEMA, ordered=True)
    rows = [_without_time(element) for element in _inserts(emitted)]
    assert rows == _inserts(window_oracle(elements_of(batch), window))
    guaranteed = BEGINNING
    for element in emitted if isinstance(window, Hopping) else ():
        if isinstance(element, Punctuate):
            assert element.complete_before >= guaranteed
            guaranteed = element.complete_before
        else:
            assert element.start >= guaranteed


@given(st.data(), st.sampled_from([Tumbling(5, 2), Sliding(3)]))
def test_tumbling_and_sliding_keep_the_order(data: st.DataObject, window: Window) -> None:
    """An ordered input needs no punctuations to stay ordered."""
    batch = data.draw(ordered_batches(KEYED, punctuated=False))
    starts = [element.start for element in _inserts(_run(window, [batch], SCHEMA, ordered=True))]
    assert starts == sorted(starts)


def _without_time(element: Element) -> Element:
    if isinstance(element, Insert):
        assert isinstance(element.payload, tuple)
        return Insert(element.payload[1:], element.start, element.end)
    return element


def test_intervals_are_replaced_and_kept_as_columns() -> None:
    """Only the start decides about the window; the former end stays as payload."""
    schema = EventSchema.of(pa.schema({"a": pa.int64(), "b": pa.int64(), "x": pa.string()}), time="a", until="b")
    batch = EventBatch.inserts(pa.record_batch({"x": ["p", "q"]}), start=[3, 4], end=[FOREVER, 30])
    (out,) = WindowOperator(Tumbling(10), schema, ordered=True).on_batch(0, batch).batches
    assert windowed_schema(schema).show(out).to_pydict() == {
        "window_start": [0, 0],
        "window_end": [10, 10],
        "a": [3, 4],
        "b": [None, 30],
        "x": ["p", "q"],
    }
    assert np.array_equal(batch.ends(), [FOREVER, 30])


# ---- rows without a time --------------------------------------------------------------------------------------------


def _windowed(window: Window, schema: EventSchema, starts: list[int | None]) -> list[dict[str, Any]]:
    """The rows of windows as users see them; each row is named by its place."""
    rows = pa.record_batch({"at": pa.array(starts, pa.int64()), "x": [f"row {place}" for place in range(len(starts))]})
    shown = []
    for batch in WindowOperator(window, schema, ordered=False).on_batch(0, schema.read(rows, "test")).batches:
        batch.check()
        shown += windowed_schema(schema).show(batch).to_pylist()
    return shown


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@given(starts=st.lists(st.one_of(st.none(), st.integers(-20, 40)), max_size=20))
def test_a_row_without_a_time_is_in_no_window_and_stays_one_row(window: Window, starts: list[int | None]) -> None:
    """It has neither start nor end; all other rows are what they would be if it had a time."""
    timed = _windowed(window, NAMES, [0 if start is None else start for start in starts])
    expected: list[dict[str, Any]] = []
    for place, start in enumerate(starts):
        if start is None:
            expected.append({"window_start": None, "window_end": None, "at": None, "x": f"row {place}"})
        else:
            expected += [row for row in timed if row["x"] == f"row {place}"]
    assert _windowed(window, NAMES.with_untimed_rows(), starts) == expected


@pytest.mark.parametrize("window", [Tumbling(8), Hopping(8, 4)], ids=str)
def test_no_window_starts_at_the_number_of_no_time(window: Window) -> None:
    """Its rows would be taken for rows without a time; where there are none, it is a start like any other."""
    assert BEGINNING % 8 == 0
    starts: list[int | None] = [BEGINNING + 7]
    with pytest.raises(BadTime, match=r"(?s)range of int64.*window"):
        _windowed(window, NAMES.with_untimed_rows(), starts)
    if isinstance(window, Tumbling):
        assert _windowed(window, NAMES, starts)[0]["window_start"] == UNTIMED
