"""The plan node that merges replicas of one stream: it chooses LMerge's case by what is known of them.

The less is known, the more must be remembered: nothing but a time for strictly ordered replicas, every event that is
not frozen for replicas that are revised. Replicas that come later than others need a merge that remembers events, too:
what one of them has beyond where it is complete must not keep the others from sending what lies before.
Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, sections IV-D and V-B.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from slackwater.errors import NeedsOrder, PlanError, message
from slackwater.operators.emission import LEFT_OUT
from slackwater.operators.replicas.diverted_rows import left_out_schema
from slackwater.operators.replicas.multiset import MergeMultiset
from slackwater.operators.replicas.ordered_same_ties import MergeOrderedSameTies
from slackwater.operators.replicas.ordered_with_key import MergeOrderedWithKey
from slackwater.operators.replicas.revised_with_key import MergeRevisedWithKey
from slackwater.operators.replicas.strictly_ordered import MergeStrictlyOrdered
from slackwater.plan.node import Node, SourceNode, StepNode, walk
from slackwater.plan.nodes.combining import require_same_columns
from slackwater.plan.nodes.revisions import columns_of_events, with_untrusted_end
from slackwater.plan.nodes.rows import with_wide_dictionaries
from slackwater.plan.properties import Extent, Order, Properties, Stamps
from slackwater.plan.traits import TieOrder, Traits
from slackwater.policies.agreement import Agreement, Emit
from slackwater.policies.left_out_rows import LeftOutRows, require_policy
from slackwater.policies.punctuations import When

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slackwater.events.schema import EventSchema
    from slackwater.operators.emission import OutputName
    from slackwater.operators.replicas.replica_merge import ReplicaMerge
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant


class Case(Enum):
    """What replicas may do, and so what must be remembered of them; by the papers' names."""

    R0 = "strictly ordered: the newest time is all that is remembered"
    R1 = "ordered, ties in the same order everywhere: the rows of the newest time are counted and compared"
    R2 = "ordered, and start and payload are a key: the rows of the newest time are remembered"
    R3 = "disordered or revised, and start and payload are a key: one node for each event that is not frozen"
    R4 = "no key is known, so that equal events count: as many of each as a replica has"


@dataclass(frozen=True)
class Attendance:
    """Which replicas take part from the beginning, and whether that may change while the query runs.

    Replicas are numbered as they were given.
    """

    standby: frozenset[Port] = frozenset()
    """The replicas that nobody reads until they are attached."""

    complete_from: Mapping[Port, Instant] = field(default_factory=dict)
    """From when on replicas are complete, of those that are not complete from the beginning."""

    changes: bool = False
    """Whether replicas may be attached while the query runs; those on standby are there to be."""

    @property
    def fixed(self) -> bool:
        """Whether all replicas take part from the beginning to the end, each for all of the time."""
        return not (self.standby or self.complete_from or self.changes)


@dataclass(frozen=True, eq=False)
class MergeReplicas(StepNode):
    """Emits once what several replicas of one stream have, each in its own way."""

    replicas: tuple[Node, ...]
    agreement: Agreement
    same_tie_order: bool = False
    """Whether the user says that rows of one time come in the same order in every replica."""

    attendance: Attendance = field(default_factory=Attendance)
    given: Mapping[Node, Port] = field(default_factory=dict)
    """The replicas as the user knows them: rewrites put other nodes in the place of these."""

    left_out: LeftOutRows = LeftOutRows.drop()  # noqa: RUF009 - a frozen value
    known: bool = False
    """Whether they are known to be replicas, so that it need not be found out how much they share."""

    verb = "merge_replicas"
    traits = Traits(keeps_columns=True, trusts_idle_sources=False)

    def __post_init__(self) -> None:
        for replica in self.replicas:
            require_same_columns(self.verb, self.replicas[0].schema, replica.schema)
            refuse_clocks(replica)
            if not replica.properties.progressive:
                raise NeedsOrder.at(self.verb, replica.line)
        require_policy(self.left_out)
        self.side_outputs()  # made now, so that clashing columns are refused now
        if self.same_tie_order:
            self._refuse_same_tie_order()
        if len(self.attendance.standby) == len(self.replicas):
            hint = "let one of them take part from the beginning"
            raise PlanError(message("merge_replicas has no active replica: all are on standby", {}, hint))

    def _refuse_same_tie_order(self) -> None:
        """Refuse to believe in the order of ties where there is none, or nobody could make use of it."""
        wrong = next(
            (one for one in self.replicas if not (one.properties.ordered and one.properties.insert_only)), None
        )
        if wrong is not None:
            facts, hint = {"replica": wrong.line}, "sort() or settle() each replica first, or leave same_tie_order out"
            raise PlanError(message("same_tie_order is about replicas that come in order of time", facts, hint))
        if not self.attendance.fixed:
            hint = "leave same_tie_order out: replicas that come later are merged event by event"
            raise PlanError(message("same_tie_order does not work where replicas may be attached", {}, hint))

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The replicas."""
        return self.replicas

    @property
    def comes_and_goes(self) -> bool:
        """Whether replicas may be attached and detached while the query runs."""
        return bool(self.attendance.standby) or self.attendance.changes

    @cached_property
    def case(self) -> Case:
        """The cheapest case that allows what is known of all replicas."""
        facts = [replica.properties for replica in self.replicas]
        strict = all(one.order is Order.STRICT for one in facts)
        if all(one.insert_only and one.ordered for one in facts) and self.attendance.fixed:
            if strict:
                return Case.R0
            if self.same_tie_order or all(map(has_one_tie_order, self.replicas)):
                return Case.R1
            if all(one.keyed for one in facts):
                return Case.R2
        return Case.R3 if all(one.keyed or one.order is Order.STRICT for one in facts) else Case.R4

    @property
    def revises(self) -> bool:
        """Whether events may be revised after they were sent."""
        return self.case in {Case.R3, Case.R4} and self.agreement.emit is not Emit.FROZEN

    @property
    def schema(self) -> EventSchema:
        """The columns of the replicas."""
        return self.replicas[0].schema

    @property
    def properties(self) -> Properties:
        """What holds of all replicas; where events are remembered, they come in no order, and say how far they are."""
        facts = [replica.properties for replica in self.replicas]
        extents = {one.extent for one in facts}
        order = {Case.R0: Order.STRICT, Case.R1: Order.TIES, Case.R2: Order.TIES}.get(self.case, Order.NONE)
        return facts[0].replace(
            order=order,
            extent=extents.pop() if len(extents) == 1 else Extent.INTERVALS,
            punctuated=order is Order.NONE,
            insert_only=not self.revises,
            keyed=all(one.keyed for one in facts),
        )

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """An event of one replica is merged with the same of another."""
        return columns_of_events(self.replicas[0])

    def side_outputs(self) -> Mapping[OutputName, tuple[EventSchema, Properties]]:
        """The rows that are left out, if they are diverted: of a key, or an order, nothing is known."""
        if not self.left_out.diverted:
            return {}
        facts = self.replicas[0].properties
        rows = Properties(order=Order.NONE, stamps=facts.stamps, extent=self.properties.extent)
        return {LEFT_OUT: (left_out_schema(self.schema, self.verb), rows)}

    def details(self) -> str:
        """How many, the case, who does not take part at once, and when events are sent where that is chosen."""
        standby, later = len(self.attendance.standby), len(self.attendance.complete_from)
        parts = [f"of {len(self.replicas)}", f"case {self.case.name}"]
        parts += [f"{standby} on standby"] * bool(standby)
        parts += [f"{later} joining later"] * bool(later)
        parts += [_chosen(self.agreement)] * self.revises
        parts += [f"left-out rows {self.left_out}"] * self.left_out.diverted
        return ", ".join(parts)

    def reason(self) -> str:
        """Why this case, and when events are sent where that is not just when they come, or are frozen."""
        parts = [self.case.value]
        parts += ["replicas come and go"] * (not self.attendance.fixed)
        parts += [str(self.agreement)] * self.revises
        waits = self.case in {Case.R3, Case.R4} and not self.revises and not self._final
        parts += ["an event without an end holds up all behind it; Agreement.half_frozen() does not wait"] * waits
        return "; ".join(parts)

    @property
    def _final(self) -> bool:
        """Whether no replica revises anything, so that an event is final as soon as its start is complete."""
        return all(replica.properties.insert_only for replica in self.replicas)

    def build(self, step: str, resume: Any = None) -> ReplicaMerge[Any]:
        """Make the operator; replicas that come later are left out, or count from a time on."""
        merge = self._built(f"step {step!r}", resume)
        if self.known:
            merge.take_for_replicas()
        if resume is None:
            for port in sorted({*self.attendance.standby, *self.attendance.complete_from}):
                merge.detach(port)
            for port, complete_from in self.attendance.complete_from.items():
                merge.attach(port, complete_from)
        return merge

    def _built(self, where: str, resume: Any) -> ReplicaMerge[Any]:
        replicas, no_rows = len(self.replicas), self.schema.no_rows
        ordered = [port for port, replica in enumerate(self.replicas) if replica.properties.ordered]
        final = self._final
        common = replicas, no_rows, where, resume
        diverts = self.left_out.diverted
        match self.case:
            case Case.R0:
                return MergeStrictlyOrdered(*common, diverts=diverts)
            case Case.R1:
                return MergeOrderedSameTies(*common, diverts=diverts)
            case Case.R2:
                return MergeOrderedWithKey(*common, diverts=diverts)
            case Case.R3:
                return MergeRevisedWithKey(*common, self.agreement, ordered, final=final, diverts=diverts)
            case Case.R4:
                return MergeMultiset(*common, self.agreement, ordered, final=final, diverts=diverts)


def has_one_tie_order(node: Node) -> bool:
    """Whether rows of one time come in an order that follows from what the stream holds: what case R1 needs.

    A grouped aggregate sends its groups as they come, and a union whichever input is first; of rows that are only
    declared to come in order of time, nothing is known. Paper: ICDE 2012, section IV-D, examples 2 to 5.
    """
    if node.properties.order is Order.STRICT or node.traits.tie_order is TieOrder.CANONICAL:
        return True
    return node.traits.tie_order is TieOrder.KEPT and all(map(has_one_tie_order, node.inputs))


def refuse_clocks(replica: Node) -> None:
    """Refuse replicas that have their times, or their punctuations, from a clock."""
    if replica.properties.stamps is not Stamps.EXTERNAL:
        hint = "give every event a time of its own, the same in all replicas: stream(..., time=...)"
        facts = {"replica": replica.line}
        raise PlanError(
            message(
                "merge_replicas needs event times from the source, and these rows are stamped on arrival", facts, hint
            )
        )
    for node in walk(replica):
        if isinstance(node, SourceNode) and node.punctuations.when is not When.NEVER:
            facts = {"source": node.details(), "punctuations": str(node.punctuations)}
            hint = "leave punctuations= out: rows say how far a replica has come"
            dead = "a dead replica would keep advancing by the clock, and make the rows of the others late"
            raise PlanError(message(dead, facts, hint))


def as_replica(node: Node) -> Node:
    """Make a stream fit to be merged: words that others may add to, and an end that is no punctuation."""
    return with_untrusted_end(with_wide_dictionaries(node))


def _chosen(agreement: Agreement) -> str:
    """What was chosen beside the first that comes to mind."""
    plain = Agreement()
    chosen = [f"emit={agreement.emit.name.lower()}"]
    chosen += [f"quorum={agreement.quorum}"] * (agreement.quorum != plain.quorum)
    chosen += [f"revise={agreement.revise.name.lower()}"] * (agreement.revise is not plain.revise)
    chosen += [f"lag={agreement.lag}"] * (agreement.lag != plain.lag)
    return " ".join(chosen)
