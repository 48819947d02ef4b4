"""How far several inputs have come together: the least of their punctuations.

Each input has a time-stamp memory register (Bai et al., ICDE 2007, section 4.1): the least instant at which it may
still send something. On an ordered input every event moves the register, not only punctuations.

Invariant: registers never go back, so neither does the frontier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from slackwater.progress.instants import BEGINNING, FOREVER, Instant

if TYPE_CHECKING:
    from collections.abc import Iterable

Port: TypeAlias = int
"""The number of an operator's input, from 0."""


class Frontier:
    """The registers of an operator's inputs.

    >>> frontier = Frontier(ports=2)
    >>> frontier.advance(0, 7), frontier.advance(1, 5)
    (False, True)
    >>> frontier.complete_before, frontier.holding_back()
    (5, 1)
    """

    __slots__ = ("_registers", "complete_before")

    def __init__(self, ports: int, registers: Iterable[Instant] | None = None) -> None:
        self._registers = [BEGINNING] * ports if registers is None else list(registers)
        self.complete_before: Instant = min(self._registers)

    @property
    def registers(self) -> tuple[Instant, ...]:
        """The least instant that each input may still send."""
        return tuple(self._registers)

    def register(self, port: Port) -> Instant:
        """The least instant that one input may still send."""
        return self._registers[port]

    def advance(self, port: Port, complete_before: Instant) -> bool:
        """Raise one register (never lower it); return whether the frontier moved. Cost: O(ports)."""
        if complete_before <= self._registers[port]:
            return False
        self._registers[port] = complete_before
        before = self.complete_before
        self.complete_before = min(self._registers)
        return self.complete_before > before

    def end(self, port: Port) -> bool:
        """Note that an input has ended: it holds nobody back any more."""
        return self.advance(port, FOREVER)

    def holding_back(self) -> Port:
        """The first input whose register is the least."""
        return self._registers.index(self.complete_before)

    def check(self) -> None:
        """Assert the invariant."""
        assert self.complete_before == min(self._registers), self._registers
