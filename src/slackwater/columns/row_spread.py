"""Spreads events over a number of places by the values of some columns: equal values have the same place everywhere.

What decides is bytes, so that it is the same in every process, in every batch, and whatever else a row has in it. Where
no columns are given all rows have one place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slackwater.columns.row_codec import RowCodec
from slackwater.events.gather import no_columns
from slackwater.kernels.columns.spread_rows import spread_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slackwater.events.batch import EventBatch
    from slackwater.events.schema import EventSchema


class RowSpread:
    """Finds the places of events of one schema. The columns may be those of the payload, and that of the starts.

    >>> import slackwater as sw
    >>> from slackwater.events.batch import EventBatch
    >>> spread = RowSpread(sw.stream([{"at": 1, "k": "a"}], time="at").node.schema, ["k"], 3)
    >>> rows = EventBatch.inserts(pa.record_batch({"k": ["a", "b", "c", "a"]}), start=[1, 2, 3, 4])
    >>> [part.payload["k"].to_pylist() for part in spread.parts_of(rows)]
    [['c'], [], ['a', 'b', 'a']]
    """

    __slots__ = ("_by_time", "_codec", "columns", "places")

    def __init__(self, schema: EventSchema, columns: Sequence[str], places: int) -> None:
        self.places = places
        """How many there are."""

        self._by_time = schema.time.name in columns
        self.columns = [name for name in columns if name != schema.time.name]
        """The columns of the payload that decide."""

        self._codec = RowCodec(pa.schema([schema.payload.field(name) for name in self.columns]), "pack")

    def of(self, events: EventBatch) -> NDArray[np.uint16]:
        """The place of each event; nothing else than the columns that decide need be in the payload."""
        times = events.start if self._by_time else np.zeros(events.rows, dtype=np.int64)
        chosen = events.payload.select(self.columns) if self.columns else no_columns(events.rows)
        rows = self._codec.encode(chosen)
        place = np.empty(events.rows, dtype=np.uint16)
        spread_rows(times, rows.word_offsets, rows.words, self.places, place)
        return place

    def parts_of(self, events: EventBatch) -> list[EventBatch]:
        """The events of each place, in their order; there are no punctuations among them.

        Cost: a copy of them, if there are several places.
        """
        if self.places == 1:
            return [events]
        place = self.of(events)
        together = events.take_rows(np.argsort(place, kind="stable"))
        ends = np.cumsum(np.bincount(place, minlength=self.places)).tolist()
        return [together.slice(first, stop) for first, stop in zip([0, *ends], ends, strict=False)]
