"""Plan nodes that treat the events of a window together: ready aggregates, and functions of a user's own.

An aggregate is exact on overlapping lifetimes because a step before it cuts them into pieces; a function is not handed
pieces, but events that share an interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slackwater.columns.expression_text import describe
from slackwater.errors import NeedsOrder, PlanError, SchemaMismatch, message
from slackwater.events.schema import EventSchema
from slackwater.operators.aggregate.aggregate import AggregateOperator, aggregate_schema
from slackwater.operators.aggregate.cut_at_changes import CutAtChangesOperator
from slackwater.operators.aggregate.map_windows import MapWindowsOperator, WindowFunction, mapped_schema
from slackwater.operators.aggregate.top_rows import TopRows, can_be_ranked
from slackwater.plan.node import walk
from slackwater.plan.nodes.combining import Union, require_order
from slackwater.plan.nodes.rows import UnaryNode
from slackwater.plan.probe import probe_window_function
from slackwater.plan.properties import Extent, Order, Properties
from slackwater.plan.traits import PunctuationUse, TieOrder, Traits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slackwater.operators.aggregate.panes import Panes
    from slackwater.operators.operator import Operator
    from slackwater.plan.node import Names, Node
    from slackwater.policies.aggregates import Aggregate
    from slackwater.progress.instants import Duration


@dataclass(frozen=True, eq=False)
class CutAtChanges(UnaryNode):
    """Cuts events where the set of living events of their group changes."""

    keys: tuple[str, ...]
    verb = "cut_at_changes"
    traits = Traits(waits_for_ends=True)

    def __post_init__(self) -> None:
        require_order(self.verb, self.input)

    @cached_property
    def schema(self) -> EventSchema:
        """The input's; a piece may start where another event ends, so both time columns take the finer type."""
        source = self.input.schema
        if source.until is None or source.until.type == source.time.type:
            return source
        time, until = (column.renamed(column.name) for column in (source.time, source.until))
        return EventSchema(source.payload, time, until, source.columns)

    @property
    def properties(self) -> Properties:
        """Pieces come as they become final; punctuations say how far."""
        return self.input.properties.replace(extent=Extent.WINDOWS, order=Order.NONE, punctuated=True)

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """Events of one group are cut together."""
        return self.keys

    def column_inputs(self, column: str) -> list[tuple[Node, str]]:
        """The keys are kept."""
        return [(self.input, column)] if column in self.keys else []

    def details(self) -> str:
        """The group."""
        return f"per {', '.join(self.keys)}" if self.keys else ""

    def reason(self) -> str:
        """Why it is here."""
        return "lifetimes overlap: each piece between two changes is summed up by itself"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        return CutAtChangesOperator(self.schema, self.keys, step=step, resume=resume)


@dataclass(frozen=True, eq=False)
class GroupingNode(UnaryNode):
    """A step that sums up the events that share an interval and the key columns."""

    keys: tuple[str, ...]
    aggregates: Mapping[str, Aggregate]

    def __post_init__(self) -> None:
        _require_progress(self.verb, self.input)
        _ = self.schema

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """Events of one group are summed up together."""
        return self.keys

    def column_inputs(self, column: str) -> list[tuple[Node, str]]:
        """The keys are kept."""
        return [(self.input, column)] if column in self.keys else []

    def columns_read(self, wanted: Names, source: Node) -> Names:  # noqa: ARG002 - all answers are computed
        """The keys, and what is summed up."""
        return columns_summed_up(self.keys, self.aggregates)

    def details(self) -> str:
        """The aggregates and the keys."""
        return summed_up_in_words(self.aggregates, self.keys)


@dataclass(frozen=True, eq=False)
class AggregateStep(GroupingNode):
    """Sums up groups and sends each once, when it is complete."""

    sort_left_out: bool = False
    """Whether a sort was written before it that the plan does without."""

    panes: Panes | None = None
    """The panes that events are given instead of windows that overlap, which are made of them."""

    verb = "aggregate"
    traits = Traits(punctuations=PunctuationUse.LAST_OF_BATCH, needs_order=False)

    @cached_property
    def schema(self) -> EventSchema:
        """The window, the keys, the aggregates."""
        return aggregate_schema(self.input.schema, self.keys, self.aggregates, "aggregate")

    @property
    def properties(self) -> Properties:
        """Ordered by window; one row per window makes it strict, one per window and key makes that a key."""
        facts = self.input.properties
        # A union may bring windows of several lengths together, which start at the same time.
        one_per_start = not self.keys and not any(isinstance(node, Union) for node in walk(self.input))
        order = Order.STRICT if one_per_start else Order.TIES
        # Pieces of different groups end where they end: to sum them up again is to cut them again.
        extent = Extent.INTERVALS if isinstance(self.input, CutAtChanges) else facts.extent
        return Properties(order=order, stamps=facts.stamps, extent=extent, keyed=True)

    @property
    def fixed_length(self) -> Duration | None:
        """An answer has the window of its events."""
        return self.input.fixed_length if self.panes is None else self.panes.window.size

    def reason(self) -> str:
        """When results go out."""
        when = "a window is sent when its start is complete; partial results are held, not events"
        when = f"{when}; it needs no order, so the sort before it is left out" if self.sort_left_out else when
        return when if self.panes is None else f"{when}; events are summed up by pane, and panes merged to windows"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        ordered = self.input.properties.ordered
        return AggregateOperator(
            self.input.schema,
            self.keys,
            self.aggregates,
            ordered=ordered,
            step=step,
            resume=resume,
            panes=self.panes,
        )


@dataclass(frozen=True, eq=False)
class MapWindows(UnaryNode):
    """Hands the events that share an interval to a user's function, all at once."""

    function: WindowFunction
    answers: pa.Schema | None = None
    """The columns of the answers, if the user named them; otherwise the function is tried."""

    any_order: bool = False
    """Whether the function answers the same, in the same order, in whatever order the rows of a window come."""

    verb = "map_windows"

    @property
    def traits(self) -> Traits:
        """Windows go in order of time; within one, the function decides, if rows in another order change nothing."""
        tie_order = TieOrder.CANONICAL if self.any_order else TieOrder.KEPT
        return Traits(tie_order=tie_order, reads_tie_order=not self.any_order)

    def __post_init__(self) -> None:
        _require_progress(self.verb, self.input)
        if not callable(self.function):
            facts, hint = {"got": repr(self.function)}, "write a function from a pa.RecordBatch to a pa.RecordBatch"
            raise PlanError(message("map_windows takes a function over the rows of a window", facts, hint))
        if not isinstance(self.answers, pa.Schema | None):
            facts, hint = {"got": repr(self.answers)}, "write schema=pa.schema({...})"
            raise SchemaMismatch(message("schema= names the columns of the answers", facts, hint))
        if not isinstance(self.any_order, bool):
            raise PlanError(message("any_order= is True or False", {"got": repr(self.any_order)}))
        _ = self.schema

    @cached_property
    def schema(self) -> EventSchema:
        """The time columns of the window, and what the function answers."""
        answers = self.answers
        if answers is None:
            answers = probe_window_function(self.function, self.input.schema, self.verb, any_order=self.any_order)
        return mapped_schema(self.input.schema, answers, self.verb)

    @property
    def properties(self) -> Properties:
        """Ordered by window; what the function answers for one is known to nobody."""
        facts = self.input.properties
        return Properties(order=Order.TIES, stamps=facts.stamps, extent=facts.extent)

    def details(self) -> str:
        """The function's name."""
        return describe(self.function)

    def reason(self) -> str:
        """When the function is called, and what is held until then."""
        whole = "a window goes to the function whole, when its start is complete; its events are held until then"
        return f"{whole}; in whatever order they come, it answers the same" if self.any_order else whole

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        ordered = self.input.properties.ordered
        return MapWindowsOperator(
            self.input.schema, self.function, self.schema.payload, ordered=ordered, step=step, resume=resume
        )


@dataclass(frozen=True, eq=False)
class TopOfWindows(MapWindows):
    """The greatest rows of each window, in rank order."""

    verb = "top_rows"

    def reason(self) -> str:
        """When rows go out, and in which order."""
        return "a window is ranked when its start is complete; ties by all other columns, so that there is one order"


def top_of_windows(node: Node, k: int, by: str) -> TopOfWindows:
    """Plan the k greatest rows of each window, by a column; refuse what has no order."""
    payload = node.schema.payload
    if not isinstance(k, int) or isinstance(k, bool) or k < 1:
        hint = 'say how many rows of each window to keep: top_rows(3, by="v")'
        raise PlanError(message("top_rows keeps at least one row", {"k": repr(k)}, hint))
    if by not in payload.names:
        raise SchemaMismatch.missing("top_rows", by, tuple(payload.names))
    wrong = next((field for field in payload if not can_be_ranked(field.type)), None)
    if wrong is not None:
        hint = "select() other columns before it: every column may have to decide between two rows"
        raise SchemaMismatch(message("top_rows cannot rank rows by such a column", {wrong.name: str(wrong.type)}, hint))
    return TopOfWindows(node, TopRows(k, by, tuple(payload.names)), payload, any_order=True)


def _require_progress(step: str, node: Node) -> None:
    """Refuse a stream that never says when a time is complete, and one that revises its events."""
    if not node.properties.progressive:
        raise NeedsOrder.at(step, node.line)
    if not node.properties.insert_only:
        raise PlanError(message(f"{step} takes inserts only, and this stream revises them", {"stream": node.line}))


def aggregate(node: Node, keys: tuple[str, ...], aggregates: Mapping[str, Aggregate]) -> AggregateStep:
    """Plan an aggregation: directly over points and windows, over pieces where lifetimes overlap freely."""
    if node.properties.extent is Extent.INTERVALS:
        if not node.properties.ordered:
            raise NeedsOrder.at("aggregate", node.line)
        node = CutAtChanges(node, keys)
    return AggregateStep(node, keys, aggregates)


def columns_summed_up(keys: tuple[str, ...], aggregates: Mapping[str, Aggregate]) -> Names:
    """The columns that aggregates of groups look at."""
    return frozenset([*keys, *(what.column for what in aggregates.values() if what.column is not None)])


def summed_up_in_words(aggregates: Mapping[str, Aggregate], keys: tuple[str, ...]) -> str:
    """What is computed, and of which groups."""
    named = ", ".join(f"{name}={what}" for name, what in aggregates.items())
    return f"{named} by {', '.join(keys)}" if keys else named
