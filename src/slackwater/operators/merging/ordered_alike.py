"""Merges ordered replicas that tell the rows of one time in the same order: case R1 of LMerge.

Of the greatest time told it is enough to count: the n-th row of one replica is the n-th row of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.operators.merging.ordered_replicas import OrderedReplicas

if TYPE_CHECKING:
    from slackwater.events.batch import EventBatch, Mask
    from slackwater.progress.frontier import Port


class MergeOrderedAlike(OrderedReplicas):
    """Remembers how many rows of the greatest time each replica has told."""

    __slots__ = ("_told",)

    def _restore(self, ties: object) -> None:
        self._told = dict(ties) if isinstance(ties, tuple) else {}

    def _ties(self) -> tuple[tuple[Port, int], ...]:
        return tuple(sorted(self._told.items()))

    def _new_ties(self, port: Port, tied: EventBatch) -> Mask:
        most, mine = max(self._told.values(), default=0), self._told.get(port, 0)
        self._told[port] = mine + tied.rows
        return np.arange(mine, mine + tied.rows) >= most

    def _start_over(self, port: Port, tied: EventBatch) -> None:
        self._told = {port: tied.rows}

    def _begin_anew(self, port: Port) -> None:
        super()._begin_anew(port)
        self._told.pop(port, None)
