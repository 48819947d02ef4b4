"""Slow, obvious matching: every event of one stream is held against every event of the other.

Punctuations are left out of account: they state how far the stream is complete, and change nothing in its events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from slackwater.events.elements import Insert
from slackwater.policies.matching import Overlap, Within

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from slackwater.events.elements import Element, Row
    from slackwater.policies.matching import Matching
    from slackwater.progress.instants import Duration, Instant

Key: TypeAlias = "Sequence[tuple[int, int]]"
"""What must be equal: pairs of a place in the left row and a place in the right row."""


def join_oracle(left: Iterable[Element], right: Iterable[Element], key: Key, matching: Matching) -> list[Insert]:
    """All pairs that match, each as one event: the left row, then the right row without its key.

    >>> join_oracle([Insert(("a", 1), 3)], [Insert(("a", 2), 5)], [(0, 0)], Within.of(2))
    [Insert(payload=('a', 1, 2), start=5, end=6)]
    """
    pairs = [(a, b) for a in _inserts(left) for b in _inserts(right) if _same_key(a, b, key)]
    found = []
    for a, b in pairs:
        lifetime = _overlap(a, b) if isinstance(matching, Overlap) else _within(a, b, matching)
        if lifetime is not None:
            found.append(Insert(_row(a, b, key), *lifetime))
    return sorted(found, key=lambda event: event.start)


def followed_by_oracle(first: Iterable[Element], then: Iterable[Element], key: Key, within: Duration) -> list[Insert]:
    """Each event of the first stream with all simultaneous next ones of the other, as `join_oracle` writes pairs."""
    found = []
    followers = _inserts(then)
    for a in _inserts(first):
        later = [b for b in followers if _same_key(a, b, key) and a.start < b.start]
        soonest = min((b.start for b in later), default=None)
        if soonest is not None and soonest - a.start <= within:
            found += [Insert(_row(a, b, key), soonest, soonest + 1) for b in later if b.start == soonest]
    return sorted(found, key=lambda event: event.start)


class Timed(NamedTuple):
    """A row as the kernels see it."""

    start: Instant
    until: Instant
    code: int


def alive_pairs(left: Sequence[Timed], right: Sequence[Timed]) -> list[tuple[int, int]]:
    """What the kernel match_alive finds, as places in left and right, in its order: by the row that comes later."""
    pairs = [
        (i, j)
        for i, a in enumerate(left)
        for j, b in enumerate(right)
        if a.code == b.code and (b.start < a.until if a.start <= b.start else a.start < b.until)
    ]

    def when(pair: tuple[int, int]) -> tuple[Instant, bool, int, int]:
        i, j = pair
        right_comes_later = left[i].start <= right[j].start
        row, partner = (j, i) if right_comes_later else (i, j)
        return max(left[i].start, right[j].start), right_comes_later, row, partner

    return sorted(pairs, key=when)


def next_pairs(first: Sequence[Timed], then: Sequence[Timed]) -> list[tuple[int, int]]:
    """What the kernel match_next finds, as places in first and then, in its order; `until` of then is unused."""
    pairs = []
    for j, b in enumerate(then):
        for i, a in enumerate(first):
            others = [other.start for other in then if other.code == a.code and other.start > a.start]
            if a.code == b.code and others and b.start == min(others) and b.start < a.until:
                pairs.append((i, j))
    return pairs


def _inserts(elements: Iterable[Element]) -> list[Insert]:
    return [element for element in elements if isinstance(element, Insert)]


def _same_key(a: Insert, b: Insert, key: Key) -> bool:
    """Whether all parts of the key are there and equal; elements write NaN as a value that equals itself."""
    left, right = _rows(a, b)
    return all(left[i] is not None and left[i] == right[j] for i, j in key)


def _overlap(a: Insert, b: Insert) -> tuple[Instant, Instant] | None:
    start, end = max(a.start, b.start), min(a.end, b.end)
    return (start, end) if start < end else None


def _within(a: Insert, b: Insert, matching: Within) -> tuple[Instant, Instant] | None:
    later = max(a.start, b.start)
    bound = matching.left_before_right if a.start <= b.start else matching.right_before_left
    return (later, later + 1) if abs(a.start - b.start) <= bound else None


def _row(a: Insert, b: Insert, key: Key) -> Row:
    left, right = _rows(a, b)
    again = {j for _, j in key}
    return (*left, *(value for j, value in enumerate(right) if j not in again))


def _rows(a: Insert, b: Insert) -> tuple[Row, Row]:
    assert isinstance(a.payload, tuple)
    assert isinstance(b.payload, tuple)
    return a.payload, b.payload
