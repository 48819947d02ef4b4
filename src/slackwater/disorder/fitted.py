"""FittedBounds: bounds that were fitted to a recorded sample, as a value to print, to compare and to paste."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slackwater import notebook
from slackwater.progress.instants import Duration, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slackwater.policies.bounds import Bounds


@dataclass(frozen=True)
class Outcome:
    """What some bounds lose, and how long rows wait by them, from their arrival on."""

    rows: int
    late: int
    mean_delay: Duration
    median_delay: Duration
    mean_delay_by_origin: Duration
    """The same where each row is given out by how far its own source is complete, not the least of all."""

    late_by_origin: int

    @property
    def loss(self) -> float:
        """The part of the rows that is late."""
        return self.late / self.rows if self.rows else 0.0


@dataclass(frozen=True)
class CurvePoint:
    """What it costs to hold for nearly all rows instead of for all."""

    beyond: float
    """The part of the rows that each bound leaves out; of several bounds on one row one may leave it out."""

    outcome: Outcome


@dataclass(frozen=True, repr=False)
class FittedBounds:
    """Bounds for a stream like a sample, and what they give: on it, and on a part of it that they were not made of."""

    bounds: Bounds
    text: str
    """The same as Python: it evaluates to these bounds where `sw` is slackwater."""

    curve: tuple[CurvePoint, ...]
    """Delay against loss, on the part of the sample that bounds were fitted to."""

    fitted: Outcome
    """What these bounds give there."""

    on_the_rest: Outcome
    """What they give on the rest of the sample, which comes after it."""

    calendar: bool
    """Whether delays are in microseconds; otherwise they count what the column of arrivals counts."""

    def __repr__(self) -> str:
        return f"<FittedBounds: {self._worded(self.fitted)}; on the rest {self._worded(self.on_the_rest)}>"

    def _repr_html_(self) -> str:
        return notebook.block(repr(self), notebook.table(_HEADER, self._lines()))

    def __str__(self) -> str:
        cells = [_HEADER, *self._lines()]
        widths = [max(len(row[column]) for row in cells) for column in range(len(_HEADER))]
        lines = ("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
        return "\n".join([self.text, "", *lines])

    def _lines(self) -> Iterator[list[str]]:
        for point in self.curve:
            yield [f"{point.beyond:.3%}", *self._cells(point.outcome)]
        yield ["these", *self._cells(self.fitted)]
        yield ["on the rest", *self._cells(self.on_the_rest)]

    def _cells(self, outcome: Outcome) -> list[str]:
        delays = (outcome.mean_delay, outcome.median_delay, outcome.mean_delay_by_origin)
        return [f"{outcome.rows:,}", f"{outcome.loss:.3%}", *map(self._written, delays)]

    def _worded(self, outcome: Outcome) -> str:
        return f"{self._written(outcome.mean_delay)} mean delay, {outcome.loss:.3%} of {outcome.rows:,} rows late"

    def _written(self, delay: Duration) -> str:
        return format_duration(_rounded(delay)) if self.calendar else f"{delay:,}"


_HEADER = ["left out", "rows", "late", "mean delay", "median", "mean by origin"]


def _rounded(delay: Duration) -> Duration:
    """Three digits are enough to read."""
    unit = 10 ** max(len(str(delay)) - 3, 0)
    return (delay + unit // 2) // unit * unit
