"""Where the rows of a query on Spark go: each micro-batch is written whole, and again in the same place on replay."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias

from slackwater.errors import PlanError, message
from slackwater.runners.spark.metrics import METRIC_COLUMNS, METRICS
from slackwater.runners.spark.unpacking import local_rows, rows_of_outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


_FEW_BYTES: Final = 1 << 20
"""What an output may have of a micro-batch to be taken through the driver."""

_SMALL_CHUNK: Final = 1 << 19
"""Bytes of a chunk that is taken to the driver before it is known how many others there are."""


class Sink(Protocol):
    """Takes the rows of one output, micro-batch by micro-batch.

    After a crash Spark runs the last micro-batch again: a number that has been there before replaces what was written.
    """

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Write the rows of a micro-batch."""
        ...


AnySink: TypeAlias = "Sink | str | Callable[[DataFrame, int], object]"
"""A sink, the path of a folder for Parquet files, or a function of the rows and the number of a micro-batch."""


@dataclass(frozen=True)
class FolderSink:
    """Writes files of any format that Spark has, a folder for each micro-batch: `batch_id=7` in the folder given."""

    path: str
    format: str = "parquet"
    options: Mapping[str, Any] = field(default_factory=dict)
    reads_once: ClassVar = True
    """Whether rows are asked for only once, so that they need not be kept."""

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Write, or write anew, the folder of a micro-batch."""
        writer = rows.write.mode("overwrite").format(self.format).options(**self.options)
        writer.save(f"{self.path}/batch_id={batch_id}")


@dataclass(frozen=True)
class FunctionSink:
    """Calls a function with the rows and the number of each micro-batch; on replay with the same number again."""

    function: Callable[[DataFrame, int], object]

    def write(self, rows: DataFrame, batch_id: int) -> None:
        """Call it."""
        self.function(rows, batch_id)


def as_sink(given: AnySink) -> Sink:
    """Make a sink of what users write for one.

    >>> as_sink("counts")
    FolderSink(path='counts', format='parquet', options={})
    """
    if isinstance(given, str):
        return FolderSink(given)
    if hasattr(given, "write"):
        return given
    if callable(given):
        return FunctionSink(given)
    hint = "give a path, a FolderSink, or a function of rows and batch number"
    raise PlanError(message("this is nothing that rows could be written to", {"got": repr(given)}, hint))


@dataclass(frozen=True)
class Taker:
    """A sink, and the outputs whose rows it takes, which have the same columns: a micro-batch is written at once."""

    sink: Sink
    outputs: tuple[str, ...]
    columns: StructType | None
    """None for metrics, which are rows as they come."""


def takers_of(sinks: Mapping[str, Sink], columns: Mapping[str, StructType]) -> list[Taker]:
    """Find the sinks that take several outputs; refuse those that would take rows of different columns.

    Written one after the other, the second would replace what was written of the first.
    """
    takers: list[Taker] = []
    for output, sink in sinks.items():
        of_output = columns.get(output)
        same = next((place for place, taker in enumerate(takers) if _are_one(taker.sink, sink)), None)
        if same is None:
            takers.append(Taker(sink, (output,), of_output))
            continue
        others = takers[same]
        if of_output != others.columns:
            facts = {"sink": sink, **{one: _named(columns.get(one)) for one in (others.outputs[0], output)}}
            hint = "give each a sink of its own: another folder, or another function"
            raise PlanError(message("one sink cannot take rows of different columns", facts, hint))
        takers[same] = replace(others, outputs=(*others.outputs, output))
    return takers


def _are_one(one: Sink, other: Sink) -> bool:
    """Whether two sinks are the same place. What users made is only itself, whatever it is equal to."""
    if isinstance(one, FolderSink):
        return one == other
    if isinstance(one, FunctionSink) and isinstance(other, FunctionSink):
        return one.function is other.function
    return one is other


def _named(columns: StructType | None) -> str:
    return ", ".join(METRIC_COLUMNS if columns is None else columns.names)


@dataclass(frozen=True)
class WriteOutputs:
    """Serves several sinks from one evaluation, for foreachBatch."""

    takers: Sequence[Taker]
    with_timers: bool = False
    """Whether shards have timers. Then Spark runs micro-batches all the time, and those for nobody are left out."""

    def __call__(self, released: DataFrame, batch_id: int) -> None:
        """Hand each sink its rows."""
        if len(self.takers) == 1 and not self.with_timers:
            (taker,) = self.takers
            if getattr(taker.sink, "reads_once", False):
                taker.sink.write(_of_many(released, taker), batch_id)
                return
        # Without it every sink would run the stateful step again.
        kept = released.persist()
        try:
            chunks = _chunks(kept)
            if self.with_timers and not chunks:
                return
            for taker in self.takers:
                few = _of_few(chunks, taker, kept.sparkSession)
                taker.sink.write(_of_many(kept, taker) if few is None else few, batch_id)
        finally:
            kept.unpersist()


class _Chunk(NamedTuple):
    """What a shard gave out at once, or its metrics: for which output, how many bytes, and, if they are few, these."""

    output: str
    size: int
    body: bytes | None


def _chunks(kept: DataFrame) -> list[_Chunk]:
    """All that shards gave out. This is the pass in which everything is computed."""
    small = f"IF(length(body) <= {_SMALL_CHUNK}, body, NULL)"
    return [_Chunk(*row) for row in kept.selectExpr("output", "length(body)", small).collect()]


def _of_few(chunks: Sequence[_Chunk], taker: Taker, session: SparkSession) -> DataFrame | None:
    """The rows for a sink, if they are few; None if they are many.

    To take a few rows to the driver and back costs less than a pass through Python workers.
    """
    if taker.columns is None:
        return None
    its = [chunk for chunk in chunks if chunk.output in taker.outputs]
    bodies = [chunk.body for chunk in its if chunk.body is not None]
    if len(bodies) < len(its) or sum(chunk.size for chunk in its) > _FEW_BYTES:
        return None
    return local_rows(bodies, taker.columns, session)


def _of_many(released: DataFrame, taker: Taker) -> DataFrame:
    if taker.columns is None:
        return released.where(released["output"] == METRICS).select(*METRIC_COLUMNS)
    return rows_of_outputs(released, taker.outputs, taker.columns)
