"""Lengths counted in buckets whose width is a 128th of what they begin with: a few thousand numbers for any many rows.

Each bucket knows the greatest length in it. So what is read from buckets is a length that some row had; as a quantile
it is never too short, and at most a 128th too long. Lengths below 256 have buckets of their own. How many rows are no
longer than the greatest of a bucket is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.profiling.measures import QUANTILES, Spread, beyond

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Lengths = NDArray[np.uint64]
    Column = NDArray[np.int64]

RESOLUTION: Final = 1 / 128
"""By which part of it a quantile may be too long."""

_PER_POWER: Final = 128
_POWERS: Final = np.left_shift(np.uint64(1), np.arange(8, 64, dtype=np.uint64))


def bucket_of(lengths: Lengths) -> Column:
    """The number of the bucket of each length: the longer, the greater.

    >>> bucket_of(np.array([0, 255, 256, 257, 258, 2**64 - 1], dtype=np.uint64)).tolist()
    [0, 255, 256, 256, 257, 7423]
    """
    shifts = np.searchsorted(_POWERS, lengths, side="right")
    return shifts * _PER_POWER + (lengths >> shifts.astype(np.uint64)).astype(np.int64)


def bucket_of_signed(lengths: Column) -> Column:
    """The same for lengths that may be below 0.

    >>> bucket_of_signed(np.array([-300, -1, 0, 300])).tolist()
    [-279, -2, 0, 278]
    """
    sizes = np.where(lengths < 0, -lengths.view(np.uint64), lengths.view(np.uint64))  # of the least int64, too
    buckets = bucket_of(sizes)
    return np.where(lengths < 0, -buckets - 1, buckets)


@dataclass(frozen=True, eq=False)
class Buckets:
    """Some lengths: the buckets that have any, in order, how many each has, and the greatest of it.

    >>> lengths = np.array([3, 300, 301, 7], dtype=np.uint64)
    >>> buckets = Buckets.of(lengths)
    >>> buckets.rows, buckets.at_rank(1), buckets.at_rank(2), buckets.at_most_longer(300), buckets.at_most_longer(301)
    (4, 7, 301, 2, 0)
    """

    numbers: Column
    counts: Column
    greatest: Column | Lengths

    @classmethod
    def of(cls, lengths: Lengths) -> Buckets:
        """Count lengths."""
        order = np.argsort(lengths)
        lengths = lengths[order]
        numbers, begins, counts = np.unique(bucket_of(lengths), return_index=True, return_counts=True)
        return cls(numbers, counts, np.maximum.reduceat(lengths, begins) if len(lengths) else lengths)

    @property
    def rows(self) -> int:
        """How many lengths there are."""
        return int(self.counts.sum())

    def at_rank(self, rank: int) -> int:
        """What stands there in order of length, from 0 on: the greatest of its bucket."""
        return int(self.greatest[np.searchsorted(np.cumsum(self.counts), rank, side="right")])

    @property
    def longest(self) -> int:
        """The greatest of all."""
        return int(self.greatest[-1])

    def longer_than_none(self) -> Buckets:
        """Those that are greater than 0."""
        chosen = self.numbers > 0
        return Buckets(self.numbers[chosen], self.counts[chosen], self.greatest[chosen])

    def spread(self) -> Spread:
        """Quantiles as those of a Spread."""
        return Spread(tuple((share, self.at_rank(self.rows - 1 - beyond(self.rows, share))) for share in QUANTILES))

    def at_most_longer(self, length: int) -> int:
        """How many are longer, at most: a bucket that has longer and shorter ones counts as a whole."""
        return int(self.counts[self.greatest.astype(object) > length].sum()) if length >= 0 else self.rows
