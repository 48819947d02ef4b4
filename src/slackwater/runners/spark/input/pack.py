"""Pack: rows of a task become one Spark row per shard and chunk.

Rows without a time count among the rows only: UNTIMED is less than every time. Where groups of rows are all that is
asked for, rows are summed up before they are packed (`preaggregate.py`): all of them, or those that cannot be late.
Where bounds are given, what arrived is counted by source before any step: a source whose rows a filter drops is not
silent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext

from slackwater.events.changes import ChangeSchema
from slackwater.operators.heartbeats.arrival_statistics import CountArrivals
from slackwater.operators.heartbeats.sent_statistics import statistics_as_rows
from slackwater.operators.replicas.replica_names import ReplicaName, ReplicaNames, Span
from slackwater.progress.instants import BEGINNING, FOREVER, Instant
from slackwater.runners.spark.failures import with_users_lines
from slackwater.runners.spark.input.partitioner import Partitioner
from slackwater.runners.spark.input.preaggregate import MapSideGroups, Part, parts
from slackwater.runners.spark.input.row_steps import RowSteps
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.wire.arrow_bytes import to_buffer
from slackwater.runners.spark.wire.chunks import CHUNK_ROWS, in_chunks, places_of_chunks
from slackwater.runners.spark.wire.late_bounds import announced_in_time_from
from slackwater.runners.spark.wire.packed_rows import (
    ARRIVED,
    PACKED,
    STATISTICS,
    PackedRow,
    add_spans,
    as_rows,
    spans_as_bytes,
)
from slackwater.runners.spark.wire.prompt_answers import answer_at_once

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from slackwater.events.batch import EventBatch
    from slackwater.events.schema import EventSchema
    from slackwater.operators.heartbeats.heartbeats import HeartbeatSettings
    from slackwater.plan.node import StepNode
    from slackwater.runners.spark.planning.shard_plan import InputPipeline, ShardPlan


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
    """The column that names replicas, where one does."""

    summing_up: MapSideGroups | None = None
    """How rows are summed up before they are packed, where they are."""

    heartbeats: HeartbeatSettings | None = None
    """What heartbeats follow from, where there are bounds."""

    announced_by: str | None = None
    """The setting that has from which time on no row is late, where there is one."""

    nothing_is_late: bool = False
    """Whether none is in any case: all rows are of the first micro-batch."""

    @property
    def by_clock(self) -> bool:
        """Whether rows arrive by the clock: then Spark adds the timestamp of their micro-batch to what is packed."""
        return self.heartbeats is not None and self.heartbeats.arrived is None

    @property
    def needs_clock(self) -> bool:
        """Whether rows come with that timestamp, in a column CLOCK behind all others: they may be ahead of it."""
        return self.by_clock and self.heartbeats is not None and self.heartbeats.ahead is not None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row per shard and chunk, then the statistics."""
        context = TaskContext.get()
        assert context is not None, "pack runs in a task of Spark"
        answer_at_once()
        with with_users_lines():
            for row in self.packed(context.partitionId(), batches, self._in_time_from(context)):
                yield pa.RecordBatch.from_pylist([row._asdict()], schema=PACKED)

    def _in_time_from(self, context: TaskContext) -> Instant:
        if self.nothing_is_late:
            return BEGINNING
        return (
            FOREVER if self.announced_by is None else announced_in_time_from(context, self.announced_by, self.pipeline)
        )

    def packed(
        self, task: int, batches: Iterable[pa.RecordBatch], in_time_from: Instant = FOREVER
    ) -> Iterator[PackedRow]:
        """Pack the rows of a task, by its number; from `in_time_from` on none of them is late."""
        keys = shard_keys(self.shards)
        schema = self.steps[-1].schema if self.steps else self.schema
        names = None if self.replicas_by is None else ReplicaNames(schema, self.replicas_by, self.where)
        seen = _Seen(names, punctuated=isinstance(self.schema, ChangeSchema))
        counted = None if self.heartbeats is None else CountArrivals(self.schema, self.heartbeats, self.where)
        steps = RowSteps(self.steps, self.where)
        chunks = seen.passing(steps.each(seen.without_punctuations(self._counted(batches, counted))))
        partitioners = self._partitioners(schema)
        numbers = count()
        for part in self._parts(chunks, in_time_from, partitioners.get(None)):
            for shard, events in part.shares(partitioners[part.counted_by].split(part.events)):
                # Cut once more: steps make rows wider, and groups are as many as there are.
                for first, stop in places_of_chunks(as_rows(events)):
                    piece = events.slice(first, stop)
                    body = to_buffer(as_rows(piece)).to_pybytes()
                    where = (keys[shard], self.pipeline, task, next(numbers))
                    yield PackedRow(*where, part.events_in(piece, shard), seen.high_water, body, part.since)
        if counted is not None:
            yield from self._arrived(counted, task, seen)
        anything = seen.rows or seen.high_water > BEGINNING
        if anything and (counted is None or names is not None):
            spans = None if names is None else spans_as_bytes(seen.replicas)
            yield from (
                PackedRow(key, self.pipeline, task, STATISTICS, seen.rows, seen.high_water, spans) for key in keys
            )

    def _parts(
        self, chunks: Iterable[EventBatch], in_time_from: Instant, partitioner: Partitioner | None
    ) -> Iterator[Part]:
        if self.summing_up is None:
            return map(Part, chunks)
        windowing = RowSteps(self.summing_up.windowing, self.where)
        return parts(chunks, self.summing_up, windowing, self.chunk_rows, in_time_from, partitioner)

    def _partitioners(self, schema: EventSchema) -> dict[str | None, Partitioner]:
        """What splits events, of this schema, and groups, by the column that counts the events of these."""
        how = self.summing_up
        found: dict[str | None, Partitioner] = {}
        if how is None or how.beside_rows:
            found[None] = Partitioner(schema, self.columns, self.shards)
        if how is not None:
            columns = self.columns if how.columns is None else how.columns
            found[how.groups.event_count_column] = Partitioner(how.groups.schema, columns, self.shards)
        return found

    def _arrived(self, counted: CountArrivals, task: int, seen: _Seen) -> Iterator[PackedRow]:
        """What a task has counted of its rows before any step, for every shard."""
        found = statistics_as_rows(counted.statistics())
        if found.num_rows:
            body = to_buffer(found).to_pybytes()
            for key in shard_keys(self.shards):
                yield PackedRow(key, self.pipeline, task, ARRIVED, seen.rows, seen.high_water, body)

    def _counted(self, batches: Iterable[pa.RecordBatch], counted: CountArrivals | None) -> Iterator[EventBatch]:
        """Read rows, and count what arrived, where that is asked for."""
        if counted is None:
            yield from self._events(batches)
            return
        clock = _Clock()
        for events in self._events(clock.taken_from(batches) if self.needs_clock else batches):
            counted.add(events, clock.now)
            yield events

    def _events(self, batches: Iterable[pa.RecordBatch]) -> Iterator[EventBatch]:
        """Read rows, which refuses bad times."""
        for chunk in in_chunks(batches, self.chunk_rows):
            # Timestamps come as numbers, or, inside of other values, in the zone of the session.
            wanted = self.schema.read_from
            rows = chunk if chunk.schema.types == wanted.types else chunk.cast(wanted)
            yield self.schema.read(rows, self.where)


@dataclass
class _Clock:
    """The timestamp of a micro-batch, which comes with its rows: the same in all of them, and when it is replayed."""

    now: Instant = BEGINNING

    def taken_from(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take the column of the clock off rows."""
        for batch in batches:
            if batch.num_rows:
                self.now = max(self.now, batch.column(batch.num_columns - 1)[0].as_py())
            yield batch.drop_columns([batch.schema.names[-1]])


@dataclass
class _Seen:
    """What a task has seen of its rows."""

    names: ReplicaNames | None
    punctuated: bool = False
    """Whether rows are changes, which say by punctuations how far they have come, and not by their times."""

    rows: int = 0
    high_water: Instant = BEGINNING
    replicas: dict[ReplicaName, Span] = field(default_factory=dict)

    def without_punctuations(self, chunks: Iterable[EventBatch]) -> Iterator[EventBatch]:
        """Take note of punctuations, and hand on the rows alone."""
        for events in chunks:
            if len(events) > events.rows:
                self.high_water = max(self.high_water, int(events.punctuations().max()))
            yield events.data()

    def passing(self, chunks: Iterable[EventBatch]) -> Iterator[EventBatch]:
        """Take note of rows, and hand them on."""
        for events in chunks:
            self.rows += events.rows
            if not self.punctuated:
                self.high_water = max(self.high_water, int(events.start.max()))
            if self.names is not None:
                add_spans(self.replicas, self.names.spans(events))
            yield events


def packs_of(
    plan: ShardPlan, chunk_rows: int = CHUNK_ROWS, announced_by: str | None = None, *, nothing_is_late: bool = False
) -> list[Pack]:
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
            pipeline.replica_column,
            _summing_up(plan, pipeline),
            pipeline.arrivals,
            announced_by,
            nothing_is_late,
        )
        for number, pipeline in enumerate(plan.pipelines)
    ]


def _summing_up(plan: ShardPlan, pipeline: InputPipeline) -> MapSideGroups | None:
    """How rows of a way in are summed up before they are packed, where they are: all, or those that cannot be late."""
    how, sums, moved = pipeline.groups_beside_rows, pipeline.sums, pipeline.window_of_moved_rows
    if sums is not None:
        columns, in_order = plan.columns_of_sums(sums), sums.entry is sums.punctuate
        return MapSideGroups(sums.steps, sums.groups, how is not None, True, in_order, columns, sums.keeps_rows, moved)
    if how is not None:
        return MapSideGroups(how.steps, how.groups, True, True, True, window_of_moved_rows=moved)
    return None if pipeline.summed_up is None else MapSideGroups(pipeline.windowing, pipeline.summed_up.groups)
