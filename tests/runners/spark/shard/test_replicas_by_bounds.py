"""Replicas that go by bounds, in shards: they give what one process gives, after every micro-batch."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from effort import FEWER
from hypothesis import given
from hypothesis import strategies as st
from without_spark import Segments, all_outputs, cut, packed_at

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.planning.shard_plan import ShardPlan
from slackwater.runners.spark.shard.arrivals import Arrivals
from slackwater.runners.spark.shard.shard import Shard

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ROWS = pa.schema({"at": pa.timestamp("us", "UTC"), "k": pa.string(), "replica": pa.string()})
_SECOND = 1_000_000
_PATIENCE = "20s"

_BOUNDS = {
    "delay": sw.Bounds.delay("4s"),
    "delays": sw.Bounds.delay({"blue": "2s", "green": "9s", ...: "5s"}),
    "own order": sw.Bounds.disorder("3s") & sw.Bounds.idle("6s"),
    "all pairs": sw.Bounds.uniform("4s", latency="2s") & sw.Bounds.delay("30s"),
    "lull": sw.Bounds.disorder("3s") & sw.Bounds.lull("5s"),
}

Round = tuple[int, pa.Table]
"""A micro-batch: its timestamp, and its rows."""


def _outputs(source: Any, bounds: sw.Bounds) -> dict[str, Any]:
    merged = sw.stream(source, time="at").merge_replicas(
        "replica", _PATIENCE, bounds=bounds, left_out=sw.LeftOutRows.divert()
    )
    return {**all_outputs([merged]), "left out": merged.left_out}


def _rounds(rng: Random) -> list[Round]:
    """Replicas that mostly agree, some of which die, pause or appear; in rounds of a second or more."""
    now, rounds = 100 * _SECOND, []
    ends = {name: rng.choice([200, rng.randint(100, 130)]) for name in ("blue", "green")}
    begins = {"blue": 0, "green": rng.choice([0, rng.randint(100, 120)]), "red": rng.choice([400, 110])}
    for _ in range(rng.randint(1, 14)):
        now += rng.choice([1, 1, 1, 3, 8]) * _SECOND
        second, rows = now // _SECOND, []
        for name, begin in begins.items():
            if begin <= second <= ends.get(name, 400) and rng.random() < 0.9:
                # The least comes first: of the rows of several tasks nobody knows which one did.
                ats = sorted({second - rng.choice([0, 0, 1, 3, rng.choice([3, 25])]) for _ in range(rng.randint(1, 5))})
                rows += [{"at": at * _SECOND, "k": "ab"[at % 2], "replica": name} for at in ats]
        table = pa.table(
            [
                pa.array([row[name] for row in rows], pa.int64() if name == "at" else pa.string())
                for name in _ROWS.names
            ],
            _ROWS.names,
        ).cast(_ROWS)
        rounds.append((now, table))
    return rounds


def _in_process(bounds: sw.Bounds, rounds: Sequence[Round]) -> Iterator[Counter[str]]:
    clock, source = sw.ManualClock(0), sw.PushSource(_ROWS)
    outputs, given = _outputs(source, bounds), Counter[str]()

    def binding(output: str) -> Any:
        return lambda rows: given.update(f"{output}: {row}" for row in rows.to_pylist())

    query = sw.Query([(stream, binding(output)) for output, stream in outputs.items()], clock=clock)
    for now, rows in rounds:
        clock.advance(now - clock.now())
        if rows.num_rows:
            source.push(rows.combine_chunks().to_batches()[0])
            query.step()
        yield Counter(given)
    source.close()
    query.run_to_end()
    yield Counter(given)


def _in_shards(
    bounds: sw.Bounds, rounds: Sequence[Round], shards: int, rng: Random, *, store: bool
) -> Iterator[Counter[str]]:
    outputs = _outputs(sw.PushSource(_ROWS), bounds)
    plan = ShardPlan.of({output: stream.node for output, stream in outputs.items()}, shards)
    assert plan.shards == shards
    (pack,) = packs_of(plan, chunk_rows=3)
    assert pack.by_clock
    running = {key: Shard(plan) for key in shard_keys(shards)}
    segments = {key: Segments() for key in running}
    given = Counter[str]()
    for now, rows in rounds:
        packed = [one for task, part in enumerate(cut(rows, rng, 2)) for one in packed_at(now, pack, part, task)]
        arrivals = {key: Arrivals() for key in running}
        for row in rng.sample(packed, len(packed)):  # a shuffle keeps no order
            arrivals[row.shard].add(row)
        for key, shard in running.items():
            for output, released in shard.on_micro_batch(arrivals[key]):
                given.update(f"{output}: {row}" for row in released.to_pylist())
            if store:
                running[key] = Shard(plan, segments[key].stored(shard))
        yield Counter(given)
    for shard in running.values():
        for output, released in shard.flush():
            given.update(f"{output}: {row}" for row in released.to_pylist())
    yield Counter(given)


@pytest.mark.parametrize("known", _BOUNDS)
@FEWER
@given(seed=st.integers(0, 10**9), shards=st.sampled_from([1, 3, 8]), store=st.booleans())
def test_shards_give_what_one_process_gives_after_every_micro_batch(
    known: str, seed: int, shards: int, store: bool
) -> None:
    """Rows that go out, that are late, and that are left out; whether bounds hold or not."""
    rounds = _rounds(Random(seed))
    ours = _in_shards(_BOUNDS[known], rounds, shards, Random(seed), store=store)
    for number, (one, other) in enumerate(zip(ours, _in_process(_BOUNDS[known], rounds), strict=True)):
        assert one == other, number


def test_a_column_of_arrivals_is_refused_on_spark_with_the_reason() -> None:
    """Shards know which replicas appeared in a micro-batch, not in which of its ticks."""
    schema = pa.schema([*_ROWS, pa.field("landed", pa.timestamp("us", "UTC"))])
    stream = sw.stream(sw.PushSource(schema), time="at", arrived="landed")
    merged = stream.merge_replicas("replica", _PATIENCE, bounds=_BOUNDS["delay"])
    with pytest.raises(PlanError) as caught:
        ShardPlan.of({"main": merged.node}, 2)
    assert str(caught.value).splitlines()[-1] == (
        "    hint: bounds of replicas go by the clock of micro-batches there: leave arrived= out"
    )


def test_timers_let_go_what_nobody_can_send_any_more() -> None:
    """In total silence shards look at the clock; without bounds a timeout stays refused."""
    source = sw.PushSource(_ROWS)
    merged = sw.stream(source, time="at").merge_replicas("replica", _PATIENCE, bounds=_BOUNDS["delay"])
    plan = ShardPlan.of({"main": merged.node}, 1)
    shard = Shard(plan, timeout=2 * _SECOND)
    (pack,) = packs_of(plan)
    rows = pa.table({"at": [99 * _SECOND, 100 * _SECOND], "k": ["a", "a"], "replica": ["blue", "blue"]}).cast(_ROWS)
    arrivals, now = Arrivals(), 100 * _SECOND
    for row in packed_at(now, pack, rows):
        arrivals.add(row)
    out = [row for _, released in shard.on_micro_batch(arrivals, now) for row in released["at"].to_pylist()]
    looks = []
    while shard.look_again_at is not None:
        looks.append(shard.look_again_at // _SECOND)
        out += [row for _, released in shard.on_timer(shard.look_again_at) for row in released["at"].to_pylist()]
    assert [int(at.timestamp()) for at in out] == [99, 100]
    assert looks == [102, 104]
    plain = sw.stream(source, time="at").merge_replicas("replica", _PATIENCE, every=sw.Every.batch())
    without_bounds = ShardPlan.of({"main": plain.node}, 1)
    with pytest.raises(PlanError, match="a dead replica would keep advancing by the clock"):
        Shard(without_bounds, timeout=2 * _SECOND)
