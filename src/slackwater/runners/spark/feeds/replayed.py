"""What sources have in common whose offsets name a range, in which a second reading finds the same rows.

    {"from": {...}, "at": {...}}        where the query began, and how far it has come

Spark logs the end of a micro-batch before it is read, and not its beginning: that is the end of the one before, and of
the first one `initialOffset()`, which is asked again when that micro-batch is done again. Meanwhile there may be more
to read, and "now" would be another place. So every offset has with it where the query began, and the logged one counts.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, SupportsTriggerAvailableNow

from slackwater.errors import PlanError
from slackwater.runners.spark.compatibility import require_known_session
from slackwater.runners.spark.failures import failure_of
from slackwater.runners.spark.feeds.options import as_texts
from slackwater.runners.spark.source import feed_on_spark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.streaming.datasource import ReadLimit

    from slackwater.runners.spark.source import Session, SparkFeed

Offset: TypeAlias = "dict[str, Any]"
"""Where a query began and how far it has come, as Spark logs it."""

At: TypeAlias = "dict[str, Any]"
"""A place in a source: what comes next is behind it."""


class ReplayedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads from one place to another, as often as it is asked to."""

    limited: bool
    """Whether a micro-batch takes no more than the options say."""

    _last: At | None = None
    """Where a query ends that takes what is available now."""

    @abstractmethod
    def beginning(self) -> At:
        """Where a new query begins."""

    @abstractmethod
    def reach(self, at: At, *, limited: bool, last: At | None) -> At:
        """How far the next micro-batch comes: at most to `last`, and to `at` itself if there is nothing new."""

    @abstractmethod
    def parts(self, first: At, stop: At) -> Sequence[InputPartition]:
        """What lies between two places, for the tasks of a micro-batch."""

    @abstractmethod
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one of these parts."""

    def initialOffset(self) -> Offset:
        """Where a new query begins, or one that has not finished its first micro-batch."""
        at = self.beginning()
        return {"from": at, "at": at}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """How far the next micro-batch comes."""
        limited = self.limited and not isinstance(limit, ReadAllAvailable)
        return {"from": start["from"], "at": self.reach(start["at"], limited=limited, last=self._last)}

    def getDefaultReadLimit(self) -> ReadLimit:
        """A limit of any kind: which one it is, the options say."""
        return ReadMaxRows(1) if self.limited else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember what is there now."""
        self._last = self.newest()

    @abstractmethod
    def newest(self) -> At:
        """The place behind all that is there now."""

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """What lies between two offsets, the first of which may have been made anew."""
        first = start["at"] if start["from"] == end["from"] else end["from"]
        return self.parts(first, end["at"])


class EndingReader(DataSourceReader):
    """Reads all that there is now, for a DataFrame that ends."""

    def __init__(self, reader: ReplayedReader) -> None:
        self._reader = reader

    def partitions(self) -> Sequence[InputPartition]:
        """What there is. Spark does not say when it needs a reader no more: it lets go of all at once."""
        try:
            first = self._reader.beginning()
            return list(self._reader.parts(first, self._reader.reach(first, limited=False, last=None)))
        finally:
            self._reader.stop()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part; where there is none Spark asks for a part of nothing."""
        return self._reader.read(partition) if type(partition) is not InputPartition else iter(())


def feed_of_source(
    session: Session, kind: type[DataSource], options: Mapping[str, Any], name: str, *, streaming: bool
) -> SparkFeed:
    """Make a feed of a source of this library, which is registered with the session."""
    require_known_session(session)
    session.dataSource.register(kind)
    reader: Any = session.readStream if streaming else session.read
    try:
        frame = reader.format(kind.name()).options(**as_texts(options)).load()
        return feed_on_spark(frame, name)
    except PySparkException as error:
        raise PlanError(str(failure_of(error))) from None
