"""Slackwater: the time layer for PySpark."""

from slackwater.policies.aggregates import count, count_distinct, max, mean, min, sum, top_k
from slackwater.policies.agreement import Agreement, Revise
from slackwater.policies.cadence import Every
from slackwater.policies.late import Late
from slackwater.policies.left_out_rows import LeftOutRows
from slackwater.policies.punctuations import Punctuations
from slackwater.progress.clock import ManualClock, SystemClock
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.runners.result import Result
from slackwater.sources.changes import changes
from slackwater.sources.push import PushSource
from slackwater.sources.race import Race
from slackwater.sources.stream import arrivals, stream, unstamped
from slackwater.streams.applications import cutover, fast_availability, high_availability, jumpstart
from slackwater.streams.bands import Streams
from slackwater.streams.disordered import DisorderedStream
from slackwater.streams.divergence import compare_replicas
from slackwater.streams.on_spark import parquet_files, start_together
from slackwater.streams.ordered import OrderedStream, union
from slackwater.streams.query import Query, run_together
from slackwater.streams.replicas import merge_replicas
from slackwater.streams.revised import RevisedStream

__all__ = [
    "BEGINNING",
    "FOREVER",
    "Agreement",
    "DisorderedStream",
    "Every",
    "Late",
    "LeftOutRows",
    "ManualClock",
    "OrderedStream",
    "Punctuations",
    "PushSource",
    "Query",
    "Race",
    "Result",
    "Revise",
    "RevisedStream",
    "Streams",
    "SystemClock",
    "arrivals",
    "changes",
    "compare_replicas",
    "count",
    "count_distinct",
    "cutover",
    "fast_availability",
    "high_availability",
    "jumpstart",
    "max",
    "mean",
    "merge_replicas",
    "min",
    "parquet_files",
    "run_together",
    "start_together",
    "stream",
    "sum",
    "top_k",
    "union",
    "unstamped",
]
