"""Which columns decide the shard of a row, so that all rows that a step needs together are in one shard.

A step that remembers rows or groups needs those together that have the same keys. Columns that are among the keys of
every such step, and can be followed up to where rows enter, may decide. Where there are none all rows go to one shard:
a total order, or one number for everything, has one place.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from slackwater.plan.node import Node, StepNode, walk

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

Columns: TypeAlias = "Mapping[Node, tuple[str, ...]]"
"""For each step at which rows enter a shard, the columns that decide: in the same order for all."""


def deciding_columns(roots: Sequence[Node], entries: Collection[Node]) -> Columns | None:
    """Find columns that may decide, for the steps at which rows enter; None if all rows must be in one shard."""
    inside = [node for node in walk(*roots) if isinstance(node, StepNode) and _is_behind(node, entries)]
    needs = [_followed_keys(node, entries) for node in inside if node.partition_keys is not None]
    needs += [_own_keys(node) for node in entries if node.partition_keys is not None]
    candidates = [dict(zip(entries, _by_entry(need, entries), strict=True)) for need in needs if _covers(need, entries)]
    fitting = [one for one in candidates if all(_suffices(one, need) for need in needs)]
    return max(fitting, key=lambda one: len(next(iter(one.values()))), default=None)


def why_one_shard(roots: Sequence[Node], entries: Collection[Node]) -> str:
    """Why no columns decide: which step needs all rows in one place."""
    inside = [node for node in walk(*roots) if isinstance(node, StepNode) and _is_behind(node, entries)]
    with_memory = [node for node in inside if node.partition_keys is not None]
    if not with_memory and all(node.partition_keys is None for node in entries):
        return "a total order over all rows has one place"
    without_keys = next((node for node in with_memory if not _followed_keys(node, entries)), None)
    if without_keys is not None:
        return f"{without_keys.line} has no keys that rows bring along"
    return "no column is a key of every step"


def deciding_columns_at(step: StepNode, source: Node, deciding: Columns) -> tuple[str, ...]:
    """What the columns that decide are called in an input of a step, among the keys of the step, if it has any.

    Where an input has not all of them none decides: nothing behind the step needs its rows together.
    """
    if step in deciding:
        return deciding[step]
    candidates = source.schema.columns if step.partition_keys is None else step.partition_keys
    found = []
    for position in range(len(next(iter(deciding.values())))):
        wanted = {entry: columns[position] for entry, columns in deciding.items()}
        names = (name for name in candidates if _comes_of(_origins(source, name, deciding), wanted))
        name = next(names, None)
        if name is None:
            return ()
        found.append(name)
    return tuple(found)


def _comes_of(origins: _Origins | None, wanted: _Origins) -> bool:
    return origins is not None and all(wanted[entry] == column for entry, column in origins.items())


_Origins: TypeAlias = "dict[Node, str]"
"""The columns, by where rows enter, that a column of a step has its values from."""


def _is_behind(node: Node, entries: Collection[Node]) -> bool:
    return node not in entries and any(one in entries for one in walk(node))


def _followed_keys(node: StepNode, entries: Collection[Node]) -> list[_Origins]:
    """The keys of a step that can be followed up, on all ways into it, to where rows enter."""
    followed = []
    for key in node.partition_keys or ():
        ways = [_origins(source, key, entries) for source in node.inputs]
        origins = _together(ways)
        if origins is not None:
            followed.append(origins)
    return followed


def _own_keys(entry: Node) -> list[_Origins]:
    """The columns by which rows must be together in the very step at which they enter."""
    return [{entry: name} for name in entry.partition_keys or ()]


def _origins(node: Node, column: str, entries: Collection[Node]) -> _Origins | None:
    """Follow a column up to where rows enter; None where its values come from a computation."""
    if node in entries:
        until = node.schema.until
        return {node: column} if column in node.schema.columns and not (until and until.name == column) else None
    return _together([_origins(source, what, entries) for source, what in node.column_inputs(column)])


def _together(ways: Sequence[_Origins | None]) -> _Origins | None:
    """The origins on all ways; None if there are none on one, or two say different columns of the same rows."""
    origins: _Origins = {}
    for way in ways:
        if way is None or any(origins.get(entry, column) != column for entry, column in way.items()):
            return None
        origins |= way
    return origins or None


def _covers(need: list[_Origins], entries: Collection[Node]) -> bool:
    return bool(need) and all(set(origins) == set(entries) for origins in need)


def _by_entry(need: list[_Origins], entries: Collection[Node]) -> list[tuple[str, ...]]:
    return [tuple(origins[entry] for origins in need) for entry in entries]


def _suffices(columns: Columns, need: list[_Origins]) -> bool:
    """Whether each deciding column is a key of a step, on every way into it."""
    reached = set(chain.from_iterable(need))
    positions = range(len(next(iter(columns.values()))))
    return bool(need) and all(
        any(all(columns[entry][position] == origins.get(entry) for entry in reached) for origins in need)
        for position in positions
    )
