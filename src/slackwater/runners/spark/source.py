"""A Spark DataFrame, streaming or not, as the source of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, NoReturn, TypeAlias

from slackwater.errors import PlanError, message
from slackwater.progress.instants import BEGINNING
from slackwater.runners.spark.compatibility import require_known_session
from slackwater.runners.spark.pushdown.steps import run_natively, with_numbers_for_times
from slackwater.runners.spark.wire.packed_rows import CLOCK, NOW, PACKED_SPARK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from slackwater.plan.feed import Reader
    from slackwater.progress.clock import Clock
    from slackwater.runners.spark.input.pack import Pack
    from slackwater.runners.spark.planning.shard_plan import InputPipeline

    Work: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

Frame: TypeAlias = "DataFrame"
"""A DataFrame of Spark."""

Session: TypeAlias = "SparkSession"
"""A session of Spark, classic or of Spark Connect."""

ColumnTypes: TypeAlias = "str | StructType"
"""Columns and their types, as Spark writes them: `at timestamp, n long`."""


@dataclass(frozen=True)
class SparkFeed:
    """The rows of a DataFrame. Only Spark reads them, so that in process it cannot be opened.

    On the way to Python workers, plans leave their DataFrames behind.
    """

    name: str
    schema: pa.Schema
    live: bool
    frame: DataFrame | None = field(default=None, compare=False)

    def open(self, clock: Clock, wake: Callable[[], None]) -> Reader:  # noqa: ARG002 - it cannot be opened
        """Refuse: rows do not leave Spark."""
        _refuse_in_process(self.name)

    read_in_python: ClassVar = False
    """Whether rows are read by Python, so that Spark does not see them and can do no step."""

    only_on_spark: ClassVar = True
    """What explain() asks of a feed."""

    def pushed_down(self, pipeline: InputPipeline) -> int:
        """How many of the first steps of a way in Spark does itself."""
        assert self.frame is not None
        return run_natively(self.frame, pipeline.source, pipeline.may_be_native)[2]

    def packed(self, pack: Pack, pipeline: InputPipeline) -> DataFrame:
        """The rows, packed, after the steps of a way in: the first of them done by Spark, as far as it can."""
        assert self.frame is not None
        treated, schema, done = run_natively(self.frame, pipeline.source, pipeline.may_be_native)
        rest = replace(pack, schema=schema, steps=pack.steps[done:])
        return in_map_tasks(with_numbers_for_times(treated), pack, rest)

    def __reduce__(self) -> tuple[type[SparkFeed], tuple[str, pa.Schema, bool]]:
        return SparkFeed, (self.name, self.schema, self.live)


def in_map_tasks(frame: DataFrame, pack: Pack, work: Work) -> DataFrame:
    """Let map tasks pack a frame, and Spark add the timestamp of the micro-batch, where arrivals go by the clock.

    It adds it to what is packed, which are few rows: a column costs Java some time for every row that goes to Python.
    Only where rows may be ahead of the clock each comes with it. Spark keeps that timestamp in its log of what was
    read, so that it is the same when a micro-batch is done again, and asks for no micro-batch without rows.
    """
    from pyspark.sql import functions

    clock = functions.unix_micros(functions.current_timestamp())
    rows = frame.withColumn(CLOCK, clock) if pack.needs_clock else frame
    now = clock if pack.by_clock else functions.lit(BEGINNING)
    return rows.mapInArrow(work, PACKED_SPARK).withColumn(NOW, now)


def feed_on_spark(source: DataFrame | SparkFeed, name: str | None = None) -> SparkFeed:
    """Make a feed of a DataFrame, classic or of Spark Connect; refuse one of a Spark that streams cannot run on."""
    if isinstance(source, SparkFeed):
        return replace(source, name=name or source.name)
    require_known_session(source.sparkSession)
    schema = columns_in_arrow(source.sparkSession, source.schema)
    return SparkFeed(name or "frame", schema, source.isStreaming, source)


def columns_in_arrow(session: Session, schema: ColumnTypes) -> pa.Schema:
    """How Spark shows columns in Arrow: asked of a frame of no rows, and by its limit without a job."""
    return session.createDataFrame([], schema).limit(0).toArrow().schema


def _refuse_in_process(name: str) -> NoReturn:
    hint = "use start() or to_spark()"
    raise PlanError(message("a stream of a Spark DataFrame runs on Spark only", {"source": name}, hint))
