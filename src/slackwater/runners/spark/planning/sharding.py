"""Which columns decide the shard of a row, so that all rows that meet in a step are in one shard.

A step that remembers rows or groups needs those together that have the same keys. Columns that are among the keys of
every such step, and can be followed up to where rows enter, may decide. Where there are none all rows go to one shard:
a total order, or one number for everything, has one place.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from slackwater.plan.node import Node, SideOutput, StepNode, walk
from slackwater.plan.nodes.aggregating import AggregateStep, CutAtChanges
from slackwater.plan.nodes.bands import BandedAggregate
from slackwater.plan.nodes.combining import FollowedBy, Join, Union
from slackwater.plan.nodes.compare_replicas import CompareReplicas
from slackwater.plan.nodes.deduplicate import Deduplicate
from slackwater.plan.nodes.ordering import Punctuate, Sort
from slackwater.plan.nodes.replicas import MergeReplicas
from slackwater.plan.nodes.replicas_by_column import MergeByColumn
from slackwater.plan.nodes.revisions import AssumeKeyed, CompleteAtEnd, Settle, UntrustedEnd
from slackwater.plan.nodes.rows import AssignWindow, AssumeOrdered, MapBatches, Select, Where

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

Columns: TypeAlias = "Mapping[Node, tuple[str, ...]]"
"""For each step at which rows enter a shard, the columns that decide: in the same order for all."""

_TREAT_ROWS_ALONE = (
    Where,
    Select,
    MapBatches,
    AssignWindow,
    AssumeOrdered,
    Punctuate,
    Sort,
    Union,
    UntrustedEnd,
    CompleteAtEnd,
)
"""Steps that need nobody but the row itself, or only its turn."""

_COMPARE_WHOLE_ROWS = (MergeReplicas, CompareReplicas, AssumeKeyed, Settle)
"""Steps in which events meet that have the same start and payload."""


_KEEP_COLUMNS = (
    *(Where, AssignWindow, Sort, UntrustedEnd, CompleteAtEnd, AssumeOrdered, AssumeKeyed, Settle),
    *(AggregateStep, CutAtChanges, BandedAggregate, Join, FollowedBy, Union, MergeReplicas, Deduplicate),
)
"""Steps whose columns have the values that they had in all inputs; of those with keys, the keys."""


def deciding_columns(roots: Sequence[Node], pipelines: Collection[Node]) -> Columns | None:
    """Find columns that may decide, for the steps at which rows enter; None if all rows must be in one shard."""
    inside = [node for node in walk(*roots) if isinstance(node, StepNode) and _is_behind(node, pipelines)]
    needs = [_followed_keys(node, pipelines) for node in inside if not isinstance(node, _TREAT_ROWS_ALONE)]
    needs += [_merged_columns(node) for node in pipelines if isinstance(node, MergeByColumn)]
    candidates = [
        dict(zip(pipelines, _by_pipeline(need, pipelines), strict=True)) for need in needs if _covers(need, pipelines)
    ]
    fitting = [one for one in candidates if all(_suffices(one, need) for need in needs)]
    return max(fitting, key=lambda one: len(next(iter(one.values()))), default=None)


def why_one_shard(roots: Sequence[Node], pipelines: Collection[Node]) -> str:
    """Why no columns decide: which step needs all rows in one place."""
    inside = [node for node in walk(*roots) if isinstance(node, StepNode) and _is_behind(node, pipelines)]
    with_memory = [node for node in inside if not isinstance(node, _TREAT_ROWS_ALONE)]
    if not with_memory and not any(isinstance(node, MergeByColumn) for node in pipelines):
        return "a total order over all rows has one place"
    without_keys = next((node for node in with_memory if not _followed_keys(node, pipelines)), None)
    if without_keys is not None:
        return f"{without_keys.line} has no keys that rows bring along"
    return "no column is a key of every step"


_Origins: TypeAlias = "dict[Node, str]"
"""The columns, by where rows enter, that a column of a step has its values from."""


def _is_behind(node: Node, pipelines: Collection[Node]) -> bool:
    return node not in pipelines and any(one in pipelines for one in walk(node))


def _followed_keys(node: StepNode, pipelines: Collection[Node]) -> list[_Origins]:
    """The keys of a step that can be followed up, on all ways into it, to where rows enter."""
    followed = []
    for key in _keys(node):
        ways = [_origins(source, key, pipelines) for source in node.inputs]
        origins = _together(ways)
        if origins is not None:
            followed.append(origins)
    return followed


def _merged_columns(entry: MergeByColumn) -> list[_Origins]:
    """What replicas have in common that meet where their rows enter: the column that tells them apart is not in it."""
    return [{entry: name} for name in (entry.schema.time.name, *entry.schema.payload.names)]


def _keys(node: StepNode) -> tuple[str, ...]:
    match node:
        case AggregateStep() | CutAtChanges() | BandedAggregate():
            return node.keys
        case Join() | FollowedBy() | Deduplicate():
            return node.on
        case _ if isinstance(node, _COMPARE_WHOLE_ROWS):
            schema = node.inputs[0].schema
            return (schema.time.name, *schema.payload.names)
    return ()


def _origins(node: Node, column: str, pipelines: Collection[Node]) -> _Origins | None:
    """Follow a column up to where rows enter; None where its values come from a computation."""
    if node in pipelines:
        until = node.schema.until
        return {node: column} if column in node.schema.columns and not (until and until.name == column) else None
    return _together([_origins(source, what, pipelines) for source, what in _one_up(node, column)])


def _one_up(node: Node, column: str) -> list[tuple[Node, str]]:
    """The columns of the inputs that a column has its values from; none where they come from a computation."""
    match node:
        case SideOutput():
            return [(node.step, column)]
        case Select():
            times = {time.name for time in node.input.schema.time_columns()}
            what = node.outputs.get(column, column if column in times else None)
            return [(node.input, what)] if isinstance(what, str) else []
        case AssignWindow() if column in {time.name for time in node.schema.time_columns()}:
            return []
        case AggregateStep() | CutAtChanges() | BandedAggregate() | Join() | FollowedBy() if column not in _keys(node):
            return []
        case _ if isinstance(node, _KEEP_COLUMNS):
            return [(source, column) for source in node.inputs]
    return []


def _together(ways: Sequence[_Origins | None]) -> _Origins | None:
    """The origins on all ways; None if there are none on one, or two say different columns of the same rows."""
    origins: _Origins = {}
    for way in ways:
        if way is None or any(origins.get(pipeline, column) != column for pipeline, column in way.items()):
            return None
        origins |= way
    return origins or None


def _covers(need: list[_Origins], pipelines: Collection[Node]) -> bool:
    return bool(need) and all(set(origins) == set(pipelines) for origins in need)


def _by_pipeline(need: list[_Origins], pipelines: Collection[Node]) -> list[tuple[str, ...]]:
    return [tuple(origins[pipeline] for origins in need) for pipeline in pipelines]


def _suffices(columns: Columns, need: list[_Origins]) -> bool:
    """Whether each deciding column is a key of a step, on every way into it."""
    reached = set(chain.from_iterable(need))
    positions = range(len(next(iter(columns.values()))))
    return bool(need) and all(
        any(all(columns[pipeline][position] == origins.get(pipeline) for pipeline in reached) for origins in need)
        for position in positions
    )
