"""Which row has the present value of each key, by its number: a hash table that forgets keys without one.

Cost: one look-up for each row, and now and then one for each key that has a value, when most known keys have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from slackwater.columns.row_codec import WORD, RowBytes
from slackwater.columns.row_numbers import RowNumbers
from slackwater.operators.deduplicate.key_words import KeyWords

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

NOBODY: Final = -1
"""In place of the number of a row: the key has no value."""

_FEW: Final = 64
"""Keys without a value that are not worth a sweep."""


class KeyNumbers:
    """The number of a row for each key.

    >>> import pyarrow as pa
    >>> keys = KeyNumbers(pa.schema({"k": pa.string()}), ["k"])
    >>> codes = keys.codes(pa.record_batch({"k": ["a", None, "a"]}))
    >>> keys.put(codes[:2], np.array([7, 8]))
    >>> codes.tolist(), keys.get(codes).tolist()
    ([0, 1, 0], [7, 8, 7])
    """

    __slots__ = ("_codes", "_rows", "_words")

    def __init__(self, schema: pa.Schema, key: Sequence[str], step: str = "upserts") -> None:
        self._words = KeyWords(schema, key, step)
        self._codes = RowNumbers()
        self._rows = np.empty(0, dtype=np.int64)

    def codes(self, rows: pa.RecordBatch) -> Column:
        """A small number for the key of each row, good until the next sweep."""
        words = self._words.encode(rows)
        codes = self._codes.number(RowBytes(WORD * words.offsets, words.words.view(np.uint8)))
        if len(self._codes) > len(self._rows):
            more = np.full(2 * len(self._codes), NOBODY, dtype=np.int64)
            more[: len(self._rows)] = self._rows
            self._rows = more
        return codes

    def get(self, codes: Column) -> Column:
        """The number of the row of each key, or NOBODY."""
        return self._rows[codes]

    def put(self, codes: Column, rows: Column | int) -> None:
        """Say which rows keys have from now on."""
        self._rows[codes] = rows

    def sweep(self, live: int) -> None:
        """Forget the keys that have no row, where these are most; `live` is how many have one."""
        if len(self._codes) <= 2 * live + _FEW:
            return
        kept = np.flatnonzero(self._rows != NOBODY)
        self._codes, self._rows = self._codes.only(kept), self._rows[kept]

    def check(self, rows: Column) -> None:
        """Assert that exactly these rows are those of keys, each of one."""
        found = self._rows[self._rows != NOBODY]
        assert sorted(found.tolist()) == sorted(rows.tolist()), (found, rows)
        assert (self._rows[len(self._codes) :] == NOBODY).all(), self._rows
        self._codes.check()
