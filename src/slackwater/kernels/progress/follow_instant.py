"""Follows rows that all arrive at one instant, as a batch does by the clock: most of them need not be looked at.

How far a source has come is the newest of its rows, wherever that stands in the batch. So rows are taken from the last
to the first, in blocks: as soon as every source has been seen, and a block has no time that is newer than what the
least of them has come to, nothing in it moves anything. Times are compared by the block, which is quick; who sent a row
is asked only where it matters.

Invariant: the tables are as if the rows had been taken one by one.
Cost: a comparison for each row, and some steps for those that may move something; O(rules * sources) for the tick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numba import boolean, int32, int64, types, void

from slackwater.kernels.compile import kernel, plain_tuple
from slackwater.kernels.progress.heartbeat_tables import (
    GIVEN,
    HEARTBEAT,
    HIGH_WATER,
    HIGH_WATER_TICK,
    LAST_ARRIVAL,
    LAST_TICK,
    NEWEST,
    READ,
    SOURCES,
    T1,
    TABLES,
    HeartbeatTables,
)
from slackwater.kernels.progress.take_in import any_counts, raise_all, take_tick
from slackwater.kernels.progress.ticks import begin_tick, finish_tick
from slackwater.kernels.saturating import GREATEST, LEAST

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from slackwater.kernels.progress.heartbeat_tables import Table

    Words = NDArray[np.int32]

WORDS: Final = types.Array(int32, 1, "C", readonly=True)
"""Numbers of the words of a dictionary."""

_BLOCK: Final = 1024
"""So many rows are looked at together, or four for each source: behind each block that counts sources are looked at."""

NOWHERE: Final = -1
"""The place of a word that stands for no source yet."""


@kernel(boolean(WORDS, READ, T1))
def look_up(words: Words, place_of: Table, codes: Table) -> bool:
    """Fill in the places of the sources that words name; return whether all of them have one.

    >>> import numpy as np
    >>> codes = np.empty(3, dtype=np.int64)
    >>> look_up(np.array([1, 0, 1], dtype=np.int32), np.array([7, 5]), codes), codes.tolist()
    (True, [5, 7, 5])
    """
    least = GREATEST
    for row in range(len(words)):
        codes[row] = place_of[words[row]]
        least = min(least, codes[row])
    return least > NOWHERE


@kernel(plain_tuple(int64, int64)(READ), inner=True)
def _ends(times: Table) -> tuple[int, int]:
    """The least and the greatest of some times."""
    least, greatest = GREATEST, LEAST
    for row in range(len(times)):
        least = min(least, times[row])
        greatest = max(greatest, times[row])
    return least, greatest


@kernel(boolean(TABLES, READ, int64, T1), inner=True)
def _breaks_nothing(tables: HeartbeatTables, times: Table, block: int, newest: Table) -> bool:
    """Whether all rows have times, which are behind no heartbeat, whoever sent them; fill in the newest of each block.

    Blocks are counted from the end of the rows.
    """
    heartbeats, highest = tables.sources[HEARTBEAT], LEAST
    for j in range(tables.everything[SOURCES]):
        highest = max(highest, heartbeats[j])
    stop, number = len(times), 0
    while stop > 0:
        begin = max(stop - block, 0)
        least, newest[number] = _ends(times[begin:stop])
        if least <= highest:
            return False
        stop, number = begin, number + 1
    return True


@kernel(plain_tuple(int64, int64)(TABLES, int64), inner=True)
def _seen(tables: HeartbeatTables, tick: int) -> tuple[int, int]:
    """How many sources have come in a tick, and how far the least of them has come."""
    last, water, seen, least = tables.sources[LAST_TICK], tables.sources[HIGH_WATER], 0, GREATEST
    for j in range(tables.everything[SOURCES]):
        if last[j] == tick:
            seen += 1
            least = min(least, water[j])
    return seen, least


@kernel(void(TABLES, WORDS, READ, READ, int64), inner=True)
def _take_all(tables: HeartbeatTables, words: Words, place_of: Table, times: Table, tick: int) -> None:
    """Take in rows that break no bound: how far their sources have come."""
    last, water, water_tick = tables.sources[LAST_TICK], tables.sources[HIGH_WATER], tables.sources[HIGH_WATER_TICK]
    for row in range(len(times)):
        source = place_of[words[row]]
        last[source] = tick
        if times[row] > water[source]:
            water[source] = times[row]
            water_tick[source] = tick


@kernel(boolean(TABLES, WORDS, READ, int64), inner=True)
def _any_new(tables: HeartbeatTables, words: Words, place_of: Table, tick: int) -> bool:
    """Whether there is a row among these of a source that was not seen in this tick."""
    last, new = tables.sources[LAST_TICK], False
    for row in range(len(words)):
        new |= last[place_of[words[row]]] != tick
    return new


@kernel(void(TABLES, WORDS, READ, READ, int64, int64, T1), inner=True)
def _take_backwards(
    tables: HeartbeatTables, words: Words, place_of: Table, times: Table, tick: int, block: int, newest: Table
) -> None:
    """Take in the rows of a tick from the last to the first, block by block; none of them breaks a bound."""
    everything, stop, number = tables.everything, len(times), 0
    seen, least = _seen(tables, tick)
    while stop > 0:
        begin = max(stop - block, 0)
        # All sources are those in the places from 1 on.
        all_seen = seen == everything[SOURCES] - 1
        if newest[number] > least or (not all_seen and _any_new(tables, words[begin:stop], place_of, tick)):
            _take_all(tables, words[begin:stop], place_of, times[begin:stop], tick)
            everything[NEWEST] = max(everything[NEWEST], newest[number])
            seen, least = _seen(tables, tick)
        stop, number = begin, number + 1
    everything[LAST_ARRIVAL] = tick
    raise_all(tables, tick)


@kernel(int64(GIVEN, int64, WORDS, READ, READ, T1, T1, T1))
def follow_instant(
    given: tuple[Table, ...],
    tick: int,
    words: Words,
    place_of: Table,
    times: Table,
    codes: Table,
    places: Table,
    bounds: Table,
) -> int:
    """Take in rows of one tick, which is over then; return how often the least heartbeat rose, and before which rows.

    Words name their sources, and all of them have a place. `codes` is room for as many numbers as there are rows.
    """
    tables = HeartbeatTables(*given)
    found = finish_tick(tables, None, tick, 0, 0, places, bounds)
    begin_tick(tables, None, tick)
    counts, block = any_counts(tables.kinds), max(_BLOCK, 4 * tables.everything[SOURCES])
    if not counts and len(times) >= 2 * block and _breaks_nothing(tables, times, block, codes):
        _take_backwards(tables, words, place_of, times, tick, block, codes)
    else:
        look_up(words, place_of, codes)
        take_tick(tables, codes, times, tick, counts)
    return finish_tick(tables, None, tick + 1, len(times), found, places, bounds)
