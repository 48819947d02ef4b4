"""Events without an end that hold up a merge of revised replicas: which they are, and who has them.

A punctuation has passed their start, and they are not emitted: they may still get an end. Nothing behind them is
complete until a replica that has them sends their ends, or takes them back, or all replicas have ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.progress.instants import FOREVER

if TYPE_CHECKING:
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant


@dataclass(frozen=True, slots=True)
class OpenEvents:
    """How many events without an end hold up a merge, the start of the first, and how many each replica lacks.

    >>> OpenEvents(3, 7, (0, 2)).described("7")
    'waits for the ends of 3 events that have none, the first at 7; replica 0 has all of them; replica 1 lacks 2'
    """

    count: int = 0
    first: Instant = FOREVER
    lacked_by: tuple[int, ...] = ()
    """For each replica, how many of them it lacks."""

    def described(self, first: str) -> str:
        """What is waited for, with the first start as it is to be shown; empty if nothing is."""
        if not self.count:
            return ""
        who = "".join(f"; {self.of_replica(port)}" for port in range(len(self.lacked_by)))
        return f"waits for the ends of {self.count} events that have none, the first at {first}{who}"

    def of_replica(self, port: Port) -> str:
        """How a replica stands to them.

        >>> OpenEvents(3, 7, (0, 2)).of_replica(1)
        'replica 1 lacks 2'
        """
        lacks = self.lacked_by[port]
        return f"replica {port} lacks {lacks}" if lacks else f"replica {port} has all of them"


NO_OPEN_EVENTS = OpenEvents()
"""Of a merge that is not held up by events without an end."""
