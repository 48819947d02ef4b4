"""Holds the groups that are not complete yet, as a few partial results of falling size.

New partials come in at the end; the last two are merged while the newer has at least half the rows of the older. So
each partial has less than half the rows of the one before it, there are O(log n) of them, and a row is merged
O(log n) times while it waits, however small the batches are.

Cost of a release: O(log n) per partial to find what goes; what stays is neither read nor copied.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from slackwater.operators.partials import Partial

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slackwater.progress.instants import Instant


class OpenGroups:
    """Partial results by age, the oldest first."""

    __slots__ = ("_partials",)

    def __init__(self, partials: Iterable[Partial] = ()) -> None:
        self._partials = list(partials)

    def __len__(self) -> int:
        return sum(len(partial) for partial in self._partials)

    def add(self, newest: Partial) -> None:
        """Hold one more partial. Cost: amortised O(log n) merges of each of its rows."""
        if not len(newest):
            return
        while self._partials and 2 * newest.rows >= self._partials[-1].rows:
            newest = Partial.merge([self._partials.pop(), newest])
        self._partials.append(newest)

    def release(self, bound: Instant) -> list[Partial]:
        """Hand over all groups that start before the bound, oldest partial first."""
        if all(partial.starts[0] >= bound for partial in self._partials):
            return []
        halves = [partial.split(bound) for partial in self._partials]
        # What is left may have fallen out of proportion, so it is stacked up anew. A merge here costs at most
        # three times the rows of its newer side, and each row is on the newer side O(log n) times in its life,
        # because that leaves one older partial less before it.
        self._partials = []
        for _, left in halves:
            self.add(left)
        return [done for done, _ in halves if len(done)]

    def snapshot(self) -> tuple[Partial, ...]:
        """Return what is held. Partials never change, so nothing is copied."""
        return tuple(self._partials)

    def check(self) -> None:
        """Assert the invariants."""
        for partial in self._partials:
            assert len(partial) > 0
            partial.check()
        for older, newer in pairwise(self._partials):
            assert 2 * newer.rows < older.rows, [partial.rows for partial in self._partials]
