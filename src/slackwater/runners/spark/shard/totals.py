"""What a shard has done since its query began: stored with its state, so that a restart forgets nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slackwater.progress.instants import BEGINNING, Instant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all micro-batches.

    >>> Totals().after(rows_in=3, rows_out=2, complete={"main": 7})
    Totals(rows_in=3, rows_out=2, complete={'main': 7}, ended=False)
    """

    rows_in: int = 0
    rows_out: int = 0
    complete: Mapping[str, Instant] = field(default_factory=dict)
    """The last punctuation of each output."""

    ended: bool = False
    """Whether all that was held has been given out, since nothing is to come any more."""

    @property
    def complete_before(self) -> Instant:
        """How far all outputs have come.

        >>> Totals(complete={"main": 9, "main#2": 4}).complete_before
        4
        """
        return min(self.complete.values(), default=BEGINNING)

    @classmethod
    def together(cls, several: Sequence[Totals]) -> Totals:
        """What several shards have done, as one.

        >>> Totals.together([Totals(3, 2, {"main": 7}), Totals(1, 0, {"main": 8})])
        Totals(rows_in=4, rows_out=2, complete={'main': 7}, ended=False)
        """
        rows_in, rows_out = sum(one.rows_in for one in several), sum(one.rows_out for one in several)
        names = dict.fromkeys(name for one in several for name in one.complete)
        complete = {name: min(one.complete.get(name, BEGINNING) for one in several) for name in names}
        return cls(rows_in, rows_out, complete, any(one.ended for one in several))

    def after(self, rows_in: int, rows_out: int, complete: Mapping[str, Instant], *, ended: bool = False) -> Totals:
        """Take in what a micro-batch did. An output that it did not punctuate is where it was."""
        complete = {name: max(instant, self.complete.get(name, BEGINNING)) for name, instant in complete.items()}
        return Totals(self.rows_in + rows_in, self.rows_out + rows_out, complete, self.ended or ended)
