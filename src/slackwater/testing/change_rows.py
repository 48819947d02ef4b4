"""Elements as rows of a table of changes, punctuations included: what a user would hand to sw.changes()."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slackwater.events.elements import Adjust, Insert, Punctuate
from slackwater.progress.instants import FOREVER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slackwater.events.elements import Element
    from slackwater.progress.instants import Instant


def change_schema(payload: pa.Schema) -> pa.Schema:
    """The columns of such a table: change, at, until, until_before, and those of the payload."""
    times = [pa.field(name, pa.int64()) for name in ("at", "until", "until_before")]
    return pa.schema([pa.field("change", pa.string()), *times, *payload])


def change_rows(elements: Iterable[Element], payload: pa.Schema) -> list[dict[str, Any]]:
    """One row for each element, by sequence numbers; ends that are not known are null.

    >>> change_rows([Insert(("a",), 1), Punctuate(1)], pa.schema({"x": pa.string()}))[1]
    {'change': 'punctuate', 'at': 1}
    """
    return [_row(element, payload) for element in elements]


def _row(element: Element, payload: pa.Schema) -> dict[str, Any]:
    match element:
        case Punctuate(complete_before):
            return {"change": "punctuate", "at": complete_before}
        case Insert(values, start, end):
            row = {"change": "insert", "at": start, "until": _end(end)}
        case Adjust(values, start, prior_end, end):
            row = {"change": "adjust", "at": start, "until": _end(end), "until_before": _end(prior_end)}
    assert isinstance(values, tuple), "payloads are rows"
    return {**row, **dict(zip(payload.names, values, strict=True))}


def _end(instant: Instant) -> Instant | None:
    return None if instant == FOREVER else instant


def events_of(rows: list[dict[str, Any]]) -> list[Insert]:
    """The events that rows show, where k and v are their payload; a null end is FOREVER.

    >>> print(*events_of([{"at": 3, "until": None, "k": "a", "v": 1}]))
    insert(('a', 1), 3, forever)
    """
    ends = (FOREVER if row["until"] is None else row["until"] for row in rows)
    return [Insert((row["k"], row["v"]), row["at"], end) for row, end in zip(rows, ends, strict=True)]
