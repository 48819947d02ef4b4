"""Settles a disordered and revised stream: every event goes out once, in order, with the end that it has in the end.

Events are held until a punctuation has frozen them: their ends cannot change any more. Output is in order of start, of
equal starts in an order of their payloads' own, and of equal payloads in order of end; an event that is frozen waits
for one before it that is not. So streams of one temporal table, however they come, are settled to the very same rows
in the very same order, and can be merged as replicas whose ties come alike (LMerge's case R1).

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section VI-D (Cleanse).

Invariants: output is ordered, and has inserts only. No later output starts before the output's punctuation: the least
start of what is held, or the input's punctuation where that is less.
Cost: one look-up per element and O(log held) per event. Of the punctuations of a batch the last one does for all: what
each would have let go lies, in order, in what the last one does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slackwater.columns.row_codec import RowCodec
from slackwater.errors import UnknownEvent
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.kernels.replicas import event_index
from slackwater.kernels.replicas import settled_events as kernel
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.operator import Operator
from slackwater.operators.replicas.event_index import EventIndex, EventIndexState, most_at_once
from slackwater.operators.replicas.progress_check import element_at, punctuated_after
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant


@dataclass(frozen=True)
class SettleState:
    """What is remembered: the events that are held, their order, and the last punctuations of input and output."""

    events: EventIndexState
    heap: NDArray[np.int64]
    punctuated_until: Instant
    complete_before: Instant


class SettleOperator(Operator[SettleState]):
    """Holds events until they and all older ones are frozen.

    >>> import pyarrow as pa
    >>> from slackwater.events.elements import Adjust, Insert, Punctuate, batch_of, elements_of
    >>> rows = pa.schema({"x": pa.string()})
    >>> settle = SettleOperator(batch_of([], rows).payload)
    >>> sent = [Insert(("b",), 4, 6), Insert(("a",), 2, 9), Adjust(("a",), 2, 9, 5), Punctuate(7)]
    >>> for batch in settle.on_batch(0, batch_of(sent, rows)).batches:
    ...     print(*elements_of(batch))
    insert(('a',), 2, 5) insert(('b',), 4, 6)
    punctuate(7)
    """

    __slots__ = ("_codec", "_complete", "_events", "_heap", "_no_rows", "_peak", "_punctuated_until", "_where")
    state_types = (SettleState, EventIndexState)

    def __init__(self, no_rows: pa.RecordBatch, where: str = "settle", resume: SettleState | None = None) -> None:
        self._no_rows = no_rows
        self._where = where
        self._codec = RowCodec(no_rows.schema, where)
        self._events = EventIndex(kernel.NODE, kernel.ALL_COUNTERS, resume.events if resume else None)
        self._heap = resume.heap.copy() if resume else np.empty((0, 2), dtype=np.int64)
        self._punctuated_until = resume.punctuated_until if resume else BEGINNING
        self._complete = resume.complete_before if resume else BEGINNING
        self._peak = 0

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one input
        """Take the elements in; let go of all that the last punctuation of the batch allows."""
        if not len(batch):
            return NOTHING
        punctuated = punctuated_after(batch, self._punctuated_until, self._where)
        if batch.rows:
            self._take(batch)
        if punctuated == self._punctuated_until:
            return NOTHING
        self._punctuated_until = punctuated
        return self._let_go(punctuated, punctuated - 1)

    def on_end(self, port: Port) -> Emission:  # noqa: ARG002 - there is one input
        """Let go of everything: nothing can change any more."""
        self._punctuated_until = FOREVER
        return self._let_go(FOREVER, FOREVER)

    def _take(self, batch: EventBatch) -> None:
        payloads = self._codec.encode(batch.payload)
        self._make_room(batch.rows, len(payloads.words))
        times = batch.start, batch.prior_ends(), batch.ends()
        self._peak = max(self._peak, self.buffered() + most_at_once(batch))
        unknown = kernel.take_elements(
            *self._events.arrays(), self._heap, batch.kinds(), *times, payloads.word_offsets, payloads.words
        )
        if unknown != kernel.ALL_FIT:
            raise UnknownEvent.adjusted_by(self._where, element_at(batch, unknown))

    def _let_go(self, complete_before: Instant, last: Instant) -> Emission:
        """Send what is frozen where ends up to the last one are, and punctuate as far as that is complete."""
        nodes, _, held, counters = self._events.arrays()
        # Memory that nobody writes to costs nothing, so there may be room for all.
        out = np.empty((kernel.OUT, len(self._events)), dtype=np.int64)
        count = kernel.release(nodes, held, counters, self._heap, last, out)
        if counters[kernel.QUEUED]:
            complete_before = min(complete_before, int(self._heap[0, 0]))
        punctuation = []
        if complete_before > self._complete:
            self._complete = complete_before
            punctuation = [punctuation_like(self._no_rows, complete_before)]
        return Emission.of(*([self._rows(out[:, :count])] if count else []), *punctuation)

    def _rows(self, out: NDArray[np.int64]) -> EventBatch:
        """Make a batch of lines that went out."""
        often = out[kernel.OUT_COUNT]
        if len(often) and often.max() > 1:
            out = np.repeat(out, often, axis=1)
        payloads = self._events.payloads(out[kernel.OUT_AT], out[kernel.OUT_LENGTH])
        start, end = out[kernel.OUT_START].copy(), out[kernel.OUT_END].copy()
        return EventBatch.inserts(self._codec.decode(payloads), start, end)

    def _make_room(self, nodes: int, words: int) -> None:
        if not self._events.has_room(nodes, words):
            self._move_together(nodes, words)

    def _move_together(self, nodes: int, words: int) -> None:
        """Keep what lives alone, with room for so much more."""
        moved_to = self._events.make_room(nodes, words)
        before, self._heap = self._heap, np.empty((len(self._events.nodes), 2), dtype=np.int64)
        queued = int(self._events.counters[kernel.QUEUED])
        self._heap[:queued] = before[:queued]
        kernel.renumber(self._events.nodes, self._heap, self._events.counters, moved_to)

    def idle_waiting_on(self) -> Port | None:
        """The input, while events are held: a punctuation may release them though no element comes."""
        return 0 if self.buffered() else None

    def buffered(self) -> int:
        """How many events are held."""
        return int(self._events.counters[kernel.EVENTS])

    def peak_buffered(self) -> int:
        """The most events that were held, between two elements of a batch, too."""
        return self._peak

    def snapshot(self) -> SettleState:
        """Return what is held. Cost: a copy of it.

        What is done with is let go first: it need not be stored, and the state does not show how old the operator is.
        """
        if len(self._events) < int(self._events.counters[event_index.NODES]):
            self._move_together(0, 0)
        queued = int(self._events.counters[kernel.QUEUED])
        return SettleState(self._events.snapshot(), self._heap[:queued].copy(), self._punctuated_until, self._complete)

    def check(self) -> None:
        """Assert that the index is sound, that the heap has every start and payload once, and that ends rise."""
        self._events.check()
        nodes, _, _, counters = self._events.arrays()
        heap = self._heap[: int(counters[kernel.QUEUED])]
        alive = self._events.alive()
        listed = alive[nodes[:, event_index.HASH][alive] != event_index.UNLISTED]
        assert sorted(heap[:, 1].tolist()) == listed.tolist()
        assert (heap[:, 0] == nodes[:, event_index.START][heap[:, 1]]).all()
        above = (np.arange(len(heap)) - 1) // 2
        assert (heap[1:, 0] >= heap[above[1:], 0]).all()
        assert (heap[:, 0] >= self._complete).all()
        assert self._complete <= self._punctuated_until
        seen = events = 0
        for first in listed.tolist():
            node, before = first, BEGINNING
            while node != kernel.NOBODY:
                end, count, following = nodes[node, kernel.END : kernel.NODE].tolist()
                assert count > 0 or (node == first and following == kernel.NOBODY)
                assert end > before or node == first, (end, before)
                seen, events, node, before = seen + 1, events + count, following, end
        assert seen == len(self._events)
        assert events == self.buffered()
