"""The plan node that merges replicas which come in one stream and are distinguished by a column.

Every replica is late by its own rows, as behind a sort with the same patience; see
`operators/replicas/by_column.py` for what becomes of them, and docs/decisions/0019 for why. With bounds each is a
source with a heartbeat of its own, which the step makes itself: see `operators/replicas/by_bounds.py`, and
docs/decisions/0049.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slackwater.errors import PlanError, SchemaMismatch, message
from slackwater.operators.emission import LEFT_OUT
from slackwater.operators.punctuate import DRIVEN_BY_RUNNER
from slackwater.operators.replicas.by_bounds import MergeByBoundsOperator, compared_schema
from slackwater.operators.replicas.by_column import MergeByColumnOperator
from slackwater.operators.replicas.diverted_rows import left_out_schema
from slackwater.operators.replicas.proofs import own_order, with_patience
from slackwater.operators.replicas.replica_names import ReplicaNames
from slackwater.plan.node import SourceNode
from slackwater.plan.nodes.heartbeats import Heartbeats
from slackwater.plan.nodes.ordering import LatenessStep
from slackwater.plan.nodes.replicas import Case, refuse_clocks
from slackwater.plan.nodes.revisions import columns_of_events
from slackwater.plan.nodes.rows import AssignWindow
from slackwater.plan.properties import Order, Properties
from slackwater.plan.traits import Traits
from slackwater.policies.bounds import Bounds
from slackwater.policies.left_out_rows import LeftOutRows, require_policy
from slackwater.progress.instants import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slackwater.events.schema import EventSchema
    from slackwater.operators.emission import OutputName
    from slackwater.plan.node import Node
    from slackwater.policies.bound_rules import Rules
    from slackwater.policies.cadence import Cadence, Every
    from slackwater.policies.lateness import Lateness


@dataclass(frozen=True, eq=False)
class ReplicaHeartbeats(Heartbeats):
    """How heartbeats of replicas are made: a node that is not run, but says all of it.

    The patience is one more rule, of each replica about its own rows.
    """

    verb = "merge_replicas"

    def __post_init__(self) -> None:
        if self.bounds.fleets:
            hint = "leave in_fleets() out"
            raise PlanError(message("a fleet is no replica: each of them is a source of its own", {}, hint))
        if self.bounds.rules(self._units).estimation is not None:
            facts = {"bounds": str(self.bounds)}
            hint = "declare bounds; sw.fit_bounds() finds them in a recorded sample"
            raise PlanError(message("an estimate does not prove that a replica has sent everything", facts, hint))
        super().__post_init__()

    @property
    def silence_holds(self) -> str | None:
        """What happens when all replicas pause, where bounds do not see to it: Theorem 3.3.

        A replica whose later rows are newer than all before is complete with each row, its last one included.
        """
        each_is_complete = all(own_order(self.rules, name).behind < 0 for name in self.rules.classes)
        if each_is_complete or self.rules.timeout_needed() is None:
            return None
        return (
            "when all replicas are silent the last rows are held until a row comes: these bounds do not say when they "
            'are complete. If that matters add an assumption, & Bounds.lull("10m"), or a delay by the clock'
        )

    @cached_property
    def rules(self) -> Rules:
        """The bounds, and the patience."""
        assert self.patience is not None
        shown = format_duration(self.patience) if self.schema.calendar else str(self.patience)
        words = f"patience {shown} behind its own newest row"
        return with_patience(self.bounds.rules(self._units), self.patience, words)


@dataclass(frozen=True, eq=False)
class MergeByColumn(LatenessStep):
    """Emits once what several replicas have whose rows are in one stream; new ones may appear while it runs."""

    by: str
    """The column that says which replica a row is from."""

    left_out: LeftOutRows = LeftOutRows.drop()  # noqa: RUF009 - a frozen value
    beats: ReplicaHeartbeats | None = None
    """What is known of replicas beside their patience, where anything is."""

    verb = "merge_replicas"

    @property
    def traits(self) -> Traits:
        """Without bounds nobody knows what the silence of a replica means."""
        return Traits(trusts_idle_sources=self.beats is not None)

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
        """The input's columns without the one that names replicas, and the one of arrivals that bounds look at."""
        source = compared_schema(self.input.schema, self._arrived)
        payload = pa.schema([field for field in source.payload if field.name != self.by])
        return source.with_payload(payload, [name for name in source.columns if name != self.by])

    @property
    def _arrived(self) -> str | None:
        """The column of arrivals that bounds look at."""
        return None if self.beats is None else self.beats.source.arrived

    @property
    def goes_by_batches(self) -> bool:
        """Whether batches are instants: where the user chose it, and where bounds have no column of arrivals."""
        return super().goes_by_batches if self.beats is None else self.beats.goes_by_batches

    @property
    def not_on_spark(self) -> str | None:
        """With a column of arrivals, shards do not know which replicas appeared in which tick."""
        if self._arrived is None:
            return None
        return "bounds of replicas go by the clock of micro-batches there: leave arrived= out"

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
    def heartbeats(self) -> ReplicaHeartbeats | None:
        """Those of replicas, where there are bounds."""
        return self.beats

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """What the replicas of an event have in common: the column that names them is not in it."""
        return columns_of_events(self)

    def side_outputs(self) -> Mapping[OutputName, tuple[EventSchema, Properties]]:
        """Late rows and rows that are left out, those that are diverted, with the columns that they came with."""
        outputs = dict(super().side_outputs())
        if self.left_out.diverted:
            facts = self.input.properties.replace(punctuated=False, untimed=False, order=Order.NONE, keyed=False)
            compared = compared_schema(self.input.schema, self._arrived)
            outputs[LEFT_OUT] = left_out_schema(compared, self.verb, by_column=True), facts
        return outputs

    def details(self) -> str:
        """The column, the case, and how long rows are waited for."""
        left_out = f", left-out rows {self.left_out}" if self.left_out.diverted else ""
        how = super().details() if self.beats is None else self._with_bounds(self.beats)
        return f"by {self.by}, case {self.case.name}, {how}{left_out}"

    def _with_bounds(self, beats: ReplicaHeartbeats) -> str:
        (patience,) = self.patiences
        shown = format_duration(patience) if self.schema.calendar else str(patience)
        return f"patience={shown}, {beats.details()}, late rows {self.late}"

    def reason(self) -> str:
        """Why this case, and how replicas stand to each other."""
        leads = "each replica is late by its own rows, and whoever is furthest leads"
        proven = "" if self.beats is None else "; what bounds prove that nobody can send any more is not waited for"
        return f"{self.case.value}; {leads}{proven}"

    def build(self, step: str, resume: Any = None) -> MergeByColumnOperator:
        """Make the operator."""
        if self.beats is not None:
            return self._build_by_bounds(self.beats, step, resume)
        return self.build_with(self.cadence.resolved(calendar=self.schema.calendar), step, resume)

    def build_driven(self, step: str, resume: Any = None) -> MergeByColumnOperator:
        """Make the operator that punctuates when the runner says so."""
        if self.beats is not None:
            return self._build_by_bounds(self.beats, step, resume)
        return self.build_with(DRIVEN_BY_RUNNER, step, resume)

    def _build_by_bounds(self, beats: ReplicaHeartbeats, step: str, resume: Any) -> MergeByBoundsOperator:
        return MergeByBoundsOperator(
            self.input.schema,
            self.by,
            self.patiences[0],
            self.late,
            beats.settings,
            keyed=self.case is Case.R3,
            diverts=self.left_out.diverted,
            step=step,
            resume=resume,
        )

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


def merge_by_bounds(
    node: Node, lateness: Lateness, by: str, left_out: LeftOutRows, bounds: Bounds, every: Every | None, read: Node
) -> MergeByColumn:
    """Plan a merge whose replicas are sources with bounds; `read` is the stream as it was written.

    Steps before it must let heartbeats be made of what they give: all rows, at their times, whose they are.
    """
    if not isinstance(bounds, Bounds):
        hint = 'write sw.Bounds.disorder("1s"), for example'
        raise PlanError(message("bounds= takes Bounds", {"got": repr(bounds)}, hint))
    plain = MergeByColumn(node, lateness, by, left_out)  # which refuses a column that cannot name replicas
    source = _source_of(read, by)
    if source.origin not in {None, by}:
        facts, hint = {"origin": source.origin, "by": by}, f'leave origin= out, or write origin="{by}"'
        raise PlanError(message("each replica is a source here, and origin= names others", facts, hint))
    (patience,) = lateness.patiences
    beats = ReplicaHeartbeats(replace(source, origin=by), bounds, patience, every, late=lateness.late)
    return replace(plain, beats=beats)


def _source_of(node: Node, by: str) -> SourceNode:
    """The source of a stream, behind steps that keep all rows, their times, the replica of each, and its arrival."""
    steps: list[Node] = []
    while not isinstance(node, SourceNode):
        if not node.traits.row_by_row:
            facts, hint = {"stream": node.line}, "leave bounds= out, or merge replicas straight behind their source"
            raise PlanError(message("bounds are for streams that come straight from a source", facts, hint))
        if not node.traits.keeps_rows:
            facts, hint = {"step": node.line}, "have it behind merge_replicas(), where it is done before the sort"
            rule = "a row that this step leaves out has arrived all the same, and bounds go by all rows of a replica"
            raise PlanError(message(rule, facts, hint))
        steps.append(node)
        (node,) = node.inputs
    for step in steps:
        for column in (by, node.arrived):
            if column is not None and step.column_inputs(column) != [(step.inputs[0], column)]:
                facts, hint = {"column": column, "step": step.line}, "keep the column as it came: select() it, too"
                raise PlanError(message("bounds of replicas look at a column that a step changes", facts, hint))
    return node


def _refuse_windows(node: Node) -> None:
    """Refuse windows: patience is meant for the times that events came with."""
    at = node
    while at.traits.row_by_row:
        if isinstance(at, AssignWindow):
            facts, hint = {"stream": at.line}, "merge_replicas(by=..., patience=...) first, then assign windows"
            raise PlanError(message("merge_replicas(by=...) must come before windows are assigned", facts, hint))
        (at,) = at.inputs
