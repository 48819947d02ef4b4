"""Runs plans without Spark: in process, and in shards that are fed by hand. Both give out what each round releases."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.operators.emission import LATE, LEFT_OUT
from slackwater.plan.node import SideOutput, SourceNode, diverting_steps, walk
from slackwater.progress.instants import FOREVER
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.planning.shard_plan import ShardPlan
from slackwater.runners.spark.shard.arrivals import Arrivals
from slackwater.runners.spark.shard.resharding import split_snapshot, unite_snapshots
from slackwater.runners.spark.shard.shard import Shard
from slackwater.runners.spark.shard.shard_state import codec_of
from slackwater.runners.spark.state.segment_store import Head, SegmentsInMemory, SegmentStore
from slackwater.runners.spark.wire.late_bounds import LateBounds
from slackwater.runners.spark.wire.packed_rows import CLOCK, CONTROL, PackedRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from random import Random

    from slackwater.runners.control_records import ControlRecord
    from slackwater.runners.snapshot import Snapshot
    from slackwater.runners.spark.input.pack import Pack

    Planned: TypeAlias = Callable[[list[sw.DisorderedStream]], Sequence[Any]]

Round: TypeAlias = "dict[str, list[dict[str, Any]]]"
"""The rows that a round of cuts releases, by output, in the order in which they are released."""


def cut(table: pa.Table, rng: Random, cuts: int) -> list[pa.Table]:
    """Cut rows at random."""
    return cut_at(table, [rng.randint(0, table.num_rows) for _ in range(cuts - 1)])


def cut_at(table: pa.Table, edges: Sequence[int]) -> list[pa.Table]:
    """Cut rows at these places."""
    return [table.slice(a, b - a) for a, b in pairwise([0, *sorted(edges), table.num_rows])]


def all_outputs(streams: Sequence[Any]) -> dict[str, Any]:
    """What streams give that run together: their rows, and after them the late rows of every step that diverts them.

    Last come the rows that merges of replicas have left out, of those that divert them.
    """
    roots = [stream.node for stream in streams]
    late = {name: sw.DisorderedStream(SideOutput(step, LATE)) for step, name in diverting_steps(*roots).items()}
    merges = diverting_steps(*roots, output=LEFT_OUT)
    left_out = {f"left out {name}": sw.DisorderedStream(SideOutput(step, LEFT_OUT)) for step, name in merges.items()}
    return {**{f"main {number}": stream for number, stream in enumerate(streams)}, **late, **left_out}


def sources_of_late_rows(streams: Sequence[Any]) -> list[str]:
    """The name of the source of each output of late rows."""
    steps = diverting_steps(*(stream.node for stream in streams))
    return [next(node.name for node in walk(step) if isinstance(node, SourceNode)) for step in steps]


def in_process(
    planned: Planned,
    cuts: Sequence[Sequence[pa.Table]],
    asked: Sequence[Sequence[ControlRecord]] = (),
    **columns: Any,
) -> Iterator[Round]:
    """What comes out in process with each round of cuts, and then with the flush.

    What is `asked` is applied behind the rows of its round, unless it is refused. `columns` are those of all streams.
    """
    sources = [sw.PushSource(tables[0].schema, name=f"source {number}") for number, tables in enumerate(cuts)]
    outputs = all_outputs(planned([sw.stream(source, time="at", **columns) for source in sources]))
    given: Round = {output: [] for output in outputs}

    def binding(output: str) -> Callable[[pa.RecordBatch], None]:
        return lambda rows: given[output].extend(rows.to_pylist())

    with sw.Query([(stream, binding(output)) for output, stream in outputs.items()], clock=sw.ManualClock()) as query:
        for number, turn in enumerate(zip(*cuts, strict=True)):
            for source, rows in zip(sources, turn, strict=True):
                if rows.num_rows:
                    source.push(rows.combine_chunks())
            query.work()
            for record in asked[number] if asked else ():
                with suppress(PlanError):
                    query._runner.apply(record)
            yield _taken(given)
        for source in sources:
            source.close()
        query.run_to_end()
        yield _taken(given)


def _taken(given: Round) -> Round:
    taken = {output: list(rows) for output, rows in given.items()}
    for rows in given.values():
        rows.clear()
    return taken


def shard_plan(planned: Planned, schemas: Sequence[pa.Schema], shards: int, **columns: str) -> ShardPlan:
    """The plan that shards run."""
    sources = [sw.PushSource(schema, name=f"source {number}") for number, schema in enumerate(schemas)]
    outputs = all_outputs(planned([sw.stream(source, time="at", **columns) for source in sources]))  # type: ignore[arg-type]
    return ShardPlan.of({output: stream.node for output, stream in outputs.items()}, shards)


class Segments(SegmentsInMemory):
    """What is stored of a shard."""

    def stored(self, shard: Shard) -> Snapshot:
        """Store a shard, and return what can be read of it."""
        codec = codec_of(shard._plan)
        SegmentStore(codec).save(self, shard.snapshot())
        head = Head.read(self)
        assert head is not None
        return SegmentStore.load(codec, self, head, {})[1]


def packed_at(now: int, pack: Pack, rows: pa.Table, task: int = 0) -> list[PackedRow]:
    """The rows of a task, packed in a micro-batch with this timestamp, which Spark adds where it is asked for."""
    clocked = rows.append_column(CLOCK, pa.array([now] * rows.num_rows, pa.int64())) if pack.needs_clock else rows
    packed = pack.packed(task, clocked.to_batches())
    return [row._replace(now=now) if pack.by_clock else row for row in packed]


def packed_by_tasks(
    plan: ShardPlan, turn: Sequence[pa.Table], rng: Random, announced: Sequence[int] | None = None
) -> list[PackedRow]:
    """The rows of each way in, packed by two tasks in small chunks.

    Where it is announced from when on rows are in time, some tasks do not hear of it, and some hear of a later time.
    """
    return [
        packed
        for pack, rows in zip(packs_of(plan, chunk_rows=7), turn, strict=True)
        for task, part in enumerate(cut(rows, rng, 2))
        for packed in pack.packed(task, part.to_batches(), _heard(announced, pack.pipeline, rng))
    ]


def _heard(announced: Sequence[int] | None, way: int, rng: Random) -> int:
    return (
        FOREVER if announced is None else rng.choice([FOREVER, *[announced[way]] * 2, min(announced[way] + 7, FOREVER)])
    )


def resharded(then: ShardPlan, shards: Mapping[int, Shard]) -> dict[int, Shard]:
    """Shards as those of the same plan with another number of them, by way of what is stored."""
    parts = [split_snapshot(then, Segments().stored(shard)) for shard in shards.values()]
    assert all(len(part) == then.shards for part in parts)
    others = {
        key: Shard(then, _stored(then, unite_snapshots(then, [_stored(then, part) for part in of_shard])))
        for key, of_shard in zip(shard_keys(then.shards), zip(*parts, strict=True), strict=True)
    }
    for counted in (Shard.late, Shard.duplicates, Shard.broken_bounds):
        assert sum(map(counted, shards.values())) == sum(map(counted, others.values())), counted
    assert sum(map(Shard.buffered, shards.values())) >= sum(map(Shard.buffered, others.values()))
    return others


def _stored(plan: ShardPlan, snapshot: Snapshot) -> Snapshot:
    shard = Shard(plan, snapshot)
    for step in shard._graph.steps:
        step.operator.check()
    return Segments().stored(shard)


def _arrived(
    shards: Iterable[int], packed: Sequence[PackedRow], asked: Sequence[ControlRecord], rng: Random
) -> dict[int, Arrivals]:
    """What comes to each shard, in some order: a shuffle keeps none. What is asked comes to all."""
    texts = [record.as_text().encode() for record in asked]
    rows = [*packed, *(PackedRow(key, -1, 0, CONTROL, 0, 0, text) for key in shards for text in texts)]
    arrivals = {key: Arrivals() for key in shards}
    for row in rng.sample(rows, len(rows)):
        arrivals[row.shard].add(row)
    return arrivals


def in_shards(
    plan: ShardPlan,
    cuts: Sequence[Sequence[pa.Table]],
    rng: Random,
    *,
    store: bool,
    later: Sequence[ShardPlan] = (),
    asked: Sequence[Sequence[ControlRecord]] = (),
) -> Iterator[Round]:
    """The same, from shards; between two rounds each is stored and made anew, if it is to be.

    Tasks that pack rows hear what the driver knows, as far as they listen.
    There are cuts for each way into the shards, in their order. After each round the next of some later plans goes on,
    which have other numbers of shards.
    """
    plans = iter(later)
    shards = {key: Shard(plan) for key in shard_keys(plan.shards)}
    segments = {key: Segments() for key in shards}
    given: Round = {output: [] for output in plan.outputs}
    bounds = LateBounds("", plan.shards, len(plan.pipelines), is_new=True)
    for number, turn in enumerate(zip(*cuts, strict=True)):
        packed = packed_by_tasks(plan, turn, rng, bounds.known_in(number))
        arrivals = _arrived(shards, packed, asked[number] if asked else (), rng)
        for key, shard in shards.items():
            for output, released in shard.on_micro_batch(arrivals[key]):
                given[output] += released.to_pylist()
        bounds.learn(number, [(key, shard.in_time_from()) for key, shard in shards.items()])
        for key, shard in shards.items():
            if store:
                shards[key] = Shard(plan, segments[key].stored(shard))
        yield _taken(given)
        then = next(plans, None)
        if then is not None:
            plan, shards = then, resharded(then, shards)
            segments = {key: Segments() for key in shards}
            bounds = LateBounds("", plan.shards, len(plan.pipelines), is_new=False)
    for shard in shards.values():
        for output, released in shard.flush():
            given[output] += released.to_pylist()
    yield _taken(given)
