"""The originals of the last while, found by their keys: what a step remembers that leaves out repeats.

Originals are kept in order of time in columns that grow, with a hash table over them. What is too old is left out when
the columns are full, so that each original is moved a few times in its life, and memory follows those that still count.

What is stored of them lies in segments, each of the originals that came since the one before it. A segment is never
changed; small neighbours are put together, and one of which all are too old is forgotten.

Invariant: originals are in order of time; those of one key are more than `within` apart.
Cost: one look-up for each row. To resume, one place in the table for each original that is remembered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from slackwater.kernels.match import known_keys as kernel
from slackwater.progress.instants import BEGINNING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slackwater.operators.deduplicate.key_words import Words
    from slackwater.progress.instants import Duration, Instant

    Column: TypeAlias = NDArray[np.int64]
    Table: TypeAlias = NDArray[np.uint64]

KnownSegment: TypeAlias = "tuple[int, Column, Column, Column]"
"""The number of its first original; where the words of each key begin, the words, and the times."""

_NONE: Column = np.empty(0, dtype=np.int64)

_LEAST_ROOM: Final = 64
"""Originals that there is room for at first."""

_SMALL: Final = 65_536
"""Segments of fewer originals are worth putting together."""


@dataclass(frozen=True)
class KnownState:
    """What is stored: segments, one right behind the other, and the number of the next original."""

    segments: tuple[KnownSegment, ...] = ()
    next: int = 0


class Firsts(NamedTuple):
    """What became of some rows, where the first of a group is kept."""

    fates: Column
    """KEPT, REPEAT, or the row that this one ties with, for each row."""

    kept: Column
    """The rows that are kept, by their places."""

    ties: int
    """How many rows tie with one that is kept."""


class Lasts(NamedTuple):
    """What became of some rows, where the last of a group is kept."""

    fates: Column
    """KEPT, or the row that this one ties with, for each row."""

    begun_by: Column
    """The number of the original of each row's group."""

    replaced: Column
    """The numbers of the rows that are not kept any more, because a later one is."""


class KnownKeys:
    """Remembers originals.

    >>> from slackwater.operators.deduplicate.key_words import Words
    >>> known = KnownKeys(within=5)
    >>> keys = Words(np.arange(5), np.array([7, 8, 7, 7]))
    >>> known.find_firsts(np.array([1, 1, 4, 9]), keys, first_row=0).fates.tolist()
    [-1, -1, -2, -1]
    """

    __slots__ = (
        "_first", "_forgotten", "_known", "_originals", "_scratch", "_segments", "_table", "_within", "_words",
    )  # fmt: skip

    def __init__(self, within: Duration, resume: KnownState | None = None) -> None:
        state = resume or KnownState()
        self._within = within
        self._segments = list(state.segments)
        self._forgotten: Instant = BEGINNING
        self._words = np.concatenate([_NONE, *(words for _, _, words, _ in state.segments)])
        offsets = _joined_offsets([offsets for _, offsets, _, _ in state.segments])
        self._known = len(offsets) - 1
        # A line for each original, as the kernels want it.
        self._originals = np.empty((self._known, kernel.FIELDS), dtype=np.int64)
        self._originals[:, kernel.TIME] = np.concatenate([_NONE, *(times for *_, times in state.segments)])
        self._originals[:, kernel.LATEST] = kernel.NOBODY
        self._originals[:, kernel.AT] = offsets[:-1]
        self._originals[:, kernel.LENGTH] = offsets[1:] - offsets[:-1]
        self._originals[:, kernel.FIRST] = _first_words(offsets, self._words)
        # The number of the first original that is held: all before it are too old.
        self._first = state.next - self._known
        # Written anew for each call: fresh memory would cost more than what is done in it.
        self._scratch = np.empty((4, 0), dtype=np.int64)
        # There is no room for any row yet: the table is made with it.
        self._table = np.zeros(0, dtype=np.uint64)

    def __len__(self) -> int:
        return self._known

    def find_firsts(self, times: Column, keys: Words, first_row: int) -> Firsts:
        """Find out which rows repeat others. They come in order of time, numbered from `first_row` on.

        All rows of one time come together. What is returned is good until the next call.
        """
        hashes, fates, kept, _ = self._prepared(len(times), keys)
        held = *self._held(), np.ascontiguousarray(times), hashes, *keys, self._within, first_row
        self._known, count, ties, _ = kernel.find_firsts(*held, fates, kept)
        return Firsts(fates, kept[:count], ties)

    def find_lasts(self, times: Column, keys: Words, first_row: int) -> Lasts:
        """Find out which rows take the place of others; else as find_firsts."""
        hashes, fates, begun_by, replaced = self._prepared(len(times), keys)
        held = *self._held(), np.ascontiguousarray(times), hashes, *keys, self._within, first_row
        self._known, count, _ = kernel.find_lasts(*held, fates, begun_by, replaced)
        return Lasts(fates, begun_by + self._first, replaced[:count])

    def _prepared(self, rows: int, keys: Words) -> Column:
        """Make room for so many rows; return their hashes, and three columns that may be written."""
        self._make_room(rows, len(keys.words))
        if rows > self._scratch.shape[1]:
            self._scratch = np.empty((4, rows), dtype=np.int64)
        columns = self._scratch[:, :rows]
        kernel.hash_keys(keys.offsets, keys.words, columns[0])
        return columns

    def _held(self) -> tuple[Table, Column, Column, int, int]:
        """What is remembered, as the kernels take it."""
        return self._table, self._originals, self._words, self._known, self._used

    def forget_before(self, bound: Instant) -> None:
        """Learn that nothing repeats an original before the bound any more. It is left out when room is needed."""
        self._forgotten = max(self._forgotten, bound)

    def set_latest(self, begun_by: Column, rows: Column) -> None:
        """Return, for some originals, which row is kept of their groups; those that are too old are passed over."""
        here = begun_by >= self._first
        self._originals[begun_by[here] - self._first, kernel.LATEST] = rows[here]

    @property
    def _used(self) -> int:
        """How many words are held."""
        if not self._known:
            return 0
        newest = self._originals[self._known - 1]
        return int(newest[kernel.AT] + newest[kernel.LENGTH])

    @property
    def _times(self) -> Column:
        return self._originals[: self._known, kernel.TIME]

    def _make_room(self, rows: int, words: int) -> None:
        """See that so many more originals and words fit."""
        used = self._used
        if self._known + rows <= len(self._originals) and used + words <= len(self._words) and len(self._table):
            return
        old = int(np.searchsorted(self._times, self._forgotten))
        left = self._known - old
        gone = int(self._originals[old, kernel.AT]) if left else used
        # Half as many more must fit as there are now, or all of them would be moved again soon.
        room, words_room = left + left // 2 + rows, (used - gone) + (used - gone) // 2 + words
        if room <= len(self._originals) and words_room <= len(self._words) and len(self._table):
            self._originals[:left] = self._originals[old : self._known]
            self._words[: used - gone] = self._words[gone:used]
            self._table[:] = 0
        else:
            room = max(_LEAST_ROOM, 2 * left + rows)
            self._originals = _moved(self._originals[old : self._known], room)
            self._words = _moved(self._words[gone:used], max(_LEAST_ROOM, 2 * (used - gone) + words))
            # Twice as many places as originals at least: in a fuller table a key is looked for at many places.
            self._table = np.zeros(1 << (2 * room - 1).bit_length(), dtype=np.uint64)
        self._originals[:left, kernel.AT] -= gone
        self._first, self._known = self._first + old, left
        kernel.fill_table(self._table, self._originals, self._words, left)

    def snapshot(self) -> KnownState:
        """Return what is remembered. Cost: a copy of what is new since the last time, and of small segments."""
        while self._segments and self._segments[0][3][-1] < self._forgotten:
            del self._segments[0]
        if self._segments:
            begin = self._segments[-1][0] + len(self._segments[-1][3]) - self._first
        else:
            begin = int(np.searchsorted(self._times, self._forgotten))
        if begin < self._known:
            newest = self._segment(begin)
            while self._segments and _better_together(len(self._segments[-1][3]), len(newest[3])):
                newest = _together(self._segments.pop(), newest)
            self._segments.append(newest)
        return KnownState(tuple(self._segments), self._first + self._known)

    def _segment(self, begin: int) -> KnownSegment:
        at = int(self._originals[begin, kernel.AT])
        offsets = np.append(self._originals[begin : self._known, kernel.AT], self._used) - at
        return self._first + begin, offsets, self._words[at : self._used].copy(), self._times[begin:].copy()

    def check(self) -> None:
        """Assert that originals are in order, and that the table finds every one that is not too old by its key."""
        times = self._times
        assert (times[1:] >= times[:-1]).all(), times
        ends = self._originals[: self._known, kernel.AT] + self._originals[: self._known, kernel.LENGTH]
        assert (ends[:-1] == self._originals[1 : self._known, kernel.AT]).all(), self._originals[: self._known]
        if not len(self._table):
            return
        places = self._table[self._table != 0]
        assert len(places) * 2 <= len(self._table), (len(places), len(self._table))
        found = set((places & np.uint64(2**32 - 1)).astype(np.int64) - 1)
        begins = self._originals[: self._known, kernel.AT]
        newest = {self._words[begin:end].tobytes(): i for i, (begin, end) in enumerate(zip(begins, ends, strict=True))}
        assert found >= set(newest.values()), (found, newest)


def _moved(lines: Column, room: int) -> Column:
    longer = np.empty((room, *lines.shape[1:]), dtype=np.int64)
    longer[: len(lines)] = lines
    return longer


def _first_words(offsets: Column, words: Column) -> Column:
    """The first word of each key, 0 for one that has none."""
    firsts = np.zeros(len(offsets) - 1, dtype=np.int64)
    some = offsets[1:] > offsets[:-1]
    firsts[some] = words[offsets[:-1][some]]
    return firsts


def _joined_offsets(parts: list[Column]) -> Column:
    """Offsets of keys whose words are laid end to end, each part counting from 0."""
    joined = [np.zeros(1, dtype=np.int64)]
    for part in parts:
        joined.append(part[1:] + joined[-1][-1])
    return np.concatenate(joined)


def _better_together(older: int, newer: int) -> bool:
    return older + newer <= _SMALL and older <= 2 * newer


def _together(older: KnownSegment, newer: KnownSegment) -> KnownSegment:
    words, times = (np.concatenate([older[part], newer[part]]) for part in (2, 3))
    return older[0], _joined_offsets([older[1], newer[1]]), words, times
