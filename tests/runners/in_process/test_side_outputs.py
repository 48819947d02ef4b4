"""Outputs beside the main one: where their rows go, how they end, who is asked through them, and what is counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import StepFailed
from slackwater.operators.emission import NOTHING, Emission
from slackwater.operators.pass_through import PassThroughOperator
from slackwater.operators.stamp import StampOperator
from slackwater.plan.node import SideOutput
from slackwater.plan.nodes.rows import Stamp
from slackwater.runners.graph_parts import Arc, Step
from slackwater.runners.result import Counters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.conftest import Parting

    from slackwater.events.batch import EventBatch
    from slackwater.events.schema import EventSchema
    from slackwater.plan.properties import Properties
    from slackwater.streams.stream import Stream

_ROWS = pa.schema({"at": pa.int64(), "v": pa.int64()})
_VALUES = pa.schema({"v": pa.int64()})


def _live() -> tuple[sw.PushSource, sw.OrderedStream]:
    source = sw.PushSource(_ROWS, name="numbers")
    return source, sw.stream(source, time="at").assume_ordered()


def _arrivals(name: str) -> tuple[sw.PushSource, sw.OrderedStream]:
    source = sw.PushSource(_VALUES, name=name)
    return source, sw.arrivals(source, punctuations=sw.Punctuations.on_demand())


def _numbers(*values: int) -> sw.OrderedStream:
    table = pa.table({"at": list(range(len(values))), "v": list(values)}, schema=_ROWS)
    return sw.stream(table, time="at").assume_ordered()


def _into(seen: list[int]) -> Callable[[pa.RecordBatch], None]:
    return lambda rows: seen.extend(rows.column("v").to_pylist())


def _open(*streams: Stream, clock: sw.ManualClock | None = None, **options: Any) -> tuple[sw.Query, list[list[int]]]:
    """A query over some streams, and the values that each of them has delivered."""
    seen: list[list[int]] = [[] for _ in streams]
    outputs = [(stream, _into(values)) for stream, values in zip(streams, seen, strict=True)]
    return sw.Query(outputs, clock=clock or sw.ManualClock(), **options), seen


def _check_queues(query: sw.Query) -> None:
    """Between two steps every queue is empty."""
    assert all(not arc.queue for step in query._runner._graph.steps for arc in step.inputs)


# ---- delivery -------------------------------------------------------------------------------------------------------


def test_the_rows_of_every_output_go_to_those_who_read_it_and_to_nobody_else(part: Parting) -> None:
    """Main output, band and late rows, each in the order they were sent."""
    main, band = part(_numbers(1, 2, 100, 3, 4, 101, 102))
    query, seen = _open(main, band, main.late)
    query.run_to_end()
    assert seen == [[2, 4], [100, 102], [1, 3, 101]]


def test_several_nodes_for_one_output_are_all_served(part: Parting) -> None:
    """By sinks and by steps; the step itself runs once."""
    main, _ = part(_numbers(1, 2, 3))
    query, seen = _open(main.late, main.late, main.late.where(nw.col("v") > 1), main)
    query.run_to_end()
    assert seen == [[1, 3], [1, 3], [3], [2]]
    assert query.counters()["part#1"].rows_in == 3


def test_steps_behind_side_outputs_are_executed_before_a_step_of_the_runner_ends(part: Parting) -> None:
    """Also those that a depth-first walk leaves for later; nothing stays in a queue."""
    source, numbers = _live()
    main, band = part(numbers)
    query, seen = _open(main.where(nw.col("v") > 0), band.where(nw.col("v") > 0), main.late.select("v"), batch_rows=1)
    source.push([{"at": at, "v": value} for at, value in enumerate((1, 100, 2, 3, 102))])
    source.close()
    while query.step():
        _check_queues(query)
    assert seen == [[2], [100, 102], [1, 3]]


def test_rows_of_a_side_output_go_as_far_down_as_they_can_before_the_next_are_taken() -> None:
    """Forward comes before encore on every output."""
    step, reader = (
        Step("part#1", PassThroughOperator(), 1, ["late", "band 1"]),
        Step("union#1", PassThroughOperator(), 1),
    )
    step.inputs.append(Arc(step, step, 0))
    step.inputs[0].queue.append(None)
    assert step.next_from_here() is step
    step.side["band 1"].arcs.append(Arc(step, reader, 0))
    step.side["band 1"].arcs[0].queue.append(None)
    assert step.next_from_here() is reader


def test_outputs_of_one_step_can_meet_again(part: Parting) -> None:
    """A union of main output and band has both in order."""
    main, band = part(_numbers(2, 100, 4, 102, 1))
    query, (both, late) = _open(sw.union(main, band), main.late, batch_rows=1)
    query.run_to_end()
    assert (both, late) == ([2, 100, 4, 102], [1])


def test_components_with_side_outputs_do_not_disturb_each_other(part: Parting) -> None:
    """Two steps of a kind, each with its own outputs, in one query."""
    one, one_band = part(_numbers(1, 2, 100))
    other, other_band = part(_numbers(5, 6, 200))
    query, seen = _open(one, other, one.late, other.late, one_band, other_band)
    query.run_to_end()
    assert seen == [[2], [6], [1], [5], [100], [200]]
    assert [query.counters()[f"part#{i}"].late for i in (1, 2)] == [1, 1]


def test_a_sink_of_a_side_output_that_raises_is_named_with_its_output(part: Parting) -> None:
    """Step and output."""

    def full(_: pa.RecordBatch) -> None:
        raise OSError("disk full")

    main, _ = part(_numbers(1))
    with pytest.raises(StepFailed, match=r"(?s)sink of part#1 \(late\).*disk full"):
        main.late.for_each(full)


# ---- ends -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["main", "band 1", "late", "behind the band"])
def test_a_query_over_any_one_output_ends_with_the_step(part: Parting, output: str) -> None:
    """Not before, though the other outputs are not read."""
    source, numbers = _live()
    main, band = part(numbers)
    behind = band.tumbling(10).aggregate(v=sw.count())
    stream = {"main": main, "band 1": band, "late": main.late, "behind the band": behind}[output]
    seen: list[int] = []
    query = stream.open(_into(seen), clock=sw.ManualClock(), on_late=lambda _: None)
    source.push([{"at": 1, "v": 1}, {"at": 2, "v": 2}, {"at": 3, "v": 100}])
    query.work()
    assert not query.finished
    source.close()
    query.work()
    assert query.finished
    assert seen == {"main": [2], "band 1": [100], "late": [1], "behind the band": [1]}[output]


def test_side_outputs_without_rows_end_too(part: Parting) -> None:
    """And what reads them says so."""
    main, band = part(_numbers())
    counted = band.aggregate(v=sw.count())
    query, seen = _open(main, counted, main.late)
    query.run_to_end()
    assert seen == [[], [], []]
    assert query.finished


# ---- demand ---------------------------------------------------------------------------------------------------------


def test_demand_from_a_reader_of_a_side_output_goes_through_its_step_to_the_source(part: Parting) -> None:
    """A union that waits for a band has its punctuation in the same instant."""
    clock = sw.ManualClock(100)
    (a, silent), (b, other) = _arrivals("a"), _arrivals("b")
    main, band = part(silent)
    query, (both, late) = _open(sw.union(band, other), main.late, clock=clock)
    for value in (5, 6, 7):
        clock.advance(10)
        b.push({"v": value})
        query.work()
        assert both[-1] == value
    assert query.counters()["union#1"].idle_waiting == 0
    assert query.counters()["source#1"].punctuations_out == query.counters()["part#1"].punctuations_in == 3
    a.push([{"v": 100}, {"v": 1}])
    query.close()
    assert (both, late) == ([5, 6, 7, 100], [1])


def test_a_side_output_that_waits_for_another_input_is_asked_through_both(part: Parting) -> None:
    """Demand goes through a union, the step with the band, and a union again."""
    clock = sw.ManualClock(100)
    (_, a), (_, b), (c, other) = _arrivals("a"), _arrivals("b"), _arrivals("c")
    main, band = part(sw.union(a, b))
    query, (both, _) = _open(sw.union(band.where(nw.col("v") > 0), other), main.late, clock=clock)
    c.push({"v": 8})
    clock.advance(10)
    query.work()
    assert both == [8]


class _StampAsideOperator(StampOperator):
    """Stamps rows, and sends all that it has to say to a band."""

    def on_batch(self, port: int, batch: EventBatch) -> Emission:
        return _aside(super().on_batch(port, batch))

    def on_demand(self) -> Emission:
        return _aside(super().on_demand())


def _aside(emission: Emission) -> Emission:
    return Emission(side=tuple(("band 1", batch) for batch in emission.batches)) if emission.batches else NOTHING


@dataclass(frozen=True, eq=False)
class _StampAside(Stamp):
    verb = "stamp_aside"

    def side_outputs(self) -> Mapping[str, tuple[EventSchema, Properties]]:
        return {"band 1": (self.schema, self.properties)}

    def build(self, step: str, resume: int | None = None) -> _StampAsideOperator:  # noqa: ARG002 - it raises nothing
        return _StampAsideOperator(self.schema.no_rows, resume)


def test_a_step_that_knows_the_time_can_guarantee_it_on_a_side_output() -> None:
    """It is asked by the reader of that output, and the query need not ask its source."""
    clock = sw.ManualClock(100)
    latent, (b, other) = sw.PushSource(_VALUES, name="latent"), _arrivals("b")
    band = sw.OrderedStream(SideOutput(_StampAside(sw.unstamped(latent).node), "band 1"))
    query, (both,) = _open(sw.union(band, other), clock=clock)
    b.push({"v": 1})
    clock.advance(10)
    query.work()
    assert both == [1]
    assert query.counters()["union#1"].idle_waiting == 0
    assert query.counters()["stamp_aside#1"].punctuations_out == 1


def test_back_pressure_reaches_the_sources_behind_a_side_output(part: Parting) -> None:
    """A union that is full of a band's rows leaves the band's source unread, and reads on when it may."""
    source, numbers = _live()
    other, silent = _live()
    main, band = part(numbers)
    query, (both, _) = _open(sw.union(band, silent), main.late, batch_rows=1, buffer_limit=3)
    source.push([{"at": at, "v": 100 + 2 * at} for at in range(10)])
    query.work()
    assert query.counters()["union#1"].buffered == 3
    assert source.waiting == 7
    other.push({"at": 50, "v": 0})
    query.work()
    assert both == [100 + 2 * at for at in range(10)]


# ---- counters -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_rows", [1, 2, 1_000])
def test_rows_in_are_rows_out_and_late_and_held_after_every_step(part: Parting, batch_rows: int) -> None:
    """Rows of bands count as out; late ones have a count of their own; what is left is inside."""
    source, numbers = _live()
    main, band = part(numbers)
    query, _ = _open(main, band, main.late, batch_rows=batch_rows)
    values = [1, 2, 100, 3, 4, 101, 102, 6, 7, 8]
    source.push([{"at": at, "v": value} for at, value in enumerate(values)])
    more = True
    while more:
        more = query.step()
        counters = query.counters()["part#1"]
        assert counters.rows_in == counters.rows_out + counters.late + counters.buffered
    query.close()
    assert query.counters()["part#1"] == Counters(
        rows_in=10, rows_out=6, late=4, peak_buffered=query.counters()["part#1"].peak_buffered
    )


def test_an_output_that_nobody_reads_is_counted_but_not_queued(part: Parting) -> None:
    """It costs no memory."""
    _, band = part(_numbers(*range(100, 200)))
    query, (seen,) = _open(band.late.where(nw.col("v") > 150))
    query.run_to_end()
    assert seen == list(range(151, 200, 2))
    assert query.counters()["part#1"].rows_out == 50
    assert query.counters()["where#1"].rows_in == 50
    assert query.peak_queued == 100
    assert query._runner._graph.queued == 0


def test_queued_rows_are_counted_once_for_every_reader(part: Parting) -> None:
    """Of main output and side outputs alike, and nothing is left in the end."""
    main, band = part(_numbers(2, 100, 1))
    streams = [stream.where(nw.col("v") > 0) for stream in (main, band, main.late, main.late)]
    query, _ = _open(*streams)
    query.run_to_end()
    assert query.peak_queued == 3
    assert query._runner._graph.queued == 0


def test_late_rows_are_written_for_people_when_there_are_any() -> None:
    """Where none came, nobody need read about them."""
    shown = str(Counters(rows_in=5, rows_out=3, late=2))
    assert shown.startswith("total in 5 +0p, out 3 +0p, late 2, idle-waiting 0s; now held 0")
    assert "late" not in str(Counters(rows_in=5, rows_out=5))


# ---- snapshots ------------------------------------------------------------------------------------------------------


def test_a_query_resumed_between_any_two_steps_has_every_row_once_on_the_right_output(part: Parting) -> None:
    """What was held goes on, and late rows are counted from the very beginning."""
    values = [1, 2, 100, 3, 4, 101, 102, 6, 7, 8]
    rows = [{"at": at, "v": value} for at, value in enumerate(values)]
    for steps in range(12):
        (first, before), (second, after) = _live(), _live()
        query, seen = _open(*_outputs(part, before), batch_rows=1)
        first.push(rows)
        for _ in range(steps):
            query.step()
        resumed, seen_later = _open(*_outputs(part, after), resume=query.snapshot())
        second.push(rows[len(rows) - first.waiting :])
        resumed.close()
        assert [one + two for one, two in zip(seen, seen_later, strict=True)] == [
            [2, 4, 6, 8],
            [100, 102],
            [1, 3, 101, 7],
        ]
        assert resumed.counters()["part#1"].late == 4


def _outputs(part: Parting, stream: sw.OrderedStream) -> tuple[Stream, Stream, Stream]:
    main, band = part(stream)
    return main.where(nw.col("v") >= 0), band, main.late


def test_a_snapshot_has_steps_only_and_fits_a_query_that_reads_other_outputs(part: Parting) -> None:
    """Which outputs are read is not part of the state."""
    (source, numbers), (_, again) = _live(), _live()
    main, _ = part(numbers)
    query, _ = _open(main, main.late)
    source.push([{"at": 1, "v": 1}, {"at": 2, "v": 2}])
    query.work()
    assert list(query.snapshot()) == ["assume_ordered#1", "part#1"]
    main, band = part(again)
    resumed, seen = _open(main.late, band, main, resume=query.snapshot())
    resumed.close()
    assert seen == [[], [], [2]]


# ---- replicas -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("behind", [False, True])
def test_a_replica_that_is_a_band_can_be_replaced(part: Parting, *, behind: bool) -> None:
    """Whether the merge reads the band itself or a step behind it."""

    def replica(name: str) -> tuple[sw.PushSource, sw.OrderedStream]:
        source = sw.PushSource(_ROWS, name=name)
        _, band = part(sw.stream(source, time="at").assume_ordered())
        return source, band.where(nw.col("v") > 0) if behind else band

    (one, blue), (other, green), (new, again) = map(replica, ("blue", "green", "again"))
    query, (seen,) = _open(sw.merge_replicas(blue, green, attachable=True), on_late=lambda _: None)
    one.push([{"at": 1, "v": 100}, {"at": 2, "v": 102}])
    other.close()
    query.work()
    query.attach(again, complete_from=0, instead_of=green)
    new.push([{"at": at, "v": 98 + 2 * at} for at in (1, 2, 3)])
    query.work()
    query.detach(blue)
    one.close()
    new.close()
    query.run_to_end()
    assert seen == [100, 102, 104]
