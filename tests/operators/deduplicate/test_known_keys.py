"""Originals of the last while: against a plain dictionary, in rings so small that they wrap and grow all the time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.kernels.match.known_keys import FEW
from slackwater.operators.deduplicate import known_keys
from slackwater.operators.deduplicate.key_words import Words
from slackwater.operators.deduplicate.known_keys import KnownKeys, KnownState
from slackwater.progress.instants import BEGINNING, FOREVER

if TYPE_CHECKING:
    from collections.abc import Iterator

Key = tuple[int, ...]

_KEYS = [(7,), (8,), (-7,), (0, 0), (0,), (7, 8), (1, 2, 3, 4, 5), (1, 2, 3, 4, 6), (*range(9), 9), (*range(9), 8)]
"""Such as fit into a line and such as do not; some differ in their last word only, some are the beginning of others."""

_ROWS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(_KEYS)), max_size=80)


@pytest.fixture(autouse=True)
def _small_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_keys, "_LEAST_ROOM", 2)


def _words(keys: list[Key]) -> Words:
    offsets = np.cumsum([0, *map(len, keys)])
    return Words.of(offsets, np.array([word for key in keys for word in key], dtype=np.int64))


def _at(gaps: list[int], begin: int) -> list[int]:
    return (begin + np.cumsum(gaps, dtype=object)).tolist() if gaps else []


def _batches(times: list[int], keys: list[Key], size: int) -> Iterator[tuple[list[int], list[Key]]]:
    """About so many rows each; all of one time are together."""
    first = 0
    while first < len(times):
        stop = first + size
        while stop < len(times) and times[stop] == times[stop - 1]:
            stop += 1
        yield times[first:stop], keys[first:stop]
        first = stop


@pytest.mark.parametrize("few", [1, FEW])
@given(
    rows=_ROWS,
    within=st.integers(0, 9),
    size=st.integers(1, 30),
    begin=st.sampled_from([0, BEGINNING + 1, FOREVER - 300]),
    number=st.sampled_from([0, 2**32 - 5]),
    restored=st.booleans(),
)
def test_originals_are_those_of_a_plain_dictionary(
    few: int, rows: list[tuple[int, Key]], within: int, size: int, begin: int, number: int, *, restored: bool
) -> None:
    """Whatever was forgotten or stored meanwhile, also where numbers no longer fit a place of the table."""
    times, keys = _at([gap for gap, _ in rows], begin), [key for _, key in rows]
    known, row, kept = KnownKeys(within, KnownState((), number), few), 0, 0
    originals: dict[Key, tuple[int, int]] = {}
    for some, theirs in _batches(times, keys, size):
        found = known.find_firsts(np.array(some), _words(theirs), row)
        wanted: list[int] = []
        ties: list[tuple[int, int]] = []
        for place, (time, key) in enumerate(zip(some, theirs, strict=True)):
            before, where = originals.get(key, (BEGINNING - within - 1, 0))
            if time - before > within:
                originals[key] = time, place
                wanted.append(place)
            elif before == time:
                ties.append((place, where))
        assert found.kept.tolist() == wanted
        assert list(zip(found.tied.tolist(), found.firsts.tolist(), strict=True)) == ties
        row, kept = row + len(some), kept + len(wanted)
        known.check()
        known.forget_before(max(some[-1] - within, BEGINNING))
        if restored:
            state = known.snapshot()
            assert state.next == number + kept
            known = KnownKeys(within, state, few)


@given(rows=_ROWS, within=st.integers(0, 9), size=st.integers(1, 30), buckets=st.integers(1, 3))
def test_keys_whose_hashes_are_the_same_are_kept_apart(
    rows: list[tuple[int, Key]], within: int, size: int, buckets: int
) -> None:
    """By their words, however many of them belong at one place."""
    times, keys = _at([gap for gap, _ in rows], 0), [key for _, key in rows]
    known, alike, row = KnownKeys(within, None, FEW), KnownKeys(within, None, FEW), 0
    for some, theirs in _batches(times, keys, size):
        words = _words(theirs)
        hashes = (words.hashes % buckets) * (2**63 // 4)
        found = known.find_firsts(np.array(some), words, row).kept.tolist()
        assert alike.find_firsts(np.array(some), words._replace(hashes=hashes), row).kept.tolist() == found
        alike.check()
        row += len(some)


@pytest.mark.parametrize("few", [1, FEW])
def test_memory_follows_what_still_counts(few: int) -> None:
    """The ring grows with what is remembered, stays as it is while keys come and go, and becomes smaller again."""
    known, row = KnownKeys(100, None, few), 0
    rooms: list[tuple[int, int]] = []
    for each in (1, 20, 20, 1, 1):  # keys for each time
        for first in range(0, 2_000, 50):
            times = np.repeat(np.arange(first, first + 50), each) + 10_000 * len(rooms)
            known.find_firsts(times, _words([(number, few, 3) for number in range(row, row + len(times))]), row)
            row += len(times)
            known.forget_before(int(times[-1]) - 100)
        rooms.append((len(known._by_line), len(known._held)))
        known.check()
    assert rooms[1][0] == rooms[2][0] <= 8 * 100 * 20
    assert rooms[4][0] <= 16 * 100
    assert rooms[2][1] <= (0 if few > 1 else 3 * 8 * 100 * 20)


def _numbered(keys: range) -> Words:
    return Words.of(np.arange(len(keys) + 1), np.array(keys))


@pytest.mark.parametrize("more", [254, 255, 256, 257])
@pytest.mark.parametrize("keep", ["first", "last"])
def test_no_original_takes_the_line_of_one_that_still_counts(keep: str, more: int) -> None:
    """The first of all comes again when there is one more than there was room for at first."""
    known = KnownKeys(within=10)
    found = known.find_firsts if keep == "first" else known.find_lasts
    found(np.array([0]), _numbered(range(1)), 0)
    found(np.full(more, 1), _numbered(range(1, 1 + more)), 1)
    known.check()
    again = _numbered(range(1))
    if keep == "first":
        assert len(known.find_firsts(np.array([2]), again, 1 + more).kept) == 0
    else:
        assert known.find_lasts(np.array([2]), again, 1 + more).replaced.tolist() == [0]
