"""Late rows as people see them: beside the bound that they missed, or named in an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slackwater.errors import BadTime, LateEvent, SchemaMismatch
from slackwater.events.shown_values import show_row
from slackwater.progress.instants import FOREVER, UNTIMED

if TYPE_CHECKING:
    from slackwater.errors import BadElement
    from slackwater.events.batch import EventBatch, Mask, Times
    from slackwater.events.schema import EventSchema
    from slackwater.progress.instants import Instant


def late_schema(schema: EventSchema, step: str = "punctuate") -> EventSchema:
    """Return the schema of diverted rows: all columns, then the bound that was missed and by how much."""
    return schema_with_bound(schema, step, "late_bound", "late_by")


def schema_with_bound(schema: EventSchema, step: str, bound_name: str, by_name: str) -> EventSchema:
    """Return a schema with two columns more: a bound, and how far away from it a row is."""
    bound = schema.time.renamed(bound_name)
    by_type = pa.duration("us") if schema.calendar else pa.int64()
    added = pa.schema([pa.field(bound.name, bound.type), pa.field(by_name, by_type)])
    for name in added.names:
        if name in schema.columns:
            raise SchemaMismatch.clash(step, name, "leave the column out with select(), or choose another Late policy")
    return schema.with_payload(pa.schema([*schema.payload, *added]), [*schema.columns, *added.names])


class LateRows:
    """What becomes of the late rows of a stream. With `diverts` they get two columns more.

    >>> from slackwater.events.batch import EventBatch
    >>> from slackwater.events.schema import EventSchema
    >>> schema = EventSchema.of(pa.schema({"at": pa.int64(), "x": pa.string()}), time="at")
    >>> late = EventBatch.inserts(pa.record_batch({"x": ["a"]}), start=[3])
    >>> LateRows(schema, "sort#1", diverts=True).diverted(late, np.array([5])).payload.to_pylist()
    [{'x': 'a', 'late_bound': 5, 'late_by': 2}]
    """

    __slots__ = ("_payload", "_schema", "_step")

    def __init__(self, schema: EventSchema, step: str, *, diverts: bool) -> None:
        self._schema = schema
        self._step = step
        self._payload = late_schema(schema, step).payload if diverts else None

    def untimed(self, times: Times) -> Mask | None:
        """Which rows have no time; None if all have one."""
        if not self._schema.time.untimed:
            return None
        untimed = times == UNTIMED
        return untimed if untimed.any() else None

    def diverted(self, late: EventBatch, bounds: Times) -> EventBatch:
        """Add two columns: the bound that was missed, and by how much, as far as int64 goes.

        A row without a time has missed none: both are null.
        """
        assert self._payload is not None
        missed_by = np.minimum(bounds.view(np.uint64) - late.start.view(np.uint64), FOREVER).astype(np.int64)
        untimed = self.untimed(late.start)
        if untimed is not None:
            bounds = np.where(untimed, UNTIMED, bounds)
        added = [
            self._schema.time.renamed("late_bound").write(bounds),
            pa.array(missed_by, mask=untimed).view(self._payload.field("late_by").type),
        ]
        return late.with_payload(pa.RecordBatch.from_arrays([*late.payload.columns, *added], schema=self._payload))

    def refusal(self, event: EventBatch, bound: Instant) -> BadElement:
        """The error for a late row where none may be."""
        row, show = show_row(self._schema.show(event), 0), self._schema.time.show
        if self.untimed(event.start) is not None:
            return BadTime.late(f"step {self._step!r}", row, self._schema.time.name)
        return LateEvent.of(f"step {self._step!r}", row, show(int(event.start[0])), show(bound))
