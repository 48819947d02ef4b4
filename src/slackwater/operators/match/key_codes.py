"""Small numbers for the keys of rows, the same number for the same key in every batch.

Arrow finds the distinct keys of a batch; only those are looked up in a Python dictionary. Keys are compared exactly,
never by a hash alone. A row with a null in its key has no number; all NaN are one key, and so are 0.0 and -0.0, as in
Spark. Without key columns every row has the same key.

Invariant: the codes in use are 0 to len(self) - 1.
Cost: O(rows) in Arrow and NumPy, plus one dictionary look-up per distinct key of the batch.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slackwater.events.elements import NAN

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

Codes: TypeAlias = NDArray[np.int64]
"""One number per row; NO_KEY for a row that has no key."""

NO_KEY = -1
"""The code of a row with a null in its key, and of a key that was never seen where none is made up."""


class KeyCodes:
    """Numbers the keys it gets.

    >>> codes = KeyCodes(["k"])
    >>> codes.encode(pa.record_batch({"k": ["a", "b", None, "a"]})).tolist()
    [0, 1, -1, 0]
    >>> codes.find(pa.record_batch({"k": ["c", "b"]})).tolist()
    [-1, 1]
    """

    __slots__ = ("_codes", "_columns")

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._codes: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._codes)

    def encode(self, rows: pa.RecordBatch) -> Codes:
        """Return the code of each row's key; a key that is new gets the next number."""
        ids, keys = self._distinct(rows)
        codes = self._look_up(keys)
        if NO_KEY in codes:
            for key in itertools.compress(keys, map(NO_KEY.__eq__, codes)):
                # The dictionary keeps the order of insertion, so its length is the next number.
                self._codes.setdefault(key, len(self._codes))
            codes = self._look_up(keys)
        return _by_id(ids, codes)

    def find(self, rows: pa.RecordBatch) -> Codes:
        """Return the code of each row's key, NO_KEY for keys never encoded."""
        ids, keys = self._distinct(rows)
        return _by_id(ids, self._look_up(keys))

    def _look_up(self, keys: Sequence[Hashable]) -> list[int]:
        return list(map(self._codes.get, keys, itertools.repeat(NO_KEY)))

    def forget_all_but(self, used: Codes) -> Codes:
        """Forget the keys whose codes are not used, unless most are; return the new code of each old one.

        Cost: O(keys known), so it is for sweeps; at most as many keys as are used stay known in vain.
        """
        keep = np.zeros(len(self), dtype=np.bool_)
        keep[used] = True
        kept = int(np.count_nonzero(keep))
        if 2 * kept >= len(self):
            return np.arange(len(self))
        self._codes = {key: code for code, key in enumerate(itertools.compress(self._codes, keep.tolist()))}
        return np.where(keep, np.cumsum(keep) - 1, NO_KEY)

    def _distinct(self, rows: pa.RecordBatch) -> tuple[Codes, Sequence[Hashable]]:
        """Number the distinct keys of a batch: the number of each row (-1: null), and the keys by number."""
        if not rows.num_rows:
            return np.empty(0, dtype=np.int64), []
        if not self._columns:
            return np.zeros(rows.num_rows, dtype=np.int64), [()]
        first, *others = (_distinct_values(rows.column(name)) for name in self._columns)
        for other in others:
            first = _distinct_pairs(first, other)
        return first

    def check(self) -> None:
        """Assert that the codes are dense and in the order of insertion."""
        assert list(self._codes.values()) == list(range(len(self._codes))), self._codes


def _by_id(ids: Codes, codes: list[int]) -> Codes:
    # One entry more at the end: an id of -1 picks it.
    return np.array([*codes, NO_KEY], dtype=np.int64)[ids]


def _distinct_values(column: pa.Array) -> tuple[Codes, Sequence[Hashable]]:
    encoded = _comparable(column).dictionary_encode()
    kind = encoded.dictionary.type
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    # For plain numbers NumPy makes Python values many times faster than Arrow.
    values: list[Any] = encoded.dictionary.to_numpy().tolist() if numbers else encoded.dictionary.to_pylist()
    if pa.types.is_floating(kind):
        values = [value if value == value else NAN for value in values]  # noqa: PLR0124 - NaN alone differs from itself
    return _ids(encoded), values


def _distinct_pairs(
    a: tuple[Codes, Sequence[Hashable]], b: tuple[Codes, Sequence[Hashable]]
) -> tuple[Codes, Sequence[Hashable]]:
    """Number the distinct pairs of two columns. No overflow: both counts are at most the rows of a batch."""
    (ids_a, values_a), (ids_b, values_b) = a, b
    size = max(len(values_b), 1)
    encoded = pa.array(ids_a * size + ids_b, mask=(ids_a < 0) | (ids_b < 0)).dictionary_encode()
    which_a, which_b = np.divmod(encoded.dictionary.to_numpy(), size)
    pairs = zip(map(values_a.__getitem__, which_a), map(values_b.__getitem__, which_b), strict=True)
    return _ids(encoded), list(pairs)


def _ids(encoded: pa.DictionaryArray) -> Codes:
    indices = encoded.indices.fill_null(NO_KEY) if encoded.indices.null_count else encoded.indices
    return indices.to_numpy().astype(np.int64)


def _comparable(column: pa.Array) -> pa.Array:
    """The column in a type that Arrow can number and whose Python values compare exactly."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _comparable(column.storage)
    if pa.types.is_dictionary(kind):
        return _comparable(column.dictionary_decode())
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        # Python's own times hold no nanoseconds.
        return column.view(pa.int32() if kind.bit_width == pa.int32().bit_width else pa.int64())
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return column.cast(pa.decimal128(kind.precision, kind.scale))
    return column
