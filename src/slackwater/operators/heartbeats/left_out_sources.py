"""Lets a heartbeat generator leave sources out: they are waited for no longer, until somebody says so again.

Their heartbeats rise as before, by what rules say, and what their rows guarantee of others still counts. Only the least
of all heartbeats is found without them. Whether one is waited for is a column of the tables, so that it is part of the
state of the generator.

Invariant: heartbeats, and how far the stream is complete, never fall.
Cost: O(sources), where somebody asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slackwater.kernels.progress import heartbeat_tables as kernel
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numpy.typing import NDArray

    from slackwater.operators.heartbeats.tables import Tables


class LeavesSourcesOut:
    """What a generator does with sources that are not waited for, though rules would."""

    __slots__ = ()
    _tables: Tables
    names: list[Hashable | None]

    def waits_by_rules(self, place: int) -> int:
        """From when on rules wait for the source in a place: never, always, or from its first row on."""
        raise NotImplementedError

    def leave_out(self, place: int) -> None:
        """Wait for the source in a place no longer, and go on as far as the others are."""
        self._tables.sources[kernel.WAITED_FOR, place] = kernel.NEVER
        self._bind_again()

    def wait_for_again(self, place: int) -> None:
        """Wait for the source in a place as rules say."""
        waits = self.waits_by_rules(place)
        has_come = self._tables.sources[kernel.LAST_TICK, place] != BEGINNING
        if waits == kernel.FROM_FIRST_ROW and has_come:
            waits = kernel.ALWAYS
        self._tables.sources[kernel.WAITED_FOR, place] = waits
        self._bind_again()

    def go_on_without(self) -> None:
        """Where nobody is waited for any more because all were left out: be complete as far as the newest row is.

        It is as in a lull of all sources.
        """
        everything, waited_for = self._tables.everything, self._of_sources(kernel.WAITED_FOR)
        rules = np.array([self.waits_by_rules(place) for place in range(len(self.names))])
        if (waited_for == kernel.NEVER).all() and (rules != kernel.NEVER).any():
            everything[kernel.OVERALL] = max(everything[kernel.OVERALL], everything[kernel.NEWEST])

    def lags(self, place: int) -> bool:
        """Whether the source in a place is complete less far than the stream."""
        heartbeat: int = self._tables.sources[kernel.HEARTBEAT, place]
        return bool(heartbeat < self._tables.everything[kernel.OVERALL])

    def _bind_again(self) -> None:
        """Find the least heartbeat of the sources that are waited for now, and whose it is."""
        everything, heartbeats = self._tables.everything, self._of_sources(kernel.HEARTBEAT)
        waited_for = self._of_sources(kernel.WAITED_FOR) == kernel.ALWAYS
        if not waited_for.any():
            everything[kernel.BINDING] = kernel.NONE
            self.go_on_without()
            return
        place = int(np.where(waited_for, heartbeats, FOREVER).argmin())
        everything[kernel.BINDING] = place
        everything[kernel.OVERALL] = max(everything[kernel.OVERALL], heartbeats[place])

    def _of_sources(self, column: int) -> NDArray[Any]:
        return self._tables.sources[column, : len(self.names)]
