"""ObservedLoss: what estimates have cost so far, in rows that were late, against what was asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ObservedLoss:
    """How many rows were late by estimates, against what was asked for.

    >>> print(ObservedLoss(20_000, 12, 0.001, taken_back=False, times_taken_back=1))
    12 of 20,000 rows late by it (0.06 %), at most 0.1 % asked; taken back once so far
    """

    rows: int
    """The rows that declared bounds did not lose."""

    late: int
    """Those of them that came behind the stream because of an estimate."""

    asked: float | None
    """The share that may be late; None where none was asked for."""

    taken_back: bool
    """Whether declared bounds alone count now, because more were late than asked for."""

    times_taken_back: int

    @property
    def share(self) -> float:
        """The share of the rows that was late.

        >>> ObservedLoss(2_000, 1, None, taken_back=False, times_taken_back=0).share
        0.0005
        """
        return self.late / self.rows if self.rows else 0.0

    def __str__(self) -> str:
        found = f"{self.late:,} of {self.rows:,} rows late by it ({100 * self.share:.3g} %)"
        if self.asked is not None:
            found += f", at most {100 * self.asked:g} % asked"
        if self.times_taken_back:
            often = {1: "once", 2: "twice"}.get(self.times_taken_back, f"{self.times_taken_back} times")
            found += f"; taken back {often} so far" + (", and now" if self.taken_back else "")
        return found
