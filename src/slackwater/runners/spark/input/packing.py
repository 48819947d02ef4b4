"""Pack: rows become one Spark row per shard and chunk, which Spark moves as it moves a number.

Every task also says, to every shard, what arrived with it: how many rows, and their greatest time. So all shards know
the same of a micro-batch, whichever rows they have, and need not ask each other. Where a column tells replicas apart,
the least and the greatest time of each of them are said, too. Rows without a time count among the rows only: UNTIMED is
less than every time.

Where groups of rows are all that is asked for, rows are summed up before they are packed (`summing_up.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from slackwater.events.batch import EventBatch
from slackwater.events.gather import no_columns
from slackwater.operators.replicas.replica_names import ReplicaName, ReplicaNames, Span
from slackwater.plan.nodes.replicas_by_column import MergeByColumn
from slackwater.progress.instants import BEGINNING, Instant
from slackwater.runners.spark.input.partitioner import Dealer
from slackwater.runners.spark.input.preaggregate import SummingUp
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.wire.arrow_bytes import from_buffer, to_buffer
from slackwater.runners.spark.wire.chunks import CHUNK_ROWS, in_chunks, places_of_chunks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from slackwater.events.schema import EventSchema
    from slackwater.plan.node import StepNode
    from slackwater.runners.spark.planning.shard_plan import ShardPlan

PACKED: Final = pa.schema({
    "shard": pa.int64(), "pipeline": pa.int32(), "task": pa.int64(), "number": pa.int64(),
    "rows": pa.int64(), "high_water": pa.int64(), "body": pa.binary(),
})  # fmt: skip
"""What a packed row is, in Arrow. Spark takes what Python gives without a cast, so that types must be these."""

PACKED_SPARK: Final = "shard long, pipeline int, task long, number long, rows long, high_water long, body binary"
"""The same in Spark's words."""


STATISTICS: Final = -1
"""The number of a packed row that is no chunk."""

FLUSH: Final = -2
"""The number of a packed row that asks a shard to give out all that it holds: nothing will come any more."""


class PackedRow(NamedTuple):
    """A chunk of events, or the statistics of all events of a task."""

    shard: int
    pipeline: int
    """Which way into the shards it took."""

    task: int
    number: int
    """Its place among the chunks of its task; STATISTICS or FLUSH if it is none of them."""

    rows: int
    high_water: Instant
    """The greatest time that its task had seen by then."""

    body: bytes | None
    """The events; of statistics the times of each replica, where there are such."""


@dataclass(frozen=True)
class Pack:
    """Packs the rows of a task, in their order; to be used with mapInArrow."""

    pipeline: int
    schema: EventSchema
    """The columns of the rows as they come."""

    steps: Sequence[StepNode]
    """What is done to the rows before they are packed."""

    shards: int
    columns: tuple[str, ...]
    """The columns that decide the shard of a row; none if there is one shard."""

    where: str
    chunk_rows: int = CHUNK_ROWS
    replicas_by: str | None = None
    """The column that tells replicas apart, where one does."""

    windowing: Sequence[StepNode] = ()
    """What gives rows windows, where they are summed up."""

    summing_up: SummingUp | None = None
    """How rows are summed up before they are packed, where they are."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row per shard and chunk, then the statistics."""
        context = TaskContext.get()
        assert context is not None, "pack runs in a task of Spark"
        for row in self.packed(context.partitionId(), batches):
            yield pa.RecordBatch.from_pylist([row._asdict()], schema=PACKED)

    def packed(self, task: int, batches: Iterable[pa.RecordBatch]) -> Iterator[PackedRow]:
        """Pack the rows of a task, by its number."""
        keys = shard_keys(self.shards)
        schema = self.steps[-1].schema if self.steps else self.schema
        names = None if self.replicas_by is None else ReplicaNames(schema, self.replicas_by, self.where)
        seen = _Seen(names)
        chunks = seen.passing(self._through(self.steps, self._events(batches)))
        if self.summing_up is not None:
            windowed = self._through(self.windowing, chunks)
            schema, chunks = self.summing_up.groups.schema, self.summing_up.chunks(windowed, self.chunk_rows)
        dealer = Dealer(schema, self.columns, self.shards)
        numbers = count()
        for events in chunks:
            for shard, part in dealer.deal(events):
                # Cut once more: steps make rows wider, and groups are as many as there are.
                for first, stop in places_of_chunks(as_rows(part)):
                    piece = part.slice(first, stop)
                    rows = piece.rows if self.summing_up is None else self.summing_up.events_in(piece)
                    body = to_buffer(as_rows(piece)).to_pybytes()
                    yield PackedRow(keys[shard], self.pipeline, task, next(numbers), rows, seen.high_water, body)
        if seen.rows:
            said = None if names is None else _said_of(seen.replicas)
            yield from (
                PackedRow(key, self.pipeline, task, STATISTICS, seen.rows, seen.high_water, said) for key in keys
            )

    def _events(self, batches: Iterable[pa.RecordBatch]) -> Iterator[EventBatch]:
        """Read rows, which refuses bad times."""
        for chunk in in_chunks(batches, self.chunk_rows):
            # Timestamps come as numbers, or, inside of other values, in the zone of the session.
            rows = chunk if chunk.schema.types == self.schema.shown.types else chunk.cast(self.schema.shown)
            yield self.schema.read(rows, self.where)

    def _through(self, steps: Sequence[StepNode], chunks: Iterable[EventBatch]) -> Iterator[EventBatch]:
        """Let events pass steps that treat each row by itself; yield those that are left."""
        operators = [step.build(f"{step.verb} of {self.where}") for step in steps]
        for events in chunks:
            treated = [events]
            for operator in operators:
                treated = [after for before in treated for after in operator.on_batch(0, before).batches]
            yield from (some for some in treated if some.rows)


@dataclass
class _Seen:
    """What a task has seen of its rows."""

    names: ReplicaNames | None
    rows: int = 0
    high_water: Instant = BEGINNING
    replicas: dict[ReplicaName, Span] = field(default_factory=dict)

    def passing(self, chunks: Iterable[EventBatch]) -> Iterator[EventBatch]:
        """Take note of rows, and hand them on."""
        for events in chunks:
            self.rows += events.rows
            self.high_water = max(self.high_water, int(events.start.max()))
            if self.names is not None:
                _add_to(self.replicas, self.names.spans(events))
            yield events


def packs_of(plan: ShardPlan, chunk_rows: int = CHUNK_ROWS) -> list[Pack]:
    """What packs the rows of each way in."""
    return [
        Pack(
            number,
            pipeline.source.schema,
            pipeline.steps,
            plan.shards,
            () if plan.columns is None else plan.columns[pipeline.entry],
            pipeline.where,
            chunk_rows,
            pipeline.entry.by if isinstance(pipeline.entry, MergeByColumn) else None,
            pipeline.windowing,
            None if pipeline.summed_up is None else SummingUp(pipeline.summed_up.groups),
        )
        for number, pipeline in enumerate(plan.pipelines)
    ]


@dataclass
class Arrivals:
    """What arrived with one micro-batch at one shard. The order in which it came says nothing."""

    high_water: dict[int, Instant] = field(default_factory=dict)
    """The greatest time of all events of the micro-batch that took a way in, whichever shard they went to."""

    replicas: dict[int, dict[ReplicaName, Span]] = field(default_factory=dict)
    """From where to where the times of each replica go, for the ways in where a column tells them apart."""

    rows: int = 0
    """How many events came to this shard."""

    are_the_last: bool = False
    """Whether nothing will come any more."""

    _chunks: list[PackedRow] = field(default_factory=list)

    def add(self, row: PackedRow) -> None:
        """Take in a packed row."""
        if row.number == FLUSH:
            self.are_the_last = True
        elif row.number == STATISTICS:
            self.high_water[row.pipeline] = max(self.high_water.get(row.pipeline, BEGINNING), row.high_water)
            if row.body is not None:
                _add_to(self.replicas.setdefault(row.pipeline, {}), _read_of(row.body))
        else:
            self._chunks.append(row)
            self.rows += row.rows

    def events(self, pipeline: int, no_rows: pa.RecordBatch) -> Iterator[EventBatch]:
        """The events of a way in, task by task, each in its order: the same on replay, if Spark cuts the same."""
        chunks = [row for row in self._chunks if row.pipeline == pipeline]
        for row in sorted(chunks, key=lambda row: (row.task, row.number)):
            assert row.body is not None
            yield as_events(from_buffer(row.body), no_rows)


def _said_of(replicas: Mapping[ReplicaName, Span]) -> bytes:
    """The times of each replica, as bytes."""
    spans = (pa.array(times, pa.int64()) for times in zip(*replicas.values(), strict=True))
    columns = {"name": pa.array(replicas, pa.binary()), **dict(zip(Span._fields, spans, strict=True))}
    return to_buffer(pa.record_batch(columns)).to_pybytes()


def _read_of(said: bytes) -> dict[ReplicaName, Span]:
    names, *spans = (column.to_pylist() for column in from_buffer(said).columns)
    return {name: Span(*times) for name, *times in zip(names, *spans, strict=True)}


def _add_to(known: dict[ReplicaName, Span], more: Mapping[ReplicaName, Span]) -> None:
    """Take in which times replicas have told elsewhere."""
    for name, span in more.items():
        known[name] = known.get(name, span).with_more(span)


def as_rows(events: EventBatch) -> pa.RecordBatch:
    """Inserts as rows: start, end if they have one, payload. Copies nothing."""
    times = [events.start] if events.end is None else [events.start, events.end]
    columns = [*(pa.array(column) for column in times), *events.payload.columns]
    return pa.RecordBatch.from_arrays(columns, names=[str(number) for number in range(len(columns))])


def as_events(rows: pa.RecordBatch, no_rows: pa.RecordBatch) -> EventBatch:
    """The events that became rows, with a payload of the given columns. Copies nothing.

    >>> events = EventBatch.inserts(pa.record_batch({"x": ["a"]}), start=[3])
    >>> as_events(as_rows(events), events.payload.slice(0, 0)).payload.to_pydict()
    {'x': ['a']}
    """
    times = rows.num_columns - no_rows.num_columns
    start, end = rows.column(0).to_numpy(), rows.column(1).to_numpy() if times > 1 else None
    if not no_rows.num_columns:
        return EventBatch(no_columns(rows.num_rows), start, end)
    return EventBatch(pa.RecordBatch.from_arrays(rows.columns[times:], schema=no_rows.schema), start, end)
