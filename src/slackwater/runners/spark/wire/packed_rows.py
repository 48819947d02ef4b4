"""Packed rows: what Spark moves from the tasks that read rows to the shards, as it moves a number.

A packed row is a chunk of events for one shard, of groups of events that were summed up, or what a task sends every
shard of all its rows: how many, and their greatest time. So all shards know the same of a micro-batch, whichever rows
they have, and need not ask each other. Where a column distinguishes replicas, the least and the greatest time of each
of them are sent, too; where bounds are given, how many rows of each source arrived when, and the newest of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from slackwater.events.batch import EventBatch
from slackwater.events.gather import no_columns
from slackwater.operators.replicas.replica_names import ReplicaName, Span
from slackwater.progress.instants import BEGINNING, FOREVER, Instant
from slackwater.runners.spark.wire.arrow_bytes import from_buffer, to_buffer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import NDArray

PACKED: Final = pa.schema({
    "shard": pa.int64(), "pipeline": pa.int32(), "task": pa.int64(), "number": pa.int64(),
    "rows": pa.int64(), "high_water": pa.int64(), "body": pa.binary(),
    "since": pa.int64(),
})  # fmt: skip
"""What a packed row is, in Arrow. Spark takes what Python gives without a cast, so that types must be these."""

PACKED_SPARK: Final = (
    "shard long, pipeline int, task long, number long, rows long, high_water long, body binary, since long"
)
"""The same in Spark's words."""

NOW: Final = "now"
"""The column that Spark adds to packed rows: the timestamp of their micro-batch, where arrivals go by the clock."""

_OTHER_TIMES: Final = 3
"""Columns that an event may have beside its start: its end, and what it is and its end before, if it is a change."""

STATISTICS: Final = -1
"""The number of a packed row that is no chunk."""

FLUSH: Final = -2
"""The number of a packed row that asks a shard to give out all that it holds: nothing will come any more."""

CONTROL: Final = -4
"""The number of a packed row with the text of a control record."""

ARRIVED: Final = -3
"""The number of a packed row with the statistics of a task by source and arrival, instead of those of its rows."""

CLOCK: Final = "slackwater clock"
"""The last column of rows that may be ahead of the clock: the timestamp of their micro-batch, in microseconds."""


class PackedRow(NamedTuple):
    """A chunk of events, or the statistics of all events of a task."""

    shard: int
    pipeline: int
    """Which way into the shards it took."""

    task: int
    number: int
    """Its place among the chunks of its task; STATISTICS, ARRIVED, FLUSH or CONTROL if it is none of them."""

    rows: int
    high_water: Instant
    """The greatest time that its task had seen by then."""

    body: bytes | None
    """The events; of statistics the times of each replica, or the arrivals of each source, where there are such; of a
    control record its text."""

    since: Instant = FOREVER
    """Where groups stand for events that are checked one by one: none of these was before. FOREVER where none do."""

    now: Instant = BEGINNING
    """The timestamp of its micro-batch, which Spark adds; BEGINNING where rows do not arrive by the clock."""

    def events(self, no_rows: pa.RecordBatch) -> EventBatch:
        """What it has, with a payload of the given columns."""
        assert self.body is not None
        return as_events(from_buffer(self.body), no_rows)


def spans_as_bytes(replicas: Mapping[ReplicaName, Span]) -> bytes:
    """The times of each replica, as bytes."""
    spans = (pa.array(times, pa.int64()) for times in zip(*replicas.values(), strict=True))
    columns = {"name": pa.array(replicas, pa.binary()), **dict(zip(Span._fields, spans, strict=True))}
    return to_buffer(pa.record_batch(columns)).to_pybytes()


def spans_of_bytes(stored: bytes) -> dict[ReplicaName, Span]:
    """The times of each replica, read again."""
    names, *spans = (column.to_pylist() for column in from_buffer(stored).columns)
    return {name: Span(*times) for name, *times in zip(names, *spans, strict=True)}


def add_spans(known: dict[ReplicaName, Span], more: Mapping[ReplicaName, Span]) -> None:
    """Take in which times replicas have elsewhere."""
    for name, span in more.items():
        known[name] = known.get(name, span).with_more(span)


def as_rows(events: EventBatch) -> pa.RecordBatch:
    """Events as rows: start, end if they have one, payload; changes with all that they are. Copies nothing."""
    times: list[NDArray[Any]] = [events.start] if events.end is None else [events.start, events.end]
    if events.prior_end is not None:
        times = [events.start, events.ends(), events.kinds(), events.prior_end]
    columns = [*(pa.array(column) for column in times), *events.payload.columns]
    return pa.RecordBatch.from_arrays(columns, names=[str(number) for number in range(len(columns))])


def as_events(rows: pa.RecordBatch, no_rows: pa.RecordBatch) -> EventBatch:
    """The events that became rows, with a payload of the given columns. Copies nothing.

    >>> events = EventBatch.inserts(pa.record_batch({"x": ["a"]}), start=[3])
    >>> as_events(as_rows(events), events.payload.slice(0, 0)).payload.to_pydict()
    {'x': ['a']}
    """
    times = rows.num_columns - no_rows.num_columns
    start, *others = (rows.column(place).to_numpy() for place in range(times))
    end, kind, prior_end = (*others, None, None, None)[:_OTHER_TIMES]
    if not no_rows.num_columns:
        return EventBatch(no_columns(rows.num_rows), start, end, kind, prior_end)
    payload = pa.RecordBatch.from_arrays(rows.columns[times:], schema=no_rows.schema)
    return EventBatch(payload, start, end, kind, prior_end)
