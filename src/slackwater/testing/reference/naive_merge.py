"""Merges revised replicas with a key by an index for each of them and one for the output: the naive case R3 of LMerge.

It gives the same answers as revised_with_key does when the first replica is believed, and is there to be measured
beside it: every replica holds its own copy of every payload, and an element is looked up several times.

Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section VI-A (LMR3-).

Invariant: a replica's index has no event that the output's index is done with, or never had.
Cost: two look-ups per element; a punctuation looks up what it may freeze, and once more, in the index of every replica,
what it does; memory grows with the number of replicas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from slackwater.columns.row_codec import RowCodec
from slackwater.events.batch import EventBatch
from slackwater.events.gather import gather
from slackwater.events.kinds import Kind
from slackwater.kernels.replicas import event_index, output_lines
from slackwater.operators.replicas.event_index import EventIndex, EventIndexState, no_bounds
from slackwater.operators.replicas.left_out import NONE_LEFT_OUT
from slackwater.operators.replicas.replica_merge import Replica, ReplicaMerge
from slackwater.progress.instants import BEGINNING
from slackwater.testing.reference import naive_merge_loops as kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slackwater.columns.row_codec import RowBytes
    from slackwater.operators.replicas.left_out import LeftOut
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant

_ADJUST, _PUNCTUATE = int(Kind.ADJUST), int(Kind.PUNCTUATE)
_LINES: Final = 4_096
"""Lines that a call may write beyond one per element; it is called again when there are more."""


@dataclass(frozen=True)
class ApartState:
    """What is remembered: the replicas, what was emitted and is not frozen, and what each replica has of that."""

    replicas: tuple[Replica, ...]
    emitted: EventIndexState
    own: tuple[EventIndexState, ...]
    bounds: NDArray[np.int64]


class MergeRevisedApart(ReplicaMerge[ApartState]):
    """Emits events as they come, and corrects them before they freeze.

    >>> from slackwater.events.elements import Insert, Punctuate, batch_of, elements_of
    >>> rows = pa.schema({"x": pa.string()})
    >>> merge = MergeRevisedApart(2, batch_of([], rows).payload)
    >>> emitted = [*merge.on_batch(0, batch_of([Insert(("a",), 2, 9)], rows)).batches]
    >>> emitted += merge.on_batch(1, batch_of([Insert(("a",), 2, 5), Punctuate(6)], rows)).batches
    >>> print(*(element for batch in emitted for element in elements_of(batch)))
    insert(('a',), 2, 9) adjust(('a',), 2, 9, 5) punctuate(6)
    """

    __slots__ = ("_codec", "_emitted", "_own")
    state_types = (ApartState, EventIndexState, *ReplicaMerge.state_types)

    def __init__(
        self,
        replicas: int,
        no_rows: pa.RecordBatch,
        where: str = "merge_replicas",
        resume: ApartState | None = None,
    ) -> None:
        super().__init__(resume.replicas if resume else (Replica(),) * replicas, no_rows, where)
        self._codec = RowCodec(no_rows.schema, where)
        emitted, bounds = (resume.emitted, resume.bounds) if resume else (None, no_bounds(replicas))
        self._emitted = _index_of_output(bounds, emitted)
        self._own = [_index(state) for state in (resume.own if resume else (None,) * replicas)]

    @property
    def complete_before(self) -> Instant:
        """The last punctuation of the output."""
        return int(self._emitted.counters[kernel.COMPLETE])

    @property
    def passed_over(self) -> int:
        """How many elements came when the output was complete past their time: of a laggard many."""
        return int(self._emitted.counters[kernel.IGNORED])

    @property
    def other_ends(self) -> int:
        """How many events a replica froze otherwise than those before it, whom the output had followed."""
        return int(self._emitted.counters[kernel.CONTRADICTED])

    def _left_out_of(self, port: Port) -> LeftOut:  # noqa: ARG002 - it is there to be measured, and does not count whose
        return NONE_LEFT_OUT

    def _merge(self, port: Port, batch: EventBatch) -> list[EventBatch]:
        payloads = self._codec.encode(batch.payload)
        self._make_room(port, batch.rows, len(payloads.words))
        lines = np.empty((output_lines.LINE, len(batch) + _LINES), dtype=np.int64)
        gone = np.empty((_LINES, 2), dtype=np.int64)
        batches, at = [], 0
        while at < len(batch):
            before = at
            at, count, leaving = self._run(port, batch, payloads, at, lines, gone)
            if count:
                batches.append(self._batch_of(batch, lines[:, :count]))
            for own in self._own if leaving else ():
                kernel.forget(*own.arrays(), self._emitted.nodes, self._emitted.held, gone, leaving)
            if at == before and not count and not leaving:
                # A replica that lacks what the output has frozen is given it, and had no room for so much.
                self._own[port].make_room(
                    len(self._emitted) + batch.rows, len(self._emitted.held) + len(payloads.words)
                )
        return batches

    def _run(
        self,
        port: Port,
        batch: EventBatch,
        payloads: RowBytes,
        at: int,
        lines: NDArray[np.int64],
        gone: NDArray[np.int64],
    ) -> tuple[int, int, int]:
        row = batch.slice(0, at).rows - 1
        times = batch.kinds(), batch.start, batch.ends()
        return kernel.merge_elements(
            *self._emitted.arrays(), self._emitted.bounds, *self._own[port].arrays(), port, *times,
            payloads.word_offsets, payloads.words, at, row, lines, gone,
        )  # fmt: skip

    def _batch_of(self, batch: EventBatch, lines: NDArray[np.int64]) -> EventBatch:
        """Make a batch of what is emitted: payloads of this batch, and those that are held."""
        kinds, rows = lines[output_lines.KIND].astype(np.int8), lines[output_lines.OUT_FROM]
        of_batch = np.flatnonzero(rows != output_lines.HELD)
        held = np.flatnonzero((rows == output_lines.HELD) & (kinds != _PUNCTUATE))
        payload = gather(batch.payload, rows[of_batch])
        if len(held):
            words = self._emitted.payloads(lines[output_lines.OUT_AT][held], lines[output_lines.OUT_LENGTH][held])
            in_turn = np.argsort(np.concatenate([of_batch, held]), kind="stable")
            payload = gather(pa.concat_batches([payload, self._codec.decode(words)]), in_turn)
        start, end = lines[output_lines.OUT_START].copy(), lines[output_lines.OUT_NEW].copy()
        prior = lines[output_lines.OUT_PRIOR].copy() if (kinds == _ADJUST).any() else None
        return EventBatch(payload, start, end, kinds, prior)

    # ---- memory ----------------------------------------------------------------------------------------------------

    def _make_room(self, port: Port, nodes: int, words: int) -> None:
        if not self._own[port].has_room(nodes, words):
            self._own[port].make_room(nodes, words)
        if not self._emitted.has_room(nodes, words):
            self._emitted.make_room(nodes, words)

    def _begin_anew(self, port: Port) -> None:
        self._own[port : port + 1] = [_index()]
        bounds = self._emitted.bounds
        if port == bounds.shape[1]:
            bounds = self._emitted.bounds = np.hstack([bounds, np.empty((len(bounds), 1), dtype=np.int64)])
        bounds[:, port] = BEGINNING

    def detach(self, port: Port) -> None:
        """Listen to a replica no longer, and forget what it has sent."""
        super().detach(port)
        self._own[port] = _index()

    def _finish(self) -> None:
        after = self._emitted.counters[event_index.COUNTERS :]
        self._emitted = _index_of_output(no_bounds(len(self._replicas)))
        self._emitted.counters[event_index.COUNTERS :] = after
        self._own = [_index() for _ in self._own]

    def buffered(self) -> int:
        """How many events are not frozen."""
        return len(self._emitted)

    def snapshot(self) -> ApartState:
        """Return all indexes. Cost: a copy of all that lives."""
        own = tuple(index.snapshot() for index in self._own)
        bounds = self._emitted.used_bounds().copy()
        return ApartState(tuple(self._replicas), self._emitted.snapshot(), own, bounds)

    def check(self) -> None:
        """Assert that indexes are sound, that the output can follow, and that no bound hides a node that is due."""
        ends = []
        for index in (self._emitted, *self._own):
            index.check()
            ends.append({self._key(index, node): int(index.nodes[node, kernel.END]) for node in index.alive().tolist()})
        emitted, own = ends[0], ends[1:]
        assert all(of_one.keys() <= emitted.keys() for of_one in own)
        assert all(end >= self.complete_before for end in emitted.values()), emitted
        for node in self._emitted.alive().tolist():
            key = self._key(self._emitted, node)
            for port, of_one in enumerate(own):
                given = of_one.get(key, kernel.NOWHERE)
                due = min(key[0] if given == kernel.NOWHERE else given, emitted[key])
                assert self._emitted.bounds[node // event_index.BLOCK, port] <= due, (node, port)

    def _key(self, index: EventIndex, node: int) -> tuple[int, tuple[int, ...]]:
        start, at, length, _ = index.nodes[node][: event_index.FIELDS].tolist()
        return start, tuple(index.held[at : at + length].tolist())


def _index(state: EventIndexState | None = None) -> EventIndex:
    return EventIndex(kernel.NODE, event_index.COUNTERS, state)


def _index_of_output(bounds: NDArray[np.int64], state: EventIndexState | None = None) -> EventIndex:
    index = EventIndex(kernel.NODE, kernel.OUTPUT_COUNTERS, state, bounds)
    if state is None:
        index.counters[kernel.COMPLETE] = BEGINNING
    return index
