"""The plan that every shard runs, and where its rows come from.

A plan is cut at the steps that say how long to wait for late rows: punctuate, and the merge of replicas by a column.
What lies before them treats each row by itself; it is done where rows are packed. From there on everything is done in
shards:

    source ─ where ─ select ┆ punctuate ─ sort ─ aggregate ...
         input pipeline     ┆             shard

Where whole windows are late or not, rows are even summed up before they are packed (`plan/rewrites/preaggregate.py`):

    source ─ where ─ select ─ tumbling ─ preaggregate ┆ punctuate ─ in_bands

or, where late ones are to be seen, those of them that cannot be late:

    source ─ where ─ select ─┬────────────────────────┆ punctuate ─ in_bands
                             └ tumbling ─ preaggregate ┘

Behind a sort that is left out the aggregate gets such sums itself (`plan/rewrites/sums_beside_rows.py`):

    source ─ where ─ select ─┬────────────────┆ punctuate ─ tumbling ─ aggregate
                             └ tumbling ─ sums ────────────────────────┘

Where bounds say what is complete, rows come to shards at the heartbeats, and what is known of all rows of a source is
taken before the first step (`plan/rewrites/heartbeats_in_shards.py`):

    source ─ statistics ─ where ─ select ┆ heartbeats ─ tumbling ─ punctuate ─ sort

The changes of a log (`sw.changes`) come to shards as they are, and say themselves how far they are complete:

    changes ┆ net_changes ─ settle

Where each source goes by its own heartbeat the step that holds rows or groups makes heartbeats itself:

    source ─ statistics ─ where ─ select ┆ aggregate by origin
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from slackwater.columns.row_spread import RowSpread
from slackwater.errors import PlanError, message
from slackwater.events.changes import ChangeLog
from slackwater.plan.node import Node, SourceNode, StepNode, name_steps, walk
from slackwater.plan.nodes.aggregating import AggregateStep
from slackwater.plan.nodes.by_origin import ByOrigin
from slackwater.plan.nodes.changes_in_shards import ChangesInShards
from slackwater.plan.nodes.heartbeats import HeartbeatsInShards
from slackwater.plan.nodes.ordering import LatenessStep
from slackwater.plan.nodes.preaggregating import PreaggregatedRows, PunctuateUnlessSummedUp, RowsToGroups
from slackwater.plan.nodes.related import RelatedInShards
from slackwater.plan.nodes.rows import AssignWindow
from slackwater.plan.rewrites.optimizer import optimized_for_spark
from slackwater.plan.rewrites.sums_beside_rows import SumsBesideRows, sums_beside_rows
from slackwater.plan.rewrites.transform import readers_of
from slackwater.policies.cadence import CadenceUnit
from slackwater.runners.spark.planning.plan_lines import plan_lines
from slackwater.runners.spark.planning.sharding import deciding_columns, deciding_columns_at, why_one_shard

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from slackwater.events.schema import EventSchema
    from slackwater.operators.heartbeats.heartbeats import HeartbeatSettings
    from slackwater.plan.nodes.heartbeats import Heartbeats
    from slackwater.policies.windows import Tumbling
    from slackwater.runners.spark.planning.plan_lines import Line

Entry: TypeAlias = LatenessStep | HeartbeatsInShards | ByOrigin | ChangesInShards
"""A step at which rows come to shards."""


@dataclass(frozen=True)
class InputPipeline:
    """A way of rows into the shards: from a source, through steps that treat each row by itself."""

    source: SourceNode
    steps: tuple[StepNode, ...]
    entry: Entry
    """The step at which a shard takes the rows."""

    windowing: tuple[StepNode, ...] = ()
    """The steps that follow where rows are summed up: they give rows windows."""

    summed_up: PreaggregatedRows | None = None
    """What is packed instead of rows, if they are."""

    sums: SumsBesideRows | None = None
    """The aggregate that gets sums of rows, past the steps before it, if one does."""

    @property
    def groups_beside_rows(self) -> RowsToGroups | None:
        """How rows that cannot be late become groups, while the others come as they are; None where none do so."""
        if self.sums is not None:
            return None if self.sums.of_late_rows else RowsToGroups(self.sums.steps, self.sums.groups)
        return self.entry.rows_to_groups if isinstance(self.entry, PunctuateUnlessSummedUp) else None

    @property
    def window_of_moved_rows(self) -> Tumbling | None:
        """The windows of which the first that is open gets rows that were late, where groups keep an order."""
        if self.sums is not None:
            return self.sums.window_of_moved_rows
        return self.entry.window_of_moved_rows if isinstance(self.entry, PunctuateUnlessSummedUp) else None

    @property
    def outside(self) -> tuple[Node, ...]:
        """All that is done before rows come to a shard."""
        return (self.source, *self.steps, *self.windowing, *([] if self.summed_up is None else [self.summed_up]))

    @property
    def heartbeats(self) -> Heartbeats | None:
        """The heartbeats that statistics are taken for, where there are bounds: a step, or part of one."""
        if isinstance(self.entry, ChangesInShards):
            return None
        if isinstance(self.entry, LatenessStep):
            return self.entry.heartbeats
        return self.entry.beats if isinstance(self.entry, ByOrigin) else self.entry

    @property
    def arrivals(self) -> HeartbeatSettings | None:
        """How arrivals are counted where rows are read, where there are bounds: as the step does that follows them."""
        if isinstance(self.entry, ByOrigin):
            return self.entry.settings().beats
        return None if self.heartbeats is None else self.heartbeats.settings

    @property
    def may_be_native(self) -> tuple[StepNode, ...]:
        """The first steps that Spark may do itself: with heartbeats none that leaves out rows, which must count."""
        if self.heartbeats is None:
            return self.steps
        return tuple(takewhile(lambda step: step.traits.keeps_rows, self.steps))

    @property
    def replica_column(self) -> str | None:
        """The column that distinguishes replicas, where one does."""
        return self.entry.replica_column if isinstance(self.entry, LatenessStep) else None

    @property
    def where(self) -> str:
        """What it is called in messages."""
        return f"source {self.source.name!r}"


@dataclass(frozen=True)
class ShardPlan:
    """The outputs of a plan, by name, and how many shards share the work. It is sent to Python workers."""

    outputs: Mapping[str, Node]
    wanted_shards: int

    @classmethod
    def of(cls, outputs: Mapping[str, Node], wanted_shards: int) -> ShardPlan:
        """The plan that is run for outputs as they were written."""
        run = optimized_for_spark(*outputs.values())
        return cls(dict(zip(outputs, run, strict=True)), wanted_shards)

    def __post_init__(self) -> None:
        for node in self.names:
            if node.not_on_spark is not None:
                raise PlanError(message("this step does not run on Spark", {"step": node.line}, node.not_on_spark))
        _ = self.pipelines  # made now, so that what cannot run is refused now
        for shown in self.shown_as.values():
            _ = shown.shown

    @cached_property
    def names(self) -> dict[Node, str]:
        """All nodes, with their names; those that others read come first."""
        return name_steps(*self.outputs.values())

    @cached_property
    def pipelines(self) -> tuple[InputPipeline, ...]:
        """All ways in."""
        entries = [node for node in self.names if _is_entry(node)]
        sums = self._sums
        pipelines = tuple(_pipeline(entry, sums.get(entry)) for entry in entries)
        _refuse_steps([node for node in self.names if isinstance(node, LatenessStep)])
        outside = {node for pipeline in pipelines for node in pipeline.outside}
        for node in self.outputs.values():
            if node in outside:
                raise _needs_patience(node.line)
        for node in self.names:
            if isinstance(node, SourceNode) and node not in outside:
                raise _needs_patience(node.line)
            if isinstance(node, StepNode) and node not in outside and node not in entries:
                for source in node.inputs:
                    if source in outside:
                        raise _needs_patience(node.line)
        _require_related(pipelines)
        return pipelines

    @property
    def _sums(self) -> dict[Node, SumsBesideRows]:
        """The aggregates that get sums beside rows, by the steps at which these rows come to shards."""
        roots = tuple(self.outputs.values())
        readers = readers_of(roots)
        found = [sums_beside_rows(node, readers) for node in self.names if isinstance(node, AggregateStep)]
        return {one.entry: one for one in found if isinstance(one, SumsBesideRows)}

    def columns_of_sums(self, sums: SumsBesideRows) -> tuple[str, ...]:
        """What the columns that decide the shard of a row are called where rows have been summed up."""
        return self._deciding_at(sums.aggregate, sums.aggregate.input)

    @cached_property
    def streams(self) -> tuple[Mapping[int, bytes], ...]:
        """For each way in that is related to others, these by their numbers and as they are counted; else nothing."""
        return tuple(_related_to(pipeline, self.pipelines) for pipeline in self.pipelines)

    @cached_property
    def shown_as(self) -> dict[str, EventSchema | ChangeLog]:
        """How batches of each output become rows: those of a stream that is revised are its changes, numbered.

        Rows of a micro-batch are written in no order. The changes of one event are all sent by one shard, and numbered
        there from the beginning of the query on, so that whoever reads them by these numbers can apply them.
        """
        nodes = self.outputs.items()
        return {
            output: node.schema if node.properties.insert_only else ChangeLog(node.schema, numbered=True)
            for output, node in nodes
        }

    @cached_property
    def steps(self) -> dict[StepNode, str]:
        """The steps that are done in shards, with their names."""
        outside = {node for pipeline in self.pipelines for node in pipeline.outside}
        return {node: name for node, name in self.names.items() if isinstance(node, StepNode) and node not in outside}

    @cached_property
    def columns(self) -> Mapping[Node, tuple[str, ...]] | None:
        """The columns that decide the shard of a row, for each way in; None if there is one shard."""
        found = deciding_columns(tuple(self.outputs.values()), [pipeline.entry for pipeline in self.pipelines])
        return found if self.wanted_shards > 1 else None

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return 1 if self.columns is None else self.wanted_shards

    @property
    def why_one(self) -> str:
        """Why one shard takes all rows, where the plan leaves no choice."""
        return why_one_shard(tuple(self.outputs.values()), [pipeline.entry for pipeline in self.pipelines])

    def spreads_of(self, step: StepNode) -> list[RowSpread]:
        """For each input of a step, which shard has which of its rows."""
        return [RowSpread(source.schema, self._deciding_at(step, source), self.shards) for source in step.inputs]

    def _deciding_at(self, step: StepNode, source: Node) -> tuple[str, ...]:
        return () if self.columns is None else deciding_columns_at(step, source, self.columns)

    @cached_property
    def lines(self) -> dict[str, Line]:
        """What the plan is, in lines that differ where a stored state would not fit."""
        return plan_lines(self)

    def described(self) -> dict[str, str]:
        """The same in words, as every state has it with it."""
        return {name: str(line) for name, line in self.lines.items()}


def _is_entry(node: Node) -> TypeGuard[Entry]:
    """Whether rows come to a shard at a step: the first on their way that follows arrivals."""
    if isinstance(node, LatenessStep):
        return not any(isinstance(one, HeartbeatsInShards) for one in walk(node))
    return isinstance(node, HeartbeatsInShards | ByOrigin | ChangesInShards)


def _refuse_steps(steps: Iterable[LatenessStep]) -> None:
    """Refuse what shards could not do alike."""
    for step in steps:
        _refuse_cadence(step)
        if not _is_entry(step):
            _refuse_filters(step)


def _refuse_cadence(step: LatenessStep) -> None:
    if step.cadence.unit is not CadenceUnit.BATCH and not step.cadence.by_default:
        hint = "leave every= out, or say so: every=Every.batch()"
        raise PlanError(message("on Spark punctuations are made once for each micro-batch", {"step": step.line}, hint))


def _refuse_filters(step: LatenessStep) -> None:
    """Refuse a patience behind bounds and a filter: shards do not know the newest of the rows of others."""
    way, node = [], step.input
    while node.traits.row_by_row:
        way.append(node)
        (node,) = node.inputs
    if not isinstance(node, HeartbeatsInShards):
        raise _holds_rows(step, node)
    filtering = next((one for one in way if not one.traits.keeps_rows), None)
    if filtering is not None and step.lateness.has_patience:
        facts = {"step": step.line, "filter": filtering.line}
        hint = "filter what in_bands() gives; or keep the columns that origin= and arrived= name, and leave ahead= out"
        raise PlanError(message("on Spark this filter hides the newest rows from other shards", facts, hint))


def _pipeline(entry: Entry, sums: SumsBesideRows | None) -> InputPipeline:
    *before, _ = walk(entry)
    for node in before:
        if not node.traits.map_side:
            raise _holds_rows(entry, node)
    source, *steps = before
    assert isinstance(source, SourceNode)
    rows = tuple(step for step in steps if isinstance(step, StepNode))
    if not isinstance(entry.input, PreaggregatedRows):
        return InputPipeline(source, rows, entry, sums=sums)
    first_window = next(place for place, step in enumerate(rows) if isinstance(step, AssignWindow))
    return InputPipeline(source, rows[:first_window], entry, rows[first_window:], entry.input)


def _holds_rows(step: Node, behind: Node) -> PlanError:
    facts, hint = {"step": step.line, "behind": behind.line}, "sort, or take bands, before that"
    return PlanError(message("on Spark a patience must come before the steps that hold rows", facts, hint))


def _related_to(pipeline: InputPipeline, pipelines: Sequence[InputPipeline]) -> dict[int, bytes]:
    """The ways in whose arrivals say how far this one is, itself among them, if bounds relate it to others."""
    entry = pipeline.entry
    if not isinstance(entry, RelatedInShards):
        return {}
    key_of = {stream.name: stream.key for stream in entry.together.streams}
    return {
        number: key_of[other.source.name]
        for number, other in enumerate(pipelines)
        if isinstance(other.entry, RelatedInShards) and other.entry.together is entry.together
    }


def _require_related(pipelines: Sequence[InputPipeline]) -> None:
    """Refuse a stream whose progress follows from another that the query does not read."""
    for pipeline in pipelines:
        entry, there = pipeline.entry, _related_to(pipeline, pipelines).values()
        if isinstance(entry, RelatedInShards):
            lacking = [stream.name for stream in entry.together.streams if stream.key not in there]
            if lacking:
                facts = {"stream": pipeline.source.name, "not read": ", ".join(lacking)}
                hint = "join or unite them, or start them in one query: sw.start_together(...)"
                raise PlanError(message("on Spark a query reads all streams that bounds relate", facts, hint))


def _needs_patience(line: str) -> PlanError:
    hint = "say how long to wait for late rows: sort(patience=..., every=Every.batch())"
    return PlanError(message("on Spark a source needs a patience before this step", {"read by": line}, hint))
