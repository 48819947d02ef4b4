"""What the merges of ordered replicas share: inserts only, each replica in order, and the output follows the first.

Rows that a replica tells of times beyond all that was told go out; of earlier times nothing does. What is done with
rows at the greatest time told is what the cases differ in.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from slackwater.errors import BadElement, BrokenOrder, message
from slackwater.events.batch import EventBatch
from slackwater.events.kinds import Kind
from slackwater.operators.merging.replica_merge import Replica, ReplicaMerge, element_at
from slackwater.operators.stream_progress import insert_only
from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    import pyarrow as pa

    from slackwater.events.batch import Mask
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant


@dataclass(frozen=True)
class OrderedState:
    """What is remembered: the replicas, how far each has come, the greatest time told, the last punctuation, ties."""

    replicas: tuple[Replica, ...]
    reached: tuple[Instant, ...]
    newest: Instant = BEGINNING
    complete_before: Instant = BEGINNING
    ties: object = field(default=None)


class OrderedReplicas(ReplicaMerge[OrderedState]):
    """Merges replicas that come in order. Cost: O(log rows) and one copy of what goes out."""

    __slots__ = ("_complete", "_newest", "_reached")

    strictly: ClassVar[bool] = False
    """Whether a replica may not tell two rows of one time."""

    def __init__(
        self, replicas: int, no_rows: pa.RecordBatch, where: str = "merge_replicas", resume: OrderedState | None = None
    ) -> None:
        state = resume or OrderedState((Replica(),) * replicas, (BEGINNING,) * replicas)
        super().__init__(state.replicas, no_rows, where)
        self._reached = list(state.reached)
        self._newest = state.newest
        self._complete = state.complete_before
        self._restore(state.ties)

    @abstractmethod
    def _restore(self, ties: object) -> None:
        """Remember what was remembered of ties; None at the beginning."""

    @abstractmethod
    def _ties(self) -> object:
        """What is remembered of ties, as a value."""

    @abstractmethod
    def _new_ties(self, port: Port, tied: EventBatch) -> Mask:
        """Which rows of a replica, all at the greatest time told, nobody has told before."""

    @abstractmethod
    def _start_over(self, port: Port, tied: EventBatch) -> None:
        """Note the rows with which a replica has reached a new greatest time."""

    @property
    def complete_before(self) -> Instant:
        """The last punctuation of the output."""
        return self._complete

    def _merge(self, port: Port, batch: EventBatch) -> list[EventBatch]:
        if not insert_only(batch):
            at = int(np.flatnonzero(batch.kinds() == Kind.ADJUST)[0])
            facts = {"element": element_at(batch, at)}
            raise BadElement(message(f"{self._where} was promised inserts only and got an adjust", facts))
        rows = batch.data()
        keep = np.zeros(rows.rows, dtype=bool)
        if rows.rows:
            self._refuse_disorder(port, rows)
            # What the output has promised is over; a replica that tells more of it lacked nothing but agreement.
            tied, beyond = np.searchsorted(rows.start, [max(self._newest, self._complete), self._newest + 1])
            tied, beyond = int(tied), max(int(beyond), int(tied))
            if tied < beyond:
                keep[tied:beyond] = self._new_ties(port, rows.slice(tied, beyond))
            keep[beyond:] = True
            if beyond < rows.rows:
                self._newest = int(rows.start[-1])
                last = int(np.searchsorted(rows.start, self._newest))
                self._start_over(port, rows.slice(max(last, beyond), rows.rows))
            self._reached[port] = int(rows.start[-1])
        return [self._with_rising_punctuations(batch, keep)]

    def _with_rising_punctuations(self, batch: EventBatch, keep: Mask) -> EventBatch:
        """The rows to keep, and of the punctuations those that say more than the output has said."""
        if batch.kind is None:
            return batch.keep_rows(keep)
        kept = np.ones(len(batch), dtype=bool)
        said = batch.kind == Kind.PUNCTUATE
        kept[~said] = keep
        promised = np.maximum.accumulate(np.concatenate([[self._complete], batch.start[said]]))
        kept[said] = promised[1:] > promised[:-1]
        self._complete = int(promised[-1])
        places = np.flatnonzero(kept)
        rows = batch.data().keep_rows(keep)
        return EventBatch(
            rows.payload, batch.start[places], None if batch.end is None else batch.end[places], batch.kind[places]
        )

    def _refuse_disorder(self, port: Port, rows: EventBatch) -> None:
        before = np.concatenate([[self._reached[port]], rows.start[:-1]])
        wrong = rows.start <= before if self.strictly else rows.start < before
        wrong[0] &= self._reached[port] != BEGINNING
        if wrong.any():
            at = int(np.argmax(wrong))
            after = element_at(rows, at - 1) if at else f"an event at {self._reached[port]}"
            raise BrokenOrder.by(f"{self._where}, replica {port}", element_at(rows, at), after)

    def _begin_anew(self, port: Port) -> None:
        self._reached[port : port + 1] = [BEGINNING]

    def _finish(self) -> None:
        self._restore(None)

    def snapshot(self) -> OrderedState:
        """Return all there is to remember."""
        return OrderedState(tuple(self._replicas), tuple(self._reached), self._newest, self._complete, self._ties())
