"""Rows that are held by number until each is taken, in whatever order, and some of them perhaps never.

Rows lie in the pieces in which they came. One that is taken is marked, not moved; a piece of which most are gone is
copied without them, and small neighbours are put together. So what is stored of a piece that nobody takes from stays
as it is, however many others come and go.

Invariant: numbers rise from piece to piece and within each, and at least half of the rows of every piece are left.
Cost: O(rows added and taken), and O(pieces) for each call; each row is moved O(log) times. There are O(log rows) small
pieces, and one large one for each 65,536 rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from slackwater.events.batch import EventBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    Column: TypeAlias = NDArray[np.int64]

_SMALL: Final = 65_536
"""Pieces of fewer rows are worth putting together."""


@dataclass(frozen=True)
class LivePiece:
    """A piece as it is stored. Its columns are never changed, but for the bits that mark which rows are left."""

    rows: EventBatch
    numbers: Column
    left: NDArray[np.uint8]


@dataclass(frozen=True)
class LiveRowsState:
    """What is held, and the number of the next row to come."""

    pieces: tuple[LivePiece, ...] = ()
    next: int = 0


class _Piece:
    """Rows that came together, and which of them are left."""

    __slots__ = ("_bits", "count", "left", "numbers", "rows")

    def __init__(self, rows: EventBatch, numbers: Column, bits: NDArray[np.uint8] | None = None) -> None:
        self.rows = rows
        self.numbers = numbers
        self._bits = bits
        self.left = np.ones(rows.rows, dtype=np.bool_)
        if bits is not None:
            self.left = np.unpackbits(bits, count=rows.rows).astype(np.bool_)
        self.count = int(np.count_nonzero(self.left))

    def mark(self, places: Column) -> None:
        self.left[places] = False
        self.count -= len(places)
        self._bits = None

    def thinned(self) -> _Piece:
        """The rows that are left alone, if most are gone; else the piece as it is."""
        if 2 * self.count >= self.rows.rows:
            return self
        places = np.flatnonzero(self.left)
        return _Piece(self.rows.take_rows(places), self.numbers[places])

    def snapshot(self) -> LivePiece:
        if self._bits is None:
            self._bits = np.packbits(self.left)
        return LivePiece(self.rows, self.numbers, self._bits)


class LiveRows:
    """Rows by number.

    >>> import pyarrow as pa
    >>> held = LiveRows()
    >>> numbers = held.add(EventBatch.inserts(pa.record_batch({"x": ["a", "b", "c"]}), start=[1, 2, 4]))
    >>> held.take(numbers[[2, 0]]).payload.to_pydict(), len(held)
    ({'x': ['c', 'a']}, 1)
    """

    __slots__ = ("_next", "_pieces")

    def __init__(self, resume: LiveRowsState | None = None) -> None:
        state = resume or LiveRowsState()
        self._pieces = [_Piece(piece.rows, piece.numbers, piece.left) for piece in state.pieces]
        self._next = state.next

    def __len__(self) -> int:
        return sum(piece.count for piece in self._pieces)

    def add(self, rows: EventBatch) -> Column:
        """Take in rows; return their numbers."""
        numbers = np.arange(self._next, self._next + rows.rows)
        self._next += rows.rows
        if rows.rows:
            self._pieces = _tidied([*self._pieces, _Piece(rows, numbers)])
        return numbers

    def take(self, numbers: Column) -> EventBatch:
        """Hand over some rows, at least one, in the order asked for; they are not held any more."""
        firsts = np.array([piece.numbers[0] for piece in self._pieces])
        piece_of = np.searchsorted(firsts, numbers, side="right") - 1
        asked = np.unique(piece_of).tolist()
        by_piece = np.argsort(piece_of, kind="stable")
        taken: list[EventBatch] = []
        for piece in (self._pieces[place] for place in asked):
            places = np.searchsorted(piece.numbers, numbers[piece_of == asked[len(taken)]])
            piece.mark(places)
            taken.append(piece.rows.take_rows(places))
        self._pieces = _tidied(self._pieces)
        if len(taken) == 1:
            return taken[0]
        back = np.empty(len(numbers), dtype=np.int64)
        back[by_piece] = np.arange(len(numbers))
        return EventBatch.concat(taken).take_rows(back)

    def rows(self) -> Iterator[tuple[EventBatch, Column]]:
        """The rows that are held, with their numbers, piece by piece."""
        for piece in self._pieces:
            places = np.flatnonzero(piece.left)
            yield piece.rows.take_rows(places), piece.numbers[places]

    def snapshot(self) -> LiveRowsState:
        """Return what is held. Cost: a bit for each row of the pieces from which some were taken; no row is copied."""
        return LiveRowsState(tuple(piece.snapshot() for piece in self._pieces), self._next)

    def check(self) -> None:
        """Assert that numbers rise, and that every piece has enough rows left."""
        numbers = [number for piece in self._pieces for number in piece.numbers.tolist()]
        assert numbers == sorted(set(numbers)), numbers
        assert not numbers or numbers[-1] < self._next, (numbers, self._next)
        for piece in self._pieces:
            assert 0 < piece.rows.rows <= 2 * piece.count, (piece.rows.rows, piece.count)
            assert piece.count == np.count_nonzero(piece.left), (piece.count, piece.left)


def _tidied(pieces: Iterable[_Piece]) -> list[_Piece]:
    """The same rows, in pieces that are full enough and few."""
    tidy: list[_Piece] = []
    for piece in pieces:
        newer = piece.thinned()
        if not newer.count:
            continue
        while tidy and _better_together(tidy[-1].count, newer.count):
            newer = _together(tidy.pop(), newer)
        tidy.append(newer)
    return tidy


def _better_together(older: int, newer: int) -> bool:
    return older + newer <= _SMALL and older <= 2 * newer


def _together(older: _Piece, newer: _Piece) -> _Piece:
    parts = [(piece, np.flatnonzero(piece.left)) for piece in (older, newer)]
    rows = EventBatch.concat([piece.rows.take_rows(places) for piece, places in parts])
    return _Piece(rows, np.concatenate([piece.numbers[places] for piece, places in parts]))
