"""A history that compiled loops keep: what was so at which tick, in a table of so many places.

Where entries come faster than the places allow, some are put together with the next: they hold a little later than they
might (section 5.1: a tick of x costs a delay of x at most), never earlier.
Paper: Srivastava, Widom. Flexible Time Management in Data Stream Systems. PODS 2004.

Invariant: ticks rise from entry to entry. Cost: O(1) for an entry, on average; O(log places) to look one up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numba import int64

from slackwater.kernels.compile import kernel
from slackwater.kernels.progress.heartbeat_tables import T2

if TYPE_CHECKING:
    from slackwater.kernels.progress.heartbeat_tables import Table


@kernel(int64(T2, int64, int64, int64, int64))
def note(history: Table, length: int, tick: int, spacing: int, width: int) -> int:
    """Make room for an entry at a tick, the last one; return how many there are then. Its values are not filled in.

    The last entry is put off to this tick while it is nearer to the one before it than the spacing.

    >>> import numpy as np
    >>> history = np.array([[3, 10], [4, 11], [0, 0]])
    >>> note(history, 2, 4, 2, 2), note(history, 2, 6, 1, 2), note(history, 3, 7, 3, 2), history[:, 0].tolist()
    (2, 3, 3, [3, 4, 7])
    """
    if length and history[length - 1, 0] == tick:
        return length
    if length > 1 and history[length - 1, 0] - history[length - 2, 0] < spacing:
        history[length - 1, 0] = tick
        return length
    if length == len(history):
        # Half of the places reach as far back as anybody looks.
        kept = length - length // 4
        for i in range(kept):
            for k in range(width):
                history[i, k] = history[i + length - kept, k]
        length = kept
    history[length, 0] = tick
    return length + 1


@kernel(int64(T2, int64, int64))
def entry_at(history: Table, length: int, tick: int) -> int:
    """The last entry that is not after a tick; -1, for NONE, if there is none.

    >>> import numpy as np
    >>> [entry_at(np.array([[3, 10], [4, 11], [9, 12]]), 2, tick) for tick in (2, 3, 20)]
    [-1, 0, 1]
    """
    low, high = 0, length
    while low < high:
        middle = (low + high) // 2
        if history[middle, 0] <= tick:
            low = middle + 1
        else:
            high = middle
    return low - 1
