"""Puts several ordered streams together into one ordered stream.

An input that sends nothing holds the others back until a punctuation or an event shows how far it has come; the
operator names that input, so that the runner can ask its source (idle_waiting_on).
Paper: Bai et al., ICDE 2007, figures 5 and 6.

Invariant: output is ordered, and everything not younger than the least register has been sent.
Ties: events of one input keep their order; between inputs, what can go first goes first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.columns.weave import weave_batches
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.operators.emission import Emission
from slackwater.operators.interest import InterestedOperator
from slackwater.operators.waiting_room import WaitingRoom, WaitingRoomState
from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from slackwater.columns.row_spread import RowSpread
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant


@dataclass(frozen=True)
class UnionState:
    """What a union remembers: what it holds, and how far its output is known to be complete."""

    room: WaitingRoomState
    emitted_until: Instant


class UnionOperator(InterestedOperator[UnionState]):
    """Merges ordered inputs by time. Cost: one comparison and one copy per row; nothing per row that waits.

    Rows of no interest are left out by those who send them; those that come all the same go on, and move the registers.
    """

    __slots__ = ("_emitted_until", "_no_rows", "_room", "_where")
    state_types = (UnionState, WaitingRoomState, EventBatch)
    splits = True

    def __init__(
        self, ports: int, no_rows: pa.RecordBatch, where: str = "union", resume: UnionState | None = None
    ) -> None:
        super().__init__()
        self._no_rows = no_rows
        self._where = where
        self._room = WaitingRoom(ports, where, resume.room if resume else None)
        self._emitted_until = resume.emitted_until if resume else BEGINNING

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:
        """Hold the batch, and send all that every input has reached."""
        self._room.take(port, batch)
        return self._send()

    def on_end(self, port: Port) -> Emission:
        """Stop waiting for this input."""
        self._room.end(port)
        return self._send()

    def _send(self) -> Emission:
        ready = [EventBatch.concat(batches) for batches in self._room.release() if batches]
        woven = [weave_batches(ready)] if len(ready) > 1 else ready
        if woven:
            # On an ordered stream an event is as good as a punctuation at its own time.
            self._emitted_until = woven[0].start.item(-1)
        if self._room.complete_before > self._emitted_until:
            self._emitted_until = self._room.complete_before
            woven.append(punctuation_like(self._no_rows, self._emitted_until))
        return Emission(tuple(woven))

    def idle_waiting_on(self) -> Port | None:
        """Name the input that holds the others back."""
        return self._room.idle_waiting_on()

    def held_back(self) -> int:
        """How many rows wait."""
        return self._room.buffered()

    def peak_buffered(self) -> int:
        """The most rows that waited."""
        return self._room.peak

    def snapshot(self) -> UnionState:
        """Return what waits. Cost: O(batches held)."""
        return UnionState(self._room.snapshot(), self._emitted_until)

    def split(self, spreads: Sequence[RowSpread]) -> list[UnionState]:
        """The rows that wait, by their keys. Cost: a copy of them."""
        return [UnionState(room, self._emitted_until) for room in self._room.snapshot().split(spreads)]

    def unite(self, states: Sequence[UnionState]) -> UnionState:
        """All rows that wait, in order of time."""
        room = WaitingRoomState.unite(self._where, [state.room for state in states])
        return UnionState(room, min(state.emitted_until for state in states))

    def check(self) -> None:
        """Assert the invariants of the waiting room, and that nothing is emitted that inputs could contradict."""
        self._room.check()
        assert self._emitted_until <= self._room.complete_before
