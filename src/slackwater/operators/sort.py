"""Puts a punctuated stream in order of time; equal times keep the order in which they came.

A punctuation guarantees that nothing older will follow, so all that is older goes out, sorted. Where several
punctuations stand in one batch, one release does for all: no row of the batch is older than a punctuation before it, so
what each would have released lies, in order, in what the last one does.

Rows that are of no interest do not come in. Of rows that wait, points are let go when they become so; at the ends of
others nobody looks until they go out.

Where rows that wait take more memory than there is, all of them are spilled, in order of time, and come back block by
block when they are due (spilled_blocks). What has been spilled came before what is in memory, so that of rows of one
time it goes first.

Invariant: everything held is at or after the last punctuation, unless more of what is due is asked for; output is
ordered.
Cost: see kernels.sorting.impatience_sort for times and rows, and row_store for what hangs on them. To spill is to
gather and to write each row once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from slackwater.columns.row_store import RowStore, RowStoreState
from slackwater.columns.spilled_blocks import SpilledBlock, SpilledBlocks, TimedRows, in_order
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.kernels.sorting.impatience_sort import ImpatienceSorter, SorterState
from slackwater.kernels.sorting.pairs import Piece, concat
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.interest import InterestedOperator
from slackwater.operators.stream_progress import StreamProgress, insert_only
from slackwater.progress.instants import FOREVER
from slackwater.progress.saturating import later

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from slackwater.columns.row_spread import RowSpread
    from slackwater.columns.spillway import Spillway
    from slackwater.events.schema import EventSchema
    from slackwater.kernels.sorting.pairs import Column
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Duration, Instant

_END = pa.field("", pa.int64())

PLACE_BYTES = 16
"""What the sorter keeps of a row: its time and its number."""


@dataclass(frozen=True)
class SortState:
    """What a sort remembers: its input's progress, the times that wait, and the rows they belong to."""

    progress: StreamProgress
    times: SorterState
    rows: RowStoreState
    spilled: tuple[SpilledBlock, ...] = ()


class SortOperator(InterestedOperator[SortState]):
    """Sorts by start, as far as punctuations allow.

    `length` is that of all events, where they have one, as in windows: then their ends need not be held.
    """

    __slots__ = (
        "_held", "_holds_ends", "_intervals", "_length", "_no_rows", "_owed", "_peak", "_progress", "_rows", "_schema",
        "_sorter", "_spilled", "_step", "_where",
    )  # fmt: skip
    state_types = (SortState, RowStoreState, SorterState, Piece, SpilledBlock, StreamProgress)
    splits = True
    spills = True

    def __init__(
        self,
        schema: EventSchema,
        step: str = "sort",
        resume: SortState | None = None,
        length: Duration | None = None,
    ) -> None:
        super().__init__()
        self._schema = schema
        self._step = step
        self._no_rows = schema.no_rows
        self._length = length
        self._intervals = schema.until is not None
        self._holds_ends = self._intervals and length is None
        self._where = f"step {step!r}"
        self._progress = resume.progress if resume else StreamProgress()
        self._sorter = ImpatienceSorter(resume.times if resume else None)
        self._held = schema.payload.append(_END) if self._holds_ends else schema.payload
        self._rows = RowStore(self._held, resume.rows if resume else None)
        self._spilled = SpilledBlocks(self._held, resume.spilled if resume else ())
        # Up to where all is due, if some of it is left for send_more.
        self._owed: Instant | None = None
        self._peak = 0

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one input
        """Take the rows in; send all that the last punctuation of the batch completes."""
        assert insert_only(batch), "a sorted stream has no adjusts"
        before = self._progress.complete_before
        self._progress = self._progress.after(batch, self._where, ordered=False)
        if batch.rows:
            data = self._interest.rows_of(batch.data())
            self._sorter.add(data.start)
            self._peak = max(self._peak, self.buffered())
            self._rows.append(
                data.payload.append_column(_END, pa.array(data.ends())) if self._holds_ends else data.payload
            )
        complete_before = self._progress.complete_before
        return self._send(complete_before) if complete_before > before else NOTHING

    def on_end(self, port: Port) -> Emission:  # noqa: ARG002 - there is one input
        """Send all that is left."""
        return self._send(FOREVER)

    def _send(self, complete_before: Instant) -> Emission:
        if self._spilled.due(complete_before):
            return self._send_step(complete_before)
        taken = self._taken(complete_before)
        punctuation = punctuation_like(self._no_rows, complete_before)
        if taken is None:
            return Emission((punctuation,))
        if not self._intervals:
            return Emission((EventBatch(taken.rows, taken.times), punctuation))
        return Emission.of(self._interest.rows_of(self._with_ends(*taken)), punctuation)

    def _send_step(self, complete_before: Instant) -> Emission:
        """Send what is due of a few blocks, with what is in memory and older; the punctuation behind the last step."""
        parts, reached, more = self._spilled.take(complete_before)
        self._owed = complete_before if more else None
        taken = self._taken(reached)
        times, rows = in_order(self._held, parts if taken is None else [*parts, taken])
        events = self._with_ends(times, rows) if self._intervals else EventBatch(rows, times)
        behind = () if more else (punctuation_like(self._no_rows, complete_before),)
        return Emission.of(self._interest.rows_of(events), *behind)

    def send_more(self) -> Emission | None:
        """The next step, if what is spilled and due was too much for those before."""
        return None if self._owed is None else self._send_step(self._owed)

    def _taken(self, complete_before: Instant) -> TimedRows | None:
        """Take out of memory what is older than a bound, in order; None if nothing is."""
        pieces = self._sorter.release(complete_before)
        if not pieces:
            return None
        times, numbers = concat(pieces)
        return TimedRows(times, self._rows.take(numbers))

    def _with_ends(self, times: Column, rows: pa.RecordBatch) -> EventBatch:
        if self._length is not None:
            within = int(times[-1]) <= FOREVER - self._length  # the last is the greatest: all honest times are
            return EventBatch(rows, times, times + self._length if within else later(times, self._length))
        payload = rows.select(range(rows.num_columns - 1))
        return EventBatch(payload, times, rows.column(rows.num_columns - 1).to_numpy())

    def ignore_before(self, bound: Instant) -> None:
        """Leave out rows that end at or before the bound; points that wait are let go."""
        super().ignore_before(bound)
        if self._intervals:
            return
        pieces = self._sorter.release(self._interest.since)
        if pieces:
            numbers = concat(pieces).rows
            self._rows.discard(numbers)
            self._interest.ignored += len(numbers)

    def spill(self, spillway: Spillway, memory: int) -> None:
        """Put all rows that are in memory elsewhere, in order of time, if they take more than so many bytes."""
        waiting = self._sorter.buffered
        size = self._rows.nbytes + PLACE_BYTES * waiting
        if not waiting or size <= memory:
            return
        block = max(spillway.block_bytes * waiting // size, 1)
        times, numbers = concat(self._sorter.release(FOREVER))
        for first in range(0, waiting, block):
            part = TimedRows(times[first : first + block], self._rows.take(numbers[first : first + block]))
            self._spilled.put(part, spillway)
        self._sorter, self._rows = ImpatienceSorter(), RowStore(self._held)

    @property
    def held_columns(self) -> pa.Schema:
        """The columns that are kept of rows that wait, besides their times."""
        return self._held

    def spilled(self) -> int:
        """How many rows wait elsewhere."""
        return len(self._spilled)

    def idle_waiting_on(self) -> Port | None:
        """The input, while rows are held: a punctuation may release them though no row comes."""
        return 0 if self.buffered() else None

    def runs(self) -> int:
        """How many ordered stretches the waiting events are in."""
        return self._sorter.runs

    def buffered(self) -> int:
        """How many rows wait."""
        return self._sorter.buffered + len(self._spilled)

    def peak_buffered(self) -> int:
        """The most rows that waited: all of a batch are taken in before any goes."""
        return self._peak

    def snapshot(self) -> SortState:
        """Return what waits. Cost: O(segments); no row is copied."""
        assert self._owed is None, "what is due must be sent before"
        return SortState(self._progress, self._sorter.snapshot(), self._rows.snapshot(), self._spilled.snapshot())

    def split(self, spreads: Sequence[RowSpread]) -> list[SortState]:
        """The rows that wait, by their keys, in order. Cost: that of sending all of them."""
        parts: list[list[EventBatch]] = [[] for _ in range(spreads[0].places)]
        for held in self._released(self.snapshot()):
            for part, rows in zip(parts, spreads[0].parts_of(held), strict=True):
                part.append(rows)
        return [self._holding(self._progress, part) for part in parts]

    def unite(self, states: Sequence[SortState]) -> SortState:
        """All rows that wait. Of equal times those come first that the first had."""
        held = (rows for state in states for rows in self._released(state))
        return self._holding(StreamProgress.least(state.progress for state in states), held)

    def _released(self, state: SortState) -> Iterator[EventBatch]:
        """All rows that wait, in order."""
        operator = SortOperator(self._schema, self._step, state, self._length)
        emission: Emission | None = operator.on_end(0)
        while emission is not None:
            yield from (batch for batch in emission.batches if batch.rows)
            emission = operator.send_more()

    def _holding(self, progress: StreamProgress, held: Iterable[EventBatch]) -> SortState:
        """What is remembered where these rows wait."""
        nothing = SortState(progress, SorterState(), RowStoreState((), 0))
        operator = SortOperator(self._schema, self._step, nothing, self._length)
        for rows in held:
            operator.on_batch(0, rows)
        return operator.snapshot()

    def check(self) -> None:
        """Assert the invariants."""
        self._sorter.check()
        self._spilled.check()
        assert len(self._rows) == self._sorter.buffered
