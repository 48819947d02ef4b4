"""The operators of a plan as one shard runs them: rows of a micro-batch go in, what they release comes out.

A micro-batch is one instant: none of its rows is late against another. So the runner punctuates, once all rows are in,
by the greatest time of the whole micro-batch, which every shard knows; the steps that find late rows do so by this
alone. Where a column names replicas, each has such a time of its own, and all shards know all replicas. With a
timeout it also punctuates for sources that are silent, after a micro-batch or when it is woken. Where there are bounds
heartbeats punctuate, by what all shards know of all sources; rows of a micro-batch are late against each other only
where a column says that they arrived one after the other. The changes of a log are taken together, and the greatest
punctuation among them is the micro-batch's.

Steps that can, spill what waits beyond the memory that there is for it. What they send then comes out part by part,
each as far as it goes before the next.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from slackwater.errors import RunError, message
from slackwater.events.changes import ChangeLog
from slackwater.operators.heartbeats.follows_arrivals import FollowsArrivals
from slackwater.operators.net_changes import NetChangesOperator
from slackwater.operators.punctuate import PunctuateOperator
from slackwater.operators.replicas.by_bounds import MergeByBoundsOperator
from slackwater.operators.replicas.by_column import MergeByColumnOperator
from slackwater.operators.replicas.overlap import Overlap
from slackwater.operators.replicas.replica_merge import ReplicaMerge
from slackwater.operators.sort import SortOperator
from slackwater.plan.nodes.ordering import LatenessStep
from slackwater.progress.instants import BEGINNING, FOREVER, format_duration
from slackwater.runners import counts
from slackwater.runners.attendance import note_attendance
from slackwater.runners.operator_graph import OperatorGraph, build_operators
from slackwater.runners.spark.shard.idle_sources import IdleTimeout, SourceActivity
from slackwater.runners.spark.shard.reasons import reasons_of
from slackwater.runners.spark.shard.steered_ways import ShardWay
from slackwater.runners.spark.shard.summed_up import SummedUpRows
from slackwater.runners.spark.shard.totals import Totals
from slackwater.runners.spark.shard.untrusted_ends import mark_ends_untrusted
from slackwater.runners.steering import CONTROL, Steering, SteeringState

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from slackwater.events.batch import EventBatch
    from slackwater.events.schema import EventSchema
    from slackwater.operators.emission import Emission
    from slackwater.operators.operator import Operator
    from slackwater.operators.replicas.left_out import LeftOut
    from slackwater.progress.instants import Duration, Instant
    from slackwater.runners.graph_parts import Step
    from slackwater.runners.snapshot import Snapshot
    from slackwater.runners.spark.planning.shard_plan import ShardPlan
    from slackwater.runners.spark.shard.arrivals import Arrivals
    from slackwater.runners.spark.state.memory import Spilling
    from slackwater.runners.spark.wire.packed_rows import PackedRow

ACTIVITY: Final = "activity"
"""The name under which the activity of the sources is stored, beside the states of steps; no step is called so."""

TOTALS: Final = "totals"
"""The same, for what the shard has done since the query began."""

_WITHIN_A_MICRO_BATCH: Final = 2
"""How many times the memory may be taken while a micro-batch comes in: most of it may go before the end."""


class Shard:
    """One copy of the operators, fresh or as a snapshot has them. Without a timeout silent sources are waited for."""

    def __init__(
        self,
        plan: ShardPlan,
        resume: Snapshot | None = None,
        timeout: Duration | None = None,
        spilling: Spilling | None = None,
    ) -> None:
        states: dict[str, Any] = {} if resume is None else resume
        described = plan.described()
        operators = build_operators(
            plan.steps, described, states, lambda node, name, state: node.build_driven(name, state)
        )
        self._plan = plan
        self._graph = OperatorGraph(plan.names, operators, described)
        self._entries = [self._graph.step_of(pipeline.entry) for pipeline in plan.pipelines]
        numbered = enumerate(plan.pipelines)
        self._sums = {number: SummedUpRows(one.sums, self._graph) for number, one in numbered if one.sums is not None}
        self._released: list[tuple[str, EventBatch, int]] = []
        for output, node in plan.outputs.items():
            self._graph.add_sink(node, partial(self._take_out, output))
        self._spilling = spilling
        self._spill = [step for step in self._graph.steps if step.operator.spills]
        self._before: Totals = states.get(TOTALS) or Totals()
        self._rows_in = self._rows_out = 0
        self._ended = False
        note_attendance(self._graph)
        ways = [ShardWay(self._graph, pipeline) for pipeline in plan.pipelines]
        self.steering = Steering(self._graph, plan.names, ways, states.get(CONTROL))
        """What somebody has asked of it while it runs."""

        self.late_before, self.duplicates_before = self.late(), self.duplicates()
        """How many rows had been late, and how many left out as duplicates, when this was made."""

        self._overlap_before = self._overlap()
        self._idle_timeout = None if timeout is None else IdleTimeout.in_plan(plan, timeout)
        self._activity: SourceActivity = states.get(ACTIVITY) or SourceActivity.nothing(len(plan.pipelines))
        self.look_again_at: Instant | None = None
        """When to be woken, unless rows come before; None if that would change nothing."""

    def on_micro_batch(self, arrivals: Arrivals, now: Instant | None = None) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Take in a micro-batch: its rows, the punctuations, what is asked; give out what is released, with its output.

        `now` is its timestamp; only who has a timeout needs it. A source that has rows in it is not silent, however
        long it was: they may have waited for a query that was slow, or stood still. After the last one everything that
        is held is given out.
        """
        if self._before.ended and arrivals.rows:
            facts, hint = {"rows": arrivals.rows}, "start anew with another checkpoint, for what has come since"
            raise RunError(message("rows came after a query was flushed", facts, hint))
        self._rows_in += arrivals.rows
        yield from self._take_all(arrivals, now)
        yield from self._steered(self.steering.apply(arrivals.control))
        if arrivals.are_the_last and not self._before.ended:
            yield from self.flush()
        self._spill_beyond(1)

    def _take_all(self, arrivals: Arrivals, now: Instant | None) -> Iterator[tuple[str, pa.RecordBatch]]:
        for number, (pipeline, step) in enumerate(zip(self._plan.pipelines, self._entries, strict=True)):
            operator, entrance = step.operator, self._graph.entrances[pipeline.entry]
            if isinstance(operator, FollowsArrivals):
                for row in arrivals.groups(number):
                    self._sums[number].take(row)
                yield from self._follow_arrivals(number, step, operator, arrivals)
                continue
            if isinstance(operator, MergeByColumnOperator) and number in arrivals.replicas:
                self._release(step, operator.register_replicas(arrivals.replicas[number]))
            for row in arrivals.chunks(number):
                if row.since < FOREVER:
                    self._take_groups(number, row)
                else:
                    self._graph.put(entrance, row.events(pipeline.entry.input.schema.no_rows))
                    self._graph.run()
                yield from self._sent()
                self._spill_beyond(_WITHIN_A_MICRO_BATCH)
        for number, step in enumerate(self._entries):
            if number in arrivals.high_water and not isinstance(step.operator, FollowsArrivals):
                self._release(step, _advanced(step, number, arrivals))
                yield from self._sent()
        if self._idle_timeout is not None:
            assert now is not None, "silence is measured by the timestamps of micro-batches"
            self._activity = self._activity.after(now, arrivals.high_water)
            yield from self.on_timer(now)
        else:
            yield from self._steered(self.steering.follow())

    def _steered(self, putting: Iterator[None]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Let go as far as it goes what is put into the graph because somebody has asked for it."""
        for _ in putting:
            self._graph.run()
            yield from self._sent()

    def _take_groups(self, number: int, row: PackedRow) -> None:
        """Take events that were summed up before they came here, which are checked as the others are."""
        if number in self._sums:
            self._sums[number].take(row)
            return
        how, step = self._plan.pipelines[number].groups_beside_rows, self._entries[number]
        assert how is not None
        assert isinstance(step.operator, PunctuateOperator)
        self._release(step, step.operator.on_groups(row.events(how.groups.schema.no_rows), row.since))

    def _follow_arrivals(
        self, number: int, step: Step, operator: FollowsArrivals, arrivals: Arrivals
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Let heartbeats take in what arrived, and patiences behind them learn how far rows have come in all shards."""
        entry, streams = self._plan.pipelines[number].entry, self._plan.streams[number]
        counted = arrivals.by_stream(streams) if streams else arrivals.by_source(number)
        if counted is None:
            if arrivals.now > BEGINNING and operator.by_clock:
                # Other sources had rows in this micro-batch: so this one had none by then.
                self._release(step, operator.on_wake(arrivals.now))
                yield from self._sent()
            return
        if isinstance(operator, MergeByBoundsOperator):
            operator.expect_rows_of(arrivals.replicas.get(number, {}))
        for emission in operator.on_arrivals(counted, arrivals.events(number, entry.input.schema.no_rows)):
            self._release(step, emission)
            yield from self._sent()
            self._spill_beyond(_WITHIN_A_MICRO_BATCH)
        if number not in arrivals.high_water:
            return  # only streams that it is related to had rows
        newest = arrivals.high_water[number] if operator.takes_all_rows else operator.newest()
        for behind in self._graph.steps_behind(step):
            node = self._graph.nodes[behind]
            if isinstance(node, LatenessStep) and node.lateness.has_patience:
                assert isinstance(behind.operator, PunctuateOperator)
                self._release(behind, behind.operator.advance_high_water(newest))
                yield from self._sent()

    def on_timer(self, now: Instant) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Give out what is held back for sources that are silent by now, and find out when to look again."""
        assert self._idle_timeout is not None, "without a timeout nobody is woken"
        for number, bound in self._idle_timeout.punctuations(self._activity, now).items():
            step = self._entries[number]
            assert isinstance(step.operator, PunctuateOperator)
            self._release(step, step.operator.punctuate(bound))
            yield from self._sent()
        newest, horizon = self._newest_with_bounds(), self._horizon()
        again = [self._idle_timeout.look_again_at(self._activity, now, newest)]
        for step in self._entries:
            if isinstance(step.operator, FollowsArrivals) and step.operator.by_clock:
                self._release(step, step.operator.on_wake(now))
                yield from self._sent()
                again.append(step.operator.look_again_at(now, self._idle_timeout.timeout, horizon))
        yield from self._steered(self.steering.follow())
        self.look_again_at = min((instant for instant in again if instant is not None), default=None)

    def _horizon(self) -> Instant:
        """The time past which nothing may wait in any shard: that of the newest row of all, and what windows last."""
        assert self._idle_timeout is not None
        lasting, ways = self._idle_timeout.lasting, zip(self._plan.pipelines, self._activity.newest, strict=True)
        others = (time for one, time in ways if one.heartbeats is None and one.entry.schema.calendar)
        newest = max(self._newest_with_bounds(), *others, BEGINNING)
        return FOREVER if lasting is None else min(newest + lasting, FOREVER)

    def _newest_with_bounds(self) -> Instant:
        """The newest time that came by a way in with bounds; on sequence numbers no clock moves anything past it."""
        operators = (
            step.operator
            for step, pipeline in zip(self._entries, self._plan.pipelines, strict=True)
            if pipeline.entry.schema.calendar
        )
        return max((one.newest() for one in operators if isinstance(one, FollowsArrivals)), default=BEGINNING)

    def flush(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Give out all that is held: no micro-batch will come any more."""
        self._ended = True
        mark_ends_untrusted(self._graph, self._plan.pipelines)
        for _ in self._graph.end_all():
            yield from self._sent()
        yield from self._sent()

    def snapshot(self) -> Snapshot:
        """The state of every step, totals, with a timeout the activity of sources, and what was asked, if anything."""
        states = self._graph.snapshot()
        states[TOTALS] = self.totals()
        if self._idle_timeout is not None:
            states[ACTIVITY] = self._activity
        if self.steering.state != SteeringState():
            states[CONTROL] = self.steering.state
        return states

    def close(self) -> None:
        """Let go of all operators at once: what they hold is large, and the next micro-batch has others."""
        self._graph.disconnect()

    def totals(self) -> Totals:
        """What it has done since the query began."""
        outputs = {name: self._graph.places[node][1] for name, node in self._plan.outputs.items()}
        complete = {name: output.complete_before for name, output in outputs.items() if not output.late}
        return self._before.after(self._rows_in, self._rows_out, complete, ended=self._ended)

    def in_time_from(self) -> list[Instant]:
        """For each way in, the time from which on no row of the next micro-batch is late."""
        return [
            self._sums[number].in_time_from() if number in self._sums else _in_time_from(step.operator)
            for number, step in enumerate(self._entries)
        ]

    def late(self) -> int:
        """How many rows have been late since the query began."""
        return counts.late(self._graph.steps)

    def broken_bounds(self) -> int:
        """How many rows that came to this shard broke a bound of their source, since the query began."""
        return counts.broken_bounds(self._graph.steps)

    def late_by_estimate(self) -> int:
        """How many rows came late by estimated bounds, in all shards together: every one knows the times of all."""
        return counts.late_by_estimate(self._graph.steps)

    def why(self) -> str:
        """Why the steps are complete no further, as text."""
        return reasons_of(self._graph, self.look_again_at, self._assumed(), self.steering)

    def _assumed(self) -> dict[Step, str]:
        """What the timeout assumes, at the ways in that nothing else punctuates."""
        if self._idle_timeout is None:
            return {}
        words = f"a source that is silent for {format_duration(self._idle_timeout.timeout)} has nothing older"
        return {step: words for step in self._entries if isinstance(step.operator, PunctuateOperator)}

    def duplicates(self) -> int:
        """How many rows have been left out as duplicates since the query began."""
        return counts.duplicates(self._graph.steps)

    def left_out(self) -> LeftOut:
        """What has become of the rows, since the query began, that merges of replicas did not send."""
        return counts.left_out(self._graph.steps)

    def overlap(self) -> Overlap:
        """Of the rows of this micro-batch, how many other replicas have, too, and how many only some, as far as known.

        What is compared by sample is no part of the state: it depends on what happens to be in memory, and a
        micro-batch that is done twice must be stored as the same bytes.
        """
        now, before = self._overlap(), self._overlap_before
        return Overlap(now.shared - before.shared, now.alone - before.alone)

    def _overlap(self) -> Overlap:
        operators = [step.operator for step in self._graph.steps]
        merges = [one for one in operators if isinstance(one, ReplicaMerge | MergeByColumnOperator)]
        return sum((one.overlap() for one in merges), Overlap())

    def open_events(self) -> tuple[int, Instant]:
        """How many events without an end hold up merges of revised replicas, and the start of the first."""
        merges = counts.open_events(self._graph.steps).values()
        return sum(one.count for one in merges), min((one.first for one in merges), default=FOREVER)

    def buffered(self) -> int:
        """How many rows and groups wait."""
        return counts.buffered(self._graph.steps)

    def replicas(self) -> tuple[int, int, int]:
        """How many replicas columns name, how many of them do not lead, and how many have taken over."""
        merges = [step.operator for step in self._graph.steps]
        known = [one for merge in merges if isinstance(merge, MergeByColumnOperator) for one in merge.standings()]
        waiting = sum(not one.leads for one in known)
        return len(known), waiting, sum(one.gap_before > BEGINNING for one in known)

    def runs(self) -> int:
        """How many ordered stretches wait in sorts."""
        return sum(step.operator.runs() for step in self._graph.steps if isinstance(step.operator, SortOperator))

    def _release(self, step: Step, emission: Emission) -> None:
        """Let go as far as it goes what an operator has released that was not called by its step."""
        self._graph.release(step, emission)
        self._graph.run()

    def _take_out(self, output: str, batch: EventBatch) -> None:
        self._released.append((output, batch, self._before.rows_out + self._rows_out))
        self._rows_out += batch.rows

    def _sent(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """What has come out, and what steps have left that send what is due part by part. Producers come first."""
        yield from self._handed_out()
        for step in self._spill:
            while (emission := step.operator.send_more()) is not None:
                self._release(step, emission)
                yield from self._handed_out()

    def _spill_beyond(self, times: int) -> None:
        """Let steps spill that hold more than so many times their share of the memory."""
        if self._spilling is not None:
            for step in self._spill:
                step.operator.spill(self._spilling.spillway, times * self._spilling.memory // len(self._spill))

    def spilled(self) -> int:
        """How many rows wait that are not in memory."""
        return sum(step.operator.spilled() for step in self._spill)

    def _handed_out(self) -> list[tuple[str, pa.RecordBatch]]:
        released, self._released = self._released, []
        return [(output, _shown(self._plan.shown_as[output], batch, first)) for output, batch, first in released]


def _shown(schema: EventSchema | ChangeLog, batch: EventBatch, first: int) -> pa.RecordBatch:
    """The rows of a batch; `first` is how many the shard has sent before them."""
    return schema.show(batch, first) if isinstance(schema, ChangeLog) else schema.show(batch)


def _in_time_from(operator: Operator[Any]) -> Instant:
    return operator.in_time_from() if isinstance(operator, PunctuateOperator) else BEGINNING


def _advanced(step: Step, number: int, arrivals: Arrivals) -> Emission:
    """What the step of a way in releases when it learns how far the rows of a micro-batch have come, in all shards."""
    operator = step.operator
    if isinstance(operator, MergeByColumnOperator):
        return operator.advance_high_water(arrivals.replicas[number])
    if isinstance(operator, NetChangesOperator):
        return operator.end_instant(arrivals.high_water[number])
    assert isinstance(operator, PunctuateOperator)
    return operator.advance_high_water(arrivals.high_water[number])
