"""Says how Spark would run a plan: where each step is done, which rows go to which shard and why, and what crosses.

    shards    2, by symbol: all rows that a step needs together agree on it
    cadence   ...

    aggregate#1 ...           shards      one line for each step, as explain() writes it, and where it is done
    └─ punctuate#1 ...        shards
       └─ where#1 ...         Spark

No query is started: the plan is made as start() makes it. Which steps Spark takes over is found as start() finds it, by
trying them on a frame of no rows; without a DataFrame neither a session nor Java is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slackwater.operators.emission import DIVERTED
from slackwater.plan.explain import Drawing, facts_of, runs_once
from slackwater.plan.node import SourceNode, walk
from slackwater.plan.nodes.aggregating import summed_up_in_words
from slackwater.plan.rewrites.preaggregate import why_not_map_side
from slackwater.runners.spark.output.sinks import FEW_BYTES
from slackwater.runners.spark.planning.held_rows import held_rows
from slackwater.runners.spark.planning.shard_count import cores_of
from slackwater.runners.spark.runner import MAIN, plan_of, require_counts
from slackwater.runners.spark.settings import calls_of, settings_for_local_checkpoints
from slackwater.runners.spark.source import SparkFeed
from slackwater.runners.spark.state.memory import as_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from slackwater.plan.node import Node
    from slackwater.runners.spark.planning.shard_plan import InputPipeline, ShardPlan

_SPARK: Final = "Spark"
_MAP_TASKS: Final = "map tasks"
_EITHER: Final = "Spark or map tasks"
_SHARDS: Final = "shards"

_JOBS: Final = (
    f"one computes all outputs; one more for each of more than {FEW_BYTES >> 20} MiB, or whose sink is neither a "
    "folder of Parquet files nor a table; one for everything while one folder alone gets more"
)
"""What Spark does for a micro-batch."""

_UNLESS_LATE: Final = (
    "on the map side, rows that cannot be late after the micro-batch before; those that may be, and all rows of the "
    "first micro-batch after a restart, in shards"
)
"""Where rows are summed up if late ones are to be seen."""

_SEVERAL: Final = 2
"""Shards of a plan that is explained where nobody knows how many there will be."""


def explain(roots: Sequence[Node], shards: int | None = None) -> str:
    """Write how Spark would run streams, with so many shards, or as many as start() would take."""
    require_counts(shards=shards)
    cores = _cores(roots)
    wanted = shards or cores or _SEVERAL
    plan = plan_of(roots, wanted)
    facts = dict(_facts(plan, known=bool(shards or cores), asked=shards is not None))
    held = held_rows(plan, None if _ends(roots) else as_memory(None, _session_of(roots)))
    facts |= {"memory": held} if held else {}
    facts |= _settings(_session_of(roots))
    width = max(map(len, facts))
    places = _places(plan)
    mains = [node for output, node in plan.outputs.items() if output.partition("#")[0] == MAIN]
    tree = Drawing(plan.names, (lambda node: places.get(node, _SHARDS), facts_of), lambda node: _again(node, places))
    return "\n".join([*(f"{name:<{width}}  {fact}" for name, fact in facts.items()), "", *tree.of(mains)])


def _again(node: Node, places: Mapping[Node, str]) -> str:
    """What stands for a step that was shown before: what several ways into the shards have, each does for itself."""
    return "shown above; done again for this patience" if node in places else runs_once(node)


def _facts(plan: ShardPlan, *, known: bool, asked: bool) -> Iterator[tuple[str, str]]:
    """What holds of the whole plan."""
    yield "shards", _shards(plan, known=known, asked=asked)
    yield "cadence", "once for each micro-batch, whatever a step says that it does by default"
    yield "summed up", _summed_up(plan)
    yield from _heartbeats(plan)
    yield "to Python", _passes(plan)
    yield "jobs", _JOBS
    yield "outputs", ", ".join(map(_output, plan.outputs))
    strangers = dict.fromkeys(one.source.name for one in plan.pipelines if not isinstance(one.source.feed, SparkFeed))
    if strangers:
        yield "not yet", f"{', '.join(strangers)}: Spark reads streams of its DataFrames, sw.stream(frame, ...)"


def _settings(session: SparkSession | None) -> dict[str, str]:
    """What would make a query of to_spark() faster, which has the settings of its session."""
    calls = {} if session is None else settings_for_local_checkpoints(session)
    if not calls:
        return {}
    return {"settings": f"start() has its own; to_spark(), where the checkpoint is on a local disk: {calls_of(calls)}"}


def _shards(plan: ShardPlan, *, known: bool, asked: bool) -> str:
    if plan.columns is None:
        if plan.wanted_shards > 1:
            return f"1: {plan.why_one}"
        return "1, as asked for" if asked else "1: there is one core"
    number = str(plan.shards) if known else "one for each task that Spark runs at once"
    return f"{number}, by {_deciding(plan)}: all rows that a step needs together agree on that"


def _summed_up(plan: ShardPlan) -> str:
    """Where rows are summed up before the shuffle, and why not where they are not."""
    groups = [pipeline.summed_up.details() for pipeline in plan.pipelines if pipeline.summed_up is not None]
    whole = [one.sums for one in plan.pipelines if one.sums is not None and one.sums.of_late_rows]
    groups += [one.aggregate.details() for one in whole]
    beside = [one.groups_beside_rows for one in plan.pipelines]
    mixed = [summed_up_in_words(one.groups.aggregates, one.groups.keys) for one in beside if one is not None]
    reasons = why_not_map_side(*plan.outputs.values())
    if not groups and not mixed and not reasons:
        return "nothing is aggregated: rows are shuffled to shards as they are"
    parts = [f"on the map side, before groups are moved to shards: {'; '.join(groups)}"] if groups else []
    parts += [f"{_UNLESS_LATE}: {'; '.join(mixed)}"] if mixed else []
    parts += (
        [f"after the shuffle, in shards, with no partial aggregation before: {'; '.join(reasons)}"] if reasons else []
    )
    return "; ".join(parts)


def _heartbeats(plan: ShardPlan) -> Iterator[tuple[str, str]]:
    """What heartbeats go by, where there are bounds."""
    arrived = dict.fromkeys(one.source.arrived for one in plan.pipelines if one.heartbeats is not None)
    if arrived:
        when = "; ".join("the timestamp of its micro-batch" if one is None else f"column {one}" for one in arrived)
        taken = "statistics of each source are taken before filters and sent to all shards"
        yield "bounds", f"{taken}; a row arrives when {when} says"


def _deciding(plan: ShardPlan) -> str:
    """The columns that decide, with their sources where these call them by different names."""
    assert plan.columns is not None
    ways = dict.fromkeys((", ".join(plan.columns[one.entry]), one.source.name) for one in plan.pipelines)
    if len({columns for columns, _ in ways}) == 1:
        return next(iter(ways))[0]
    return "; ".join(f"{columns} of {source}" for columns, source in ways)


def _passes(plan: ShardPlan) -> str:
    """How often data goes from Spark to Python and back."""
    files = all(_reads_files(one.source) for one in plan.pipelines)
    packed = "files are read and packed" if files else "rows are packed"
    return f"2 passes: {packed} in map tasks, and shards run the plan; many rows of an output are unpacked in a third"


def _output(name: str) -> str:
    kind = next((kind for kind in DIVERTED if name.startswith(f"{kind} ")), None)
    return name if kind is None else f"{kind} rows of {name.removeprefix(f'{kind} ')}"


def _places(plan: ShardPlan) -> dict[Node, str]:
    """Where the steps before the shards are done."""
    places: dict[Node, str] = {}
    for pipeline in plan.pipelines:
        places |= dict.fromkeys(pipeline.outside, _MAP_TASKS)
        places |= _pushed_down(pipeline)
    return places


def _pushed_down(pipeline: InputPipeline) -> dict[Node, str]:
    """The source and the steps that Spark does itself; where there is no DataFrame to ask, those that it may do."""
    feed = pipeline.source.feed
    if not isinstance(feed, SparkFeed):
        return dict.fromkeys((pipeline.source, *pipeline.may_be_native), _EITHER)
    if _reads_files(pipeline.source):
        return {}
    return dict.fromkeys((pipeline.source, *pipeline.steps[: feed.pushed_down(pipeline)]), _SPARK)


def _reads_files(source: SourceNode) -> bool:
    return isinstance(source.feed, SparkFeed) and source.feed.read_in_python


def _cores(roots: Sequence[Node]) -> int | None:
    """How many shards start() would take, as far as is known without a job."""
    session = _session_of(roots)
    return None if session is None else cores_of(session)


def _session_of(roots: Sequence[Node]) -> SparkSession | None:
    """The session of the first DataFrame; none where there is none."""
    frames = _frames_of(roots)
    return frames[0].sparkSession if frames else None


def _ends(roots: Sequence[Node]) -> bool:
    """Whether all DataFrames that are read end; where there are none, a stream is what is asked about."""
    frames = _frames_of(roots)
    return bool(frames) and not any(frame.isStreaming for frame in frames)


def _frames_of(roots: Sequence[Node]) -> list[DataFrame]:
    feeds = [node.feed for node in walk(*roots) if isinstance(node, SourceNode)]
    return [feed.frame for feed in feeds if isinstance(feed, SparkFeed) and feed.frame is not None]
