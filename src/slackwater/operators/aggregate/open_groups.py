"""Holds the groups that are not complete yet, as a few partial results of falling size.

A merge is dear, even of little, so partials are merged eight at a time: when the last eight are of one size class, and
when the newest is larger than those before it. A class holds partials of up to eight times the rows of the class
below. So classes fall from the oldest partial to the newest, there are O(log n) partials, and a row is merged O(log n)
times, with eight as the base, while it waits.

Cost of a release: O(log n) per partial to find what goes; what stays is neither read nor copied.
"""

from __future__ import annotations

from itertools import chain, groupby, pairwise
from typing import TYPE_CHECKING, Final

from slackwater.operators.aggregate.partials import Partial, PartialState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slackwater.columns.row_spread import RowSpread
    from slackwater.operators.aggregate.recipes import Grouping
    from slackwater.progress.instants import Instant

_TOGETHER: Final = 8
"""How many partials of one size class are merged into one of the next."""


class OpenGroups:
    """Partial results by age, the oldest first."""

    __slots__ = ("_partials",)

    def __init__(self, partials: Iterable[Partial] = ()) -> None:
        self._partials: list[Partial] = list(partials)

    @classmethod
    def together(cls, several: Iterable[Iterable[PartialState]], grouping: Grouping) -> OpenGroups:
        """The groups that several have remembered."""
        groups = cls()
        for state in chain.from_iterable(several):
            groups.add(Partial.restored(state, grouping))
        return groups

    def __len__(self) -> int:
        return sum(len(partial) for partial in self._partials)

    def add(self, newest: Partial) -> None:
        """Hold one more partial. Cost: amortised O(log n) merges of each of its rows."""
        if not len(newest):
            return
        self._partials.append(newest)
        while (together := self._worth_merging()) > 1:
            self._partials[-together:] = [Partial.merge(self._partials[-together:])]

    def _worth_merging(self) -> int:
        """How many of the last partials are worth merging: smaller ones before the last, or enough of its class."""
        newest = _size_class(self._partials[-1])
        classes = [_size_class(partial) for partial in reversed(self._partials[:-1])]
        smaller = next((place for place, one in enumerate(classes) if one >= newest), len(classes))
        if smaller:
            return smaller + 1
        alike = next((place for place, one in enumerate(classes) if one != newest), len(classes))
        return alike + 1 if alike + 1 >= _TOGETHER else 0

    def release(self, bound: Instant) -> list[Partial]:
        """Hand over all groups that start before the bound, oldest partial first."""
        if all(partial.starts[0] >= bound for partial in self._partials):
            return []
        halves = [partial.split(bound) for partial in self._partials]
        self._stack_up(left for _, left in halves)
        return [done for done, _ in halves if len(done)]

    def forget_ended(self, bound: Instant) -> None:
        """Forget groups that end at or before the bound, in each partial those before the first that does not.

        Of windows these are all, for windows that start later end later. Cost: O(groups forgotten), and a release.
        """
        ended = [partial.first_past(bound) for partial in self._partials]
        if any(ended):
            self._stack_up(partial.cut(cut)[1] for partial, cut in zip(self._partials, ended, strict=True))

    def _stack_up(self, left: Iterable[Partial]) -> None:
        """Hold what is left of the partials; it may have fallen out of its class."""
        self._partials, left = [], list(left)
        for partial in left:
            self.add(partial)

    def spread(self, spread: RowSpread) -> list[OpenGroups]:
        """The groups of each place, by their keys. Cost: a copy of all."""
        parts = [OpenGroups() for _ in range(spread.places)]
        for partial in self._partials:
            for part, groups in zip(parts, partial.spread(spread), strict=True):
                part.add(groups)
        return parts

    def remembered(self) -> tuple[PartialState, ...]:
        """What is to be remembered. Copies nothing."""
        return tuple(partial.snapshot() for partial in self._partials)

    def snapshot(self) -> tuple[Partial, ...]:
        """Return what is held. Partials never change, so nothing is copied."""
        return tuple(self._partials)

    def check(self) -> None:
        """Assert the invariants."""
        for partial in self._partials:
            assert len(partial) > 0
            partial.check()
        classes = [_size_class(partial) for partial in self._partials]
        assert all(older >= newer for older, newer in pairwise(classes)), classes
        assert all(len(list(alike)) < _TOGETHER for _, alike in groupby(classes)), classes


def _size_class(partial: Partial) -> int:
    return (partial.rows.bit_length() + 2) // 3
