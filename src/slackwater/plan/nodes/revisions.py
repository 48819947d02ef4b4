"""Plan nodes for streams whose events are revised later: row by row without looking at ends, and settle.

An event and its revisions have the same payload and start, and different ends. A step that treats each row by itself
must answer for all of them alike, or a revision would miss the event that it revises; so it is not shown any ends.
Paper: Chandramouli, Maier, Goldstein. Physically Independent Stream Merging. ICDE 2012, section VI-D (Cleanse).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.errors import NeedsOrder, PlanError, message
from slackwater.events.schema import EventSchema
from slackwater.operators.assume_keyed import AssumeKeyedOperator
from slackwater.operators.complete_at_end import CompleteAtEndOperator
from slackwater.operators.emission import LATE
from slackwater.operators.late_changes import LateChangesOperator, late_changes_schema
from slackwater.operators.replicas.settle import SettleOperator
from slackwater.operators.select import SelectOperator
from slackwater.operators.where import WhereOperator
from slackwater.plan.node import SourceNode, walk
from slackwater.plan.nodes.rows import Select, UnaryNode, Where, refuse_untimed
from slackwater.plan.probe import probe_computations
from slackwater.plan.properties import Order, Properties
from slackwater.plan.traits import TieOrder, Traits
from slackwater.policies.late import Late, LateAction, not_a_policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slackwater.operators.emission import OutputName
    from slackwater.operators.operator import Operator
    from slackwater.operators.select import Outputs
    from slackwater.plan.node import Node
    from slackwater.progress.instants import Duration, Instant


@dataclass(frozen=True, eq=False)
class WhereRevised(Where):
    """Keeps the events that satisfy a predicate, with all their revisions."""

    def __post_init__(self) -> None:
        refuse_reading_ends({"keep": self.predicate}, self.schema, self.verb)
        super().__post_init__()

    def reason(self) -> str:
        """It needs no order, and no ends."""
        return "row by row, without looking at ends: an event and its revisions are answered alike"

    def build(self, step: str, resume: None = None) -> Operator[Any]:  # noqa: ARG002 - there is no state
        """Make the operator."""
        return WhereOperator(without_ends(self.input.schema), self.predicate, step)


@dataclass(frozen=True, eq=False)
class SelectRevised(Select):
    """Chooses and computes payload columns, of events and their revisions alike."""

    def __post_init__(self) -> None:
        refuse_reading_ends(self._payload_outputs(), self.input.schema, self.verb)
        super().__post_init__()

    def reason(self) -> str:
        """It needs no order, and no ends."""
        return "row by row, without looking at ends: an event and its revisions are answered alike"

    def build(self, step: str, resume: None = None) -> Operator[Any]:  # noqa: ARG002 - there is no state
        """Make the operator."""
        return SelectOperator(without_ends(self.input.schema), self._payload_outputs(), step, self.schema.payload)


@dataclass(frozen=True, eq=False)
class LateChanges(UnaryNode):
    """Says which changes of a log came behind its own punctuations, and what becomes of them."""

    late: Late
    verb = "late_changes"
    traits = Traits(flushes_at_end=False, keeps_columns=True)

    def __post_init__(self) -> None:
        if not isinstance(self.late, Late):
            raise not_a_policy(self.late)
        if self.late.action is LateAction.ADJUSTED:
            hint = "choose Late.divert(), Late.drop() or Late.raise_error()"
            moved = "late changes cannot be adjusted: that would make another event of theirs"
            raise PlanError(message(moved, {"late": "Late.adjust()"}, hint))
        if not self.input.properties.punctuated:
            hint = "leave late= out, or punctuated=False"
            raise PlanError(message("late= needs punctuations in the change log", {"late": self.late}, hint))
        self.side_outputs()  # made now, so that clashing columns are refused now

    def side_outputs(self) -> Mapping[OutputName, tuple[EventSchema, Properties]]:
        """The late changes, as rows, if they are diverted."""
        if self.late.action is not LateAction.DIVERTED:
            return {}
        facts = Properties(stamps=self.input.properties.stamps)
        return {LATE: (late_changes_schema(self.schema, self.verb), facts)}

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """All changes of an event must be seen together: those of one that came late are late, too."""
        return columns_of_events(self.input)

    def details(self) -> str:
        """What becomes of late changes."""
        return f"late changes {self.late}"

    def reason(self) -> str:
        """Which changes are late."""
        return "a change is late when it concerns time before a punctuation, or an event that came late itself"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        return LateChangesOperator(self.schema, self.late, step, resume)


@dataclass(frozen=True, eq=False)
class AssumeKeyed(UnaryNode):
    """Declares that start and payload are a key; checked as it flows."""

    verb = "assume_keyed"
    traits = Traits(tie_order=TieOrder.KEPT, flushes_at_end=False, keeps_columns=True)

    def __post_init__(self) -> None:
        refuse_untimed(self.verb, self.input)
        facts = self.input.properties
        if facts.insert_only and not facts.progressive and any(map(_is_live, walk(self.input))):
            hint = 'declare it behind the step that says what is complete: sort(patience="5s").assume_keyed()'
            grows = "assume_keyed would have to remember every row of a live stream that has no punctuations"
            raise NeedsOrder(message(grows, {"stream": self.input.line}, hint))

    @property
    def properties(self) -> Properties:
        """With a key, because it is checked."""
        return self.input.properties.replace(keyed=True)

    @property
    def fixed_length(self) -> Duration | None:
        """The input's."""
        return self.input.fixed_length

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """Equal events must be seen together."""
        return columns_of_events(self.input)

    def details(self) -> str:
        """Nothing was chosen."""
        return ""

    def reason(self) -> str:
        """The declaration is enforced."""
        return "declared to have a key; the first event that comes twice is an error"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        facts = self.input.properties
        final, ordered = facts.insert_only, facts.insert_only and facts.ordered
        return AssumeKeyedOperator(self.schema.no_rows, f"step {step!r}", resume, final=final, ordered=ordered)


@dataclass(frozen=True, eq=False)
class CompleteAtEnd(UnaryNode):
    """Takes the end of a stream for a punctuation: it is complete before a time."""

    complete_before: Instant
    verb = "complete_at_end"
    traits = Traits(tie_order=TieOrder.KEPT, flushes_at_end=False, keeps_columns=True)

    @property
    def not_on_spark(self) -> str:
        """Between micro-batches nobody knows that a source has ended."""
        return (
            "a stream of Spark ends when its query does, so that a snapshot would never be taken to be whole; run it "
            "in process, or let one source have the snapshot and what follows"
        )

    @property
    def properties(self) -> Properties:
        """The input's; it says by its end how far it is complete."""
        return self.input.properties.replace(punctuated=True)

    @property
    def partition_keys(self) -> None:
        """Rows pass."""
        return

    def details(self) -> str:
        """The bound."""
        return f"complete before {self.schema.time.show(self.complete_before)}"

    def reason(self) -> str:
        """What it is for."""
        return "a snapshot of what went before: its end means that it is complete up to here"

    def build(self, step: str, resume: Instant | None = None) -> Operator[Any]:  # noqa: ARG002 - it raises nothing
        """Make the operator."""
        return CompleteAtEndOperator(self.schema.no_rows, self.complete_before, resume)


@dataclass(frozen=True, eq=False)
class UntrustedEnd(UnaryNode):
    """Takes the end of a stream for no punctuation: it may have been cut off."""

    verb = "untrusted_end"
    traits = Traits(tie_order=TieOrder.KEPT, flushes_at_end=False, keeps_columns=True)

    @property
    def partition_keys(self) -> None:
        """Rows pass."""
        return

    def details(self) -> str:
        """Nothing was chosen."""
        return ""

    def reason(self) -> str:
        """Why it is here."""
        return "a replica may have been cut off: that it ends does not mean that it is complete"

    def build(self, step: str, resume: Instant | None = None) -> Operator[Any]:  # noqa: ARG002 - it raises nothing
        """Make the operator."""
        return CompleteAtEndOperator(self.schema.no_rows, resume=resume)


def with_untrusted_end(node: Node) -> Node:
    """Let no step take the end of a stream for its completeness; steps that hold no rows never do.

    One that is complete to a lesser time by its end is believed.
    """
    return UntrustedEnd(node) if any(one.traits.flushes_at_end for one in walk(node)) else node


@dataclass(frozen=True, eq=False)
class Settle(UnaryNode):
    """Puts events in order of time and applies their revisions: each is sent once, with its last end."""

    verb = "settle"
    traits = Traits(tie_order=TieOrder.CANONICAL, keeps_columns=True, waits_for_ends=True)

    def __post_init__(self) -> None:
        if not self.input.properties.punctuated and any(map(_is_live, walk(self.input))):
            hint = "let the source say how far it is complete, by rows of kind punctuate"
            raise NeedsOrder(message("settle would never emit a row", {"stream": self.input.line}, hint))

    @property
    def properties(self) -> Properties:
        """In order, and not revised any more; it says how far it has come."""
        return self.input.properties.replace(order=Order.TIES, insert_only=True, punctuated=True)

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """An event and its revisions must be seen together."""
        return columns_of_events(self.input)

    def details(self) -> str:
        """Nothing was chosen."""
        return ""

    def reason(self) -> str:
        """When an event goes out."""
        return "an event goes out when its end cannot change any more, and all that began before it have gone"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        return SettleOperator(self.schema.no_rows, f"step {step!r}", resume)


def columns_of_events(node: Node) -> tuple[str, ...]:
    """The columns that identify events, whatever their ends are."""
    return (node.schema.time.name, *node.schema.payload.names)


def _is_live(node: Node) -> bool:
    return isinstance(node, SourceNode) and node.feed.live


def without_ends(schema: EventSchema) -> EventSchema:
    """The columns of events that revisions do not change."""
    if schema.until is None:
        return schema
    columns = tuple(name for name in schema.columns if name != schema.until.name)
    return EventSchema(schema.payload, schema.time, None, columns)


def refuse_reading_ends(outputs: Outputs, schema: EventSchema, step: str) -> None:
    """Refuse computations that need the column of ends; others that cannot be computed are refused as ever."""
    if schema.until is None:
        return
    try:
        probe_computations(outputs, without_ends(schema), step)
    except PlanError:
        probe_computations(outputs, schema, step)  # what fails with all columns, too, is refused in its own words
        facts = {"column": schema.until.name}
        hint = "settle() the stream first: then ends are final and can be read"
        reads_ends = f"{step} reads the ends of events, which are revised later"
        raise PlanError(message(reads_ends, facts, hint)) from None
