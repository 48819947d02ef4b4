"""What a shard has done since its query began: stored with its state, so that a restart forgets nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater.progress.instants import BEGINNING, Instant

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all micro-batches.

    >>> Totals().after(rows_in=3, rows_out=2, complete_before=7)
    Totals(rows_in=3, rows_out=2, complete_before=7, ended=False)
    """

    rows_in: int = 0
    rows_out: int = 0
    complete_before: Instant = BEGINNING
    """The last punctuation of an output."""

    ended: bool = False
    """Whether all that was held has been given out, since nothing is to come any more."""

    @classmethod
    def together(cls, several: Sequence[Totals]) -> Totals:
        """What several shards have done, as one.

        >>> Totals.together([Totals(3, 2, 7), Totals(1, 0, 7)])
        Totals(rows_in=4, rows_out=2, complete_before=7, ended=False)
        """
        rows_in, rows_out = sum(one.rows_in for one in several), sum(one.rows_out for one in several)
        complete_before = min(one.complete_before for one in several)
        return cls(rows_in, rows_out, complete_before, any(one.ended for one in several))

    def after(self, rows_in: int, rows_out: int, complete_before: Instant, *, ended: bool = False) -> Totals:
        """Take in what a micro-batch did."""
        newest = max(self.complete_before, complete_before)
        return Totals(self.rows_in + rows_in, self.rows_out + rows_out, newest, self.ended or ended)
