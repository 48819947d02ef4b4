"""The places that the sources of rows have, which are named by plain texts: words are known from batch to batch.

To make a dictionary of a column for each batch, as for other types, takes several times as long as to find each text
among those that have come before.

Invariant: a known word has a place as soon as a row has had it; number 0 is null.
Cost: one look-up for each row. Words are kept until there are very many; then all are forgotten, and learnt again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from slackwater.kernels.columns.number_texts import number_texts, place_words
from slackwater.kernels.progress.follow_instant import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from slackwater.operators.replicas.replica_names import ReplicaName, ReplicaNames

_LEAST_WORDS: Final = 64
"""Words that there is room for at least."""

_LEAST_BYTES: Final = 1_024

_MOST_WORDS: Final = 1 << 18
"""Words that are kept at most from one batch to the next: names that never end would fill all memory."""

_NULL: Final = 0
"""The number of null."""


class TextWords:
    """Numbers texts of one type.

    >>> from slackwater.events.schema import EventSchema
    >>> from slackwater.operators.replicas.replica_names import ReplicaNames
    >>> schema = EventSchema.of(pa.schema({"at": pa.int64(), "who": pa.string()}), time="at")
    >>> words = TextWords(ReplicaNames(schema, "who"), lambda names: np.arange(len(names)))
    >>> words.numbers(pa.array(["blue", "green", "blue"])).tolist(), words.place_of.tolist()
    ([1, 2, 1], [-1, 0, 1])
    """

    __slots__ = ("_ends", "_hashes", "_held", "_known", "_names", "_places_of", "_table", "place_of")

    def __init__(self, names: ReplicaNames, places_of: Callable[[Sequence[ReplicaName]], NDArray[np.int64]]) -> None:
        self._names = names
        self._places_of = places_of
        self._forget()

    def _forget(self) -> None:
        self._known = 0
        self._held = np.empty(_LEAST_BYTES, dtype=np.uint8)
        self._ends = np.zeros(_LEAST_WORDS + 1, dtype=np.int64)
        self._hashes = np.empty(_LEAST_WORDS, dtype=np.uint64)
        self._table = np.zeros(2 * _LEAST_WORDS, dtype=np.int32)
        self.place_of = np.full(1, NOWHERE, dtype=np.int64)
        """The place of the source that each number stands for."""

    def numbers(self, texts: pa.Array) -> NDArray[np.int32]:
        """The number of each text. Those that are new get a place."""
        if self._known > _MOST_WORDS:
            self._forget()
        known, row = self._known, 0
        data, ends = _bytes_of(texts)
        numbers = np.empty(len(texts), dtype=np.int32)
        while True:
            held = self._held, self._ends, self._hashes, self._table
            row, self._known = number_texts(data, ends, row, *held, self._known, numbers)
            if row == len(numbers):
                break
            self._make_room(int(ends[row + 1] - ends[row]))
        if texts.null_count:
            numbers[texts.is_null().to_numpy(zero_copy_only=False)] = _NULL
        if texts.null_count or self._known > known:
            self._give_places(numbers)
        return numbers

    def _make_room(self, length: int) -> None:
        """See that one more word of so many bytes fits."""
        known, used = self._known, int(self._ends[self._known])
        if used + length > len(self._held):
            self._held = _longer(self._held, used, 2 * (used + length))
        if known == len(self._hashes):
            self._hashes = _longer(self._hashes, known, 2 * known)
            self._ends = _longer(self._ends, known + 1, 2 * known + 1)
            self._table = np.zeros(4 * known, dtype=np.int32)
            place_words(self._hashes, known, self._table)

    def _give_places(self, numbers: NDArray[np.int32]) -> None:
        """Give places to the words that rows have and had not before, in order of their first rows."""
        if len(self.place_of) <= self._known:
            fresh = np.full(self._known + 1 - len(self.place_of), NOWHERE, dtype=np.int64)
            self.place_of = np.concatenate([self.place_of, fresh])
        without = numbers[self.place_of[numbers] == NOWHERE]
        if not len(without):
            return
        used, firsts = np.unique(without, return_index=True)
        new = used[np.argsort(firsts)]
        self.place_of = self.place_of.copy()
        self.place_of[new] = self._places_of(self._spelled(new))

    def _spelled(self, numbers: NDArray[np.int32]) -> list[ReplicaName]:
        """The names that numbers stand for."""
        words = [None if one == _NULL else self._word(one) for one in numbers.tolist()]
        return self._names.spelled_words(pa.array(words, pa.binary()).cast(self._names.plain))[:-1]

    def _word(self, number: int) -> bytes:
        return self._held[self._ends[number - 1] : self._ends[number]].tobytes()


def is_text(kind: pa.DataType) -> bool:
    """Whether values are texts, or bytes of varying length, as they lie."""
    texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(texts or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _bytes_of(texts: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The bytes of a column, and where those of each row end; the first is where the first row begins."""
    if not len(texts):
        return np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    _, offsets, data = texts.buffers()
    wide = pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type)
    kind = np.dtype(np.int64 if wide else np.int32)
    ends = np.frombuffer(offsets, kind, len(texts) + 1, texts.offset * kind.itemsize)
    # Copied in any case: memory that Arrow was given by others may begin anywhere.
    return np.frombuffer(data or b"", dtype=np.uint8), ends.astype(np.int64)


def _longer(values: NDArray, used: int, length: int) -> NDArray:  # type: ignore[type-arg]
    """The same values, with room for more."""
    longer = np.zeros(length, dtype=values.dtype)
    longer[:used] = values[:used]
    return longer
