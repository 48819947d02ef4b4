"""Plan nodes that bring order into a stream: punctuate says what is complete and which rows are late, sort obeys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.errors import BadDuration, NeedsOrder, PlanError, message
from slackwater.operators.emission import LATE, band_of, band_output
from slackwater.operators.late_rows import late_schema
from slackwater.operators.punctuate import DRIVEN_BY_RUNNER, PunctuateOperator
from slackwater.operators.sort import SortOperator
from slackwater.plan.node import SourceNode, walk
from slackwater.plan.nodes.rows import UnaryNode, refuse_untimed
from slackwater.plan.properties import Extent, Order, Properties
from slackwater.plan.traits import PunctuationUse, TieOrder, Traits
from slackwater.policies.cadence import CadenceUnit
from slackwater.policies.late import LateAction
from slackwater.progress.instants import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slackwater.events.schema import EventSchema, TimeColumn
    from slackwater.operators.emission import OutputName
    from slackwater.operators.operator import Operator
    from slackwater.plan.node import Names, Node
    from slackwater.plan.nodes.heartbeats import Heartbeats
    from slackwater.policies.cadence import Cadence, Every
    from slackwater.policies.late import Late
    from slackwater.policies.lateness import Lateness
    from slackwater.policies.windows import Tumbling
    from slackwater.progress.instants import Duration, Instant


@dataclass(frozen=True, eq=False)
class LatenessStep(UnaryNode):
    """A step that punctuates, a patience behind the newest time, and so decides which rows are late."""

    lateness: Lateness

    def __post_init__(self) -> None:
        facts = self.input.properties
        if facts.latent:
            hint = "give the events times first"
            raise PlanError(message(f"{self.verb} needs times, and these events have none", {}, hint))
        if not facts.insert_only:
            hint = "apply the revisions first"
            raise PlanError(message("a patience cannot follow a stream whose events are revised", {}, hint))
        self.lateness.require_valid(self.verb, calendar=self.schema.calendar)
        if self.late.action is LateAction.ADJUSTED:
            _refuse_unless_whole(self.patiences, self.schema.time)
        self.side_outputs()  # made now, so that clashing columns are refused now

    @property
    def patiences(self) -> tuple[Duration, ...]:
        """How long rows are waited for, for each band."""
        return self.lateness.patiences

    @property
    def cadence(self) -> Every:
        """How often it is applied."""
        return self.lateness.cadence

    @property
    def late(self) -> Late:
        """What becomes of late rows."""
        return self.lateness.late

    @property
    def properties(self) -> Properties:
        """The input's, and punctuated. Moving late rows may make two events one, and leave a part of a window.

        All rows have a time: those that have none are late.
        """
        facts = self.input.properties.replace(punctuated=True, untimed=False)
        if self.late.action is not LateAction.ADJUSTED:
            return facts
        order = Order.TIES if facts.ordered else Order.NONE
        extent = facts.extent if facts.extent is Extent.POINTS else Extent.INTERVALS
        return facts.replace(keyed=False, order=order, extent=extent)

    @property
    def goes_by_batches(self) -> bool:
        """Whether the user chose batches as instants."""
        return self.cadence.unit is CadenceUnit.BATCH

    @property
    def replica_column(self) -> str | None:
        """The column that distinguishes replicas, each of which is late by its own rows, where there is one."""
        return None

    @property
    def heartbeats(self) -> Heartbeats | None:
        """The heartbeats that the step makes itself, where it does."""
        return None

    @property
    def fixed_length(self) -> Duration | None:
        """The input's, unless late rows are moved, which leaves a part of their window."""
        return None if self.late.action is LateAction.ADJUSTED else self.input.fixed_length

    def longest_wait(self, output: OutputName | None = None) -> Duration | None:
        """The patience of the band; where there is none, what was waited for before."""
        return self.patiences[band_of(output)] if self.lateness.has_patience else self.input.longest_wait()

    @property
    def partition_keys(self) -> tuple[str, ...] | None:
        """A row is late or not by itself."""
        return None

    def column_inputs(self, column: str) -> list[tuple[Node, str]]:
        """All columns pass; times do unless late rows are moved."""
        return [] if self.late.action is LateAction.ADJUSTED else [(self.input, column)]

    def side_outputs(self) -> Mapping[OutputName, tuple[EventSchema, Properties]]:
        """The late rows, as they came in, if they are diverted."""
        if self.late.action is not LateAction.DIVERTED:
            return {}
        source = self.input
        return {LATE: (late_schema(source.schema, self.verb), source.properties.replace(punctuated=False))}

    def details(self) -> str:
        """The patiences, how often they are applied, and what becomes of late rows."""
        return self.lateness.shown(calendar=self.schema.calendar)


@dataclass(frozen=True, eq=False)
class Punctuate(LatenessStep):
    """Punctuates, and splits the rows by how late they are.

    Several patiences make as many bands: band 0 is the main output, the others and the late rows are side outputs.
    """

    windows: Tumbling | None = None
    """The windows that rows are given next, or have been given: a row is late when its window is complete."""

    event_count_column: str | None = None
    """The column that says how many events a row stands for, where it does."""

    only_last: bool = False
    """Whether all readers look at the last punctuation of a batch only, so that the others are left out."""

    verb = "punctuate"

    @property
    def traits(self) -> Traits:
        """Rows keep their places, unless late ones are moved: then it depends on what came before them."""
        moved = self.late.action is LateAction.ADJUSTED
        tie_order = TieOrder.ARBITRARY if moved else TieOrder.KEPT
        return Traits(tie_order=tie_order, flushes_at_end=False, copies_rows=True)

    def columns_read(self, wanted: Names, source: Node) -> Names:
        """Those that are wanted; all where late rows are shown to somebody."""
        shown = self.late.action in {LateAction.DIVERTED, LateAction.REFUSED}
        return super().columns_read(wanted, source) if shown else wanted

    def side_outputs(self) -> Mapping[OutputName, tuple[EventSchema, Properties]]:
        """The bands after the first, and the late rows if they are diverted."""
        bands = {band_output(band): (self.schema, self.properties) for band in range(1, len(self.patiences))}
        return {**bands, **super().side_outputs()}

    def lets_go(self, newest: Instant) -> Instant:
        """Where whole windows are complete or not, up to where all of them are."""
        return super().lets_go(newest) if self.windows is None else self.windows.closed_behind(newest)

    def reason(self) -> str:
        """When a time is complete, and where rows go."""
        what = "time" if self.windows is None else "window"
        if not self.lateness.has_patience:
            return f"a {what} is complete when its source is, as heartbeats say"
        complete = f"a {what} is complete when the newest event is a patience past it"
        return complete if len(self.patiences) == 1 else f"{complete}; a row goes to the first band still open for it"

    def details(self) -> str:
        """The patiences, how often they are applied, what becomes of late rows, and whether whole windows count."""
        if self.windows is None:
            return super().details()
        size = format_duration(self.windows.size) if self.schema.calendar else str(self.windows.size)
        return f"{super().details()}, whole windows of {size}"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        cadence = self.cadence.resolved(calendar=self.schema.calendar)
        return self.build_with(cadence, step, resume)

    def build_driven(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator that punctuates when the runner says so."""
        return self.build_with(DRIVEN_BY_RUNNER, step, resume)

    def build_with(self, cadence: Cadence, step: str, resume: Any = None) -> PunctuateOperator:
        """Make the operator, with another cadence."""
        return PunctuateOperator(
            self.input.schema,
            self.patiences,
            cadence,
            self.late,
            step,
            resume,
            self.windows,
            self.event_count_column,
            only_last=self.only_last,
        )


@dataclass(frozen=True, eq=False)
class Sort(UnaryNode):
    """Puts a stream in order of time, as far as its punctuations say that it is complete."""

    moved: tuple[str, ...] = ()
    """The steps that were written behind the sort and run before it."""

    verb = "sort"
    traits = Traits(
        tie_order=TieOrder.KEPT,
        punctuations=PunctuationUse.LAST_OF_BATCH,
        keeps_columns=True,
        copies_rows=True,
        needs_order=False,
        compares_rows=False,
    )
    rows_per_row = 1.0

    def __post_init__(self) -> None:
        facts = self.input.properties
        if not facts.insert_only:
            raise PlanError(message("sort takes inserts only, and this stream revises them", {}, "apply them first"))
        refuse_untimed("sort() without a patience", self.input)
        if not facts.progressive and any(isinstance(node, SourceNode) and node.feed.live for node in walk(self.input)):
            hint = 'say how long to wait for late rows: sort(patience="5s")'
            raise NeedsOrder(message("this sort would never emit a row", {"stream": self.input.line}, hint))

    @property
    def properties(self) -> Properties:
        """Ordered, with ties; punctuated as the input is."""
        return self.input.properties.replace(order=Order.TIES)

    @property
    def fixed_length(self) -> Duration | None:
        """The input's."""
        return self.input.fixed_length

    @property
    def partition_keys(self) -> None:
        """A row waits for its turn, which comes in each shard."""
        return

    def columns_read(self, wanted: Names, source: Node) -> Names:  # noqa: ARG002 - there is one
        """Those that are wanted."""
        return wanted

    def details(self) -> str:
        """Nothing was chosen."""
        return ""

    def reason(self) -> str:
        """What it waits for, and what was moved before it."""
        if not self.moved:
            return "sends what is complete, in order; equal times as they came"
        before = ", ".join(dict.fromkeys(self.moved))
        return f"moved behind {before}: what needs no order goes first, and leaves less to sort"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        return SortOperator(self.schema, step, resume, self.input.fixed_length)


def _refuse_unless_whole(patiences: tuple[Duration, ...], time: TimeColumn) -> None:
    """Refuse to move rows to bounds that their time column cannot hold: two times would be shown as one."""
    odd = next((one for one in patiences if one % time.tick), None)
    if odd is not None:
        facts = {"patience": format_duration(odd), "column": f"{time.name} ({time.type})"}
        hint = f"choose a patience of whole {format_duration(time.tick)}, or cast the column to timestamp[us] first"
        raise BadDuration(
            message("the patience is finer than the time column, so late rows cannot be moved to it", facts, hint)
        )
