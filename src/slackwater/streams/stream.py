"""What every stream can do: explain itself, run, and be looked at.

A stream is a frozen handle on a plan node. Its methods add a node and return a new stream; nothing runs until asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slackwater.disorder.profile import DisorderProfile
from slackwater.plan.explain import explain
from slackwater.streams.query import Query, run_together, starts_of
from slackwater.streams.sinks import ParquetSink

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

    import pyarrow as pa

    from slackwater.plan.node import Node
    from slackwater.plan.properties import Properties
    from slackwater.progress.clock import Clock
    from slackwater.runners.runner import Result


@dataclass(frozen=True)
class Stream:
    """A plan node, seen as a stream of events."""

    node: Node

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows, time columns included."""
        return self.node.schema.shown

    @property
    def properties(self) -> Properties:
        """What is known of the stream before it runs."""
        return self.node.properties

    def explain(self) -> str:
        """Return the plan as text: one line per step, with what is known of its output and the reason for it."""
        return explain(self.node)

    def run(self, clock: Clock | None = None) -> Result:
        """Run in this thread until every source has ended, and return all rows as one table."""
        (result,) = run_together(self, clock=clock)
        return result

    def disorder(self, clock: Clock | None = None) -> DisorderProfile:
        """Run, and measure how far the events are from being ordered, in their order of arrival.

        >>> import slackwater as sw
        >>> print(sw.stream([{"at": at} for at in (1, 3, 2, 4)], time="at").disorder())
        events             4
        inversions         1
        distance           1 places
        natural runs       2
        interleaved runs   2
        late               1 (25.0%)
        lateness p50       1
        lateness p90       1
        lateness p99       1
        lateness p99.9     1
        greatest lateness  1
        """
        return DisorderProfile.of(starts_of(self, clock), calendar=self.node.schema.calendar)

    def batches(self, clock: Clock | None = None) -> Generator[pa.RecordBatch, None, None]:
        """Run, and hand out the rows as they come. Stopping early closes the sources."""
        ready: list[pa.RecordBatch] = []
        with self.open(ready.append, clock=clock) as query:
            while not query.finished:
                more = query.step()
                yield from ready
                ready.clear()
                if not more:
                    query.wait()

    def for_each(self, callback: Callable[[pa.RecordBatch], Any], clock: Clock | None = None) -> Result:
        """Run, and call back with every batch of rows. The result's table is empty: the rows went to the callback."""
        with self.open(callback, clock=clock) as query:
            return query.run_to_end()

    def write_parquet(self, path: str | Path, clock: Clock | None = None) -> Result:
        """Run, and write all rows to one Parquet file, which appears when the run has succeeded.

        A failing run leaves what was there before alone, and the rows up to the failure in a file "....partial".
        """
        with ParquetSink(path, self.schema) as sink:
            return self.for_each(sink, clock=clock)

    def open(
        self,
        on_batch: Callable[[pa.RecordBatch], Any],
        clock: Clock | None = None,
        resume: Mapping[str, Any] | None = None,
        **options: int,
    ) -> Query:
        """Start a live query that is driven by hand: work() does what can be done now, close() flushes and ends.

        `resume` takes what Query.snapshot() returned. `options` are batch_rows and buffer_limit of the runner.
        """
        return Query([(self, on_batch)], clock=clock, resume=resume, **options)
