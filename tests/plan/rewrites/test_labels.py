"""Labels in plans: those of Figure 6 on trees, what any reader asks for in other plans, and where rows wait."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

import narwhals as nw
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.plan.node import SourceNode, walk
from slackwater.plan.rewrites.labels import LabelledPlan
from slackwater.testing.oracles.heartbeats.labels import Step, labels, memory_links

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hypothesis.strategies import DrawFn

    from slackwater.plan.node import Node
    from slackwater.plan.rewrites.labels import Label

_GROWTH = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, 4.0])


def _source(name: str) -> sw.OrderedStream:
    return sw.stream([{"at": 1, "k": 1}], time="at", name=name).assume_ordered()


def _named(label: Label) -> frozenset[str]:
    """The names of the sources of streams."""
    return frozenset(node.name for one in label for node in walk(one) if isinstance(node, SourceNode))


def _planned(step: Step, made: dict[str, sw.OrderedStream]) -> sw.OrderedStream:
    """The same operators as a plan of unions; an operator that occurs twice is one step."""
    if step.name not in made:
        inputs = [_source(one) if isinstance(one, str) else _planned(one, made) for one in step.inputs]
        made[step.name] = sw.union(*inputs)
    return made[step.name]


@st.composite
def _graphs(draw: DrawFn, *, trees: bool) -> Step:
    """Operators that read a stream of their own, and others; in trees none is read twice."""
    size = draw(st.integers(1, 6))
    reads: dict[int, set[int]] = {number: set() for number in range(size)}
    for child in range(1, size):
        parents = draw(st.sets(st.integers(0, child - 1), min_size=1, max_size=1 if trees else 3))
        for parent in parents:
            reads[parent].add(child)
    made: dict[int, Step] = {}
    for number in reversed(range(size)):
        inputs: tuple[Step | str, ...] = (f"S{number}", *(made[child] for child in sorted(reads[number])))
        made[number] = Step(f"O{number}", inputs, draw(_GROWTH))
    return made[0]


def _labels_of_plan(step: Step) -> dict[str, frozenset[str]]:
    made: dict[str, sw.OrderedStream] = {}
    root = _planned(step, made).node
    growth = {made[one.name].node: float(one.selectivity) for one in step.subtree()}
    found: Mapping[Node, Label] = LabelledPlan.under(root).labels(growth.__getitem__)
    return {name: _named(found[stream.node]) for name, stream in made.items()}


@given(_graphs(trees=True))
def test_on_trees_labels_are_those_of_figure_6(step: Step) -> None:
    """Section 7.4, against the paper's own words."""
    assert _labels_of_plan(step) == labels(step, memory_links(step))


@given(_graphs(trees=False))
def test_a_step_that_several_read_has_the_labels_of_all_its_copies(step: Step) -> None:
    """A plan that is no tree is unfolded into one in which every reader has a copy of its own."""
    unfolded: dict[str, Step] = {}

    def copied(one: Step, path: str) -> Step:
        name = f"{path}/{one.name}"
        inputs = tuple(copied(inner, name) if isinstance(inner, Step) else inner for inner in one.inputs)
        unfolded[name] = Step(name, inputs, one.selectivity)
        return unfolded[name]

    tree = copied(step, "")
    of_copies: dict[str, frozenset[str]] = {}
    for name, label in labels(tree, memory_links(tree)).items():
        original = name.rpartition("/")[2]
        of_copies[original] = of_copies.get(original, frozenset()) | label
    assert _labels_of_plan(step) == of_copies


@given(_graphs(trees=False))
def test_what_comes_to_a_step_has_waited_for_its_label(step: Step) -> None:
    """On every way from a stream to a step, some hold or the steps passed have waited for all of the step's label."""
    made: dict[str, sw.OrderedStream] = {}
    root = _planned(step, made).node
    growth = {made[one.name].node: float(one.selectivity) for one in step.subtree()}
    plan = LabelledPlan.under(root)
    found, holds = plan.labels(growth.__getitem__), plan.waits(growth.__getitem__)
    waited = {node: label for node, label in plan.streams.items() if node not in found}
    for node in plan.steps:
        for source in node.inputs:
            label = waited[source] | holds.get((node, source), frozenset()) | plan.streams[node]
            assert label >= found[node]
        waited[node] = found[node]
    for (node, _), others in holds.items():
        assert others, "nobody is waited for"
        assert others.isdisjoint(plan.streams[node]), "a step waits for its own streams by itself"


def _holds_in(stream: sw.Stream) -> list[str]:
    lines = stream.explain().splitlines()
    return [line.partition("hold#")[2].partition("  ")[0] for line in lines if "hold#" in line]


def _figure_5(*, between: bool = False) -> sw.OrderedStream:
    s1, s2, s3 = (sw.stream([{"at": 1, "k": 1}], time="at", name=name).sort(patience=1) for name in ("s1", "s2", "s3"))
    first = s1.join(s2, on="k", within=5).select("k")
    if between:
        first = first.where(nw.col("k") == 1)
    return first.join(s3, on="k", within=5)


def test_figure_5_by_each_release() -> None:
    """Nobody is held, both inputs of the first join are, or both if it makes more of its rows."""
    plan = _figure_5()
    assert _holds_in(plan.release(sw.Release.by_operator())) == []
    assert _holds_in(plan.release(sw.Release.by_query())) == ["1 for s3", "2 for s3"]
    for growth in ({"join#1": 3.0}, {"join": 1.5}):
        assert _holds_in(plan.release(sw.Release.by_memory(growth=growth))) == ["1 for s3", "2 for s3"]
    for growth in ({"join#1": 1.0}, {"join": 0.5}, {"join#2": 9.0}):
        assert _holds_in(plan.release(sw.Release.by_memory(growth=growth))) == []


def test_what_a_filter_takes_away_again_needs_no_hold() -> None:
    """The chain up to the filter is not proliferative."""
    plan = _figure_5(between=True)
    assert _holds_in(plan.release(sw.Release.by_memory(growth={"join#1": 3.0, "where": 0.25}))) == []
    assert _holds_in(plan.release(sw.Release.by_memory(growth={"join#1": 3.0, "where": 0.5}))) == [
        "1 for s3",
        "2 for s3",
    ]


def test_steps_that_need_no_order_take_rows_as_they_come() -> None:
    """Section 7.5: filters and aggregates are not held before, whatever was chosen."""
    s1, s2 = (sw.stream([{"at": 1, "k": 1}], time="at", name=name).sort(patience=1) for name in ("s1", "s2"))
    counted = s1.where(nw.col("k") == 1).tumbling(5).group_by("k").aggregate(n=sw.count()).select("k")
    both = counted.join(s2, on="k", within=5).release(sw.Release.by_query())
    assert _holds_in(both) == []


def test_rows_wait_before_windows_that_multiply_them() -> None:
    """How many windows an event falls into is known from the plan; those that an aggregate sums up are no more rows."""
    s1, s2 = (sw.stream([{"at": 1, "k": 1}], time="at", name=name).sort(patience=1) for name in ("s1", "s2"))
    hopped = s1.hopping(6, 2).sort().select("k").join(s2.tumbling(2).select("k"), on="k")
    held = hopped.release(sw.Release.by_memory(growth={"join": 1.0}))
    assert _holds_in(held) == ["1 for s2"]
    assert "hopping" in next(line for line in held.explain().splitlines() if "hopping#1" in line)
    counted = s1.hopping(6, 2).aggregate(n=sw.count()).join(s2.tumbling(2), on=())
    assert _holds_in(counted.release(sw.Release.by_memory(growth={"aggregate": 0.1, "join": 1.0}))) == []


def test_no_replica_is_waited_for_by_the_steps_of_another() -> None:
    """A merge goes on with whoever is furthest; a replica that is dead must hold up nobody."""
    replicas = [_source(f"a{number}").join(_source(f"b{number}"), on="k", within=5) for number in range(2)]
    merged = sw.merge_replicas(*replicas).select("k")
    plan = merged.join(_source("c"), on="k", within=5).release(sw.Release.by_query())
    assert _holds_in(plan) == []


def test_bands_of_one_source_are_streams_of_their_own() -> None:
    """Each has a patience of its own, and so progress of its own."""
    rows = sw.stream([{"at": 1, "k": 1}], time="at", name="rows")
    _, later = rows.in_bands(1, 9)
    other = _source("other")
    plan = LabelledPlan.under(later.select("k").join(other, on="k", within=3).node)
    assert len(plan.streams[plan.root]) == 3


def test_by_query_all_labels_are_all_streams() -> None:
    """Section 7.1."""
    plan = LabelledPlan.under(_figure_5().node)
    assert set(map(_named, plan.labels(lambda _: inf).values())) == {frozenset({"s1", "s2", "s3"})}
