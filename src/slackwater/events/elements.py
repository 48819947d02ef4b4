"""Single elements as frozen values: the slow, obvious form that oracles, examples and messages use.

Operators work on EventBatch; one EventBatch stands for a sequence of these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from slackwater.events.batch import EventBatch
from slackwater.events.gather import no_columns
from slackwater.events.kinds import Kind
from slackwater.progress.instants import FOREVER

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from slackwater.progress.instants import Instant


@dataclass(frozen=True, slots=True)
class Insert:
    """Adds an event that lasts for [start, end)."""

    payload: Hashable
    start: Instant
    end: Instant = FOREVER

    def __str__(self) -> str:
        return f"insert({_shown(self.payload)}, {self.start}, {_bound(self.end)})"


@dataclass(frozen=True, slots=True)
class Adjust:
    """Changes the end of an event from prior_end to end; end == start removes the event."""

    payload: Hashable
    start: Instant
    prior_end: Instant
    end: Instant

    def __str__(self) -> str:
        return f"adjust({_shown(self.payload)}, {self.start}, {_bound(self.prior_end)}, {_bound(self.end)})"


@dataclass(frozen=True, slots=True)
class Punctuate:
    """States that no later element concerns time before complete_before."""

    complete_before: Instant

    def __str__(self) -> str:
        return f"punctuate({_bound(self.complete_before)})"


Element: TypeAlias = Insert | Adjust | Punctuate
"""One row of a physical stream."""


Row: TypeAlias = tuple["Hashable", ...]
"""A payload row: the values of its columns in order, nested ones frozen into tuples, NaN replaced by NAN."""


class NotANumber:
    """Stands for a float NaN in a Row, because NaN does not equal itself and equal payloads must."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NaN"


NAN = NotANumber()
"""The one value that stands for NaN."""


def elements_of(batch: EventBatch) -> Iterator[Element]:
    """Spell out a batch, element by element.

    >>> batch = EventBatch.inserts(pa.record_batch({"x": ["a"]}), start=[3])
    >>> [str(element) for element in elements_of(batch)]
    ["insert(('a',), 3, 4)"]
    """
    rows = rows_of(batch.payload)
    times = zip(
        batch.kinds().tolist(),
        batch.start.tolist(),
        batch.ends().tolist(),
        batch.prior_ends().tolist(),
        strict=True,
    )
    for kind, start, end, prior_end in times:
        if kind == Kind.PUNCTUATE:
            yield Punctuate(start)
        elif kind == Kind.INSERT:
            yield Insert(next(rows), start, end)
        else:
            yield Adjust(next(rows), start, prior_end, end)


def rows_of(payload: pa.RecordBatch) -> Iterator[Row]:
    """Spell out the rows of a payload as hashable values."""
    columns = [[_frozen(value) for value in column.to_pylist()] for column in payload.columns]
    return zip(*columns, strict=True) if columns else iter([()] * payload.num_rows)


def batch_of(elements: Iterable[Element], payload: pa.Schema) -> EventBatch:
    """Make a batch of elements whose payloads are Rows of the given schema; the inverse of elements_of."""
    given = list(elements)
    data = [element for element in given if not isinstance(element, Punctuate)]
    columns = [
        pa.array([_thawed(element.payload[i], field.type) for element in data], field.type)  # type: ignore[index]
        for i, field in enumerate(payload)
    ]
    instants = [_instants(element) for element in given]
    kind, start, prior_end, end = np.array(instants or np.empty((0, 4)), dtype=np.int64).T
    return EventBatch(
        pa.RecordBatch.from_arrays(columns, schema=payload) if columns else no_columns(len(data)),
        start.copy(),
        end.copy(),
        kind.astype(np.int8),
        prior_end.copy(),
    )


def _instants(element: Element) -> tuple[Kind, Instant, Instant, Instant]:
    match element:
        case Insert(_, start, end):
            return Kind.INSERT, start, end, end
        case Adjust(_, start, prior_end, end):
            return Kind.ADJUST, start, prior_end, end
        case Punctuate(complete_before):
            return Kind.PUNCTUATE, complete_before, complete_before, complete_before


def _frozen(value: Any) -> Hashable:
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, _frozen(item)) for name, item in value.items())
    return NAN if isinstance(value, float) and math.isnan(value) else value


def _thawed(value: Any, kind: pa.DataType) -> Any:
    """Undo _frozen; only the type distinguishes a struct from a list of pairs."""
    if value is None or value is NAN:
        return math.nan if value is NAN else None
    if pa.types.is_struct(kind):
        return {name: _thawed(item, kind.field(name).type) for name, item in value}
    if pa.types.is_map(kind):
        return [(_thawed(key, kind.key_type), _thawed(item, kind.item_type)) for key, item in value]
    return [_thawed(item, kind.value_type) for item in value] if isinstance(value, tuple) else value


def _bound(instant: Instant) -> str:
    return "forever" if instant == FOREVER else str(instant)


def _shown(payload: Hashable) -> str:
    return payload if isinstance(payload, str) else repr(payload)
