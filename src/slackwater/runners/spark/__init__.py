"""The Spark runner: the graph of a plan, hosted by Structured Streaming, with its state in RocksDB.

    DataFrame ──pack──> one row per chunk ──host──> one row per chunk ──unpack──> rows ──> sinks
              mapInArrow              transformWithState           mapInArrow

Nothing else imports this package, so that `import slackwater` loads neither PySpark nor Java.
"""

from importlib import import_module
from typing import Any

from slackwater.runners.spark.compatibility import require_known_pyspark, require_sources_in_python

require_known_pyspark()  # first: of an older one, what follows could not be imported

from slackwater.runners.spark.explain import explain  # noqa: E402
from slackwater.runners.spark.input.parquet_files import ParquetFiles, parquet_files  # noqa: E402
from slackwater.runners.spark.listener import QueryListener  # noqa: E402
from slackwater.runners.spark.micro_batch import MicroBatch  # noqa: E402
from slackwater.runners.spark.output.delta_sink import DeltaSink  # noqa: E402
from slackwater.runners.spark.output.folder_sink import FolderSink  # noqa: E402
from slackwater.runners.spark.output.postgres_sink import PostgresSink  # noqa: E402
from slackwater.runners.spark.output.sinks import FunctionSink, Sink  # noqa: E402
from slackwater.runners.spark.query import SparkQuery  # noqa: E402
from slackwater.runners.spark.runner import start_together, to_frame  # noqa: E402
from slackwater.runners.spark.source import feed_on_spark  # noqa: E402

__all__ = [
    "DeltaSink",
    "FolderSink",
    "FunctionSink",
    "MicroBatch",
    "ParquetFiles",
    "PostgresSink",
    "QueryListener",
    "Sink",
    "SparkQuery",
    "explain",
    "feed_on_spark",
    "parquet_files",
    "start_together",
    "to_frame",
]

_FEEDS = {
    **dict.fromkeys(("DeltaSource", "delta_table"), "delta_source"),
    **dict.fromkeys(("JetStreamSource", "jetstream"), "jetstream_source"),
}
"""Sources in Python, by their files: loaded when somebody asks, for an older Spark cannot run them."""


def __getattr__(name: str) -> Any:
    """Load a source."""
    if name not in _FEEDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_sources_in_python()
    return getattr(import_module(f"{__name__}.feeds.{_FEEDS[name]}"), name)
