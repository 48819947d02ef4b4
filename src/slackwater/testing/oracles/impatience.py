"""Impatience sort word for word: runs are lists, every run is looked at, every order of merging is tried.

Paper: Chandramouli, Goldstein, Li. Impatience Is a Virtue. ICDE 2018, sections III-B to III-E.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from slackwater.progress.instants import FOREVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from slackwater.progress.instants import Instant


class ImpatienceOracle:
    """Sorts a stream while it flows, as slowly as one may; with no punctuation before the end it is Patience sort.

    >>> oracle = ImpatienceOracle()
    >>> oracle.push([2, 6, 5, 1])
    >>> oracle.runs
    [[(2, 0), (6, 1)], [(5, 2)], [(1, 3)]]
    >>> oracle.punctuate(3)
    [(1, 3), (2, 0)]
    >>> oracle.runs
    [[(6, 1)], [(5, 2)]]
    """

    def __init__(self) -> None:
        self.runs: list[list[tuple[Instant, int]]] = []
        self._row = 0

    def push(self, times: Iterable[Instant]) -> None:
        """Partition phase: append to the first run whose last element is less than or equal, or create a run."""
        for time in times:
            fitting = [run for run in self.runs if run[-1][0] <= time]
            if not fitting:
                fitting = [[]]
                self.runs.append(fitting[0])
            fitting[0].append((time, self._row))
            self._row += 1

    def punctuate(self, complete_before: Instant) -> list[tuple[Instant, int]]:
        """Merge phase: cut off the head runs, merge them, remove empty runs. FOREVER is the end of the stream."""
        released = [[event for event in run if _is_before(event[0], complete_before)] for run in self.runs]
        stayed = [[event for event in run if not _is_before(event[0], complete_before)] for run in self.runs]
        self.runs = [run for run in stayed if run]
        return sorted(event for head in released for event in head)


def _is_before(time: Instant, complete_before: Instant) -> bool:
    return time < complete_before or complete_before == FOREVER


def least_moves(sizes: Sequence[int]) -> int:
    """How many elements must be written at least to merge runs of these sizes two at a time: all orders are tried.

    >>> least_moves([1, 2, 3, 4])
    19
    """
    if not sizes[1:]:
        return 0
    costs = []
    for i, j in combinations(range(len(sizes)), 2):
        others = [size for k, size in enumerate(sizes) if k not in {i, j}]
        merged = sizes[i] + sizes[j]
        costs.append(merged + least_moves([*others, merged]))
    return min(costs)


def moves_in_rounds(sizes: Sequence[int]) -> int:
    """How many elements are written when neighbours are merged, round after round, as Mergesort does.

    A run without a neighbour is the first of the next round.

    >>> moves_in_rounds([1, 2, 3, 4])
    20
    """
    waiting, moves = list(sizes), 0
    while len(waiting) > 1:
        merged = waiting[0] + waiting[1]
        waiting = [*waiting[2:], merged]
        moves += merged
    return moves
