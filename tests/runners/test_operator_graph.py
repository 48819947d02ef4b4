"""The operator graph: how operators are connected, fed and ended, and whose snapshots it takes."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import PlanError, StepFailed
from slackwater.events.batch import EventBatch
from slackwater.operators.emission import LATE, Emission, band_output
from slackwater.operators.operator import Operator
from slackwater.plan.node import SideOutput, SourceNode, StepNode, name_steps, walk
from slackwater.progress.instants import FOREVER
from slackwater.runners.graph_parts import Output, Step
from slackwater.runners.operator_graph import OperatorGraph, build_operators
from slackwater.runners.result import Counters
from slackwater.runners.snapshot import Snapshot, describe_steps

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.conftest import Parting

    from slackwater.plan.node import Node
    from slackwater.progress.frontier import Port
    from slackwater.streams.stream import Stream


def _arrivals(name: str = "numbers") -> sw.OrderedStream:
    """A stream whose source has consumers without a step between them and it."""
    return sw.arrivals(sw.PushSource(pa.schema({"v": pa.int64()}), name=name), punctuations=sw.Punctuations.none())


def _built(node: StepNode, name: str, state: Any) -> Operator[Any]:
    return node.build(name, state)


class _Fed:
    """A graph of some streams whose rows are put in by hand, and what has come out of each stream."""

    def __init__(
        self,
        *streams: Stream,
        resume: Mapping[str, Any] | None = None,
        build: Callable[[StepNode, str, Any], Operator[Any]] = _built,
    ) -> None:
        self.names = name_steps(*(stream.node for stream in streams))
        steps = {node: name for node, name in self.names.items() if isinstance(node, StepNode)}
        plan = describe_steps(self.names)
        operators = build_operators(steps, plan, resume or {}, build)
        self.sources: dict[Node, Output] = {
            node: Output(name, Counters()) for node, name in self.names.items() if isinstance(node, SourceNode)
        }
        self.graph = OperatorGraph(self.names, operators, plan, self.sources)
        self.seen: list[list[int]] = [[] for _ in streams]
        for stream, seen in zip(streams, self.seen, strict=True):
            self.graph.add_sink(stream.node, _into(seen))

    def put(self, *values: int, at: int = 0, source: int = 0) -> None:
        self.graph.put(list(self.sources.values())[source], _batch(*values, at=at))
        self.graph.run()

    def end(self, source: int = 0) -> None:
        self.graph.put(list(self.sources.values())[source], None)
        self.graph.run()

    def step(self, name: str) -> Step:
        (found,) = (step for step in self.graph.steps if step.name == name)
        return found


def _into(seen: list[int]) -> Callable[[EventBatch], None]:
    return lambda batch: seen.extend(_values(batch))


def _batch(*values: int, at: int = 0) -> EventBatch:
    return EventBatch.inserts(pa.record_batch({"v": pa.array(values, pa.int64())}), np.full(len(values), at))


def _values(batch: EventBatch) -> list[int]:
    return list(batch.payload.column("v").to_pylist())


# ---- wiring ---------------------------------------------------------------------------------------------------------


def _diamond() -> sw.OrderedStream:
    numbers = _arrivals().where(nw.col("v") > 0)
    return sw.union(numbers.where(nw.col("v") < 5), numbers.where(nw.col("v") > 7))


def test_a_diamond_has_each_step_once_and_producers_before_consumers() -> None:
    """The step at its top has two readers, the one at its bottom two inputs."""
    graph = _Fed(_diamond()).graph
    assert [step.name for step in graph.steps] == ["where#1", "where#2", "where#3", "union#1"]
    top, left, right, bottom = graph.steps
    assert [(arc.consumer, arc.port) for arc in top.arcs] == [(left, 0), (right, 0)]
    assert [arc.producer for arc in bottom.inputs] == [left, right]
    assert [(arc.consumer, arc.port) for arc in right.arcs] == [(bottom, 1)]
    assert [step.open_inputs for step in graph.steps] == [1, 1, 1, 2]


def test_rows_pass_a_diamond_by_both_ways_and_meet_again() -> None:
    """Each row once, and no queue keeps any."""
    fed = _Fed(_diamond())
    fed.put(0, 1, 8, at=3)
    fed.put(2, 6, 9, at=4)
    fed.end()
    assert fed.seen == [[1, 8, 2, 9]]
    assert [step.counters.rows_in for step in fed.graph.steps] == [6, 5, 5, 4]
    assert fed.graph.queued == 0
    assert fed.graph.peak_queued > 0


def test_plans_that_share_a_step_share_it_in_the_graph() -> None:
    """Its rows go to both, and it is executed once."""
    shared = _arrivals().where(nw.col("v") > 1)
    fed = _Fed(shared, shared.where(nw.col("v") > 2))
    fed.put(1, 2, 3)
    assert fed.seen == [[2, 3], [3]]
    assert len(fed.graph.steps) == 2


def test_a_step_whose_input_is_not_in_the_graph_has_an_entrance_of_its_own() -> None:
    """Also where another reads the same: what is put in for one is not for the other."""
    numbers = _arrivals()
    small, great = numbers.where(nw.col("v") < 5), numbers.where(nw.col("v") > 5)
    assert isinstance(small.node, StepNode)
    assert isinstance(great.node, StepNode)
    names = name_steps(small.node, great.node)
    operators = {node: node.build(names[node]) for node in (small.node, great.node)}
    graph = OperatorGraph(names, operators, {})
    seen: list[int] = []
    for stream in (small, great):
        graph.add_sink(stream.node, _into(seen))
    assert list(graph.entrances) == [small.node, great.node]
    graph.put(graph.entrances[great.node], _batch(1, 9))
    graph.run()
    assert seen == [9]
    assert graph.step_of(small.node).counters.rows_in == 0


def test_a_batch_goes_as_far_down_as_it_can_before_the_next_is_taken() -> None:
    """Depth first: the sink has the rows of the first batch when the second is worked on."""
    order: list[str] = []

    class Noting(Operator[None]):
        __slots__ = ("_name",)

        def __init__(self, name: str) -> None:
            self._name = name

        def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one
            order.append(f"{self._name} {_values(batch)[0]}")
            halves = [batch.slice(at, at + 1) for at in range(len(batch))]
            return Emission.of(*halves)

        def on_end(self, port: Port) -> Emission:  # noqa: ARG002 - there is one
            return Emission()

        def snapshot(self) -> None:
            return

    stream = _arrivals().where(nw.col("v") > 0).where(nw.col("v") > 1)
    fed = _Fed(stream, build=lambda node, name, state: Noting(name))  # noqa: ARG005 - as all are built
    fed.put(1, 2, at=1)
    assert order == ["where#1 1", "where#2 1", "where#2 2"]
    assert fed.seen == [[1, 2]]


# ---- side outputs ---------------------------------------------------------------------------------------------------


def test_side_outputs_go_to_those_who_read_them(part: Parting) -> None:
    """Main output, band and late rows; several nodes may stand for one output."""
    main, band = part(_arrivals())
    late = SideOutput(main.node, LATE)  # type: ignore[arg-type]
    fed = _Fed(main, band, sw.DisorderedStream(late), band.where(nw.col("v") > 100), main.late)
    fed.put(1, 2, 100)
    fed.put(3, 4, 102)
    fed.end()
    assert fed.seen == [[2, 4], [100, 102], [1, 3], [102], [1, 3]]


def test_rows_of_a_side_output_that_nobody_reads_are_let_go(part: Parting) -> None:
    """They are counted where they leave."""
    main, _ = part(_arrivals())
    fed = _Fed(main)
    fed.put(1, 2, 100)
    fed.end()
    assert fed.seen == [[2]]
    side = fed.step("part#1").side
    assert side[LATE].counters.rows_out == 1
    assert side[band_output(1)].counters is fed.step("part#1").counters


def test_a_step_behind_a_side_output_reads_it_from_the_step(part: Parting) -> None:
    """Whoever looks back along the arc comes to the step."""
    _, band = part(_arrivals())
    fed = _Fed(band.where(nw.col("v") > 100))
    (arc,) = fed.step("where#1").inputs
    assert arc.producer is fed.step("part#1")
    assert fed.step("part#1").side[band_output(1)].arcs == [arc]


def test_a_sink_that_raises_is_named_by_its_output(part: Parting) -> None:
    """Step and output."""

    def full(_: EventBatch) -> None:
        raise OSError("disk full")

    main, band = part(_arrivals())
    fed = _Fed(main, band)
    fed.graph.add_sink(band.node, full)
    with pytest.raises(StepFailed, match=r"(?s)sink of part#1 \(band 1\).*disk full"):
        fed.put(100)


# ---- ends -----------------------------------------------------------------------------------------------------------


def test_an_end_comes_behind_what_its_step_flushes_and_ends_all_outputs(part: Parting) -> None:
    """What was held goes first; main output, band and late rows end together."""
    main, band = part(_arrivals())
    fed = _Fed(main, band, main.late)
    fed.put(1, 2, 100)
    assert (fed.seen, fed.graph.open_outputs) == ([[], [100], [1]], 3)
    fed.end()
    assert (fed.seen, fed.graph.open_outputs) == ([[2], [100], [1]], 0)
    assert all(output.complete_before == FOREVER for output in fed.step("part#1").outputs)


def test_a_step_ends_with_its_last_input() -> None:
    """Not with the first."""
    fed = _Fed(sw.union(_arrivals("a"), _arrivals("b")))
    fed.put(1, at=1, source=0)
    fed.end(0)
    assert (fed.step("union#1").open_inputs, fed.graph.open_outputs) == (1, 1)
    fed.put(2, at=2, source=1)
    fed.end(1)
    assert (fed.step("union#1").open_inputs, fed.graph.open_outputs) == (0, 0)
    assert fed.seen == [[1, 2]]


class _Holding(Operator[None]):
    """Holds all that comes until all its inputs have ended, and notes what it is informed of."""

    __slots__ = ("_held", "_name", "_noted", "_open")

    def __init__(self, name: str, ports: int, noted: list[str]) -> None:
        self._name, self._open, self._noted = name, ports, noted
        self._held: list[EventBatch] = []

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:
        self._noted.append(f"{self._name} takes {_values(batch)[0]} on {port}")
        self._held.append(batch)
        return Emission()

    def on_end(self, port: Port) -> Emission:
        self._noted.append(f"{self._name} ends on {port}")
        self._open -= 1
        return Emission() if self._open else Emission.of(*self._held)

    def snapshot(self) -> None:
        return


def test_when_all_ends_a_step_has_all_that_is_flushed_before_its_first_end() -> None:
    """Producers end before consumers; at one moment there is no input that ends before another."""
    noted: list[str] = []
    a, b = _arrivals("a").where(nw.col("v") > 0), _arrivals("b").where(nw.col("v") > 0)
    fed = _Fed(sw.union(a, b), build=lambda node, name, _: _Holding(name, len(node.inputs), noted))
    fed.put(1, source=0)
    fed.put(2, source=1)
    assert noted == ["where#1 takes 1 on 0", "where#2 takes 2 on 0"]
    noted.clear()
    list(fed.graph.end_all())
    assert noted == [
        "where#1 ends on 0",
        "union#1 takes 1 on 0",
        "where#2 ends on 0",
        "union#1 takes 2 on 1",
        "union#1 ends on 0",
        "union#1 ends on 1",
    ]
    assert fed.seen == [[1, 2]]


def test_an_end_that_is_put_in_goes_down_before_another_source_has_ended() -> None:
    """As it is in process, where sources end one by one."""
    noted: list[str] = []
    fed = _Fed(
        sw.union(_arrivals("a"), _arrivals("b")), build=lambda node, name, _: _Holding(name, len(node.inputs), noted)
    )
    fed.put(1, source=0)
    fed.end(0)
    fed.put(2, source=1)
    fed.end(1)
    assert noted == ["union#1 takes 1 on 0", "union#1 ends on 0", "union#1 takes 2 on 1", "union#1 ends on 1"]
    assert fed.seen == [[1, 2]]


# ---- running --------------------------------------------------------------------------------------------------------


def test_a_run_goes_on_until_nothing_waits_even_at_a_step_that_was_passed() -> None:
    """Whoever executes a step may put something in above it, as a runner does that reads a source on demand."""
    fed = _Fed(_arrivals().where(nw.col("v") > 0).where(nw.col("v") > 1))
    first, last = fed.graph.steps
    more = [_batch(3)]

    def run(step: Step) -> None:
        fed.graph.execute(step)
        if step is last and more:
            fed.graph.put(next(iter(fed.sources.values())), more.pop())

    fed.graph.put(next(iter(fed.sources.values())), _batch(2))
    fed.graph.run_each(run)
    assert fed.seen == [[2, 3]]
    assert first.waiting_arc() is None


# ---- snapshots ------------------------------------------------------------------------------------------------------


def test_a_graph_from_a_snapshot_goes_on_where_the_other_was(part: Parting) -> None:
    """What was held comes out of the other graph."""
    main, band = part(_arrivals())
    fed = _Fed(main, band)
    fed.put(1, 2)
    taken = fed.graph.snapshot()
    again = _Fed(main, band, resume=taken)
    again.put(4, 100)
    again.end()
    assert (fed.seen, again.seen) == ([[], []], [[2, 4], [100]])
    assert again.step("part#1").operator.late() == 1


def test_the_snapshot_of_another_plan_is_refused_before_anything_is_built(part: Parting) -> None:
    """With the step that differs; no operator is made of a state that is not its own."""
    main, _ = part(_arrivals())
    taken = _Fed(main).graph.snapshot()
    built: list[str] = []

    def build(node: StepNode, name: str, state: Any) -> Operator[Any]:
        built.append(name)
        return node.build(name, state)

    with pytest.raises(PlanError, match=r"(?s)snapshot was taken of a different plan.*where#1"):
        _Fed(main.where(nw.col("v") > 0), resume=taken, build=build)
    assert built == []


def test_a_snapshot_says_what_its_steps_were(part: Parting) -> None:
    """So that it can be compared with the plan that is to go on from it."""
    main, _ = part(_arrivals())
    fed = _Fed(main)
    taken = fed.graph.snapshot()
    assert isinstance(taken, Snapshot)
    assert taken.plan == describe_steps({node: fed.names[node] for node in walk(main.node)})
    assert list(taken) == ["part#1"]


def test_what_operators_hold_goes_with_a_graph_that_was_taken_apart(part: Parting) -> None:
    """At once: Python looks for cycles by the number of objects, and these may be few and large."""
    main, band = part(_arrivals())
    made: list[weakref.ref[Operator[Any]]] = []

    class Seen(_Holding):
        pass  # without slots of its own it can be referred to weakly

    def build(node: StepNode, name: str, _: Any) -> Operator[Any]:
        operator = Seen(name, len(node.inputs), [])
        made.append(weakref.ref(operator))
        return operator

    fed = _Fed(sw.union(main, band), band.where(nw.col("v") > 0), build=build)
    fed.put(1, 2)
    gc.disable()
    try:
        fed.graph.disconnect()
        del fed
        assert len(made) == 3
        assert [one() for one in made] == [None] * 3
    finally:
        gc.enable()
