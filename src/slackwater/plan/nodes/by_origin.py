"""Plan nodes whose rows go by the heartbeat of their own source, instead of the least of all.

    written   rows ──> where ──> sort_within_origins ──> tumbling ──> aggregate by who
    run       rows ──> aggregate by who, by origin (where, tumbling)        groups wait, each for its own source

Heartbeats are made of all rows of the source. So these steps read the source itself, and do the steps in between, which
treat each row by itself, inside. Whoever groups by the source holds groups, and no rows.

On Spark what is known of all rows is taken where they are read. There the steps in between come first, as long as they
keep what heartbeats look at, and rows come to shards by their source (`plan/rewrites/heartbeats_in_shards.py`):

    on Spark  rows ──> where ─┆─> aggregate by who, by origin (tumbling)
                └─ statistics ┘
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from slackwater.errors import MixedOrigins, PlanError, message
from slackwater.operators.aggregate.aggregate import aggregate_schema
from slackwater.operators.aggregate.banded import banded_schema
from slackwater.operators.by_origin.aggregate import AggregateByOriginOperator, Groups
from slackwater.operators.by_origin.by_origin import ByOriginSettings
from slackwater.operators.by_origin.driven import DrivenAggregateByOriginOperator, DrivenSortByOriginOperator
from slackwater.operators.by_origin.sort import SortByOriginOperator
from slackwater.operators.emission import LATE, band_output
from slackwater.operators.late_rows import late_schema
from slackwater.plan.node import SideOutput, StepNode, let_go_by
from slackwater.plan.nodes.aggregating import summed_up_in_words
from slackwater.plan.nodes.heartbeats import TICKS_PER_BOUND, Heartbeats, HeartbeatsInShards, with_heartbeats
from slackwater.plan.nodes.rows import AssignWindow, RowNode
from slackwater.plan.properties import Extent, Order, Properties
from slackwater.plan.traits import Traits
from slackwater.policies.bound_rules import Pair, Rule
from slackwater.policies.late import Late, LateAction, not_a_policy
from slackwater.policies.lateness import Lateness
from slackwater.policies.per_source import PerSource
from slackwater.policies.windows import Tumbling
from slackwater.progress.instants import as_duration, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from slackwater.events.schema import EventSchema
    from slackwater.operators.emission import OutputName
    from slackwater.operators.operator import Operator
    from slackwater.plan.node import Node
    from slackwater.policies.aggregates import Aggregate
    from slackwater.policies.bound_rules import Rules
    from slackwater.policies.bounds import Bounds
    from slackwater.policies.cadence import Every
    from slackwater.policies.punctuations import Length
    from slackwater.progress.instants import Duration, Instant


@dataclass(frozen=True, eq=False)
class ByOrigin(StepNode):
    """A step that follows the heartbeats of a source, and lets every row go by those of its own origin."""

    beats: Heartbeats
    """How heartbeats are made: a node that is not run, but says all of it."""

    before: tuple[RowNode, ...]
    """The steps that rows pass before it is known which are late, in the order in which they are done."""

    late: Late
    windows: Tumbling | None
    """The windows that rows are given next: a row is late when its window is complete."""

    def __post_init__(self) -> None:
        if not isinstance(self.late, Late):
            raise not_a_policy(self.late)
        if self.beats.source.origin is None:
            hint = "name the column: stream(..., origin=...)"
            facts = {"source": self.beats.source.name}
            raise PlanError(message("nobody says which row is of which source", facts, hint))
        if self.beats.rules.estimation is not None:
            facts = {"bounds": str(self.beats.bounds)}
            hint = "declare bounds; sw.fit_bounds() finds them in a recorded sample"
            raise PlanError(message("bounds are learnt for one order of all, not by origin", facts, hint))
        if self.late.action is LateAction.ADJUSTED:
            hint = "choose Late.divert(), Late.drop() or Late.raise_error()"
            raise PlanError(message("by origin no late row is moved: every source has a bound of its own", {}, hint))
        self.side_outputs()  # made now, so that clashing columns are refused now

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The source."""
        return (self.beats.input,)

    def lets_go(self, newest: Instant) -> Instant:
        """Where whole windows are complete or not, up to where all of them are."""
        bound = newest + 1 if self.windows is None else self.windows.closed_behind(newest)
        return let_go_by(self.before, bound - 1)

    def with_inputs(self, *inputs: Node) -> Self:
        """The same step on another source, of the same columns."""
        return replace(self, beats=self.beats.with_inputs(*inputs))

    @property
    def _arrived(self) -> Node:
        """The rows of which it is found out whether they are late."""
        return self.before[-1] if self.before else self.beats

    @cached_property
    def origin(self) -> str:
        """The column that names the source of each row, where it is found out which are late."""
        name = self.beats.source.origin
        for step in self.before:
            name = None if name is None else step.column_after(name)
        if name is None:
            facts = {"origin": self.beats.source.origin, "columns": ", ".join(self._arrived.schema.columns)}
            hint = "keep the column: select() it, too"
            raise PlanError(message("the column that names the source of each row is left out", facts, hint))
        return name

    @property
    def goes_by_batches(self) -> bool:
        """Batches are instants where nobody says when rows arrived."""
        return self.beats.goes_by_batches

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The column that names the source, as rows come in: those of one source are in one shard."""
        assert self.beats.source.origin is not None
        return (self.beats.source.origin,)

    @property
    def input(self) -> Node:
        """The source, or in shards the last step before them."""
        return self.beats.input

    def in_shards(self) -> Self:
        """The same step where rows come to shards: what may be done before is done before."""
        beats, left = HeartbeatsInShards.of(self.beats), list(self.before)
        while left and beats.follows(left[0]):
            beats = beats.with_inputs(left.pop(0).with_inputs(beats.input))
        return replace(self, beats=beats, before=tuple(left))

    def side_outputs(self) -> Mapping[OutputName, tuple[EventSchema, Properties]]:
        """The late rows, as they were found to be late, if they are diverted."""
        if self.late.action is not LateAction.DIVERTED:
            return {}
        arrived = self._arrived
        return {LATE: (late_schema(arrived.schema, self.verb), arrived.properties.replace(punctuated=False))}

    def details(self) -> str:
        """How progress is made, the steps inside, and what becomes of late rows."""
        steps = [f"after {', '.join(step.line for step in self.before)}"] if self.before else []
        windows = []
        if self.windows is not None:
            windows = [f"whole windows of {self._shown(self.windows.size)}"]
        return ", ".join(
            [f"by origin {self.origin} {self.beats.details()}", *windows, *steps, f"late rows {self.late}"]
        )

    @property
    def _by_statistics(self) -> str:
        """What heartbeats follow from on Spark."""
        in_shards = isinstance(self.beats, HeartbeatsInShards)
        return "; by statistics of all rows as they are read, the same in every shard" if in_shards else ""

    def _shown(self, length: Duration) -> str:
        return format_duration(length) if self._arrived.schema.calendar else str(length)

    def settings(self) -> ByOriginSettings:
        """What the operator needs."""
        arrived = self._arrived.schema
        return ByOriginSettings(self.beats.schema, arrived, self.beats.settings, self.late, self.windows)


@dataclass(frozen=True, eq=False)
class SortByOrigin(ByOrigin):
    """Sends the rows of every source in order of time, as far as that source is complete."""

    verb = "sort_within_origins"
    traits = Traits()

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.origin  # found now, so that a lost column is refused now

    @property
    def schema(self) -> EventSchema:
        """That of the rows."""
        return self._arrived.schema

    @property
    def properties(self) -> Properties:
        """In no order of all, but punctuated up to where all sources are complete; all rows have a time."""
        facts = self._arrived.properties.replace(punctuated=True, untimed=False)
        return facts.replace(order=Order.NONE, origin=self.origin)

    def reason(self) -> str:
        """When rows go out, and in which order."""
        when = "a row is late, or goes out, when its own source is complete past it; in order within each source"
        return f"{when}{self._by_statistics}"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        return SortByOriginOperator(self.settings(), _built(self.before, step), step, resume)

    def build_driven(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator that a shard feeds with statistics."""
        return DrivenSortByOriginOperator(self.settings(), _built(self.before, step), step, resume)


@dataclass(frozen=True, eq=False)
class AggregateByOrigin(ByOrigin):
    """Sums up the events of each window and group, as far as the source of the group is complete."""

    after: tuple[RowNode, ...] = field(kw_only=True)
    """The steps that rows pass once it is known which are late."""

    keys: tuple[str, ...] = field(kw_only=True)
    aggregates: Mapping[str, Aggregate] = field(kw_only=True)
    patiences: tuple[Duration, ...] = field(default=(), kw_only=True)
    """How long each band waits behind the newest row of the same source; none where there are no bands."""

    traits = Traits()

    def __post_init__(self) -> None:
        super().__post_init__()
        events = self._events.properties
        if events.extent is Extent.INTERVALS:
            hint = 'assign windows first, by tumbling("1h") or hopping("1h", "5m")'
            facts = {"stream": self._events.line}
            raise PlanError(message(f"by origin {self.verb} needs points or windows", facts, hint))
        _ = self.schema

    @property
    def verb(self) -> str:
        """As it was written."""
        return "in_bands" if self.patiences else "aggregate"

    @property
    def _events(self) -> Node:
        return self.after[-1] if self.after else self._arrived

    def lets_go(self, newest: Instant) -> Instant:
        """Up to where the windows are complete that rows are given."""
        return super().lets_go(let_go_by(self.after, newest) - 1)

    @property
    def _key(self) -> str:
        """The key that names the source."""
        name: str | None = self.origin
        for step in self.after:
            name = None if name is None else step.column_after(name)
        assert name is not None
        return name

    @cached_property
    def schema(self) -> EventSchema:
        """The window, the keys, the aggregates, and the band."""
        made = banded_schema if self.patiences else aggregate_schema
        return made(self._events.schema, self.keys, self.aggregates, self.verb)

    @property
    def properties(self) -> Properties:
        """In no order of all, but punctuated; one answer for each window and key."""
        facts = self._events.properties
        return Properties(stamps=facts.stamps, extent=facts.extent, punctuated=True, keyed=True, origin=self._key)

    @property
    def fixed_length(self) -> Duration | None:
        """An answer has the window of its events."""
        return self._events.fixed_length

    def side_outputs(self) -> Mapping[OutputName, tuple[EventSchema, Properties]]:
        """The answers of every band after the first, and the late rows if they are diverted."""
        bands = {band_output(band): (self.schema, self.properties) for band in range(1, len(self.patiences))}
        return {**bands, **super().side_outputs()}

    def longest_wait(self, output: OutputName | None = None) -> Duration | None:  # noqa: ARG002 - bounds decide
        """The patience of the last band, where there are bands."""
        return self.patiences[-1] if self.patiences else None

    def details(self) -> str:
        """The aggregates and the keys, how progress is made, and the steps inside."""
        summed_up = summed_up_in_words(self.aggregates, self.keys)
        steps = [f"of {', '.join(step.line for step in self.after)}"] if self.after else []
        waits = [f"patience={', '.join(map(self._shown, self.patiences))}"] if self.patiences else []
        return "; ".join([summed_up, *steps, *waits, super().details()])

    def reason(self) -> str:
        """When answers go out."""
        when = "a group is sent when its own source is complete past it, whoever else is waited for"
        return f"{when}; partial results are held, not events{self._by_statistics}"

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        return self._built_as(AggregateByOriginOperator, step, resume)

    def build_driven(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator that a shard feeds with statistics."""
        return self._built_as(DrivenAggregateByOriginOperator, step, resume)

    def _built_as(self, kind: type[AggregateByOriginOperator], step: str, resume: Any) -> Operator[Any]:
        windows = tuple(one.window for one in self.after if isinstance(one, AssignWindow))
        groups = Groups(
            self._events.schema, self.keys, self._key, self.aggregates, windows, banded=bool(self.patiences)
        )
        settings, to_groups = self.settings(), _built(self.after, step)
        return kind(settings, groups, _built(self.before, step), to_groups, step, resume)

    def settings(self) -> ByOriginSettings:
        """What the operator needs; a patience is one more rule, and arrivals are looked at so often that it counts."""
        settings, source = super().settings(), self.beats.source
        if not self.patiences:
            return settings
        beats, same_units = settings.beats, source.schema.calendar == settings.beats.clock_calendar
        if self.beats.every is None and source.arrived is not None and same_units:
            beats = replace(beats, grid=min(beats.grid, max(self.patiences[0] // TICKS_PER_BOUND, 1)))
        *sooner, last = (self._with_patience(beats.rules, patience) for patience in self.patiences)
        return replace(settings, beats=replace(beats, rules=last), sooner=tuple(sooner))

    def _with_patience(self, rules: Rules, patience: Duration) -> Rules:
        """What is known of sources, and for how long a band waits behind the newest row of each."""
        words = f"patience {self._shown(patience)} behind the newest row of the same source"
        rule = Rule(words, PerSource(0), PerSource(Pair(patience + 1)), own=True, as_arrived=True)
        return replace(rules, rules=(*rules.rules, rule))


def sort_within_origins(node: Node, bounds: Bounds, every: Every | None, late: Late) -> Node:
    """Plan a sort in which every source goes by its own heartbeats, straight behind the source of a stream.

    As with one order for all, rows are late by the times before a window moves them; but by whole windows, where these
    lie side by side.
    """
    at = with_heartbeats(node, bounds, None, every, None, late)
    steps: list[RowNode] = []
    while isinstance(at, RowNode):
        steps.insert(0, at)
        at = at.input
    assert isinstance(at, Heartbeats)
    first = next((place for place, step in enumerate(steps) if isinstance(step, AssignWindow)), len(steps))
    before, after = tuple(steps[:first]), steps[first:]
    window = after[0].window if after and isinstance(after[0], AssignWindow) else None
    made: Node = SortByOrigin(at, before, late, window if isinstance(window, Tumbling) else None)
    for step in after:
        made = step.with_inputs(made)
    return made


def aggregate_within_origins(
    node: Node, keys: tuple[str, ...], aggregates: Mapping[str, Aggregate], patiences: Sequence[Length] = ()
) -> AggregateByOrigin:
    """Plan an aggregation in which every group goes by its own source; refuse groups that mix sources."""
    after: list[RowNode] = []
    at = node
    while isinstance(at, RowNode):
        after.insert(0, at)
        at = at.input
    step = "in_bands" if patiences else "aggregate"
    if not isinstance(at, SortByOrigin):
        hint = "aggregate once, of the rows behind sort_within_origins()"
        raise PlanError(message(f"{step} by origin sums up rows, and these are answers", {"stream": node.line}, hint))
    origin = node.properties.origin
    if origin is None or origin not in keys:
        raise MixedOrigins.at(step, node.line, at.origin if origin is None else origin)
    calendar = at.schema.calendar
    if patiences:
        Lateness.chosen(patiences, None, at.late, calendar=calendar).require_valid(step, calendar=calendar)
    return AggregateByOrigin(
        at.beats,
        at.before,
        at.late,
        at.windows,
        after=tuple(after),
        keys=keys,
        aggregates=aggregates,
        patiences=tuple(as_duration(one, calendar=calendar) for one in patiences),
    )


def refuse_mixed_origins(node: Node) -> None:
    """Refuse a step that mixes rows of sources which have come differently far."""
    if node.traits.row_by_row or isinstance(node, SideOutput):
        return
    for source in node.inputs:
        if source.properties.origin is not None:
            raise MixedOrigins.at(node.verb, source.line, source.properties.origin)


def _built(steps: Iterable[RowNode], step: str) -> list[Operator[Any]]:
    return [one.build(f"{step} ({one.verb})") for one in steps]
