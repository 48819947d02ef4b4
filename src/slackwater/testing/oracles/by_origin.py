"""Progress by origin in the most obvious way: the rows of every source are looked at alone, by its own heartbeats.

Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004, whose heartbeats these are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.testing.oracles.heartbeats.system import Arrival, Tick, Time


@dataclass(frozen=True)
class Released:
    """What becomes of rows, which are given by their numbers."""

    late: frozenset[int]
    """Those that come when their source is complete past them."""

    at: dict[int, Tick]
    """At the end of which tick the others go out; the end of all lets those go that are missing here."""


def release_within_origins(
    heartbeats: Sequence[Sequence[Time]], arrivals: Sequence[Arrival], window: Time = 1
) -> Released:
    """Find the late rows, and when the others go out, by the heartbeats of each source at each tick.

    With a `window` rows are late, and go out, by whole windows of that length.

    >>> beats = [[0, 0], [9, 3], [9, 9]]
    >>> release_within_origins(beats, [(1, 0, 9), (1, 1, 9), (2, 0, 8)])
    Released(late=frozenset({2}), at={0: 1, 1: 2})
    """
    late: set[int] = set()
    at: dict[int, Tick] = {}
    for source in {who for _, who, _ in arrivals}:
        alone = [(n, tick, time) for n, (tick, who, time) in enumerate(arrivals) if who == source]
        # The heartbeat x lets rows go that are not newer: the source is complete before x + 1.
        complete = [own[source] + 1 for own in heartbeats]
        complete = [bound - bound % window for bound in complete]
        for n, tick, time in alone:
            if tick and time < complete[tick - 1]:
                late.add(n)
                continue
            past = [later for later in range(tick, len(complete)) if time < complete[later]]
            at |= {n: past[0]} if past else {}
    return Released(frozenset(late), at)
