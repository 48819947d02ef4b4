"""Hypothesis strategies for streams: batches, cuts, temporal tables, element streams and their presentations.

Times are drawn from a small range, so that ties, touching intervals and punctuations exactly on an event are
frequent: that is where stream code breaks. Every punctuation drawn here is true.

>>> from hypothesis import given
>>> @given(ordered_batches())
... def test_something(batch): ...
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from slackwater.events.batch import EventBatch
from slackwater.events.elements import Adjust, Insert, Punctuate
from slackwater.events.kinds import Kind
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.temporal.freeze import Freeze, freeze_of
from slackwater.temporal.table import TableBuilder, TemporalEvent, TemporalTable
from slackwater.testing.presentations import Presentation

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

    from slackwater.events.elements import Element
    from slackwater.progress.instants import Instant

LATEST: Instant = 40
"""Starts are drawn from 0 to this; small, so that they coincide."""

LONGEST = 12
"""The greatest length of a drawn interval that ends."""

KEYED = pa.schema({"k": pa.string(), "v": pa.int64()})
"""The usual payload: a nullable key of few values, and a number."""

MEASURED = pa.schema({"k": pa.string(), "v": pa.int64(), "x": pa.float64()})
"""The usual payload with a float column that has nulls."""

_PAYLOADS: SearchStrategy[str] = st.sampled_from("ABC")

# Few values, and floats whose sums are exact in any order.
_VALUES: dict[pa.DataType, SearchStrategy[Any]] = {
    pa.string(): st.sampled_from(["a", "b", "c", None]),
    pa.int64(): st.integers(-3, 5),
    pa.float64(): st.sampled_from([0.0, 0.5, -1.5, 2.25, None]),
    pa.bool_(): st.booleans(),
}


def instants() -> SearchStrategy[Instant]:
    """Instants from 0 to LATEST."""
    return st.integers(0, LATEST)


@st.composite
def intervals(draw: DrawFn) -> tuple[Instant, Instant]:
    """Half-open intervals that last for at least one unit; now and then they are still open."""
    start = draw(instants())
    return start, draw(_ends_after(start))


def payload_schemas() -> SearchStrategy[pa.Schema]:
    """The two usual payload schemas."""
    return st.sampled_from([KEYED, MEASURED])


def ordered_batches(
    schema: pa.Schema | None = None,
    intervals: bool = False,
    max_rows: int = 30,
    *,
    punctuated: bool = True,
) -> SearchStrategy[EventBatch]:
    """Batches of inserts with non-decreasing starts, many ties, and punctuations between them.

    Without a schema the payload is one of `payload_schemas`. With `intervals` events last for 1 to LONGEST units
    or have no end yet, otherwise they are points. Columns that the batch does not need are absent, as operators may
    get them.
    """
    return _insert_batches(schema, intervals, max_rows, punctuated, ordered=True)


def disordered_batches(
    schema: pa.Schema | None = None,
    intervals: bool = False,
    max_rows: int = 30,
    *,
    punctuated: bool = True,
) -> SearchStrategy[EventBatch]:
    """Like `ordered_batches`, with starts in any order that the punctuations allow."""
    return _insert_batches(schema, intervals, max_rows, punctuated, ordered=False)


@st.composite
def batch_cuts(draw: DrawFn, batch: EventBatch) -> list[EventBatch]:
    """The batch cut into consecutive slices, some of them empty; concatenated they are the batch again."""
    places = sorted(draw(st.lists(st.integers(0, len(batch)), max_size=8)))
    return [batch.slice(first, stop) for first, stop in pairwise([0, *places, len(batch)])]


def temporal_events() -> SearchStrategy[TemporalEvent]:
    """Events with one of three payloads, each a row of one string column; some are still open."""
    return st.builds(lambda payload, lasting: TemporalEvent((payload,), *lasting), _PAYLOADS, intervals())


def temporal_tables(max_events: int = 12) -> SearchStrategy[TemporalTable]:
    """Tables in which events may occur several times (case R4), complete before any instant or none."""
    return st.builds(TemporalTable, st.lists(temporal_events(), max_size=max_events), _punctuations())


def keyed_tables(max_events: int = 12) -> SearchStrategy[TemporalTable]:
    """Tables in which payload and start are a key (case R3), complete before any instant or none."""
    events = st.lists(temporal_events(), max_size=max_events, unique_by=lambda event: event.key)
    return st.builds(TemporalTable, events, _punctuations())


def presentations() -> SearchStrategy[Presentation]:
    """Ways to present a table completely: disorder, revisions, extras and punctuations, but no gap and no repeats."""
    fractions = st.sampled_from([0.0, 0.3, 1.0])
    return st.builds(
        Presentation,
        disorder=st.sampled_from([0, 3, 50]),
        shuffle_ties=st.booleans(),
        early_values=fractions,
        revision_delay=st.sampled_from([0, 5, 50]),
        removed_extras=fractions,
        punctuations=fractions,
    )


@st.composite
def element_streams(draw: DrawFn, max_elements: int = 20) -> list[Element]:
    """Valid streams of inserts, adjusts, removals and punctuations, drawn one legal element after the other."""
    builder = TableBuilder()
    stream: list[Element] = []
    for _ in range(draw(st.integers(0, max_elements))):
        element = draw(_next_elements(builder.table()))
        builder.add(element)
        stream.append(element)
    return stream


@st.composite
def _next_elements(draw: DrawFn, table: TemporalTable) -> Element:
    """An element that may follow a stream of this table."""
    closed = table.complete_before
    revisable = [event for event in table if freeze_of(event, closed) is not Freeze.FULLY_FROZEN]
    match draw(st.sampled_from(["insert", "adjust", "adjust", "punctuate"] if revisable else ["insert", "punctuate"])):
        case "insert":
            start = draw(st.integers(max(0, closed), max(LATEST, closed)))
            return Insert((draw(_PAYLOADS),), start, draw(_ends_after(start)))
        case "adjust":
            event = draw(st.sampled_from(revisable))
            earliest = max(event.start, closed)
            end = draw(st.one_of(st.integers(earliest, earliest + LONGEST), st.just(FOREVER)))
            return Adjust(event.payload, event.start, event.end, end)
        case _:
            return Punctuate(draw(st.integers(max(0, closed), max(0, closed) + 5)))


def _punctuations() -> SearchStrategy[Instant]:
    return st.one_of(st.just(BEGINNING), st.integers(0, LATEST + LONGEST), st.just(FOREVER))


@st.composite
def _insert_batches(
    draw: DrawFn,
    schema: pa.Schema | None,
    intervals: bool,
    max_rows: int,
    punctuated: bool,
    *,
    ordered: bool,
) -> EventBatch:
    payload_schema = draw(payload_schemas()) if schema is None else schema
    starts = draw(st.lists(instants(), max_size=max_rows))
    if ordered:
        starts.sort()
    rows = len(starts)
    columns = [
        pa.array(draw(st.lists(_VALUES[field.type], min_size=rows, max_size=rows)), field.type)
        for field in payload_schema
    ]
    if columns:
        payload = pa.RecordBatch.from_arrays(columns, schema=payload_schema)
    else:
        payload = pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    ends = [draw(_ends_after(start)) for start in starts] if intervals else None
    wished = draw(_wished_punctuations(rows)) if punctuated else {}
    if not wished:
        return EventBatch.inserts(payload, starts, ends)
    return _with_punctuations(payload, starts, ends, wished)


@st.composite
def _wished_punctuations(draw: DrawFn, rows: int) -> dict[int, list[Instant]]:
    """For some places between rows, the punctuations to put there; what would not be true is lowered later."""
    places = draw(st.lists(st.tuples(st.integers(0, rows), st.integers(0, LATEST + LONGEST)), max_size=rows + 2))
    wished: dict[int, list[Instant]] = {}
    for place, instant in places:
        wished.setdefault(place, []).append(instant)
    return wished


def _with_punctuations(
    payload: pa.RecordBatch,
    starts: list[Instant],
    ends: list[Instant] | None,
    wished: dict[int, list[Instant]],
) -> EventBatch:
    kind: list[Kind] = []
    start: list[Instant] = []
    end: list[Instant] = []
    punctuated = BEGINNING
    for place in range(len(starts) + 1):
        least_to_come = min(starts[place:], default=FOREVER)
        for instant in wished.get(place, ()):
            punctuated = max(punctuated, min(instant, least_to_come))
            kind.append(Kind.PUNCTUATE)
            start.append(punctuated)
            end.append(punctuated)
        if place < len(starts):
            kind.append(Kind.INSERT)
            start.append(starts[place])
            end.append(starts[place] + 1 if ends is None else ends[place])
    return EventBatch(
        payload,
        np.array(start, dtype=np.int64),
        None if ends is None else np.array(end, dtype=np.int64),
        np.array(kind, dtype=np.int8),
    )


def _ends_after(start: Instant) -> SearchStrategy[Instant]:
    return st.one_of(st.integers(start + 1, start + LONGEST), st.just(FOREVER))
