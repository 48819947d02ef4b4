"""Finds the aggregates to which sums of rows may come beside rows: Spark makes them in the tasks that read the rows.

    rows ──┬── those that may be late ──> punctuate ──> where ──> tumbling ──> aggregate
           └── the others ──> where ──> tumbling ──> sums ────────────────────┘

Of a group nobody sees a row but the aggregate, and it needs no order; so it may as well get sums. They come to it past
the steps before it, which would have changed nothing but these rows. The plan stays what it is, and so does what is
remembered: this rewrites nothing. Where whole windows are late and late rows are dropped, all rows are summed up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from slackwater.operators.aggregate.group_rows import GroupRows
from slackwater.operators.emission import LATE
from slackwater.plan.node import SideOutput, StepNode, walk
from slackwater.plan.nodes.aggregating import AggregateStep
from slackwater.plan.nodes.early_aggregate import EarlyAggregate
from slackwater.plan.nodes.heartbeats import HeartbeatsInShards
from slackwater.plan.nodes.ordering import Punctuate, Sort
from slackwater.plan.nodes.related import RelatedInShards
from slackwater.plan.nodes.rows import AssignWindow, Select
from slackwater.policies.late import LateAction
from slackwater.policies.windows import Tumbling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.plan.node import Node
    from slackwater.plan.nodes.aggregating import GroupingNode
    from slackwater.plan.rewrites.transform import Readers


@dataclass(frozen=True)
class SumsBesideRows:
    """An aggregate, what decides which of its rows are late, and where these come to a shard."""

    entry: StepNode
    """The step at which a shard takes rows."""

    before: tuple[StepNode, ...]
    """The steps from there on that a row passes before it may be late."""

    punctuate: Punctuate
    behind: tuple[StepNode, ...]
    """Those that it passes then: they give it a window, or windows."""

    aggregate: AggregateStep

    @property
    def steps(self) -> tuple[StepNode, ...]:
        """What is done to a row before it is summed up, if it is not late."""
        return (*self.before, *self.behind)

    @cached_property
    def groups(self) -> GroupRows:
        """How sums are written as rows."""
        step = self.aggregate
        return GroupRows(step.input.schema, step.keys, step.aggregates, step.verb)

    @property
    def of_late_rows(self) -> bool:
        """Whether all rows are summed up: whole windows are late, nobody sees late rows, and all steps take them."""
        window, *others = self.behind
        return (
            self.entry is self.punctuate
            and self.punctuate.late.action is LateAction.DROPPED
            and self.punctuate.windows is not None
            and not self.punctuate.input.properties.untimed
            and isinstance(window, AssignWindow)
            and all(isinstance(step, Select) and step.only_chooses for step in others)
        )

    @property
    def keeps_rows(self) -> bool:
        """Whether each row is summed up once, so that sums say how many rows there were."""
        return all(
            step.traits.keeps_rows or (isinstance(step, AssignWindow) and isinstance(step.window, Tumbling))
            for step in self.steps
        )

    @property
    def window_of_moved_rows(self) -> Tumbling | None:
        """The windows of which one has rows that were late, and have been moved into it; None where it is all the same.

        Groups of one window come as they first appeared, and who comes first, a row that is moved or one that is in a
        sum, nobody could say.
        """
        if self.punctuate.late.action is not LateAction.ADJUSTED or not self.aggregate.keys:
            return None
        (window,) = _windows(self.behind)
        assert isinstance(window, Tumbling)
        return window


def sums_beside_rows(node: AggregateStep, readers: Readers) -> SumsBesideRows | str:
    """How sums come to an aggregate beside rows; or why all its rows must come as they are."""
    behind = _way_up(node.input, readers)
    punctuate = behind[0].inputs[0] if behind else node.input
    if not isinstance(punctuate, Punctuate):
        return _why_not_behind(punctuate, behind, readers)
    beats = next((one for one in walk(punctuate) if isinstance(one, HeartbeatsInShards)), None)
    before = [] if beats is None else _way_up(punctuate.input, readers)
    found = SumsBesideRows(beats or punctuate, tuple(before), punctuate, tuple(behind), node)
    why_not = None if beats is None else _why_not_by_bounds(beats, readers)
    return why_not or _why_not_summed_up(found, readers) or found


def why_not_beside_rows(node: GroupingNode, readers: Readers) -> str | None:
    """Why all rows of an aggregate come to shards as they are; None if sums of them do."""
    if isinstance(node, EarlyAggregate):
        return "its answers follow each row"
    assert isinstance(node, AggregateStep)
    found = sums_beside_rows(node, readers)
    return found if isinstance(found, str) else None


def _way_up(node: Node, readers: Readers) -> list[StepNode]:
    """The steps above an aggregate that treat each row by itself, the first on the way of a row first."""
    way: list[StepNode] = []
    while isinstance(node, StepNode) and node.traits.row_by_row and node.traits.map_side and len(readers[node]) == 1:
        way.insert(0, node)
        (node,) = node.inputs
    return way


def _is_time_of_rows(found: SumsBesideRows) -> bool:
    """Whether a key has the values of the time that rows came with, which is a column of another kind then."""
    names = set(found.aggregate.keys)
    for step in reversed(found.steps):
        names = {name for key in names for _, name in step.column_inputs(key)}
    return found.entry.schema.time.name in names


def _windows(steps: Sequence[StepNode]) -> list[object]:
    return [step.window for step in steps if isinstance(step, AssignWindow)]


def _why_not_behind(step: Node, behind: Sequence[StepNode], readers: Readers) -> str:
    """Why rows that come from a step must come to an aggregate one by one."""
    if not isinstance(step, Sort):
        return f"its rows come from {step.verb}, which is done in shards"
    if len(readers[step]) > 1 or not behind:
        return "another step reads the sorted rows"
    if isinstance(behind[0], AssignWindow):
        return "groups of windows that overlap come in the order of their rows, which are sorted first"
    return f"{behind[0].verb} gets rows in order; do it before they are sorted"


def _why_not_summed_up(found: SumsBesideRows, readers: Readers) -> str | None:
    """Why rows that are known to be in time cannot be summed up before they come to their shard."""
    late, windows = found.punctuate.late.action, _windows(found.behind)
    read = [one for one in readers[found.punctuate] if not (isinstance(one, SideOutput) and one.output == LATE)]
    if len(read) > 1:
        return "another step reads the same rows"
    if not windows:
        return "there is no window before it, and sums of single instants spare nothing"
    if _is_time_of_rows(found):
        return f"its key {found.entry.schema.time.name} is the time of rows, by which sums would come to other shards"
    if late is LateAction.ADJUSTED and found.aggregate.keys and len(windows) > 1:
        return "late rows are moved, and windows are windows of windows"
    return None


def _why_not_by_bounds(beats: HeartbeatsInShards, readers: Readers) -> str | None:
    """Why rows must come to heartbeats one by one: one that is sent as a sum may be late, or break a bound."""
    if isinstance(beats, RelatedInShards):
        return "bounds of several streams say which rows are late"
    if beats.ahead is not None:
        return "only shards know which rows are ahead of the clock"
    if beats.source.arrived is not None:
        return f"within a micro-batch a row is late by those that arrived before it, as {beats.source.arrived} says"
    return "another step reads the same rows" if len(readers[beats]) > 1 else None
