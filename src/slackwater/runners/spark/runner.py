"""Turns a plan into a query of Spark: pack, host, unpack, and a writer for several sinks."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from slackwater.errors import PlanError, message
from slackwater.operators.emission import LATE
from slackwater.plan.node import SideOutput, diverting_steps
from slackwater.plan.rewrites import as_run
from slackwater.runners.spark.host import RELEASED_SPARK, HostAll, ShardHost
from slackwater.runners.spark.packing import PACKED_SPARK, Pack
from slackwater.runners.spark.settings import settled, stream_settings
from slackwater.runners.spark.shard import Shard, ShardPlan
from slackwater.runners.spark.sinks import WriteOutputs
from slackwater.runners.spark.source import SparkFeed
from slackwater.runners.spark.state_codec import form_of
from slackwater.runners.spark.unpacking import rows_of_output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from slackwater.plan.node import Node
    from slackwater.runners.spark.sinks import Sink

MAIN: Final = "main"
"""The output of the stream itself; its late rows go to the output `late`."""

_SHARDS: Final = 1


class Planned(Protocol):
    """A stream: something with a plan."""

    @property
    def node(self) -> Node:
        """The last step of the plan."""
        ...


def start(
    stream: Planned, *, checkpoint: str, main: Sink, late: Sink | None = None, trigger: Mapping[str, Any] | None = None
) -> StreamingQuery:
    """Start a query that runs until it is stopped, and goes on from its checkpoint when it is started again.

    `trigger` is what Spark's own trigger() takes, such as {"availableNow": True}.
    """
    plan = _plan_of(stream.node)
    frame = _frame_of(plan)
    if not frame.isStreaming:
        raise PlanError(message("start() is for streaming DataFrames", {}, "use to_frames() for one that ends"))
    given: dict[str, Sink | None] = {MAIN: main, LATE: late}
    _require_taken(plan, given)
    for state in Shard(plan).snapshot().values():  # what cannot run is refused before Spark starts
        form_of(state, number_of=id)
    session = frame.sparkSession
    columns = _columns(plan, session)
    sinks = {output: (columns[output], sink) for output, sink in given.items() if sink is not None}
    released = (
        frame.mapInArrow(_pack(plan), PACKED_SPARK)
        .groupBy("shard")
        .transformWithStateInPandas(ShardHost(plan, uuid.uuid4().hex), RELEASED_SPARK, "append", "None")
    )
    writer = released.writeStream.foreachBatch(WriteOutputs(sinks)).option("checkpointLocation", checkpoint)
    with settled(session, stream_settings(_SHARDS)):
        return (writer.trigger(**trigger) if trigger else writer).start()


def to_frames(stream: Planned) -> dict[str, DataFrame]:
    """The rows of a stream whose DataFrame ends, and its late rows if it diverts them: "main" and "late"."""
    plan = _plan_of(stream.node)
    frame = _frame_of(plan)
    if frame.isStreaming:
        raise PlanError(message("to_frames() is for DataFrames that end", {}, "use start() for a streaming one"))
    packed = frame.mapInArrow(_pack(plan), PACKED_SPARK).repartition(_SHARDS, "shard")
    released = packed.mapInArrow(HostAll(plan), RELEASED_SPARK)
    columns = _columns(plan, frame.sparkSession)
    return {output: rows_of_output(released, output, columns[output]) for output in plan.outputs}


def _plan_of(root: Node) -> ShardPlan:
    diverting = list(diverting_steps(root))
    if len(diverting) > 1:
        facts = {"steps": ", ".join(step.line for step in diverting)}
        raise PlanError(message("the Spark runner takes one step that diverts late rows yet", facts))
    outputs = {MAIN: root} | ({LATE: SideOutput(diverting[0], LATE)} if diverting else {})
    return ShardPlan(dict(zip(outputs, as_run(*outputs.values()), strict=True)))


def _frame_of(plan: ShardPlan) -> DataFrame:
    feed = plan.source.feed
    if not isinstance(feed, SparkFeed) or feed.frame is None:
        facts, hint = {"source": plan.source.details()}, "make it by slackwater.runners.spark.source()"
        raise PlanError(message("the Spark runner runs streams of Spark DataFrames", facts, hint))
    return feed.frame


def _pack(plan: ShardPlan) -> Pack:
    return Pack(plan.source.schema, f"source {plan.source.name!r}")


def _columns(plan: ShardPlan, session: SparkSession) -> dict[str, StructType]:
    return {output: _spark_schema(node.schema.shown, session) for output, node in plan.outputs.items()}


def _spark_schema(schema: pa.Schema, session: SparkSession) -> StructType:
    """The columns in Spark's types. Asked of a frame with one row of nulls: from no row, Connect learns no types."""
    nulls = pa.table({field.name: pa.nulls(1, field.type) for field in schema})
    return session.createDataFrame(nulls).schema


def _require_taken(plan: ShardPlan, sinks: Mapping[str, Sink | None]) -> None:
    if LATE in plan.outputs and sinks[LATE] is None:
        hint = "name a sink for them, late=..., or choose Late.drop()"
        facts = {"step": plan.punctuate.line}
        raise PlanError(message("rows that come too late would be lost: nobody takes them", facts, hint))
    if LATE not in plan.outputs and sinks[LATE] is not None:
        raise PlanError(
            message("no step of this plan diverts late rows", {}, "leave late= out, or choose Late.divert()")
        )
