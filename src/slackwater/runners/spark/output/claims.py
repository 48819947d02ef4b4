"""What a start wants to write to: seen to before Spark starts, and only then taken.

First all that stands against a start is refused, and nothing is written. Then the checkpoint is taken over, and after
it the folders of sinks, so that a driver that dies in between finds its query's id in the checkpoint, and goes on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from slackwater.runners.spark.checkpoint.logs import require_whole
from slackwater.runners.spark.checkpoint.ownership import next_run
from slackwater.runners.spark.output.delta_sink import DeltaSink
from slackwater.runners.spark.output.folder_sink import FolderSink
from slackwater.runners.spark.shard.metrics import METRIC_COLUMNS
from slackwater.runners.spark.storage.places import folders_read_by, place_of, refuse_overlaps

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from slackwater.runners.spark.checkpoint.ownership import Run
    from slackwater.runners.spark.output.sinks import OurSink, SinkBinding
    from slackwater.runners.spark.planning.plan_lines import Line
    from slackwater.runners.spark.planning.shard_plan import ShardPlan
    from slackwater.runners.spark.storage.places import Place


@dataclass(frozen=True)
class Unclaimed:
    """A sink that nobody owns: whoever is called with a number again has to know it."""

    sink: Any

    def take(self, session: SparkSession) -> Any:  # noqa: ARG002 - as for those that are owned
        """The sink as it is."""
        return self.sink


def resolved(sink: OurSink, session: SparkSession) -> OurSink:
    """A sink with the full address of its folder, so that two spellings of one folder are one sink."""
    place = sink.place(session) if isinstance(sink, FolderSink | DeltaSink) else None
    return sink if place is None else replace(sink, path=place.address)  # type: ignore[type-var]


def claims_of(
    session: SparkSession,
    bindings: Sequence[SinkBinding],
    checkpoint: Place,
    plan: ShardPlan,
    frames: Sequence[DataFrame],
    chosen: Mapping[str, Line],
) -> tuple[Run, list[Any]]:
    """The run that a start is, and a claim for each binding. What stands against it is refused; nothing is written.

    `frames` are those of the ways in, and `chosen` is what else a state depends on.
    """
    sinks = {", ".join(binding.outputs): binding.sink for binding in bindings}
    folders = {outputs: sink for outputs, sink in sinks.items() if isinstance(sink, FolderSink | DeltaSink)}
    read = [[place_of(session, path) for path in folders_read_by(frame)] for frame in frames]
    places = {outputs: sink.place(session) for outputs, sink in folders.items()}
    refuse_overlaps(
        {outputs: place for outputs, place in places.items() if place is not None},
        checkpoint,
        [place for found in read for place in found],
        formats={outputs: sink.described() for outputs, sink in folders.items()},
    )
    run = next_run(session, checkpoint, {**_with_folders(plan, read), **chosen})
    require_whole(session, run)
    return run, [_claimed(binding, session, run) for binding in bindings]


def _with_folders(plan: ShardPlan, read: Sequence[Sequence[Place]]) -> dict[str, Line]:
    """The lines of a plan, those of sources with the folders that are read: Spark's log of offsets speaks of these."""
    lines = dict(plan.lines)
    for source, places in zip((pipeline.source for pipeline in plan.pipelines), read, strict=True):
        name = plan.names[source]
        lines[name] = lines[name]._replace(reads=", ".join(place.address for place in places))
    return lines


def _claimed(binding: SinkBinding, session: SparkSession, run: Run) -> Any:
    sink: Any = binding.sink
    if hasattr(sink, "for_rows"):
        metrics = binding.columns is None
        columns = session.createDataFrame([], METRIC_COLUMNS).schema if metrics else binding.columns
        sink = sink.for_rows(binding.outputs, columns)
    return sink.claimed(session, run) if hasattr(sink, "claimed") else Unclaimed(sink)
