"""Puts the rows of several streams in the order in which they arrived, whichever of them is read first.

Who reads streams one after the other must not take its own order for theirs: what was read of one stream says
something of the rows of another that arrived later, and not of those that wait to be read.

    by a column   rows go when every other stream has come as far, has ended, or has nothing that waits to be read
    by the clock  rows of all streams that wait to be read arrive together, when all have been read, or very many

Invariant: by a column, what waits arrived later than some stream has come that may have more to give; by the clock,
some stream may have more of this instant.
Cost: O(streams) for each batch, a binary search for each that is cut; rows are not copied.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from slackwater.events.batch import EventBatch, Times
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant

AT_ONCE: Final = 262_144
"""By the clock, rows of one stream after which it is read no further: whoever feeds it may never be done."""


@dataclass(frozen=True, slots=True)
class ArrivedRows:
    """Rows of one stream, in order of arrival."""

    times: Times
    arrivals: Times
    """When each arrived, never before the one before it; none by the clock, which says it when all are read."""

    rows: EventBatch | None = None
    """The rows themselves, of the stream that goes on."""

    def cut(self, place: int) -> tuple[ArrivedRows, ArrivedRows]:
        """The rows before a place, and those from there on."""
        rows = self.rows
        first, rest = (None, None) if rows is None else (rows.slice(0, place), rows.slice(place, len(rows)))
        return (
            ArrivedRows(self.times[:place], self.arrivals[:place], first),
            ArrivedRows(self.times[place:], self.arrivals[place:], rest),
        )


@dataclass(frozen=True, slots=True)
class ArrivalOrderState:
    """What is remembered of each stream: the rows that wait, when the last arrived, and whether it has ended."""

    waiting: tuple[tuple[ArrivedRows, ...], ...]
    registers: tuple[Instant, ...]
    ended: tuple[Port, ...]


class ArrivalOrder:
    """Holds rows until it is known that none which arrived before them is still to be read.

    >>> order = ArrivalOrder(2, by_clock=False)
    >>> order.take(0, np.array([7, 8]), np.array([10, 30]))
    >>> order.waits_for(), order.release()
    (1, [[], []])
    >>> order.take(1, np.array([5]), np.array([20]))
    >>> [[some.times.tolist() for some in one] for one in order.release()], order.waits_for()
    ([[[7]], [[5]]], 1)
    >>> order.note_quiet(1)
    >>> [[some.times.tolist() for some in one] for one in order.release()], order.waits_for()
    ([[[8]], []], None)
    """

    __slots__ = ("_by_clock", "_ended", "_quiet", "_registers", "_rows", "_waiting")

    def __init__(self, ports: int, *, by_clock: bool, resume: ArrivalOrderState | None = None) -> None:
        self._by_clock = by_clock
        state = resume or ArrivalOrderState(((),) * ports, (BEGINNING,) * ports, ())
        self._waiting = [deque(some) for some in state.waiting]
        # Counted along: there may be very many pieces.
        self._rows = [sum(len(some.times) for some in waiting) for waiting in self._waiting]
        self._registers = list(state.registers)
        self._ended = set(state.ended)
        # Who has nothing to give at present: asked anew when somebody has given something.
        self._quiet: set[Port] = set()

    def take(self, port: Port, times: Times, arrivals: Times, rows: EventBatch | None = None) -> None:
        """Take in rows of a stream. One that arrived before those before it counts as having come with them."""
        self._quiet.clear()
        if len(arrivals):
            arrivals = np.maximum(np.maximum.accumulate(arrivals), self._registers[port])
            self._registers[port] = int(arrivals[-1])
        self._waiting[port].append(ArrivedRows(times, arrivals, rows))
        self._rows[port] += len(times)

    def end(self, port: Port) -> None:
        """Wait for a stream no longer."""
        self._ended.add(port)

    def note_quiet(self, port: Port) -> None:
        """Learn that nothing of a stream waits to be read."""
        self._quiet.add(port)

    def release(self) -> list[list[ArrivedRows]]:
        """Hand over, of each stream, the rows whose turn has come."""
        if self._by_clock and self.waits_for() is not None:
            return [[] for _ in self._waiting]
        bound = FOREVER if self._by_clock else self._bound()
        return [self._released(port, bound) for port in range(len(self._waiting))]

    def _bound(self) -> Instant:
        """Up to when all streams are known that may have more to give."""
        return min((self._registers[port] for port in self._awaited()), default=FOREVER)

    def _released(self, port: Port, bound: Instant) -> list[ArrivedRows]:
        ready, waiting = [], self._waiting[port]
        while waiting and (not len(waiting[0].arrivals) or waiting[0].arrivals[0] <= bound):
            some = waiting.popleft()
            if len(some.arrivals) and some.arrivals[-1] > bound:
                some, rest = some.cut(int(np.searchsorted(some.arrivals, bound, side="right")))
                waiting.appendleft(rest)
            ready.append(some)
            self._rows[port] -= len(some.times)
        return ready

    def _awaited(self) -> list[Port]:
        """The streams of which rows may wait to be read."""
        return [port for port in range(len(self._waiting)) if port not in self._ended and port not in self._quiet]

    def waits_for(self) -> Port | None:
        """The stream that must be read first, or be known to have nothing; None if nothing waits."""
        if not any(self._rows):
            return None
        if self._by_clock:
            return next((port for port in self._awaited() if self._rows[port] < AT_ONCE), None)
        return min(self._awaited(), key=self._registers.__getitem__, default=None)

    def waits(self, port: Port) -> bool:
        """Whether rows of a stream wait."""
        return self._rows[port] > 0

    def has_ended(self, port: Port) -> bool:
        """Whether nothing of a stream will come any more."""
        return port in self._ended

    @property
    def rows(self) -> int:
        """How many rows wait, of all streams."""
        return sum(self._rows)

    def snapshot(self) -> ArrivalOrderState:
        """All that is remembered. Who is quiet is not: whoever goes on asks again."""
        waiting = tuple(tuple(some) for some in self._waiting)
        return ArrivalOrderState(waiting, tuple(self._registers), tuple(sorted(self._ended)))

    def check(self) -> None:
        """Assert the invariants."""
        assert self._rows == [sum(len(some.times) for some in waiting) for waiting in self._waiting], self._rows
        for waiting, register in zip(self._waiting, self._registers, strict=True):
            arrivals = [int(one) for some in waiting for one in some.arrivals]
            assert arrivals == sorted(arrivals), arrivals
            assert not arrivals or arrivals[-1] == register, (arrivals, register)
            if not self._by_clock:
                bound = self._bound()
                assert all(arrived > bound for arrived in arrivals), (arrivals, bound)
        if self.waits_for() is None:
            assert not any(self._waiting), "rows wait for nobody"
