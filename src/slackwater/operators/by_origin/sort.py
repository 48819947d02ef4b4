"""Puts the rows of every source in order of time, as far as that source is complete; there is no order among sources.

Rows that go out together are in order of time, whoever sent them; equal times as they came.

Invariant: everything held is at or after the bound of its source; the rows of one source come out in order.
Cost: see rows_by_source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from slackwater.columns.row_store import RowStoreState
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.kernels.sorting.impatience_sort import SorterState
from slackwater.kernels.sorting.pairs import Piece
from slackwater.operators.by_origin.by_origin import ByOriginOperator, ByOriginSettings, ByOriginState
from slackwater.operators.by_origin.rows_by_source import RowsBySource, RowsBySourceState
from slackwater.operators.emission import Emission
from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.events.batch import Times
    from slackwater.operators.operator import Operator
    from slackwater.progress.instants import Instant

_END: Final = pa.field("", pa.int64())


class SortByOriginOperator(ByOriginOperator):
    """Sorts the rows of each source by start, as far as its own heartbeat allows."""

    __slots__ = ("_intervals", "_no_rows", "_punctuated", "_rows")
    state_types = (*ByOriginOperator.state_types, RowsBySourceState, RowStoreState, SorterState, Piece)

    def __init__(
        self,
        settings: ByOriginSettings,
        steps: Sequence[Operator[Any]] = (),
        step: str = "sort_within_origins",
        resume: ByOriginState | None = None,
    ) -> None:
        super().__init__(settings, steps, step, resume)
        self._no_rows = settings.schema.no_rows
        self._intervals = settings.schema.until is not None
        payload = settings.schema.payload
        rows, punctuated = (None, BEGINNING) if resume is None else resume.held
        self._rows = RowsBySource(payload.append(_END) if self._intervals else payload, rows)
        self._punctuated: Instant = punctuated

    def _hold(self, rows: EventBatch, sources: Times, bands: Times) -> None:  # noqa: ARG002 - there is one band
        payload = rows.payload.append_column(_END, pa.array(rows.ends())) if self._intervals else rows.payload
        self._rows.add(rows.start, sources, payload)

    def _release(self, bounds: Sequence[Times]) -> Emission:
        released, punctuation = self._rows.release(bounds[0]), self._punctuation(0)
        batches = [] if released is None else [self._shown(*released)]
        if punctuation > self._punctuated:
            self._punctuated = punctuation
            batches.append(punctuation_like(self._no_rows, punctuation))
        return Emission(tuple(batches))

    def _shown(self, times: Times, rows: pa.RecordBatch) -> EventBatch:
        if not self._intervals:
            return EventBatch(rows, times)
        *columns, ends = rows.columns
        payload = pa.RecordBatch.from_arrays(columns, schema=self._no_rows.schema)
        return EventBatch(payload, times, ends.to_numpy())

    def _waiting(self) -> Times:
        return self._rows.waiting

    def _held(self) -> Any:
        return self._rows.snapshot(), self._punctuated

    def buffered(self) -> int:
        """How many rows wait."""
        return len(self._rows)

    def peak_buffered(self) -> int:
        """The most rows that waited: all of a batch are taken in before any goes."""
        return self._rows.peak

    def check(self) -> None:
        """Assert the invariants."""
        super().check()
        self._rows.check()
