"""Nodes answer for themselves: no list of node classes elsewhere, and no node class that has not decided."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import slackwater
import slackwater as sw
import slackwater.plan.nodes
import slackwater.plan.rewrites
from slackwater.plan.node import Node, StepNode
from slackwater.plan.nodes.rows import UnaryNode
from slackwater.plan.traits import Traits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slackwater.operators.operator import Operator

_ROOT = Path(slackwater.__file__).parent

_ALLOWED = {
    "plan/rewrites/changes_in_shards.py": {"LateChanges"},
    "plan/rewrites/heartbeats_in_shards.py": {"ByOrigin", "Heartbeats", "HeartbeatsInShards"},
    "plan/rewrites/hold_by_label.py": {"ChooseRelease"},
    "plan/rewrites/labels.py": {"LatenessStep"},
    "plan/rewrites/last_punctuations.py": {"Punctuate"},
    "plan/rewrites/needless_sorts.py": {"AggregateStep", "AssignWindow", "Sort"},
    "plan/rewrites/panes.py": {"AggregateStep", "AssignWindow"},
    "plan/rewrites/preaggregate.py": {
        "AggregateByOrigin",
        "AssignWindow",
        "BandedAggregate",
        "GroupingNode",
        "Heartbeats",
        "Punctuate",
        "Select",
    },
    "plan/rewrites/sort_as_needed.py": {"AssignWindow", "Sort"},
    "plan/rewrites/sums_beside_rows.py": {
        "AggregateStep",
        "AssignWindow",
        "EarlyAggregate",
        "HeartbeatsInShards",
        "Punctuate",
        "RelatedInShards",
        "Select",
        "Sort",
    },
    "plan/rewrites/unread_bands.py": {"Punctuate"},
    # What follows is about the one kind that is named, never about which of many kinds something holds for.
    "runners/attendance.py": {"MergeReplicas"},
    "runners/in_process/graph.py": {"MergeReplicas"},
    "runners/in_process/measured_labels.py": {"ChooseRelease", "Hold"},
    "runners/in_process/replicas.py": {"CompareReplicas", "CompleteAtEnd", "MergeReplicas", "UntrustedEnd"},
    "runners/spark/planning/shard_plan.py": {
        "AggregateStep",
        "AssignWindow",
        "ByOrigin",
        "ChangesInShards",
        "HeartbeatsInShards",
        "LatenessStep",
        "PreaggregatedRows",
        "PunctuateUnlessSummedUp",
        "RelatedInShards",
    },
    "runners/spark/pushdown/steps.py": {"AssignWindow", "Select", "Where"},
    "runners/spark/runner.py": {"MergeReplicas"},
    "runners/spark/shard/shard.py": {"LatenessStep"},
    "runners/spark/shard/untrusted_ends.py": {"UntrustedEnd"},
    "runners/steering.py": {"LatenessStep"},
    "sources/race.py": {"MergeReplicas", "Sort"},
}
"""Files outside plan/nodes that ask for classes of nodes. A rewrite names the pattern that it makes anew, the push-down
the steps that it has a translation for, and replicas that come and go are those of one kind of step."""


def _node_classes() -> set[type[Node]]:
    for package in (slackwater.plan.nodes, slackwater.plan.rewrites):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)

    def below(cls: type[Node]) -> Iterator[type[Node]]:
        for one in cls.__subclasses__():
            yield one
            yield from below(one)

    every = below(Node)  # type: ignore[type-abstract]
    return {cls for cls in every if cls.__module__.startswith("slackwater.")}


def _classes_asked_for(tree: ast.Module) -> Iterator[str]:
    """The names that stand as the class of an isinstance, or of a class pattern."""
    for node in ast.walk(tree):
        asked: list[ast.AST] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"isinstance", "type"}:
            asked = list(node.args[1:])
        elif isinstance(node, ast.MatchClass):
            asked = [node.cls]
        for one in asked:
            yield from (name.id for name in ast.walk(one) if isinstance(name, ast.Name))


def _imported_from_plans(tree: ast.Module) -> set[str]:
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module is not None]
    return {one.name for node in imports if str(node.module).startswith("slackwater.plan") for one in node.names}


def test_no_file_outside_the_nodes_asks_for_kinds_of_nodes_but_for_a_reason() -> None:
    """What a plan or a runner must know of a node, the node says: its traits, and its methods."""
    kinds = {cls.__name__ for cls in _node_classes()} - {"StepNode", "SourceNode", "SideOutput", "UnaryNode"}
    found = {}
    for file in sorted(_ROOT.rglob("*.py")):
        name = file.relative_to(_ROOT).as_posix()
        if name.startswith(("plan/nodes/", "testing/")):
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        asked = kinds & _imported_from_plans(tree) & set(_classes_asked_for(tree))
        if asked:
            found[name] = asked
    assert found == _ALLOWED


def test_tuples_of_node_classes_are_not_kept() -> None:
    """A closed list of kinds drifts away from the kinds there are."""
    kinds = {cls.__name__ for cls in _node_classes()}
    for file in sorted(_ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Tuple | ast.List | ast.Set) and len(node.elts) > 1:
                names = {one.id for one in node.elts if isinstance(one, ast.Name)}
                assert not (len(names) == len(node.elts) and names <= kinds), f"{file}: {ast.unparse(node)}"


def test_every_kind_of_node_has_decided() -> None:
    """A class that can be made has traits of its own, or those of the kind that it is a kind of."""
    abstract = {cls.__name__ for cls in _node_classes() if inspect.isabstract(cls)}
    assert abstract == {"StepNode", "UnaryNode", "RowNode", "LatenessStep", "GroupingNode", "MatchingNode", "ByOrigin"}


def test_a_kind_that_has_not_decided_cannot_be_made() -> None:
    """The safe answers are given on purpose, by `traits = Traits()`."""

    @dataclass(frozen=True, eq=False)
    class Undecided(UnaryNode):
        verb = "undecided"

        def details(self) -> str:
            return ""

        def reason(self) -> str:
            return ""

        def build(self, step: str, resume: None = None) -> Operator[None]:
            raise NotImplementedError

    rows = sw.stream([{"at": 1}], time="at").node
    with pytest.raises(TypeError, match="traits"):
        Undecided(rows)  # type: ignore[abstract]


def test_the_safe_answers_cost_speed_and_never_rows() -> None:
    """Of a step that has decided nothing else, nothing is moved, pushed down, spread or left out."""
    traits = Traits()
    assert not any([traits.row_by_row, traits.map_side, traits.sorts_itself, traits.copies_rows])
    assert traits.flushes_at_end

    @dataclass(frozen=True, eq=False)
    class Careful(UnaryNode):
        verb = "careful"
        traits = Traits()

        def details(self) -> str:
            return ""

        def reason(self) -> str:
            return ""

        def build(self, step: str, resume: None = None) -> Operator[None]:
            raise NotImplementedError

    rows = sw.stream([{"at": 1, "x": 2, "y": 3}], time="at").node
    careful: StepNode = Careful(rows)
    assert careful.partition_keys == ()
    assert careful.column_inputs("x") == []
    assert careful.columns_read(frozenset(), rows) == {"x", "y"}
    assert not careful.commutes_with_sort
    assert careful.fixed_length is None


def test_settled_replicas_are_merged_alike_whatever_treats_their_rows_one_by_one() -> None:
    """A step that leaves rows their places leaves them the order of their ties: case R1, as without it."""
    rows = [{"change": "insert", "at": 1, "x": "a"}, {"change": "insert", "at": 1, "x": "b"}]

    def replica() -> sw.OrderedStream:
        return sw.changes(rows, time="at").settle()

    plain = sw.merge_replicas(replica(), replica())
    selected = sw.merge_replicas(replica().select("x"), replica().select("x"))
    mapped = sw.merge_replicas(replica().map_batches(lambda batch: batch), replica().map_batches(lambda batch: batch))
    for merged in (plain, selected, mapped):
        assert "case R1" in merged.explain()
