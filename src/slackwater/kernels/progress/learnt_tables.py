"""The tables that bounds are learnt in, and what stands in which column of them.

Compiled loops hand them on as one value, beside the tables of heartbeats, which have a place for every estimate. Where
nothing is learnt it is None, and loops are compiled without what learns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from numba import float64

from slackwater.kernels.compile import handed_as_one, plain_tuple
from slackwater.kernels.progress.heartbeat_tables import T1, T2

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from slackwater.kernels.progress.heartbeat_tables import Table

    Floats = NDArray[np.float64]

# What is chosen, and what is counted.
DECLARED: Final = 0  # how many rules are declared: they come first
CLOCK: Final = 1  # the kind that the clock is, the last one; or NONE
BY_SHARES: Final = 2
SHIFT: Final = 3
MEMORY: Final = 4  # after how many rows counts are halved
ENOUGH: Final = 5  # after how many rows a source has counts of its own
SLOTS: Final = 6  # how many histograms there are; the first is that of all sources
COUNTED: Final = 7  # rows that declared bounds did not lose
LOST: Final = 8  # those of them that estimates lost
TAKEN_BACK: Final = 9
TIMES_TAKEN_BACK: Final = 10
DECLARED_OVERALL: Final = 11
DECLARED_BINDING: Final = 12
BY_TIME: Final = 13  # whether the window of Figure 4 counts ticks
ADAPTS: Final = 14
SINCE: Final = 15  # the time of the first row
START: Final = 16  # the length that shares come down from
COUNTING: Final = 17  # whether shares hold: enough was seen, and they are not taken back
NUMBERS: Final = 18

# The same that are no whole numbers.
LOSS: Final = 0
LEVEL: Final = 1
ALPHA: Final = 2
WINDOW: Final = 3
RECENT: Final = 4
RECENT_LOST: Final = 5
FLOATS: Final = 6

# For each source: what it is waiting for by declared bounds alone, and how far it had come before this tick.
DECLARED_HEARTBEAT: Final = 0
DECLARED_SET_BY: Final = 1
DECLARED_SENDER: Final = 2
DECLARED_DELAY: Final = 3
CAME_BEFORE: Final = 4
SLOT: Final = 5
SENT: Final = 6
ASIDE_COLUMNS: Final = 7

# An estimate of Figure 4.
ESTIMATE: Final = 0
GREATEST_IN_WINDOW: Final = 1
IN_WINDOW: Final = 2
BEGAN: Final = 3
LENGTH_OF_WINDOW: Final = 4
FALLS: Final = 5  # windows in a row that lowered it
CELL_COLUMNS: Final = 6

# A histogram: rows since counts were halved, whether any has come since it was looked at, and then, kind by kind, the
# estimates, and the buckets that these are the edges of. Its totals are those of all kinds, and of what lies beyond.
FRESH: Final = 0
CHANGED: Final = 1
FIRST_ESTIMATE: Final = 2


class LearntTables(NamedTuple):
    """All that estimates are made of."""

    numbers: Table
    """What is chosen, and what is counted."""

    floats: Floats
    """The same that are no whole numbers."""

    before: Table
    """For each kind of bound that is learnt: how far the senders had come before this tick."""

    aside: Table
    """For each source: what declared bounds alone guarantee of it, and how far it had come."""

    cells: Floats
    """Figure 4: the estimate of each kind for each source, and its window."""

    weights: Floats
    """Shares: the histograms, of which each has one for every kind."""

    totals: Floats
    """How much is in each histogram, kind by kind, and behind these how much of it lies beyond the estimate."""

    slots: Table
    """Of each histogram: how much has come lately, the estimates, and the buckets of these."""


F1, F2, F3 = float64[::1], float64[:, ::1], float64[:, :, ::1]

_KINDS: Final = (T1, F1, T1, T2, F3, F3, F2, T2)

LEARNT: Final = handed_as_one(LearntTables, *_KINDS)
"""The tables as compiled loops know them."""

GIVEN_LEARNT: Final = plain_tuple(*_KINDS)
"""The tables as Python hands them over: as a plain tuple."""
