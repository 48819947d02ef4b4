"""Counts rows by the cells of a table, a source and a tick each, or a source, and finds the newest time of each cell.

Cost: one pass over the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.kernels.compile import kernel
from slackwater.kernels.saturating import LEAST

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Table = NDArray[np.int64]
    Words = NDArray[np.int32]

_READ = "Array(int64, 1, 'C', readonly=True)"
_T1 = "int64[::1]"


@kernel(f"void({_READ}, {_READ}, {_READ}, {_READ}, int64, int64, {_T1}, {_T1}, {_T1})")
def count_arrivals(
    codes: Table,
    ticks: Table,
    counts: Table,
    times: Table,
    first: int,
    width: int,
    there: Table,
    totals: Table,
    newest: Table,
) -> None:
    """Add rows to the cells of a table that has so many sources for each tick from the first on.

    Each stands for as many rows as `counts` says, or, without counts, for itself if it has a time.

    >>> import numpy as np
    >>> there, totals, newest = (np.zeros(4, dtype=np.int64) for _ in range(3))
    >>> none = np.empty(0, dtype=np.int64)
    >>> count_arrivals(
    ...     np.array([0, 1, 1]), np.array([7, 7, 8]), none, np.array([30, 40, 50]), 7, 2, there, totals, newest
    ... )
    >>> totals.tolist(), newest.tolist()
    ([1, 1, 0, 1], [30, 40, 0, 50])
    """
    for row in range(len(codes)):
        cell = (ticks[row] - first) * width + codes[row]
        there[cell] = 1
        totals[cell] += counts[row] if len(counts) else times[row] != LEAST
        newest[cell] = max(newest[cell], times[row])


@kernel(f"void(Array(int32, 1, 'C', readonly=True), {_READ}, {_READ}, {_T1}, {_T1})")
def count_words(words: Words, place_of: Table, times: Table, totals: Table, newest: Table) -> None:
    """Add rows that arrive at one instant to the cells of their sources, which words name: those that have a time.

    >>> import numpy as np
    >>> totals, newest = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
    >>> count_words(np.array([0, 1, 1], dtype=np.int32), np.array([1, 0]), np.array([30, 40, 35]), totals, newest)
    >>> totals.tolist(), newest.tolist()
    ([2, 1], [40, 30])
    """
    for row in range(len(words)):
        place = place_of[words[row]]
        totals[place] += times[row] != LEAST
        newest[place] = max(newest[place], times[row])
