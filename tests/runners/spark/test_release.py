"""Releases in shards: rows wait for other sources there as in process, and the same come out of every micro-batch."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from without_spark import cut_at, in_shards, packed_by_tasks, shard_plan

import slackwater as sw
from slackwater.runners.spark.shard.arrivals import Arrivals
from slackwater.runners.spark.shard.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

_SCHEMA = pa.schema({"at": pa.int64(), "k": pa.int64()})
_BY_MEMORY = sw.Release.by_memory(growth={"join#1": 3.0})


class _Planned:
    """Figure 5, by a release."""

    def __init__(self, release: sw.Release, late: sw.Late | None = None) -> None:
        self._release, self._late = release, late or sw.Late.divert()

    def __call__(self, raw: list[sw.DisorderedStream]) -> Sequence[Any]:
        s1, s2, s3 = (stream.sort(patience=4, late=self._late) for stream in raw)
        first = s1.join(s2, on="k", within=3).select("k")
        return [first.join(s3, on="k", within=1).release(self._release)]


def _cuts(rng: Random) -> list[list[pa.Table]]:
    """Rows of three sources in five micro-batches: two in step, the third far behind until the last but one."""
    tables = []
    for lag in (0, 0, 60):
        times = [max(0, at - lag * (at < 80) + rng.randint(-4, 4)) for at in range(100)]
        table = pa.table({"at": times, "k": [rng.randint(0, 2) for _ in times]}, schema=_SCHEMA)
        tables.append(cut_at(table, [20, 40, 60, 80]))
    return tables


@pytest.mark.parametrize("release", [sw.Release.by_query(), _BY_MEMORY])
@pytest.mark.parametrize(("shards", "store"), [(1, False), (1, True), (3, True)])
def test_every_micro_batch_gives_the_same(release: sw.Release, shards: int, store: bool) -> None:
    """Also where a shard is stored between two of them; the same rows are late."""
    cuts = _cuts(Random(5))
    schemas = [_SCHEMA] * 3
    by_operator = shard_plan(_Planned(sw.Release.by_operator()), schemas, shards)
    held = shard_plan(_Planned(release), schemas, shards)
    assert sum(name.startswith("hold") for name in held.steps.values()) == 2
    assert held.shards == by_operator.shards == shards
    # Ways into the shards are in the order of the plan, in which a hold reads the third source before the second.
    order = [int(pipeline.source.name.removeprefix("source ")) for pipeline in held.pipelines]
    expected = list(in_shards(by_operator, cuts, Random(1), store=store))
    given = list(in_shards(held, [cuts[number] for number in order], Random(1), store=store))
    assert any(rows for one in expected for rows in one.values())
    for then, now in zip(expected, given, strict=True):
        assert sorted(map(repr, then.pop("main 0"))) == sorted(map(repr, now.pop("main 0")))
        assert sorted(map(repr, then.values())) == sorted(map(repr, now.values())), "late rows"


def test_while_a_source_lags_rows_are_held_and_not_what_is_made_of_them() -> None:
    """Of two sources that are 40 ahead rows wait before the first join; by operator its pairs do."""
    held = {}
    for name, release in (("operator", sw.Release.by_operator()), ("memory", _BY_MEMORY)):
        plan = shard_plan(_Planned(release), [_SCHEMA] * 3, 1)
        shard, arrivals = Shard(plan), Arrivals()
        rows = {"source 0": range(40), "source 1": range(40), "source 2": range(1)}
        tables = [
            pa.table({"at": list(rows[pipeline.source.name]), "k": [0] * len(rows[pipeline.source.name])})
            for pipeline in plan.pipelines
        ]
        for packed in packed_by_tasks(plan, [table.cast(_SCHEMA) for table in tables], Random(2)):
            arrivals.add(packed)
        assert list(shard.on_micro_batch(arrivals)) == []
        held[name] = {step.name: step.operator.held_back() for step in shard._graph.steps}
    assert held["memory"]["hold#1"] == held["memory"]["hold#2"] == 35
    assert held["memory"]["join#2"] == 0
    assert held["operator"]["join#2"] == sum(min(i + 3, 34) - max(i - 3, 0) + 1 for i in range(35))


def test_on_spark_frames_that_end_give_the_same(session: SparkSession) -> None:
    """The plan travels to Python workers, holds and all; everything comes out, for the frames end."""
    rng = Random(7)
    tables = [
        pa.table({"at": range(60), "k": [rng.randint(0, 2) for _ in range(60)]}, schema=_SCHEMA) for _ in range(3)
    ]
    (expected,) = _Planned(sw.Release.by_operator(), sw.Late.drop())([sw.stream(table, time="at") for table in tables])
    frames = [sw.stream(session.createDataFrame(table), time="at") for table in tables]
    (held,) = _Planned(_BY_MEMORY, sw.Late.drop())(frames)
    rows = expected.run().table
    found = held.to_spark(shards=3).toArrow().cast(rows.schema)
    assert rows.num_rows > 100
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, rows.to_pylist()))
