"""The columns of matched events: when they matched, then everything of the left stream, then the rest of the right one.

Columns to match on appear once. A column of the right stream whose name is taken gets "_right" appended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from slackwater.errors import SchemaMismatch
from slackwater.events.schema import EventSchema, with_names_before

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MATCHED_AT = "matched_at"
"""The name of the column of when two events matched."""

MATCHED_UNTIL = "matched_until"
"""The name of the column of when two events stopped matching."""


def matched_schema(left: EventSchema, right: EventSchema, on: Sequence[str], interval: bool, step: str) -> EventSchema:
    """Return the schema of matched events, or refuse streams that cannot be matched.

    >>> clicks = EventSchema.of(pa.schema({"at": pa.int64(), "user": pa.string()}), time="at")
    >>> matched_schema(clicks, clicks, ["user"], interval=False, step="join").columns
    ('matched_at', 'at', 'user', 'at_right')
    """
    if left.calendar != right.calendar:
        wanted = f"the same kind of time as {left.time.name!r} ({left.time.type})"
        raise SchemaMismatch.wrong_type(step, right.time.name, right.time.type, wanted)
    for name in on:
        _check_key(left, right, name, step)
    time = left.time.renamed(MATCHED_AT)
    until = left.time.renamed(MATCHED_UNTIL) if interval else None
    times = [column.name for column in (time, until) if column is not None]
    kept = with_names_before(left.shown, times, step)
    fields = [*kept, *_right_fields(kept.names, right, on, times)]
    names = [*times, *(field.name for field in fields)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SchemaMismatch.clash(step, twice, "leave one of them out with select() first")
    return EventSchema(pa.schema(fields), time, until, tuple(names))


def kept_of_right(right: EventSchema, on: Sequence[str]) -> list[str]:
    """The columns of the right stream that matched events have, by the names they have there."""
    return [name for name in right.columns if name not in on]


def _right_fields(left: list[str], right: EventSchema, on: Sequence[str], times: list[str]) -> Iterator[pa.Field]:
    taken = {*left, *times}
    for name in kept_of_right(right, on):
        field = right.shown.field(name)
        yield field.with_name(f"{name}_right") if name in taken else field


def _check_key(left: EventSchema, right: EventSchema, name: str, step: str) -> None:
    """Refuse a key column that is missing somewhere, has parts, or has two different types."""
    for schema in (left, right):
        if name not in schema.columns:
            raise SchemaMismatch.missing(step, name, schema.columns)
    kinds = [_value_type(schema.shown.field(name).type) for schema in (left, right)]
    for kind in kinds:
        if pa.types.is_nested(kind):
            raise SchemaMismatch.wrong_type(step, name, kind, "a type without parts", "match on its parts instead")
    if kinds[0] != kinds[1]:
        raise SchemaMismatch.wrong_type(step, name, kinds[1], f"{kinds[0]}, as on the left", "cast one of the columns")


def _value_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values: how they are encoded makes no difference to a key."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind
