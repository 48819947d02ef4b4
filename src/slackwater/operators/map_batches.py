"""Replaces the columns of many rows at once, by a user's function: one row in, one row out, with the same times.

For computations that are dear, and cheaper for many rows at once than for each by itself: a model, a look-up elsewhere.
The function sees only rows that somebody is interested in; of events that may be revised it does not see the ends, for
what it answers must not change with them.

Cost: one call for each batch that has rows of interest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from slackwater.columns.expressions import compute
from slackwater.errors import SchemaMismatch, message
from slackwater.events.gather import no_rows
from slackwater.events.schema import EventSchema
from slackwater.operators.aggregate.map_windows import answered_rows, in_planned_columns
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.interest import InterestedOperator
from slackwater.operators.operator import StatelessOperator

if TYPE_CHECKING:
    from slackwater.events.batch import EventBatch
    from slackwater.progress.frontier import Port

BatchFunction: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch | pa.Table]
"""What a user may write: from rows to as many rows, each of which depends on its own row alone."""


def answered_schema(schema: EventSchema, answers: pa.Schema, step: str = "map_batches") -> EventSchema:
    """Return the schema of the answers: time columns stay where the function left them, else in front."""
    times = [column.name for column in schema.time_columns()]
    for name in answers.names:
        if answers.names.count(name) > 1:
            raise SchemaMismatch.clash(step, name, "give each column of the answer its own name")
    payload = pa.schema([field for field in answers if field.name not in times])
    if not len(payload):
        facts = {"answered": ", ".join(answers.names) or "nothing"}
        raise SchemaMismatch(
            message(f"{step} needs a function that returns at least one column beside the times", facts)
        )
    return schema.with_payload(payload, [*(name for name in times if name not in answers.names), *answers.names])


def without_ends(schema: EventSchema) -> EventSchema:
    """Return the same columns without those of the ends."""
    if schema.until is None:
        return schema
    return EventSchema(
        schema.payload, schema.time, None, tuple(name for name in schema.columns if name != schema.until.name)
    )


@dataclass(frozen=True)
class RowAnswers:
    """A function over rows as the computation of one column, whose values are rows.

    `times` are the columns that it may leave in its answers, but not change.
    """

    function: BatchFunction
    times: tuple[str, ...]
    planned: pa.Schema | None = None
    """The columns that must be answered, times not counted; None for any."""

    def ask(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return what the function answers; refuse other times, and another number of rows."""
        answer = answered_rows(self.function(rows))
        if answer.num_rows != rows.num_rows:
            raise ValueError(f"the function was given {rows.num_rows} rows and answered {answer.num_rows}")
        for name in self.times:
            column = answer.column(name) if name in answer.schema.names else None
            if column is not None and not (name in rows.schema.names and column.equals(rows.column(name))):
                raise ValueError(f"the function answered other times in column {name!r}; times stay as they are")
        return answer

    def __call__(self, rows: pa.RecordBatch) -> pa.StructArray:
        """Return the answers as one column."""
        answer = self.ask(rows)
        payload = answer.drop_columns([name for name in self.times if name in answer.schema.names])
        if self.planned is not None:
            payload = in_planned_columns(payload, self.planned)
        return pa.StructArray.from_arrays(payload.columns, fields=list(payload.schema))


class MapBatchesOperator(InterestedOperator[None], StatelessOperator):
    """Asks a function for the columns of all rows of a batch. `schema` is what the function sees of its input.

    `answers` are the columns that it must answer, times not counted; columns of another order, or of types that can be
    cast without loss, are brought into theirs.
    """

    __slots__ = ("_answer", "_no_answers", "_schema", "_step")

    def __init__(
        self, schema: EventSchema, function: BatchFunction, answers: pa.Schema, times: tuple[str, ...], step: str
    ) -> None:
        super().__init__()
        self._schema = schema
        self._answer = RowAnswers(function, times, answers)
        self._no_answers = no_rows(answers)
        self._step = step

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one port
        """Pass on the same elements with the columns that the function answers."""
        batch = self._interest.rows_of(batch)
        if not batch.rows:
            return Emission((batch.with_payload(self._no_answers),)) if len(batch) else NOTHING
        answers = compute({"answer": self._answer}, self._schema.show(batch), self._step).column("answer")
        payload = pa.RecordBatch.from_arrays(answers.flatten(), schema=self._no_answers.schema)
        return Emission((batch.with_payload(payload),))
