"""Holds what ordered inputs have sent until every input has come as far: the common half of union, join and pattern.

Each input has a time-stamp memory register, kept by a Frontier: the least instant it may still send. Everything up to
and *including* the least register can go (the relaxed "more" condition): later elements may be simultaneous with it,
never older. So simultaneous elements do not wait for each other.
Paper: Bai, Thakkar, Wang, Zaniolo. Optimizing Timestamp Management in Data Stream Management Systems. ICDE 2007,
sections 4.1 and 4.2.

Invariant: after release() everything held is younger than the least register.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slackwater.errors import BrokenOrder
from slackwater.operators.shares import ordered_together, parts_of_ordered, require_alike
from slackwater.progress.frontier import Frontier

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.columns.row_spread import RowSpread
    from slackwater.events.batch import EventBatch
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant


@dataclass(frozen=True)
class WaitingRoomState:
    """What a waiting room remembers."""

    registers: tuple[Instant, ...]
    held: tuple[tuple[EventBatch, ...], ...]

    def split(self, spreads: Sequence[RowSpread]) -> list[WaitingRoomState]:
        """What waits, by the keys of rows: a room for each place."""
        by_input = [parts_of_ordered(held, spread) for held, spread in zip(self.held, spreads, strict=True)]
        return [WaitingRoomState(self.registers, held) for held in zip(*by_input, strict=True)]

    @classmethod
    def unite(cls, where: str, states: Sequence[WaitingRoomState]) -> WaitingRoomState:
        """What waits in several rooms, in one; inputs of which rows wait must have come as far in all of them."""
        held = tuple(ordered_together(queues) for queues in zip(*(state.held for state in states), strict=True))
        registers = list(zip(*(state.registers for state in states), strict=True))
        for waiting, come_to in zip(held, registers, strict=True):
            if waiting:
                require_alike(where, come_to)
        return cls(tuple(map(min, registers)), held)


class WaitingRoom:
    """Buffers of several ordered inputs, released together as far as all of them have come."""

    __slots__ = ("_frontier", "_held", "_rows", "_where", "peak")

    def __init__(self, ports: int, where: str, resume: WaitingRoomState | None = None) -> None:
        self._where = where
        self._frontier = Frontier(ports, resume.registers if resume else None)
        self._held: list[deque[EventBatch]] = [deque(batches) for batches in resume.held] if resume else []
        self._held = self._held or [deque() for _ in range(ports)]
        self._rows = sum(batch.rows for queue in self._held for batch in queue)
        # The most rows that waited, or came to those that did; what comes to nobody and goes at once does not wait.
        self.peak = self._rows

    @property
    def complete_before(self) -> Instant:
        """The least instant that any input may still send."""
        return self._frontier.complete_before

    def take(self, port: Port, batch: EventBatch) -> None:
        """Hold the rows of an ordered batch and move its input's register. Cost: O(ports), none per row."""
        if batch.rows:
            data = batch.data()
            register, first = self._frontier.register(port), data.start.item(0)
            if first < register:
                raise BrokenOrder.by(self._where, f"input {port}, time {first}", f"time {register}")
            # On an ordered input an event is as good as a punctuation at its own time.
            self._frontier.advance(port, data.start.item(-1))
            self._held[port].append(data)
            self.peak = max(self.peak, self._rows + data.rows if self._rows else 0)
            self._rows += data.rows
        if batch.kind is not None and batch.rows < len(batch):
            self._frontier.advance(port, batch.punctuations().item(-1))

    def end(self, port: Port) -> None:
        """Note that an input has ended."""
        self._frontier.end(port)

    def release(self) -> list[list[EventBatch]]:
        """Hand over, per input, all that is not younger than the least register.

        Cost: O(log rows) per input, plus what is handed over; batches are cut, not copied.
        """
        bound = self._frontier.complete_before
        return [self._ready(queue, bound) if queue else [] for queue in self._held]

    def _ready(self, queue: deque[EventBatch], bound: Instant) -> list[EventBatch]:
        """Take from one queue all that starts at or before the bound."""
        ready: list[EventBatch] = []
        while queue and queue[0].start.item(-1) <= bound:
            ready.append(queue.popleft())
        if queue and queue[0].start.item(0) <= bound:
            batch = queue.popleft()
            cut = int(np.searchsorted(batch.start, bound, side="right"))
            ready.append(batch.slice(0, cut))
            queue.appendleft(batch.slice(cut, len(batch)))
        self._rows -= sum(batch.rows for batch in ready)
        return ready

    def idle_waiting_on(self) -> Port | None:
        """Name the input that holds the others back; None when nothing is held."""
        return self._frontier.holding_back() if self._rows else None

    def buffered(self) -> int:
        """How many rows are held."""
        return self._rows

    def snapshot(self) -> WaitingRoomState:
        """Return what is held. Cost: O(batches held); no row is copied."""
        return WaitingRoomState(self._frontier.registers, tuple(tuple(queue) for queue in self._held))

    def check(self) -> None:
        """Assert the invariants."""
        self._frontier.check()
        assert self._rows == sum(batch.rows for queue in self._held for batch in queue)
        for port, queue in enumerate(self._held):
            starts: Sequence[int] = [int(start) for batch in queue for start in batch.start]
            assert starts == sorted(starts), (port, starts)
            assert all(start > self.complete_before for start in starts), (self.complete_before, starts)
            assert all(start <= self._frontier.registers[port] for start in starts), (port, starts)
