"""Passes on how far a stream has come, and none of its rows: for those who wait for it and read something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.events.batch import punctuation_like
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.interest import InterestedOperator
from slackwater.operators.stream_progress import StreamProgress

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from slackwater.columns.row_spread import RowSpread
    from slackwater.events.batch import EventBatch
    from slackwater.progress.frontier import Port


class ProgressOnlyOperator(InterestedOperator[StreamProgress]):
    """Punctuates where its input does; where that is ordered, at the last row of each batch, too."""

    __slots__ = ("_no_rows", "_ordered", "_progress", "_where")
    state_types = (StreamProgress,)
    splits = True

    def __init__(
        self, no_rows: pa.RecordBatch, *, ordered: bool, step: str = "progress", resume: StreamProgress | None = None
    ) -> None:
        super().__init__()
        self._no_rows = no_rows
        self._ordered = ordered
        self._where = f"step {step!r}"
        self._progress = resume or StreamProgress()

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one input
        """Punctuate as far as the input has come, if that is news."""
        before = self._progress.complete_before
        self._progress = self._progress.after(batch, self._where, ordered=self._ordered)
        reached = self._progress.complete_before
        return Emission((punctuation_like(self._no_rows, reached),)) if reached > before else NOTHING

    def on_end(self, port: Port) -> Emission:  # noqa: ARG002 - there is one input
        """Release nothing: nothing was held."""
        return NOTHING

    def snapshot(self) -> StreamProgress:
        """Return how far the input has come."""
        return self._progress

    def split(self, spreads: Sequence[RowSpread]) -> list[StreamProgress]:
        """All know how far the input has come."""
        return [self._progress] * spreads[0].places

    def unite(self, states: Sequence[StreamProgress]) -> StreamProgress:
        """As far as the least of them."""
        return StreamProgress.least(states)
