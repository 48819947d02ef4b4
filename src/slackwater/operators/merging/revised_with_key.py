"""Merges replicas that may be disordered and revised, where start and payload are a key: case R3 of LMerge.

The first replica to tell an event is believed at once; revisions are not passed on. What a punctuation freezes is made
to agree, before it is passed on, with the replica that said it. So there are never more elements than were inserted
(Theorem 1), and the output can follow any replica at any time (conditions C1 to C3).

Invariant: the output and the replica with the greatest punctuation agree on all that it has frozen.
Cost: one hash look-up per element; a punctuation costs what it freezes, and a comparison for each 128 live events.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from slackwater.events.batch import EventBatch
from slackwater.events.gather import gather
from slackwater.events.kinds import Kind
from slackwater.events.row_bytes import WORD, RowBytes, RowCodec
from slackwater.kernels import replicated_events as kernel
from slackwater.operators.merging.replica_merge import Replica, ReplicaMerge
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant

    _Column = NDArray[np.int64]
    _Arrays = tuple[_Column, _Column, NDArray[np.int32], _Column, _Column]

_LEAST_NODES: Final = 1_024
_LINES: Final = 4_096
"""Lines that a call may tell beyond one per element; it is called again when there are more."""


@dataclass(frozen=True)
class RevisedState:
    """What is remembered: the replicas, and the nodes of events that are not frozen."""

    replicas: tuple[Replica, ...]
    nodes: NDArray[np.int64]
    bounds: NDArray[np.int64]
    held: NDArray[np.int64]
    counters: NDArray[np.int64]


class MergeRevisedWithKey(ReplicaMerge[RevisedState]):
    """Tells the first version of every event, and corrects it before it freezes."""

    __slots__ = ("_bounds", "_codec", "_counters", "_held", "_nodes", "_quorum", "_table")

    def __init__(
        self,
        replicas: int,
        no_rows: pa.RecordBatch,
        where: str = "merge_replicas",
        resume: RevisedState | None = None,
        quorum: int = 1,
    ) -> None:
        super().__init__(resume.replicas if resume else (Replica(),) * replicas, no_rows, where)
        self._codec = RowCodec(no_rows.schema, where)
        self._quorum = quorum
        if resume is not None:
            self._nodes, self._bounds = resume.nodes, resume.bounds
            self._held, self._counters = resume.held, resume.counters.copy()
            self._table = np.empty(2, dtype=np.int32)
            self._make_room(0, 0, anew=True)
        else:
            self._empty()

    def _empty(self) -> None:
        self._counters = np.zeros(8, dtype=np.int64)
        self._counters[kernel.COMPLETE] = BEGINNING
        self._nodes = np.empty((0, kernel.ENDS + len(self._replicas)), dtype=np.int64)
        self._bounds = np.empty((0, len(self._replicas)), dtype=np.int64)
        self._table = np.empty(2, dtype=np.int32)
        self._held = np.empty(0, dtype=np.int64)

    @property
    def complete_before(self) -> Instant:
        """The last punctuation of the output."""
        return int(self._counters[kernel.COMPLETE])

    @property
    def ignored(self) -> int:
        """How many elements came when all was said about their time: a replica that lags behind tells many."""
        return int(self._counters[kernel.IGNORED])

    @property
    def contradicted(self) -> int:
        """How many events a replica froze otherwise than those before it, whom the output had followed."""
        return int(self._counters[kernel.CONTRADICTED])

    def _merge(self, port: Port, batch: EventBatch) -> list[EventBatch]:
        payloads = self._codec.encode(batch.payload)
        self._make_room(batch.rows, len(payloads.words))
        kinds = batch.kinds()
        rows = np.cumsum(kinds != Kind.PUNCTUATE) - 1
        lines = np.empty((len(batch) + _LINES, kernel.LINE), dtype=np.int64)
        offsets, words = payloads.offsets // WORD, payloads.words
        told, at = [], 0
        while at < len(batch):
            at, count = kernel.merge_elements(
                *self._state(), port, self._quorum, kinds, batch.start, batch.ends(), rows, offsets, words, at, lines
            )
            if count:
                told.append(self._told(batch, lines[:count]))
        return told

    def _state(self) -> _Arrays:
        return self._nodes, self._bounds, self._table, self._held, self._counters

    def _told(self, batch: EventBatch, lines: NDArray[np.int64]) -> EventBatch:
        """Make a batch of what was told: payloads of this batch, and those that are held."""
        kinds = lines[:, kernel.KIND].astype(np.int8)
        data = lines[kinds != Kind.PUNCTUATE]
        rows = data[:, kernel.OUT_FROM]
        is_held = rows == kernel.HELD
        payload = gather(batch.payload, rows[~is_held])
        if is_held.any():
            payload = self._with_held(payload, data, is_held)
        start, prior, end = (lines[:, place].copy() for place in (kernel.OUT_START, kernel.OUT_PRIOR, kernel.OUT_NEW))
        return EventBatch(payload, start, end, kinds, prior if (kinds == Kind.ADJUST).any() else None)

    def _with_held(
        self, payload: pa.RecordBatch, data: NDArray[np.int64], is_held: NDArray[np.bool_]
    ) -> pa.RecordBatch:
        begins, lengths = WORD * data[is_held, kernel.OUT_AT], WORD * data[is_held, kernel.OUT_LENGTH]
        held = self._codec.decode(RowBytes.of(self._held.view(np.uint8), begins, lengths))
        place = np.empty(len(data), dtype=np.int64)
        place[~is_held] = np.arange(payload.num_rows)
        place[is_held] = payload.num_rows + np.arange(held.num_rows)
        return gather(pa.concat_batches([payload, held]), place)

    # ---- memory ----------------------------------------------------------------------------------------------------

    def _make_room(self, nodes: int, held: int, *, anew: bool = False) -> None:
        """See that so many more nodes and words fit; where they do not, leave out those that are done with."""
        used, live = int(self._counters[kernel.NODES]), int(self._counters[kernel.LIVE])
        fits = used + nodes <= len(self._nodes) and int(self._counters[kernel.WORDS]) + held <= len(self._held)
        if fits and not anew:
            return
        room = max(_LEAST_NODES, 2 * (live + nodes))
        width = kernel.ENDS + len(self._replicas)
        alive = self._nodes[:used, kernel.LENGTH]
        kept = int(alive[alive != kernel.GONE].sum())
        before = self._nodes, self._bounds, self._held, self._counters
        self._nodes = np.empty((room, width), dtype=np.int64)
        self._bounds = np.empty((-(-room // kernel.BLOCK), len(self._replicas)), dtype=np.int64)
        self._table = np.empty(1 << (2 * room).bit_length(), dtype=np.int32)
        self._held = np.empty(2 * (kept + held), dtype=np.int64)
        kernel.move_together(*before, self._nodes, self._bounds, self._table, self._held)

    def _begin_anew(self, port: Port) -> None:
        if port == self._nodes.shape[1] - kernel.ENDS:
            self._nodes = np.hstack([self._nodes, np.empty((len(self._nodes), 1), dtype=np.int64)])
            self._bounds = np.hstack([self._bounds, np.empty((len(self._bounds), 1), dtype=np.int64)])
        self._nodes[:, kernel.ENDS + port] = kernel.NOWHERE
        self._bounds[:, port] = BEGINNING

    def _finish(self) -> None:
        complete, (ignored, contradicted) = self.complete_before, (self.ignored, self.contradicted)
        self._empty()
        self._counters[kernel.COMPLETE] = max(complete, BEGINNING)
        self._counters[kernel.IGNORED], self._counters[kernel.CONTRADICTED] = ignored, contradicted

    def buffered(self) -> int:
        """How many events are not frozen."""
        return int(self._counters[kernel.LIVE])

    def snapshot(self) -> RevisedState:
        """Return the nodes. Cost: a copy of all that lives."""
        used = int(self._counters[kernel.NODES])
        blocks = -(-used // kernel.BLOCK)
        return RevisedState(
            tuple(self._replicas),
            self._nodes[:used].copy(),
            self._bounds[:blocks].copy(),
            self._held[: int(self._counters[kernel.WORDS])].copy(),
            self._counters.copy(),
        )

    def check(self) -> None:
        """Assert the invariants."""
        used = int(self._counters[kernel.NODES])
        alive = np.flatnonzero(self._nodes[:used, kernel.LENGTH] != kernel.GONE)
        assert len(alive) == self._counters[kernel.LIVE]
        for node in alive.tolist():
            start, told = self._nodes[node, kernel.START], self._nodes[node, kernel.OUT_END]
            assert told == kernel.NOWHERE or told >= min(self.complete_before, FOREVER), (start, told)
            for port in range(len(self._replicas)):
                given = self._nodes[node, kernel.ENDS + port]
                due = min(start if given == kernel.NOWHERE else given, start if told == kernel.NOWHERE else told)
                assert self._bounds[node // kernel.BLOCK, port] <= due, (node, port)
