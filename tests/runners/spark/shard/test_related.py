"""Related streams in shards: late is what the paper's heartbeats leave behind, however many shards there are."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from effort import FEWER
from hypothesis import given
from hypothesis import strategies as st
from related_streams import PATIENT, ROWS, bounds_between, late_by_figure_2, name_of, tables_of
from without_spark import Segments, all_outputs, cut_at, packed_at

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.planning.shard_plan import ShardPlan
from slackwater.runners.spark.shard.arrivals import Arrivals
from slackwater.runners.spark.shard.shard import Shard
from slackwater.testing.oracles.heartbeats.simulate import Sent, arrivals_of
from slackwater.testing.oracles.heartbeats.strategies import simulations, systems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slackwater.testing.oracles.heartbeats import System

pytestmark = pytest.mark.filterwarnings("ignore:when all is silent")

_SENT = simulations(systems(most_sources=3), most_rows=30).filter(lambda drawn: len(drawn[0].sources) > 1)
_DRIFT = st.lists(st.sampled_from([0, 0, 0, -9, -3, 3, 9]), min_size=30, max_size=30)
_SHARDS = st.sampled_from([1, 3, 8])
_SECOND = 1_000_000


def _planned(streams: Sequence[sw.DisorderedStream], bounds: sw.Bounds, **options: Any) -> sw.OrderedStream:
    first, *others = (stream.sort() for stream in sw.related(*streams, bounds=bounds, **options))
    return first.union(*others).deduplicate(on="n", within=0)


def _plan(stream: sw.OrderedStream, shards: int) -> ShardPlan:
    return ShardPlan.of({name: one.node for name, one in all_outputs([stream]).items()}, shards)


class _Shards:
    """All shards of a plan, fed by hand."""

    def __init__(self, plan: ShardPlan, rng: Random, *, store: bool, timeout: int | None = None) -> None:
        self.plan, self.rng, self.store, self.timeout = plan, rng, store, timeout
        self.shards = {key: Shard(plan, timeout=timeout) for key in shard_keys(plan.shards)}
        self.segments = {key: Segments() for key in self.shards}
        self.given: dict[str, list[Any]] = {output: [] for output in plan.outputs}

    def take(self, tables: dict[str, pa.Table], now: int = 0) -> None:
        """A micro-batch, with the rows of each stream that has some; the shuffle keeps no order."""
        packed = []
        for pack, pipeline in zip(packs_of(self.plan, chunk_rows=7), self.plan.pipelines, strict=True):
            rows = tables.get(pipeline.source.name)
            if rows is not None and rows.num_rows:
                for task, part in enumerate(cut_at(rows, [self.rng.randint(0, rows.num_rows)])):
                    packed += packed_at(now, pack, part, task)
        arrivals = {key: Arrivals() for key in self.shards}
        for row in self.rng.sample(packed, len(packed)):
            arrivals[row.shard].add(row)
        self._each(lambda key, shard: shard.on_micro_batch(arrivals[key], now))

    def wake(self) -> int:
        """Let a timer ring in all shards, at the one instant at which they want to look; return it."""
        (now,) = {shard.look_again_at for shard in self.shards.values()}
        assert now is not None
        self._each(lambda _, shard: shard.on_timer(now))
        return now

    def look_again_at(self) -> int | None:
        """When all shards want to look again."""
        (now,) = {shard.look_again_at for shard in self.shards.values()}
        return now

    def _each(self, work: Any) -> None:
        for key, shard in self.shards.items():
            for output, released in work(key, shard):
                self.given[output] += released.to_pylist()
            if self.store:
                again = shard.look_again_at
                self.shards[key] = Shard(self.plan, self.segments[key].stored(shard), self.timeout)
                self.shards[key].look_again_at = again

    def flush(self) -> None:
        """Give out what is held."""
        self._each(lambda _, shard: shard.flush())

    def late(self) -> list[int]:
        """The numbers of the rows that were late."""
        return sorted(row["n"] for output, rows in self.given.items() if "main" not in output for row in rows)

    def out(self) -> list[int]:
        """The numbers of the others."""
        return sorted(row["n"] for row in self.given["main 0"])


@FEWER
@given(_SENT, _DRIFT | st.none(), _SHARDS, st.booleans(), st.randoms(use_true_random=False), st.data())
def test_a_backfill_has_the_late_rows_of_the_paper_however_it_is_cut(
    drawn: tuple[System, list[Sent]],
    drift: list[int] | None,
    shards: int,
    store: bool,
    rng: Random,
    data: st.DataObject,
) -> None:
    """With columns of arrivals: the same as in process, by the same oracle; a tick may be cut in two."""
    system, sent = drawn
    arrivals = arrivals_of(sent)
    if drift is not None:
        moved = zip(arrivals, drift, strict=False)
        arrivals = [(tick, source, time + one) for (tick, source, time), one in moved]
    tables = {name_of(one): table for one, table in enumerate(tables_of(system, arrivals))}
    streams = [sw.stream(table, time="at", arrived="landed", name=name) for name, table in tables.items()]
    plan = _plan(_planned(streams, bounds_between(system, by_clock=False), every=sw.Every.time(1)), shards)
    assert plan.shards == shards
    run = _Shards(plan, rng, store=store)
    edges = sorted(data.draw(st.lists(st.integers(0, arrivals[-1][0] if arrivals else 0), max_size=4)))
    for first, stop in zip([-1, *edges], [*edges, 10**9], strict=True):
        run.take({name: _between(table, first, stop) for name, table in tables.items()})
    run.flush()
    assert run.late() == sorted(late_by_figure_2(system, arrivals))
    assert sorted([*run.late(), *run.out()]) == list(range(len(arrivals)))


def _between(table: pa.Table, first: int, stop: int) -> pa.Table:
    places = [place for place, landed in enumerate(table["landed"].to_pylist()) if first < landed <= stop]
    return table.take(pa.array(places, pa.int64()))


@FEWER
@given(_SENT, _DRIFT, _SHARDS, st.booleans(), st.randoms(use_true_random=False))
def test_by_the_clock_a_micro_batch_is_one_instant_of_all_streams(
    drawn: tuple[System, list[Sent]], drift: list[int], shards: int, store: bool, rng: Random
) -> None:
    """As in process, where all that waits to be read when the clock shows its timestamp is one."""
    system, sent = drawn
    moved = zip(arrivals_of(sent), drift, strict=False)
    arrivals = [(tick, source, time + one) for (tick, source, time), one in moved]
    tables = {name_of(one): table for one, table in enumerate(tables_of(system, arrivals))}
    sources = {name: sw.PushSource(ROWS, name=name) for name in tables}
    bounds = bounds_between(system, by_clock=True)
    run = _Shards(_plan(_planned([_live(one) for one in sources.values()], bounds), shards), rng, store=store)
    given: dict[str, list[int]] = {"out": [], "late": []}
    clock = sw.ManualClock(0)
    query = _planned([_live(one) for one in sources.values()], bounds).open(
        lambda rows: given["out"].extend(rows["n"].to_pylist()),
        clock=clock,
        on_late=lambda rows: given["late"].extend(rows["n"].to_pylist()),
    )
    before = -1
    for tick in dict.fromkeys(tick for tick, _, _ in arrivals):
        turn = {name: _between(table, before, tick) for name, table in tables.items()}
        run.take(turn, now=tick)
        clock.advance(tick - clock.now())
        for name, rows in turn.items():
            if rows.num_rows:
                sources[name].push(rows.combine_chunks())
        query.work()
        before = tick
        assert run.late() == sorted(given["late"])
        # A union lets equal times go in each shard as it comes to them, so that rows at the edge may go sooner.
        assert set(given["out"]) <= set(run.out()) | set(run.late())
    query.stop()


def _live(source: sw.PushSource) -> sw.DisorderedStream:
    return sw.stream(source, time="at", name=source.name)


_TIMES = pa.schema({"at": pa.timestamp("us", "UTC"), "n": pa.int64()})


def _rows(*seconds: int) -> pa.Table:
    return pa.table({"at": [one * _SECOND for one in seconds], "n": seconds}).cast(_TIMES)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("store", [False, True])
def test_silence_of_all_streams_closes_the_last_window_in_every_shard(shards: int, store: bool) -> None:
    """Shards look until each stream is complete past the last window that any of them may have, and then no more."""
    streams = [_live(sw.PushSource(_TIMES, name=name)) for name in ("clicks", "orders")]
    clicks, orders = sw.related(*streams, bounds=sw.Bounds.delay("2s", orders="4s"))
    counts = clicks.sort().union(orders.sort()).tumbling("10s").group_by("n").aggregate(of=sw.count())
    run = _Shards(_plan(counts, shards), Random(1), store=store, timeout=3 * _SECOND)
    assert run.plan.shards == shards
    run.take({"clicks": _rows(1, 2, 3)}, now=4 * _SECOND)
    assert not run.out()
    looks = []
    while run.look_again_at() is not None:
        looks.append(run.wake() // _SECOND)
    assert run.out() == [1, 2, 3], "the window until 10 is closed, by the clock, by 14"
    assert looks[0] == 7
    assert 14 <= looks[-1] <= 14 + 2 * 10 + 3, "and there is an end to looking"


def test_a_stream_without_rows_is_complete_by_those_of_the_others() -> None:
    """In the same micro-batch: what clicks prove of orders, though orders send nothing."""
    streams = [_live(sw.PushSource(_TIMES, name=name)) for name in ("clicks", "orders")]
    bounds = sw.Bounds.in_order() & sw.Bounds({("clicks", "orders"): [sw.Bound("5s")]})
    clicks, orders = sw.related(*streams, bounds=bounds)
    run = _Shards(_plan(clicks.sort().union(orders.sort()), 1), Random(1), store=True)
    run.take({"orders": _rows(1)}, now=_SECOND)
    run.take({"clicks": _rows(1, 2, 3)}, now=2 * _SECOND)
    run.take({"clicks": _rows(8, 20)}, now=3 * _SECOND)
    assert run.out() == [1, 1, 2, 3, 8]
    (shard,) = run.shards.values()
    assert '"source": "orders"' in shard.why()
    assert '"sender": "clicks"' in shard.why()


def test_a_query_that_does_not_read_all_streams_is_refused_with_what_to_do() -> None:
    """Their arrivals would be missing."""
    streams = [_live(sw.PushSource(_TIMES, name=name)) for name in ("clicks", "orders")]
    clicks, _ = sw.related(*streams, bounds=sw.Bounds.delay("2s"), patience=f"{PATIENT}s")
    with pytest.raises(PlanError, match="reads all streams that bounds relate"):
        _plan(clicks.sort(), 1)
