"""What a stored state depends on: the plan of a query in lines, by which a start compares it with its checkpoint.

    source#1      time=at origin=who                             reads file:///data/in
    punctuate#1   patience=5s every batch, late rows diverted    reads source#1          gives at: timestamp[us], ...
    aggregate#1   n=count() per k                                reads punctuate#1       gives ...
    output main                                                  reads aggregate#1       gives ...
    shards        2                                              reads k

Rule 1: what was decided stays decided. Whatever decides which rows are late, which rows meet in one shard, what is held
of them, and which source Spark's log of offsets speaks of, has its part in a line.
Rule 2: what decides nothing has none, and may change: names, sinks, triggers, columns that nobody reads, and the steps
that treat each row by itself behind all that compares rows. Such a step is what it is for the rows that come to it from
now on; no punctuation, no group and no row that is held depends on it.

A filter before a patience does: with another one other rows would be the newest. So do columns that are computed before
an aggregate, a join or a merge, which would compare old values with new ones.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from slackwater.operators.emission import DIVERTED
from slackwater.plan.node import Node, SideOutput, SourceNode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slackwater.runners.spark.planning.shard_plan import ShardPlan


class Line(NamedTuple):
    """What is shown of one step, source, output or choice.

    >>> str(Line("of 2", "sort#1, sort#2", "at: int64"))
    'of 2, reads sort#1, sort#2, gives at: int64'
    """

    says: str
    """What was chosen, as explain() has it."""

    reads: str = ""
    """Where its rows come from."""

    gives: str = ""
    """The columns of its rows."""

    def __str__(self) -> str:
        parts = (self.says, f"reads {self.reads}" * bool(self.reads), f"gives {self.gives}" * bool(self.gives))
        return ", ".join(filter(None, parts))

    def shown_beside(self, other: Line | None) -> str:
        """What was chosen, and the rest only where it is what differs: columns may be many.

        >>> Line("of 2", "sort#1, sort#2", "at: int64").shown_beside(Line("of 2", "sort#1, sort#2", "at: double"))
        'of 2, gives at: int64'
        """
        if other is None:
            return str(self._replace(gives=""))
        alike = {name: "" for name in ("reads", "gives") if getattr(self, name) == getattr(other, name)}
        return str(self._replace(**alike))


def plan_lines(plan: ShardPlan) -> dict[str, Line]:
    """What the state of a plan depends on, by the names of its steps; those that others read come first."""
    free = free_steps(plan)
    names = _names([node for node in plan.names if node not in free], plan.names)

    def origin(node: Node) -> str:
        while node in free:
            (node,) = node.inputs
        return f"{names[node.step]} {node.output}" if isinstance(node, SideOutput) else names[node]

    lines = {}
    for node, name in names.items():
        if isinstance(node, SideOutput):
            continue  # it only points
        reads = ", ".join(map(origin, node.inputs))
        says = _times(node) if isinstance(node, SourceNode) else node.details()
        lines[name] = Line(says, reads, "" if isinstance(node, SourceNode) else _columns(node))
    outputs = {
        f"output {name}": Line("", origin(node), _columns(node))
        for name, node in plan.outputs.items()
        if name.partition(" ")[0] not in DIVERTED  # of which the step that diverts says all, but whom it calls them by
    }
    return {**lines, **outputs, "shards": Line(str(plan.shards), _deciding(plan, names))}


def free_steps(plan: ShardPlan) -> set[Node]:
    """The steps that may be others, or missing, when a query goes on: what lies behind them compares no rows."""
    compared: set[Node] = set()
    for node in reversed(plan.names):
        if node in compared or node.traits.compares_rows:
            compared.update(node.inputs)
    return {node for node in plan.names if node.traits.may_change and node not in compared}


def differences(then: Mapping[str, Line], now: Mapping[str, Line]) -> list[str]:
    """What differs, line by line: with - in front as it was, with + as it is.

    >>> differences({"sort#1": Line("patience=5s")}, {"sort#1": Line("patience=10s"), "shards": Line("2")})
    ['- sort#1 patience=5s', '+ sort#1 patience=10s', '+ shards 2']
    """
    found = []
    for name in {**then, **now}:
        was, is_now = then.get(name), now.get(name)
        if was != is_now:
            found += [f"- {name} {was.shown_beside(is_now)}".rstrip()] if was is not None else []
            found += [f"+ {name} {is_now.shown_beside(was)}".rstrip()] if is_now is not None else []
    return found


def _names(kept: Sequence[Node], names: Mapping[Node, str]) -> dict[Node, str]:
    """The names of steps, counted without those that may change."""
    counts: Counter[str] = Counter()
    found = {}
    for node in sorted(kept, key=lambda node: int(names[node].rpartition("#")[2])):
        counts[node.verb] += 1
        found[node] = f"{node.verb}#{counts[node.verb]}"
    return {node: found[node] for node in kept}


def _times(source: SourceNode) -> str:
    """The columns that say when, and who; the name that users give a source decides nothing."""
    return source.details().removeprefix(source.name).strip()


def _columns(node: Node) -> str:
    return ", ".join(f"{one.name}: {one.type}{'' if one.nullable else ' not null'}" for one in node.schema.shown)


def _deciding(plan: ShardPlan, names: Mapping[Node, str]) -> str:
    """The columns that decide the shard of a row, where there are several shards."""
    if plan.columns is None:
        return ""
    return "; ".join(f"{', '.join(columns)} of {names[entry]}" for entry, columns in plan.columns.items())
