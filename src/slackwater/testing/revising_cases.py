"""The torture cases of the steps that pass a revised stream on: what goes in comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import strategies as st

from slackwater.events.elements import Adjust, Insert, Punctuate, batch_of, elements_of
from slackwater.events.schema import EventSchema, TimeColumn
from slackwater.operators.assume_keyed import AssumeKeyedOperator
from slackwater.operators.complete_at_end import CompleteAtEndOperator
from slackwater.operators.late_changes import LateChangesOperator
from slackwater.operators.net_changes import NetChangesOperator
from slackwater.policies.late import Late
from slackwater.progress.instants import BEGINNING, FOREVER, format_instant
from slackwater.temporal.table import temporal_table_of
from slackwater.testing.merging_cases import keyed_tables
from slackwater.testing.oracles.late_changes import late_changes
from slackwater.testing.presentations import Presentation, present
from slackwater.testing.torture import TortureCase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slackwater.events.elements import Element
    from slackwater.progress.instants import Instant
    from slackwater.testing.torture import Streams

_REVISED = Presentation(disorder=5, early_values=0.5, removed_extras=0.3, punctuations=0.3)


@st.composite
def _revised_streams(draw: st.DrawFn, payload: pa.Schema) -> Streams:
    elements = present(draw(keyed_tables()), draw(st.integers(0, 10**6)), _REVISED)
    return (batch_of(elements, payload),)


@st.composite
def dishonest_logs(draw: st.DrawFn, payload: pa.Schema) -> list[Element]:
    """Inserts, adjusts and removals of events that are there, some twice, and punctuations that go too far."""
    rows = ["a", None][: draw(st.integers(1, 2))]
    events: list[tuple[Any, int, int]] = []
    log: list[Element] = []
    punctuated = BEGINNING
    for _ in range(draw(st.integers(0, 14))):
        match draw(st.integers(0, 3)):
            case 0 | 1:
                start = draw(st.integers(0, 5))
                row = (draw(st.sampled_from(rows)), *[1] * (len(payload) - 1))
                end = draw(st.sampled_from([start + 1, start + 3, start + 6, FOREVER]))
                events.append((row, start, end))
                log.append(Insert(row, start, end))
            case 3:
                punctuated = max(punctuated, draw(st.integers(0, 9)))
                log.append(Punctuate(punctuated))
            case _ if events:
                row, start, prior = events.pop(draw(st.integers(0, len(events) - 1)))
                end = draw(st.sampled_from([start, start + 2, start + 5, start + 8, FOREVER]))
                log.append(Adjust(row, start, prior, end))
                if end != start:
                    events.append((row, start, end))
    return log


def _in_time(log: list[Element]) -> list[Insert]:
    """What the changes that are not late come to."""
    kept = [element for element, late in zip(log, late_changes(log), strict=True) if not late]
    return [Insert(event.payload, event.start, event.end) for event in temporal_table_of(kept)]


def revising_cases(payload: pa.Schema) -> Iterator[TortureCase]:
    """One case for each step."""
    until = TimeColumn("until", pa.int64())
    schema = EventSchema(payload, TimeColumn("at", pa.int64()), until, ("at", "until", *payload.names))
    yield TortureCase(
        "assume_keyed",
        AssumeKeyedOperator,
        lambda state: AssumeKeyedOperator(batch_of([], payload).payload, resume=state),
        _revised_streams(payload),
        lambda streams: [Insert(event.payload, event.start, event.end) for event in temporal_table_of([streams[0]])],
        ordered=False,
    )
    for ordered in (False, True):
        yield _inserts_with_a_key(payload, ordered=ordered)
    yield TortureCase(
        "late changes",
        LateChangesOperator,
        lambda state: LateChangesOperator(schema, Late.drop(), resume=state),
        dishonest_logs(payload).map(lambda log: (batch_of(log, payload),)),
        lambda streams: _in_time(list(elements_of(streams[0]))),
        ordered=False,
    )
    yield TortureCase(
        "net changes",
        NetChangesOperator,
        lambda state: NetChangesOperator(schema, resume=state),
        _revised_streams(payload),
        lambda streams: [Insert(event.payload, event.start, event.end) for event in temporal_table_of([streams[0]])],
        ordered=False,
    )
    for at_end in (BEGINNING, 7, FOREVER):
        yield _complete_at_end(payload, at_end)


def _inserts_with_a_key(payload: pa.Schema, *, ordered: bool) -> TortureCase:
    @st.composite
    def streams(draw: st.DrawFn) -> Streams:
        elements = present(
            draw(keyed_tables()), draw(st.integers(0, 10**6)), Presentation(5 * (not ordered), punctuations=0.3)
        )
        return (batch_of(elements, payload),)

    return TortureCase(
        f"assume_keyed of {'ordered' if ordered else 'disordered'} events that are not revised",
        AssumeKeyedOperator,
        lambda state: AssumeKeyedOperator(batch_of([], payload).payload, resume=state, final=True, ordered=ordered),
        streams(),
        lambda streams: [Insert(event.payload, event.start, event.end) for event in temporal_table_of([streams[0]])],
        ordered=ordered,
    )


def _complete_at_end(payload: pa.Schema, at_end: Instant) -> TortureCase:
    return TortureCase(
        f"complete_at_end {format_instant(at_end, calendar=False)}",
        CompleteAtEndOperator,
        lambda state: CompleteAtEndOperator(batch_of([], payload).payload, at_end, state),
        _revised_streams(payload),
        lambda streams: [Insert(event.payload, event.start, event.end) for event in temporal_table_of([streams[0]])],
        ordered=False,
    )
