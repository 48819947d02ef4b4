"""Slackwater: the time layer for PySpark."""

from typing import TYPE_CHECKING, Any

from slackwater.disorder.fit import fit_bounds
from slackwater.disorder.fitted import FittedBounds
from slackwater.disorder.profile import DisorderProfile
from slackwater.operators.heartbeats.observed_loss import ObservedLoss
from slackwater.operators.replicas.left_out import LeftOut
from slackwater.operators.replicas.open_events import OpenEvents
from slackwater.operators.why import Grounds, OriginWhy, Why
from slackwater.policies.aggregates import Aggregate, count, count_distinct, max, mean, min, sum, top_k
from slackwater.policies.agreement import Agreement, Revise
from slackwater.policies.bound import Bound
from slackwater.policies.bounds import Bounds
from slackwater.policies.cadence import Every
from slackwater.policies.late import Late
from slackwater.policies.left_out_rows import LeftOutRows
from slackwater.policies.punctuations import Punctuations
from slackwater.policies.release import Release
from slackwater.profiling.profile import StreamProfile, profile
from slackwater.progress.clock import Clock, ManualClock, SystemClock
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.runners.control import AskedRecord, Control
from slackwater.runners.in_process.progress import Progress
from slackwater.runners.in_process.replica_status import ReplicaStanding
from slackwater.runners.result import Counters, Result
from slackwater.runners.snapshot import Snapshot
from slackwater.sources.changes import changes
from slackwater.sources.push import PushSource
from slackwater.sources.race import Race
from slackwater.sources.stream import arrivals, stream, unstamped
from slackwater.sources.upserts import upserts
from slackwater.streams.applications import cutover, fast_availability, high_availability, jumpstart
from slackwater.streams.bands import PatienceBands
from slackwater.streams.by_origin import BandsByOrigin, GroupedByOrigin, StreamByOrigin
from slackwater.streams.disordered import DisorderedStream
from slackwater.streams.divergence import compare_replicas
from slackwater.streams.event_stream import EventStream
from slackwater.streams.grouped import GroupedStream
from slackwater.streams.on_spark import delta_table, jetstream, parquet_files, start_together
from slackwater.streams.on_spark import loaded_from_spark as _loaded_from_spark
from slackwater.streams.ordered import OrderedStream, union
from slackwater.streams.query import Query, run_together
from slackwater.streams.related import related
from slackwater.streams.replicas import merge_replicas
from slackwater.streams.revised import RevisedStream
from slackwater.streams.stream import Stream

if TYPE_CHECKING:
    from slackwater.runners.spark import DeltaSink as DeltaSink
    from slackwater.runners.spark import FolderSink as FolderSink
    from slackwater.runners.spark import FunctionSink as FunctionSink
    from slackwater.runners.spark import MicroBatch as MicroBatch
    from slackwater.runners.spark import ParquetFiles as ParquetFiles
    from slackwater.runners.spark import PostgresSink as PostgresSink
    from slackwater.runners.spark import QueryListener as QueryListener
    from slackwater.runners.spark import Sink as Sink
    from slackwater.runners.spark import SparkQuery as SparkQuery
    from slackwater.runners.spark.feeds.delta_source import DeltaSource as DeltaSource
    from slackwater.runners.spark.feeds.jetstream_source import JetStreamSource as JetStreamSource

__version__ = "0.1.0"

__all__ = [
    "BEGINNING",
    "FOREVER",
    "Aggregate",
    "Agreement",
    "AskedRecord",
    "BandsByOrigin",
    "Bound",
    "Bounds",
    "Clock",
    "Control",
    "Counters",
    "DisorderProfile",
    "DisorderedStream",
    "EventStream",
    "Every",
    "FittedBounds",
    "Grounds",
    "GroupedByOrigin",
    "GroupedStream",
    "Late",
    "LeftOut",
    "LeftOutRows",
    "ManualClock",
    "ObservedLoss",
    "OpenEvents",
    "OrderedStream",
    "OriginWhy",
    "PatienceBands",
    "Progress",
    "Punctuations",
    "PushSource",
    "Query",
    "Race",
    "Release",
    "ReplicaStanding",
    "Result",
    "Revise",
    "RevisedStream",
    "Snapshot",
    "Stream",
    "StreamByOrigin",
    "StreamProfile",
    "SystemClock",
    "Why",
    "arrivals",
    "changes",
    "compare_replicas",
    "count",
    "count_distinct",
    "cutover",
    "delta_table",
    "fast_availability",
    "fit_bounds",
    "high_availability",
    "jetstream",
    "jumpstart",
    "max",
    "mean",
    "merge_replicas",
    "min",
    "parquet_files",
    "profile",
    "related",
    "run_together",
    "start_together",
    "stream",
    "sum",
    "top_k",
    "union",
    "unstamped",
    "upserts",
]

_ON_SPARK = (
    *("DeltaSink", "DeltaSource", "FolderSink", "FunctionSink", "JetStreamSource", "MicroBatch", "ParquetFiles"),
    *("PostgresSink", "QueryListener", "Sink", "SparkQuery"),
)
"""Offered, too, and loaded with PySpark when somebody asks for them; not by `from slackwater import *`."""


def __getattr__(name: str) -> Any:
    """Load what needs PySpark when it is asked for."""
    if name not in _ON_SPARK:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = _loaded_from_spark(name)
    value.__module__ = __name__
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_SPARK})


# What is offered here has this module as its own, in messages, in help() and in what is pickled: files may move.
for _name in __all__:
    if hasattr(globals()[_name], "__module__"):
        globals()[_name].__module__ = __name__
