"""Keeps the rows that satisfy a predicate; punctuations pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.columns.expressions import Computation, compute_mask
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.interest import InterestedOperator
from slackwater.operators.operator import StatelessOperator

if TYPE_CHECKING:
    from slackwater.events.batch import EventBatch, Mask
    from slackwater.events.schema import EventSchema
    from slackwater.progress.frontier import Port


class WhereOperator(InterestedOperator[None], StatelessOperator):
    """Drops rows; needs no order and keeps the one there is. Cost: one evaluation of the rows of interest per batch."""

    __slots__ = ("_predicate", "_schema", "_step")

    def __init__(self, schema: EventSchema, predicate: Computation, step: str = "where") -> None:
        super().__init__()
        self._schema = schema
        self._predicate = predicate
        self._step = step

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one port
        """Pass on the rows whose answer is true; null is not true."""
        batch = self._interest.rows_of(batch)
        if not batch.rows:
            return Emission((batch,)) if len(batch) else NOTHING
        return Emission.of(batch.keep_rows(self.kept(batch)))

    def kept(self, rows: EventBatch) -> Mask:
        """Which rows of a batch are kept, of which there is at least one."""
        return compute_mask(self._predicate, self._schema.show(rows), self._step)
