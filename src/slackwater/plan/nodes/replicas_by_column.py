"""The plan node that merges replicas which come in one stream and are distinguished by a column.

Every replica is late by its own rows, as behind a sort with the same patience; see
`operators/replicas/by_column.py` for what becomes of them, and docs/decisions/0019 for why.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slackwater.errors import PlanError, SchemaMismatch, message
from slackwater.operators.emission import LEFT_OUT
from slackwater.operators.punctuate import DRIVEN_BY_RUNNER
from slackwater.operators.replicas.by_column import MergeByColumnOperator
from slackwater.operators.replicas.diverted_rows import left_out_schema
from slackwater.operators.replicas.replica_names import ReplicaNames
from slackwater.plan.nodes.ordering import LatenessStep
from slackwater.plan.nodes.replicas import Case, refuse_clocks
from slackwater.plan.nodes.revisions import columns_of_events
from slackwater.plan.nodes.rows import AssignWindow
from slackwater.plan.properties import Order, Properties
from slackwater.plan.traits import Traits
from slackwater.policies.left_out_rows import LeftOutRows, require_policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slackwater.events.schema import EventSchema
    from slackwater.operators.emission import OutputName
    from slackwater.plan.node import Node
    from slackwater.policies.cadence import Cadence


@dataclass(frozen=True, eq=False)
class MergeByColumn(LatenessStep):
    """Emits once what several replicas have whose rows are in one stream; new ones may appear while it runs."""

    by: str
    """The column that says which replica a row is from."""

    left_out: LeftOutRows = LeftOutRows.drop()  # noqa: RUF009 - a frozen value
    verb = "merge_replicas"
    traits = Traits(trusts_idle_sources=False)

    def __post_init__(self) -> None:
        self._refuse_column()
        refuse_clocks(self.input)
        _refuse_windows(self.input)
        require_policy(self.left_out)
        super().__post_init__()

    def _refuse_column(self) -> None:
        schema = self.input.schema
        if self.by not in schema.columns:
            raise SchemaMismatch.missing(self.verb, self.by, schema.columns)
        if self.by in {column.name for column in schema.time_columns()}:
            facts = {"by": self.by}
            hint = "name the column that says which replica a row is from"
            raise SchemaMismatch(message("merge_replicas cannot use a time column to name replicas", facts, hint))
        ReplicaNames(schema, self.by, self.verb)  # made now, so that a type that cannot be used is refused now

    @cached_property
    def schema(self) -> EventSchema:
        """The input's columns without the one that names replicas."""
        source = self.input.schema
        payload = pa.schema([field for field in source.payload if field.name != self.by])
        return source.with_payload(payload, [name for name in source.columns if name != self.by])

    @property
    def case(self) -> Case:
        """The case of LMerge: within a replica its name is always the same, so that a key is one without it, too."""
        return Case.R3 if super().properties.keyed else Case.R4

    @property
    def properties(self) -> Properties:
        """Events come when they are complete, in no order; punctuations follow how far they are."""
        return super().properties.replace(order=Order.NONE)

    @property
    def replica_column(self) -> str:
        """The one that was named."""
        return self.by

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """What the replicas of an event have in common: the column that names them is not in it."""
        return columns_of_events(self)

    def side_outputs(self) -> Mapping[OutputName, tuple[EventSchema, Properties]]:
        """Late rows and rows that are left out, those that are diverted, with the columns that they came with."""
        outputs = dict(super().side_outputs())
        if self.left_out.diverted:
            facts = self.input.properties.replace(punctuated=False, untimed=False, order=Order.NONE, keyed=False)
            outputs[LEFT_OUT] = left_out_schema(self.input.schema, self.verb, by_column=True), facts
        return outputs

    def details(self) -> str:
        """The column, the case, and how long rows are waited for."""
        left_out = f", left-out rows {self.left_out}" if self.left_out.diverted else ""
        return f"by {self.by}, case {self.case.name}, {super().details()}{left_out}"

    def reason(self) -> str:
        """Why this case, and how replicas stand to each other."""
        return f"{self.case.value}; each replica is late by its own rows, and whoever is furthest leads"

    def build(self, step: str, resume: Any = None) -> MergeByColumnOperator:
        """Make the operator."""
        return self.build_with(self.cadence.resolved(calendar=self.schema.calendar), step, resume)

    def build_driven(self, step: str, resume: Any = None) -> MergeByColumnOperator:
        """Make the operator that punctuates when the runner says so."""
        return self.build_with(DRIVEN_BY_RUNNER, step, resume)

    def build_with(self, cadence: Cadence, step: str, resume: Any = None) -> MergeByColumnOperator:
        """Make the operator with another cadence than the one that was written."""
        (patience,) = self.patiences
        return MergeByColumnOperator(
            self.input.schema,
            self.by,
            patience,
            cadence,
            self.late,
            keyed=self.case is Case.R3,
            diverts=self.left_out.diverted,
            step=step,
            resume=resume,
        )


def _refuse_windows(node: Node) -> None:
    """Refuse windows: patience is meant for the times that events came with."""
    at = node
    while at.traits.row_by_row:
        if isinstance(at, AssignWindow):
            facts, hint = {"stream": at.line}, "merge_replicas(by=..., patience=...) first, then assign windows"
            raise PlanError(message("merge_replicas(by=...) must come before windows are assigned", facts, hint))
        (at,) = at.inputs
