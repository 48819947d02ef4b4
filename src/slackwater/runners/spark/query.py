"""A running query on Spark, as users hold it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slackwater.errors import RunError, message

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

OBSERVED: Final = "slackwater"
"""The name under which Spark reports the sums of all shards' metrics."""

_OWN_WORDS: Final = re.compile(
    r"slackwater\.errors\.\w+: (?P<words>.*?)(?:\n\S*Error|\n\s+at |\n\n|\nTraceback|\Z)", re.DOTALL
)
"""What this library said inside of what Spark says."""


@dataclass(frozen=True)
class SparkQuery:
    """A query that runs until it is stopped, fails, or has come to the end of what its trigger asked for."""

    spark: StreamingQuery
    """Spark's own handle on it."""

    def wait(self, seconds: int | None = None) -> bool:
        """Wait until it has ended, or for so long; say whether it has. A failure is raised, in plain words."""
        from pyspark.errors import StreamingQueryException

        try:
            ended = self.spark.awaitTermination() if seconds is None else self.spark.awaitTermination(seconds)
        except StreamingQueryException as error:
            raise failure_of(error) from error
        return ended is None or bool(ended)

    def work(self) -> None:
        """Wait until all that the sources have now is done."""
        from pyspark.errors import StreamingQueryException

        try:
            self.spark.processAllAvailable()
        except StreamingQueryException as error:
            raise failure_of(error) from error

    def stop(self) -> None:
        """Stop, between two micro-batches; started again with the same checkpoint, it goes on."""
        self.spark.stop()

    @property
    def active(self) -> bool:
        """Whether it runs."""
        return bool(self.spark.isActive)

    def progress(self) -> dict[str, Any]:
        """The last micro-batch that took rows: its number, its duration, and the metrics of all shards together."""
        for one in reversed(self.spark.recentProgress):
            observed = one["observedMetrics"].get(OBSERVED)
            if observed is not None and observed["shards"]:
                numbers = observed.asDict() if hasattr(observed, "asDict") else dict(observed)
                return {"batch_id": one["batchId"], "seconds": one["batchDuration"] / 1_000, **numbers}
        return {}


def failure_of(error: Exception) -> RunError:
    """Say why a query failed: in this library's own words, if it was the one that gave up."""
    text = str(error)
    own = _OWN_WORDS.search(text)
    if own is not None:
        return RunError(own["words"].strip())
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    hint = "the exception this one was raised from has all that Spark says"
    return RunError(message("a query on Spark failed", {"Spark says": first}, hint))
