"""Runs shards whose rows are summed up where they are read, with what tasks that read rows know, or take for known."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from without_spark import Segments, cut

import slackwater as sw
from slackwater.progress.instants import BEGINNING, FOREVER
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.shard.arrivals import Arrivals
from slackwater.runners.spark.shard.shard import Shard
from slackwater.runners.spark.wire.packed_rows import ARRIVED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slackwater.runners.spark.planning.shard_plan import ShardPlan
    from slackwater.runners.spark.wire.packed_rows import PackedRow

SCHEMA = pa.schema({"at": pa.int64(), "k": pa.float64(), "v": pa.int64(), "x": pa.float64()})
SUMS: dict[str, Any] = {
    "n": sw.count(),
    "total": sw.sum("v"),
    "x_": sw.sum("x"),
    "mean": sw.mean("x"),
    "least": sw.min("x"),
    "different": sw.count_distinct("x"),
    "top": sw.top_k("v", 2),
}

KNOWN: dict[str, Callable[[int, Random], int]] = {
    "nothing": lambda _bound, _rng: FOREVER,
    "what holds": lambda bound, _rng: bound,
    "too late a time": lambda bound, rng: min(bound + rng.randint(0, 12), FOREVER),
    "some of it": lambda bound, rng: rng.choice([bound, bound, FOREVER]),
}
"""What a task that packs rows takes for the bound, by what it is and at random."""


def rows_of(rng: Random, rows: int) -> pa.Table:
    """Times that go back, missing keys, zeros of both signs, NaNs, sums that need all digits."""
    at, made = 0, []
    for _ in range(rows):
        at += rng.choice([0, 1, 1, 3])
        made.append({
            "at": max(0, at - rng.choice([0, 0, 0, 3, 9, 15, 40])),
            "k": rng.choice([0.0, -0.0, 1.5, float("nan"), None]),
            "v": rng.randint(-3, 3),
            "x": rng.choice([1e300, -1e300, 1e-9, 0.1, -0.0, None]),
        })  # fmt: skip
    return pa.Table.from_pylist(made, SCHEMA)


def packed_with(
    plan: ShardPlan, turn: pa.Table, known: Callable[[], int], rng: Random, chunk_rows: int = 7
) -> list[PackedRow]:
    """Rows that three tasks pack, in small chunks; each knows what it knows."""
    (pack,) = packs_of(plan, chunk_rows)
    return [row for task, part in enumerate(cut(turn, rng, 3)) for row in pack.packed(task, part.to_batches(), known())]


def arrivals_of(packed: Sequence[PackedRow], key: int) -> Arrivals:
    """What of it comes to a shard."""
    arrivals = Arrivals()
    for row in packed:
        if row.shard == key:
            arrivals.add(row)
    return arrivals


def run_shards(plan: ShardPlan, turns: Sequence[pa.Table], known: str, rng: Random) -> dict[Any, list[Any]]:
    """What each shard gives, in its order, and what it counts, micro-batch by micro-batch, stored in between.

    By the clock the first has the timestamp 10, the next 20, and so on.
    """
    shards = {key: Shard(plan) for key in shard_keys(plan.shards)}
    given: dict[Any, list[Any]] = defaultdict(list)
    bound = BEGINNING
    for number, turn in enumerate(turns):
        packed = packed_with(plan, turn, partial(KNOWN[known], bound, rng), Random(number))
        packed = [row._replace(now=10 * (number + 1)) if row.number == ARRIVED else row for row in packed]
        for key, shard in shards.items():
            arrivals = arrivals_of(packed, key)
            for output, rows in shard.on_micro_batch(arrivals):
                given[key, number, output] += rows.to_pylist()
            given[key, number] = [arrivals.rows, shard.late(), shard.totals(), shard.broken_bounds(), _why(shard)]
            shards[key] = Shard(plan, Segments().stored(shard))
        bound = max(one.in_time_from()[0] for one in shards.values())
    for key, shard in shards.items():
        for output, rows in shard.flush():
            given[key, output] += rows.to_pylist()
    return given


def _why(shard: Shard) -> Any:
    """Why it is no further. But for how much is held: a group counts once in each part that has it, as it came."""
    return [{name: what for name, what in one.items() if name != "held"} for one in json.loads(shard.why())]
