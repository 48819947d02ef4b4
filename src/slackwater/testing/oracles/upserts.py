"""Slow, obvious upserts: the updates of each key, laid out in order of time; each value lasts until the next.

Punctuations are left out of account: they state how far the stream is complete, and change nothing in its events.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from slackwater.events.elements import Insert
from slackwater.progress.instants import FOREVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from slackwater.events.elements import Element, Row


def upserts_oracle(updates: Iterable[Element], key: Sequence[int], deleted: int | None = None) -> list[Insert]:
    """The values of all keys. `key` are the places of the key in a row, `deleted` that of the mark of a tombstone.

    >>> rows = [Insert(("a", 1, False), 5), Insert(("a", 2, False), 3), Insert(("a", None, True), 9)]
    >>> [(event.payload, event.start, event.end) for event in upserts_oracle(rows, [0], 2)]
    [(('a', 2), 3, 5), (('a', 1), 5, 9)]
    """
    by_key: dict[tuple[Any, ...], dict[int, list[Row]]] = {}
    for update in updates:
        if isinstance(update, Insert):
            row = update.payload
            assert isinstance(row, tuple)
            of_key = by_key.setdefault(tuple(_comparable(row[place]) for place in key), {})
            of_key.setdefault(update.start, []).append(row)
    values = []
    for times in by_key.values():
        for start, end in pairwise([*sorted(times), FOREVER]):
            kept = [row for row in times[start] if deleted is None or row[deleted] is not True]
            if kept:
                shown = [tuple(value for place, value in enumerate(row) if place != deleted) for row in kept]
                values.append(Insert(max(shown, key=lambda row: tuple(map(_comparable, row))), start, end))
    return sorted(values, key=lambda event: event.start)


def _comparable(value: Any) -> tuple[Any, ...]:
    """Values in their order, then NaN, then null."""
    if value is None:
        return (2,)
    return (1,) if value != value else (0, value)  # noqa: PLR0124 - NaN alone differs from itself
