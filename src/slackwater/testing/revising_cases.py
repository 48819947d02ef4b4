"""The torture cases of the steps that pass a revised stream on: what goes in comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from slackwater.events.elements import Insert, batch_of
from slackwater.operators.assume_keyed import AssumeKeyedOperator
from slackwater.operators.promise_at_end import PromiseAtEndOperator
from slackwater.progress.instants import BEGINNING, FOREVER, format_instant
from slackwater.temporal.table import temporal_table_of
from slackwater.testing.merging_cases import keyed_tables
from slackwater.testing.presentations import Presentation, present
from slackwater.testing.torture import TortureCase

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from slackwater.progress.instants import Instant
    from slackwater.testing.torture import Streams

_REVISED = Presentation(disorder=5, early_values=0.5, removed_extras=0.3, punctuations=0.3)


@st.composite
def _revised_streams(draw: st.DrawFn, payload: pa.Schema) -> Streams:
    told = present(draw(keyed_tables()), draw(st.integers(0, 10**6)), _REVISED)
    return (batch_of(told, payload),)


def revising_cases(payload: pa.Schema) -> Iterator[TortureCase]:
    """One case for each step."""
    yield TortureCase(
        "assume_keyed",
        AssumeKeyedOperator,
        lambda state: AssumeKeyedOperator(batch_of([], payload).payload, resume=state),
        _revised_streams(payload),
        lambda told: [Insert(event.payload, event.start, event.end) for event in temporal_table_of([told[0]])],
        ordered=False,
    )
    for ordered in (False, True):
        yield _inserts_with_a_key(payload, ordered=ordered)
    for at_end in (BEGINNING, 7, FOREVER):
        yield _promise_at_end(payload, at_end)


def _inserts_with_a_key(payload: pa.Schema, *, ordered: bool) -> TortureCase:
    @st.composite
    def streams(draw: st.DrawFn) -> Streams:
        told = present(
            draw(keyed_tables()), draw(st.integers(0, 10**6)), Presentation(5 * (not ordered), punctuations=0.3)
        )
        return (batch_of(told, payload),)

    return TortureCase(
        f"assume_keyed of {'ordered' if ordered else 'disordered'} events that are not revised",
        AssumeKeyedOperator,
        lambda state: AssumeKeyedOperator(batch_of([], payload).payload, resume=state, final=True, ordered=ordered),
        streams(),
        lambda told: [Insert(event.payload, event.start, event.end) for event in temporal_table_of([told[0]])],
        ordered=ordered,
    )


def _promise_at_end(payload: pa.Schema, at_end: Instant) -> TortureCase:
    return TortureCase(
        f"promise_at_end {format_instant(at_end, calendar=False)}",
        PromiseAtEndOperator,
        lambda state: PromiseAtEndOperator(batch_of([], payload).payload, at_end, state),
        _revised_streams(payload),
        lambda told: [Insert(event.payload, event.start, event.end) for event in temporal_table_of([told[0]])],
        ordered=False,
    )
