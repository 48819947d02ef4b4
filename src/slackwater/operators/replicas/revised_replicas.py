"""What the merges of revised replicas share: nodes of events that are not frozen, in arrays that kernels work on."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from slackwater.columns.row_codec import WORD, RowCodec
from slackwater.errors import BadElement, message
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.gather import gather
from slackwater.events.kinds import Kind
from slackwater.kernels.replicas import merged_events as merged
from slackwater.kernels.replicas import replica_standing as standing
from slackwater.kernels.replicas.event_index import AT, BLOCK, GONE, LENGTH, NODES, START
from slackwater.kernels.replicas.output_lines import (
    CONTRADICTED_EVENT,
    HELD,
    KIND,
    LINE,
    OUT_AT,
    OUT_FROM,
    OUT_LENGTH,
    OUT_NEW,
    OUT_PRIOR,
    OUT_START,
    PASSED_OVER_ADJUST,
    PASSED_OVER_INSERT,
    PUNCTUATE,
    sum_up,
)
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.replicas.diverted_rows import CONTRADICTED, PASSED_OVER, REVISION_PASSED_OVER
from slackwater.operators.replicas.event_index import EventIndex, EventIndexState, no_bounds
from slackwater.operators.replicas.left_out import LeftOut
from slackwater.operators.replicas.open_events import NO_OPEN_EVENTS, OpenEvents
from slackwater.operators.replicas.overlap import Overlap
from slackwater.operators.replicas.progress_check import element_at
from slackwater.operators.replicas.replica_merge import Replica, ReplicaMerge
from slackwater.policies.agreement import Agreement, Emit, Revise
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.progress.saturating import within_int64

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from slackwater.columns.row_codec import RowBytes
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant

    _Column = NDArray[np.int64]

_INSERT, _ADJUST = int(Kind.INSERT), int(Kind.ADJUST)  # plain numbers compare faster
_LINES: Final = 4_136
"""Lines that a call may write beyond one per element; it is called again when there are more.

Not a power of two: the columns of the lines would lie so that the processor takes them for each other.
"""


@dataclass(frozen=True)
class RevisedState:
    """What is remembered: the replicas, and the nodes of events that are not frozen."""

    replicas: tuple[Replica, ...]
    nodes: NDArray[np.int64]
    bounds: NDArray[np.int64]
    held: NDArray[np.int64]
    counters: NDArray[np.int64]
    standing: NDArray[np.int64]
    """How each replica stands among the others."""


StateT = TypeVar("StateT", bound=RevisedState)

_FIRST = {
    Emit.BY_QUORUM: standing.WHEN_QUORUM,
    Emit.LEADING: standing.WHEN_LEADING,
    Emit.NEWEST: standing.WHEN_NEWEST,
    Emit.FULLEST: standing.WHEN_FULLEST,
    Emit.HALF_FROZEN: standing.WHEN_HALF_FROZEN,
    Emit.FROZEN: standing.WHEN_FROZEN,
}
_REASONS = {PASSED_OVER_INSERT: PASSED_OVER, PASSED_OVER_ADJUST: REVISION_PASSED_OVER}
_REVISION = {
    Revise.WHEN_FROZEN: standing.REVISE_WHEN_FROZEN,
    Revise.ALWAYS: standing.REVISE_ALWAYS,
    Revise.LEADING: standing.REVISE_WHEN_LEADING,
}


def _fresh(replicas: int) -> _Column:
    """The standing of replicas that have sent nothing."""
    fresh = np.zeros((replicas, standing.STANDING), dtype=np.int64)
    fresh[:, [standing.PUNCTUATED, standing.NEWEST]] = BEGINNING
    return fresh


class RevisedReplicas(ReplicaMerge[StateT]):
    """Holds one node for each start and payload; subclasses decide what a replica's elements do to them.

    `final`: no replica revises anything, so that an event is frozen as soon as its start is.
    """

    __slots__ = (
        "_agreement",
        "_codec",
        "_events",
        "_final",
        "_lag",
        "_lines",
        "_rules",
        "_standing",
    )

    def __init__(
        self,
        replicas: int,
        no_rows: pa.RecordBatch,
        where: str = "merge_replicas",
        resume: StateT | None = None,
        agreement: Agreement | None = None,
        ordered: Sequence[Port] = (),
        *,
        final: bool = False,
        diverts: bool = False,
    ) -> None:
        known = resume.replicas if resume else (Replica(),) * replicas
        super().__init__(known, no_rows, where, ordered, diverts=diverts)
        self._codec = RowCodec(no_rows.schema, where)
        # Kept from batch to batch, for memory is dear to get.
        self._lines = np.empty((LINE, 0), dtype=np.int64)
        if resume is None:
            self._empty()
        else:
            self._restore(resume)
        self._agreement = agreement or Agreement.first()
        self._final = final
        assert isinstance(self._agreement.lag, int), "a lag in the units of the stream"
        self._lag = self._agreement.lag
        self._rules = self._as_rules()
        if final and self._agreement.emit is Emit.FROZEN:
            self.sample_overlap()

    def _empty(self) -> None:
        self._events = self._index(None, no_bounds(len(self._replicas)))
        self._events.counters[[merged.COMPLETE, merged.SETTLED]] = BEGINNING
        self._standing = _fresh(len(self._replicas))

    def _restore(self, state: StateT) -> None:
        self._events = self._index(EventIndexState(state.nodes, state.held, state.counters), state.bounds)
        self._standing = state.standing.copy()
        self._events.counters[merged.PEAK] = len(self._events)

    def _index(self, state: EventIndexState | None, bounds: _Column) -> EventIndex:
        return EventIndex(merged.ENDS + len(self._replicas), merged.ALL_COUNTERS, state, bounds)

    @abstractmethod
    def _run(self, port: Port, batch: EventBatch, payloads: RowBytes, at: int, row: int) -> tuple[int, int]:
        """Take elements of a replica from a place on, `row` rows after the first, and write lines of what is emitted.

        Return where it stopped, and how many lines there are.
        """

    def _as_rules(self) -> _Column:
        """The agreement in numbers; a quorum is one of those replicas that are listened to."""
        chosen = self._agreement
        attached = sum(replica.attached for replica in self._replicas)
        quorum = max(1, math.ceil(chosen.quorum * attached))
        first = standing.WHEN_FINAL if self._final and chosen.emit is Emit.FROZEN else _FIRST[chosen.emit]
        return np.array([first, quorum, _REVISION[chosen.revise], self._lag, self._diverted.wanted])

    def live_events(self, port: Port) -> int:
        """How many of the events that are held a replica has."""
        return int(self._standing[port, standing.LIVE_EVENTS])

    def _live_events(self, port: Port) -> int:
        return self.live_events(port)

    def _agree_before(self, port: Port, t: Instant) -> list[EventBatch]:
        return super()._agree_before(port, within_int64(t + self._lag))

    @property
    def complete_before(self) -> Instant:
        """The last punctuation of the output."""
        return int(self._events.counters[merged.COMPLETE])

    @property
    def other_ends(self) -> int:
        """How many events a replica froze with another end than those before it, whom the output had followed."""
        return int(self._events.counters[merged.OTHER_ENDS])

    def _left_out_of(self, port: Port) -> LeftOut:
        duplicates, contradicted, passed_over, revised = self._standing[port, standing.DUPLICATES :].tolist()
        return LeftOut(duplicates, contradicted, passed_over, revised)

    def _known_overlap(self) -> Overlap:  # asked for after each batch, and there may be many replicas
        return Overlap(*self._standing[:, [standing.DUPLICATES, standing.CONTRADICTED]].sum(axis=0).tolist())

    def _uncount(self, port: Port, rows: int) -> None:
        self._standing[port, standing.DUPLICATES] -= rows

    @abstractmethod
    def _count_unsent(self) -> int:
        """How many events are still to be emitted, or left out."""

    def open_events(self) -> OpenEvents:
        """The events without an end that hold up the output: a punctuation has passed their starts. Cost: O(nodes)."""
        if self._rules[standing.FIRST_RULE] != standing.WHEN_FROZEN:
            return NO_OPEN_EVENTS
        alive = self._events.nodes[self._events.alive()]
        passed = alive[(alive[:, START] < self._events.counters[merged.SETTLED]) & (alive[:, merged.MOST] > 0)]
        ends = self._last_ends(passed)
        is_open = (ends == FOREVER).any(axis=1)
        if not is_open.any():
            return NO_OPEN_EVENTS
        lacked_by = (ends[is_open] == merged.NOWHERE).sum(axis=0).tolist()
        return OpenEvents(int(is_open.sum()), int(passed[is_open, START].min()), tuple(lacked_by))

    @abstractmethod
    def _last_ends(self, nodes: _Column) -> _Column:
        """The last end that each replica gives the event of each of some nodes; NOWHERE where it has none."""

    def left_out(self) -> LeftOut:
        """What became of the rows that did not go out. Cost: O(nodes)."""
        corrections = int(self._events.counters[merged.CORRECTIONS])
        return super().left_out() + LeftOut(corrections=corrections, unsent=self._count_unsent())

    def _merge(self, port: Port, batch: EventBatch) -> list[EventBatch]:
        self._refuse_empty(port, batch)
        payloads = self._codec.encode(batch.payload)
        self._make_room(batch.rows, len(payloads.words))
        if len(batch) + _LINES > self._lines.shape[1]:
            self._lines = np.empty((LINE, len(batch) + _LINES), dtype=np.int64)
        emitted, at, row = [], 0, 0
        while at < len(batch):
            at, count = self._run(port, batch, payloads, at, row)
            if count:
                emitted.append(self._emitted(batch, self._lines[:, :count]))
            elif at < len(batch):
                # One event has more to be corrected than there are lines.
                self._lines = np.empty((LINE, 2 * self._lines.shape[1]), dtype=np.int64)
            if at < len(batch):
                row = at - len(batch.slice(0, at).punctuations())
        return emitted

    def _refuse_empty(self, port: Port, batch: EventBatch) -> None:
        """Refuse an event that ends when it starts: it could not be distinguished from one that was taken back."""
        if batch.end is None:
            return
        empty = batch.end <= batch.start
        empty &= batch.kinds() == _INSERT
        if empty.any():
            facts = {"replica": port, "element": element_at(batch, int(np.argmax(empty)))}
            hint = "leave such events out by where(), or let them last"
            raise BadElement(message(f"{self._where} got an event that ends when it starts", facts, hint))

    def _emitted(self, batch: EventBatch, lines: NDArray[np.int64]) -> EventBatch:
        """Make a batch of what is emitted; lines of rows that are left out go their own way."""
        if self._diverted.wanted:
            left_out = lines[KIND] > PUNCTUATE
            self._divert(batch, lines[:, left_out])
            lines = lines[:, ~left_out]
        kinds, payloads = np.empty(lines.shape[1], dtype=np.int8), np.empty((3, lines.shape[1]), dtype=np.int64)
        count, held, adjusts = sum_up(lines, kinds, payloads)
        rows, begins, lengths = payloads[:, :count]
        if not held:
            payload = gather(batch.payload, rows)
        else:
            # Those of the batch are held by now, too: one way for all is shorter than two and a third to bring them
            # together.
            payload = self._codec.decode_some(self._events.held.view(np.uint8), WORD * begins, WORD * lengths)
        start, end = lines[OUT_START].copy(), lines[OUT_NEW].copy()
        prior = None
        if adjusts:
            prior = lines[OUT_PRIOR].copy()
            # One that takes an event back corrects what the insert had added, so that both add nothing.
            self._events.counters[merged.CORRECTIONS] += adjusts + np.count_nonzero((kinds == _ADJUST) & (end == start))
        return EventBatch(payload, start, end, kinds, prior)

    def _divert(self, batch: EventBatch, lines: NDArray[np.int64]) -> None:
        """Take rows that are left out, which lines name: those of the batch, and events that are held."""
        of_batch = lines[:, lines[OUT_FROM] != HELD]
        passed_over = gather(batch.payload, of_batch[OUT_FROM])
        reasons = [_REASONS[kind] for kind in of_batch[KIND].tolist()]
        rows = EventBatch(passed_over, of_batch[OUT_START].copy(), of_batch[OUT_NEW].copy())
        self._diverted.add(rows, of_batch[OUT_PRIOR], reasons)
        self._divert_held(lines[:, lines[OUT_FROM] == HELD])

    def _divert_held(self, lines: NDArray[np.int64]) -> None:
        """Take events that are contradicted, whose payloads are held."""
        places, lengths = WORD * lines[OUT_AT], WORD * lines[OUT_LENGTH]
        payload = self._codec.decode_some(self._events.held.view(np.uint8), places, lengths)
        rows = EventBatch(payload, lines[OUT_START].copy(), lines[OUT_NEW].copy())
        self._diverted.add(rows, lines[OUT_PRIOR], CONTRADICTED)

    # ---- what nobody can add to ------------------------------------------------------------------------------------

    def release_before(self, t: Instant) -> Emission:
        """Let all go that starts before an instant, as often as the replica has it that has it most.

        It is for points, of which whoever asks knows that no replica can send more: nobody contradicts any. Cost: what
        goes, and a comparison for each 128 live events.
        """
        if t <= self._events.counters[merged.SETTLED]:
            return NOTHING
        if not self._replicas:
            self._events.counters[[merged.COMPLETE, merged.SETTLED]] = t
            return self._emission([punctuation_like(self._no_rows, t)])
        waiting = self.waits_to_join()
        # Whoever has most has to be given least.
        port = int(self._standing[:, standing.LIVE_EVENTS].argmax())
        others = self._held_by_others(port, t)
        emitted = self._merge(port, others) if others.rows else []
        self._uncount(port, others.rows)
        emitted += self._merge(port, punctuation_like(self._no_rows, t))
        return self._emission([*emitted, *self._joined(waiting)])

    def _held_by_others(self, port: Port, before: Instant) -> EventBatch:
        """The points that start before a time which a replica does not have, or not as often as another."""
        used = int(self._events.counters[NODES])
        due = np.flatnonzero(self._events.used_bounds()[:, port] < before)
        places = (due[:, None] * BLOCK + np.arange(BLOCK)).ravel()
        nodes = self._events.nodes[places[places < used]]
        nodes = nodes[(nodes[:, LENGTH] != GONE) & (nodes[:, START] < before)]
        copies = self._copies_of(nodes)
        nodes = np.repeat(nodes, copies.max(axis=1, initial=0) - copies[:, port], axis=0)
        rows = self._codec.decode_some(self._events.held.view(np.uint8), WORD * nodes[:, AT], WORD * nodes[:, LENGTH])
        return EventBatch.inserts(rows, nodes[:, START].copy())

    @abstractmethod
    def _copies_of(self, nodes: _Column) -> _Column:
        """How often each replica has the point of each of some nodes: a row for each, a column for each replica."""

    # ---- memory ----------------------------------------------------------------------------------------------------

    def _make_room(self, nodes: int, words: int, *, anew: bool = False) -> None:
        """See that so many more nodes and words fit; where they do not, leave out those that are done with."""
        if anew or not self._events.has_room(nodes, words):
            self._events.make_room(nodes, words)

    def _begin_anew(self, port: Port) -> None:
        if port == self._events.nodes.shape[1] - merged.ENDS:
            events = self._events
            events.nodes = np.hstack([events.nodes, np.empty((len(events.nodes), 1), dtype=np.int64)])
            events.bounds = np.hstack([events.bounds, np.empty((len(events.bounds), 1), dtype=np.int64)])
            self._standing = np.vstack([self._standing, _fresh(1)])
        self._forget_events_of(port)

    def detach(self, port: Port) -> None:
        """Listen to a replica no longer: it leads nobody, and what it has counts for no quorum."""
        super().detach(port)
        self._forget_events_of(port)

    def _forget_events_of(self, port: Port) -> None:
        counted = self._events.nodes[:, [merged.MOST, merged.ENDS + port]].copy() if self._diverted.wanted else None
        self._events.nodes[:, merged.ENDS + port] = merged.NOWHERE
        self._leave_out_what_only_it_had(port)
        if counted is not None:
            self._divert_what_only_it_had(port, counted)
        self._events.bounds[:, port] = BEGINNING
        self._standing[port, : standing.DUPLICATES] = _fresh(1)[0, : standing.DUPLICATES]
        self._rules = self._as_rules()

    @abstractmethod
    def _leave_out_what_only_it_had(self, port: Port) -> None:
        """Count the events as contradicted that are not in the output, and that nobody has any more."""

    def _divert_what_only_it_had(self, port: Port, counted: _Column) -> None:
        """Take the events that only a replica had which is gone; `counted` has of each node how many, and its ends."""
        alive = self._events.alive()
        left_out = counted[alive, 0] - self._events.nodes[alive, merged.MOST]
        lines: list[list[int]] = []
        for node, count in zip(alive[left_out > 0].tolist(), left_out[left_out > 0].tolist(), strict=True):
            start, at, length = self._events.nodes[node, [START, AT, LENGTH]].tolist()
            ends = self._ends_not_in_output(node, int(counted[node, 1]))[:count]
            lines += ([CONTRADICTED_EVENT, start, port, end, HELD, at, length] for end in ends)
        self._divert_held(np.array(lines, dtype=np.int64).reshape(-1, LINE).T)

    @abstractmethod
    def _ends_not_in_output(self, node: int, given: int) -> list[Instant]:
        """The ends that a replica gave the events of a node, as the node had them, but for those in the output."""

    def forget_held(self) -> None:
        """Forget the events that are not emitted: whoever asks for it has sent them on."""
        self._finish()

    def _finish(self) -> None:
        kept = [merged.OTHER_ENDS, merged.CORRECTIONS, merged.PEAK]
        complete, counts, left_out = self.complete_before, self._events.counters[kept], self._standing
        self._empty()
        self._events.counters[[merged.COMPLETE, merged.SETTLED]] = complete
        self._events.counters[kept] = counts
        self._standing[:, standing.DUPLICATES :] = left_out[:, standing.DUPLICATES :]

    def buffered(self) -> int:
        """How many events are not frozen."""
        return len(self._events)

    def peak_buffered(self) -> int:
        """The most events that were not frozen, between two elements of a batch, too."""
        return int(self._events.counters[merged.PEAK])

    def _snapshot(self) -> RevisedState:
        self._make_room(0, 0, anew=True)  # what is done with is not worth storing
        events, bounds = self._events.snapshot(), self._events.used_bounds().copy()
        events.counters[merged.PEAK] = 0  # which is no part of the state
        return RevisedState(
            tuple(self._replicas), events.nodes, bounds, events.held, events.counters, self._standing.copy()
        )

    def check(self) -> None:
        """Assert that the index is sound."""
        self._events.check()
