"""Merges replicas that may be disordered and revised, where start and payload are a key: case R3 of LMerge.

The first replica to tell an event is believed at once; revisions are not passed on. What a punctuation freezes is made
to agree, before it is passed on, with the replica that said it. So there are never more elements than were inserted
(Theorem 1), and the output can follow any replica at any time (conditions C1 to C3).

Invariant: the output and the replica with the greatest punctuation agree on all that it has frozen.
Cost: one hash look-up per element; a punctuation costs what it freezes, and a comparison for each 128 live events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.kernels import replicated_events as kernel
from slackwater.operators.merging.revised_replicas import RevisedReplicas, RevisedState

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from slackwater.events.batch import EventBatch
    from slackwater.progress.frontier import Port


class MergeRevisedWithKey(RevisedReplicas[RevisedState]):
    """Tells the first version of every event, and corrects it before it freezes."""

    __slots__ = ("_quorum",)

    def __init__(
        self,
        replicas: int,
        no_rows: pa.RecordBatch,
        where: str = "merge_replicas",
        resume: RevisedState | None = None,
        quorum: int = 1,
    ) -> None:
        super().__init__(replicas, no_rows, where, resume)
        self._quorum = quorum

    def _run(
        self, port: Port, batch: EventBatch, rows: tuple[NDArray[np.int64], ...], at: int, lines: NDArray[np.int64]
    ) -> tuple[int, int]:
        number, offsets, words = rows
        kinds, ends = batch.kinds(), batch.ends()
        return kernel.merge_elements(
            *self._state(), port, self._quorum, kinds, batch.start, ends, number, offsets, words, at, lines
        )

    def snapshot(self) -> RevisedState:
        """Return the nodes. Cost: a copy of all that lives."""
        return self._snapshot()

    def check(self) -> None:
        """Assert that the output can follow, and that no bound hides a node that is due."""
        super().check()
        for node in self._alive().tolist():
            start, told = self._nodes[node, kernel.START], self._nodes[node, kernel.OUT_END]
            assert told == kernel.NOWHERE or told >= self.complete_before, (start, told)
            for port in range(len(self._replicas)):
                given = self._nodes[node, kernel.ENDS + port]
                due = min(start if given == kernel.NOWHERE else given, start if told == kernel.NOWHERE else told)
                assert self._bounds[node // kernel.BLOCK, port] <= due, (node, port)
