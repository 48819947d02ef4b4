"""Rows that wait because a later row of their key may take their place, in order of time.

Rows lie in the pieces in which they came. One whose place was taken is marked, not moved; what is old enough goes out
from the front. A piece is forgotten when nothing of it is left; small neighbours are put together.

Invariant: pieces are in order of time, and so are the rows of each; their numbers rise.
Cost: O(rows added, replaced and released), and O(pieces); each row is moved O(log) times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.events.batch import EventBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from slackwater.progress.instants import Instant

    Column = NDArray[np.int64]

_SMALL: Final = 65_536
"""Pieces of fewer rows are worth putting together."""


@dataclass(frozen=True)
class PieceState:
    """A piece as it is stored. Its columns are never changed, but for the bits that mark which rows are left."""

    rows: EventBatch
    numbers: Column
    begun_by: Column
    begin: int
    left: NDArray[np.uint8]


class _Piece:
    """Rows that came together. Those before `begin` have gone out, those not `left` have been replaced."""

    __slots__ = ("_bits", "begin", "begun_by", "left", "numbers", "rows")

    def __init__(
        self, rows: EventBatch, numbers: Column, begun_by: Column, begin: int, left: NDArray[np.bool_]
    ) -> None:
        self.rows = rows
        self.numbers = numbers
        self.begun_by = begun_by
        self.begin = begin
        self.left = left
        self._bits: NDArray[np.uint8] | None = None

    @classmethod
    def restored(cls, state: PieceState) -> _Piece:
        left = np.unpackbits(state.left, count=len(state.numbers)).astype(np.bool_)
        piece = cls(state.rows, state.numbers, state.begun_by, state.begin, left)
        piece._bits = state.left
        return piece

    def mark(self, numbers: Column) -> None:
        self.left[np.searchsorted(self.numbers, numbers)] = False
        self._bits = None

    def waiting(self) -> Column:
        """The places of the rows that wait."""
        return np.flatnonzero(self.left[self.begin :]) + self.begin

    def snapshot(self) -> PieceState:
        if self._bits is None:
            self._bits = np.packbits(self.left)
        return PieceState(self.rows, self.numbers, self.begun_by, self.begin, self._bits)


class LatestRows:
    """Rows that wait, by number."""

    __slots__ = ("_pieces", "_waiting")

    def __init__(self, resume: tuple[PieceState, ...] = ()) -> None:
        self._pieces = [_Piece.restored(state) for state in resume]
        self._waiting = sum(len(piece.waiting()) for piece in self._pieces)

    def __len__(self) -> int:
        return self._waiting

    def add(self, rows: EventBatch, numbers: Column, begun_by: Column) -> None:
        """Take in rows that are no earlier than those that wait; `begun_by` is kept with them."""
        if not rows.rows:
            return
        self._waiting += rows.rows
        newest = _Piece(rows, numbers, begun_by, 0, np.ones(rows.rows, dtype=np.bool_))
        while self._pieces and _better_together(self._pieces[-1], newest):
            newest = _together(self._pieces.pop(), newest)
        self._pieces.append(newest)

    def replace(self, numbers: Column) -> None:
        """Let go of rows that wait, because others have taken their place."""
        if not len(numbers):
            return
        self._waiting -= len(numbers)
        firsts = np.array([piece.numbers[0] for piece in self._pieces])
        piece_of = np.searchsorted(firsts, numbers, side="right") - 1
        for place in np.unique(piece_of).tolist():
            self._pieces[place].mark(numbers[piece_of == place])

    def release(self, complete_before: Instant) -> list[EventBatch]:
        """Hand over the rows that are older than a bound, in order."""
        released = []
        while self._pieces and self._pieces[0].rows.start[self._pieces[0].begin] < complete_before:
            piece = self._pieces[0]
            stop = int(np.searchsorted(piece.rows.start, complete_before))
            places = np.flatnonzero(piece.left[piece.begin : stop]) + piece.begin
            if len(places):
                released.append(_taken(piece.rows, places))
            piece.begin = stop
            if stop == len(piece.numbers):
                del self._pieces[0]
        self._waiting -= sum(batch.rows for batch in released)
        return released

    def kept(self) -> Iterator[tuple[Column, Column]]:
        """What began the groups of the rows that wait, with their numbers."""
        for piece in self._pieces:
            places = piece.waiting()
            yield piece.begun_by[places], piece.numbers[places]

    def snapshot(self) -> tuple[PieceState, ...]:
        """Return what waits. Cost: a bit for each row of the pieces in which some were replaced; no row is copied."""
        return tuple(piece.snapshot() for piece in self._pieces)

    def check(self) -> None:
        """Assert that rows are in order, that their numbers rise, and that as many wait as are counted."""
        numbers = [number for piece in self._pieces for number in piece.numbers.tolist()]
        assert numbers == sorted(set(numbers)), numbers
        times = [time for piece in self._pieces for time in piece.rows.start.tolist()]
        assert times == sorted(times), times
        assert self._waiting == sum(len(piece.waiting()) for piece in self._pieces), self._waiting
        assert all(piece.begin < len(piece.numbers) for piece in self._pieces)


def _taken(rows: EventBatch, places: Column) -> EventBatch:
    """Some rows; without a copy when they follow each other."""
    first, stop = int(places[0]), int(places[-1]) + 1
    return rows.slice(first, stop) if stop - first == len(places) else rows.take_rows(places)


def _better_together(older: _Piece, newer: _Piece) -> bool:
    n, m = len(older.numbers) - older.begin, len(newer.numbers)
    return n + m <= _SMALL and n <= 2 * m


def _together(older: _Piece, newer: _Piece) -> _Piece:
    """One piece of two, of the rows that wait."""
    parts = [(piece, piece.waiting()) for piece in (older, newer)]
    rows = EventBatch.concat([_taken(piece.rows, places) for piece, places in parts if len(places)])
    numbers = np.concatenate([piece.numbers[places] for piece, places in parts])
    begun_by = np.concatenate([piece.begun_by[places] for piece, places in parts])
    return _Piece(rows, numbers, begun_by, 0, np.ones(len(numbers), dtype=np.bool_))
