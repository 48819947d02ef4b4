"""Names the replicas that contradict the others, with the events: what they lack, and what only they have.

A merge believes one replica and goes on; this step shows where another would have led to another output. Events are
held until all replicas have come so far that they are fully frozen in each: past their ends, or, where replicas only
insert (`final`), past their starts. Then it is counted how many times each replica has the event. The number that most
of them have is taken to be right; where two numbers are as frequent, that of the replica with the least number. Every
other replica gets a row: the event, the replica, and how it differs.

    divergence      the replica has the event
    missing         fewer times than most, and fewer events of that start and payload
    missing end     fewer times than most, and as many events of that start and payload: they end otherwise
    extra           more times than most, and more events of that start and payload
    different end   more times than most, and no more events of that start and payload: the others' end otherwise

So an event to which a replica gives another end than the others makes two rows, each as soon as it is known: the end
that is missing, and the one that is different.

An event that has no end may get one as long as replicas that revise go on. When all have ended it is compared in those
that are complete past its start: it is missing, or extra, where they have fewer or more events of that start and
payload than most; ends are not compared.

A replica that ends may have been cut off: it is compared up to its last punctuation, and what it did not send after
that is no contradiction. Nor does what steps above it flush then guarantee anything: it may lack what was still on its
way. One that is attached late is compared in the events that start from its time on, or from where the comparison had
come by then. One that is detached is not compared any more. A replica that is complete before FOREVER has everything.

Invariants: whatever the interleaving, the rows are those of the replicas' temporal tables. Output is not ordered; no
later row starts before the output's punctuation.
Cost: see kernels.replicas.compared_events. A replica that falls behind holds everything back, in memory, too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from slackwater.columns.row_codec import RowCodec
from slackwater.errors import PlanError, SchemaMismatch, UnknownEvent, message
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.gather import no_rows
from slackwater.kernels.replicas import compared_events as kernel
from slackwater.kernels.replicas import counted_ends, event_index
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.operator import Operator
from slackwater.operators.replicas.event_index import EventIndex, EventIndexState, most_at_once, no_bounds
from slackwater.operators.replicas.progress_check import element_at, punctuated_after
from slackwater.operators.replicas.replica_merge import Replica
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slackwater.events.schema import EventSchema
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant

MISSING: Final = "missing"
MISSING_END: Final = "missing end"
EXTRA: Final = "extra"
DIFFERENT_END: Final = "different end"

_WORDS = (MISSING, MISSING_END, EXTRA, DIFFERENT_END)  # by number, as in kernels.replicas.compared_events
_ADDED = pa.schema([pa.field("replica", pa.int32()), pa.field("divergence", pa.string())])
_LEAST_ENTRIES: Final = 1_024
_LINES: Final = 4_096
"""Rows that a comparison reports at once; there may be more."""


def divergence_schema(schema: EventSchema, step: str = "compare_replicas") -> EventSchema:
    """Return the schema of contradictions: all columns, then the number of the replica and how it differs.

    >>> from slackwater.events.schema import EventSchema
    >>> divergence_schema(EventSchema.of(pa.schema({"at": pa.int64(), "x": pa.string()}), time="at")).columns
    ('at', 'x', 'replica', 'divergence')
    """
    for name in _ADDED.names:
        if name in schema.columns:
            raise SchemaMismatch.clash(step, name, "leave the column out, or rename it, with select() first")
    return schema.with_payload(pa.schema([*schema.payload, *_ADDED]), [*schema.columns, *_ADDED.names])


@dataclass(frozen=True)
class CompareState:
    """What is remembered: the replicas, the events that wait, how far was compared and punctuated, and the counts."""

    replicas: tuple[Replica, ...]
    events: EventIndexState
    entries: NDArray[np.int64]
    bounds: NDArray[np.int64]
    compared: Instant
    complete_before: Instant
    counts: tuple[int, ...]


class CompareReplicasOperator(Operator[CompareState]):
    """Emits what replicas do not agree on.

    >>> from slackwater.events.elements import Insert, Punctuate, batch_of, elements_of
    >>> from slackwater.events.schema import EventSchema
    >>> schema = EventSchema.of(pa.schema({"at": pa.int64(), "until": pa.int64(), "x": pa.string()}), "at", "until")
    >>> compare = CompareReplicasOperator(2, schema)
    >>> sent = [Insert(("a",), 2, 4), Insert(("b",), 3, 5), Punctuate(9)]
    >>> for port, elements in enumerate([sent, sent[1:]]):
    ...     for batch in compare.on_batch(port, batch_of(elements, schema.payload)).batches:
    ...         print(*elements_of(batch))
    insert(('a', 1, 'missing'), 2, 4)
    punctuate(9)
    >>> compare.counts()
    (0, 1)
    """

    __slots__ = (
        "_codec",
        "_compared",
        "_complete",
        "_entries",
        "_events",
        "_final",
        "_no_rows",
        "_ordered",
        "_payload",
        "_peak",
        "_replicas",
        "_step",
        "_tally",
    )
    state_types = (CompareState, EventIndexState, Replica, EventBatch)

    def __init__(
        self,
        replicas: int,
        schema: EventSchema,
        step: str = "compare_replicas",
        resume: CompareState | None = None,
        ordered: Sequence[Port] = (),
        *,
        final: bool = False,
    ) -> None:
        self._step = step
        self._final = final
        self._ordered = frozenset(ordered)
        self._payload = divergence_schema(schema, step).payload
        self._no_rows = no_rows(self._payload)
        self._codec = RowCodec(schema.payload, step)
        self._replicas = list(resume.replicas) if resume else [Replica()] * replicas
        self._compared = resume.compared if resume else BEGINNING
        self._complete = resume.complete_before if resume else BEGINNING
        self._tally = np.array(resume.counts if resume else [0] * replicas, dtype=np.int64)
        self._peak = 0
        self._hold(resume)

    def _hold(self, state: CompareState | None) -> None:
        """Hold the events of a state, or none."""
        columns = event_index.FIELDS + kernel.OF_REPLICA * len(self._replicas)
        events, bounds = (state.events, state.bounds) if state else (None, no_bounds(kernel.BOUNDS))
        self._events = EventIndex(columns, kernel.ALL_COUNTERS, events, bounds)
        self._entries = state.entries.copy() if state else counted_ends.empty_entries()

    def counts(self) -> tuple[int, ...]:
        """How many rows each replica has got so far."""
        return tuple(self._tally.tolist())

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:
        """Take what a replica sends; compare as far as all have come. One that is detached is not listened to."""
        replica = self._replicas[port]
        if not replica.attached or not len(batch):
            return NOTHING
        where = f"{self._step}, replica {port},"
        complete = punctuated_after(batch, replica.complete_before, where)
        if batch.rows:
            self._peak = max(self._peak, self.buffered() + most_at_once(batch, replica.complete_from))
            self._take(port, batch, where)
            if port in self._ordered and not replica.ending:
                # On an ordered stream an event is as good as a punctuation at its own time.
                complete = max(complete, int(batch.data().start[-1]))
        self._replicas[port] = replace(replica, complete_before=complete)
        return self._compare()

    def mark_end_untrusted(self, port: Port, newest: Instant) -> None:
        """Learn that the sources of a replica have ended, at a newest time: what comes now is no more than a flush."""
        self._replicas[port] = replace(self._replicas[port], ending=True, newest=newest)

    def on_end(self, port: Port) -> Emission:
        """Note that a replica has ended, and wait for it no longer; after the last one nothing is held."""
        self._replicas[port] = replace(self._replicas[port], ended=True)
        if not all(replica.ended or not replica.attached for replica in self._replicas):
            return self._compare()
        emission = self._compare(ended=True)
        self._hold(None)
        return emission

    def on_demand(self) -> Emission:
        """Compare as far as all have come, where that is further since a replica was detached."""
        return self._compare()

    def attach(self, port: Port, complete_from: Instant) -> None:
        """Listen to a replica, a new one or one that was detached, that has everything from a time on."""
        if port > len(self._replicas) or (port < len(self._replicas) and self._replicas[port].attached):
            facts = {"replica": port, "replicas": len(self._replicas)}
            raise PlanError(message(f"{self._step} cannot attach a replica in this place", facts))
        if port == len(self._replicas):
            self._tally = np.append(self._tally, 0)
            nodes = self._events.nodes
            self._events.nodes = np.hstack([nodes, np.tile([counted_ends.NO_ENTRY, 0], (len(nodes), 1))])
        self._replicas[port : port + 1] = [Replica(max(complete_from, self._compared))]

    def detach(self, port: Port) -> None:
        """Listen to a replica no longer, and forget what it has sent."""
        self._replicas[port] = replace(self._replicas[port], attached=False)
        kernel.forget_replica(self._events.nodes, self._entries, self._events.counters, self._events.bounds, port)

    def _take(self, port: Port, batch: EventBatch, where: str) -> None:
        payloads = self._codec.encode(batch.payload)
        self._make_room(batch.rows, len(payloads.words))
        times = batch.start, batch.prior_ends(), batch.ends()
        unknown = kernel.take_elements(
            *self._events.arrays(), self._entries, self._events.bounds, port, self._replicas[port].complete_from,
            self._final, batch.kinds(), *times, payloads.word_offsets, payloads.words,
        )  # fmt: skip
        if unknown != kernel.ALL_FIT:
            raise UnknownEvent.adjusted_by(where, element_at(batch, unknown))

    def _all_have_come(self) -> Instant:
        """How far all have come; when all have ended, how far the furthest came."""
        going_on = [replica.complete_before for replica in self._replicas if replica.attached and not replica.ended]
        ended = [replica.complete_before for replica in self._replicas if replica.attached]
        return max(self._compared, min(going_on) if going_on else max(ended, default=BEGINNING))

    def _compare(self, *, ended: bool = False) -> Emission:
        reached = self._all_have_come()
        if reached == self._compared and not ended:
            return NOTHING
        self._compared = reached
        # Who has not ended, but is complete before FOREVER, does not go on either.
        found = self._differences(ended=ended or reached == FOREVER)
        waiting = int(self._events.used_bounds()[:, kernel.LEAST_START].min(initial=FOREVER))
        punctuation = []
        if min(reached, waiting) > self._complete:
            self._complete = min(reached, waiting)
            punctuation = [punctuation_like(self._no_rows, self._complete)]
        return Emission.of(*found, *punctuation)

    def _differences(self, *, ended: bool) -> list[EventBatch]:
        """What is found among the events that are frozen in all replicas; when all have ended, among all events."""
        nodes, _, _, counters = self._events.arrays()
        replicas, complete = len(self._replicas), FOREVER if ended else self._compared
        standing = np.array(
            [(r.complete_from if r.attached else FOREVER, r.complete_before) for r in self._replicas], dtype=np.int64
        )
        counts, totals = np.empty((2, replicas), dtype=np.int64)
        takes_part = np.empty(replicas, dtype=np.bool_)
        out = np.empty((kernel.OUT, _LINES + replicas), dtype=np.int64)
        found, is_all = [], 0
        while not is_all:
            count, is_all = kernel.compare(
                nodes, counters, self._entries, self._events.bounds, complete, self._final, ended, standing, counts,
                totals, takes_part, self._tally, out,
            )  # fmt: skip
            if count:
                found.append(self._rows(out[:, :count]))
        return found

    def _rows(self, out: NDArray[np.int64]) -> EventBatch:
        """Make a batch of lines that were reported, in order of time."""
        lines = out[:, np.lexsort((out[kernel.OUT_REPLICA], out[kernel.OUT_END], out[kernel.OUT_START]))]
        payload = self._codec.decode(self._events.payloads(lines[kernel.OUT_AT], lines[kernel.OUT_LENGTH]))
        added = [
            pa.array(lines[kernel.OUT_REPLICA], pa.int32()),
            pa.array(_WORDS).take(pa.array(lines[kernel.OUT_HOW])),
        ]
        rows = pa.RecordBatch.from_arrays([*payload.columns, *added], schema=self._payload)
        return EventBatch.inserts(rows, lines[kernel.OUT_START].copy(), lines[kernel.OUT_END].copy())

    def _make_room(self, rows: int, words: int) -> None:
        if not self._events.has_room(rows, words):
            self._events.make_room(rows, words)
        used = counted_ends.used_lines(self._entries)
        if used + rows > len(self._entries) or used > 2 * self.buffered() + _LEAST_ENTRIES:
            before, self._entries = self._entries, counted_ends.empty_entries(2 * (self.buffered() + rows))
            used_nodes = int(self._events.counters[event_index.NODES])
            lists = np.arange(kernel.FIRST, self._events.nodes.shape[1], kernel.OF_REPLICA)
            counted_ends.move_lists(self._events.nodes, used_nodes, lists, before, self._entries)

    def idle_waiting_on(self) -> Port | None:
        """The replica that has come least far, while events wait."""
        waited_for = [
            (one.complete_before, port) for port, one in enumerate(self._replicas) if one.attached and not one.ended
        ]
        return min(waited_for)[1] if waited_for and self.buffered() else None

    def buffered(self) -> int:
        """How many events of all replicas wait."""
        return int(self._events.counters[kernel.EVENTS])

    def peak_buffered(self) -> int:
        """The most events that waited: those of a batch beside those that were held."""
        return self._peak

    def snapshot(self) -> CompareState:
        """Return what waits. Cost: a copy of it."""
        events, bounds = self._events.snapshot(), self._events.used_bounds().copy()
        entries = self._entries[: counted_ends.used_lines(self._entries)].copy()
        return CompareState(
            tuple(self._replicas), events, entries, bounds, self._compared, self._complete, self.counts()
        )

    def check(self) -> None:
        """Assert that the index is sound, that ends rise and are still to be compared, and that no bound hides one."""
        self._events.check()
        events = 0
        for node in self._events.alive().tolist():
            start = int(self._events.nodes[node, event_index.START])
            least_end, least_start = self._events.bounds[node // event_index.BLOCK].tolist()
            assert least_start <= start, (node, start)
            for port in range(len(self._replicas)):
                first, total = self._events.nodes[node][kernel.FIRST + kernel.OF_REPLICA * port :][:2].tolist()
                held, before = 0, start - 1 if self._final else max(self._compared, least_end) - 1
                for end, count in counted_ends.spelled_out(self._entries, first):
                    assert end > before, (node, port, end, before)
                    assert count > 0, (node, port, end)
                    held, before = held + count, end
                assert held <= total, (node, port, held, total)
                events += held
        assert events == self.buffered()
        assert self._complete <= self._compared
