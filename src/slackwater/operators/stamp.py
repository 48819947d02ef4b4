"""Gives rows the processing time as their time: what an operator that needs times does to latent time-stamps.

The runner passes the time by on_tick before each batch, so the operator itself reads no clock.
Paper: Bai et al., ICDE 2007, section 5 (latent time-stamps).

Invariant: stamps never go back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.operator import Operator
from slackwater.progress.instants import BEGINNING, Instant

if TYPE_CHECKING:
    import pyarrow as pa

    from slackwater.progress.frontier import Port


class StampOperator(Operator[Instant]):
    """Replaces every start by the latest tick; punctuations, which are of other times, are left out."""

    __slots__ = ("_no_rows", "_now", "_punctuated_until")
    ticks = True

    def __init__(self, no_rows: pa.RecordBatch, resume: Instant | None = None) -> None:
        self._no_rows = no_rows
        self._now = BEGINNING if resume is None else resume
        self._punctuated_until = self._now

    def on_tick(self, now: Instant) -> Emission:
        """Learn the processing time; it never goes back."""
        self._now = max(now, self._now)
        return NOTHING

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one port
        """Stamp the rows with the time of the latest tick."""
        if not batch.rows:
            return NOTHING
        return Emission((EventBatch(batch.payload, np.full(batch.rows, self._now, dtype=np.int64)),))

    def on_demand(self) -> Emission:
        """Punctuate at the latest tick: whatever comes will be stamped with it or later."""
        if self._now <= self._punctuated_until:
            return NOTHING
        self._punctuated_until = self._now
        return Emission((punctuation_like(self._no_rows, self._now),))

    def on_end(self, port: Port) -> Emission:  # noqa: ARG002 - there is nothing to flush
        """Release nothing: nothing was held."""
        return NOTHING

    def snapshot(self) -> Instant:
        """Return the latest tick."""
        return self._now
