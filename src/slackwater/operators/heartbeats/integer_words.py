"""The places that the sources of rows have, which are named by whole numbers near each other, as most numbering is.

A number is its own index in a table of places, so that no dictionary is made of a column. The table covers all values
between the least and the greatest that have come; where that are too many it says so, and is of no use any more.

Invariant: a value has a place as soon as a row has had it, in order of first rows; the last number is null.
Cost: one pass over the rows, and another one while some values in the range have no place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from slackwater.kernels.columns.number_integers import all_placed, number_integers
from slackwater.kernels.progress.follow_instant import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from slackwater.operators.replicas.replica_names import ReplicaName, ReplicaNames

_MOST_VALUES: Final = 1 << 16
"""Values between the least and the greatest, at most: a table of half a megabyte."""


class IntegerWords:
    """Numbers whole numbers of one type.

    >>> from slackwater.events.schema import EventSchema
    >>> from slackwater.operators.replicas.replica_names import ReplicaNames
    >>> schema = EventSchema.of(pa.schema({"at": pa.int64(), "who": pa.int32()}), time="at")
    >>> words = IntegerWords(ReplicaNames(schema, "who"), lambda names: np.arange(len(names)))
    >>> words.numbers(pa.array([9, 7, 9], pa.int32())).tolist(), words.place_of.tolist()
    ([2, 0, 2], [1, -1, 0, -1])
    >>> words.numbers(pa.array([9, 10**9], pa.int32())) is None
    True
    """

    __slots__ = ("_first", "_names", "_places_of", "place_of")

    def __init__(self, names: ReplicaNames, places_of: Callable[[Sequence[ReplicaName]], NDArray[np.int64]]) -> None:
        self._names = names
        self._places_of = places_of
        self._first = 0
        self.place_of = np.full(1, NOWHERE, dtype=np.int64)
        """The place of the source that each number stands for; the last one is null."""

    def numbers(self, values: pa.Array) -> NDArray[np.int32] | None:
        """The number of each value, and those that are new get a place; None if values are too far from each other."""
        numbers = np.empty(len(values), dtype=np.int32)
        known = values.drop_null() if values.null_count else values
        wide = known.to_numpy().astype(np.int64, copy=False)
        if len(known) and not self._number(wide, numbers[: len(known)]):
            return None
        if values.null_count:
            there = values.is_valid().to_numpy(zero_copy_only=False)
            numbers[there] = numbers[: len(known)].copy()
            numbers[~there] = len(self.place_of) - 1
        if not all_placed(numbers, self.place_of):
            self._give_places(numbers)
        return numbers

    def _number(self, values: NDArray[np.int64], numbers: NDArray[np.int32]) -> bool:
        """Fill in numbers; say whether they are true, which they are unless values are too far from each other."""
        least, greatest = number_integers(values, self._first, numbers)
        last = self._first + len(self.place_of) - 2
        if self._first <= least and greatest <= last:
            return True
        first, last = (least, greatest) if last < self._first else (min(self._first, least), max(last, greatest))
        if last - first >= _MOST_VALUES:
            return False
        room = np.full(last - first + 2, NOWHERE, dtype=np.int64)
        before = self._first - first if len(self.place_of) > 1 else 0
        room[before : before + len(self.place_of) - 1] = self.place_of[:-1]
        room[-1] = self.place_of[-1]
        self._first, self.place_of = first, room
        number_integers(values, first, numbers)
        return True

    def _give_places(self, numbers: NDArray[np.int32]) -> None:
        """Give places to the values that rows have and had not before, in order of their first rows."""
        used, firsts = np.unique(numbers[self.place_of[numbers] == NOWHERE], return_index=True)
        new = used[np.argsort(firsts)]
        null = len(self.place_of) - 1
        values = [None if one == null else self._first + one for one in new.tolist()]
        names = self._names.spelled_words(pa.array(values, self._names.plain))[:-1]
        self.place_of = self.place_of.copy()
        self.place_of[new] = self._places_of(names)


def is_integer(kind: pa.DataType) -> bool:
    """Whether values are whole numbers that fit into int64."""
    return bool(pa.types.is_integer(kind) and kind != pa.uint64())
