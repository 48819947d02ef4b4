"""Turns plans into a query of Spark: pack, host, unpack, and a writer for several sinks."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import pyarrow as pa

from slackwater.errors import PlanError, message
from slackwater.operators.emission import DIVERTED, LATE, LEFT_OUT
from slackwater.plan.diverted_names import names_of_diverted
from slackwater.plan.node import SideOutput, SourceNode, walk
from slackwater.plan.nodes.replicas import MergeReplicas
from slackwater.runners.spark.checkpoint.control_folder import ControlFolder, require_as_before
from slackwater.runners.spark.checkpoint.rescaling import Rescaling, remove_earlier
from slackwater.runners.spark.checkpoint.resuming import plan_micro_batch
from slackwater.runners.spark.checkpoint.status import leaving_status
from slackwater.runners.spark.checkpoint.wishes import earlier_start, grant
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.micro_batch import observed
from slackwater.runners.spark.output.claims import claims_of, resolved
from slackwater.runners.spark.output.flushing import Flush, refuse_at_end
from slackwater.runners.spark.output.sinks import WriteOutputs, as_sink, bindings_of
from slackwater.runners.spark.output.unpacking import rows_of_outputs
from slackwater.runners.spark.planning.held_rows import held_rows
from slackwater.runners.spark.planning.plan_lines import Line
from slackwater.runners.spark.planning.shard_count import default_shards
from slackwater.runners.spark.planning.shard_plan import ShardPlan
from slackwater.runners.spark.query import Ending, SparkQuery
from slackwater.runners.spark.settings import (
    PARTITIONS,
    WithPartitions,
    checkpoint_settings,
    require_settings,
    settled,
    stream_settings,
)
from slackwater.runners.spark.shard.host import RELEASED_SPARK, BatchHost, ShardHost
from slackwater.runners.spark.shard.idle_sources import IdleTimeout, as_timeout
from slackwater.runners.spark.shard.metrics import METRICS
from slackwater.runners.spark.shard.resharding import refuse_unless_divisible, why_fixed
from slackwater.runners.spark.shard.shard import Shard
from slackwater.runners.spark.shard.shard_state import codec_of
from slackwater.runners.spark.shard.unopened_host import unopened
from slackwater.runners.spark.source import SparkFeed
from slackwater.runners.spark.state.memory import as_memory
from slackwater.runners.spark.storage.places import place_of
from slackwater.runners.spark.wire.chunks import CHUNK_ROWS
from slackwater.runners.spark.wire.late_bounds import LateBounds, setting_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from slackwater.operators.emission import OutputName
    from slackwater.plan.node import Node
    from slackwater.progress.instants import Duration
    from slackwater.runners.spark.checkpoint.ownership import Run
    from slackwater.runners.spark.checkpoint.wishes import Earlier
    from slackwater.runners.spark.output.sinks import AnySink

MAIN: Final = "main"
"""The output of a stream; those of further ones are called main#2 and so on."""


class Planned(Protocol):
    """A stream: something with a plan."""

    @property
    def node(self) -> Node:
        """The last step of the plan."""
        ...


def start_together(
    streams: Sequence[tuple[Planned, AnySink]],
    *,
    checkpoint: str,
    late: AnySink | Mapping[str, AnySink] | None = None,
    left_out: AnySink | Mapping[str, AnySink] | None = None,
    metrics: AnySink | None = None,
    trigger: Mapping[str, Any] | None = None,
    timeout: str | timedelta | None = None,
    at_end: str | None = None,
    name: str | None = None,
    shards: int | None = None,
    rescale: bool = False,
    control: bool | None = None,
    memory: int | str | None = None,
    chunk_rows: int | None = None,
) -> SparkQuery:
    """Start one query for one stream or several, such as the bands of in_bands(), each with its sink.

    What they share is done once. See Stream.start() for the rest.
    """
    require_counts(shards=shards, chunk_rows=chunk_rows)
    _require_flag(rescale)
    _refuse_trigger(trigger or {}, timeout, at_end)
    roots = [stream.node for stream, _ in streams]
    session = _session_of(roots)
    longest_silence, most = as_timeout(timeout), as_memory(memory, session)
    place = place_of(session, checkpoint)
    earlier = earlier_start(session, place, shards)
    controlled = require_as_before(earlier, control)
    as_before = None if rescale else earlier.shards
    plan = plan_of(roots, shards or earlier.wished or as_before or default_shards(session))
    if shards is None:
        _warn_of_one_shard(plan, most)
    frames = _frames_of(plan)
    if not frames[0].isStreaming:
        raise PlanError(message("start() is for streaming DataFrames", {}, "use to_spark() for those that end"))
    named = _sinks_of(plan, [main for _, main in streams], {LATE: late, LEFT_OUT: left_out}, metrics)
    sinks = {output: resolved(as_sink(sink), session) for output, sink in named.items()}
    bindings = bindings_of(sinks, _columns(plan, session))
    chosen = {"timeout": Line("none" if longest_silence is None else "some"), "at_end": Line(at_end or "none")}

    def claimed(by: ShardPlan) -> tuple[Run, list[Any]]:
        return claims_of(session, bindings, place, by, frames, chosen)

    if (rescale or earlier.wished) and earlier.shards not in {None, plan.shards}:
        _rescale(session, claimed, earlier, plan, longest_silence)
    run, claims = claimed(plan)
    notes = _controllable(plan, longest_silence, controlled=controlled)
    run = replace(run, given=shards, fixed=why_fixed(plan, timeout=longest_silence), control=notes)
    flush = None if at_end is None else Flush(session, run.checkpoint.address, plan.shards)
    folder = ControlFolder.of_run(session, run)
    bounds = _late_bounds(plan, run)
    packed = _with_questions(_packed(plan, chunk_rows, bounds), folder, flush, plan.shards)
    calendar = all(root.schema.calendar for root in roots)
    released = observed(_hosted(plan, packed, longest_silence, most), run, calendar=calendar)
    run.write(session)
    remove_earlier(session, run)
    grant(session, run, earlier)
    called = name or _name_of(plan, run.query)
    owned = [replace(binding, sink=claim.take(session)) for binding, claim in zip(bindings, claims, strict=True)]
    outputs = WriteOutputs(owned, run, called, with_timers=longest_silence is not None, late_bounds=bounds)
    if longest_silence is not None:
        plan_micro_batch(session, run)
    partitions = str(session.conf.get(PARTITIONS))
    settings = stream_settings(plan.shards) | checkpoint_settings(session, run.checkpoint)

    def begin() -> StreamingQuery:
        writer = released.writeStream.option("checkpointLocation", run.logs.address)
        writer = writer.foreachBatch(WithPartitions(outputs, partitions))
        # Spark refuses a second query of one name, but not one that takes the place of the first.
        if name is not None or all(query.name != called for query in session.streams.active):
            writer = writer.queryName(called)
        with settled(session, settings):
            return leaving_status(session, run, called, (writer.trigger(**trigger) if trigger else writer).start)

    ending = None if flush is None else Ending(flush, begin)
    return SparkQuery(begin(), run.query, calendar=calendar, ending=ending, between=outputs.between, control=folder)


def _rescale(
    session: SparkSession,
    claimed: Callable[[ShardPlan], tuple[Run, list[Any]]],
    earlier: Earlier,
    plan: ShardPlan,
    timeout: Duration | None,
) -> None:
    """Take a checkpoint from as many shards as there were to those of a plan, if it may be."""
    with earlier.as_wished():
        refuse_unless_divisible(plan, timeout=timeout)
    then, _ = claimed(replace(plan, wanted_shards=earlier.shards or 1))
    with earlier.as_wished():
        Rescaling(session, then, plan).carry_out()


def to_frame(
    stream: Planned,
    *,
    timeout: str | timedelta | None = None,
    shards: int | None = None,
    memory: int | str | None = None,
    chunk_rows: int | None = None,
) -> DataFrame:
    """The rows of a stream as a DataFrame: a streaming one, or, if all that it reads ends, one that ends.

    Rows that come too late must be dropped, or be what is asked for: a DataFrame is one output. A timeout is for
    streaming ones, as in Stream.start().
    """
    longest_silence = as_timeout(timeout)
    require_counts(shards=shards, chunk_rows=chunk_rows)
    session = _session_of([stream.node])
    most = as_memory(memory, session)
    plan = plan_of([stream.node], shards or default_shards(session))
    frames = _frames_of(plan)
    if shards is None:
        _warn_of_one_shard(plan, most if frames[0].isStreaming else None)
    if longest_silence is not None and not frames[0].isStreaming:
        facts, hint = {"timeout": timeout}, "leave timeout= out: all that is held comes at the end"
        raise PlanError(message("timeout= means nothing for a batch DataFrame", facts, hint))
    if memory is not None and not frames[0].isStreaming:
        words = "leave memory= out: what waits is held in memory, for no state is stored"
        raise PlanError(message("memory= means nothing for a batch DataFrame", {"memory": memory}, words))
    refuse_lost_rows(plan, streaming=frames[0].isStreaming)
    refuse_coming_and_going(plan, "start() it with control=True, or let all replicas take part")
    packed = _packed(plan, chunk_rows, nothing_is_late=not frames[0].isStreaming)
    if frames[0].isStreaming:
        require_settings(session, plan.shards, most=plan.wanted_shards)
        released = _hosted(plan, packed, longest_silence, most)
    else:
        released = packed.repartition(plan.shards, "shard").mapInArrow(BatchHost(plan), RELEASED_SPARK)
    return rows_of_outputs(released, [MAIN], _columns(plan, session)[MAIN])


def require_counts(**given: int | None) -> None:
    """Refuse numbers of shards and rows that are none."""
    for name, count in given.items():
        if count is not None and (not isinstance(count, int) or isinstance(count, bool) or count < 1):
            hint = f"leave {name}= out, or give at least 1"
            raise PlanError(message(f"{name} is a whole number above zero", {"got": repr(count)}, hint))


def _require_flag(rescale: object) -> None:
    """Refuse what neither allows nor forbids that shards become others."""
    if not isinstance(rescale, bool):
        hint = "say rescale=True, and shards= for how many"
        raise PlanError(message("rescale= says whether shards may become others", {"got": repr(rescale)}, hint))


def _refuse_trigger(trigger: Mapping[str, Any], timeout: str | timedelta | None, at_end: str | None) -> None:
    """Refuse a trigger that what else was chosen does not go with, and two choices of which each needs another."""
    if timeout is not None and at_end is not None:
        words = "leave one of them out: both let out what is held"
        both: dict[str, Any] = {"timeout": timeout, "at_end": at_end}
        raise PlanError(message("a query with a timeout= never ends, so that at_end= would not come", both, words))
    if timeout is not None and trigger.get("availableNow"):
        # Spark runs micro-batches without rows as long as there may be timers, and there may always be some.
        facts, hint = {"timeout": timeout, "trigger": trigger}, 'leave one of them out, or {"processingTime": ...}'
        raise PlanError(message("timeout= does not go with trigger availableNow, which would never end", facts, hint))
    if at_end is not None:
        refuse_at_end(at_end, trigger)


def _controllable(plan: ShardPlan, timeout: Duration | None, *, controlled: bool) -> dict[str, Any] | None:
    """Refuse what cannot run, or cannot be stored, before Spark starts; return what shards can be asked, or nothing."""
    if not controlled:
        refuse_coming_and_going(plan, "start it with control=True, and ask query.control.attach(...) to")
    codec, shard = codec_of(plan), Shard(plan, timeout=timeout)
    for state in shard.snapshot().values():
        codec.form_of(state, numbers_of=lambda leaf: (id(leaf),))
    return shard.steering.controllable().notes() if controlled else None


def _late_bounds(plan: ShardPlan, run: Run) -> LateBounds | None:
    """What lets the tasks that pack know how late a row may be, where they want to."""
    if all(pipeline.groups_beside_rows is None for pipeline in plan.pipelines):
        return None
    return LateBounds(setting_of(run), plan.shards, len(plan.pipelines), is_new=not run.before and not run.log)


def _hosted(plan: ShardPlan, packed: DataFrame, timeout: Duration | None, memory: int) -> DataFrame:
    if timeout is not None:
        IdleTimeout.in_plan(plan, timeout)  # what cannot work is refused now
    host = unopened(ShardHost(plan, timeout, memory))
    # With a clock Spark runs a micro-batch at every trigger, though there are no rows.
    time_mode = "None" if timeout is None else "ProcessingTime"
    return packed.groupBy("shard").transformWithStateInPandas(host, RELEASED_SPARK, "append", time_mode)


# ---- the plan --------------------------------------------------------------------------------------------------------


def plan_of(roots: Sequence[Node], shards: int) -> ShardPlan:
    """The plan that shards run, with an output for each stream and each kind of diverted rows."""
    outputs = {MAIN if number == 1 else f"{MAIN}#{number}": root for number, root in enumerate(roots, start=1)}
    for kind in DIVERTED:
        outputs |= {
            _diverted_output(kind, name): SideOutput(step, kind)
            for step, name in names_of_diverted(*roots, output=kind).items()
        }
    return ShardPlan.of(outputs, shards)


def _diverted_output(kind: OutputName, name: str) -> str:
    """What the output of diverted rows is called among all outputs: no source can have the name of another output."""
    return f"{kind} {name}"


def _warn_of_one_shard(plan: ShardPlan, memory: int | None) -> None:
    """Say why the other cores have nothing to do, if that was not asked for, and what the one shard holds."""
    if plan.shards < plan.wanted_shards:
        facts = {"cores": plan.wanted_shards, "because": plan.why_one, "memory": held_rows(plan, memory)}
        hint = "group or join by columns that rows bring along; shards=1 says that it is meant so"
        warnings.warn(message("one shard does all the work", facts, hint), stacklevel=4)


def _name_of(plan: ShardPlan, query: str) -> str:
    """What a query is called if nobody says: by its sources, and in all its lives the same."""
    sources = dict.fromkeys(pipeline.source.name for pipeline in plan.pipelines)
    return f"{'+'.join(sources)}-{query[:8]}"


def _session_of(roots: Sequence[Node]) -> SparkSession:
    sources = [node for node in walk(*roots) if isinstance(node, SourceNode)]
    return _frame_of(sources[0]).sparkSession


def _frame_of(source: SourceNode) -> DataFrame:
    frame = _feed_of(source).frame
    assert frame is not None
    return frame


def _feed_of(source: SourceNode) -> SparkFeed:
    feed = source.feed
    if not isinstance(feed, SparkFeed) or feed.frame is None:
        facts, hint = {"source": source.details()}, "make it of a Spark DataFrame: sw.stream(frame, ...)"
        raise PlanError(message("the Spark runner runs streams of Spark DataFrames", facts, hint))
    return feed


def _frames_of(plan: ShardPlan) -> list[DataFrame]:
    """The DataFrame of each way in; either all of them end or none does."""
    frames = [_frame_of(pipeline.source) for pipeline in plan.pipelines]
    if len({frame.isStreaming for frame in frames}) > 1:
        facts = {
            pipeline.source.name: "streaming" if f.isStreaming else "ends"
            for pipeline, f in zip(plan.pipelines, frames, strict=True)
        }
        raise PlanError(message("a query reads streaming DataFrames, or such that end, not both", facts))
    return frames


def refuse_lost_rows(plan: ShardPlan, *, streaming: bool) -> None:
    """Refuse a plan with rows for several outputs, where there is one."""
    lost = [output for output in plan.outputs if output != MAIN]
    if lost:
        elsewhere = "use start(late=..., left_out=...)" if streaming else "run it in process, of frame.toArrow()"
        hint = f"{elsewhere}, or choose Late.drop() and LeftOutRows.drop()"
        facts = {"outputs": ", ".join(lost)}
        raise PlanError(message("rows that come too late would be lost: a DataFrame is one output", facts, hint))


def refuse_coming_and_going(plan: ShardPlan, hint: str) -> None:
    """Refuse replicas that come and go where nobody can ask them to."""
    merge = next((node for node in plan.names if isinstance(node, MergeReplicas) and node.comes_and_goes), None)
    if merge is not None:
        raise PlanError(message("on Spark replicas come and go by control records", {"step": merge.line}, hint))


def _sinks_of(
    plan: ShardPlan,
    mains: Sequence[AnySink],
    diverted: Mapping[OutputName, AnySink | Mapping[str, AnySink] | None],
    metrics: AnySink | None,
) -> dict[str, AnySink]:
    """Who takes each output; refused where nobody takes late rows, or somebody takes what is not there."""
    outputs = [output for output in plan.outputs if output.partition("#")[0] == MAIN]
    sinks = dict(zip(outputs, mains, strict=True))
    for kind, given in diverted.items():
        names = [output.removeprefix(f"{kind} ") for output in plan.outputs if output.startswith(f"{kind} ")]
        taken = _sinks_of_diverted(_DIVERTED[kind], names, given)
        sinks |= {_diverted_output(kind, name): sink for name, sink in taken.items()}
    return {**sinks, **({} if metrics is None else {METRICS: metrics})}


class _Diverted(NamedTuple):
    """How messages speak of rows that have an output of their own."""

    option: str
    rows: str
    lost: str
    policy: str


_DIVERTED: Final = {
    LATE: _Diverted("late", "late rows", "rows that come too late", "Late"),
    LEFT_OUT: _Diverted("left_out", "rows left out", "rows that a merge leaves out", "LeftOutRows"),
}


def _sinks_of_diverted(
    words: _Diverted, outputs: Sequence[str], given: AnySink | Mapping[str, AnySink] | None
) -> dict[str, AnySink]:
    """Who takes each of the outputs of rows that did not go on."""
    option = words.option
    sinks: dict[str, Any] = {} if given is None else dict.fromkeys(outputs or [option], given)
    sinks = dict(given) if isinstance(given, Mapping) else sinks
    for output in outputs:
        if output not in sinks:
            facts, hint = {"source": output}, f"name a sink for them, {option}=..., or choose {words.policy}.drop()"
            raise PlanError(message(f"{words.lost} would be lost: nobody takes them", facts, hint))
    for output in sinks:
        if output not in outputs:
            facts = {option: output, "there are": ", ".join(outputs) or "none"}
            hint = f"leave {option}= out, or choose {words.policy}.divert()"
            raise PlanError(message(f"no step of this plan diverts {words.rows}", facts, hint))
    if len(outputs) > 1 and not isinstance(given, Mapping):
        facts, hint = {"sources": ", ".join(outputs)}, f"{option}={{{outputs[0]!r}: sink, {outputs[1]!r}: sink, ...}}"
        raise PlanError(message(f"several steps divert {words.rows}: say where those of each go", facts, hint))
    return sinks


# ---- the frames ------------------------------------------------------------------------------------------------------


def _packed(
    plan: ShardPlan, chunk_rows: int | None, bounds: LateBounds | None = None, *, nothing_is_late: bool = False
) -> DataFrame:
    """The rows of all ways in, packed for the shards."""
    announced_by = None if bounds is None else bounds.setting
    packs = packs_of(plan, chunk_rows or CHUNK_ROWS, announced_by, nothing_is_late=nothing_is_late)
    ways = zip(packs, plan.pipelines, strict=True)
    packed = [_feed_of(pipeline.source).packed(pack, pipeline) for pack, pipeline in ways]
    return reduce(lambda one, other: one.union(other), packed)


def _with_questions(packed: DataFrame, control: ControlFolder | None, flush: Flush | None, shards: int) -> DataFrame:
    """Packed rows, and what somebody asks of all shards: control records, and a flush at the end."""
    if control is not None:
        packed = control.beside(packed, shards)
    if flush is not None:
        flush.prepare()
        packed = packed.union(flush.rows())
    return packed


def _columns(plan: ShardPlan, session: SparkSession) -> dict[str, StructType]:
    return {output: _spark_schema(shown.shown, session) for output, shown in plan.shown_as.items()}


def _spark_schema(schema: pa.Schema, session: SparkSession) -> StructType:
    """The columns in Spark's types. Asked of a frame with one row of nulls: from no row, Connect learns no types."""
    nulls = pa.table({field.name: pa.nulls(1, field.type) for field in schema})
    return session.createDataFrame(nulls).schema
