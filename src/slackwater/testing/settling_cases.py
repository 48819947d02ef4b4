"""The torture cases of what stands around merges: settling one stream, merging apart, comparing replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import strategies as st

from slackwater.events.elements import Insert, batch_of
from slackwater.events.schema import EventSchema, TimeColumn
from slackwater.operators.replicas.compare import CompareReplicasOperator
from slackwater.operators.replicas.settle import SettleOperator
from slackwater.progress.instants import FOREVER
from slackwater.temporal.table import TemporalEvent, TemporalTable, temporal_table_of
from slackwater.testing.merging_cases import keyed_tables, replicas_of_one_table
from slackwater.testing.oracles.settling import ComparedReplica, contradictions
from slackwater.testing.presentations import Presentation, present
from slackwater.testing.reference.naive_merge import MergeRevisedApart
from slackwater.testing.torture import TortureCase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slackwater.events.elements import Element
    from slackwater.testing.torture import Streams

_REVISED = Presentation(disorder=5, early_values=0.5, removed_extras=0.3, punctuations=0.3)


@st.composite
def any_tables(draw: st.DrawFn, most: int = 14) -> TemporalTable:
    """Complete tables in which events may be equal, differ in their ends alone, last for no time, or for ever."""
    events = []
    for start in draw(st.lists(st.integers(0, 12), max_size=most)):
        end = draw(st.one_of(st.integers(start, start + 9), st.just(FOREVER)))
        events.append(TemporalEvent((draw(st.sampled_from("ab")), draw(st.integers(1, 2))), start, end))
    return TemporalTable(events, FOREVER)


@st.composite
def _one_stream(draw: st.DrawFn, payload: pa.Schema) -> Streams:
    elements = present(draw(any_tables()), draw(st.integers(0, 10**6)), _REVISED)
    return (batch_of(elements, payload),)


@st.composite
def diverging_replicas(draw: st.DrawFn, replicas: int = 3) -> list[list[Element]]:
    """Replicas of almost one table: some lack events, have them twice, or with other ends, and some are cut off."""
    table, seed = draw(any_tables(most=8)), draw(st.integers(0, 10**6))
    sent = []
    for port in range(replicas):
        events = []
        for event in table:
            times = draw(st.sampled_from([1, 1, 1, 1, 0, 2]))
            end = draw(st.sampled_from([event.end] * 4 + [event.start + 3]))
            events += [TemporalEvent(event.payload, event.start, end)] * times
        elements = present(TemporalTable(events, FOREVER), seed + port, _REVISED)
        sent.append(elements[: draw(st.integers(0, len(elements)))] if draw(st.booleans()) else elements)
    return sent


def settling_cases(payload: pa.Schema) -> Iterator[TortureCase]:
    """One case for each operator."""
    no_rows = batch_of([], payload).payload
    yield TortureCase(
        "settle a revised stream",
        SettleOperator,
        lambda state: SettleOperator(no_rows, resume=state),
        _one_stream(payload),
        _events_of_the_first,
    )
    yield TortureCase(
        "merge revised replicas apart",
        MergeRevisedApart,
        lambda state: MergeRevisedApart(3, no_rows, resume=state),
        replicas_of_one_table(payload, _REVISED, keyed_tables()),
        _events_of_the_first,
        ordered=False,
    )
    schema = EventSchema(
        payload, TimeColumn("at", pa.int64()), TimeColumn("until", pa.int64()), ("at", "until", *payload.names)
    )
    yield TortureCase(
        "compare replicas",
        CompareReplicasOperator,
        lambda state: CompareReplicasOperator(3, schema, resume=state),
        diverging_replicas().map(lambda sent: tuple(batch_of(elements, payload) for elements in sent)),
        _contradictions,
        ordered=False,
    )


def _contradictions(streams: Streams) -> list[Insert]:
    tables = [temporal_table_of([stream]) for stream in streams]
    replicas = [ComparedReplica(table, ended=True) for table in tables]
    return list(contradictions(replicas, max(table.complete_before for table in tables)))


def _events_of_the_first(streams: Streams) -> list[Insert]:
    return [Insert(event.payload, event.start, event.end) for event in temporal_table_of([streams[0]])]
