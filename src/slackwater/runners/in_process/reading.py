"""Reads the sources of a query: each in turn, or the one that somebody waits for.

A source that has nothing to give is asked for a punctuation, if it makes them on demand; a step that knows the time by
itself is asked likewise. No source is read twice in a step of the runner, and none is asked twice before rows come or
time passes.
Paper: Bai, Thakkar, Wang, Zaniolo. Optimizing Timestamp Management in Data Stream Management Systems. ICDE 2007,
section 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slackwater.progress.punctuation import Ground
from slackwater.runners.in_process.replica_failures import is_unread
from slackwater.runners.in_process.replicas import sources_asleep

if TYPE_CHECKING:
    from collections.abc import Collection

    from slackwater.progress.clock import Clock
    from slackwater.runners.graph_parts import Output, Step
    from slackwater.runners.in_process.graph import SourceGraph
    from slackwater.runners.in_process.replica_failures import ReplicaFailures
    from slackwater.runners.in_process.replicas import Replicas
    from slackwater.runners.in_process.source_driver import SourceDriver


class SourceReading:
    """Puts what sources give into the graph, and their punctuations."""

    def __init__(
        self, graph: SourceGraph, clock: Clock, batch_rows: int, replicas: Replicas, failures: ReplicaFailures
    ) -> None:
        self._graph = graph
        self._clock = clock
        self._batch_rows = batch_rows
        self._replicas = replicas
        self._failures = failures
        self._turn = 0
        self._asked: set[Output] = set()
        self._read_already: set[SourceDriver] = set()
        self.look_who_sleeps()

    def look_who_sleeps(self) -> None:
        """Find out which sources are left unread since nobody listens to their replicas yet."""
        self._asleep = sources_asleep(self._graph)

    def begin_step(self) -> None:
        """Let every source be read once more."""
        self._read_already.clear()

    def ask_again(self) -> None:
        """Let all be asked again how far they are: time may have passed."""
        self._asked.clear()

    def read_next(self, skip: Collection[SourceDriver]) -> None:
        """Read a batch from the next source in turn that has one."""
        sources = self._graph.sources
        for offset in range(len(sources)):
            source = sources[(self._turn + offset) % len(sources)]
            if source not in skip and self._read(source):
                self._turn = (self._turn + offset + 1) % len(sources)
                return

    def demand(self, source: SourceDriver) -> bool:
        """Give what somebody waits for: rows if there are any, else a punctuation if the source makes them."""
        if source.punctuates_by_clock and source not in self._asked and source not in self._asleep:
            # A source that can punctuate has no rows to give, so it is asked for a punctuation first.
            punctuation = source.punctuation(Ground.DEMAND)
            if punctuation is not None:
                self._asked.add(source)
                self._graph.put(source, source.batch_of(punctuation))
                return True
        return self._read(source)

    def demand_of_step(self, step: Step) -> bool:
        """Ask a step that knows the time by itself, such as a stamp, how far it has come."""
        if step in self._asked:
            return False
        self._asked.add(step)
        step.operator.on_tick(self._clock.now())
        answered = step.operator.on_demand()
        self._graph.release(step, answered)
        return bool(answered.batches or answered.side)

    def _read(self, source: SourceDriver) -> bool:
        """Put the source's next rows, or its end, into the graph; once in a step."""
        if source.end_sent or source in self._read_already or source in self._asleep:
            return False
        self._read_already.add(source)
        if is_unread(source):
            return self._drop(source)
        graph = self._graph
        try:
            batch = source.read(self._batch_rows)
        except Exception as error:
            if not self._failures.survives(source, error):
                raise
            _end_if_broken(source)
            graph.moved = True
            return True
        if batch is not None:
            self._asked.clear()
            graph.moved = True  # though nobody may be interested in what was read: more may wait
            if len(batch):
                graph.put(source, batch)
        if source.exhausted:
            source.end_sent = True
            self._replicas.mark_end_untrusted(source)
            graph.put(source, None)
        return batch is not None or source.end_sent

    def _drop(self, source: SourceDriver) -> bool:
        """Read a live source whose rows nobody takes any more, so that its feeder is not held up."""
        if not source.live:
            return False
        try:
            dropped = source.drop(self._batch_rows)
        except Exception:  # noqa: BLE001 - nobody needs it
            _end_if_broken(source)
            return False
        self._graph.moved |= dropped
        source.end_sent = source.exhausted
        return dropped


def _end_if_broken(source: SourceDriver) -> None:
    """Read a source no more whose reader has raised."""
    if source.broken:
        source.end_sent = True
        source.close()
