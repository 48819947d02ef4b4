"""Texts get the numbers that a dictionary would give them, also where words meet in the table and where hashes do."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from slackwater.kernels.columns.number_texts import number_texts, place_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_ALL = (1 << 64) - 1


class _Words:
    """The words that a loop knows, with room for so many."""

    def __init__(self, most: int, size: int, places: int) -> None:
        self.held = np.empty(size, np.uint8)
        self.ends = np.zeros(most + 1, np.int64)
        self.hashes = np.empty(most, np.uint64)
        self.table = np.zeros(places, np.int32)
        self.known = 0

    def numbers(self, texts: Sequence[bytes], begin: int = 0) -> tuple[int, NDArray[np.int32]]:
        """Up to which row there was room, and the numbers."""
        data = np.frombuffer(b"".join(texts), np.uint8)
        ends = np.cumsum([0, *map(len, texts)])
        numbers = np.zeros(len(texts), np.int32)
        held = self.held, self.ends, self.hashes, self.table
        row, self.known = number_texts(data, ends, begin, *held, self.known, numbers)
        return row, numbers


def _drawn(rng: Random, many: int) -> list[bytes]:
    """Texts of all lengths around those of words; many differ in their first, their last or any byte only."""
    bases = [bytes(rng.choices(range(256), k=length)) for length in range(34) for _ in range(3)]
    found = []
    for _ in range(many):
        text = bytearray(rng.choice(bases))
        if text and rng.random() < 0.8:
            text[rng.choice([0, len(text) - 1, rng.randrange(len(text))])] = rng.randrange(4)
        found.append(bytes(text))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_texts_have_the_numbers_of_a_dictionary(seed: int) -> None:
    """From batch to batch; in a table that is half full, and after all words are placed anew in another."""
    rng, numbers = Random(seed), dict[bytes, int]()
    batches = [_drawn(rng, 1_000) for _ in range(3)]
    distinct = {text for texts in batches for text in texts}
    places = 1 << (2 * len(distinct) - 1).bit_length()
    words = _Words(len(distinct), sum(map(len, distinct)), places)
    for texts in batches:
        expected = [numbers.setdefault(text, len(numbers) + 1) for text in texts]
        row, found = words.numbers(texts)
        assert (row, found.tolist()) == (len(texts), expected)
        for size in (places, 2 * places):
            words.table = np.zeros(size, np.int32)
            place_words(words.hashes, words.known, words.table)
            assert words.numbers(texts)[1].tolist() == expected
        assert words.known == len(numbers)


@pytest.mark.parametrize(("most", "size", "places"), [(3, 12, 8), (4, 9, 8), (4, 12, 6 + 2)])
def test_the_loop_stops_before_a_word_for_which_there_may_be_no_room(most: int, size: int, places: int) -> None:
    """Be it of words or of bytes; known words need none."""
    words = _Words(most, size, places)
    row, found = words.numbers([b"abc", b"abc", b"def", b"ghi", b"abc", b"jkl", b"abc"])
    room = min(most, size // 3, places // 2)
    assert (row, words.known) == ([0, 2, 3, 5, 7][room], room)
    assert found.tolist()[:row] == [1, 1, 2, 3, 1, 4, 1][:row]
    assert words.numbers([b"ghi", b"def", b"abc"])[1].tolist() == [3, 2, 1]


def test_a_table_is_never_more_than_half_full() -> None:
    """Else there would be no free place at which to find that a word is new."""
    words = _Words(100, 1_000, 8)
    row, _ = words.numbers([bytes([one]) for one in range(50)])
    assert (row, words.known) == (4, 4)


def test_words_of_one_hash_are_kept_apart() -> None:
    """By all of their bytes, the first eight and the last."""

    def mixed(word: int) -> int:
        word = word * 0x9E3779B97F4A7C15 & _ALL
        return word ^ word >> 29

    def other(text: bytes, first: bytes, *, length: int) -> bytes:
        """A text that begins otherwise and has the same hash."""
        words = [int.from_bytes(one, "little") for one in (text[:8], text[8:16], first)]
        second = words[1] ^ mixed(length ^ words[0]) ^ mixed(length ^ words[2])
        return first + second.to_bytes(8, "little") + text[16:]

    texts = []
    for text in (b"sixteen letters!", b"sixteen letters!, and more", b"sixteen letters!" + b"eight of"):
        texts += [text, *(other(text, first, length=len(text)) for first in (b"sixteeN ", b"eighteen"))]
    words = _Words(16, 1_000, 64)
    assert words.numbers(texts)[1].tolist() == list(range(1, 10))
    assert [len({*words.hashes[at : at + 3].tolist()}) for at in (0, 3, 6)] == [1, 1, 1]
    assert words.numbers(texts[::-1])[1].tolist() == list(range(9, 0, -1))
