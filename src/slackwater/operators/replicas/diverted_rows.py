"""Rows that a merge of replicas leaves out, on their way to an output of their own, if that was asked for.

They are those that `LeftOut` counts as contradicted and as passed over, each once, with the replica they are from and
the reason. A row that was passed over may have been emitted before: nothing is remembered that would show it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from slackwater.errors import SchemaMismatch
from slackwater.events.batch import EventBatch
from slackwater.operators.emission import LEFT_OUT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from slackwater.events.schema import EventSchema
    from slackwater.operators.emission import OutputName
    from slackwater.progress.frontier import Port

PASSED_OVER: Final = "passed over"
REVISION_PASSED_OVER: Final = "revision passed over"
"""It is counted as passed over; the row has the end that the revision gives the event."""

CONTRADICTED: Final = "contradicted"

REASON: Final = pa.field("left_out", pa.string())
_REPLICA: Final = pa.field("replica", pa.int32())


def left_out_schema(schema: EventSchema, step: str, *, by_column: bool = False) -> EventSchema:
    """Return the schema of diverted rows: all columns, the number of the replica if no column has its name, the reason.

    >>> from slackwater.events.schema import EventSchema
    >>> left_out_schema(EventSchema.of(pa.schema({"at": pa.int64(), "x": pa.string()}), time="at"), "merge").columns
    ('at', 'x', 'replica', 'left_out')
    """
    added = [REASON] if by_column else [_REPLICA, REASON]
    for field in added:
        if field.name in schema.columns:
            hint = "rename the column with select() first, or choose LeftOutRows.drop()"
            raise SchemaMismatch.clash(step, field.name, hint)
    columns = [*schema.columns, *(field.name for field in added)]
    return schema.with_payload(pa.schema([*schema.payload, *added]), columns)


class DivertedRows:
    """Collects the rows that one call leaves out; without `wanted` none.

    >>> rows = DivertedRows(wanted=True)
    >>> rows.add(EventBatch.inserts(pa.record_batch({"x": ["a"]}), start=[3]), 1, PASSED_OVER)
    >>> [(name, batch.payload.to_pylist()) for name, batch in rows.taken()]
    [('left out', [{'x': 'a', 'replica': 1, 'left_out': 'passed over'}])]
    >>> rows.taken()
    ()
    """

    __slots__ = ("_batches", "wanted")

    def __init__(self, *, wanted: bool) -> None:
        self.wanted = wanted
        self._batches: list[EventBatch] = []

    def add(self, rows: EventBatch, replicas: Port | NDArray[np.int64], reasons: str | Sequence[str]) -> None:
        """Take rows, all inserts, with a replica and a reason for each or for all."""
        if not self.wanted or not rows.rows:
            return
        replica = pa.array(np.broadcast_to(replicas, rows.rows).astype(np.int32))
        reason = pa.array([reasons] * rows.rows if isinstance(reasons, str) else reasons, REASON.type)
        schema = pa.schema([*rows.payload.schema, _REPLICA, REASON])
        payload = pa.RecordBatch.from_arrays([*rows.payload.columns, replica, reason], schema=schema)
        self._batches.append(EventBatch(payload, rows.start, rows.end))

    def taken(self) -> tuple[tuple[OutputName, EventBatch], ...]:
        """What was collected, for an emission; it is there only once."""
        taken, self._batches = self._batches, []
        return tuple((LEFT_OUT, batch) for batch in taken)
