"""Where the rows of a query on Spark go: who takes which outputs, and how a micro-batch is handed to all of them."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from slackwater.errors import PlanError, SlackwaterError, StepFailed, message
from slackwater.runners.spark.checkpoint.source_files import require_files
from slackwater.runners.spark.failures import add_users_lines
from slackwater.runners.spark.output.between_batches import BetweenBatches
from slackwater.runners.spark.output.delta_sink import DeltaSink
from slackwater.runners.spark.output.folder_sink import FolderSink
from slackwater.runners.spark.output.job_names import jobs_named
from slackwater.runners.spark.output.postgres_sink import PostgresSink
from slackwater.runners.spark.output.unpacking import local_rows, rows_of_outputs
from slackwater.runners.spark.shard.metrics import METRIC_VALUES, METRICS, SHARD_AND_IN_TIME_FROM
from slackwater.runners.spark.shard.reasons import WHY_SPARK
from slackwater.runners.spark.storage.places import Place
from slackwater.runners.spark.wire.arrow_bytes import from_buffer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from slackwater.runners.spark.checkpoint.ownership import Run
    from slackwater.runners.spark.wire.late_bounds import LateBounds


FEW_BYTES: Final = 1 << 20
"""What an output may have of a micro-batch to be taken through the driver."""

MORE_BYTES: Final = 4 << 20
"""What it may have to be taken there by a sink that writes few rows itself.

These are asked for by one more job, which costs less than a pass through Python workers and what Spark does to write.
"""

_SMALL_CHUNK: Final = 1 << 19
"""Bytes of a chunk that is taken to the driver before it is known how many others there are."""


class Sink(Protocol):
    """Takes the rows of one output, micro-batch by micro-batch.

    After a crash Spark runs the last micro-batch again: a number that has been there before stands for the same rows. A
    sink that has `has(session, batch_id)` is asked whether it took them, and if so is left alone. One that has
    `write_few(tables, columns, session, batch_id)` is offered few rows as Arrow tables, and says whether it took them.
    One that says `reads_once` asks for its rows only once, so that they need not be kept for it alone; that it
    `prefers_few` says that to be offered few is worth keeping them. One that says `why_as_text` gets that of metrics in
    JSON.
    """

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Write the rows of a micro-batch."""
        ...


class Claimable(Protocol):
    """Becomes a sink for one run of a query: `claimed(...)` may refuse it and writes nothing, `take()` makes it so.

    One that must know its rows has `for_rows(outputs, columns)` instead, which returns what is claimed.
    """

    def claimed(self, session: SparkSession, run: Run) -> Any:
        """See whether the run may have it; what is returned has `take(session)`, which returns a Sink."""
        ...


SinkFunction: TypeAlias = "Callable[[DataFrame, int], object]"
"""A function of the rows and the number of a micro-batch."""

AnySink: TypeAlias = "Sink | Claimable | DeltaSink | PostgresSink | str | SinkFunction"
"""A sink, the path of a folder for Parquet files, or a function of the rows and the number of a micro-batch."""

OurSink: TypeAlias = "Sink | Claimable | DeltaSink | PostgresSink"
"""What all of them are made."""


@dataclass(frozen=True)
class FunctionSink:
    """Calls a function with the rows and the number of each micro-batch; on replay with the same number again."""

    function: Callable[[DataFrame, int], object]

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Call it."""
        self.function(rows, batch_id)


def as_sink(given: AnySink) -> OurSink:
    """Make a sink of what users write for one.

    >>> as_sink("counts")
    FolderSink(path='counts', format='parquet', options={}, adopt=None)
    """
    if isinstance(given, str):
        return FolderSink(given)
    if any(hasattr(given, name) for name in ("write", "claimed", "for_rows")):
        return given  # type: ignore[return-value]
    if callable(given):
        return FunctionSink(given)
    hint = "give a path, a FolderSink, DeltaSink or PostgresSink, or a function of rows and batch number"
    raise PlanError(message("this is not a sink", {"got": repr(given)}, hint))


@dataclass(frozen=True)
class SinkBinding:
    """A sink, and the outputs whose rows it takes, which have the same columns: a micro-batch is written at once."""

    sink: OurSink
    outputs: tuple[str, ...]
    columns: StructType | None
    """None for metrics, which are rows as they come."""

    @property
    def shown(self) -> str:
        """What is done for it, as the UI of Spark has it."""
        return f"writing {', '.join(self.outputs)} to {_shown(self.sink)}"


def _shown(sink: Any) -> str:
    """A sink for people: the place of a folder, the name of a function, or what it is."""
    if isinstance(sink, FunctionSink):
        return str(getattr(sink.function, "__qualname__", type(sink.function).__qualname__))
    place = getattr(sink, "place", None)
    return place.address if isinstance(place, Place) else type(sink).__qualname__


def bindings_of(sinks: Mapping[str, OurSink], columns: Mapping[str, StructType]) -> list[SinkBinding]:
    """Find the sinks that take several outputs; refuse those that would take rows of different columns.

    Written one after the other, the second would replace what was written of the first.
    """
    bindings: list[SinkBinding] = []
    for output, sink in sinks.items():
        of_output = columns.get(output)
        same = next((place for place, binding in enumerate(bindings) if _are_one(binding.sink, sink)), None)
        if same is None:
            bindings.append(SinkBinding(sink, (output,), of_output))
            continue
        others = bindings[same]
        if of_output != others.columns:
            facts = {"sink": sink, **{one: _named(columns.get(one)) for one in (others.outputs[0], output)}}
            hint = "give each a sink of its own: another folder, or another function"
            raise PlanError(message("one sink cannot take rows of different columns", facts, hint))
        bindings[same] = replace(others, outputs=(*others.outputs, output))
    return bindings


def _are_one(one: object, other: object) -> bool:
    """Whether two sinks are the same place. What users made is only itself, whatever it is equal to."""
    if isinstance(one, FolderSink | DeltaSink | PostgresSink):
        return one == other
    if isinstance(one, FunctionSink) and isinstance(other, FunctionSink):
        return one.function is other.function
    return one is other


def _named(columns: StructType | None) -> str:
    return ", ".join(METRIC_VALUES if columns is None else columns.names)


@dataclass
class Guess:
    """Whether a micro-batch will have few rows, by what was found of those before it.

    What has many is kept for nothing, if it is for one sink. So after some that had many it is asked less and less
    often, and after one that had few, every time.

    >>> guess = Guess()
    >>> asked = [guess.few() and (guess.found(few=False) or True) for _ in range(12)]
    >>> [number for number, one in enumerate(asked) if one]
    [0, 2, 5, 10]
    """

    most: int = 64
    """How many micro-batches go by at most before it is asked again."""

    _to_pass: int = 0
    _next: int = 1

    def few(self) -> bool:
        """Whether it is worth asking."""
        self._to_pass -= 1
        return self._to_pass < 0

    def found(self, *, few: bool) -> None:
        """Take note of what a micro-batch had that was asked."""
        self._to_pass = 0 if few else self._next
        self._next = 1 if few else min(2 * self._next, self.most)


@dataclass(frozen=True)
class WriteOutputs:
    """Serves several sinks from one evaluation, for foreachBatch, as long as no other run has taken the query over."""

    bindings: Sequence[SinkBinding]
    run: Run
    query: str
    """What the query is called."""

    with_timers: bool = False
    """Whether shards have timers. Then Spark runs micro-batches all the time, and those for nobody are left out."""

    late_bounds: LateBounds | None = None
    """How late a row may be, where the tasks that pack rows want to know it."""

    between: BetweenBatches = field(default_factory=BetweenBatches)
    """Where the query can be stopped."""

    guess: Guess = field(default_factory=Guess)
    """Whether rows for one sink are few."""

    def __call__(self, released: DataFrame, batch_id: int) -> None:
        """Hand each sink its rows, unless it has them from before a crash."""
        self.between.pass_on(released)
        self.run.require_newest(released.sparkSession)
        require_files(released.sparkSession, self.run, batch_id)
        bounds = (
            nullcontext() if self.late_bounds is None else self.late_bounds.announced(released.sparkSession, batch_id)
        )
        with bounds:
            self._hand_on(released, batch_id)

    def _hand_on(self, released: DataFrame, of_spark: int) -> None:
        batch_id = of_spark + self.run.before
        waiting = [binding for binding in self.bindings if not _has(binding.sink, released.sparkSession, batch_id)]
        if not waiting:
            # What shards remember is stored when they run, and Spark counts on it.
            with self._jobs_named(released, batch_id, "computing what all sinks have"):
                released.write.format("noop").mode("overwrite").save()
            return
        if len(waiting) == 1 and not self.with_timers and not self._kept_for_one(waiting[0]):
            (binding,) = waiting
            with self._jobs_named(released, batch_id, f"computing and {binding.shown}"):
                _write(binding, _of_many(released, binding), batch_id)
            return
        # Without it every sink would run the stateful step again.
        kept = released.persist()
        try:
            with self._jobs_named(released, batch_id, "computing and taking results"):
                chunks = _chunks(kept)
            if self.late_bounds is not None:
                self.late_bounds.learn(of_spark, _reported(chunks))
            if self.with_timers and not chunks:
                return
            self.guess.found(few=all(_few(chunks, binding) is not None for binding in waiting))
            for binding in waiting:
                few = _few(chunks, binding)
                if few is None and _may_be_asked_for(chunks, binding):
                    with self._jobs_named(released, batch_id, f"taking results for {binding.shown}"):
                        few = _asked_for(kept, binding)
                if not _taken(few, binding, released.sparkSession, batch_id):
                    rows = _of_many(kept, binding) if few is None else _of_few(few, binding, released.sparkSession)
                    with self._jobs_named(released, batch_id, binding.shown):
                        _write(binding, rows, batch_id)
        finally:
            kept.unpersist()

    def _kept_for_one(self, binding: SinkBinding) -> bool:
        """Whether rows are kept though there is one sink: it reads them again, or they may be so few that it pays."""
        if self.late_bounds is not None or not getattr(binding.sink, "reads_once", False):
            return True
        return getattr(binding.sink, "prefers_few", False) and binding.columns is not None and self.guess.few()

    def _jobs_named(self, released: DataFrame, batch_id: int, what: str) -> AbstractContextManager[None]:
        return jobs_named(released.sparkSession, self.query, batch_id, what)


def _has(sink: Any, session: SparkSession, batch_id: int) -> bool:
    return hasattr(sink, "has") and bool(sink.has(session, batch_id))


def _write(binding: SinkBinding, rows: DataFrame, batch_id: int) -> None:
    """Let a sink write; what users wrote fails as a step of theirs, unless it is Spark that failed there."""
    sink: Any = binding.sink
    try:
        sink.write(rows, batch_id)
    except SlackwaterError:
        raise
    except Exception as cause:
        if type(cause).__module__.startswith(("pyspark.", "py4j.")):
            raise
        facts = {"micro-batch": batch_id, "cause": f"{type(cause).__name__}: {cause}"}
        step = f"sink of {', '.join(binding.outputs)}"
        failure = StepFailed(message(f"step {step!r} failed", facts))
        failure.__cause__ = cause
        add_users_lines(failure)
        raise failure from cause


def _taken(few: Sequence[pa.Table] | None, binding: SinkBinding, session: SparkSession, batch_id: int) -> bool:
    """Whether a sink has taken its rows from the driver, which has them where they are few: no job is needed then."""
    sink: Any = binding.sink
    return few is not None and hasattr(sink, "write_few") and sink.write_few(few, binding.columns, session, batch_id)


class _Chunk(NamedTuple):
    """What a shard gave out at once, or its metrics: for which output, how many bytes, and, if they are few, these."""

    output: str
    size: int
    body: bytes | None
    in_time_from: Sequence[int] | None = None
    """Of metrics, the number of the shard, and for each way in from when on rows are in time."""


def _chunks(kept: DataFrame) -> list[_Chunk]:
    """All that shards gave out. This is the pass in which everything is computed."""
    small = f"IF(length(body) <= {_SMALL_CHUNK}, body, NULL)"
    reported = f"IF(output = '{METRICS}', {SHARD_AND_IN_TIME_FROM}, NULL)"
    return [_Chunk(*row) for row in kept.selectExpr("output", "length(body)", small, reported).collect()]


def _reported(chunks: Sequence[_Chunk]) -> list[tuple[int, Sequence[int]]]:
    reports = [chunk.in_time_from for chunk in chunks if chunk.in_time_from is not None]
    return [(shard, bounds) for shard, *bounds in reports]


def _few(chunks: Sequence[_Chunk], binding: SinkBinding) -> list[pa.Table] | None:
    """The rows for a sink, if they are few; None if they are many.

    To take a few rows to the driver costs less than a pass through Python workers.
    """
    if binding.columns is None:
        return None
    its = [chunk for chunk in chunks if chunk.output in binding.outputs]
    bodies = [chunk.body for chunk in its if chunk.body is not None]
    if len(bodies) < len(its) or sum(chunk.size for chunk in its) > FEW_BYTES:
        return None
    return [pa.Table.from_batches([from_buffer(body)]) for body in bodies]


def _may_be_asked_for(chunks: Sequence[_Chunk], binding: SinkBinding) -> bool:
    """Whether a sink writes its rows itself, if it gets them on the driver, and they are no more than it may take."""
    if binding.columns is None:
        return False  # metrics have no bodies
    writes_few = getattr(binding.sink, "prefers_few", hasattr(binding.sink, "write_few"))
    return writes_few and sum(chunk.size for chunk in chunks if chunk.output in binding.outputs) <= MORE_BYTES


def _asked_for(kept: DataFrame, binding: SinkBinding) -> list[pa.Table]:
    """The rows for a sink, from where they are kept; in the order in which shards gave them out."""
    bodies = kept.where(kept["output"].isin(*binding.outputs)).select("body").collect()
    return [pa.Table.from_batches([from_buffer(row.body)]) for row in bodies]


def _of_few(few: Sequence[pa.Table], binding: SinkBinding, session: SparkSession) -> DataFrame:
    assert binding.columns is not None, "metrics are never few"
    return local_rows(few, binding.columns, session)


def _of_many(released: DataFrame, binding: SinkBinding) -> DataFrame:
    if binding.columns is None:
        as_text = getattr(binding.sink, "why_as_text", False)
        return _metrics(released.where(released["output"] == METRICS), as_text=as_text)
    return rows_of_outputs(released, binding.outputs, binding.columns)


def _metrics(rows: DataFrame, *, as_text: bool) -> DataFrame:
    """Metrics for users, each in a column: reasons as they travelled, or in columns that can be asked for."""
    values = (
        METRIC_VALUES
        if as_text
        else {**METRIC_VALUES, "why": f"filter(from_json(why, '{WHY_SPARK}'), one -> one.step IS NOT NULL)"}
    )
    return rows.selectExpr(*(f"{value} AS {name}" for name, value in values.items()))
