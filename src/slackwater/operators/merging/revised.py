"""Merges replicas that may be disordered and revised, and tell the same event any number of times: case R4 of LMerge.

As in revised_with_key the first replica to tell an event is believed at once, and the output is corrected before it
freezes. Of equal events the output has as many as the replica with most of them, until a punctuation settles it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slackwater.errors import PlanError, message
from slackwater.kernels import replicated_events as events
from slackwater.kernels import replicated_multisets as kernel
from slackwater.operators.merging.revised_replicas import RevisedReplicas, RevisedState
from slackwater.policies.agreement import Agreement
from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from slackwater.events.batch import EventBatch
    from slackwater.operators.row_bytes import RowBytes
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant


@dataclass(frozen=True)
class MultisetState(RevisedState):
    """What is remembered: the nodes, and the lists of their ends."""

    entries: NDArray[np.int64]


class MergeRevised(RevisedReplicas[MultisetState]):
    """Tells as many of each event as some replica has, and corrects them before they freeze."""

    __slots__ = ("_entries", "_only_frozen")

    def __init__(
        self,
        replicas: int,
        no_rows: pa.RecordBatch,
        where: str = "merge_replicas",
        resume: MultisetState | None = None,
        agreement: Agreement | None = None,
        ordered: Sequence[Port] = (),
    ) -> None:
        self._only_frozen = agreement == Agreement.frozen()
        if not self._only_frozen and agreement not in {None, Agreement.first()}:
            facts = {"agreement": str(agreement)}
            hint = "choose Agreement.first() or Agreement.frozen(), or declare that start and payload are a key"
            raise PlanError(message(f"{where} cannot count equal events by this agreement", facts, hint))
        super().__init__(replicas, no_rows, where, resume, ordered)

    def _empty(self) -> None:
        super()._empty()
        self._entries = np.empty((0, kernel.ENTRY), dtype=np.int64)
        self._counters[kernel.UNUSED] = -1

    def _restore(self, state: MultisetState) -> None:
        self._entries = state.entries.copy()
        super()._restore(state)

    def _make_room(self, nodes: int, words: int, *, anew: bool = False) -> None:
        super()._make_room(nodes, words, anew=anew)
        # Every element may need an entry of its replica and one of the output; the output never has more than that.
        needed = 2 * (int(self._counters[kernel.ENTRIES]) + 2 * nodes)
        if anew or needed > len(self._entries):
            self._move_entries(2 * needed)

    def _moved(self) -> None:
        self._move_entries(len(self._entries))

    def _move_entries(self, room: int) -> None:
        entries = np.empty((room, kernel.ENTRY), dtype=np.int64)
        kernel.move_entries(self._nodes, self._counters, self._entries, entries)
        self._entries = entries

    def _run(self, port: Port, batch: EventBatch, payloads: RowBytes, at: int, row: int) -> tuple[int, int]:
        kinds, prior_ends, ends = batch.kinds(), batch.prior_ends(), batch.ends()
        return kernel.merge_elements(
            *self._state(), self._entries, port, int(self._only_frozen), kinds, batch.start, prior_ends, ends,
            payloads.word_offsets, payloads.words, at, row, self._lines,
        )  # fmt: skip

    def of_interest_from(self, port: Port) -> Instant:
        """All, unless what is told is frozen: an end that a replica has not told is taken for one that was revised."""
        return super().of_interest_from(port) if self._only_frozen else BEGINNING

    def _tells(self, port: Port) -> int:
        lists, total = self._nodes[self._alive(), events.ENDS + port], 0
        for head in lists[lists >= 0].tolist():
            at = head
            while at >= 0:
                _, count, at = self._entries[at].tolist()
                total += count
        return total

    def snapshot(self) -> MultisetState:
        """Return the nodes and their lists. Cost: a copy of all that lives."""
        state = self._snapshot()
        used = int(self._counters[kernel.ENTRIES])
        return MultisetState(
            state.replicas, state.nodes, state.bounds, state.held, state.counters, self._entries[:used].copy()
        )

    def check(self) -> None:
        """Assert that every list rises, and counts something."""
        super().check()
        for node in self._alive().tolist():
            heads = [self._nodes[node, events.OUT_END], *self._nodes[node, events.ENDS :]]
            for head in heads:
                at, before = int(head), BEGINNING
                while at >= 0:
                    end, count, following = self._entries[at].tolist()
                    assert end > before or before == BEGINNING, (end, before)
                    assert count > 0
                    at, before = following, end
