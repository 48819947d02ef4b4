"""What join and followed_by have in common: two ordered inputs, released together, whose rows find each other by key.

Inputs wait in a room until both have come as far; what is released is matched in the order of time, so matches come
out in the order of their later starts. Rows that may match again are kept; sweeps that are paid for by the rows that
came and went since the last one drop the others, together with the keys that nobody has any more.
Paper: Bai et al., ICDE 2007, figures 5 and 6.

Invariant: output is ordered, and every match that starts before the least register has been sent.
Cost: per step O(rows released + matches + rows expired), amortised; nothing per row that waits or lives on.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.events.gather import no_rows
from slackwater.operators.emission import Emission
from slackwater.operators.match.alive_rows import AliveRows
from slackwater.operators.match.key_codes import NO_KEY, KeyCodes
from slackwater.operators.match.matched_schema import kept_of_right
from slackwater.operators.operator import Operator
from slackwater.operators.shares import ordered_together
from slackwater.operators.waiting_room import WaitingRoom, WaitingRoomState
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.columns.row_spread import RowSpread
    from slackwater.events.batch import Times
    from slackwater.events.schema import EventSchema
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant


@dataclass(frozen=True)
class MatchingState:
    """What a matching operator remembers.

    The rows alive are whole, as users see them; the lifetime of each is when a partner may start.
    """

    room: WaitingRoomState
    emitted_until: Instant
    alive: tuple[EventBatch, ...]


class MatchingOperator(Operator[MatchingState]):
    """Matches the rows of two ordered inputs; what matches is for subclasses to decide.

    With `waits` False the inputs are stamped in the order in which they are processed: whatever arrives starts no
    earlier than anything before it on either input, so that nothing has to wait.
    """

    __slots__ = (
        "_emitted_until",
        "_half_gone_at",
        "_inputs",
        "_kept_of_right",
        "_keys",
        "_output",
        "_peak",
        "_room",
        "_sides",
        "_survivors",
        "_swept_at",
        "_waits",
        "_where",
    )
    state_types = (MatchingState, WaitingRoomState, EventBatch)
    splits = True

    FEW_ROWS: ClassVar[int] = 1024
    """So many rows are not worth a sweep."""

    def __init__(
        self,
        inputs: tuple[EventSchema, EventSchema],
        on: Sequence[str],
        output: EventSchema,
        sides: int,
        step: str,
        waits: bool,
        resume: MatchingState | None,
    ) -> None:
        self._inputs = inputs
        self._output = output
        self._kept_of_right = kept_of_right(inputs[1], on)
        self._waits = waits
        self._where = f"step {step!r}"
        self._room = WaitingRoom(2, self._where, resume.room if resume else None)
        self._emitted_until = resume.emitted_until if resume else BEGINNING
        self._peak = 0
        self._keys = KeyCodes(on)
        self._sides = [AliveRows(no_rows(schema.shown)) for schema in inputs[:sides]]
        for side, rows in zip(self._sides, resume.alive if resume else (), strict=False):
            side.add(rows, self._keys.encode(rows.payload), len(self._keys))
        self._sweep()

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:
        """Hold the batch, and match all that both inputs have reached."""
        waited = self._room.buffered()
        self._room.take(port, batch)
        if waited:  # what comes to nobody, and goes at once, does not wait
            self._peak = max(self._peak, self.buffered())
        if not self._waits and len(batch):
            # What arrives on one input counts as a punctuation of the other.
            self._room.take(1 - port, batch.punctuation(int(batch.start.max())))
        return self._send()

    def on_end(self, port: Port) -> Emission:
        """Stop waiting for this input."""
        self._room.end(port)
        return self._send()

    def _send(self) -> Emission:
        left, right = (EventBatch.concat(batches) if batches else None for batches in self._room.release())
        matched = self._match(left, right) if left is not None or right is not None else None
        sent = [] if matched is None else [matched]
        if matched is not None:
            # On an ordered stream an event is as good as a punctuation at its own time.
            self._emitted_until = int(matched.start[-1])
        if self._room.complete_before > self._emitted_until:
            self._emitted_until = self._room.complete_before
            sent.append(punctuation_like(self._output.no_rows, self._emitted_until))
        self._peak = max(self._peak, self.buffered())
        self._sweep_if_paid_for()
        return Emission(tuple(sent))

    @abstractmethod
    def _match(self, left: EventBatch | None, right: EventBatch | None) -> EventBatch | None:
        """Match what was released; return the matches in the order of their starts, None if there are none."""

    def _keep(self, port: Port, rows: EventBatch, until: Times) -> None:
        """Add rows to the window of their input, unless they can match nothing."""
        shown = self._inputs[port].keep_times(rows)
        codes = self._keys.encode(shown)
        can_match = (codes != NO_KEY) & (until > rows.start)
        kept = EventBatch(shown, rows.start, until).keep_rows(can_match)
        self._sides[port].add(kept, codes[can_match], len(self._keys))

    def _matched(self, left: pa.RecordBatch, right: pa.RecordBatch, start: Times, end: Times | None) -> EventBatch:
        payload = pa.RecordBatch.from_arrays([*left.columns, *right.columns], schema=self._output.payload)
        return EventBatch(payload, start, end)

    def _sweep_if_paid_for(self) -> None:
        # A sweep looks at every row stored. Either the rows that came since the last one are as many as it left, or
        # half of those have expired: in both cases each row pays for a few looks in its life, however long others live.
        now, stored = self._room.complete_before, self._stored()
        grown = stored >= 2 * self._survivors + self.FEW_ROWS
        shrunk = stored > self.FEW_ROWS and now >= self._half_gone_at
        if grown or shrunk or (stored and now == FOREVER):
            self._sweep()

    def _sweep(self) -> None:
        """Drop the rows that have expired and the keys that no row has any more. Cost: O(rows stored)."""
        self._swept_at = self._room.complete_before
        for side in self._sides:
            side.drop_expired(self._swept_at)
        numbering = self._keys.forget_all_but(np.concatenate([side.codes for side in self._sides]))
        for side in self._sides:
            side.link_all(numbering, len(self._keys))
        self._survivors = self._stored()
        until = np.concatenate([side.until for side in self._sides])
        half = len(until) // 2
        self._half_gone_at = int(np.partition(until, half)[half]) if len(until) else FOREVER

    def _stored(self) -> int:
        return sum(side.rows for side in self._sides)

    def idle_waiting_on(self) -> Port | None:
        """Name the input that holds the other back; rows that only live on wait for nobody."""
        return self._room.idle_waiting_on()

    def held_back(self) -> int:
        """How many rows wait for the other input."""
        return self._room.buffered()

    def buffered(self) -> int:
        """How many rows wait, plus how many may match again (or were not found expired yet)."""
        return self._room.buffered() + sum(side.linked for side in self._sides)

    def peak_buffered(self) -> int:
        """The most rows that waited, or might match again, before those that have expired were dropped."""
        return self._peak

    def snapshot(self) -> MatchingState:
        """Return what waits and what lives. Cost: O(rows stored)."""
        now = self._room.complete_before
        return MatchingState(self._room.snapshot(), self._emitted_until, tuple(side.alive(now) for side in self._sides))

    def split(self, spreads: Sequence[RowSpread]) -> list[MatchingState]:
        """The rows that wait or live, by their keys. Cost: a copy of them."""
        state = self.snapshot()
        alive = zip(*(spread.parts_of(rows) for rows, spread in zip(state.alive, spreads, strict=False)), strict=True)
        rooms = state.room.split(spreads)
        return [MatchingState(room, state.emitted_until, rows) for room, rows in zip(rooms, alive, strict=True)]

    def unite(self, states: Sequence[MatchingState]) -> MatchingState:
        """All rows that wait or live, in order of their starts."""
        room = WaitingRoomState.unite(self._where, [state.room for state in states])
        sides = zip(*(state.alive for state in states), strict=True)
        alive = tuple(rows for each in sides for rows in ordered_together([one] for one in each))
        return MatchingState(room, min(state.emitted_until for state in states), alive)

    def check(self) -> None:
        """Assert the invariants of room, keys and windows, and that nothing is emitted that inputs could contradict."""
        self._room.check()
        self._keys.check()
        now = self._room.complete_before
        assert self._emitted_until <= now, (self._emitted_until, now)
        for side in self._sides:
            side.check(now, self._swept_at)
        assert self._stored() <= 2 * self._survivors + self.FEW_ROWS, (self._stored(), self._survivors)
        assert self._stored() <= self.FEW_ROWS or now < self._half_gone_at, (now, self._half_gone_at)
        assert self._waits or not self._room.buffered()
