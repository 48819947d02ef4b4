"""The Spark runner: the graph of a plan, hosted by Structured Streaming, with its state in RocksDB.

    DataFrame ──pack──> one row per chunk ──host──> one row per chunk ──unpack──> rows ──> sinks
              mapInArrow              transformWithState           mapInArrow

Nothing else imports this package, so that `import slackwater` loads neither PySpark nor Java.
"""

from slackwater.runners.spark.query import SparkQuery
from slackwater.runners.spark.runner import start_together, to_frame
from slackwater.runners.spark.sinks import FolderSink, FunctionSink
from slackwater.runners.spark.source import feed_of_frame

__all__ = ["FolderSink", "FunctionSink", "SparkQuery", "feed_of_frame", "start_together", "to_frame"]
