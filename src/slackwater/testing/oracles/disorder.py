"""The measures of disorder, word for word as they are defined: all pairs, all stretches."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def inversions(times: Sequence[int]) -> list[tuple[int, int]]:
    """All pairs of positions whose times are in the wrong order."""
    return [(i, j) for j in range(len(times)) for i in range(j) if times[i] > times[j]]


def distance(times: Sequence[int]) -> int:
    """How far apart the farthest inversion is."""
    return max((j - i for i, j in inversions(times)), default=0)


def natural_runs(times: Sequence[int]) -> int:
    """One more than the steps back, if there is anything."""
    return sum(b < a for a, b in pairwise(times)) + bool(times)


def interleaved_runs(times: Sequence[int]) -> int:
    """The length of the longest strictly decreasing subsequence, which is the fewest runs (Dilworth)."""
    longest: list[int] = []
    for j, time in enumerate(times):
        longest.append(1 + max((longest[i] for i in range(j) if times[i] > time), default=0))
    return max(longest, default=0)


def lateness(times: Sequence[int]) -> list[int]:
    """How far each late event is behind the greatest time before it."""
    return [max(times[:j]) - time for j, time in enumerate(times) if j and max(times[:j]) > time]
