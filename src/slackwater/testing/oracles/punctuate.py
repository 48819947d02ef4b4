"""Punctuating and splitting by lateness, element by element: the definition as a program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slackwater.events.elements import Element, Insert, Punctuate
from slackwater.policies.cadence import Cadence, CadenceUnit
from slackwater.policies.late import Late, LateAction
from slackwater.progress.instants import BEGINNING, FOREVER, UNTIMED, Duration, Instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from slackwater.policies.windows import Tumbling


@dataclass
class SplitByLateness:
    """What a punctuating step has emitted so far, output by output."""

    bands: list[list[Element]]
    diverted: list[Insert] = field(default_factory=list)
    """The late output: rows with the bound they missed, and by how much, behind their payload."""

    late: int = 0
    """How many rows were diverted or dropped."""

    adjusted: int = 0
    """How many rows were moved to the bound they had missed."""

    refused: Insert | None = None
    """The row at which the step stopped; nothing is emitted after it."""

    def rows(self) -> int:
        """How many rows the bands have."""
        return sum(isinstance(element, Insert) for band in self.bands for element in band)


def punctuate_oracle(
    batches: Iterable[Sequence[Element]],
    patiences: Sequence[Duration],
    cadence: Cadence,
    late: Late,
    *,
    points: bool,
    untimed: bool = False,
    windows: Tumbling | None = None,
) -> SplitByLateness:
    """Split the elements of some batches; `points`: all events are points, and stay so when they are moved.

    `untimed`: rows may have no time. `windows` are those that rows are given next: punctuations are their starts.

    >>> rows = [Insert(("a",), 20, 21), Insert(("b",), 14, 15), Insert(("c",), 15, 16)]
    >>> found = punctuate_oracle([rows], [5], Cadence(CadenceUnit.ROWS, 1), Late.divert(), points=True)
    >>> [str(element) for element in found.bands[0]], [str(row) for row in found.diverted]
    (["insert(('a',), 20, 21)", 'punctuate(15)', "insert(('c',), 15, 16)"], ["insert(('b', 15, 1), 14, 15)"])
    """
    splitter = _Splitter(patiences, cadence, late, points, untimed, windows)
    for batch in batches:
        rows_left = sum(isinstance(element, Insert) for element in batch)
        for element in batch:
            if isinstance(element, Punctuate):
                splitter.follow(element.complete_before)
                continue
            assert isinstance(element, Insert), "a punctuated stream has no adjusts"
            rows_left -= 1
            splitter.take(element, last_of_batch=rows_left == 0)
            if splitter.split.refused is not None:
                return splitter.split
    return splitter.split


class _Splitter:
    """Remembers what it has to, and no less: each bound is kept, not derived."""

    def __init__(
        self,
        patiences: Sequence[Duration],
        cadence: Cadence,
        late: Late,
        points: bool,
        untimed: bool,
        windows: Tumbling | None,
    ) -> None:
        self.split = SplitByLateness([[] for _ in patiences])
        self._patiences = patiences
        self._cadence = cadence
        self._late = late
        self._points = points
        self._lets_untimed_in = untimed
        self._windows = windows
        self._bounds = [BEGINNING] * len(patiences)
        self._high_water = BEGINNING
        self._rows = 0

    def follow(self, complete_before: Instant) -> None:
        """What holds of the input, holds of every band."""
        for band in range(len(self._patiences)):
            self._punctuate(band, complete_before)

    def take(self, row: Insert, *, last_of_batch: bool) -> None:
        """Compare a row with the bounds there are, and move them where the cadence asks for it."""
        before = self._high_water
        if self._is_untimed(row):
            self._treat_late(row, self._bounds[-1])
            is_instant = last_of_batch and self._cadence.unit is CadenceUnit.BATCH
        else:
            fitting = [band for band, bound in enumerate(self._bounds) if row.start >= bound]
            if fitting:
                self.split.bands[fitting[0]].append(row)
            else:
                self._treat_late(row, self._bounds[-1])
            self._high_water = max(self._high_water, row.start)
            self._rows += 1
            is_instant = self._is_instant(before, last_of_batch=last_of_batch)
        if is_instant:
            for band, patience in enumerate(self._patiences):
                self._punctuate(band, self._high_water - patience)

    def _is_untimed(self, row: Insert) -> bool:
        return self._lets_untimed_in and row.start == UNTIMED

    def _is_instant(self, before: Instant, *, last_of_batch: bool) -> bool:
        match self._cadence.unit:
            case CadenceUnit.ROWS:
                return self._rows % self._cadence.length == 0
            case CadenceUnit.TIME:
                return self._high_water // self._cadence.length > before // self._cadence.length
            case CadenceUnit.BATCH:
                return last_of_batch

    def _punctuate(self, band: int, complete_before: Instant) -> None:
        if self._windows is not None and complete_before < FOREVER:
            complete_before -= (complete_before - self._windows.offset) % self._windows.size
        if complete_before > self._bounds[band]:
            self._bounds[band] = complete_before
            self.split.bands[band].append(Punctuate(complete_before))

    def _treat_late(self, row: Insert, bound: Instant) -> None:
        match self._late.action:
            case LateAction.REFUSED:
                self.split.refused = row
            case LateAction.DROPPED:
                self.split.late += 1
            case LateAction.DIVERTED:
                assert isinstance(row.payload, tuple)
                missed = (None, None) if self._is_untimed(row) else (bound, min(bound - row.start, FOREVER))
                self.split.diverted.append(Insert((*row.payload, *missed), row.start, row.end))
                self.split.late += 1
            case LateAction.ADJUSTED:
                self._adjust(row, bound)

    def _adjust(self, row: Insert, bound: Instant) -> None:
        end = min(bound + 1, FOREVER) if self._points else row.end
        if end <= bound or (self._is_untimed(row) and bound == BEGINNING):
            self.split.late += 1
            return
        self.split.bands[-1].append(Insert(row.payload, bound, end))
        self.split.adjusted += 1
