"""The operators of a plan as one shard runs them: rows of a micro-batch go in, what they release comes out.

A micro-batch is one instant: none of its rows is late against another. So the runner punctuates, once all rows are in,
by the greatest time of the whole micro-batch, which every shard knows; the steps that judge lateness do so by this
alone. Where a column tells replicas apart, each has such a time of its own, and all shards know all replicas. With a
timeout it also promises for sources that are silent, after a micro-batch or when it is woken.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from slackwater.errors import RunError, message
from slackwater.operators.punctuate import PunctuateOperator
from slackwater.operators.replicas.by_column import MergeByColumnOperator
from slackwater.operators.replicas.compare import CompareReplicasOperator
from slackwater.operators.replicas.left_out import NONE_LEFT_OUT
from slackwater.operators.replicas.overlap import Overlap
from slackwater.operators.replicas.replica_merge import ReplicaMerge
from slackwater.operators.sort import SortOperator
from slackwater.plan.node import Node, SideOutput, StepNode, walk
from slackwater.plan.nodes.ordering import LatenessStep
from slackwater.plan.nodes.revisions import UntrustedEnd
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.runners.snapshot import Snapshot, require_same_plan
from slackwater.runners.spark.shard.idle_sources import IdleTimeout, SourceActivity
from slackwater.runners.spark.shard.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from slackwater.events.batch import EventBatch
    from slackwater.operators.emission import Emission, OutputName
    from slackwater.operators.replicas.left_out import LeftOut
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Duration, Instant
    from slackwater.runners.spark.planning.shard_plan import ShardPlan
    from slackwater.runners.spark.shard.arrivals import Arrivals

_HEARD: Final = "heard"
"""The name under which what was heard of the sources is stored, beside the states of steps; no step is called so."""

_TOTALS: Final = "totals"
"""The same, for what the shard has done since the query began."""


class Shard:
    """One copy of the operators, fresh or as a snapshot has them. Without a timeout silent sources are waited for."""

    def __init__(self, plan: ShardPlan, resume: Snapshot | None = None, timeout: Duration | None = None) -> None:
        states: dict[str, Any] = {} if resume is None else resume
        require_same_plan(states, plan.described())
        self._plan = plan
        self._operators = {node: node.build_driven(name, states.get(name)) for node, name in plan.steps.items()}
        self._consumers: dict[Node, list[tuple[StepNode, Port]]] = defaultdict(list)
        self._side: dict[tuple[StepNode, OutputName], list[SideOutput]] = defaultdict(list)
        for node in plan.names:
            if isinstance(node, SideOutput):
                self._side[node.step, node.output].append(node)
            elif node in self._operators and isinstance(node, StepNode):
                for port, producer in enumerate(node.inputs):
                    self._consumers[producer].append((node, port))
        self._outputs: dict[Node, list[str]] = defaultdict(list)
        for output, node in plan.outputs.items():
            self._outputs[node].append(output)
        self._released: list[tuple[str, pa.RecordBatch]] = []
        self._before: Totals = states.get(_TOTALS) or Totals()
        self._rows_in = self._rows_out = 0
        self._complete_before: Instant = BEGINNING
        self._ended = False
        self.late_before, self.duplicates_before = self.late(), self.duplicates()
        self._overlap_before = self._overlap()
        """How many rows had been late, and how many left out, when this was made."""

        self._silence = None if timeout is None else IdleTimeout.in_plan(plan, timeout)
        self._heard: SourceActivity = states.get(_HEARD) or SourceActivity.nothing(len(plan.pipelines))
        self.look_again_at: Instant | None = None
        """When to be woken, unless rows come before; None if that would change nothing."""

    def on_micro_batch(self, arrivals: Arrivals, now: Instant | None = None) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Take in a micro-batch, its rows first, then the punctuations; give out what is released, with its output.

        `now` is its timestamp; only who has a timeout needs it. A source that has rows in it is not silent, however
        long it was: they may have waited for a query that was slow, or stood still. After the last one everything that
        is held is given out.
        """
        if self._before.ended and arrivals.rows:
            facts, hint = {"rows": arrivals.rows}, "start anew with another checkpoint, for what has come since"
            raise RunError(message("rows came after a query was flushed", facts, hint))
        self._rows_in += arrivals.rows
        yield from self._taken(arrivals, now)
        if arrivals.are_the_last and not self._before.ended:
            yield from self.flush()

    def _taken(self, arrivals: Arrivals, now: Instant | None) -> Iterator[tuple[str, pa.RecordBatch]]:
        for number, pipeline in enumerate(self._plan.pipelines):
            operator = self._operators[pipeline.entry]
            if isinstance(operator, MergeByColumnOperator) and number in arrivals.replicas:
                self._put_all(pipeline.entry, operator.register_replicas(arrivals.replicas[number]))
            for events in arrivals.events(number, pipeline.entry.input.schema.no_rows):
                self._put_all(pipeline.entry, operator.on_batch(0, events))
                yield from self._handed_out()
        for number, pipeline in enumerate(self._plan.pipelines):
            operator = self._operators[pipeline.entry]
            if number in arrivals.high_water:
                if isinstance(operator, MergeByColumnOperator):
                    reached = operator.advance_high_water(arrivals.replicas[number])
                else:
                    assert isinstance(operator, PunctuateOperator)
                    reached = operator.advance_high_water(arrivals.high_water[number])
                self._put_all(pipeline.entry, reached)
                yield from self._handed_out()
        if self._silence is not None:
            assert now is not None, "silence is measured by the timestamps of micro-batches"
            self._heard = self._heard.after(now, arrivals.high_water)
            yield from self.on_timer(now)

    def on_timer(self, now: Instant) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Give out what is held back for sources that are silent by now, and find out when to look again."""
        assert self._silence is not None, "without a timeout nobody is woken"
        for number, bound in self._silence.punctuations(self._heard, now).items():
            entry = self._plan.pipelines[number].entry
            operator = self._operators[entry]
            assert isinstance(operator, PunctuateOperator)
            self._put_all(entry, operator.punctuate(bound))
            yield from self._handed_out()
        self.look_again_at = self._silence.look_again_at(self._heard, now)

    def flush(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Give out all that is held: no micro-batch will come any more."""
        self._ended = True
        self._distrust_flushes()
        for step, operator in self._operators.items():  # producers before consumers
            for port in range(len(step.inputs)):
                self._put_all(step, operator.on_end(port))
        yield from self._handed_out()

    def _distrust_flushes(self) -> None:
        """Tell merges and comparisons that what comes from their replicas now is no more than a flush."""
        for step, operator in self._operators.items():
            if isinstance(operator, ReplicaMerge | CompareReplicasOperator):
                for port, replica in enumerate(step.inputs):
                    if isinstance(replica, UntrustedEnd):
                        operator.mark_end_untrusted(port, self._newest_above(replica))

    def _newest_above(self, replica: Node) -> Instant:
        entries = [self._operators[node] for node in walk(replica) if isinstance(node, LatenessStep)]
        return max(entry.snapshot().high_water for entry in entries)

    def snapshot(self) -> Snapshot:
        """The state of every step, totals and, with a timeout, what was heard of the sources."""
        states: dict[str, Any] = {name: self._operators[node].snapshot() for node, name in self._plan.steps.items()}
        states[_TOTALS] = self.totals()
        if self._silence is not None:
            states[_HEARD] = self._heard
        return Snapshot(states, self._plan.described())

    def totals(self) -> Totals:
        """What it has done since the query began."""
        return self._before.after(self._rows_in, self._rows_out, self._complete_before, ended=self._ended)

    def late(self) -> int:
        """How many rows have been late since the query began."""
        return sum(operator.late() for operator in self._operators.values())

    def duplicates(self) -> int:
        """How many rows have been left out as duplicates since the query began."""
        return sum(operator.duplicates() for operator in self._operators.values())

    def left_out(self) -> LeftOut:
        """What has become of the rows, since the query began, that merges of replicas did not send."""
        return sum((operator.left_out() for operator in self._operators.values()), NONE_LEFT_OUT)

    def overlap(self) -> Overlap:
        """Of the rows of this micro-batch, how many other replicas have, too, and how many only some, as far as known.

        What is compared by sample is no part of the state: it depends on what happens to be in memory, and a
        micro-batch that is done twice must be stored as the same bytes.
        """
        now, before = self._overlap(), self._overlap_before
        return Overlap(now.shared - before.shared, now.alone - before.alone)

    def _overlap(self) -> Overlap:
        return sum((one.overlap() for one in self._merges()), Overlap())

    def _merges(self) -> list[ReplicaMerge[Any] | MergeByColumnOperator]:
        return [one for one in self._operators.values() if isinstance(one, ReplicaMerge | MergeByColumnOperator)]

    def open_events(self) -> tuple[int, Instant]:
        """How many events without an end hold up merges of revised replicas, and the start of the first."""
        merges = [one.open_events() for one in self._operators.values() if isinstance(one, ReplicaMerge)]
        return sum(one.count for one in merges), min((one.first for one in merges), default=FOREVER)

    def buffered(self) -> int:
        """How many rows and groups wait."""
        return sum(operator.buffered() for operator in self._operators.values())

    def replicas(self) -> tuple[int, int, int]:
        """How many replicas columns tell apart, how many of them do not lead, and how many have taken over."""
        merges = [one for one in self._operators.values() if isinstance(one, MergeByColumnOperator)]
        known = [standing for merge in merges for standing in merge.standings()]
        waiting = sum(not one.leads for one in known)
        return len(known), waiting, sum(one.gap_before > BEGINNING for one in known)

    def runs(self) -> int:
        """How many ordered stretches wait in sorts."""
        return sum(operator.runs() for operator in self._operators.values() if isinstance(operator, SortOperator))

    def _put(self, producer: Node, batch: EventBatch) -> None:
        if self._outputs[producer]:
            self._complete_before = max(self._complete_before, batch.last_punctuation() or BEGINNING)
            self._rows_out += batch.rows * len(self._outputs[producer])
        if batch.rows:
            self._released += [(output, producer.schema.show(batch)) for output in self._outputs[producer]]
        for step, port in self._consumers[producer]:
            self._put_all(step, self._operators[step].on_batch(port, batch))

    def _put_all(self, step: StepNode, emission: Emission) -> None:
        for batch in emission.batches:
            self._put(step, batch)
        for output, batch in emission.side:
            for reader in self._side[step, output]:
                self._put(reader, batch)

    def _handed_out(self) -> list[tuple[str, pa.RecordBatch]]:
        released, self._released = self._released, []
        return released
