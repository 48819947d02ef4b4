"""Rows without a time in shards, without Spark around them: late in every shard, as they are in one process."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from without_spark import Segments, cut, packed_by_tasks

import slackwater as sw
from slackwater.errors import BadTime
from slackwater.operators.emission import LATE
from slackwater.plan.node import SideOutput, diverting_steps
from slackwater.plan.nodes.ordering import Punctuate, Sort
from slackwater.policies.lateness import Lateness
from slackwater.progress.instants import BEGINNING
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.planning.shard_plan import ShardPlan
from slackwater.runners.spark.shard.arrivals import Arrivals
from slackwater.runners.spark.shard.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_SCHEMA = pa.schema({"at": pa.int64(), "k": pa.string(), "n": pa.int64()})
_BATCH = sw.Every.batch()
_PATIENT = 20
"""No row that has a time is late for this."""

_Streams = list[sw.DisorderedStream]


def _sorted(stream: sw.DisorderedStream, patience: int = 6, late: sw.Late | None = None) -> sw.OrderedStream:
    return stream.sort(patience, every=_BATCH, late=late or sw.Late.divert())


def _late_behind(windows: sw.DisorderedStream) -> sw.OrderedStream:
    return sw.OrderedStream(Sort(Punctuate(windows.node, Lateness((6,), _BATCH, sw.Late.divert()))))


PLANS: dict[str, Callable[[_Streams], Sequence[Any]]] = {
    "sort": lambda s: [_sorted(s[0])],
    "sort, late rows dropped": lambda s: [_sorted(s[0], late=sw.Late.drop())],
    "sort, late rows moved": lambda s: [_sorted(s[0], late=sw.Late.adjust())],
    "where and select": lambda s: [_sorted(s[0].where(nw.col("n") % 3 > 0).select("k", m=nw.col("n") + 1))],
    "windows before the patience": lambda s: [_late_behind(s[0].tumbling(5))],
    "overlapping windows before the patience": lambda s: [_late_behind(s[0].hopping(8, 4))],
    "counts by key": lambda s: [_sorted(s[0]).tumbling(5).group_by("k").aggregate(n=sw.count())],
    "bands of counts": lambda s: list(s[0].tumbling(5).group_by("k").in_bands(2, 6, 12, every=_BATCH, n=sw.count())),
    "bands, late rows moved": lambda s: list(s[0].in_bands(2, 6, every=_BATCH, late=sw.Late.adjust())),
    "join": lambda s: [_sorted(s[0]).join(_sorted(s[1]).select("k", other="n"), on="k", within=3)],
    "replicas": lambda s: [sw.merge_replicas(_sorted(s[0], _PATIENT), _sorted(s[1], _PATIENT))],
}


def _rows(rng: Random, rows: int) -> pa.Table:
    """Times that go back, tie and are missing; now and then for many rows in a row."""
    at, made, missing = 0, [], 0.2
    for number in range(rows):
        at += rng.choice([0, 0, 1, 2])
        missing = rng.choice([0.0, 0.2, 0.2, 1.0]) if number % 8 == 0 else missing
        time = None if rng.random() < missing else max(0, at - rng.choice([0, 0, 0, 3, 9, 15]))
        made.append({"at": time, "k": rng.choice(["a", "b", None]), "n": number})
    return pa.Table.from_pylist(made, _SCHEMA)


def _outputs(name: str, sources: Sequence[sw.PushSource]) -> dict[str, Any]:
    streams = PLANS[name]([sw.stream(source, time="at", untimed_is_late=True) for source in sources])
    steps = diverting_steps(*(stream.node for stream in streams))
    late = {f"late {name}": sw.DisorderedStream(SideOutput(step, LATE)) for step, name in steps.items()}
    return {**{f"main {number}": stream for number, stream in enumerate(streams)}, **late}


def _sources(count: int) -> list[sw.PushSource]:
    return [sw.PushSource(_SCHEMA, name=f"source {number}") for number in range(count)]


def _in_process(name: str, cuts: list[list[pa.Table]]) -> Iterator[tuple[Counter[str], int]]:
    """All rows that have come out after each round of cuts, and how many rows were late."""
    sources = _sources(len(cuts))
    given: Counter[str] = Counter()

    def binding(output: str) -> Callable[[pa.RecordBatch], None]:
        return lambda rows: given.update(_spelled(output, rows))

    sinks = [(stream, binding(output)) for output, stream in _outputs(name, sources).items()]
    with sw.Query(sinks, clock=sw.ManualClock()) as query:
        for turn in zip(*cuts, strict=True):
            for source, rows in zip(sources, turn, strict=True):
                if rows.num_rows:
                    source.push(rows.combine_chunks())
            query.work()
            yield Counter(given), sum(step.late for step in query.counters().values())


def _spelled(output: str, rows: pa.RecordBatch) -> list[str]:
    return [f"{output}: {row}" for row in rows.to_pylist()]


def _plan(name: str, sources: int, shards: int) -> ShardPlan:
    outputs = _outputs(name, _sources(sources))
    return ShardPlan.of({output: stream.node for output, stream in outputs.items()}, shards)


def _in_shards(plan: ShardPlan, cuts: list[list[pa.Table]], rng: Random) -> Iterator[tuple[Counter[str], int]]:
    """The same, from shards; between two rounds each is stored and made anew."""
    shards = {key: Shard(plan) for key in shard_keys(plan.shards)}
    segments = {key: Segments() for key in shards}
    given: Counter[str] = Counter()
    for turn in zip(*cuts, strict=True):
        arrivals = {key: Arrivals() for key in shards}
        for row in packed_by_tasks(plan, turn, rng):
            arrivals[row.shard].add(row)
        for key, shard in shards.items():
            for output, rows in shard.on_micro_batch(arrivals[key]):
                given.update(_spelled(output, rows))
            shards[key] = Shard(plan, segments[key].stored(shard))
        yield Counter(given), sum(shard.late() for shard in shards.values())


@pytest.mark.parametrize("name", PLANS)
@given(seed=st.integers(0, 10**6), shards=st.sampled_from([1, 3, 8]), cuts=st.integers(1, 5))
def test_shards_together_give_what_one_process_gives(name: str, seed: int, shards: int, cuts: int) -> None:
    """After every micro-batch the same rows, the same late rows, and as many that were counted as late."""
    rng = Random(seed)
    plan = _plan(name, 2, shards)
    tables = [_rows(rng, rng.randint(0, 60)) for _ in range(2)]
    if name == "replicas":
        tables = [tables[0]] * 2
    turns = [cut(table, rng, cuts) for table in tables]
    ours = _in_shards(plan, turns[: len(plan.pipelines)], rng)
    for (got, late), (expected, expected_late) in zip(ours, _in_process(name, turns), strict=True):
        assert got == expected
        assert late == expected_late


def test_they_never_move_the_high_water() -> None:
    """A task that has only such rows says so to all shards: rows came, and no time."""
    plan = _plan("counts by key", 1, 3)
    table = pa.table({"at": pa.nulls(4, pa.int64()), "k": ["a", "b", None, "c"], "n": [1, 2, 3, 4]}, schema=_SCHEMA)
    (pack,) = packs_of(plan)
    packed = list(pack.packed(0, table.to_batches()))
    statistics = [row for row in packed if row.body is None]
    assert [(row.rows, row.high_water) for row in statistics] == [(4, BEGINNING)] * 3
    assert sum(row.rows for row in packed if row.body is not None) == 4


def test_without_the_policy_they_are_refused_where_rows_are_packed() -> None:
    """By the name of the source."""
    source = sw.PushSource(_SCHEMA, name="gauges")
    ordered = _sorted(sw.stream(source, time="at"))
    plan = ShardPlan({"main": ordered.node, "late": ordered.late.node}, 1)
    table = pa.table({"at": [1, None], "k": ["a", "b"], "n": [1, 2]}, schema=_SCHEMA)
    with pytest.raises(BadTime, match=r"(?s)source 'gauges' got a row without a time.*row *1"):
        list(packs_of(plan)[0].packed(0, table.to_batches()))
