"""Chooses and computes payload columns; times and punctuations pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from slackwater.columns.expressions import Computation, compute
from slackwater.errors import StepFailed
from slackwater.operators.emission import Emission
from slackwater.operators.interest import InterestedOperator
from slackwater.operators.operator import StatelessOperator

if TYPE_CHECKING:
    from slackwater.events.batch import EventBatch
    from slackwater.events.schema import EventSchema
    from slackwater.progress.frontier import Port

Outputs: TypeAlias = Mapping[str, str | Computation]
"""The columns to make: each is an existing column's name or a computation."""


class SelectOperator(InterestedOperator[None], StatelessOperator):
    """Replaces the payload, row for row. Cost: none for columns taken by name, one evaluation for the others."""

    __slots__ = ("_made", "_outputs", "_schema", "_step")

    def __init__(
        self, schema: EventSchema, outputs: Outputs, step: str = "select", made: pa.Schema | None = None
    ) -> None:
        super().__init__()
        self._schema = schema
        self._outputs = dict(outputs)
        self._made = made
        self._step = step

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one port
        """Pass on the same elements with the chosen columns."""
        batch = self._interest.rows_of(batch)
        if not self._outputs:
            return Emission.of(batch.with_payload(batch.payload.select([])))
        columns = select_columns(self._outputs, self._schema.show(batch), self._step)
        return Emission.of(batch.with_payload(self._in_planned_types(columns)))

    def _in_planned_types(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        """A function may answer nulls for one batch and numbers for the next; the stream has one type."""
        if self._made is None or columns.schema == self._made:
            return columns
        try:
            return columns.cast(self._made)
        except pa.ArrowException as cause:
            raise StepFailed.at(self._step, None, None, cause) from cause


def select_columns(outputs: Outputs, rows: pa.RecordBatch, step: str) -> pa.RecordBatch:
    """Make the chosen columns of some rows. The plan calls it on no rows, to learn the types."""
    computed = {name: what for name, what in outputs.items() if not isinstance(what, str)}
    made = compute(computed, rows, step) if computed else None
    columns, fields = [], []
    for name, what in outputs.items():
        source = rows if isinstance(what, str) else made
        column = source.column(what if isinstance(what, str) else name)  # type: ignore[union-attr]
        field = rows.schema.field(what).with_name(name) if isinstance(what, str) else pa.field(name, column.type)
        columns.append(column)
        fields.append(field)
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
