"""The Impatience framework: one disordered stream, several patiences, one ordered stream for each.

    basic      band ──> sort ────────────────────────────────────> stream 0
               band ──> sort ─────────────────────> union ───────> stream 1 ...
    advanced   band ──> partial query ───────────────────────────> stream 0
               band ──> partial query ───────────> union, merge ─> stream 1 ...

A user's partial query gets its band in order. Ready aggregates need to know what is complete, not order: for them
nothing is sorted, and partial results are all that is held.
Paper: Chandramouli, Goldstein, Li. Impatience Is a Virtue. ICDE 2018, section V.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from slackwater.errors import PlanError, message
from slackwater.operators.aggregate.banded import BandedAggregateOperator, banded_schema
from slackwater.operators.emission import band_of, band_output
from slackwater.plan.node import SideOutput, StepNode, walk
from slackwater.plan.nodes.aggregating import columns_summed_up, summed_up_in_words
from slackwater.plan.nodes.combining import Union
from slackwater.plan.nodes.ordering import Punctuate, Sort
from slackwater.plan.nodes.rows import AssignWindow
from slackwater.plan.nodes.source_lateness import without_source_lateness
from slackwater.plan.properties import Extent, Order, Properties
from slackwater.plan.traits import PunctuationUse, Traits
from slackwater.policies.windows import Hopping, Tumbling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from slackwater.events.schema import EventSchema
    from slackwater.operators.aggregate.group_rows import GroupRows
    from slackwater.operators.emission import OutputName
    from slackwater.operators.operator import Operator
    from slackwater.plan.node import Names, Node
    from slackwater.policies.aggregates import Aggregate
    from slackwater.policies.lateness import Lateness
    from slackwater.progress.instants import Duration


@dataclass(frozen=True, eq=False)
class BandedAggregate(StepNode):
    """Sums up the events that share an interval and the key columns, once for each band."""

    bands: tuple[Node, ...]
    keys: tuple[str, ...]
    aggregates: Mapping[str, Aggregate]
    groups: GroupRows | None = None
    """How rows stand for groups of events, where they do: what was summed up before is merged here."""

    verb = "in_bands"
    traits = Traits(punctuations=PunctuationUse.LAST_OF_BATCH)

    def __post_init__(self) -> None:
        if self.bands[0].properties.extent is Extent.INTERVALS:
            hint = "assign windows before in_bands(), or take bands of events and aggregate each: in_bands(...)[0]"
            facts = {"stream": self.bands[0].line}
            raise PlanError(message("in_bands cannot aggregate events whose lifetimes overlap", facts, hint))
        _ = self.schema

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The events of each band."""
        return self.bands

    @property
    def _events(self) -> EventSchema:
        return self.bands[0].schema if self.groups is None else self.groups.events

    @cached_property
    def schema(self) -> EventSchema:
        """The window, the keys, the aggregates, the band."""
        return banded_schema(self._events, self.keys, self.aggregates, "in_bands")

    @property
    def properties(self) -> Properties:
        """Ordered by window; one row per window makes it strict, one per window and key makes that a key."""
        facts = self.bands[0].properties
        # A union may bring windows of several lengths together, which start at the same time.
        one_per_start = not self.keys and not any(isinstance(node, Union) for node in walk(*self.bands))
        order = Order.STRICT if one_per_start else Order.TIES
        return Properties(order=order, stamps=facts.stamps, extent=facts.extent, keyed=True)

    def longest_wait(self, output: OutputName | None = None) -> Duration | None:
        """That of the events of the band."""
        return self.bands[band_of(output)].longest_wait()

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """Events of one group are summed up together."""
        return self.keys

    def column_inputs(self, column: str) -> list[tuple[Node, str]]:
        """All bands have the keys."""
        return [(band, column) for band in self.bands] if column in self.keys else []

    def columns_read(self, wanted: Names, source: Node) -> Names:  # noqa: ARG002 - all answers are computed
        """The keys, and what is summed up."""
        return columns_summed_up(self.keys, self.aggregates)

    def side_outputs(self) -> Mapping[OutputName, tuple[EventSchema, Properties]]:
        """The answers of every band after the first."""
        return {band_output(band): (self.schema, self.properties) for band in range(1, len(self.bands))}

    def details(self) -> str:
        """The aggregates and the keys."""
        return summed_up_in_words(self.aggregates, self.keys)

    def reason(self) -> str:
        """What is held between bands."""
        return "each event is summed up once; partial results are held and go from band to band, not events"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        return BandedAggregateOperator(
            self._events, self.keys, self.aggregates, len(self.bands), step=step, resume=resume, groups=self.groups
        )


def split_by_lateness(node: Node, lateness: Lateness, *, in_order: bool) -> list[Node]:
    """Split rows by how late they are, by the times they came with; return the stream of each band, in order or not.

    A window moves events to its start. Patience is meant for the times before that, so rows are split before they are
    given windows, and the steps from the first window on are done in every band. But windows side by side are complete
    one after the other, and no row is late for one that is not.
    """
    steps: list[Node] = []
    at = node = without_source_lateness(node)
    while at.traits.row_by_row:
        steps.append(at)
        (at,) = at.inputs
    windows = [place for place, step in enumerate(steps) if isinstance(step, AssignWindow)]
    judged_before = steps[: windows[-1] + 1] if windows else []
    first = judged_before[-1] if judged_before else None
    side_by_side = first.window if isinstance(first, AssignWindow) and isinstance(first.window, Tumbling) else None
    read = node if first is None else first.inputs[0]
    punctuate = Punctuate(read, lateness, side_by_side)
    bands = outputs_of(punctuate, len(lateness.patiences))
    # The sort is written first, unless a step would undo it; the plan moves it as far back as it can.
    hops = any(isinstance(step, AssignWindow) and isinstance(step.window, Hopping) for step in judged_before)
    if in_order and not hops:
        bands = [Sort(band) for band in bands]
    for step in reversed(judged_before):
        bands = [step.with_inputs(band) for band in bands]
    return [Sort(band) for band in bands] if in_order and hops else bands


def outputs_of(step: StepNode, bands: int) -> list[Node]:
    """The output of each band of a step that has several."""
    return [step, *(SideOutput(step, band_output(band)) for band in range(1, bands))]
