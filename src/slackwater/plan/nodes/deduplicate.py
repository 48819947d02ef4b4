"""The plan node that keeps one row of each event that arrives several times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.columns.row_codec import RowCodec
from slackwater.errors import BadDuration, NeedsOrder, PlanError, SchemaMismatch, message
from slackwater.operators.deduplicate.deduplicate import DeduplicateOperator
from slackwater.plan.nodes.rows import UnaryNode
from slackwater.plan.properties import Order, Properties
from slackwater.plan.traits import TieOrder, Traits
from slackwater.policies.keep import Keep
from slackwater.progress.instants import FOREVER, format_duration

if TYPE_CHECKING:
    from slackwater.operators.operator import Operator
    from slackwater.progress.instants import Duration, Instant


@dataclass(frozen=True, eq=False)
class Deduplicate(UnaryNode):
    """Keeps one of the rows that agree on the key columns and are close in time."""

    on: tuple[str, ...]
    within: Duration
    keep: Keep
    verb = "deduplicate"
    traits = Traits(tie_order=TieOrder.KEPT, keeps_columns=True, sorts_itself=True)

    def __post_init__(self) -> None:
        self._refuse_columns()
        if not 0 <= self.within <= FOREVER:
            hint = "say how long after its first row an event may arrive again; 0 is at the same time only"
            raise BadDuration(message("deduplicate needs a time that is not negative", {"within": self.within}, hint))
        facts = self.input.properties
        if not facts.insert_only:
            hint = "settle() it first: then each event has one row, with its last end"
            raise PlanError(message("deduplicate takes inserts only, and this stream revises them", {}, hint))
        if not facts.progressive:
            hint = (
                'say how long to wait for late rows: deduplicate(..., patience="5s"), or sort(patience="5s") it first; '
                "declare assume_ordered() if rows do come in order of time"
            )
            needs = "deduplicate needs an ordered or punctuated stream, and this one is neither"
            raise NeedsOrder(message(needs, {"stream": self.input.line}, hint))

    def _refuse_columns(self) -> None:
        schema = self.input.schema
        if not self.on:
            hint = 'name the columns that say which event a row stands for: on="id", or on=["device", "counter"]'
            raise PlanError(message("deduplicate needs key columns", {}, hint))
        times = {column.name for column in schema.time_columns()}
        for place, name in enumerate(self.on):
            if name not in schema.columns:
                raise SchemaMismatch.missing(self.verb, name, schema.columns)
            if name in times:
                hint = "leave it out; rows of one time only are within=0, and a copy is made by select(..., copy=...)"
                raise SchemaMismatch(message("deduplicate cannot use a time column as a key", {"on": name}, hint))
            if name in self.on[:place]:
                raise SchemaMismatch(message("deduplicate names a column twice", {"on": name}, "name it once"))
        # Made now, so that a type is refused now: rows of one key and time are compared by all their columns.
        RowCodec(schema.payload, self.verb)

    @property
    def holds_back(self) -> Duration:
        """How far behind its input the output is complete."""
        return self.within if self.keep is Keep.LAST else 0

    def lets_go(self, newest: Instant) -> Instant:
        """A row that may not be the last of its key waits for those that may follow."""
        return newest + self.holds_back + 1

    @property
    def properties(self) -> Properties:
        """In order of time; no two rows have the same key and time, so start and payload are a key."""
        facts = self.input.properties
        order = Order.STRICT if facts.order is Order.STRICT else Order.TIES
        return facts.replace(order=order, punctuated=True, keyed=True)

    @property
    def fixed_length(self) -> Duration | None:
        """The input's."""
        return self.input.fixed_length

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """Rows of one key may be the same event."""
        return self.on

    def details(self) -> str:
        """Key, time and which row is kept."""
        return f"on {', '.join(self.on)}, within {self._shown_within}, keeps the {self.keep.value}"

    def reason(self) -> str:
        """When rows go out, and what is remembered."""
        if self.keep is Keep.FIRST:
            return f"a row goes when its time is complete; the keys of the last {self._shown_within} are remembered"
        return f"a row goes when no later one can take its place; rows of the last {self._shown_within} are held"

    @property
    def _shown_within(self) -> str:
        return format_duration(self.within) if self.input.schema.calendar else str(self.within)

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        ordered = self.input.properties.ordered
        return DeduplicateOperator(
            self.input.schema, self.on, self.within, self.keep, ordered=ordered, step=step, resume=resume
        )
