"""Holds the rows of an ordered stream until other streams of the query have come as far.

A step that makes more rows than it takes in fills memory with what nobody can use while a source behind it lags. Held
before that step, the same rows are fewer. Only when they go on changes, not which rows do, nor their order.
Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, sections 7.1 and 7.4.

Input 0 has the rows; of the other inputs only the progress counts. Rows go up to and *including* the least register of
those that are waited for, as in a union: what is still to come there may be simultaneous with them, never older. Whom
to wait for may change at any time (wait_for); what was sent stays sent. Rows that are of no interest and come all the
same go on: each shows how far the stream is.

Invariant: what is held is younger than the least register that is waited for; output is ordered.
Cost: O(inputs) for each batch, none for a row that waits; batches are cut, not copied.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from slackwater.errors import BrokenOrder
from slackwater.events.batch import EventBatch, punctuation_like
from slackwater.operators.emission import Emission
from slackwater.operators.interest import InterestedOperator
from slackwater.operators.shares import ordered_together, parts_of_ordered, require_alike
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from slackwater.columns.row_spread import RowSpread
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant


@dataclass(frozen=True)
class HoldState:
    """What a hold remembers: how far each input has come, whom it waits for, what it holds, and how far it has sent."""

    registers: tuple[Instant, ...]
    waits_for: tuple[Port, ...]
    held: tuple[EventBatch, ...]
    emitted_until: Instant


class HoldOperator(InterestedOperator[HoldState]):
    """Sends on the rows of input 0 as far as the inputs that are waited for have come; `waits` says if from the start.

    >>> import pyarrow as pa
    >>> hold = HoldOperator(2, pa.record_batch({"x": pa.array([], pa.int64())}))
    >>> rows = EventBatch.inserts(pa.record_batch({"x": [1, 2, 3]}), start=[4, 5, 6])
    >>> hold.on_batch(0, rows).batches, hold.held_back(), hold.idle_waiting_on()
    ((), 3, 1)
    >>> [batch.start.tolist() for batch in hold.on_batch(1, punctuation_like(rows.payload.slice(0, 0), 5)).batches]
    [[4, 5]]
    """

    __slots__ = ("_emitted_until", "_held", "_no_rows", "_peak", "_registers", "_rows", "_where", "waits_for")
    state_types = (HoldState, EventBatch)
    splits = True

    def __init__(
        self,
        ports: int,
        no_rows: pa.RecordBatch,
        where: str = "hold",
        resume: HoldState | None = None,
        *,
        waits: bool = True,
    ) -> None:
        super().__init__()
        self._no_rows = no_rows
        self._where = where
        others = tuple(range(1, ports)) if waits else ()
        state = resume or HoldState((BEGINNING,) * ports, others, (), BEGINNING)
        self._registers = list(state.registers)
        self.waits_for = state.waits_for
        """The inputs that are waited for."""

        self._held = deque(state.held)
        self._emitted_until = state.emitted_until
        self._rows = self._peak = sum(batch.rows for batch in self._held)

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:
        """Hold the rows of input 0; of the others learn how far they are."""
        if port == 0 and batch.rows:
            self._take(batch.data())
        if batch.rows < len(batch):
            self._advance(port, int(batch.punctuations()[-1]))
        return self._send()

    def on_end(self, port: Port) -> Emission:
        """Wait for this input no longer."""
        self._advance(port, FOREVER)
        return self._send()

    def wait_for(self, ports: Iterable[Port]) -> Emission:
        """Wait for these inputs from now on, and send what need not wait any more."""
        self.waits_for = tuple(ports)
        return self._send()

    def _take(self, rows: EventBatch) -> None:
        first = int(rows.start[0])
        if first < self._registers[0]:
            raise BrokenOrder.by(self._where, f"input 0, time {first}", f"time {self._registers[0]}")
        # On an ordered input an event is as good as a punctuation at its own time.
        self._advance(0, int(rows.start[-1]))
        self._held.append(rows)
        self._peak = max(self._peak, self._rows + rows.rows if self._rows else 0)
        self._rows += rows.rows

    def _advance(self, port: Port, complete_before: Instant) -> None:
        self._registers[port] = max(self._registers[port], complete_before)

    @property
    def _bound(self) -> Instant:
        """Up to where rows may go."""
        return min((self._registers[port] for port in self.waits_for), default=FOREVER)

    def _send(self) -> Emission:
        bound = self._bound
        sent = self._released(bound)
        self._peak = max(self._peak, self._rows)
        if sent:
            self._emitted_until = int(sent[-1].start[-1])
        complete_before = min(self._registers[0], bound)
        if complete_before > self._emitted_until:
            self._emitted_until = complete_before
            sent.append(punctuation_like(self._no_rows, complete_before))
        return Emission(tuple(sent))

    def _released(self, bound: Instant) -> list[EventBatch]:
        """Take out all that starts at or before the bound."""
        ready: list[EventBatch] = []
        while self._held and int(self._held[0].start[-1]) <= bound:
            ready.append(self._held.popleft())
        if self._held and int(self._held[0].start[0]) <= bound:
            batch = self._held.popleft()
            cut = int(np.searchsorted(batch.start, bound, side="right"))
            ready.append(batch.slice(0, cut))
            self._held.appendleft(batch.slice(cut, len(batch)))
        self._rows -= sum(batch.rows for batch in ready)
        return ready

    def idle_waiting_on(self) -> Port | None:
        """The input that is furthest behind of those that are waited for, while rows are held."""
        return min(self.waits_for, key=self._registers.__getitem__) if self._rows else None

    def of_interest_from(self, port: Port) -> Instant:
        """Of the other inputs no row matters."""
        return super().of_interest_from(port) if port == 0 else FOREVER

    def held_back(self) -> int:
        """How many rows wait."""
        return self._rows

    def peak_buffered(self) -> int:
        """The most rows that waited; those that go at once did not."""
        return self._peak

    def snapshot(self) -> HoldState:
        """Return what waits. Cost: O(batches held)."""
        return HoldState(tuple(self._registers), self.waits_for, tuple(self._held), self._emitted_until)

    def split(self, spreads: Sequence[RowSpread]) -> list[HoldState]:
        """The rows that wait, by their keys. Cost: a copy of them."""
        return [replace(self.snapshot(), held=held) for held in parts_of_ordered(tuple(self._held), spreads[0])]

    def unite(self, states: Sequence[HoldState]) -> HoldState:
        """All rows that wait, in order of time; all that have some must have come as far."""
        held = ordered_together(state.held for state in states)
        if held:
            require_alike(self._where, (state.registers[0] for state in states))
        registers = tuple(map(min, zip(*(state.registers for state in states), strict=True)))
        return HoldState(registers, states[0].waits_for, held, min(state.emitted_until for state in states))

    def check(self) -> None:
        """Assert the invariants."""
        starts = [int(start) for batch in self._held for start in batch.start]
        assert self._rows == len(starts)
        assert starts == sorted(starts), starts
        assert all(start > self._bound for start in starts), (self._bound, starts)
        assert all(self._emitted_until <= start <= self._registers[0] for start in starts), starts
        assert self._emitted_until <= self._registers[0], (self._emitted_until, self._registers)
