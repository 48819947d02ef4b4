"""How far one input is complete: by its punctuations and, on an ordered input, by its events.

Invariant: neither part ever goes back, and an element behind either is refused with its own error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slackwater.errors import BrokenOrder, BrokenPunctuation
from slackwater.events.kinds import Kind
from slackwater.events.shown_values import show_element
from slackwater.kernels.progress.follow_punctuations import NOBODY, follow_punctuations
from slackwater.kernels.progress.steps_back import first_step_back
from slackwater.progress.instants import BEGINNING, Instant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slackwater.events.batch import EventBatch


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """How far one input is complete so far.

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

    @classmethod
    def least(cls, several: Iterable[StreamProgress]) -> StreamProgress:
        """How far one input is that has what several have each a part of.

        >>> StreamProgress.least([StreamProgress(3, 5), StreamProgress(4, 4)])
        StreamProgress(punctuated=3, reached=4)
        """
        punctuated, reached = zip(*((one.punctuated, one.reached) for one in several), strict=True)
        return cls(min(punctuated), min(reached))

    def after(self, batch: EventBatch, where: str, *, ordered: bool) -> StreamProgress:
        """Return the progress after a batch; refuse events that it contradicts. Cost: O(elements)."""
        if not len(batch):
            return self
        punctuated, reached = self.punctuated, self.reached
        if batch.kind is None:
            if batch.start.min() < punctuated:
                self._refuse(batch, int(np.argmax(batch.start < punctuated)), where)
        else:
            punctuated, broken = follow_punctuations(batch.start, batch.kind, int(Kind.PUNCTUATE), punctuated)
            if broken != NOBODY:
                self._refuse(batch, broken, where)
        if ordered and batch.rows:
            reached = self._ordered_reach(batch.data(), where)
        return StreamProgress(punctuated, reached)

    def _ordered_reach(self, events: EventBatch, where: str) -> Instant:
        if events.start[0] < self.reached:
            raise BrokenOrder.by(where, show_element(events, 0), f"an event at {self.reached}")
        back = first_step_back(events.start, self.reached)
        if back != NOBODY:
            raise BrokenOrder.by(where, show_element(events, back), show_element(events, back - 1))
        return int(events.start[-1])

    def _refuse(self, batch: EventBatch, at: int, where: str) -> None:
        punctuated = max(self.punctuated, int(batch.slice(0, at).punctuations().max(initial=BEGINNING)))
        raise BrokenPunctuation.by(where, show_element(batch, at), punctuated)


def insert_only(batch: EventBatch) -> bool:
    """Whether no element is an adjust."""
    return batch.prior_end is None or not bool((batch.kinds() == Kind.ADJUST).any())
