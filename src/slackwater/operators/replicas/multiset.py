"""Merges replicas that may be disordered and revised, and send the same event any number of times: case R4 of LMerge.

As in revised_with_key, unless another agreement is chosen, the first replica that has an event is believed at once, and
the output is corrected before it freezes. Of equal events the output has as many as the replica with most of them,
until a punctuation settles it. On streams with a key it emits what the merge for these does, under every agreement.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from slackwater.kernels.replicas import counted_ends, event_index
from slackwater.kernels.replicas import merged_events as merged
from slackwater.kernels.replicas import replicated_multisets as kernel
from slackwater.operators.replicas.revised_replicas import RevisedReplicas, RevisedState
from slackwater.policies.agreement import Emit
from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slackwater.columns.row_codec import RowBytes
    from slackwater.events.batch import EventBatch
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant


@dataclass(frozen=True)
class MultisetState(RevisedState):
    """What is remembered: the nodes, and the lists of their ends."""

    entries: NDArray[np.int64]


class MergeMultiset(RevisedReplicas[MultisetState]):
    """Emits as many of each event as some replica has, and corrects them before they freeze."""

    __slots__ = ("_entries",)
    state_types = (MultisetState, *RevisedReplicas.state_types)

    def _empty(self) -> None:
        super()._empty()
        self._entries = counted_ends.empty_entries()

    def _restore(self, state: MultisetState) -> None:
        self._entries = state.entries.copy()
        super()._restore(state)

    def _make_room(self, nodes: int, words: int, *, anew: bool = False) -> None:
        super()._make_room(nodes, words, anew=anew)
        # Every element may need an entry of its replica and one of the output; the output never has more than that.
        needed = 2 * (counted_ends.used_lines(self._entries) + 2 * nodes)
        if anew or needed > len(self._entries):
            self._move_entries(2 * needed)

    def _move_entries(self, room: int) -> None:
        before, self._entries = self._entries, counted_ends.empty_entries(room)
        lists = np.array([merged.OUT_END, *range(merged.ENDS, self._events.nodes.shape[1])])
        used = int(self._events.counters[event_index.NODES])
        counted_ends.move_lists(self._events.nodes, used, lists, before, self._entries)

    def _run(self, port: Port, batch: EventBatch, payloads: RowBytes, at: int, row: int) -> tuple[int, int]:
        kinds, prior_ends, ends = batch.kinds(), batch.prior_ends(), batch.ends()
        return kernel.merge_elements(
            *self._events.arrays(), self._events.bounds, self._entries, port, self._rules, self._standing, kinds,
            batch.start, prior_ends, ends, payloads.word_offsets, payloads.words, at, row, self._lines,
        )  # fmt: skip

    def _count_unsent(self) -> int:
        return kernel.recount(self._events.nodes, self._entries, self._events.counters, self._standing, merged.NOBODY)

    def _last_ends(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        at, ends = nodes[:, merged.ENDS :].copy(), np.full(nodes[:, merged.ENDS :].shape, merged.NOWHERE)
        while (left := at > counted_ends.NO_ENTRY).any():  # once for each end of the longest list
            ends[left] = self._entries[at[left], counted_ends.END]
            at[left] = self._entries[at[left], counted_ends.NEXT]
        return ends

    def _copies_of(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        given = nodes[:, merged.ENDS :]
        # A point has one end, so that a list has one entry.
        return np.where(given > counted_ends.NO_ENTRY, self._entries[np.maximum(given, 0), counted_ends.COUNT], 0)

    def _leave_out_what_only_it_had(self, port: Port) -> None:
        kernel.recount(self._events.nodes, self._entries, self._events.counters, self._standing, port)

    def _ends_not_in_output(self, node: int, given: int) -> list[Instant]:
        emitted = Counter(dict(counted_ends.spelled_out(self._entries, int(self._events.nodes[node, merged.OUT_END]))))
        ends = Counter(dict(counted_ends.spelled_out(self._entries, given)))
        return list((ends - emitted).elements())

    def of_interest_from(self, port: Port) -> Instant:
        """All, unless only what is frozen is emitted: an end that a replica lacks is taken for one that was revised."""
        return super().of_interest_from(port) if self._agreement.emit is Emit.FROZEN else BEGINNING

    def snapshot(self) -> MultisetState:
        """Return the nodes and their lists. Cost: a copy of all that lives."""
        state = self._snapshot()
        return MultisetState(**vars(state), entries=self._entries[: counted_ends.used_lines(self._entries)].copy())

    def check(self) -> None:
        """Assert that every list rises, and counts something, and that what each replica has is counted."""
        super().check()
        counted = [0] * len(self._replicas)
        for node in self._events.alive().tolist():
            lists = self._events.nodes[node]
            for place, first in enumerate([lists[merged.OUT_END], *lists[merged.ENDS :]]):
                before = BEGINNING
                for end, count in counted_ends.spelled_out(self._entries, int(first)):
                    assert end > before, (end, before)
                    assert count > 0
                    before = end
                    if place:
                        counted[place - 1] += count
        for port, replica in enumerate(self._replicas):
            assert not replica.attached or counted[port] == self._live_events(port), (port, counted[port])
