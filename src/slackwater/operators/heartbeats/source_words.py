"""The places that the sources of rows have, which are named by the words of a dictionary: looked up once for each word.

Columns come with dictionaries, most of the time with the same one batch after batch. Plain texts are found among those
that came before (`text_words.py`), whole numbers near each other in a table (`integer_words.py`); columns of other
types get a dictionary here. A word has a place from the first row on that has it, so that a dictionary may have words
that nobody uses.

Cost: nothing for a row where every word of a known dictionary has a place; else one step for each row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slackwater.kernels.progress.follow_instant import NOWHERE, look_up
from slackwater.operators.heartbeats.integer_words import IntegerWords, is_integer
from slackwater.operators.heartbeats.text_words import TextWords, is_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from slackwater.operators.replicas.replica_names import ReplicaName, ReplicaNames


class Words(NamedTuple):
    """Who sent each of some rows: numbers of words, and the place of the source that each word names."""

    numbers: NDArray[np.int32]
    place_of: NDArray[np.int64]
    """NOWHERE for words that none of the rows has."""

    def places(self) -> NDArray[np.int64]:
        """The place of the source of each row."""
        found = np.empty(len(self.numbers), dtype=np.int64)
        look_up(self.numbers, self.place_of, found)
        return found


class SourceWords:
    """Knows the words of the last dictionary.

    >>> import pyarrow as pa
    >>> from slackwater.events.schema import EventSchema
    >>> from slackwater.operators.replicas.replica_names import ReplicaNames
    >>> schema = EventSchema.of(pa.schema({"at": pa.int64(), "who": pa.string()}), time="at")
    >>> words = SourceWords(ReplicaNames(schema, "who"), lambda names: np.arange(len(names)))
    >>> words.of(pa.array(["blue", None, "blue"])).places().tolist()
    [0, 1, 0]
    """

    __slots__ = (
        "_complete",
        "_dictionary",
        "_integers",
        "_key",
        "_names",
        "_place_of",
        "_places_of",
        "_spelled",
        "_texts",
    )

    def __init__(self, names: ReplicaNames, places_of: Callable[[Sequence[ReplicaName]], NDArray[np.int64]]) -> None:
        self._names = names
        self._places_of = places_of
        self._dictionary: pa.Array | None = None
        self._key: tuple[int, ...] = ()
        self._place_of = np.empty(0, dtype=np.int64)
        self._spelled: list[ReplicaName] = []
        self._complete = False
        self._texts = TextWords(names, places_of)
        self._integers: IntegerWords | None = IntegerWords(names, places_of) if is_integer(names.plain) else None

    def of(self, origins: pa.Array) -> Words:
        """Who sent the rows that have these names; those that are new get a place."""
        if is_text(origins.type):
            return Words(self._texts.numbers(origins), self._texts.place_of)
        if self._integers is not None and is_integer(origins.type):
            found = self._integers.numbers(origins)
            if found is not None:
                return Words(found, self._integers.place_of)
            self._integers = None
        column = self._names.encoded(origins)
        self._learn(column.dictionary)
        indices = column.indices
        nulls = indices.null_count > 0
        if nulls:
            indices = indices.fill_null(len(self._place_of) - 1)
        numbers = indices.to_numpy().astype(np.int32, copy=False)
        if nulls or not self._complete:
            self._give_places(numbers)
        return Words(numbers, self._place_of)

    def _learn(self, dictionary: pa.Array) -> None:
        """Spell the words of a dictionary, unless it is the last: that is kept, so that its addresses are its own."""
        key = (len(dictionary), dictionary.offset, *(0 if one is None else one.address for one in dictionary.buffers()))
        if key == self._key:
            return
        self._dictionary, self._key = dictionary, key
        self._spelled = self._names.spelled_words(dictionary)
        self._place_of = np.full(len(self._spelled), NOWHERE, dtype=np.int64)
        self._complete = False

    def _give_places(self, numbers: NDArray[np.int32]) -> None:
        """Give places to the words that rows have, in their order in the dictionary: names that are one have one."""
        used = np.flatnonzero(np.bincount(numbers, minlength=len(self._spelled)))
        new = used[self._place_of[used] == NOWHERE]
        if len(new):
            self._place_of = self._place_of.copy()
            self._place_of[new] = self._places_of([self._spelled[word] for word in new.tolist()])
            # The last word is null, which rows without it do not need.
            self._complete = bool((self._place_of[:-1] != NOWHERE).all())
