"""Streams of Spark DataFrames, run by Spark. Whatever loads Spark is loaded when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slackwater.errors import PlanError, message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from slackwater.runners.spark.query import SparkQuery
    from slackwater.runners.spark.sinks import AnySink
    from slackwater.runners.spark.source import Frame
    from slackwater.streams.stream import Stream


def start_together(
    streams: Sequence[tuple[Stream, AnySink]],
    *,
    checkpoint: str,
    late: AnySink | Mapping[str, AnySink] | None = None,
    metrics: AnySink | None = None,
    trigger: Mapping[str, Any] | None = None,
    timeout: str | timedelta | None = None,
    **options: int,
) -> SparkQuery:
    """Start one query on Spark for several streams, such as the bands of in_bands(), each with its sink.

    What they share is done once. The rest is as for Stream.start().
    """
    sinks = {"late": late, "metrics": metrics}
    runner = _spark_runner()
    return runner.start_together(streams, checkpoint=checkpoint, trigger=trigger, timeout=timeout, **sinks, **options)


def to_spark(stream: Stream, timeout: str | timedelta | None = None, **options: int) -> Frame:
    """The rows of a stream as a DataFrame."""
    return _spark_runner().to_frame(stream, timeout=timeout, **options)


def _spark_runner() -> Any:
    try:
        from slackwater.runners.spark import runner
    except ImportError as error:
        facts, hint = {"missing": error.name}, "pip install 'slackwater[spark]'"
        raise PlanError(message("this needs PySpark", facts, hint)) from error
    return runner
