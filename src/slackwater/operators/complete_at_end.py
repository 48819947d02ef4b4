"""Decides what the end of a stream guarantees: that everything before a time has come, or nothing at all.

Steps that hold rows, such as a sort, let go of them at the end of their input and guarantee that none will follow. Of a
replica that may have been cut off that is not true; of a snapshot it is true up to the time when it was taken.

Invariant: all rows pass unchanged, and so do punctuations that are no further than they may be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.kinds import Kind
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.interest import InterestedOperator
from slackwater.progress.instants import BEGINNING, FOREVER, Instant

if TYPE_CHECKING:
    import pyarrow as pa

    from slackwater.progress.frontier import Port


class CompleteAtEndOperator(InterestedOperator[Instant]):
    """Punctuates at a time at the end, and no further than that before; with BEGINNING, the end guarantees nothing.

    >>> import pyarrow as pa
    >>> from slackwater.events.elements import Insert, Punctuate, batch_of, elements_of
    >>> rows = pa.schema({"x": pa.string()})
    >>> step = CompleteAtEndOperator(batch_of([], rows).payload, 7)
    >>> (out,) = step.on_batch(0, batch_of([Insert(("a",), 3, 4), Punctuate(FOREVER)], rows)).batches
    >>> print(*elements_of(out), *elements_of(step.on_end(0).batches[0]))
    insert(('a',), 3, 4) punctuate(7)
    """

    __slots__ = ("_at_end", "_most", "_no_rows", "_punctuated_until")

    def __init__(self, no_rows: pa.RecordBatch, at_end: Instant = BEGINNING, resume: Instant | None = None) -> None:
        super().__init__()
        self._no_rows = no_rows
        self._at_end = at_end
        # Nothing but an end guarantees that nothing will ever follow.
        self._most = at_end if at_end > BEGINNING else FOREVER - 1
        self._punctuated_until = BEGINNING if resume is None else resume

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one port
        """Pass the elements on, but for punctuations that go too far."""
        batch = self._interest.rows_of(batch)
        if not len(batch):
            return NOTHING
        if batch.kind is not None:
            batch = self._believable(batch)
            self._punctuated_until = int(batch.punctuations().max(initial=self._punctuated_until))
        return Emission.of(batch)

    def _believable(self, batch: EventBatch) -> EventBatch:
        too_much = (batch.kinds() == Kind.PUNCTUATE) & (batch.start > self._most)
        if not too_much.any():
            return batch
        places = np.flatnonzero(~too_much)
        prior_ends = None if batch.prior_end is None else batch.prior_end[places]
        return EventBatch(batch.payload, batch.start[places], batch.ends()[places], batch.kinds()[places], prior_ends)

    def on_end(self, port: Port) -> Emission:  # noqa: ARG002 - there is one port
        """Punctuate as far as may be, if that is news."""
        if self._at_end <= self._punctuated_until:
            return NOTHING
        self._punctuated_until = self._at_end
        return Emission((punctuation_like(self._no_rows, self._at_end),))

    def snapshot(self) -> Instant:
        """Return the last punctuation passed on."""
        return self._punctuated_until
