"""Remembers which events of a revised stream are there, to notice one that is inserted twice, in compiled loops.

Each start and payload has one place in a hash table, with the end that the event has now. The table holds two hashes of
64 bits instead of the start and the payload: with a million events at once, the chance that any two of them are taken
for one is about one in 10^26. So no payloads are held, as an index of events (event_index) would, for nobody asks for
them.

Events are only ever added. When the table is full, those that can no longer be inserted again are left out and the
others are put into a new one, so that each is moved once, on average.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numba import int64, uint64

from slackwater.kernels.compile import kernel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

FIELDS: Final = 3
"""Columns of a place: two hashes, and an end."""
END: Final = 2
"""Column of a place: the end of the event, FREE where there is none, GONE where it was removed."""
FREE: Final = -(2**63)
GONE: Final = -(2**63) + 1
"""The end of a removed event: like FREE, less than the end of any event that is there."""

ALL_WELL: Final = -1
"""No element breaks the key."""

_INSERT, _ADJUST, _PUNCTUATE = 0, 1, 2  # as in events.kinds
_SPREAD: Final = 0x9E3779B97F4A7C15
_SPREAD_AGAIN: Final = 0xD6E8FEB86659FD93
_SPREAD_OTHERWISE: Final = 0xC2B2AE3D27D4EB4F

_READ = "Array(int64, 1, 'C', readonly=True)"


@kernel("int64(int64[:, ::1], int64, int64)")
def _find(table: Column, first: int, second: int) -> Any:
    """The place of an event, or the free one where it would be."""
    mask = uint64(len(table) - 1)
    at = uint64(first) & mask
    while table[at, END] != FREE and not (table[at, 0] == first and table[at, 1] == second):
        at = (at + uint64(1)) & mask
    return int64(at)


@kernel(f"int64(int64[:, ::1], int64[::1], Array(int8, 1, 'C', readonly=True), {', '.join([_READ] * 6)}, int64)")
def follow_events(
    table: Column,
    used: Column,
    kinds: NDArray[np.int8],
    starts: Column,
    priors: Column,
    ends: Column,
    rows: Column,
    offsets: Column,
    words: Column,
    bound: int,
) -> int:
    """Take the elements of a batch; return the first that inserts an event twice, or adjusts one as it is not.

    `offsets` are where the words of each payload begin; `used` counts the places that are taken. An event that ends at
    or before the bound may have been revised without our notice, so nothing is expected of it.
    """
    for i in range(len(kinds)):
        if kinds[i] == _PUNCTUATE:
            continue
        first, second = uint64(starts[i]) * uint64(_SPREAD), uint64(starts[i]) ^ uint64(_SPREAD_OTHERWISE)
        for place in range(offsets[rows[i]], offsets[rows[i] + 1]):
            first = (first ^ uint64(words[place])) * uint64(_SPREAD_AGAIN)
            first ^= first >> uint64(32)
            second = (second + uint64(words[place])) * uint64(_SPREAD_OTHERWISE)
            second ^= second >> uint64(29)
        first = (first * uint64(_SPREAD)) ^ (first >> uint64(31))
        second = (second * uint64(_SPREAD_AGAIN)) ^ (second >> uint64(33))
        at = _find(table, int64(first), int64(second))
        now = table[at, END]
        if now > max(GONE, bound) and (kinds[i] == _INSERT or now != priors[i]):
            return i
        used[0] += now == FREE
        table[at, 0], table[at, 1] = int64(first), int64(second)
        table[at, END] = GONE if kinds[i] == _ADJUST and ends[i] == starts[i] else ends[i]
    return ALL_WELL


@kernel("int64(int64[:, ::1], int64, int64, int64[:, ::1])")
def move_known(table: Column, complete_before: int, bound: int, new_table: Column) -> int:
    """Put the events that may still be revised into a new table, all of whose places are free; return how many."""
    moved = 0
    for old in range(len(table)):
        end = table[old, END]
        if end <= max(GONE, bound) or end < complete_before:
            continue
        at = _find(new_table, table[old, 0], table[old, 1])
        for field in range(FIELDS):
            new_table[at, field] = table[old, field]
        moved += 1
    return moved
