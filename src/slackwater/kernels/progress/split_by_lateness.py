"""Finds how far each band is complete at every place of a batch, and splits the rows into bands by lateness.

The rows between two punctuations are a stretch: whether they are late depends on the same bounds, one per band.
A batch has few stretches and many rows, so that rows are only looked at in plain runs over a stretch.
Paper: Chandramouli, Goldstein, Li. Impatience Is a Virtue: Revisiting Disorder in High-Performance Log Analytics.
ICDE 2018, section V-A (the partition operator).

Invariants: bounds never fall from stretch to stretch, nor rise from band to band.
Cost: one or two comparisons per row, one sum per stretch and band.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.kernels.compile import kernel
from slackwater.kernels.saturating import GREATEST, minus, plus

if TYPE_CHECKING:
    from numpy.typing import NDArray

HIGH_WATER: Final = 0
"""Place in progress: the greatest time of a row so far."""
PUNCTUATED_HIGH_WATER: Final = 1
"""Place in progress: the high water at the last instant of the cadence."""
ROWS_SINCE: Final = 2
"""Place in progress: how many rows came since that instant."""
COMPLETE_BEFORE: Final = 3
"""Place in progress: the greatest punctuation of the input."""

NEVER: Final = 0
"""The step of a cadence that names no instants."""

NO_GRID: Final = 0
"""The step of a grid that has no lines: bounds lie anywhere."""

_READ = "Array(int64, 1, 'C', readonly=True)"


@dataclass(frozen=True, slots=True)
class Stretches:
    """The rows of a batch, cut where a bound changes."""

    first: NDArray[np.int64]
    """The first row of each stretch; the rows before it had come when its bounds were reached."""

    bounds: NDArray[np.int64]
    """One line per stretch, one column per band. The first line is what the bounds were before the batch."""

    behind: bool
    """Whether a row is older than the first band allows."""

    def punctuations(self, band: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How a band is punctuated in this batch: how many rows came before each punctuation, and the punctuations."""
        bounds = self.bounds[:, band]
        rises = bounds[1:] > bounds[:-1]
        return self.first[1:][rises], bounds[1:][rises]

    def bounds_at(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The bounds of the last band that these rows are compared with."""
        return self.bounds[np.searchsorted(self.first, rows, side="right") - 1, -1]


@kernel("int64(int64, int64, int64, int64, int64)")
def _bound(high_water: int, patience: int, complete_before: int, step: int, shift: int) -> int:
    """The high water less the patience, or the punctuation of the input if that is more; within int64.

    With a grid, the last line of it that is not after that. The end of time stays what it is.
    """
    bound = max(minus(high_water, patience), complete_before)
    if step == NO_GRID or bound == GREATEST:
        return bound
    return minus(bound, (bound % step - shift) % step)


@kernel("int64(int64, int64)")
def _next_line(high_water: int, step: int) -> int:
    """The least multiple of the step above the high water; the greatest int64, which no row reaches, for none."""
    if step == NEVER:
        return GREATEST
    return plus(high_water, step - high_water % step)


@kernel(f"UniTuple(int64, 3)({_READ}, int64, int64)")
def _look(rows: NDArray[np.int64], line: int, high_water: int) -> tuple[int, int, int]:
    """Look at rows up to the first that reaches the line; return how many, the least of them, and the high water."""
    least = GREATEST
    if line == GREATEST:
        # Without a way out of the loop it is done for several rows at once.
        for i in range(len(rows)):
            least = min(least, rows[i])
            high_water = max(high_water, rows[i])
        return len(rows), least, high_water
    for i in range(len(rows)):
        least = min(least, rows[i])
        high_water = max(high_water, rows[i])
        if rows[i] >= line:
            return i + 1, least, high_water
    return len(rows), least, high_water


@kernel(
    f"Tuple((int64, boolean))({_READ}, {_READ}, {_READ}, {_READ}, int64, int64, int64, int64, int64[::1], int64[::1],"
    "int64[:, ::1])"
)
def _follow(
    times: NDArray[np.int64],
    places: NDArray[np.int64],
    punctuations: NDArray[np.int64],
    patiences: NDArray[np.int64],
    every_rows: int,
    every_time: int,
    step: int,
    shift: int,
    progress: NDArray[np.int64],
    first: NDArray[np.int64],
    bounds: NDArray[np.int64],
) -> tuple[int, bool]:
    """Fill in `first` and `bounds`, and go on with `progress`; return how many stretches there are, and `behind`."""
    high_water, punctuated_high_water = progress[HIGH_WATER], progress[PUNCTUATED_HIGH_WATER]
    since, complete_before = progress[ROWS_SINCE], progress[COMPLETE_BEFORE]
    line = _next_line(high_water, every_time)
    row, punctuation, last, behind = 0, 0, -1, False
    rises = True
    while True:
        # The line of bounds is written in any case, and kept if it is news.
        for band in range(len(patiences)):
            bounds[last + 1, band] = _bound(punctuated_high_water, patiences[band], complete_before, step, shift)
            rises |= last >= 0 and bounds[last + 1, band] > bounds[last, band]
        if rises:
            last += 1
            first[last] = row
        stop = places[punctuation] if punctuation < len(places) else len(times)
        if every_rows != NEVER:
            stop = min(stop, row + (every_rows - since))
        seen, least, high_water = _look(times[row:stop], line, high_water)
        behind |= least < bounds[last, 0]
        row, since, rises = row + seen, since + seen, False
        if (every_rows != NEVER and since == every_rows) or high_water >= line:
            punctuated_high_water, since, line = high_water, 0, _next_line(high_water, every_time)
        elif punctuation < len(places) and row == places[punctuation]:
            complete_before = max(complete_before, punctuations[punctuation])
            punctuation += 1
        else:
            break
    progress[HIGH_WATER], progress[PUNCTUATED_HIGH_WATER] = high_water, punctuated_high_water
    progress[ROWS_SINCE], progress[COMPLETE_BEFORE] = since, complete_before
    return last + 1, behind


@kernel(f"void({_READ}, {_READ}, Array(int64, 2, 'C', readonly=True), int16[::1])")
def _count_bounds(
    times: NDArray[np.int64], first: NDArray[np.int64], bounds: NDArray[np.int64], bands: NDArray[np.int16]
) -> None:
    """Count, for each row, the bounds it is older than: as they fall from band to band, that is its band."""
    for stretch in range(len(first)):
        stop = first[stretch + 1] if stretch + 1 < len(first) else len(times)
        rows, found = times[first[stretch] : stop], bands[first[stretch] : stop]
        for band in range(bounds.shape[1]):
            bound = bounds[stretch, band]
            for i in range(len(rows)):
                found[i] += rows[i] < bound


@kernel("int64(int64, Array(int16, 1, 'C', readonly=True), int64[::1])")
def _collect(band: int, bands: NDArray[np.int16], rows: NDArray[np.int64]) -> int:
    """Fill in the rows of a band; return how many there are."""
    found = 0
    for i in range(len(bands)):
        rows[found] = i  # stays if this is one: a jump would be guessed wrong too often
        found += bands[i] == band
    return found


@kernel(f"void({_READ}, {_READ}, {_READ}, int64[::1])")
def _put_between(
    column: NDArray[np.int64], places: NDArray[np.int64], values: NDArray[np.int64], together: NDArray[np.int64]
) -> None:
    """Copy the column, with each value before the row whose number is its place."""
    at = 0
    for k in range(len(places) + 1):
        stop = places[k] if k < len(places) else len(column)
        source, target = column[at:stop], together[at + k : stop + k]
        for i in range(len(source)):
            target[i] = source[i]
        if k < len(places):
            together[stop + k] = values[k]
        at = stop


def follow(
    times: NDArray[np.int64],
    inputs: tuple[NDArray[np.int64], NDArray[np.int64]],
    patiences: NDArray[np.int64],
    every: tuple[int, int],
    progress: NDArray[np.int64],
    grid: tuple[int, int] = (NO_GRID, 0),
) -> Stretches:
    """Follow the bounds of all bands through the rows of a batch; `progress` is overwritten.

    `inputs` are the punctuations of the input: how many rows came before each, and the punctuations. `every` is the
    cadence, in rows and in time. Bounds lie on the lines of the grid: how far these are apart, and where one of them
    is, from 0 to that.

    >>> nothing = np.empty(0, dtype=np.int64)
    >>> least = -(2**63)
    >>> progress = np.array([least, least, 0, least])
    >>> found = follow(np.array([20, 23, 14]), (nothing, nothing), np.array([5]), (2, NEVER), progress)
    >>> found.first.tolist(), found.bounds[1:].tolist(), found.behind, progress[:3].tolist()
    ([0, 2], [[18]], True, [23, 23, 1])
    """
    every_rows, every_time = every
    instants = len(times) if every_time else (len(times) + int(progress[ROWS_SINCE])) // max(every_rows, 1)
    room = 1 + instants + len(inputs[0]) + 1  # one more: a line is written before it is known to be news
    first, bounds = np.empty(room, dtype=np.int64), np.empty((room, len(patiences)), dtype=np.int64)
    count, behind = _follow(times, *inputs, patiences, every_rows, every_time, *grid, progress, first, bounds)
    return Stretches(first[:count], bounds[:count], bool(behind))


def bands_of(times: NDArray[np.int64], stretches: Stretches) -> NDArray[np.int16]:
    """The band of each row; one more than the last band for rows that are too late for all.

    >>> stretches = Stretches(np.array([0, 1]), np.array([[4, 2], [8, 3]]), behind=True)
    >>> bands_of(np.array([4, 7, 2, 8]), stretches).tolist()
    [0, 1, 2, 0]
    """
    bands = np.zeros(len(times), dtype=np.int16)
    _count_bounds(times, stretches.first, stretches.bounds, bands)
    return bands


def rows_of(band: int, bands: NDArray[np.int16]) -> NDArray[np.int64]:
    """The rows of a band, by number; faster than NumPy where they lie scattered.

    >>> rows_of(1, np.array([1, 0, 1, 2], dtype=np.int16)).tolist()
    [0, 2]
    """
    rows = np.empty(len(bands) + 1, dtype=np.int64)
    return rows[: _collect(band, bands, rows)]


def put_between(column: NDArray[np.int64], places: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the column with values put in, each before the row whose number is its place; places do not fall.

    >>> put_between(np.array([7, 8]), np.array([0, 1, 1, 2]), np.array([1, 2, 3, 4])).tolist()
    [1, 7, 2, 3, 8, 4]
    """
    together = np.empty(len(column) + len(values), dtype=np.int64)
    _put_between(column, places, values, together)
    return together
