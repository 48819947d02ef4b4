"""Places of sources by the words of dictionaries, against the names of the values one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from slackwater.events.schema import EventSchema
from slackwater.operators.heartbeats.source_words import SourceWords
from slackwater.operators.replicas.replica_names import ReplicaNames


class _Places:
    """Gives each name the next place, and counts how many it was asked for."""

    def __init__(self) -> None:
        self.known: dict[bytes, int] = {}
        self.asked = 0

    def __call__(self, names: list[bytes]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        self.asked += len(names)
        return np.array([self.known.setdefault(name, len(self.known)) for name in names], dtype=np.int64)


def _words(kind: pa.DataType) -> tuple[SourceWords, _Places]:
    schema = EventSchema.of(pa.schema({"at": pa.int64(), "who": kind}), time="at")
    places = _Places()
    return SourceWords(ReplicaNames(schema, "who"), places), places  # type: ignore[arg-type]


def _values(column: pa.Array, words: SourceWords, places: _Places) -> list[object]:
    """The values that the places stand for."""
    found, spelled = words.of(column).places().tolist(), words._names.spelled
    named = {place: name for name, place in places.known.items()}
    return [None if one == "null" else one for one in (spelled(named[place]) for place in found)]


@pytest.mark.parametrize("index", [pa.int8(), pa.int32(), pa.int64(), pa.uint16()])
def test_rows_have_the_places_of_their_words(index: pa.DataType) -> None:
    """Batch after batch: with the same dictionary and others, words that nobody uses yet, null, slices."""
    words, places = _words(pa.dictionary(index, pa.string()))
    dictionary = pa.array(["a", "b", "c", "d"])
    for numbers in ([0, 0], [1, None, 0], [3, 3, 1], [2, 0, None]):
        column = pa.DictionaryArray.from_arrays(pa.array(numbers, index), dictionary)
        assert _values(column, words, places) == column.to_pylist()
        assert _values(column.slice(1), words, places) == column.slice(1).to_pylist()
    assert sorted(places.known.values()) == list(range(5))
    other = pa.DictionaryArray.from_arrays(pa.array([1, 0, 2], index), pa.array(["d", "e", "a"]))
    assert _values(other, words, places) == ["e", "d", "a"]
    assert _values(other.dictionary_decode().dictionary_encode(), words, places) == ["e", "d", "a"]


def test_a_known_word_is_not_looked_up_again() -> None:
    """A dictionary that comes again costs nothing, whatever its rows are."""
    words, places = _words(pa.dictionary(pa.int32(), pa.string()))
    dictionary = pa.array(["a", "b", "c"])
    for numbers in ([0, 1], [1, 1], [2, 0], [0, 1, 2]):
        words.of(pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int32()), dictionary))
    assert places.asked == 3


def test_plain_columns_get_a_dictionary() -> None:
    """Words, and numbers of which some are one though Arrow distinguishes them."""
    words, places = _words(pa.string())
    assert _values(pa.array(["x", None, "y", "x"]), words, places) == ["x", None, "y", "x"]
    numbers, _ = _words(pa.float64())
    assert numbers.of(pa.array([0.0, -0.0, float("nan"), 1.0, float("nan")])).places().tolist() == [0, 0, 1, 2, 1]
