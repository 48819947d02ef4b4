"""What all merges of replicas share: who takes part, whose punctuations count, and that each is held to its own.

A replica may be attached late, with the time from which on it has everything. Until the output is complete up to
there it has not joined: its events count, its punctuations do not, for it knows nothing of what was before. A replica
that is detached is not listened to any more; attached again, it begins anew.

An input that ends may be complete, or have been cut off: nothing follows from its end. What steps above flush at the
end of such an input is kept, for it may lack what was still on its way. When all have ended, the one that has come
furthest is taken to be complete, its flush included, and nothing is held any more; of several that have come as far,
one that most others agree with.
Paper: ICDE 2012, section V-B.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

from slackwater.columns.row_codec import RowCodec
from slackwater.errors import PlanError, message
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.kinds import Kind
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.operator import Operator
from slackwater.operators.replicas.diverted_rows import DivertedRows
from slackwater.operators.replicas.left_out import LeftOut
from slackwater.operators.replicas.open_events import NO_OPEN_EVENTS, OpenEvents
from slackwater.operators.replicas.overlap import Overlap, OverlapSample
from slackwater.operators.replicas.progress_check import punctuated_after
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from slackwater.events.batch import Times
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant

StateT = TypeVar("StateT")

_NO_TIMES: Times = np.empty(0, dtype=np.int64)

_PUNCTUATE = int(Kind.PUNCTUATE)


@dataclass(frozen=True)
class Replica:
    """One input: from when on it has everything, how far it is complete, whether it takes part, and has ended."""

    complete_from: Instant = BEGINNING
    complete_before: Instant = BEGINNING
    attached: bool = True
    ended: bool = False
    ending: bool = False
    """Whether its sources have ended, so that what comes now is no more than a flush."""

    newest: Instant = BEGINNING
    """How far its sources had come when they ended."""

    flushed: tuple[EventBatch, ...] = ()
    """What steps above have flushed."""

    left: str = ""
    """Why it has left, if it failed; empty when it is attached again."""

    times_left: int = 0
    """How often it has failed."""

    def has_joined(self, complete_before: Instant) -> bool:
        """Whether its punctuations count, where the output is complete up to here."""
        return self.attached and complete_before >= self.complete_from


class ReplicaMerge(Operator[StateT]):
    """A merge of replicas; subclasses decide what becomes of their elements."""

    begins_feedback = True

    __slots__ = ("_diverted", "_no_rows", "_not_received", "_ordered", "_replicas", "_sample", "_where")
    state_types: ClassVar[tuple[type[Any], ...]] = (Replica, EventBatch, LeftOut)

    def __init__(
        self,
        replicas: Sequence[Replica],
        no_rows: pa.RecordBatch,
        where: str,
        ordered: Sequence[Port] = (),
        *,
        diverts: bool = False,
    ) -> None:
        self._replicas = list(replicas)
        self._ordered = frozenset(ordered)
        self._no_rows = no_rows
        self._where = where
        self._not_received = 0
        self._diverted = DivertedRows(wanted=diverts)
        self._sample: OverlapSample | None = None

    @property
    def replicas(self) -> tuple[Replica, ...]:
        """The inputs, as they stand."""
        return tuple(self._replicas)

    @property
    @abstractmethod
    def complete_before(self) -> Instant:
        """The last punctuation of the output."""

    @abstractmethod
    def _merge(self, port: Port, batch: EventBatch) -> list[EventBatch]:
        """Take elements of a replica; of punctuations only those that count are among them."""

    @abstractmethod
    def _left_out_of(self, port: Port) -> LeftOut:
        """What became of the rows of a replica that did not go out; those that wait are not counted."""

    def _live_events(self, port: Port) -> int:  # noqa: ARG002 - where nothing is remembered, nothing depends on it
        """How many of the events that are remembered a replica has."""
        return 0

    @abstractmethod
    def _begin_anew(self, port: Port) -> None:
        """Forget what a replica has sent, or make room for one more."""

    @abstractmethod
    def _finish(self) -> None:
        """Forget everything: all replicas have ended."""

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:
        """Merge what a replica sends; a replica that is detached is not listened to."""
        replica = self._replicas[port]
        if not replica.attached or not len(batch):
            self._not_received += batch.rows
            return NOTHING
        if replica.ending:
            self._replicas[port] = replace(replica, flushed=(*replica.flushed, batch.data()))
            return NOTHING
        waiting, complete_before = self.waits_to_join(), self.complete_before
        complete = punctuated_after(batch, replica.complete_before, self._where)
        emitted = self._listen(port, batch) if port in waiting else self._merge(port, batch)
        if port in self._ordered and batch.rows:
            # On an ordered stream an event is as good as a punctuation at its own time.
            complete = max(complete, int(batch.data().start[-1]))
            emitted += [] if port in waiting else self._merge(port, punctuation_like(self._no_rows, complete))
        if complete > replica.complete_before:
            self._replicas[port] = replace(replica, complete_before=complete)
        emitted += self._joined(waiting)
        if self._sample is not None and not self._sample.is_enough:
            self._sample.compare(batch.data().start, complete_before)
            self._sample.remember(np.concatenate([_NO_TIMES, *(one.data().start for one in emitted)]))
        return self._emission(emitted)

    def sample_overlap(self) -> None:
        """Compare some rows that are passed over with what went out; for merges that emit in order of time."""
        self._sample = OverlapSample()

    def take_for_replicas(self) -> None:
        """Compare nothing: it is known that all are replicas of one stream, and to spare them work matters more."""
        self._sample = None

    def overlap(self) -> Overlap:
        """How many rows of replicas others have, too, and how many only some have, as far as that is known."""
        return self._known_overlap() + (Overlap() if self._sample is None else self._sample.found)

    def _known_overlap(self) -> Overlap:
        counts = self.left_out_by_replica()
        return Overlap(sum(one.duplicates for one in counts), sum(one.contradicted for one in counts))

    def open_events(self) -> OpenEvents:
        """The events without an end that hold up the output; none where events do not wait for their ends."""
        return NO_OPEN_EVENTS

    def _emission(self, emitted: Sequence[EventBatch]) -> Emission:
        """What goes out, and what was left out."""
        return Emission(tuple(batch for batch in emitted if len(batch)), self._diverted.taken())

    def left_out_between(self) -> Emission:
        """The rows that were left out between two batches, because a replica was detached: to be asked for then."""
        return self._emission([])

    def _listen(self, port: Port, batch: EventBatch) -> list[EventBatch]:
        """Take elements of a replica that has not joined."""
        return self._merge(port, batch.data())

    def _catch_up(self, port: Port) -> list[EventBatch]:
        """Let the punctuations count that a replica sent before it joined."""
        complete = self._replicas[port].complete_before
        return self._merge(port, punctuation_like(self._no_rows, complete)) if complete > BEGINNING else []

    def mark_end_untrusted(self, port: Port, newest: Instant) -> None:
        """Learn that the sources of a replica have ended, at a newest time: what comes now is no more than a flush."""
        self._replicas[port] = replace(self._replicas[port], ending=True, newest=newest)

    def listen_again(self) -> None:
        """Take it that replicas which had ended go on: a query was resumed, and has new sources."""
        for port in range(len(self._replicas)):
            self._not_received += sum(batch.rows for batch in self._taken_flush(port))
        self._replicas = [replace(one, ended=False, ending=False) for one in self._replicas]

    def on_end(self, port: Port) -> Emission:
        """Note that a replica has ended; with the last of them, so does the output."""
        self._replicas[port] = replace(self._replicas[port], ended=True)
        if not all(replica.ended or not replica.attached for replica in self._replicas):
            return NOTHING
        emitted = self._close_gaps()
        listened_to = self._listened_to()
        if listened_to:
            emitted += self._agree_before(self._furthest(listened_to), FOREVER)
        for other in listened_to:
            # Nothing of it goes out any more; it is counted like all that comes too late to be emitted.
            emitted += [one for batch in self._taken_flush(other) for one in self._merge(other, batch)]
        self._finish()
        return self._emission(emitted)

    def _close_gaps(self) -> list[EventBatch]:
        """Let all join that wait to: nobody is left who could send what lies before the time they are complete from."""
        emitted: list[EventBatch] = []
        waiting = sorted(self.waits_to_join(), key=lambda port: self._replicas[port].complete_from)
        joined = [port for port in self._listened_to() if port not in waiting]
        for port in waiting:
            emitted += self._agree_before(self._furthest(joined or [port]), self._replicas[port].complete_from)
            emitted += self._catch_up(port)
            joined.append(port)
        return emitted

    def _listened_to(self) -> list[Port]:
        return [port for port, replica in enumerate(self._replicas) if replica.attached]

    def _furthest(self, ports: Sequence[Port]) -> Port:
        """The replica that has come furthest, by its punctuations or its flush.

        Of several that have come as far, one that was cut off must not win over those that agree: the one counts most
        whose flush most others share, then the one that is complete further, or has more events.
        """
        reached = {port: max(self._replicas[port].complete_before, self._replicas[port].newest) for port in ports}
        equal = [port for port in ports if reached[port] == max(reached.values())]
        flushes = {port: self._flushed_rows(port) for port in equal} if len(equal) > 1 else {}

        def how_good(port: Port) -> tuple[int, Instant, int, int]:
            own = flushes.get(port, Counter())
            agreed = sum((own & other).total() for one, other in flushes.items() if one != port)
            return agreed, self._replicas[port].complete_before, self._live_events(port), own.total()

        return max(equal, key=how_good)

    def _flushed_rows(self, port: Port) -> Counter[tuple[bytes, Instant, Instant]]:
        """What steps above have flushed, so that equal rows are equal."""
        rows: Counter[tuple[bytes, Instant, Instant]] = Counter()
        codec = RowCodec(self._no_rows.schema, self._where)
        for batch in self._replicas[port].flushed:
            encoded = codec.encode(batch.payload)
            data = encoded.data.tobytes()
            spelled = (data[first:stop] for first, stop in pairwise(encoded.offsets.tolist()))
            rows.update(zip(spelled, batch.start.tolist(), batch.ends().tolist(), strict=True))
        return rows

    def _agree_before(self, port: Port, t: Instant) -> list[EventBatch]:
        """Let the output be what a replica has of the time before an instant, in its flush, too."""
        rows = [merged for batch in self._taken_flush(port) for merged in self._merge(port, batch)]
        return [*rows, *self._merge(port, punctuation_like(self._no_rows, t))]

    def _taken_flush(self, port: Port) -> list[EventBatch]:
        """What steps above a replica have flushed; it is there only once."""
        flushed, self._replicas[port] = self._replicas[port].flushed, replace(self._replicas[port], flushed=())
        return [batch for batch in flushed if batch.rows]

    def attach(self, port: Port, complete_from: Instant) -> None:
        """Listen to a replica, a new one or one that was detached, that has everything from a time on."""
        if port > len(self._replicas) or (port < len(self._replicas) and self._replicas[port].attached):
            facts = {"replica": port, "replicas": len(self._replicas)}
            raise PlanError(message(f"{self._where} cannot attach a replica in this place", facts))
        times_left = self._replicas[port].times_left if port < len(self._replicas) else 0
        self._replicas[port : port + 1] = [Replica(complete_from, times_left=times_left)]
        self._begin_anew(port)

    def take_over(self, port: Port, also_has: EventBatch) -> Emission:
        """Let a replica join at once: nobody is left to bring the output to the time from which it has everything.

        Of the time before that it is taken to have what it is given, beside its own: what others have.
        """
        waiting = self.waits_to_join()
        self._replicas[port] = replace(self._replicas[port], complete_from=BEGINNING)
        emitted = self._merge(port, also_has) if also_has.rows else []
        self._uncount(port, also_has.rows)
        return self._emission([*emitted, *self._joined(waiting)])

    def detach(self, port: Port) -> None:
        """Listen to a replica no longer, and forget what steps above it have flushed."""
        self._not_received += sum(batch.rows for batch in self._taken_flush(port))
        self._replicas[port] = replace(self._replicas[port], attached=False)

    def left_out(self) -> LeftOut:
        """What became of the rows that did not go out, of all replicas."""
        flushed = sum(batch.rows for replica in self._replicas for batch in replica.flushed)
        return sum(self.left_out_by_replica(), LeftOut(unsent=flushed))

    def _uncount(self, port: Port, rows: int) -> None:
        """Take rows out of the duplicates of a replica: the merge has made them itself."""

    def duplicates(self) -> int:
        """How many rows were of events that the merge had already."""
        return sum(one.duplicates for one in self.left_out_by_replica())

    def left_out_by_replica(self) -> list[LeftOut]:
        """What became of the rows of each replica that did not go out; those that wait are not counted.

        An event that several replicas have, and that is contradicted, counts once, for the first of them.
        """
        return [self._left_out_of(port) for port in range(len(self._replicas))]

    def ignored_rows(self) -> int:
        """How many rows came from replicas that are not listened to, since the operator was built."""
        return self._not_received

    def leave(self, port: Port, reason: str) -> None:
        """Listen to a replica no longer because it has failed; one that was detached has failed all the same."""
        if self._replicas[port].attached:
            self.detach(port)
        failed = self._replicas[port]
        self._replicas[port] = replace(failed, left=reason, times_left=failed.times_left + 1)

    @property
    def times_left(self) -> int:
        """How often a replica has failed, of all of them."""
        return sum(replica.times_left for replica in self._replicas)

    def of_interest_from(self, port: Port) -> Instant:  # noqa: ARG002 - to all replicas the same, joined or not
        """What all replicas need not send any more: events that the output has frozen, be they emitted or left out.

        An event that ends where the output is complete is none of these: its end may still be revised. Where rows that
        are left out are asked for, all are of interest.
        """
        if self._diverted.wanted:
            return BEGINNING
        bound = max(self.complete_before - 1, BEGINNING)
        return bound if self._sample is None else self._sample.wanted_from(bound)

    def waits_to_join(self) -> list[Port]:
        """The replicas whose punctuations do not count yet: when no other is left, the output stands still."""
        complete = self.complete_before
        return [p for p, replica in enumerate(self._replicas) if replica.attached and not replica.has_joined(complete)]

    def _joined(self, waiting: Sequence[Port]) -> list[EventBatch]:
        """Let the punctuations count of those that waited to join, and have: which may let others join."""
        emitted: list[EventBatch] = []
        left = list(waiting)
        while joined := [port for port in left if self._replicas[port].has_joined(self.complete_before)]:
            for port in joined:
                emitted += self._catch_up(port)
                left.remove(port)
        return emitted
