"""Small numbers for rows of any columns, the same number for the same row in every batch.

Rows are numbered as the bytes that row_bytes makes of them, so that they are compared exactly and a null is a value
like any other.

Invariant: the numbers in use are 0 to len(self) - 1.
Cost: one look-up in a hash table for each row; growing moves what is held, O(1) for each row that was ever new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.columns.row_codec import WORD, RowBytes
from slackwater.kernels.columns.number_rows import FREE, fill_table, number_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEAST_ROOM: Final = 64
"""Rows and words that there is room for at first."""


class RowNumbers:
    """Numbers the rows that it gets.

    >>> import pyarrow as pa
    >>> from slackwater.columns.row_codec import RowCodec
    >>> codec, numbers = RowCodec(pa.schema({"k": pa.string()})), RowNumbers()
    >>> numbers.number(codec.encode(pa.record_batch({"k": ["a", None, "a"]}))).tolist()
    [0, 1, 0]
    >>> numbers.number(codec.encode(pa.record_batch({"k": ["b", None]}))).tolist()
    [2, 1]
    """

    __slots__ = ("_hashes", "_known", "_offsets", "_table", "_words")

    def __init__(self) -> None:
        self._known = 0
        self._hashes = np.empty(0, dtype=np.int64)
        self._offsets = np.zeros(1, dtype=np.int64)
        self._words = np.empty(0, dtype=np.int64)
        self._table = np.empty(0, dtype=np.int32)

    def __len__(self) -> int:
        return self._known

    def number(self, rows: RowBytes) -> NDArray[np.int64]:
        """Return the number of each row; a row that is new gets the next one."""
        numbers = np.empty(len(rows.offsets) - 1, dtype=np.int64)
        self._make_room(len(numbers), len(rows.words))
        held = self._hashes, self._offsets, self._words, self._known
        self._known = number_rows(self._table, *held, rows.offsets // WORD, rows.words, numbers)
        return numbers

    def only(self, kept: NDArray[np.int64]) -> RowNumbers:
        """Return the numbering of these rows alone, numbered anew in the order given. Cost: O(rows kept)."""
        begins, stops = self._offsets[kept], self._offsets[kept + 1]
        others_left_out = RowNumbers()
        others_left_out.number(RowBytes.of(self._words.view(np.uint8), WORD * begins, WORD * (stops - begins)))
        return others_left_out

    def _make_room(self, rows: int, words: int) -> None:
        """See that so many more rows and words fit."""
        if self._known + rows > len(self._hashes):
            room = max(_LEAST_ROOM, 2 * (self._known + rows))
            self._hashes = _longer(self._hashes, self._known, room)
            self._offsets = _longer(self._offsets, self._known + 1, room + 1)
            self._table = np.full(1 << (2 * room).bit_length(), FREE, dtype=np.int32)
            fill_table(self._table, self._hashes[: self._known])
        used = int(self._offsets[self._known])
        if used + words > len(self._words):
            self._words = _longer(self._words, used, max(_LEAST_ROOM, 2 * (used + words)))

    def check(self) -> None:
        """Assert that every row is found by its own number."""
        offsets = self._offsets[: self._known + 1]
        rows = RowBytes(WORD * offsets, self._words[: offsets[-1]].view(np.uint8))
        assert self.number(rows).tolist() == list(range(self._known))


def _longer(column: NDArray[np.int64], used: int, room: int) -> NDArray[np.int64]:
    longer = np.empty(room, dtype=np.int64)
    longer[:used] = column[:used]
    return longer
