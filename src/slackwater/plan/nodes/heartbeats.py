"""The plan node that makes heartbeats of bounds, right behind a source: before any step leaves rows out.

A row that a filter drops has arrived all the same: its source is not silent. So heartbeats are made of all rows of a
source, wherever in the plan somebody asked for them, and pass the steps in between as punctuations.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from slackwater.errors import PlanError, message
from slackwater.operators.emission import LATE
from slackwater.operators.heartbeats.driven import DrivenHeartbeatsOperator
from slackwater.operators.heartbeats.heartbeats import HeartbeatSettings, HeartbeatsOperator, ahead_schema
from slackwater.operators.replicas.replica_names import ReplicaNames
from slackwater.plan.node import SourceNode, walk
from slackwater.plan.nodes.rows import UnaryNode
from slackwater.plan.nodes.source_lateness import SourceLateness
from slackwater.plan.properties import Stamps
from slackwater.plan.traits import PunctuationUse, TieOrder, Traits
from slackwater.policies.bound import Units
from slackwater.policies.bounds import Bounds
from slackwater.policies.cadence import CadenceUnit, Every
from slackwater.policies.late import Late, LateAction
from slackwater.policies.punctuations import When
from slackwater.progress.instants import as_duration, format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from slackwater.events.schema import EventSchema
    from slackwater.operators.emission import OutputName
    from slackwater.operators.operator import Operator
    from slackwater.plan.node import Names, Node
    from slackwater.plan.properties import Properties
    from slackwater.policies.bound_rules import Rules
    from slackwater.policies.punctuations import Length
    from slackwater.progress.instants import Duration

TICKS_PER_BOUND = 10
"""Instants while the shortest bound lasts: a row waits a tenth of it longer than it must, at most."""

_TICKS_PER_START = 200
"""The same where bounds are estimated, and come down from what they started from."""


@dataclass(frozen=True, eq=False)
class Heartbeats(UnaryNode):
    """Punctuates a source as far as bounds guarantee that it is complete."""

    bounds: Bounds
    patience: Duration | None
    """The patience among the bounds, where the user gave one."""

    every: Every | None = None
    ahead: Length | None = None
    late: Late = Late.divert()  # noqa: RUF009 - frozen
    """What becomes of rows that are ahead of the clock."""

    verb = "heartbeats"
    traits = Traits(
        tie_order=TieOrder.KEPT,
        punctuations=PunctuationUse.FORWARDED,
        flushes_at_end=False,
        keeps_columns=True,
    )

    def __post_init__(self) -> None:
        source = self.source
        if source.punctuations.when is not When.NEVER:
            hint = 'leave punctuations= out, and write Bounds.delay("2s") for a skew of 2s'
            raise PlanError(
                message("a source punctuates by the clock or by bounds, not both", {"source": source.name}, hint)
            )
        self._require_sources()
        if self.ahead is not None and self.late.action not in {LateAction.DIVERTED, LateAction.DROPPED}:
            hint = "choose Late.divert() or Late.drop()"
            raise PlanError(
                message("rows that are ahead of the clock are diverted or dropped", {"late": self.late}, hint)
            )
        rules = self.rules
        self._require_clock(rules)
        self._require_start(rules)
        stuck = rules.stuck()
        if stuck:
            facts = {"source": ", ".join(map(str, stuck)), "bounds": str(self.bounds)}
            hint = "add a bound that ends in it, a patience, or an assumption: & Bounds.idle(...)"
            raise PlanError(message("nothing would ever be complete: no bound says anything of a source", facts, hint))
        _ = self.settings
        self._warn_of_silence()

    def _warn_of_silence(self) -> None:
        if self.source.feed.live and self.silence_holds is not None:
            warnings.warn(self.silence_holds, stacklevel=3)

    def _require_sources(self) -> None:
        """Refuse bounds that name sources which the column of origins cannot, or which no column names."""
        source = self.source
        if source.origin is not None:
            names, rules = ReplicaNames(self.schema, source.origin, self.verb), self.rules
            for name in dict(rules.fleets) or rules.named:
                names.name_of(name)  # which refuses what the column cannot hold
        elif self.bounds.named:
            facts = {"named": ", ".join(map(str, self.bounds.named)), "source": source.name}
            hint = "say which column names the source of a row: stream(..., origin=...)"
            raise PlanError(message("bounds name sources, and nobody says which row is whose", facts, hint))

    def _require_clock(self, rules: Rules) -> None:
        source = self.source
        if rules.needs_clock and source.arrived is None and not source.feed.live:
            facts, hint = {"source": source.name, "bounds": self.bounds}, 'name it: stream(..., arrived="landed")'
            rule = "these bounds need to know when rows arrived, and a source that ends does not say"
            raise PlanError(message(rule, facts, hint))

    def _require_start(self, rules: Rules) -> None:
        if rules.estimation is not None and rules.estimation.loss is not None and rules.comes_down_from is None:
            facts = {"source": self.source.name, "bounds": self.bounds}
            hint = 'sort(patience="10m", bounds=...), or & Bounds.delay("10m"): for all sources'
            rule = "estimates start from a patience, and go back to it when more rows are late than asked for"
            raise PlanError(message(rule, facts, hint))

    @property
    def source(self) -> SourceNode:
        """The source."""
        assert isinstance(self.input, SourceNode)
        return self.input

    @cached_property
    def rules(self) -> Rules:
        """The bounds in the units of the stream and its clock."""
        return self.bounds.rules(self._units)

    @property
    def _units(self) -> Units:
        arrived = self.source.arrived
        kind = None if arrived is None else self.schema.payload.field(arrived).type
        return Units(self.schema.calendar, clock_calendar=kind is None or not _counts(kind))

    @cached_property
    def settings(self) -> HeartbeatSettings:
        """What the operator needs."""
        source, rules, units = self.source, self.rules, self._units
        ahead = None if self.ahead is None else units.time(self.ahead)
        shortest = _shortest(rules, same_units=units.calendar == units.clock_calendar)
        fine = shortest // (TICKS_PER_BOUND if rules.estimation is None else _TICKS_PER_START)
        wakes_every = max(fine, _LEAST_PAUSE) if source.feed.live else None
        grid = self._grid(units, fine)
        return HeartbeatSettings(
            rules,
            source.origin,
            source.arrived,
            grid,
            ahead,
            wakes_every,
            units.clock_calendar,
            self._ahead_of_rows,
        )

    def _grid(self, units: Units, fine: Duration) -> Duration:
        """How long a tick is; batches are instants where nobody says when rows arrived."""
        every = self.every
        if self.source.arrived is None:
            if every is not None and every.unit is not CadenceUnit.BATCH:
                hint = "leave every= out, or name the column of arrivals: stream(..., arrived=...)"
                raise PlanError(message("with bounds every batch is an instant, as it arrives", {"every": every}, hint))
            return 1
        if every is None:
            return max(fine, 1)
        if every.unit is not CadenceUnit.TIME:
            hint = 'leave every= out, or say how fine arrivals are looked at: Every.time("1s")'
            raise PlanError(message("with bounds rows arrive at instants of their column", {"every": every}, hint))
        return as_duration(every.length, calendar=units.clock_calendar)

    @property
    def silence_holds(self) -> str | None:
        """What happens when all sources pause, where bounds do not see to it: Theorem 3.3."""
        two = self.rules.timeout_needed()
        if two is None:
            return None
        sender, receiver = two
        of = f"of {sender}" if sender is receiver else f"of {sender}, waiting for {receiver},"
        return (
            f"when all is silent the last rows {self._of(of)} are held until a row comes: these bounds do not say when "
            f'they are complete. If that matters add an assumption, & Bounds.lull("10m"), or a delay by the clock'
        )

    def _of(self, sources: str) -> str:
        """Whose rows something is about, where rows are of several sources."""
        return "of the source" if self.source.origin is None else sources

    @property
    def properties(self) -> Properties:
        """The input's, and punctuated."""
        return self.input.properties.replace(punctuated=True)

    @property
    def _ahead_of_rows(self) -> bool:
        """Whether rows are ahead of the newest row: there is no clock, or times are of another kind than its own."""
        source, units = self.source, self._units
        known = source.arrived is not None or source.feed.live
        return self.ahead is not None and not (known and units.calendar == units.clock_calendar)

    @property
    def not_on_spark(self) -> str | None:
        """Without a clock the order of rows decides which of them is ahead."""
        if not self._ahead_of_rows:
            return None
        return (
            "without a clock a row is ahead of those before it, and rows of a micro-batch have no order: name arrived="
        )

    @property
    def goes_by_batches(self) -> bool:
        """Batches are instants where nobody says when rows arrived."""
        return self.source.arrived is None

    @property
    def partition_keys(self) -> None:
        """Every shard follows the arrivals of all rows."""
        return

    def longest_wait(self, output: OutputName | None = None) -> Duration | None:  # noqa: ARG002 - it has one output
        """The patience, where there is one."""
        return self.patience

    def columns_read(self, wanted: Names, source: Node) -> Names:
        """Those that are wanted, who sent a row, and when it arrived; all where rows that are ahead are shown."""
        if self.diverts():
            return super().columns_read(wanted, source)
        return wanted | {name for name in (self.source.origin, self.source.arrived) if name is not None}

    def side_outputs(self) -> Mapping[OutputName, tuple[EventSchema, Properties]]:
        """The rows that are ahead of the clock, if they are diverted."""
        if self.ahead is None or self.late.action is LateAction.DROPPED:
            return {}
        return {LATE: (ahead_schema(self.schema, self.verb), self.input.properties)}

    def details(self) -> str:
        """The bounds, how fine arrivals are looked at, and the guard."""
        settings, source = self.settings, self.source
        at = (
            ""
            if source.arrived is None
            else f", arrivals every {_shown(settings.grid, calendar=self._units.clock_calendar)}"
        )
        ahead = ""
        if settings.ahead is not None:
            of = " of the newest row" if settings.ahead_of_rows else ""
            ahead = f", at most {_shown(settings.ahead, calendar=self._units.calendar)} ahead{of}"
        return f"from {self.bounds}{at}{ahead}"

    def reason(self) -> str:
        """By whose rows it goes, and what a pause of all does."""
        whose = (
            "all rows are of one source" if self.source.origin is None else "complete up to the least of all sources"
        )
        return whose if self.silence_holds is None else f"{whose}; in a pause of all, the last rows are held"

    def in_shards(self) -> HeartbeatsInShards:
        """The same heartbeats, in shards."""
        return HeartbeatsInShards.of(self)

    def build(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator."""
        return HeartbeatsOperator(self.schema, self.settings, step, resume, self._ahead_payload)

    @property
    def _ahead_payload(self) -> pa.Schema | None:
        """The columns of rows that are ahead of the clock, if they are diverted."""
        ahead = self.side_outputs().get(LATE)
        return None if ahead is None else ahead[0].payload


@dataclass(frozen=True, eq=False)
class HeartbeatsInShards(Heartbeats):
    """The same where rows come to shards: made of statistics that are taken where rows are read, before any step."""

    traits = Traits(
        tie_order=TieOrder.KEPT,
        punctuations=PunctuationUse.FORWARDED,
        flushes_at_end=False,
        keeps_columns=True,
        copies_rows=True,
    )

    def __post_init__(self) -> None:
        """Check nothing: it was made of heartbeats that were checked."""

    @classmethod
    def of(cls, node: Heartbeats) -> HeartbeatsInShards:
        """The same heartbeats, in shards."""
        return cls(**{one.name: getattr(node, one.name) for one in fields(node)})

    @property
    def source(self) -> SourceNode:
        """The source; steps may lie between."""
        return next(node for node in walk(self.input) if isinstance(node, SourceNode))

    def follows(self, step: Node) -> bool:
        """Whether it gives the same right behind a step, for rows that the step lets through.

        That is where the step changes neither times nor the columns that are looked at. Rows that are ahead of the
        clock are late before any step.
        """
        looked_at = [name for name in (self.source.origin, self.source.arrived) if name is not None]
        return (
            self.ahead is None
            and step.traits.row_by_row
            and step.schema.time_columns() == self.schema.time_columns()
            and all(step.column_inputs(name) == [(step.inputs[0], name)] for name in looked_at)
        )

    def reason(self) -> str:
        """What they follow from on Spark."""
        return f"{super().reason()}; by statistics of all rows as they are read, the same in every shard"

    def build_driven(self, step: str, resume: Any = None) -> Operator[Any]:
        """Make the operator that a shard feeds with statistics."""
        return DrivenHeartbeatsOperator(self.schema, self.settings, step, resume, self._ahead_payload)


_LEAST_PAUSE: Duration = 1_000
"""Microseconds: nobody looks more often than so, whatever bounds say."""


def with_heartbeats(
    node: Node, bounds: Bounds, patience: Length | None, every: Every | None, ahead: Length | None, late: Late
) -> Node:
    """Put heartbeats right behind the source of a stream; refuse a stream that is not straight from one."""
    if isinstance(node, SourceNode):
        if node.properties.stamps is not Stamps.EXTERNAL:
            raise PlanError(message("bounds are about times that rows bring", {"source": node.name}))
        wait = None if patience is None else as_duration(patience, calendar=node.schema.calendar)
        return Heartbeats(node, bounds_and_patience(bounds, patience), wait, every, ahead, late)
    if node.traits.row_by_row:
        (source,) = node.inputs
        return node.with_inputs(with_heartbeats(source, bounds, patience, every, ahead, late))
    facts, hint = {"stream": node.line}, "give bounds to the sort() of each source, before they come together"
    if isinstance(node, SourceLateness):
        if isinstance(node.input, Heartbeats):
            hint = "give all that is known to sw.related(..., bounds=...); behind it sort() needs none"
            raise PlanError(message("this stream has bounds already: those of related()", facts, hint))
        hint = 'leave punctuations= of the stream out, and write Bounds.delay("2s") for a skew of 2s'
    raise PlanError(message("bounds are for streams that come straight from a source", facts, hint))


def bounds_and_patience(bounds: Bounds, patience: Length | None) -> Bounds:
    """All that was given; a patience is one more bound, of all rows on all others."""
    if not isinstance(bounds, Bounds):
        hint = 'write sw.Bounds.delay("10m"), for example'
        raise PlanError(message("bounds= takes Bounds", {"got": repr(bounds)}, hint))
    return bounds if patience is None else bounds & Bounds.patience(patience)


def _shortest(rules: Rules, *, same_units: bool) -> Duration:
    """The shortest length that bounds have, not counting none; 0 if there is no length."""
    pairs = [pair for rule in rules.declared for pair in rule.pair.values if pair is not None]
    waits = [pair.wait for rule in rules.rules for pair in rule.pair.values if pair is not None]
    lengths = [*waits, *rules.latency.values, *rules.delay.values, rules.idle, rules.lull]
    if same_units:
        lengths += [pair.delta - 1 for pair in pairs]
    return min((length for length in lengths if length is not None and length > 0), default=0)


def _counts(kind: pa.DataType) -> bool:
    return not str(kind).startswith("timestamp")


def _shown(length: Duration, *, calendar: bool) -> str:
    return format_duration(length) if calendar else str(length)
