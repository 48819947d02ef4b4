"""What the merges of ordered replicas share: inserts only, each replica in order, and the output follows the first.

Rows that a replica sends of times beyond all that was emitted go out; of earlier times nothing does. What is done with
rows at the greatest time emitted is what the cases differ in.

What a replica sends before it has joined is kept until it has: emitted at once, it would keep out what the others send
of the time before.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from slackwater.columns.inline_punctuations import insert_punctuations
from slackwater.errors import BadElement, BrokenOrder, message
from slackwater.events.batch import EventBatch
from slackwater.events.kinds import Kind
from slackwater.operators.replicas.diverted_rows import PASSED_OVER
from slackwater.operators.replicas.left_out import NONE_LEFT_OUT, LeftOut
from slackwater.operators.replicas.progress_check import element_at
from slackwater.operators.replicas.replica_merge import Replica, ReplicaMerge
from slackwater.operators.stream_progress import insert_only
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from slackwater.events.batch import Mask
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant

_NO_ROWS: NDArray[np.int64] = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class OrderedState:
    """What is remembered: the replicas, how far each has come, the greatest time emitted, the last punctuation, ties.

    And what replicas have sent that have not joined, and how many rows of each were left out.
    """

    replicas: tuple[Replica, ...]
    reached: tuple[Instant, ...]
    newest: Instant = BEGINNING
    complete_before: Instant = BEGINNING
    ties: object = field(default=None)
    early: tuple[tuple[EventBatch, ...], ...] = ()
    left_out: tuple[LeftOut, ...] = ()


class OrderedReplicas(ReplicaMerge[OrderedState]):
    """Merges replicas that come in order. Cost: O(log rows) and one copy of what goes out."""

    __slots__ = ("_complete", "_early", "_left_out", "_newest", "_reached")
    state_types = (OrderedState, *ReplicaMerge.state_types)

    strictly: ClassVar[bool] = False
    """Whether a replica may not send two rows of one time."""

    def __init__(
        self,
        replicas: int,
        no_rows: pa.RecordBatch,
        where: str = "merge_replicas",
        resume: OrderedState | None = None,
        *,
        diverts: bool = False,
    ) -> None:
        state = resume or OrderedState((Replica(),) * replicas, (BEGINNING,) * replicas, early=((),) * replicas)
        super().__init__(state.replicas, no_rows, where, diverts=diverts)
        self._reached = list(state.reached)
        self._early = [list(batches) for batches in state.early]
        self._newest = state.newest
        self._complete = state.complete_before
        self._left_out = list(state.left_out or (NONE_LEFT_OUT,) * len(state.replicas))
        self._restore(state.ties)
        self.sample_overlap()

    @abstractmethod
    def _restore(self, ties: object) -> None:
        """Remember what was remembered of ties; None at the beginning."""

    @abstractmethod
    def _ties(self) -> object:
        """What is remembered of ties, as a value."""

    @abstractmethod
    def _new_ties(self, port: Port, tied: EventBatch) -> Mask:
        """Which rows of a replica, all at the greatest time emitted, nobody has sent before."""

    @abstractmethod
    def _start_over(self, port: Port, tied: EventBatch) -> None:
        """Note the rows with which a replica has reached a new greatest time."""

    @property
    def complete_before(self) -> Instant:
        """How far the output is complete: up to its last punctuation, or to the greatest time emitted."""
        return max(self._complete, self._newest)

    def _listen(self, port: Port, batch: EventBatch) -> list[EventBatch]:
        self._early[port].append(batch)
        return []

    def _catch_up(self, port: Port) -> list[EventBatch]:
        early, self._early[port] = self._early[port], []
        return [merged for batch in early for merged in self._merge(port, batch)]

    def _merge(self, port: Port, batch: EventBatch) -> list[EventBatch]:
        if not insert_only(batch):
            at = int(np.flatnonzero(batch.kinds() == Kind.ADJUST)[0])
            facts = {"element": element_at(batch, at)}
            raise BadElement(message(f"{self._where} expects inserts only and got an adjust", facts))
        data = batch.data()
        rows = EventBatch(data.payload, data.start, data.end)
        new_ties, beyond = _NO_ROWS, 0
        if rows.rows:
            self._refuse_disorder(port, rows)
            # What the output is complete up to is over; a replica that sends more of it lacked nothing but agreement.
            least, newest = max(self._newest, self._complete), self._newest
            tied, beyond = np.searchsorted(rows.start, [least, newest + 1 if newest < FOREVER else FOREVER]).tolist()
            beyond = max(beyond, tied)
            if tied < beyond:
                new_ties = tied + np.flatnonzero(self._new_ties(port, rows.slice(tied, beyond)))
            if beyond < rows.rows:
                self._newest = int(rows.start[-1])
                last = int(np.searchsorted(rows.start, self._newest))
                self._start_over(port, rows.slice(max(last, beyond), rows.rows))
            self._reached[port] = int(rows.start[-1])
            duplicates = 0 if self.strictly else beyond - tied - len(new_ties)
            passed_over = beyond - duplicates - len(new_ties)
            if duplicates or passed_over:
                self._left_out[port] += LeftOut(duplicates=duplicates, passed_over=passed_over)
                self._diverted.add(rows.slice(0, passed_over), port, PASSED_OVER)
        return [self._passed_on(batch, rows, new_ties, beyond)]

    def _passed_on(self, batch: EventBatch, rows: EventBatch, ties: NDArray[np.int64], beyond: int) -> EventBatch:
        """Some rows, by number, all from another on, and of the punctuations those that are further than the last."""
        passed_on = rows.slice(beyond, rows.rows)
        if len(ties):
            passed_on = rows.take_rows(np.concatenate([ties, np.arange(beyond, rows.rows)]))
        punctuated_at = batch.punctuated_at()
        complete = np.maximum.accumulate(np.concatenate([[self._complete], batch.start[punctuated_at]]))
        rises = complete[1:] > complete[:-1]
        self._complete = int(complete[-1])
        rows_before = (punctuated_at - np.arange(len(punctuated_at)))[rises]
        places = np.searchsorted(ties, rows_before) + np.maximum(rows_before - beyond, 0)
        return insert_punctuations(passed_on, places, complete[1:][rises])

    def _refuse_disorder(self, port: Port, rows: EventBatch) -> None:
        before = np.concatenate([[self._reached[port]], rows.start[:-1]])
        wrong = rows.start <= before if self.strictly else rows.start < before
        wrong[0] &= self._reached[port] != BEGINNING
        if wrong.any():
            at = int(np.argmax(wrong))
            after = element_at(rows, at - 1) if at else f"an event at {self._reached[port]}"
            raise BrokenOrder.by(f"{self._where}, replica {port}", element_at(rows, at), after)

    def _begin_anew(self, port: Port) -> None:
        self._left_out += [NONE_LEFT_OUT] * (port == len(self._reached))
        self._reached[port : port + 1] = [BEGINNING]
        self._early[port : port + 1] = [[]]

    def _left_out_of(self, port: Port) -> LeftOut:
        return self._left_out[port]

    def left_out(self) -> LeftOut:
        """What became of the rows that did not go out; those of a replica that has not joined wait."""
        return super().left_out() + LeftOut(unsent=self.buffered())

    def detach(self, port: Port) -> None:
        """Listen to a replica no longer, and forget what waited until it has joined."""
        super().detach(port)
        self._not_received += sum(batch.rows for batch in self._early[port])
        self._early[port] = []

    def buffered(self) -> int:
        """How many rows wait until their replica has joined."""
        return sum(batch.rows for early in self._early for batch in early)

    def _finish(self) -> None:
        self._restore(None)

    def snapshot(self) -> OrderedState:
        """Return all there is to remember."""
        return OrderedState(
            tuple(self._replicas),
            tuple(self._reached),
            self._newest,
            self._complete,
            self._ties(),
            tuple(map(tuple, self._early)),
            tuple(self._left_out),
        )
