"""Takes it that a stream is ordered, as was declared, and stops it at the first element that is not.

Invariant: no element is older than the latest time passed on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.errors import BrokenOrder
from slackwater.events.shown_values import show_row
from slackwater.kernels.progress.follow_punctuations import NOBODY
from slackwater.kernels.progress.steps_back import first_step_back
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.interest import InterestedOperator
from slackwater.progress.instants import BEGINNING, Instant

if TYPE_CHECKING:
    from slackwater.events.batch import EventBatch
    from slackwater.events.schema import EventSchema
    from slackwater.progress.frontier import Port


class AssumeOrderedOperator(InterestedOperator[Instant]):
    """Passes batches on unchanged while their times do not go back. Cost: one comparison per element."""

    __slots__ = ("_high_water", "_schema", "_step", "_strictly")

    def __init__(
        self,
        schema: EventSchema,
        step: str = "assume_ordered",
        resume: Instant | None = None,
        *,
        strictly: bool = False,
    ) -> None:
        super().__init__()
        self._strictly = strictly
        self._schema = schema
        self._step = step
        self._high_water = BEGINNING if resume is None else resume

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one port
        """Check the order, within the batch and against all before it."""
        if not len(batch):
            return NOTHING
        if batch.kind is None and not self._strictly and not self.is_broken_by(batch):
            self._high_water = int(batch.start[-1])
            return Emission((batch,))
        data = batch.is_data()
        # Where there are no ties, an event guarantees that all up to its own time is over; no event is at FOREVER.
        complete = batch.start + (True if data is None else data) if self._strictly else batch.start
        # A punctuation may be less than the events before it have shown already; it never closes the future.
        high_water = np.maximum.accumulate(np.concatenate(([self._high_water], complete)))
        backward = batch.start < high_water[:-1]
        if data is not None:
            backward &= data
        if backward.any():
            position = int(np.argmax(backward))
            self._refuse(batch, position, int(high_water[position]) - self._strictly)
        self._high_water = int(high_water[-1])
        return Emission((batch,))

    def expect_from(self, newest: Instant) -> None:
        """Learn that rows up to this time have come which did not reach this step, for nobody is interested in them."""
        if newest > BEGINNING:
            self._high_water = max(self._high_water, newest + self._strictly)

    def is_broken_by(self, batch: EventBatch) -> bool:
        """Whether rows of a batch are not in order, among each other or behind those that came before."""
        times = batch.data().start
        if self._strictly and (times[1:] == times[:-1]).any():
            return True
        return bool(first_step_back(times, self._high_water) != NOBODY)

    def _refuse(self, batch: EventBatch, position: int, after: Instant) -> None:
        came = show_row(self._schema.show(batch.slice(position, position + 1)), 0)
        raise BrokenOrder.by(f"step {self._step!r}", came, self._schema.time.show(after))

    def on_end(self, port: Port) -> Emission:  # noqa: ARG002 - there is nothing to flush
        """Release nothing: nothing was held."""
        return NOTHING

    def snapshot(self) -> Instant:
        """Return the latest time passed on."""
        return self._high_water
