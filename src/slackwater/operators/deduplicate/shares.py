"""What a step that leaves out repeats remembers, parted by keys and put together again: see Operator.split().

Originals are remembered by the words of their keys, of which the columns are made again that decide. Rows that wait in
the place of their originals stay with them: both have the same key. Numbers are given anew, from 0 on.

Cost: a copy of all that is remembered.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slackwater.columns.row_codec import WORD, RowBytes
from slackwater.events.batch import EventBatch
from slackwater.operators.deduplicate.known_keys import KnownState
from slackwater.operators.deduplicate.latest_rows import LatestRows, PieceState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slackwater.columns.row_spread import RowSpread
    from slackwater.operators.deduplicate.key_words import KeyWords
    from slackwater.operators.deduplicate.known_keys import Column

_TOO_OLD = -1
"""The number of an original that is not remembered any more."""


class _Known(NamedTuple):
    """Originals in order of time, and the rows that wait in their place, in theirs."""

    offsets: Column
    words: Column
    times: Column
    rows: tuple[EventBatch, ...]
    begun_by: Column
    """For each row that waits the place of its original, or TOO_OLD."""

    @classmethod
    def of(cls, known: KnownState, latest: tuple[PieceState, ...]) -> _Known:
        lengths = np.concatenate([_NONE, *(np.diff(offsets) for _, offsets, _, _ in known.segments)])
        words = np.concatenate([_NONE, *(words for _, _, words, _ in known.segments)])
        times = np.concatenate([_NONE, *(times for *_, times in known.segments)])
        first = known.segments[0][0] if known.segments else known.next
        kept = [begun_by for begun_by, _ in LatestRows(latest).kept()]
        begun_by = np.maximum(np.concatenate([_NONE, *kept]) - first, _TOO_OLD)
        return cls(_offsets(lengths), words, times, tuple(_waiting(piece) for piece in latest), begun_by)

    def some(self, originals: Column, rows: Column) -> _Known:
        """Some originals and rows, by their places, in the order given."""
        lengths = np.diff(self.offsets)[originals] * WORD
        taken = RowBytes.of(self.words.view(np.uint8), self.offsets[originals] * WORD, lengths)
        anew = np.full(len(self.times) + 1, _TOO_OLD)
        anew[originals] = np.arange(len(originals))
        waiting = (EventBatch.concat(self.rows).take_rows(rows),) if len(rows) else ()
        return _Known(taken.word_offsets, taken.words, self.times[originals], waiting, anew[self.begun_by[rows]])

    def remembered(self, looked_at: int) -> tuple[KnownState, tuple[PieceState, ...]]:
        """The same as states; the rows that wait are the last of those that were looked at."""
        count = len(self.times)
        known = KnownState(((0, self.offsets, self.words, self.times),), count) if count else KnownState()
        if not self.rows:
            return known, ()
        (rows,) = self.rows
        numbers = np.arange(looked_at - rows.rows, looked_at)
        return known, (PieceState(rows, numbers, self.begun_by, 0, np.packbits(np.ones(rows.rows, dtype=np.bool_))),)


def split_known(
    keys: KeyWords, spread: RowSpread, known: KnownState, latest: tuple[PieceState, ...], looked_at: int
) -> list[tuple[KnownState, tuple[PieceState, ...]]]:
    """What is remembered of the keys of each place."""
    both = _Known.of(known, latest)
    of_originals = spread.of(EventBatch(keys.decode(both.offsets, both.words), both.times, None))
    of_rows = spread.of(EventBatch.concat(both.rows)) if both.rows else _NONE
    parts = (
        (np.flatnonzero(of_originals == place), np.flatnonzero(of_rows == place)) for place in range(spread.places)
    )
    return [both.some(*part).remembered(looked_at) for part in parts]


def unite_known(
    several: Sequence[tuple[KnownState, tuple[PieceState, ...]]], looked_at: int
) -> tuple[KnownState, tuple[PieceState, ...]]:
    """What several remember of different keys."""
    each = [_Known.of(*one) for one in several]
    before = accumulate((len(one.times) for one in each), initial=0)
    begun_by = [
        np.where(one.begun_by < 0, _TOO_OLD, one.begun_by + count) for one, count in zip(each, before, strict=False)
    ]
    together = _Known(
        _offsets(np.concatenate([np.diff(one.offsets) for one in each])),
        np.concatenate([one.words for one in each]),
        np.concatenate([one.times for one in each]),
        tuple(rows for one in each for rows in one.rows),
        np.concatenate(begun_by),
    )
    starts = np.concatenate([_NONE, *(rows.start for rows in together.rows)])
    in_order = np.argsort(together.times, kind="stable"), np.argsort(starts, kind="stable")
    return together.some(*in_order).remembered(looked_at)


def _waiting(piece: PieceState) -> EventBatch:
    left = np.unpackbits(piece.left, count=len(piece.numbers)).astype(np.bool_)
    return piece.rows.take_rows(np.flatnonzero(left[piece.begin :]) + piece.begin)


def _offsets(lengths: Column) -> Column:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


_NONE: NDArray[np.int64] = np.empty(0, dtype=np.int64)
