"""Leaves out rows that nobody is interested in any more: what feedback is used for inside operators.

A merge that has emitted everything before an instant does not look at what a slower replica sends of the time before
it. It passes that back to the steps above it; those spare themselves the work, and the slower replica catches up
(fast-forward).
Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section V-D.

Invariant: the bound never goes back. Punctuations always pass: they state how far a stream is, not what it holds.
Cost: one comparison per batch without feedback, one per row with it; a copy of the rows that stay, if any goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from slackwater.events.kinds import Kind
from slackwater.operators.operator import Operator
from slackwater.progress.instants import BEGINNING, Instant

if TYPE_CHECKING:
    from slackwater.events.batch import EventBatch, Mask
    from slackwater.progress.frontier import Port

StateT = TypeVar("StateT")

_ADJUST = int(Kind.ADJUST)


class Interest:
    """From when on rows are of interest, and how many were left out because they are not.

    >>> import pyarrow as pa
    >>> from slackwater.events.batch import EventBatch
    >>> interest = Interest()
    >>> interest.begin_at(5)
    >>> interest.rows_of(EventBatch.inserts(pa.record_batch({"x": ["a", "b", "c"]}), start=[3, 4, 5])).start.tolist()
    [5]
    >>> interest.ignored
    2
    """

    __slots__ = ("ignored", "since")

    def __init__(self) -> None:
        self.since: Instant = BEGINNING
        self.ignored = 0

    def begin_at(self, bound: Instant) -> None:
        """Be interested from a bound on; one that was passed already changes nothing."""
        self.since = max(self.since, bound)

    def rows_of(self, batch: EventBatch) -> EventBatch:
        """The batch without the rows that only concern time before the bound; all punctuations stay."""
        if self.since == BEGINNING or not batch.rows:
            return batch
        return self.keep(batch, _reach_past(batch.data(), self.since))

    def keep(self, batch: EventBatch, rows: Mask) -> EventBatch:
        """The batch with the rows that are marked; count the others."""
        self.ignored += len(rows) - int(np.count_nonzero(rows))
        return batch.keep_rows(rows)


class InterestedOperator(Operator[StateT]):
    """An operator to which, and to whose inputs, nothing matters that is of no interest to anybody behind it.

    It may leave such rows out of its work with `self._interest.rows_of(batch)`, or not.
    """

    __slots__ = ("_interest",)

    def __init__(self) -> None:
        self._interest = Interest()

    def of_interest_from(self, port: Port) -> Instant:  # noqa: ARG002 - the same on all ports
        """The same as behind the operator."""
        return self._interest.since

    def ignore_before(self, bound: Instant) -> None:
        """Leave out what only concerns time before the bound, from now on."""
        self._interest.begin_at(bound)

    def ignored_rows(self) -> int:
        """How many rows were left out."""
        return self._interest.ignored


def _reach_past(rows: EventBatch, bound: Instant) -> Mask:
    """Which rows of a batch without punctuations end past a bound; of an adjust, either of its ends."""
    if rows.end is None:
        return rows.start >= bound
    past = rows.end > bound
    if rows.prior_end is not None:
        past |= (rows.kinds() == _ADJUST) & (rows.prior_end > bound)
    return past
