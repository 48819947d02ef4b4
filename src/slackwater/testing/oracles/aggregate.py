"""Aggregation with Python dictionaries and lists: whole groups of plain rows are collected, then summed up.

`aggregate_oracle` groups by interval and keys; `snapshot_oracle` asks, between any two changes of a group, which of
its events are alive.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from slackwater.events.elements import NAN, Insert
from slackwater.policies.aggregates import Aggregate, Function

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from slackwater.events.elements import Row

_LARGEST = 2**63 - 1


def aggregate_oracle(
    events: Iterable[Insert], columns: Sequence[str], keys: Sequence[str], aggregates: Mapping[str, Aggregate]
) -> list[Insert]:
    """Group inserts whose payloads are Rows of the named columns; return keys and answers in output order.

    >>> from slackwater.policies.aggregates import count
    >>> rows = [Insert(("a",), 0, 10), Insert(("b",), 0, 10), Insert(("a",), 0, 10)]
    >>> [str(row) for row in aggregate_oracle(rows, ["k"], ["k"], {"n": count()})]
    ["insert(('a', 2), 0, 10)", "insert(('b', 1), 0, 10)"]
    """
    groups: dict[tuple[int, int, Row], list[dict[str, Any]]] = {}
    for event in events:
        row = dict(zip(columns, _row(event), strict=True))
        key = tuple(row[name] for name in keys)
        groups.setdefault((event.start, event.end, key), []).append(row)
    answers = [
        Insert((*key, *(answer(aggregate, rows) for aggregate in aggregates.values())), start, end)
        for (start, end, key), rows in groups.items()
    ]
    return sorted(answers, key=lambda event: (event.start, event.end))


def snapshot_oracle(
    events: Iterable[Insert], columns: Sequence[str], keys: Sequence[str], aggregates: Mapping[str, Aggregate]
) -> list[Insert]:
    """Sum up the events alive between any two changes of a group. Order within one interval is not specified."""
    places = [list(columns).index(name) for name in keys]
    groups: dict[Row, list[Insert]] = {}
    for event in events:
        if event.start < event.end:
            groups.setdefault(tuple(_row(event)[place] for place in places), []).append(event)
    pieces = []
    for members in groups.values():
        changes = sorted({instant for event in members for instant in (event.start, event.end)})
        for start, end in pairwise(changes):
            alive = [event for event in members if event.start <= start and end <= event.end]
            pieces += [Insert(event.payload, start, end) for event in alive]
    return aggregate_oracle(pieces, columns, keys, aggregates)


def answer(aggregate: Aggregate, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Compute one aggregate of the rows of one group."""
    column = aggregate.column
    present: list[Any] = [row if column is None else row[column] for row in rows]
    present = [value for value in present if value is not None]
    match aggregate.function:
        case Function.COUNT:
            return len(present)
        case Function.COUNT_DISTINCT:
            return len(set(present))
        case Function.TOP_K:
            return tuple(sorted(present, key=_numbers_first, reverse=True)[: aggregate.k])
        case Function.SUM:
            return _sum(present)
        case Function.MEAN:
            return _frozen(float(_thawed(_sum(present))) / len(present)) if present else None
        case Function.MIN | Function.MAX:
            numbers = [value for value in present if value != NAN] or present
            least = aggregate.function == Function.MIN
            return (min if least else max)(numbers, default=None)


def _row(event: Insert) -> Row:
    assert isinstance(event.payload, tuple)
    return event.payload


def _sum(values: Sequence[Any]) -> Any:
    if not values:
        return None
    if any(isinstance(value, float) or value == NAN for value in values):
        return _frozen(math.fsum(_thawed(value) for value in values))
    total = sum(values)
    assert not isinstance(total, int) or -_LARGEST - 1 <= total <= _LARGEST, "the operator would refuse this"
    return total


def _numbers_first(value: Any) -> tuple[bool, Any]:
    """Sort NaN below every number, as max() prefers any number to it."""
    return (False, 0) if value == NAN else (True, value)


def _frozen(value: float) -> Any:
    return NAN if math.isnan(value) else value


def _thawed(value: Any) -> Any:
    return math.nan if value == NAN else value
