"""The originals of the last while, found by their keys: what a step remembers that leaves out repeats.

Originals lie in a ring, in order of time, with a hash table over it. Those that are too old are forgotten as rows come;
if the ring is full it grows, and where few are left it becomes smaller, so that memory follows those that still count.

What is stored of them lies in segments, each of the originals that came since the one before it. A segment is never
changed; small neighbours are put together, and one of which all are too old is forgotten.

Invariant: originals are in order of time; those of one key are more than `within` apart.
Cost: one look-up for each row. To resume, writing each original that is remembered.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from slackwater.kernels.match import known_keys as kernel
from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slackwater.operators.deduplicate.key_words import Words
    from slackwater.progress.instants import Duration, Instant

    Column: TypeAlias = NDArray[np.int64]
    Remembered: TypeAlias = tuple[int, NDArray[np.uint32], NDArray[np.uint64], Column, Column, Column]

KnownSegment: TypeAlias = "tuple[int, Column, Column, Column]"
"""The number of its first original; where the words of each key begin, the words, and the times."""

_LEAST_ROOM: Final = 256
"""Originals that there is room for at least."""

_ROOMY: Final = 2
"""So many times as much as is needed is given to long keys, and left to a ring that is made smaller."""

_TOO_ROOMY: Final = 8
"""A ring that so many times as many would find room in is made smaller."""

_SMALL: Final = 65_536
"""Segments of fewer originals are worth putting together."""


@dataclass(frozen=True)
class KnownState:
    """What is stored: segments, one right behind the other, and the number of the next original."""

    segments: tuple[KnownSegment, ...] = ()
    next: int = 0


class Firsts(NamedTuple):
    """What became of some rows, where the first of a group is kept."""

    kept: Column
    """The rows that are kept, by their places."""

    tied: Column
    """The rows that tie with one of them."""

    firsts: Column
    """The row that each of these ties with."""


class Lasts(NamedTuple):
    """What became of some rows, where the last of a group is kept."""

    fates: Column
    """KEPT, or the row that this one ties with, for each row."""

    begun_by: Column
    """The number of the original of each row's group."""

    replaced: Column
    """The numbers of the rows that are not kept any more, because a later one is."""


class KnownKeys:
    """Remembers originals. Keys of no more than `few` words, one or FEW, are kept with them; longer ones elsewhere.

    >>> from slackwater.operators.deduplicate.key_words import Words
    >>> known = KnownKeys(within=5)
    >>> keys = Words.of(np.arange(5), np.array([7, 8, 7, 7]))
    >>> known.find_firsts(np.array([1, 1, 4, 9]), keys, first_row=0).kept.tolist()
    [0, 1, 3]
    """

    __slots__ = (
        "_few",
        "_forgotten",
        "_held",
        "_lines",
        "_links",
        "_marks",
        "_scratch",
        "_segments",
        "_table",
        "_within",
    )

    def __init__(self, within: Duration, resume: KnownState | None = None, few: int = 1) -> None:
        state = resume or KnownState()
        self._within = within
        self._segments = list(state.segments)
        self._forgotten: Instant = BEGINNING
        self._few = few
        self._marks = np.zeros(kernel.MARKS, dtype=np.int64)
        self._marks[:] = state.segments[0][0] if state.segments else state.next
        self._marks[kernel.USED] = 0
        self._make_ring(sum(len(times) for *_, times in state.segments))
        self._held = np.empty(sum(len(words) for _, _, words, _ in state.segments), dtype=np.int64)
        for _, offsets, words, times in state.segments:
            kernel.write_lines(*self._remembered(), times, offsets, words)
        # Written anew for each call: fresh memory would cost more than what is done in it.
        self._scratch = np.empty((3, 0), dtype=np.int64)

    def __len__(self) -> int:
        return self._next - self._first

    @property
    def _first(self) -> int:
        """The number of the first original that is remembered."""
        return int(self._marks[kernel.FIRST])

    @property
    def _next(self) -> int:
        """The number of the next original."""
        return int(self._marks[kernel.NEXT])

    def find_firsts(self, times: Column, keys: Words, first_row: int) -> Firsts:
        """Find out which rows repeat others. They come in order of time, numbered from `first_row` on.

        All rows of one time come together. What is returned is good until the next call.
        """
        times, (kept, tied, firsts) = np.ascontiguousarray(times), self._columns(len(times))
        self._follow_down(len(times))
        row = count = ties = 0
        while True:
            asked = *self._remembered(), times, keys.hashes, *keys[:2], self._within, first_row, row
            found = kernel.find_firsts(*asked, kept[count:], tied[ties:], firsts[ties:])
            row, count, ties = found[0], count + found[1], ties + found[2]
            if row == len(times):
                self._forget_at(times)
                return Firsts(kept[:count], tied[:ties], firsts[:ties])
            self._make_room(len(times) - row, int(keys.offsets[row + 1] - keys.offsets[row]))

    def find_lasts(self, times: Column, keys: Words, first_row: int) -> Lasts:
        """Find out which rows take the place of others; else as find_firsts."""
        times, (fates, begun_by, replaced) = np.ascontiguousarray(times), self._columns(len(times))
        self._follow_down(len(times))
        row = count = 0
        while True:
            asked = *self._remembered(), times, keys.hashes, *keys[:2], self._within, first_row, row
            found = kernel.find_lasts(*asked, fates, begun_by, replaced[count:])
            row, count = found[0], count + found[1]
            if row == len(times):
                self._forget_at(times)
                return Lasts(fates, begun_by, replaced[:count])
            self._make_room(len(times) - row, int(keys.offsets[row + 1] - keys.offsets[row]))

    def _columns(self, rows: int) -> Column:
        """Three columns for so many rows that may be written."""
        if rows > self._scratch.shape[1]:
            self._scratch = np.empty((3, rows), dtype=np.int64)
        return self._scratch[:, :rows]

    def _remembered(self) -> Remembered:
        """What is remembered, as the kernels take it."""
        return self._few, self._table, self._links, self._lines, self._held, self._marks

    def forget_before(self, bound: Instant) -> None:
        """Learn that nothing repeats an original before the bound any more. It is not stored from now on."""
        self._forgotten = max(self._forgotten, bound)

    def _forget_at(self, times: Column) -> None:
        """Learn what the kernels have forgotten at most, on seeing these times."""
        if len(times):
            self.forget_before(max(int(times[-1]) - self._within, BEGINNING))

    def set_latest(self, begun_by: Column, rows: Column) -> None:
        """Return, for some originals, which row is kept of their groups; those that are too old are passed over."""
        here = begun_by >= self._first
        self._by_line[begun_by[here] & (len(self._by_line) - 1), kernel.LATEST] = rows[here]

    @property
    def _by_line(self) -> Column:
        """The ring, line by line."""
        return self._lines.reshape(-1, kernel.WORDS + self._few)

    # ---- making room -------------------------------------------------------------------------------------------------

    def _make_room(self, rows: int, length: int) -> None:
        """See that at least one more original fits, of whose key the words are so many; and those of the next rows."""
        needed = self._needed(rows)
        if needed > len(self._links):
            self._move_to_ring(needed)
        if length > self._few and self._marks[kernel.USED] + length > len(self._held):
            self._make_room_for_words(length)

    def _follow_down(self, rows: int) -> None:
        """Give memory back that is not needed any more."""
        needed = max(self._needed(rows), _LEAST_ROOM)
        if len(self._links) > _TOO_ROOMY * needed:
            self._move_to_ring(_ROOMY * needed)

    def _needed(self, rows: int) -> int:
        """How much room there must be to go on."""
        return len(self) + min(rows, kernel.AT_ONCE)

    def _move_to_ring(self, room: int) -> None:
        links, lines = self._links, self._lines
        self._make_ring(room)
        kernel.move_lines(links, lines, self._table, self._links, self._lines, self._first, self._next)

    def _make_ring(self, room: int) -> None:
        """Make an empty ring, and a table for it."""
        room = 1 << (max(_LEAST_ROOM, room) - 1).bit_length()
        self._links = np.empty(room, dtype=np.uint64)
        self._lines = np.empty(room * (kernel.WORDS + self._few), dtype=np.int64)
        self._table = np.zeros(kernel.PLACES * room, dtype=np.uint32)

    def _make_room_for_words(self, length: int) -> None:
        """Lay the words of long keys together, and see that those of one more fit."""
        between = self._first, self._next
        used = kernel.move_words(self._lines, kernel.WORDS + self._few, self._held, self._held, *between)
        self._marks[kernel.USED] = used
        if 2 * used + length > len(self._held):
            roomier = np.empty(_ROOMY * (used + length), dtype=np.int64)
            roomier[:used] = self._held[:used]
            self._held = roomier

    def _first_since(self, bound: Instant) -> int:
        """The number of the first original that is not before a bound."""
        return kernel.first_since(self._lines, kernel.WORDS + self._few, self._first, self._next, bound)

    # ---- storing -----------------------------------------------------------------------------------------------------

    def snapshot(self) -> KnownState:
        """Return what is remembered. Cost: a copy of what is new since the last time, and of small segments."""
        while self._segments and self._segments[0][3][-1] < self._forgotten:
            del self._segments[0]
        if self._segments:
            begin = self._segments[-1][0] + len(self._segments[-1][3])
        else:
            begin = self._first_since(self._forgotten)
        if begin < self._next:
            newest = self._segment(begin)
            while self._segments and _better_together(len(self._segments[-1][3]), len(newest[3])):
                newest = _together(self._segments.pop(), newest)
            self._segments.append(newest)
        return KnownState(tuple(self._segments), self._next)

    def _segment(self, begin: int) -> KnownSegment:
        """The originals from a number on."""
        count, ring = self._next - begin, len(self._by_line) - 1
        offsets, times = np.zeros(count + 1, dtype=np.int64), np.empty(count, dtype=np.int64)
        np.cumsum(self._by_line[np.arange(begin, begin + count) & ring, kernel.LENGTH], out=offsets[1:])
        words = np.empty(int(offsets[-1]), dtype=np.int64)
        kernel.read_lines(self._lines, kernel.WORDS + self._few, self._held, begin, offsets, words, times)
        return begin, offsets, words, times

    def check(self) -> None:
        """Assert that originals are in order, and that the newest of each key is the first to be found."""
        begin, offsets, words, times = self._segment(self._first)
        assert (times[1:] >= times[:-1]).all(), times
        assert len(times) <= len(self._links), (len(times), len(self._links))
        keys = [words[a:b].tobytes() for a, b in pairwise(offsets)]
        slots, half = np.arange(begin, self._next) & (len(self._links) - 1), 2**32 - 1
        links = self._links[slots].tolist()
        for key, newest in {key: position for position, key in enumerate(keys)}.items():
            head = int(self._table[(links[newest] >> 32) & (len(self._table) - 1)])
            position = (head - begin) & half
            while position > newest:
                assert keys[position] != key, (position, newest)
                position -= (links[position] & half) + 1
            assert position == newest, (position, newest)


def _better_together(older: int, newer: int) -> bool:
    return older + newer <= _SMALL and older <= 2 * newer


def _together(older: KnownSegment, newer: KnownSegment) -> KnownSegment:
    words, times = (np.concatenate([older[part], newer[part]]) for part in (2, 3))
    return older[0], np.concatenate([older[1], newer[1][1:] + older[1][-1]]), words, times
