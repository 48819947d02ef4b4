"""Slow, obvious deduplication: the rows of each key, laid out in order of time, and cut into events by counting.

Punctuations are left out of account: they state how far the stream is complete, and change nothing in its events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slackwater.events.elements import Insert
from slackwater.policies.keep import Keep

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from slackwater.events.elements import Element
    from slackwater.progress.instants import Duration


def deduplicate_oracle(events: Iterable[Element], on: Sequence[int], within: Duration, keep: Keep) -> list[Insert]:
    """One of the rows of each event; `on` are the places of the key in a row.

    >>> rows = [Insert(("a", 1), 0), Insert(("a", 2), 3), Insert(("a", 3), 4)]
    >>> [event.payload for event in deduplicate_oracle(rows, [0], 3, Keep.FIRST)]
    [('a', 1), ('a', 3)]
    >>> [event.payload for event in deduplicate_oracle(rows, [0], 3, Keep.LAST)]
    [('a', 2), ('a', 3)]
    """
    by_key: dict[tuple[Any, ...], list[Insert]] = {}
    for event in events:
        if isinstance(event, Insert):
            by_key.setdefault(tuple(_comparable(_row(event)[place]) for place in on), []).append(event)
    kept: list[Insert] = []
    for rows in by_key.values():
        events_of_key = _events(sorted(rows, key=_in_order), within)
        kept += [same[0] if keep is Keep.FIRST else same[-1] for same in events_of_key]
    return sorted(kept, key=lambda event: event.start)


def _events(rows: Sequence[Insert], within: Duration) -> list[list[Insert]]:
    """The rows of one key, in order, cut into those of one event."""
    cut: list[list[Insert]] = []
    for row in rows:
        if cut and row.start - cut[-1][0].start <= within:
            cut[-1].append(row)
        else:
            cut.append([row])
    return cut


def _row(event: Insert) -> tuple[Any, ...]:
    assert isinstance(event.payload, tuple)
    return event.payload


def _in_order(event: Insert) -> tuple[Any, ...]:
    """By time, then by end, then by all columns; those of the key are the same."""
    return (event.start, event.end, *map(_comparable, _row(event)))


def _comparable(value: Any) -> tuple[Any, ...]:
    """Values in their order, then NaN, then null."""
    if value is None:
        return (2,)
    return (1,) if value != value else (0, value)  # noqa: PLR0124 - NaN alone differs from itself
