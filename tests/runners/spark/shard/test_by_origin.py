"""Progress by origin in shards: the same rows, in order within each source, and the same late ones as in process."""

from __future__ import annotations

from datetime import timedelta
from itertools import accumulate, islice, pairwise
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import narwhals as nw
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from without_spark import Segments, all_outputs, cut, cut_at, packed_at

import slackwater as sw
from slackwater.errors import LateEvent, PlanError, RunError
from slackwater.operators.by_origin.by_origin import ByOriginOperator
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.planning.shard_plan import ShardPlan
from slackwater.runners.spark.shard.arrivals import Arrivals
from slackwater.runners.spark.shard.reasons import reasons_together
from slackwater.runners.spark.shard.shard import Shard
from slackwater.testing.oracles.heartbeats.simulate import Sent, arrivals_of
from slackwater.testing.oracles.heartbeats.strategies import simulations, systems

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from slackwater.testing.oracles.heartbeats import Skew, System
    from slackwater.testing.oracles.heartbeats.system import Arrival

_ROWS = pa.schema({"at": pa.int64(), "who": pa.int64(), "landed": pa.int64(), "n": pa.int64()})
_COLUMNS: dict[str, Any] = {"origin": "who", "arrived": "landed"}
_SENT = simulations(systems(most_sources=3, missing=False), most_rows=30)
_SHARDS = st.sampled_from([1, 3, 8])

Round = tuple[int, pa.Table]
"""A micro-batch: its timestamp, and its rows."""


class Ran(NamedTuple):
    """What a run gave."""

    out: dict[str, dict[Any, list[str]]]
    """Rows, by output and source: those of late rows in one order, all others as they came out."""

    late: int
    broken: int
    complete: set[tuple[Any, ...]]
    """How far each source is complete, for each band, wherever that is known."""


# ---- in shards -------------------------------------------------------------------------------------------------------


class Shards:
    """Shards that are fed by hand: micro-batches are packed by two tasks in small chunks, and shuffled."""

    def __init__(self, plan: ShardPlan, rng: Random, timeout: int | None = None) -> None:
        self.plan, self._rng, self._timeout = plan, rng, timeout
        self.shards = {key: Shard(plan, timeout=timeout) for key in shard_keys(plan.shards)}
        self._segments = {key: Segments() for key in self.shards}
        self.given: dict[str, list[Any]] = {output: [] for output in plan.outputs}

    def take(self, now: int, rows: pa.Table) -> None:
        """Run a micro-batch."""
        arrivals = self._shuffled(self._packed(now, rows))
        for key, shard in self.shards.items():
            self._note(shard.on_micro_batch(arrivals[key], now))

    def store(self) -> None:
        """Store all shards, and go on with what was stored; Spark remembers when to wake them."""
        for key, shard in self.shards.items():
            self.shards[key] = Shard(self.plan, self._segments[key].stored(shard), self._timeout)
            self.shards[key].look_again_at = shard.look_again_at

    def take_twice(self, now: int, rows: pa.Table) -> None:
        """Run a micro-batch, lose what it did, and do it again from what was stored before: the same is stored."""
        packed = self._packed(now, rows)
        first, second = self._shuffled(packed), self._shuffled(packed)
        for key, shard in self.shards.items():
            stored = self._segments[key].stored(shard)
            lost, again = Segments(), Segments()
            doomed = Shard(self.plan, stored, self._timeout)
            given = [(output, batch.to_pylist()) for output, batch in doomed.on_micro_batch(first[key], now)]
            lost.stored(doomed)
            self.shards[key] = Shard(self.plan, stored, self._timeout)
            batches = list(self.shards[key].on_micro_batch(second[key], now))
            assert [(output, batch.to_pylist()) for output, batch in batches] == given
            self._note(batches)
            again.stored(self.shards[key])
            assert again == lost

    def look(self) -> int | None:
        """Look at the clock again when the shards want to, which is at one instant; return it."""
        (now,) = {shard.look_again_at for shard in self.shards.values()}
        if now is not None:
            for shard in self.shards.values():
                self._note(shard.on_timer(now))
        return now

    def flush(self) -> None:
        """Let go all that is held."""
        for shard in self.shards.values():
            self._note(shard.flush())

    def _packed(self, now: int, rows: pa.Table) -> list[Any]:
        (pack,) = packs_of(self.plan, chunk_rows=7)
        parts = enumerate(cut(rows, self._rng, 2))
        return [one for task, part in parts for one in packed_at(now, pack, part, task)]

    def _shuffled(self, packed: list[Any]) -> dict[int, Arrivals]:
        arrivals = {key: Arrivals() for key in self.shards}
        for row in self._rng.sample(packed, len(packed)):
            arrivals[row.shard].add(row)
        return arrivals

    def _note(self, released: Any) -> None:
        for output, batch in released:
            self.given[output] += batch.to_pylist()

    def ran(self) -> Ran:
        """What came of it so far."""
        shards = self.shards.values()
        operators: list[Any] = [step.operator for one in shards for step in one._entries]
        complete = {_complete(one) for one in operators}
        late, broken = sum(one.late() for one in shards), sum(one.broken_bounds() for one in shards)
        return Ran(_by_source(self.given), late, broken, complete)


def _complete(operator: ByOriginOperator) -> tuple[Any, ...]:
    """How far the sources are complete, whichever of them came first."""
    operator.check()
    generators = operator._generators
    named = [zip(map(str, one.names), one.complete_by_source().tolist(), strict=True) for one in generators]
    return tuple(tuple(sorted(of_band)) for of_band in named)


def _by_source(given: dict[str, list[Any]]) -> dict[str, dict[Any, list[str]]]:
    found: dict[str, dict[Any, list[str]]] = {}
    for output, rows in given.items():
        of_output = found.setdefault(output, {})
        for row in rows:
            of_output.setdefault(row["who"], []).append(str(row))
        if not output.startswith("main"):
            found[output] = {who: sorted(of_one) for who, of_one in of_output.items()}
    return found


def _plan(streams: Any, shards: int) -> ShardPlan:
    return ShardPlan.of({name: one.node for name, one in all_outputs(_as_list(streams)).items()}, shards)


def _as_list(streams: Any) -> list[Any]:
    return [streams] if isinstance(streams, sw.StreamByOrigin) else list(streams)


# ---- in process ------------------------------------------------------------------------------------------------------


class InProcess:
    """The same in process: every micro-batch is one batch, which arrives at its instant."""

    def __init__(
        self, build: Callable[[sw.DisorderedStream], Any], columns: dict[str, Any], rounds: Sequence[Round]
    ) -> None:
        self.clock, self._rounds = sw.ManualClock(0), rounds
        schema = rounds[0][1].schema
        self._batches = [rows.combine_chunks().to_batches()[0] for _, rows in rounds if rows.num_rows]
        self._pushed = None if "arrived" in columns else sw.PushSource(schema)
        recorded = pa.RecordBatchReader.from_batches(schema, self._batches)
        outputs = all_outputs(_as_list(build(sw.stream(self._pushed or recorded, time="at", **columns))))
        self.given: dict[str, list[Any]] = {output: [] for output in outputs}
        bindings = [(stream, self._binding(output)) for output, stream in outputs.items()]
        self.query = sw.Query(bindings, clock=self.clock)

    def _binding(self, output: str) -> Callable[[pa.RecordBatch], None]:
        return lambda rows: self.given[output].extend(rows.to_pylist())

    def take(self, number: int) -> None:
        """Let a micro-batch arrive, if it has rows."""
        now, rows = self._rounds[number]
        self.clock.advance(now - self.clock.now())
        if rows.num_rows:
            if self._pushed is not None:
                self._pushed.push(rows.combine_chunks().to_batches()[0])
            self.query.step()

    def take_all(self) -> None:
        """Let all micro-batches arrive, one after the other."""
        for number in range(len(self._rounds)):
            self.take(number)

    def look(self, now: int) -> None:
        """Let the clock go on, and whoever waits look at it."""
        self.clock.advance(now - self.clock.now())
        self.query.work()

    def flush(self) -> None:
        """Let go all that is held."""
        if self._pushed is not None:
            self._pushed.close()
        self.query.run_to_end()

    def operator(self) -> ByOriginOperator:
        """What goes by origin."""
        operators = [step.operator for step in self.query._runner._graph.steps]
        return next(one for one in operators if isinstance(one, ByOriginOperator))

    def ran(self) -> Ran:
        """What came of it so far."""
        counters = self.query.counters().values()
        late, broken = sum(one.late for one in counters), sum(one.broken_bounds for one in counters)
        return Ran(_by_source(self.given), late, broken, {_complete(self.operator())})


# ---- what is asked, of which rows ------------------------------------------------------------------------------------


def _rows_only(stream: sw.DisorderedStream, bounds: sw.Bounds, options: Any) -> Any:
    return stream.sort_within_origins(bounds=bounds, **options)


def _chosen(stream: sw.DisorderedStream, bounds: sw.Bounds, options: Any) -> Any:
    """Steps that are done before rows travel; one more behind."""
    kept = stream.where(nw.col("n") % 5 != 0).select("who", "landed", "n", m=nw.col("n") * 2)
    return kept.sort_within_origins(bounds=bounds, **options).where(nw.col("m") != 6)


def _dropped(stream: sw.DisorderedStream, bounds: sw.Bounds, options: Any) -> Any:
    """Steps that drop what heartbeats look at, and so are done in shards, before the sort; windows behind it."""
    left = stream.where(nw.col("n") % 5 != 0).select("who", m=nw.col("n") * 2).where(nw.col("m") != 6)
    return left.tumbling(4).sort_within_origins(bounds=bounds, **options)


def _groups(stream: sw.DisorderedStream, bounds: sw.Bounds, options: Any) -> Any:
    windows = stream.where(nw.col("n") % 5 != 0).tumbling(4).sort_within_origins(bounds=bounds, **options)
    return windows.select("who", third=nw.col("n") % 3).group_by("third", "who").aggregate(n=sw.count())


def _hops(stream: sw.DisorderedStream, bounds: sw.Bounds, options: Any) -> Any:
    by_origin = stream.sort_within_origins(bounds=bounds, **options).hopping(6, 4)
    return by_origin.group_by("who").aggregate(n=sw.count(), most=sw.max("n"))


def _bands(stream: sw.DisorderedStream, bounds: sw.Bounds, options: Any) -> Any:
    windows = stream.where(nw.col("n") % 5 != 0).tumbling(4).sort_within_origins(bounds=bounds, **options)
    return windows.group_by("who").in_bands(1, 5, n=sw.count())


_PLANNED = {"rows": [_rows_only, _chosen, _dropped], "groups": [_groups, _hops, _bands]}


def _entries(system: System, of: Callable[[Skew], sw.Bound], latency: Callable[[int], Any]) -> sw.Bounds:
    entries = {both: [of(skew) for skew in pairs] for both, pairs in system.bounds.items() if pairs}
    return sw.Bounds(entries, latency={who: latency(one) for who, one in enumerate(system.latency)})


def _by_column(skew: Skew) -> sw.Bound:
    return sw.Bound(skew.delta, skew.ticks or 0, skew.wait if skew.ticks is None else 0, strictly=True)


def _by_clock(skew: Skew) -> sw.Bound:
    if skew.ticks is None:
        return sw.Bound(skew.delta, rows=skew.wait, strictly=True)
    return sw.Bound(skew.delta, timedelta(microseconds=skew.ticks), strictly=True)


def _bounds(data: st.DataObject, system: System, *, clock: bool) -> sw.Bounds:
    """Those that the sources obey, for all of them or for some; or what holds for all sources alike."""
    skew, length = (_by_clock, lambda ticks: timedelta(microseconds=ticks)) if clock else (_by_column, int)
    entries = _entries(system, skew, length)
    lull = sw.Bounds.lull("1d") if clock else sw.Bounds.uniform(2_000)
    together = [sw.Bounds.in_order() & sw.Bounds.uniform(9)]
    together += [] if clock else [sw.Bounds.delay(3) & sw.Bounds.disorder(6), sw.Bounds.delay({0: 2, ...: 9})]
    choices = [entries.only(*system.sources), sw.Bounds.disorder(2), sw.Bounds({(0, 0): [sw.Bound(3)]}).only(0)]
    choices = [one & lull if clock else one for one in choices + together]
    fleets = {"even": [0, 2, 4], "odd": [1, 3, 5]}
    return data.draw(st.sampled_from([*choices, *((one & lull).in_fleets(fleets) for one in together)]))


def _table(arrivals: Sequence[tuple[int | None, int, int | None]]) -> pa.Table:
    rows = [{"at": time, "who": who, "landed": tick, "n": n} for n, (tick, who, time) in enumerate(arrivals)]
    return pa.Table.from_pylist(rows, schema=_ROWS)


def _drifted(data: st.DataObject, arrivals: list[Arrival]) -> list[Arrival]:
    """Some rows break bounds; some are far off."""
    off = st.one_of(st.just(0), st.integers(-9, 9), st.sampled_from([-1_000, 1_000, 2**62]))
    drift = data.draw(st.lists(off, min_size=len(arrivals), max_size=len(arrivals)))
    return [(tick, who, time + one) for (tick, who, time), one in zip(arrivals, drift, strict=True)]


def _taken_by(shards: Shards, rounds: Sequence[Round], how: str) -> None:
    for now, rows in rounds:
        if how == "done twice":
            shards.take_twice(now, rows)
            continue
        shards.take(now, rows)
        if how == "stored":
            shards.store()


_HOW = st.sampled_from(["in one go", "stored", "done twice"])


# ---- laws ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", _PLANNED)
@given(_SENT, _SHARDS, _HOW, st.randoms(use_true_random=False), st.data())
def test_a_backfill_gives_the_same_however_it_is_cut(
    held: str, drawn: tuple[System, list[Sent]], shards: int, how: str, rng: Random, data: st.DataObject
) -> None:
    """With a column of arrivals: as in one run over everything in process, late rows and order included."""
    system, sent = drawn
    planned = data.draw(st.sampled_from(_PLANNED[held]))
    table = _table(_drifted(data, arrivals_of(sent)))
    bounds = _bounds(data, system, clock=False)
    options: Any = {"every": sw.Every.time(data.draw(st.sampled_from([1, 3])))}

    def build(stream: sw.DisorderedStream) -> Any:
        return planned(stream, bounds, options)

    expected = InProcess(build, _COLUMNS, [(0, table)])
    expected.take_all()
    plan = _plan(build(sw.stream(table, time="at", **_COLUMNS)), shards)
    assert plan.shards == shards
    got = Shards(plan, rng)
    edges = data.draw(st.lists(st.integers(0, table.num_rows), max_size=4))
    _taken_by(got, [(0, part) for part in cut_at(table, edges)], how)
    _require_same(got, expected, filtered=planned not in (_rows_only, _hops))


@pytest.mark.parametrize("held", _PLANNED)
@given(_SENT, _SHARDS, _HOW, st.randoms(use_true_random=False), st.data())
def test_by_the_clock_a_row_is_late_by_what_its_source_was_before_the_micro_batch(
    held: str, drawn: tuple[System, list[Sent]], shards: int, how: str, rng: Random, data: st.DataObject
) -> None:
    """As in process, where each micro-batch comes as one batch when the clock shows its timestamp."""
    system, sent = drawn
    planned = data.draw(st.sampled_from(_PLANNED[held]))
    table = _table(_drifted(data, arrivals_of(sent)))
    ticks = sorted(set(table["landed"].to_pylist()))
    rounds = _rounds_at(table, [*sorted(data.draw(st.sets(st.sampled_from(ticks)))), ticks[-1]])
    bounds = _bounds(data, system, clock=True)

    def build(stream: sw.DisorderedStream) -> Any:
        return planned(stream, bounds, {})

    expected = InProcess(build, {"origin": "who"}, rounds)
    expected.take_all()
    got = Shards(_plan(build(sw.stream(sw.PushSource(_ROWS), time="at", origin="who")), shards), rng)
    _taken_by(got, rounds, how)
    _require_same(got, expected, filtered=planned not in (_rows_only, _hops))


def _require_same(got: Shards, expected: InProcess, *, filtered: bool) -> None:
    """So far, and when all that is held is let go. Rows that a filter drops are not compared with bounds in shards."""
    of_shards, alone = got.ran(), expected.ran()
    if filtered:
        assert of_shards.broken <= alone.broken
        of_shards = of_shards._replace(broken=alone.broken)
    assert of_shards == alone
    got.flush()
    expected.flush()
    assert got.ran().out == expected.ran().out


def _rounds_at(table: pa.Table, instants: Sequence[int]) -> list[Round]:
    """The rows that had arrived by each instant."""
    landed = table["landed"].to_pylist()
    rounds = []
    for before, now in pairwise([-1, *dict.fromkeys(instants)]):
        places = [place for place, tick in enumerate(landed) if before < tick <= now]
        rounds.append((now, table.take(pa.array(places, pa.int64()))))
    return rounds


@given(_SENT, _SHARDS, _HOW, st.randoms(use_true_random=False), st.data())
def test_arrivals_that_are_unknown_or_go_back_are_taken_in_order_within_a_micro_batch(
    drawn: tuple[System, list[Sent]], shards: int, how: str, rng: Random, data: st.DataObject
) -> None:
    """As in process, where each comes as one batch in the order of arrival, unknown ones first; times may be null."""
    system, sent = drawn
    arrivals: list[Any] = data.draw(st.permutations(_drifted(data, arrivals_of(sent))))
    unknown, untimed = (data.draw(st.sets(st.integers(0, len(arrivals) - 1), max_size=3)) for _ in range(2))
    table = _table(
        [
            (None if n in unknown else tick, who, None if n in untimed else time)
            for n, (tick, who, time) in enumerate(arrivals)
        ]
    )
    bounds = _bounds(data, system, clock=False)

    def build(stream: sw.DisorderedStream) -> Any:
        return stream.sort_within_origins(bounds=bounds, every=sw.Every.time(1))

    rounds = [(0, part) for part in cut_at(table, data.draw(st.lists(st.integers(0, table.num_rows), max_size=3)))]
    columns = {**_COLUMNS, "untimed_is_late": True}
    expected = InProcess(build, columns, [(0, _in_order_of_arrival(part)) for _, part in rounds])
    expected.take_all()
    got = Shards(_plan(build(sw.stream(table, time="at", **columns)), shards), rng)
    _taken_by(got, rounds, how)
    _require_same(got, expected, filtered=False)


def _in_order_of_arrival(table: pa.Table) -> pa.Table:
    landed = table["landed"].to_pylist()
    places = sorted(range(len(landed)), key=lambda place: (landed[place] is not None, landed[place] or 0))
    return table.take(pa.array(places, pa.int64()))


# ---- silence ---------------------------------------------------------------------------------------------------------

_SECOND = 1_000_000
_TIMES = pa.schema({"at": pa.timestamp("us", "UTC"), "who": pa.int64(), "n": pa.int64()})


def _at(now: int, sent: Sequence[tuple[int, int]]) -> Round:
    """A micro-batch at an instant, of rows of sources at times, all in seconds."""
    rows = {"at": [at * _SECOND for _, at in sent], "who": [who for who, _ in sent], "n": range(len(sent))}
    return now * _SECOND, pa.table(rows).cast(_TIMES)


_CLOCKED = [
    sw.Bounds.delay({0: "5s", 1: "20s", ...: "9s"}),
    sw.Bounds.delay({0: "5s", 1: "20s"}).only(0, 1),
    sw.Bounds({(0, 1): [sw.Bound("5s", after="7s")], (1, 0): [sw.Bound("5s", after="3s")]}).only(0, 1)
    & sw.Bounds.idle("30s"),
    sw.Bounds.in_order() & sw.Bounds.lull("25s"),
    sw.Bounds.disorder("4s") & sw.Bounds.idle("11s"),
]


def _timed_rows(stream: sw.DisorderedStream, bounds: sw.Bounds) -> Any:
    return stream.where(nw.col("n") != 2).sort_within_origins(bounds=bounds)


def _timed_windows(stream: sw.DisorderedStream, bounds: sw.Bounds) -> Any:
    return stream.tumbling("6s").sort_within_origins(bounds=bounds)


def _timed_groups(stream: sw.DisorderedStream, bounds: sw.Bounds) -> Any:
    return _timed_windows(stream, bounds).group_by("who").aggregate(n=sw.count())


def _timed_bands(stream: sw.DisorderedStream, bounds: sw.Bounds) -> Any:
    return _timed_windows(stream, bounds).group_by("who").in_bands("1s", "8s", n=sw.count())


_OF_A_BATCH = st.lists(st.tuples(st.integers(0, 3), st.integers(-15, 2)), min_size=1, max_size=6)


_TIMED = {"rows": [_timed_rows, _timed_windows], "groups": [_timed_groups, _timed_bands]}


@pytest.mark.parametrize("held", _TIMED)
@given(
    st.data(),
    st.sampled_from(_CLOCKED),
    st.lists(st.tuples(st.integers(1, 40), _OF_A_BATCH), min_size=1, max_size=4),
    _SHARDS,
    st.sampled_from([1, 5, 60]),
    st.randoms(use_true_random=False),
)
def test_in_total_silence_shards_let_go_what_a_query_in_process_does(
    held: str,
    data: st.DataObject,
    bounds: sw.Bounds,
    batches: list[tuple[int, list[tuple[int, int]]]],
    shards: int,
    pause: int,
    rng: Random,
) -> None:
    """With a timeout: all look at the same instants, and no more when nothing waits; the last windows close, too."""
    planned = data.draw(st.sampled_from(_TIMED[held]))

    def build(stream: sw.DisorderedStream) -> Any:
        return planned(stream, bounds)

    ends = accumulate((wait for wait, _ in batches), initial=100)
    rounds = [
        _at(now, [(who, now + off) for who, off in sent])
        for (_, sent), now in zip(batches, islice(ends, 1, None), strict=True)
    ]
    expected = InProcess(build, {"origin": "who"}, rounds)
    plan = _plan(build(sw.stream(sw.PushSource(_TIMES), time="at", origin="who")), shards)
    got = Shards(plan, rng, timeout=pause * _SECOND)
    for number, batch in enumerate(rounds):
        got.take(*batch)
        got.store()
        expected.take(number)
        assert got.ran().out == expected.ran().out
    looks = 0
    while (instant := got.look()) is not None:
        expected.look(instant)
        assert got.ran().out == expected.ran().out
        got.store()
        looks += 1
        assert looks < 200, "there is an end to it"
    expected.look(rounds[-1][0] + 100_000 * _SECOND)
    assert got.ran().out == expected.ran().out


# ---- small examples --------------------------------------------------------------------------------------------------

_PAUSES = [(1, 0, 1), (1, 1, 1), *((tick, 0, tick) for tick in range(2, 40)), (41, 1, 2), (42, 0, 5), (43, 0, 43)]
"""One source is cut off and holds up nobody else; the other breaks its bounds once."""


def _ran(planned: Any, shards: int, rows: Sequence[Any] = _PAUSES, cuts: Sequence[int] = (20, 41)) -> Shards:
    table = _table(rows)
    got = Shards(_plan(planned(sw.stream(table, time="at", **_COLUMNS)), shards), Random(4))
    _taken_by(got, [(0, part) for part in cut_at(table, cuts)], "stored")
    return got


def _sorted(stream: sw.DisorderedStream) -> Any:
    return stream.sort_within_origins(bounds=sw.Bounds.in_order().only(0, 1), every=sw.Every.time(1))


@pytest.mark.parametrize("shards", [1, 3, 8])
def test_a_source_that_is_cut_off_holds_up_nobody_else_and_broken_bounds_are_named(shards: int) -> None:
    """What breaks a bound goes to the late output, with the bound; rows out, late and held add up to all."""
    got = _ran(_sorted, shards)
    ran = got.ran()
    held = sum(shard.buffered() for shard in got.shards.values())
    assert [row["n"] for row in got.given["sort_within_origins#1"]] == [41]
    assert [len(rows) for rows in ran.out["main 0"].values()] == [38, 1]
    assert (ran.late, ran.broken, held) == (1, 1, 3)
    assert 38 + 1 + ran.late + held == len(_PAUSES)
    (why,) = reasons_together([shard.why() for shard in got.shards.values()])
    assert dict(why.broken) == {"0": "1 rows, the last at 5: each source: in order"}
    assert [(one.origin, one.held, one.complete_before) for one in why.origins] == [("1", 1, 2), ("0", 2, 39)]
    assert (why.more_origins, why.source, why.complete_before) == (0, "1", 2)


def test_why_names_the_slowest_of_all_shards_once() -> None:
    """Each with its own bound, and how many more hold something; as in process."""
    rows = [(1, who, 50 - who) for who in range(9)] + [(2, who, 100 + who) for who in range(9)] + [(3, 0, 101)]

    def planned(stream: sw.DisorderedStream) -> Any:
        return stream.sort_within_origins(bounds=sw.Bounds.disorder(10), every=sw.Every.time(1))

    alone = InProcess(planned, _COLUMNS, [(0, _table(rows))])
    alone.take_all()
    (expected,) = alone.query.why()
    for shards in (1, 3, 8):
        texts = [shard.why() for shard in _ran(planned, shards, rows, (9,)).shards.values()]
        (why,) = reasons_together(texts)
        assert why.origins == expected.origins
        assert (why.more_origins, len(why.origins)) == (4, 5)
        assert str(why) == str(expected)


def test_rows_of_a_source_without_a_name_are_in_one_shard() -> None:
    """No name is a name, too."""
    rows = [(tick, who, tick) for tick in range(1, 9) for who in (None, 1, 2)]
    table = _table(rows)  # type: ignore[arg-type]

    def planned(stream: sw.DisorderedStream) -> Any:
        return stream.sort_within_origins(bounds=sw.Bounds.in_order(), every=sw.Every.time(1))

    alone = InProcess(planned, _COLUMNS, [(0, table)])
    alone.take_all()
    for shards in (1, 3, 8):
        got = Shards(_plan(planned(sw.stream(table, time="at", **_COLUMNS)), shards), Random(5))
        got.take(0, table)
        assert got.ran() == alone.ran()
        assert len(got.ran().out["main 0"][None]) == 6


def test_steps_before_are_done_once_where_rows_are_read() -> None:
    """As long as they keep what heartbeats look at; the others are done in shards, by the operator itself."""
    done = {"chosen": _chosen, "dropped": _dropped, "groups": _groups}
    found = {}
    for name, planned in done.items():
        plan = _plan(planned(sw.stream(_table([(1, 0, 1)]), time="at", **_COLUMNS), sw.Bounds.in_order(), {}), 3)
        (way,) = plan.pipelines
        found[name] = [step.verb for step in way.steps], [step.verb for step in way.entry.before]  # type: ignore[union-attr]
        assert plan.columns == {way.entry: ("who",)}
        assert way.may_be_native == ()
    assert found == {
        "chosen": (["where", "select"], []),
        "dropped": (["where"], ["select", "where"]),
        "groups": (["where"], []),
    }


def test_ticks_are_as_fine_where_rows_are_read_as_where_bands_look() -> None:
    """The patience of a band makes them finer than bounds do."""

    def planned(stream: sw.DisorderedStream) -> Any:
        by_origin = stream.tumbling(4).sort_within_origins(bounds=sw.Bounds.disorder(1_000))
        return by_origin.group_by("who").in_bands(20, n=sw.count())

    plan = _plan(planned(sw.stream(_table([(1, 0, 1)]), time="at", **_COLUMNS)), 1)
    (pack,) = packs_of(plan)
    assert pack.heartbeats is not None
    assert pack.heartbeats.grid == 2


def test_late_rows_may_be_dropped_or_refused_in_shards() -> None:
    """As in process: dropped ones are counted, and one that is refused ends the query."""

    def planned(late: sw.Late) -> Any:
        bounds = sw.Bounds.in_order().only(0, 1)
        return lambda stream: stream.sort_within_origins(bounds=bounds, every=sw.Every.time(1), late=late)

    dropped = _ran(planned(sw.Late.drop()), 3)
    assert (list(dropped.given), dropped.ran().late) == (["main 0"], 1)
    with pytest.raises(LateEvent, match="sort_within_origins#1"):
        _ran(planned(sw.Late.raise_error()), 3)


def test_a_timeout_means_nothing_where_a_column_says_when_rows_arrive() -> None:
    """That is refused, with what to leave out."""
    plan = _plan(_sorted(sw.stream(_table(_PAUSES), time="at", **_COLUMNS)), 1)
    with pytest.raises(PlanError, match="a column says when rows arrive"):
        Shard(plan, timeout=_SECOND)


def test_nothing_comes_after_a_flush() -> None:
    """A query that was flushed is over."""
    got = _ran(_sorted, 1)
    got.take(0, _table([]))
    got.flush()
    (shard,) = got.shards.values()
    assert shard.buffered() == 0
    got.store()
    with pytest.raises(RunError, match="after a query was flushed"):
        got.take(0, _table([(50, 0, 50)]))
