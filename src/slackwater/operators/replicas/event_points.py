"""Rows of replicas that a column distinguishes, as points that a merge compares, and back.

A merge compares all columns but the name of the replica. The end of an event is one of them: there it is part of what
is compared, and not a time to wait for.

Cost: payload columns are not copied; ends are, where events have one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from slackwater.events.batch import EventBatch
from slackwater.events.gather import no_columns
from slackwater.operators.replicas.diverted_rows import REASON, left_out_schema

if TYPE_CHECKING:
    from slackwater.events.schema import EventSchema


class EventPoints:
    """Turns events of one schema into points without the name of their replica, and back.

    >>> from slackwater.events.schema import EventSchema
    >>> schema = EventSchema.of(pa.schema({"at": pa.int64(), "who": pa.string(), "x": pa.int64()}), time="at")
    >>> points = EventPoints(schema, "who", "merge_replicas", diverts=False)
    >>> events = EventBatch.inserts(pa.record_batch({"who": ["blue"], "x": [7]}), start=[3])
    >>> points.of(events).payload.to_pydict()
    {'x': [7]}
    """

    __slots__ = ("_by", "_left_out", "_schema", "payload")

    def __init__(self, schema: EventSchema, by: str, step: str, *, diverts: bool) -> None:
        self._schema = schema
        self._by = by
        fields = [field for field in schema.payload if field.name != by]
        fields += [] if schema.until is None else [pa.field(schema.until.name, pa.int64())]
        self.payload = pa.schema(fields)
        self._left_out = left_out_schema(schema, step, by_column=True).payload if diverts else None

    def of(self, batch: EventBatch) -> EventBatch:
        """Events as points."""
        columns = [batch.payload.column(name) for name in self.payload.names if name in self._schema.payload.names]
        if self._schema.until is not None:
            data = batch.is_data()
            columns.append(pa.array(batch.ends() if data is None else batch.ends()[data]))
        if not columns:
            return EventBatch(no_columns(batch.rows), batch.start, None, batch.kind)
        return EventBatch(pa.RecordBatch.from_arrays(columns, schema=self.payload), batch.start, None, batch.kind)

    def events(self, points: EventBatch) -> EventBatch:
        """Points as the events that they are, without the name of a replica."""
        if self._schema.until is None:
            return EventBatch(points.payload, points.start, None, points.kind)
        end, data = points.ends().copy(), points.is_data()
        end[slice(None) if data is None else data] = points.payload.column(points.payload.num_columns - 1).to_numpy()
        names = points.payload.schema.names[:-1]
        return EventBatch(
            points.payload.select(names) if names else no_columns(points.rows), points.start, end, points.kind
        )

    def left_out(self, rows: EventBatch, names: pa.Array) -> EventBatch:
        """Rows that a merge left out, with the columns that they came with, and the reason; `names` by port."""
        assert self._left_out is not None
        *columns, ports, reasons = rows.payload.columns  # by place: a column of the user's may have any name
        payload = pa.RecordBatch.from_arrays(columns, schema=self.payload) if columns else no_columns(rows.rows)
        events = self.events(EventBatch(payload, rows.start))
        by_name = dict(zip(events.payload.schema.names, events.payload.columns, strict=True))
        by_name |= {self._by: names.take(ports).cast(self._left_out.field(self._by).type), REASON.name: reasons}
        payload = pa.RecordBatch.from_arrays([by_name[one] for one in self._left_out.names], schema=self._left_out)
        return EventBatch(payload, events.start, events.end)
