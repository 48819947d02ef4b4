"""Merges replicas that may be disordered and revised, where start and payload are a key: case R3 of LMerge.

Unless the agreement says otherwise, the first replica to tell an event is believed at once, and revisions are not
passed on. What a punctuation freezes is made to agree, before it is passed on, with the replica that said it. So there
are never more elements than came in (Theorem 1), and the output can follow any replica at any time (C1 to C3).

Invariant: the output and the replica with the greatest punctuation agree on all that it has frozen.
Cost: one hash look-up per element; a punctuation costs what it freezes, and a comparison for each 128 live events.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slackwater.kernels import replicated_events as kernel
from slackwater.operators.merging.revised_replicas import RevisedReplicas, RevisedState
from slackwater.policies.agreement import Agreement, Revise, Tell
from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from slackwater.events.batch import EventBatch
    from slackwater.operators.row_bytes import RowBytes
    from slackwater.progress.frontier import Port


@dataclass(frozen=True)
class RankedState(RevisedState):
    """What is remembered: the nodes, and how each replica stands among the others."""

    standing: NDArray[np.int64]


_FIRST = {
    Tell.BY_QUORUM: kernel.WHEN_TOLD_BY_QUORUM,
    Tell.LEADING: kernel.WHEN_LEADING,
    Tell.NEWEST: kernel.WHEN_NEWEST,
    Tell.FULLEST: kernel.WHEN_FULLEST,
    Tell.HALF_FROZEN: kernel.WHEN_HALF_FROZEN,
    Tell.FROZEN: kernel.WHEN_FROZEN,
}
_REVISION = {
    Revise.WHEN_FROZEN: kernel.REVISE_WHEN_FROZEN,
    Revise.ALWAYS: kernel.REVISE_ALWAYS,
    Revise.LEADING: kernel.REVISE_WHEN_LEADING,
}


def _fresh(replicas: int) -> NDArray[np.int64]:
    """The standing of replicas that have told nothing."""
    standing = np.full((replicas, kernel.STANDING), BEGINNING, dtype=np.int64)
    standing[:, kernel.TELLS] = 0
    return standing


class MergeRevisedWithKey(RevisedReplicas[RankedState]):
    """Tells events as the agreement says, and corrects them before they freeze."""

    __slots__ = ("_agreement", "_rules", "_standing")

    def __init__(
        self,
        replicas: int,
        no_rows: pa.RecordBatch,
        where: str = "merge_replicas",
        resume: RankedState | None = None,
        agreement: Agreement | None = None,
        ordered: Sequence[Port] = (),
    ) -> None:
        self._agreement = agreement or Agreement.first()
        self._standing = _fresh(replicas)
        super().__init__(replicas, no_rows, where, resume, ordered)
        self._rules = self._as_rules()

    def _restore(self, state: RankedState) -> None:
        self._standing = state.standing.copy()
        super()._restore(state)

    def _run(self, port: Port, batch: EventBatch, payloads: RowBytes, at: int, row: int) -> tuple[int, int]:
        kinds, ends = batch.kinds(), batch.ends()
        return kernel.merge_elements(
            *self._state(), port, self._rules, self._standing, kinds, batch.start, ends, payloads.word_offsets,
            payloads.words, at, row, self._hashes, self._lines,
        )  # fmt: skip

    def _tells(self, port: Port) -> int:
        return int(self._standing[port, kernel.TELLS])

    def _as_rules(self) -> NDArray[np.int64]:
        """The agreement in numbers; a quorum is one of those replicas that are listened to."""
        chosen = self._agreement
        attached = sum(replica.attached for replica in self._replicas)
        quorum = max(1, math.ceil(chosen.quorum * attached))
        return np.array([_FIRST[chosen.tell], quorum, _REVISION[chosen.revise], chosen.lag])

    def _begin_anew(self, port: Port) -> None:
        super()._begin_anew(port)
        kept = np.delete(self._standing, [port], axis=0) if port < len(self._standing) else self._standing
        self._standing = np.insert(kept, port, _fresh(1)[0], axis=0)
        self._rules = self._as_rules()

    def detach(self, port: Port) -> None:
        """Listen to a replica no longer: it leads nobody."""
        super().detach(port)
        self._standing[port] = _fresh(1)[0]
        self._rules = self._as_rules()

    def snapshot(self) -> RankedState:
        """Return the nodes. Cost: a copy of all that lives."""
        state = self._snapshot()
        held, counters = state.held, state.counters
        return RankedState(state.replicas, state.nodes, state.bounds, held, counters, self._standing.copy())

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
