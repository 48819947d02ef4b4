"""Merges replicas in strictly increasing order of time: case R0 of LMerge. What is newer than all before goes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.operators.replicas.ordered_replicas import OrderedReplicas

if TYPE_CHECKING:
    from slackwater.events.batch import EventBatch, Mask
    from slackwater.progress.frontier import Port


class MergeStrictlyOrdered(OrderedReplicas):
    """Nothing is remembered but the greatest time."""

    __slots__ = ()

    strictly = True

    def _restore(self, ties: object) -> None:
        """There are no ties."""

    def _ties(self) -> None:
        return None

    def _new_ties(self, port: Port, tied: EventBatch) -> Mask:  # noqa: ARG002 - each time has one row
        return np.zeros(tied.rows, dtype=bool)

    def _start_over(self, port: Port, tied: EventBatch) -> None:
        """There are no ties."""
