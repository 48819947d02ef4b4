"""What arrived with one micro-batch at one shard: chunks of events, and what every task says of all its rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from slackwater.operators.heartbeats.arrival_statistics import ArrivalStatistics
from slackwater.operators.heartbeats.sent_statistics import statistics_of_rows
from slackwater.progress.instants import BEGINNING, FOREVER, Instant
from slackwater.runners.spark.wire.arrow_bytes import from_buffer
from slackwater.runners.spark.wire.packed_rows import (
    ARRIVED,
    CONTROL,
    FLUSH,
    STATISTICS,
    PackedRow,
    add_spans,
    spans_of_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from slackwater.events.batch import EventBatch
    from slackwater.operators.replicas.replica_names import ReplicaName, Span


@dataclass
class Arrivals:
    """What arrived with one micro-batch at one shard. The order in which it came says nothing."""

    high_water: dict[int, Instant] = field(default_factory=dict)
    """The greatest time of all events of the micro-batch that took a way in, whichever shard they went to."""

    replicas: dict[int, dict[ReplicaName, Span]] = field(default_factory=dict)
    """From where to where the times of each replica go, for the ways in where a column names them."""

    rows: int = 0
    """How many events came to this shard."""

    control: list[str] = field(default_factory=list)
    """The texts of the control records that came with it, which all shards have."""

    are_the_last: bool = False
    """Whether nothing will come any more."""

    _chunks: list[PackedRow] = field(default_factory=list)
    _arrived: dict[int, list[ArrivalStatistics]] = field(default_factory=dict)

    def add(self, row: PackedRow) -> None:
        """Take in a packed row."""
        if row.number == FLUSH:
            self.are_the_last = True
        elif row.number == CONTROL:
            assert row.body is not None
            self.control.append(row.body.decode())
        elif row.number in {STATISTICS, ARRIVED}:
            self.high_water[row.pipeline] = max(self.high_water.get(row.pipeline, BEGINNING), row.high_water)
            if row.number == ARRIVED:
                assert row.body is not None
                counted = statistics_of_rows(from_buffer(row.body), row.now)
                self._arrived.setdefault(row.pipeline, []).append(counted)
            elif row.body is not None:
                add_spans(self.replicas.setdefault(row.pipeline, {}), spans_of_bytes(row.body))
        else:
            self._chunks.append(row)
            self.rows += row.rows

    def by_source(self, pipeline: int) -> ArrivalStatistics | None:
        """What all tasks have counted of the rows of a way in, in all shards; None if there were none."""
        parts = self._arrived.get(pipeline)
        return None if parts is None else ArrivalStatistics.together(parts)

    def by_stream(self, streams: Mapping[int, bytes]) -> ArrivalStatistics | None:
        """The same of several ways in, each of which is one source that has a name; None if none of them had rows."""
        parts = [
            replace(part, names=(name,)) for number, name in streams.items() for part in self._arrived.get(number, ())
        ]
        return ArrivalStatistics.together(parts) if parts else None

    @property
    def now(self) -> Instant:
        """The timestamp of the micro-batch, where a way in goes by it; else BEGINNING."""
        return max((one.now for parts in self._arrived.values() for one in parts), default=BEGINNING)

    def chunks(self, pipeline: int) -> Iterator[PackedRow]:
        """What came by a way in, in the same order. It is handed over, once: who takes rows keeps them, or they go."""
        chunks = [row for row in self._chunks if row.pipeline == pipeline]
        self._chunks = [row for row in self._chunks if row.pipeline != pipeline]
        chunks.sort(key=lambda row: (row.task, row.number), reverse=True)
        while chunks:
            yield chunks.pop()

    def groups(self, pipeline: int) -> list[PackedRow]:
        """Of what came by a way in the groups that come beside rows, in the same order. They are handed over, too."""
        groups = [row for row in self._chunks if row.pipeline == pipeline and row.since < FOREVER]
        self._chunks = [row for row in self._chunks if row.pipeline != pipeline or row.since == FOREVER]
        return sorted(groups, key=lambda row: (row.task, row.number))

    def events(self, pipeline: int, no_rows: pa.RecordBatch) -> Iterator[EventBatch]:
        """The events of a way in, task by task, each in its order: the same on replay, if Spark cuts the same."""
        for row in self.chunks(pipeline):
            yield row.events(no_rows)
