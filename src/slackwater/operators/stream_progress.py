"""How far one input is complete: by its punctuations and, on an ordered input, by its events.

Invariant: neither part ever goes back, and an element behind either is refused with its own error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slackwater.errors import BrokenOrder, BrokenPunctuation
from slackwater.events.elements import elements_of
from slackwater.events.kinds import Kind
from slackwater.progress.instants import BEGINNING, Instant

if TYPE_CHECKING:
    from slackwater.events.batch import EventBatch, Mask, Times


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """What has been promised of one input so far.

    >>> import pyarrow as pa
    >>> from slackwater.events.batch import EventBatch
    >>> batch = EventBatch.inserts(pa.record_batch({"x": ["a", "b"]}), start=[3, 5])
    >>> StreamProgress().after(batch, "example", ordered=True).complete_before
    5
    """

    punctuated: Instant = BEGINNING
    """The last punctuation."""

    reached: Instant = BEGINNING
    """The start of the last event of an ordered input."""

    @property
    def complete_before(self) -> Instant:
        """No later element concerns time before this instant."""
        return max(self.punctuated, self.reached)

    def after(self, batch: EventBatch, where: str, *, ordered: bool) -> StreamProgress:
        """Return the progress after a batch; refuse events that it contradicts. Cost: O(elements)."""
        if not len(batch):
            return self
        punctuated, reached = self.punctuated, self.reached
        data = batch.is_data()
        if data is None:
            if batch.start.min() < punctuated:
                self._refuse_closed(batch, batch.start < punctuated, np.full(len(batch), punctuated), where)
        else:
            said = np.maximum.accumulate(np.where(data, punctuated, np.maximum(batch.start, punctuated)))
            self._refuse_closed(batch, data & (batch.start < said), said, where)
            punctuated = int(said[-1])
        if ordered and batch.rows:
            reached = self._ordered_reach(batch.data(), where)
        return StreamProgress(punctuated, reached)

    def _ordered_reach(self, events: EventBatch, where: str) -> Instant:
        if events.start[0] < self.reached:
            raise BrokenOrder.by(where, _element(events, 0), f"an event at {self.reached}")
        older = events.start[1:] < events.start[:-1]
        if older.any():
            at = int(np.flatnonzero(older)[0])
            raise BrokenOrder.by(where, _element(events, at + 1), _element(events, at))
        return int(events.start[-1])

    @staticmethod
    def _refuse_closed(batch: EventBatch, closed: Mask, said: Times, where: str) -> None:
        places = np.flatnonzero(closed)
        if len(places):
            at = int(places[0])
            raise BrokenPunctuation.by(where, _element(batch, at), int(said[at]))


def _element(batch: EventBatch, at: int) -> object:
    return next(elements_of(batch.slice(at, at + 1)))


def insert_only(batch: EventBatch) -> bool:
    """Whether no element is an adjust."""
    return batch.prior_end is None or not bool((batch.kinds() == Kind.ADJUST).any())
