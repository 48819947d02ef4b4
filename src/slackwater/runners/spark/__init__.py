"""The Spark runner: the graph of a plan, hosted by Structured Streaming, with its state in RocksDB.

    DataFrame ──pack──> one row per chunk ──host──> one row per chunk ──unpack──> rows ──> sinks
              mapInArrow              transformWithState           mapInArrow

Nothing else imports this package, so that `import slackwater` loads neither PySpark nor Java.
"""

from slackwater.runners.spark.known_spark import require_known_pyspark

require_known_pyspark()  # first: of an older one, what follows could not be imported

from slackwater.runners.spark.query import SparkQuery  # noqa: E402
from slackwater.runners.spark.runner import start_together, to_frame  # noqa: E402
from slackwater.runners.spark.sinks import FolderSink, FunctionSink  # noqa: E402
from slackwater.runners.spark.source import feed_of_frame  # noqa: E402

__all__ = ["FolderSink", "FunctionSink", "SparkQuery", "feed_of_frame", "start_together", "to_frame"]
