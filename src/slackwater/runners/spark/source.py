"""A Spark DataFrame, streaming or not, as the source of a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from slackwater.errors import PlanError, message
from slackwater.runners.spark.known_spark import require_known_session

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from slackwater.plan.feed import Reader
    from slackwater.progress.clock import Clock


Frame: TypeAlias = "DataFrame"
"""A DataFrame of Spark."""


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

    def __reduce__(self) -> tuple[type[SparkFeed], tuple[str, pa.Schema, bool]]:
        return SparkFeed, (self.name, self.schema, self.live)


def feed_of_frame(frame: DataFrame, name: str = "frame") -> SparkFeed:
    """Make a feed of a DataFrame, classic or of Spark Connect; refuse one of a Spark that streams cannot run on."""
    require_known_session(frame.sparkSession)
    # A frame of no rows tells how Spark shows these columns in Arrow, and by its limit without a job; a streaming one
    # cannot be asked itself.
    schema = frame.sparkSession.createDataFrame([], frame.schema).limit(0).toArrow().schema
    return SparkFeed(name, schema, frame.isStreaming, frame)


def _refuse_in_process(name: str) -> NoReturn:
    hint = "use start() or to_spark()"
    raise PlanError(message("a stream of a Spark DataFrame runs on Spark only", {"source": name}, hint))
