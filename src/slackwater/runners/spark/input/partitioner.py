"""Splits events among shards by the values of some columns: equal values go to the same shard, in every process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.columns.row_spread import RowSpread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from slackwater.events.batch import EventBatch
    from slackwater.events.schema import EventSchema


class Partitioner:
    """Splits events of one schema. Cost: a copy of the events, if there are several shards."""

    def __init__(self, schema: EventSchema, columns: Sequence[str], shards: int) -> None:
        self._spread = RowSpread(schema, columns, shards)

    @property
    def shards(self) -> int:
        """Among how many."""
        return self._spread.places

    def counts(self, events: EventBatch) -> NDArray[np.int64]:
        """How many of the events each shard gets."""
        if self.shards == 1:
            return np.array([events.rows])
        return np.bincount(self._spread.of(events), minlength=self.shards)

    def split(self, events: EventBatch) -> Iterator[tuple[int, EventBatch]]:
        """Yield the events of each shard that gets some, in their order."""
        if self._spread.places == 1:
            yield 0, events
            return
        yield from ((shard, part) for shard, part in enumerate(self._spread.parts_of(events)) if part.rows)
