"""Rewrites the interval of every event to the windows it falls into.

One event becomes one row (tumbling, sliding) or one row per window (hopping). Punctuations are translated to the
greatest one that still holds. Its former times stay with the event, as payload columns. A row without a time is in
no window: it stays one row, without a time and with no end known. A window that would end past all times that int64 has
ends at FOREVER: it has the same events, and is complete when the stream ends.

Invariant: output punctuations never go back. Tumbling and sliding keep the order of their input. Hopping does not:
the windows of a later event reach back behind those of an earlier one. So on an ordered input it states after every
batch, by a punctuation, what had followed from the order of the input.
Cost: O(elements in and out); nothing is buffered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slackwater.errors import BadTime
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.gather import gather
from slackwater.events.shown_values import show_element
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.interest import InterestedOperator
from slackwater.operators.stream_progress import insert_only
from slackwater.progress.instants import BEGINNING, FOREVER, UNTIMED, Instant
from slackwater.progress.saturating import later

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slackwater.columns.row_spread import RowSpread
    from slackwater.events.batch import Times
    from slackwater.events.schema import EventSchema
    from slackwater.policies.windows import Window
    from slackwater.progress.frontier import Port


def windowed_schema(schema: EventSchema, step: str = "window") -> EventSchema:
    """Return the schema after a window: window_start and window_end in front, all former columns behind them."""
    return schema.with_times(schema.time.renamed("window_start"), schema.time.renamed("window_end"), step)


class WindowOperator(InterestedOperator[Instant]):
    """Assigns windows. `ordered`: the input is ordered by start; `schema` is that of the input.

    With `panes_of` the windows are panes of others: an event that has no place in those is refused, as they would.
    Its state is the last punctuation that it emitted, BEGINNING where the window keeps the order of its input.
    """

    splits = True
    __slots__ = ("_done_before", "_no_rows", "_panes_of", "_punctuated_until", "_schema", "_speaks", "_step", "_window")

    def __init__(
        self,
        window: Window,
        schema: EventSchema,
        ordered: bool,
        step: str = "window",
        resume: Instant | None = None,
        panes_of: Window | None = None,
    ) -> None:
        super().__init__()
        self._window = window
        self._panes_of = panes_of
        self._done_before = BEGINNING
        self._schema = schema
        self._no_rows = windowed_schema(schema, step).no_rows
        # Only windows of which one event can have several lose the order of the input.
        self._speaks = ordered and window.count(np.zeros(1, dtype=np.int64)) is not None
        self._step = step
        self._punctuated_until = BEGINNING if resume is None else resume

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one input
        """Rewrite the batch; punctuations keep their places."""
        assert insert_only(batch), "a windowed stream has no adjusts"
        if not len(batch):
            return NOTHING
        windowed = self._rewritten(self._of_interest(batch))
        if not self._speaks:
            return Emission.of(windowed)
        return Emission.of(windowed, *self._progress_after(batch, windowed))

    def on_end(self, port: Port) -> Emission:  # noqa: ARG002 - there is one input
        """Release nothing: nothing was held."""
        return NOTHING

    def ignore_before(self, bound: Instant) -> None:
        """Leave out events that are only in windows that end at or before the bound."""
        super().ignore_before(bound)
        self._done_before = self._window.done_before(self._interest.since)

    def of_interest_from(self, port: Port) -> Instant:  # noqa: ARG002 - there is one input
        """Windows go by the start of an event, and one of no length may start where it ends."""
        return max(self._done_before - 1, BEGINNING)

    def _of_interest(self, batch: EventBatch) -> EventBatch:
        if self._done_before == BEGINNING or not batch.rows:
            return batch
        return self._interest.keep(batch, batch.data().start >= self._done_before)

    def snapshot(self) -> Instant:
        """Return the last punctuation emitted."""
        return self._punctuated_until

    def split(self, spreads: Sequence[RowSpread]) -> list[Instant]:
        """All have emitted it."""
        return [self._punctuated_until] * spreads[0].places

    def unite(self, states: Sequence[Instant]) -> Instant:
        """The least of them."""
        return min(states)

    def _rewritten(self, batch: EventBatch) -> EventBatch:
        if not batch.rows:
            return EventBatch(self._no_rows, self._punctuations(batch.start), None, batch.kind)
        back = self._window.back(batch.start)
        count = self._window.count(batch.start)
        if self._schema.time.untimed:
            untimed = batch.start == UNTIMED
            back[untimed] = 0
            if count is not None:
                count[untimed] = 1
        if self._panes_of is None:
            self._refuse_overflow(batch, back, self._window)
        elif batch.start.min() < BEGINNING + self._panes_of.size:
            hops = self._panes_of
            self._refuse_overflow(batch, hops.back(batch.start), hops)
        first, punctuated_at = batch.start - back, batch.punctuated_at()
        first[punctuated_at] = self._punctuations(batch.start[punctuated_at])
        if count is None:
            return EventBatch(self._payload(batch), first, self._ends(first, punctuated_at), batch.kind)
        count[punctuated_at] = 1
        return self._spread(batch, first, count)

    def _spread(self, batch: EventBatch, first: Times, count: Times) -> EventBatch:
        """Repeat every element once per window, rows of one event in order of their windows."""
        element = np.repeat(np.arange(len(batch)), count)
        begins, punctuated_at = np.cumsum(count) - count, batch.punctuated_at()
        nth = np.arange(len(element)) - np.repeat(begins, count)
        start = first[element] + nth * self._window.apart
        rows = np.delete(count, punctuated_at)
        payload = gather(self._payload(batch), np.repeat(np.arange(len(rows)), rows))
        kind = None if batch.kind is None else batch.kind[element]
        return EventBatch(payload, start, self._ends(start, begins[punctuated_at]), kind)

    def _payload(self, batch: EventBatch) -> pa.RecordBatch:
        """All that was shown before, under the names that leave room for the window's own columns."""
        return pa.RecordBatch.from_arrays(self._schema.keep_times(batch).columns, schema=self._no_rows.schema)

    def _ends(self, start: Times, punctuated_at: NDArray[np.int64]) -> Times:
        ends = later(start, self._window.size)
        if self._schema.time.untimed:
            ends[start == UNTIMED] = FOREVER
        ends[punctuated_at] = start[punctuated_at]
        return ends

    def _punctuations(self, punctuations: Times) -> Times:
        # What the operator has punctuated of its own may already be further than the input is now.
        return np.maximum(self._window.punctuations(punctuations), self._punctuated_until)

    def _progress_after(self, batch: EventBatch, windowed: EventBatch) -> list[EventBatch]:
        """Return the punctuation that stands for the order of the input, if it is news."""
        self._punctuated_until = max(self._punctuated_until, int(windowed.punctuations().max(initial=BEGINNING)))
        events = batch.data().start
        if not len(events):
            return []
        reached = int(self._window.punctuations(events[-1:])[0])
        if reached <= self._punctuated_until:
            return []
        self._punctuated_until = reached
        return [punctuation_like(self._no_rows, reached)]

    def _refuse_overflow(self, batch: EventBatch, back: Times, window: Window) -> None:
        """Refuse the first event of which a window would start before all times; one that ends after them is open."""
        if batch.start.min() >= BEGINNING + window.size:
            return  # far from the beginning of time, as all honest events are
        outside = batch.start < BEGINNING + np.maximum(back, 0)  # an event in a gap is before its next window
        if self._schema.time.untimed:
            outside |= (batch.start - back == UNTIMED) & (batch.start != UNTIMED)
        data = batch.is_data()
        if data is not None:
            outside &= data
        if outside.any():
            at = int(np.flatnonzero(outside)[0])
            element = show_element(batch, at)
            raise BadTime.overflow(f"step {self._step!r}", element, f"assigning {window}")
