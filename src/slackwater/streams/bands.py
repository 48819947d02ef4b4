"""PatienceBands: one stream for each patience, the earliest answers first, the fullest last."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, overload

import numpy as np
import pyarrow as pa

from slackwater import notebook
from slackwater.errors import PlanError, SchemaMismatch, message
from slackwater.operators.aggregate.banded import BAND
from slackwater.plan.explain import explain
from slackwater.plan.nodes.bands import BandedAggregate, outputs_of, split_by_lateness
from slackwater.plan.nodes.rows import Select, stamped, with_wide_dictionaries
from slackwater.policies.lateness import Lateness
from slackwater.progress.instants import format_duration
from slackwater.runners.in_process.runner import BATCH_ROWS, BUFFER_LIMIT
from slackwater.streams.event_stream import EventStream
from slackwater.streams.explaining import explained
from slackwater.streams.on_spark import start_together
from slackwater.streams.ordered import OrderedStream
from slackwater.streams.query import Query, run_together

if TYPE_CHECKING:
    from datetime import timedelta

    from slackwater.plan.node import Node
    from slackwater.policies.aggregates import Aggregate
    from slackwater.policies.cadence import Every
    from slackwater.policies.late import Late
    from slackwater.policies.punctuations import Length
    from slackwater.progress.clock import Clock
    from slackwater.runners.result import Result
    from slackwater.runners.spark.output.sinks import AnySink, SinkFunction
    from slackwater.runners.spark.query import SparkQuery
    from slackwater.streams.diverted_rows import Callback

StreamT = TypeVar("StreamT", bound=EventStream)
"""The streams of bands: ordered ones, or those that go by origin."""

SubPlan: TypeAlias = Callable[[OrderedStream], OrderedStream]
"""A query that is written once and built for every band."""


@dataclass(frozen=True, repr=False)
class Bands(Sequence[StreamT]):
    """One stream for each patience. They share their work, so run them together."""

    streams: tuple[StreamT, ...]
    patiences: tuple[str, ...]
    """How long each waits for late rows."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.streams)}, patience {', '.join(self.patiences)}>"

    def _repr_html_(self) -> str:
        rows = [(wait, repr(stream)) for wait, stream in zip(self.patiences, self.streams, strict=True)]
        plan = notebook.folded("plan", explain(*(stream.node for stream in self.streams)))
        return notebook.block(repr(self), notebook.table(["patience", "stream"], rows), plan)

    @overload
    def __getitem__(self, index: int) -> StreamT: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[StreamT]: ...
    def __getitem__(self, index: int | slice) -> StreamT | Sequence[StreamT]:
        return self.streams[index]

    def __len__(self) -> int:
        return len(self.streams)

    def explain(self, runner: Literal["in_process", "spark"] | None = None, *, shards: int | None = None) -> str:
        """Return the plan of all, as text; what they share is shown once. See `OrderedStream.explain`.

        >>> import slackwater as sw
        >>> bands = sw.stream([{"at": 1}], time="at").in_bands(5, 20)
        >>> bands.explain().count("punctuate#1 patience=5, 20")
        1
        """
        return explained(*(stream.node for stream in self.streams), runner=runner, shards=shards)

    def run(self, clock: Clock | None = None) -> list[Result]:
        """Run all to the end, and return a result for each.

        >>> import slackwater as sw
        >>> bands = sw.stream([{"at": at} for at in (1, 12, 3)], time="at").in_bands(5, 20)
        >>> [result.table["at"].to_pylist() for result in bands.run()]
        [[1, 12], [1, 3, 12]]
        """
        return run_together(*self.streams, clock=clock)

    def open(
        self,
        on_batch: Callback,
        clock: Clock | None = None,
        resume: Mapping[str, Any] | None = None,
        on_late: Callback | None = None,
        on_left_out: Callback | None = None,
        *,
        batch_rows: int = BATCH_ROWS,
        buffer_limit: int = BUFFER_LIMIT,
    ) -> Query:
        """Start a live query that calls back with the rows of every stream as they come. See `OrderedStream.open`.

        >>> import slackwater as sw
        >>> bands = sw.stream([{"at": at} for at in (1, 12, 3)], time="at").in_bands(5, 20)
        >>> seen = []
        >>> bands.open(lambda rows: seen.extend(rows["at"].to_pylist()), on_late=print).close()
        >>> sorted(seen)
        [1, 1, 3, 12, 12]
        """
        outputs = [(stream, on_batch) for stream in self.streams]
        return Query(outputs, clock, resume, on_late, on_left_out, batch_rows=batch_rows, buffer_limit=buffer_limit)

    def start(
        self,
        *,
        checkpoint: str,
        main: AnySink | list[AnySink],
        late: AnySink | Mapping[str, AnySink] | None = None,
        left_out: AnySink | Mapping[str, AnySink] | None = None,
        on_late: SinkFunction | None = None,
        on_left_out: SinkFunction | None = None,
        metrics: AnySink | None = None,
        trigger: Mapping[str, Any] | None = None,
        timeout: str | timedelta | None = None,
        at_end: str | None = None,
        name: str | None = None,
        shards: int | None = None,
        rescale: bool = False,
        control: bool | None = None,
        memory: int | str | None = None,
        chunk_rows: int | None = None,
    ) -> SparkQuery:
        """Start one query on Spark for all: with one sink, or a list with a sink for each.

        One sink takes the rows of all streams, and writes those of a micro-batch at once, which is faster. Answers say
        in their column `band` which stream they are from. Everything else is as in `OrderedStream.start`.

        >>> import slackwater as sw
        >>> spark.createDataFrame([(1,), (12,), (3,)], "at long").coalesce(1).write.parquet(f"{folder}/in")
        >>> rows = sw.stream(spark.readStream.schema("at long").parquet(f"{folder}/in"), time="at")
        >>> query = (
        ...     rows.tumbling(10)
        ...     .in_bands(5, 20, late=sw.Late.drop(), n=sw.count())
        ...     .start(
        ...         checkpoint=f"{folder}/checkpoint",
        ...         main=f"{folder}/counts",
        ...         trigger={"availableNow": True},
        ...         at_end="flush",
        ...         shards=1,
        ...     )
        ... )
        >>> query.wait()
        True
        >>> sorted((row.band, row.n) for row in spark.read.parquet(f"{folder}/counts").collect())
        [(0, 1), (0, 2), (1, 1), (1, 2)]
        """
        sinks = main if isinstance(main, list) else [main] * len(self.streams)
        if len(sinks) != len(self.streams):
            facts, hint = {"streams": len(self.streams), "sinks": len(sinks)}, "give one for each, or one for all"
            raise PlanError(message("each stream needs a sink", facts, hint))
        return start_together(
            list(zip(self.streams, sinks, strict=True)),
            checkpoint=checkpoint,
            late=late,
            left_out=left_out,
            on_late=on_late,
            on_left_out=on_left_out,
            metrics=metrics,
            trigger=trigger,
            timeout=timeout,
            at_end=at_end,
            name=name,
            shards=shards,
            rescale=rescale,
            control=control,
            memory=memory,
            chunk_rows=chunk_rows,
        )


class PatienceBands(Bands[OrderedStream]):
    """One ordered stream for each patience; stream i has every event that is no later than patience i.

    They share their work, so run them together: by run(), open() or run_together(*streams).

    >>> import slackwater as sw
    >>> rows = [{"at": at} for at in (1, 12, 3, 25, 14, 2)]
    >>> early, final = sw.stream(rows, time="at").tumbling(10).in_bands(5, 20, n=sw.count())
    >>> for result in sw.run_together(early, final):
    ...     print(result.table["window_start"].to_pylist(), result.table["n"].to_pylist())
    [0, 10, 20] [2, 1, 1]
    [0, 10, 20] [3, 2, 1]
    """


def bands_of_events(node: Node, patiences: Sequence[Length], every: Every | None, late: Late) -> PatienceBands:
    """Give each patience the events that are in time for it, in order: the basic framework."""
    bands, waits = _bands(node, patiences, every, late)
    streams = [OrderedStream(bands[0])]
    for band in bands[1:]:
        streams.append(streams[-1].union(OrderedStream(band)))
    return PatienceBands(tuple(streams), waits)


def bands_of_aggregates(
    node: Node,
    keys: tuple[str, ...],
    aggregates: Mapping[str, Aggregate],
    patiences: Sequence[Length],
    every: Every | None,
    late: Late,
) -> PatienceBands:
    """Give each patience the aggregates of the events that are in time for it; partial results are shared."""
    bands, waits = _bands(node, patiences, every, late, in_order=False)
    step = BandedAggregate(tuple(bands), keys, aggregates)
    return PatienceBands(tuple(OrderedStream(output) for output in outputs_of(step, len(bands))), waits)


def bands_of_sub_plan(
    node: Node,
    partial: SubPlan,
    merge: SubPlan,
    patiences: Sequence[Length],
    every: Every | None,
    late: Late,
) -> PatienceBands:
    """Give each patience the answers of a user's query: `partial` for each band, `merge` after each union."""
    bands, waits = _bands(node, patiences, every, late)
    partials = [_planned(partial, OrderedStream(band), "partial") for band in bands]
    answers = [partials[0]]
    for newer in partials[1:]:
        answers.append(_planned(merge, answers[-1].union(newer), "merge"))
    return PatienceBands(tuple(_with_band(answer, band) for band, answer in enumerate(answers)), waits)


def _bands(
    node: Node, patiences: Sequence[Length], every: Every | None, late: Late, *, in_order: bool = True
) -> tuple[list[Node], tuple[str, ...]]:
    """The stream of each band, and the patiences as people write them."""
    if not patiences:
        hint = 'name them, the shortest first: in_bands("1s", "1m", "1h")'
        raise PlanError(message("in_bands needs at least one patience", {}, hint))
    node, calendar = with_wide_dictionaries(stamped(node)), node.schema.calendar
    lateness = Lateness.chosen(patiences, every, late, calendar=calendar)
    shown = tuple(format_duration(wait) if calendar else str(wait) for wait in lateness.patiences)
    return split_by_lateness(node, lateness, in_order=in_order), shown


def _planned(query: SubPlan, stream: OrderedStream, name: str) -> OrderedStream:
    answer = query(stream)
    if not isinstance(answer, OrderedStream):
        facts = {name: repr(query), "returned": type(answer).__name__}
        raise PlanError(message(f"{name}= must be a function from an ordered stream to an ordered stream", facts))
    return answer


@dataclass(frozen=True)
class _BandNumber:
    """Fills the column that says from which band an answer is."""

    band: int
    __name__ = "band"

    def __call__(self, rows: pa.RecordBatch) -> pa.Array:
        return pa.array(np.full(rows.num_rows, self.band, dtype=np.int32))


def _with_band(answer: OrderedStream, band: int) -> OrderedStream:
    names = answer.schema.names
    if BAND.name in names:
        raise SchemaMismatch.clash("in_bands", BAND.name, "it names the band of each answer; use another name")
    return OrderedStream(Select(answer.node, {**{name: name for name in names}, BAND.name: _BandNumber(band)}))
