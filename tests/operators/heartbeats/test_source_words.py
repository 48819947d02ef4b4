"""Places of sources by the words of dictionaries, against the names of the values one by one."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.events.schema import EventSchema
from slackwater.operators.heartbeats import text_words
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


def test_plain_columns_have_places_by_their_values() -> None:
    """Words, and numbers of which some are one though Arrow distinguishes them."""
    words, places = _words(pa.string())
    assert _values(pa.array(["x", None, "y", "x"]), words, places) == ["x", None, "y", "x"]
    numbers, _ = _words(pa.float64())
    assert numbers.of(pa.array([0.0, -0.0, float("nan"), 1.0, float("nan")])).places().tolist() == [0, 0, 1, 2, 1]


# ---- plain texts -----------------------------------------------------------------------------------------------------

_TEXTS = st.one_of(
    st.none(), st.sampled_from(["", "a", "b", "gateway-17", "gateway-18", "\x00", "\x00\x00"]), st.text()
)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
@given(batches=st.lists(st.lists(_TEXTS, max_size=30), max_size=6), cut=st.integers(0, 5))
def test_texts_have_the_places_of_their_values(kind: pa.DataType, batches: list[list[str | None]], cut: int) -> None:
    """Whatever came before; and sources get their places in order of their first rows."""
    (words, places), firsts = _words(kind), dict[bytes, None]()
    for batch in batches:
        column = pa.array([None if one is None else one.encode() for one in batch], pa.binary()).cast(kind).slice(cut)
        names = [words._names.name_of(one) for one in column.to_pylist()]
        firsts |= dict.fromkeys(names)
        found = words.of(column).places().tolist()
        named = {place: name for name, place in places.known.items()}
        assert [named[place] for place in found] == names
    assert list(places.known) == list(firsts)
    assert places.asked == len(firsts)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 15, 16, 17, 64])
def test_texts_that_differ_in_one_byte_are_two(length: int) -> None:
    """Wherever it is; also texts of which one begins with the other, and the last ones of a column."""
    words, places = _words(pa.binary())
    plain = b"x" * length
    texts = [plain, plain[:-1], plain + b"\x00", *(plain[:at] + b"y" + plain[at + 1 :] for at in range(length))]
    for column in (pa.array(texts), pa.array(texts[::-1]), pa.array([plain])):
        found = words.of(column).places().tolist()
        assert [words._names.name_of(one) for one in column.to_pylist()] == [list(places.known)[one] for one in found]
    assert len(places.known) == len(texts)


def test_many_texts_find_room_and_are_forgotten_when_they_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that never end do not fill all memory; those that come again have the places they had."""
    monkeypatch.setattr(text_words, "_MOST_WORDS", 3_000)
    words, places = _words(pa.string())
    for begin in range(0, 10_000, 1_000):
        column = pa.array([f"{'n' * (name % 40)}{name}" for name in range(begin // 2, begin // 2 + 1_000)])
        assert words.of(column).places().tolist() == list(range(begin // 2, begin // 2 + 1_000))
        assert len(words._texts.place_of) <= 3_000 + 1_000 + 1
    assert len(places.known) == 5_500


def test_memory_may_begin_anywhere() -> None:
    """Arrow is given it by others, who need not care for whole words."""
    ends = pa.py_buffer(b"\0" + np.array([0, 1, 3], dtype=np.int64).tobytes()).slice(1)
    column = pa.Array.from_buffers(pa.large_string(), 2, [None, ends, pa.py_buffer(b"xyz")])
    words, places = _words(pa.large_string())
    assert _values(column, words, places) == ["x", "yz"]


# ---- whole numbers ---------------------------------------------------------------------------------------------------

_INTEGERS = [pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]


def _whole_numbers(kind: pa.DataType) -> st.SearchStrategy[int]:
    """Those of a type: near each other, and the ends."""
    least, greatest = (
        (0, 2**kind.bit_width - 1)
        if pa.types.is_unsigned_integer(kind)
        else (
            -(2 ** (kind.bit_width - 1)),
            2 ** (kind.bit_width - 1) - 1,
        )
    )
    near = st.integers(max(least, -5), 20)
    return near | near | st.integers(least, greatest) | st.sampled_from([least, least + 1, greatest - 1, greatest])


@pytest.mark.parametrize("kind", _INTEGERS, ids=str)
@given(data=st.data(), cut=st.integers(0, 3))
def test_whole_numbers_have_the_places_of_their_values(kind: pa.DataType, data: st.DataObject, cut: int) -> None:
    """However far they are from each other, and whatever came before; those that fit have no dictionary."""
    words, places = _words(kind)
    for batch in data.draw(st.lists(st.lists(st.none() | _whole_numbers(kind), max_size=20), max_size=6)):
        column = pa.array(batch, kind).slice(cut)
        names = [words._names.name_of(one) for one in column.to_pylist()]
        found = words.of(column).places().tolist()
        named = {place: name for name, place in places.known.items()}
        assert [named[place] for place in found] == names
        assert set(names) <= set(places.known)


@pytest.mark.parametrize("kind", [pa.int16(), pa.int32(), pa.int64()], ids=str)
def test_numbers_near_each_other_get_no_dictionary(kind: pa.DataType) -> None:
    """Their places are in order of first rows, and those that are known are not asked for again; far ones get one."""
    words, places = _words(kind)
    for batch, wanted in (([9, 7, None, 9], [0, 1, 2, 0]), ([12, 3, None, 9], [3, 4, 2, 0]), ([3, 8], [4, 5])):
        assert words.of(pa.array(batch, kind)).places().tolist() == wanted
    assert (words._integers is not None, words._dictionary, places.asked) == (True, None, 6)
    words.of(pa.array([-30_000, 30_000], kind))
    assert words._integers is not None
    if kind != pa.int16():
        assert words.of(pa.array([3, 70_000], kind)).places().tolist() == [4, 8]
        assert words._integers is None
