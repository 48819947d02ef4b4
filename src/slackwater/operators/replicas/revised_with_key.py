"""Merges replicas that may be disordered and revised, where start and payload are a key: case R3 of LMerge.

Unless another agreement is chosen, the first replica that has an event is believed at once, and revisions are not
passed on. What a punctuation freezes is made to agree, before it is passed on, with the replica that sent it. So there
are never more elements than came in (Theorem 1), and the output can follow any replica at any time (C1 to C3).

Invariant: the output and the replica with the greatest punctuation agree on all that it has frozen.
Cost: one hash look-up per element; a punctuation costs what it freezes, and a comparison for each 128 live events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.kernels.replicas import event_index
from slackwater.kernels.replicas import merged_events as merged
from slackwater.kernels.replicas import replicated_events as kernel
from slackwater.kernels.replicas.replica_standing import CONTRADICTED
from slackwater.operators.replicas.revised_replicas import RevisedReplicas, RevisedState

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from slackwater.columns.row_codec import RowBytes
    from slackwater.events.batch import EventBatch
    from slackwater.policies.agreement import Agreement
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant


class MergeRevisedWithKey(RevisedReplicas[RevisedState]):
    """Emits events when the agreement allows, and corrects them before they freeze."""

    __slots__ = ("_hashes",)
    state_types = (RevisedState, *RevisedReplicas.state_types)

    def __init__(
        self,
        replicas: int,
        no_rows: pa.RecordBatch,
        where: str = "merge_replicas",
        resume: RevisedState | None = None,
        agreement: Agreement | None = None,
        ordered: Sequence[Port] = (),
        *,
        final: bool = False,
        diverts: bool = False,
    ) -> None:
        self._hashes = np.zeros(kernel.AHEAD + 1, dtype=np.int64)
        super().__init__(replicas, no_rows, where, resume, agreement, ordered, final=final, diverts=diverts)

    def _run(self, port: Port, batch: EventBatch, payloads: RowBytes, at: int, row: int) -> tuple[int, int]:
        kinds, ends = batch.kinds(), batch.ends()
        return kernel.merge_elements(
            *self._events.arrays(), self._events.bounds, port, self._rules, self._standing, kinds, batch.start, ends,
            payloads.word_offsets, payloads.words, at, row, self._hashes, self._lines,
        )  # fmt: skip

    def _count_unsent(self) -> int:
        alive = self._events.nodes[self._events.alive()]
        return int(alive[:, merged.MOST].sum() - np.count_nonzero(alive[:, merged.OUT_END] != merged.NOWHERE))

    def _last_ends(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        return nodes[:, merged.ENDS :]

    def _copies_of(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        return (nodes[:, merged.ENDS :] != merged.NOWHERE).astype(np.int64)

    def _leave_out_what_only_it_had(self, port: Port) -> None:
        alive = self._events.alive()
        known = self._events.nodes[alive, merged.OUT_END] != merged.NOWHERE
        known |= (self._events.nodes[alive, merged.ENDS :] != merged.NOWHERE).any(axis=1)
        left_out = alive[~known]
        self._standing[port, CONTRADICTED] += self._events.nodes[left_out, merged.MOST].sum()
        self._events.nodes[left_out, merged.MOST] = 0

    def _ends_not_in_output(self, node: int, given: int) -> list[Instant]:  # noqa: ARG002 - only of nodes that have no output
        return [given]

    def snapshot(self) -> RevisedState:
        """Return the nodes. Cost: a copy of all that lives."""
        return self._snapshot()

    def check(self) -> None:
        """Assert that the output can follow, and that no bound hides a node that is due."""
        super().check()
        for node in self._events.alive().tolist():
            start, out = self._events.nodes[node, event_index.START], self._events.nodes[node, merged.OUT_END]
            assert out == merged.NOWHERE or out >= self.complete_before, (start, out)
            for port in range(len(self._replicas)):
                given = self._events.nodes[node, merged.ENDS + port]
                due = min(start if given == merged.NOWHERE else given, start if out == merged.NOWHERE else out)
                assert self._events.bounds[node // event_index.BLOCK, port] <= due, (node, port)
