"""A running query: driven step by step, or to its end."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from slackwater.errors import PlanError, RunError, message
from slackwater.progress.clock import Clock, SystemClock
from slackwater.runners.in_process.runner import InProcessRunner
from slackwater.runners.runner import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from numpy.typing import NDArray

    from slackwater.events.batch import EventBatch
    from slackwater.events.schema import EventSchema
    from slackwater.runners.in_process.state import Snapshot
    from slackwater.runners.runner import Counters
    from slackwater.streams.stream import Stream


class Query:
    """One or more streams running together in process; what they share runs once."""

    def __init__(
        self,
        outputs: Sequence[tuple[Stream, Callable[[pa.RecordBatch], Any]]],
        clock: Clock | None = None,
        resume: Mapping[str, Any] | None = None,
        **options: int,
    ) -> None:
        wired = [(stream.node, partial(_show, stream.node.schema, callback)) for stream, callback in outputs]
        self._schema = outputs[0][0].schema
        self._runner = InProcessRunner(wired, clock or SystemClock(), resume=resume, **options)

    @property
    def finished(self) -> bool:
        """Whether every source has ended and everything is flushed."""
        return self._runner.finished

    @property
    def peak_queued(self) -> int:
        """The most elements that ever waited at once, in queues and for silent inputs."""
        return self._runner.peak_queued

    def work(self) -> None:
        """Do all that can be done with what is there now, finite sources read to their end; never waits for more."""
        self._runner.work()

    def step(self) -> bool:
        """Read each source at most once, as far as its rows go; say whether there may be more to do now."""
        return self._runner.step()

    def wait(self) -> None:
        """Sleep until a source or the clock gives something to do."""
        self._runner.wait()

    def work_or_wait(self) -> None:
        """Do what can be done, then sleep until there is more to do."""
        self.work()
        self.wait()

    def run_to_end(self) -> Result:
        """Work until every source has ended."""
        while not self.finished:
            self.work_or_wait()
        return Result(self._schema.empty_table(), self.counters(), self.peak_queued)

    def counters(self) -> dict[str, Counters]:
        """What every source and step has done so far."""
        return self._runner.counters()

    def snapshot(self) -> Snapshot:
        """The state of every step, to be handed to open(resume=...). Rows not yet taken from sources are not in it."""
        return self._runner.snapshot()

    def close(self) -> None:
        """End live sources, flush everything that is held, and close all readings."""
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After a failure nothing more is run; closing would run what is left.
        self._runner.abandon() if error is not None else self.close()


def run_together(*streams: Stream, clock: Clock | None = None) -> list[Result]:
    """Run several streams as one query and return a result for each; steps that they share run once.

    An error that stops the run carries what was emitted before it, as `error.emitted`: one result per stream.
    """
    if not streams or not all(hasattr(stream, "node") for stream in streams):
        facts = {"got": ", ".join(type(stream).__name__ for stream in streams) or "nothing"}
        raise PlanError(message("run_together takes streams", facts, "run_together(a, b), not run_together([a, b])"))
    collected: list[list[pa.RecordBatch]] = [[] for _ in streams]
    query = Query([(stream, rows.append) for stream, rows in zip(streams, collected, strict=True)], clock)

    def results() -> list[Result]:
        tables = [
            pa.Table.from_batches(rows, schema=stream.schema) for stream, rows in zip(streams, collected, strict=True)
        ]
        return [Result(table, query.counters(), query.peak_queued) for table in tables]

    try:
        with query:
            query.run_to_end()
    except RunError as error:
        error.emitted = tuple(results())
        raise
    return results()


def starts_of(stream: Stream, clock: Clock | None = None) -> NDArray[np.int64]:
    """Run a stream and return the starts of its events, in the order they come."""
    starts: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    runner = InProcessRunner([(stream.node, lambda batch: starts.append(batch.data().start))], clock or SystemClock())
    while not runner.finished:
        runner.work()
        runner.wait()
    return np.concatenate(starts)


def _show(schema: EventSchema, callback: Callable[[pa.RecordBatch], Any], batch: EventBatch) -> None:
    callback(schema.show(batch))
