"""Measures recorded rows, in order of arrival: how late each is within its source, and what a patience does to all.

A row is late, by a patience, if the newest row before it is newer by more than that; it goes out as soon as the newest
row so far is. This is what a sort with a patience does that makes a punctuation at every row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import int64, uint64

from slackwater.kernels.compile import kernel
from slackwater.kernels.saturating import GREATEST, LEAST

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]
    Lateness = NDArray[np.uint64]

_READ = "Array(int64, 1, 'C', readonly=True)"
_LATENESS = "Array(uint64, 1, 'C', readonly=True)"


@kernel(f"void({_READ}, {_READ}, int64[::1], uint64[::1])")
def lateness_within_sources(codes: Column, times: Column, newest: Column, found: Lateness) -> None:
    """Fill in how far each row is behind the newest row of its own source. `newest` is LEAST for each at first.

    >>> import numpy as np
    >>> found = np.empty(4, dtype=np.uint64)
    >>> lateness_within_sources(np.array([0, 1, 0, 1]), np.array([5, 2, 3, 4]), np.full(2, LEAST), found)
    >>> found.tolist()
    [0, 0, 2, 0]
    """
    for row in range(len(times)):
        code, time = codes[row], times[row]
        newest[code] = max(newest[code], time)
        found[row] = uint64(newest[code]) - uint64(time)


@kernel(f"void({_READ}, {_READ}, int64[::1], int64[::1])")
def longest_silences(codes: Column, arrived: Column, last: Column, longest: Column) -> None:
    """Fill in the longest time between two rows of each source; `last` is LEAST for each at first, `longest` 0.

    >>> import numpy as np
    >>> longest = np.zeros(2, dtype=np.int64)
    >>> longest_silences(np.array([0, 1, 0, 0]), np.array([1, 2, 7, 8]), np.full(2, LEAST), longest)
    >>> longest.tolist()
    [6, 0]
    """
    for row in range(len(codes)):
        code = codes[row]
        if last[code] != LEAST:
            longest[code] = max(longest[code], arrived[row] - last[code])
        last[code] = arrived[row]


_OUTCOME = "Tuple((int64, int64, int64))"


@kernel(f"{_OUTCOME}({_READ}, {_READ}, {_READ}, {_LATENESS}, {_READ}, uint64, int64[::1], int64[::1])")
def wait_by_patience(
    order: Column,
    times: Column,
    newest: Column,
    lateness: Lateness,
    arrived: Column,
    patience: int,
    released: Column,
    waits: Column,
) -> Any:
    """What a patience does: how many rows are late, still wait at the end, and wait at a time at most.

    `order` are the places of rows in order of time, `newest` the greatest time up to each row. `released` is room for
    each row; the first ones of `waits` are filled with how long the rows wait that go out. Cost: O(n).

    >>> import numpy as np
    >>> times = np.array([5, 3, 9, 4, 20])
    >>> newest = np.maximum.accumulate(times)
    >>> late, (room, waits) = (newest - times).astype(np.uint64), np.empty((2, 5), dtype=np.int64)
    >>> wait_by_patience(np.argsort(times), times, newest, late, np.arange(5) * 10, 4, room, waits)
    (1, 1, 3)
    >>> waits[:3].tolist()
    [10, 40, 20]
    """
    released[:] = 0
    late = left = at = out = 0
    for i in range(len(order)):
        row = order[i]
        if lateness[row] > patience:
            late += 1
            continue
        time = times[row]
        while at < len(newest) and (newest[at] <= time or uint64(newest[at]) - uint64(time) <= patience):
            at += 1
        if at == len(newest):
            left += 1
        else:
            released[at] += 1
            waits[out] = arrived[at] - arrived[row]
            out += 1
    held = most = 0
    for row in range(len(times)):
        held += 1 if lateness[row] <= patience else 0
        most = max(most, held)
        held -= released[row]
    return int64(late), int64(left), int64(most)


@kernel(f"void({_READ}, {_READ}, int64[::1], int64[:, ::1])")
def greatest_skews(codes: Column, times: Column, newest: Column, found: Column) -> None:
    """Fill in how far rows of one source are behind the newest of another, at most: a row for each that is ahead.

    Sources without a number here are below 0. `newest` is LEAST for each at first, `found` 0.

    >>> import numpy as np
    >>> found = np.zeros((2, 2), dtype=np.int64)
    >>> greatest_skews(np.array([0, 1, -1, 0]), np.array([9, 5, 70, 8]), np.full(2, LEAST), found)
    >>> found.tolist()
    [[1, 4], [0, 0]]
    """
    for row in range(len(codes)):
        code, time = codes[row], times[row]
        if code >= 0:
            for other in range(len(newest)):
                if newest[other] > time:
                    behind = uint64(newest[other]) - uint64(time)
                    found[other, code] = max(found[other, code], int64(min(behind, uint64(GREATEST))))
            newest[code] = max(newest[code], time)
