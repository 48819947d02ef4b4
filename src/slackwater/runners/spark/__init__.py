"""The Spark runner: the graph of a plan, hosted by Structured Streaming, with its state in RocksDB.

    DataFrame ──pack──> one row per chunk ──host──> one row per chunk ──unpack──> rows ──> sinks
              mapInArrow              transformWithState           mapInArrow

Nothing else imports this package, so that `import slackwater` loads neither PySpark nor Java.
"""

from slackwater.runners.spark.runner import start, to_frames
from slackwater.runners.spark.sinks import ParquetSink
from slackwater.runners.spark.source import source

__all__ = ["ParquetSink", "source", "start", "to_frames"]
