"""Preaggregates the rows of a batch before they are split into bands: groups are split, and rows need not be gathered.

It does what a punctuate that splits rows, the steps behind it and the aggregate's own grouping would do, in another
order: rows of all bands go through the steps together, and are grouped at once.
Cost: O(rows); that of the groups behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from slackwater.events.batch import EventBatch
from slackwater.kernels.progress.split_by_lateness import rows_of
from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slackwater.operators.aggregate.group_rows import GroupRows
    from slackwater.operators.operator import Operator
    from slackwater.progress.instants import Duration

_NO_TIMES: Final = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Preaggregate:
    """How rows become groups: steps that give each row a window and take no row away, and what is summed up."""

    steps: Sequence[Operator[Any]]
    groups: GroupRows
    window_size: Duration

    @property
    def no_groups(self) -> EventBatch:
        """What a band gets where there are none for it."""
        return EventBatch.inserts(self.groups.schema.no_rows, _NO_TIMES, _NO_TIMES)

    def split(self, groups: EventBatch, bands: NDArray[np.int16], number: int) -> list[EventBatch]:
        """The groups of each band, where they come as such; all bands are among the first, so many."""
        if not bands.any():
            return [groups, *[self.no_groups] * (number - 1)]
        return [groups.take_rows(rows_of(band, bands)) for band in range(number)]

    def by_band(self, rows: EventBatch, bands: NDArray[np.int16] | None, number: int) -> list[EventBatch]:
        """The groups of each band, in order of interval. Without `bands` all rows are of the first one.

        Rows of further bands are left out.
        """
        none = self.no_groups
        if bands is not None and bands.max(initial=0) >= number and self._may_fail(rows):
            on_time = np.flatnonzero(bands < number)
            rows, bands = rows.take_rows(on_time), bands[on_time]
        if not rows.rows:
            return [none] * number
        windowed = self._through_steps(rows)
        if bands is None:
            return [self.groups.rows(self.groups.summed_up(windowed)), *[none] * (number - 1)]
        of_bands = self.groups.summed_up_by_band(windowed, bands.astype(np.int64), number)
        return [self.groups.rows(of_band) if len(of_band) else none for of_band in of_bands]

    def _may_fail(self, rows: EventBatch) -> bool:
        """Whether a row that will be left out could stop the query: it may have no window, a function may refuse it."""
        return len(self.steps) > 1 or int(rows.start.min()) < BEGINNING + self.window_size

    def _through_steps(self, rows: EventBatch) -> EventBatch:
        for step in self.steps:
            (rows,) = step.on_batch(0, rows).batches
        return rows
