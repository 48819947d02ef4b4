"""The tables that heartbeats are found by, and what stands in which column of them.

Compiled loops hand them on as one value. Places are those of sources, the second axis where there is one of them:
0 stands for all that have not come yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from numba import int64, types

from slackwater.kernels.compile import handed_as_one, plain_tuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Table = NDArray[np.int64]

# Columns of a source.
HIGH_WATER: Final = 0
HIGH_WATER_TICK: Final = 1
LAST_TICK: Final = 2
ROWS: Final = 3  # counted where a rule counts rows
HEARTBEAT: Final = 4
LATENCY: Final = 5
DELAY: Final = 6
WAITED_FOR: Final = 7
VIOLATIONS: Final = 8
BROKEN_RULE: Final = 9
BROKEN_BY: Final = 10
SET_BY: Final = 11
SENDER: Final = 12
SOURCE_COLUMNS: Final = 13

# Whether a source is waited for: never, always, or from its first row on.
NEVER: Final = 0
ALWAYS: Final = 1
FROM_FIRST_ROW: Final = 2

# What a heartbeat was set by, where it is not the number of a rule.
BY_NOTHING: Final = -1
BY_CLOCK: Final = -2
BY_IDLE: Final = -3
BY_LULL: Final = -4

# Columns of what a rule says of a source.
AHEAD: Final = 0
DELTA: Final = 1
WAIT: Final = 2
FURTHER_ROWS: Final = 3
RULE_COLUMNS: Final = 4

# Columns of what kind a rule is, and how far its senders have come.
OWN: Final = 0
AND_OWN: Final = 1
HAS_HISTORY: Final = 2
DELAYED: Final = 3
COUNTS: Final = 4
FIRST: Final = 5
FIRST_SENDER: Final = 6
SECOND: Final = 7
SECOND_SENDER: Final = 8
LENGTH: Final = 9
SPACING: Final = 10
KIND_COLUMNS: Final = 11

# What is known of all sources together.
TICK: Final = 0
NEWEST: Final = 1
LAST_ARRIVAL: Final = 2
IDLE: Final = 3
LULL: Final = 4
GRID: Final = 5
SOURCES: Final = 6
BINDING: Final = 7
OVERALL: Final = 8
BEGUN: Final = 9
EVALUATED: Final = 10  # the tick at whose end heartbeats were found, if no row has come since
ALL_COLUMNS: Final = 11

NONE: Final = -1
"""No sender, no receiver, no delay, no assumption, no history."""

UNSEEN: Final = 0
"""The place of the source that stands for all that have not come yet."""


class HeartbeatTables(NamedTuple):
    """All that heartbeats are found by."""

    everything: Table
    """What is known of all sources together."""

    rules: Table
    """What each rule says of each source."""

    kinds: Table
    """What kind each rule is, and how far its senders have come."""

    sources: Table
    """What is known of each source."""

    histories: Table
    """When the furthest sender of each rule was where: a tick, the first, whose that is, and the second."""

    delayed: Table
    """The same of each source by itself, for rules about own rows that wait: a tick, and how far it had come."""

    counted: Table
    """For rules that count rows, or wait for own ones: what holds, how long a history is, and how long a queue."""

    queues: Table
    """What waits for further rows of a source: for how many in all, and what holds then."""


READ: Final = types.Array(int64, 1, "C", readonly=True)
T1, T2, T3, T4 = int64[::1], int64[:, ::1], int64[:, :, ::1], int64[:, :, :, ::1]

_KINDS: Final = (T1, T3, T2, T2, T3, T4, T3, T4)

TABLES: Final = handed_as_one(HeartbeatTables, *_KINDS)
"""The tables as compiled loops know them."""

GIVEN: Final = plain_tuple(*_KINDS)
"""The tables as Python hands them over: as a plain tuple."""
