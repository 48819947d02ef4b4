"""Splits events among shards by the values of some columns: equal values go to the same shard, in every process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slackwater.columns.row_codec import RowCodec
from slackwater.events.gather import no_columns
from slackwater.kernels.columns.spread_rows import spread_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from slackwater.events.batch import EventBatch
    from slackwater.events.schema import EventSchema


class Partitioner:
    """Splits events of one schema. Cost: a copy of the events, if there are several shards."""

    def __init__(self, schema: EventSchema, columns: Sequence[str], shards: int) -> None:
        self._shards = shards
        self._by_time = schema.time.name in columns
        self._columns = [name for name in columns if name != schema.time.name]
        self._codec = RowCodec(pa.schema([schema.payload.field(name) for name in self._columns]), "pack")

    def split(self, events: EventBatch) -> Iterator[tuple[int, EventBatch]]:
        """Yield the events of each shard that gets some, in their order."""
        if self._shards == 1:
            yield 0, events
            return
        shard = self._shard_of(events)
        together = events.take_rows(np.argsort(shard, kind="stable"))
        ends = np.cumsum(np.bincount(shard, minlength=self._shards)).tolist()
        for number, (first, stop) in enumerate(zip([0, *ends], ends, strict=False)):
            if first < stop:
                yield number, together.slice(first, stop)

    def _shard_of(self, events: EventBatch) -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
        """The shard of each event."""
        times = events.start if self._by_time else np.zeros(events.rows, dtype=np.int64)
        chosen = events.payload.select(self._columns) if self._columns else no_columns(events.rows)
        rows = self._codec.encode(chosen)
        shard = np.empty(events.rows, dtype=np.uint16)
        spread_rows(times, rows.word_offsets, rows.words, self._shards, shard)
        return shard
