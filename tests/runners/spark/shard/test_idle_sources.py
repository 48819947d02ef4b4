"""Sources that are silent: how far they are complete, when to look again, and that all shards decide the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count, pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from without_spark import Segments

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.operators.emission import LATE
from slackwater.plan.node import SideOutput, diverting_steps
from slackwater.progress.instants import FOREVER
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.planning.shard_keys import shard_keys
from slackwater.runners.spark.planning.shard_plan import ShardPlan
from slackwater.runners.spark.shard.arrivals import Arrivals
from slackwater.runners.spark.shard.idle_sources import IdleTimeout, SourceActivity, as_timeout
from slackwater.runners.spark.shard.reasons import reasons_together
from slackwater.runners.spark.shard.shard import Shard
from slackwater.runners.spark.wire.late_bounds import LateBounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from slackwater.progress.instants import Instant

_History = list[tuple[int, dict[int, int]]]
"""Micro-batches: the timestamp, and the newest time of each source that sent rows with it."""


# ---- the rule --------------------------------------------------------------------------------------------------------


@st.composite
def _histories(draw: st.DrawFn) -> tuple[IdleTimeout, _History]:
    calendar = tuple(draw(st.lists(st.booleans(), min_size=1, max_size=3)))
    rule = IdleTimeout(draw(st.integers(1, 6)), calendar, draw(st.one_of(st.none(), st.integers(0, 9))))
    now, history = 1_000, []
    for _ in range(draw(st.integers(1, 5))):
        who = draw(st.sets(st.integers(0, len(calendar) - 1), min_size=1))
        history.append((now, {source: draw(st.integers(-5, 30)) for source in sorted(who)}))
        now += draw(st.integers(1, 12))
    return rule, history


def _heard(rule: IdleTimeout, history: _History) -> SourceActivity:
    heard = SourceActivity.nothing(len(rule.calendar))
    for now, newest in history:
        heard = heard.after(now, newest)
    return heard


def _slow_punctuations(rule: IdleTimeout, history: _History, now: int) -> dict[int, int]:
    """Count the silence of each source, instant by instant."""
    found = {}
    for source, calendar in enumerate(rule.calendar):
        own = [(at, newest[source]) for at, newest in history if source in newest]
        alike = [(at, t) for at, newest in history for one, t in newest.items() if rule.calendar[one] == calendar]
        since = own[-1][0] if own else history[0][0]
        counted = own or alike
        if now - since < rule.timeout or not counted:
            continue
        bound = max(t for _, t in counted) + 1
        for instant in range(counted[-1][0] + 1, now + 1):
            bound += bool(calendar) and instant - counted[-1][0] > rule.timeout
        found[source] = bound
    return found


@given(_histories(), st.integers(0, 40))
def test_how_far_silent_sources_are_taken_to_be_complete(example: tuple[IdleTimeout, _History], later: int) -> None:
    """A timeout after its last rows all that a source sent is complete; from then on calendar time goes on.

    A source that never sent anything counts, a timeout after the first micro-batch, as having sent what others have.
    """
    rule, history = example
    now = history[-1][0] + later
    assert rule.punctuations(_heard(rule, history), now) == _slow_punctuations(rule, history, now)


def _looks(rule: IdleTimeout, history: _History) -> list[int]:
    """The last micro-batch, and when to look again from there on: all instants, or the first two hundred."""
    heard, looks = _heard(rule, history), [history[-1][0]]
    while len(looks) < 200 and (look := rule.look_again_at(heard, looks[-1])) is not None:
        looks.append(look)
    return looks


def _short_of_horizon(rule: IdleTimeout, history: _History, now: int) -> bool:
    """Whether the time of a source that is silent may still go on to where somebody waits for it."""
    newest = [t for _, one in history for source, t in one.items() if rule.calendar[source]]
    bounds = [bound for source, bound in _slow_punctuations(rule, history, now).items() if rule.calendar[source]]
    return any(rule.lasting is None or bound < max(newest) + 1 + rule.lasting for bound in bounds)


@given(_histories())
def test_shards_look_again_while_there_is_something_to_see(example: tuple[IdleTimeout, _History]) -> None:
    """At the very instant at which a source is given up; then at least every timeout, up to the horizon, if any.

    Each look sees more than the one before.
    """
    rule, history = example
    looks = _looks(rule, history)
    seen = [_slow_punctuations(rule, history, look) for look in looks]
    assert all(one != other for one, other in pairwise(seen))
    for instant in range(looks[0] + 1, looks[0] + 40):
        before, now = (_slow_punctuations(rule, history, at) for at in (instant - 1, instant))
        assert before.keys() == now.keys() or instant in looks
    for look, following in pairwise(looks):
        assert look < following
        assert following - look <= rule.timeout or not _short_of_horizon(rule, history, look)
    assert _short_of_horizon(rule, history, looks[-1]) == (rule.lasting is None and len(looks) == 200)


def test_no_punctuation_is_past_the_end_of_time() -> None:
    """However long the silence; nor is it ever taken for the end of the source, which is what FOREVER means."""
    rule, heard = IdleTimeout(1, (True,)), SourceActivity.nothing(1).after(0, {0: FOREVER - 5})
    assert rule.punctuations(heard, 3) == {0: FOREVER - 2}
    assert rule.punctuations(heard, 100) == {0: FOREVER - 1}


@pytest.mark.parametrize("given", ["0s", "soon", 30, 0.5, True, timedelta(0), timedelta(seconds=-1)])
def test_what_is_no_timeout_is_refused(given: Any) -> None:
    """It is a positive length of time on the clock."""
    with pytest.raises(PlanError):
        as_timeout(given)


def test_a_timeout_is_written_as_a_duration() -> None:
    """As everywhere."""
    assert as_timeout("1m30s") == as_timeout(timedelta(seconds=90)) == 90_000_000


def test_a_query_that_is_to_end_has_no_timeout(tmp_path: Path) -> None:
    """Spark would go on, at every trigger, without rows."""
    ordered = sw.stream(sw.PushSource(pa.schema({"at": pa.int64()})), time="at").sort(3, late=sw.Late.drop())
    with pytest.raises(PlanError, match="would never end"):
        ordered.start(checkpoint=str(tmp_path), main=print, trigger={"availableNow": True}, timeout="1s")


def test_replicas_are_never_given_up() -> None:
    """Punctuations for a dead one by the clock would silence those that live."""
    schema = pa.schema({"at": pa.int64()})
    streams = [sw.stream(sw.PushSource(schema, name=name), time="at").sort(3) for name in ("blue", "green")]
    with pytest.raises(PlanError, match="a dead replica would"):
        Shard(ShardPlan({"main": sw.merge_replicas(*streams).node}, 1), timeout=1)


# ---- shards ----------------------------------------------------------------------------------------------------------

_TIMEOUT = 6
_PATIENCE = 4
_KINDS = {"calendar": pa.timestamp("us", "UTC"), "numbers": pa.int64()}

_Streams = list[sw.DisorderedStream]

_EXAMPLES = settings(max_examples=max(4, settings().max_examples // 4))


def _sorted(stream: sw.DisorderedStream, length: Callable[[int], Any]) -> sw.OrderedStream:
    return stream.sort(patience=length(_PATIENCE), every=sw.Every.batch())


PLANS: dict[str, Callable[[_Streams, Callable[[int], Any]], Sequence[Any]]] = {
    "sort": lambda s, of: [_sorted(s[0], of)],
    "union": lambda s, of: [sw.union(_sorted(s[0], of), _sorted(s[1], of))],
    "bands": lambda s, of: list(s[0].in_bands(of(2), of(4), of(8), every=sw.Every.batch())),
    "counts": lambda s, of: [_sorted(s[0], of).tumbling(of(5)).group_by("k").aggregate(n=sw.count())],
    "counts of a union": lambda s, of: [
        sw.union(_sorted(s[0], of), _sorted(s[1], of)).hopping(of(12), of(2)).group_by("k").aggregate(n=sw.count())
    ],
    "counts of counts": lambda s, of: [
        _sorted(s[0], of)
        .tumbling(of(4))
        .group_by("k", "n")
        .aggregate(c=sw.count())
        .tumbling(of(6))
        .group_by("k")
        .aggregate(n=sw.sum("c"))
    ],
    "sliding": lambda s, of: [_sorted(s[0], of).sliding(of(4)).group_by("k").aggregate(n=sw.count())],
    "join": lambda s, of: [
        _sorted(s[0], of).select("k", "n").join(_sorted(s[1], of).select("k", other="n"), on="k", within=of(3))
    ],
    "bands of counts": lambda s, of: list(
        s[0].tumbling(of(5)).group_by("k").in_bands(of(2), of(6), every=sw.Every.batch(), n=sw.count())
    ),
    "settled early counts": lambda s, of: [
        _sorted(s[0], of).tumbling(of(5)).group_by("k").aggregate_early(n=sw.count()).settle()
    ],
}


def _plan(name: str, kind: str, shards: int) -> ShardPlan:
    schema = pa.schema({"at": _KINDS[kind], "k": pa.string(), "n": pa.int64()})
    streams = [sw.stream(sw.PushSource(schema, name=f"source {n}"), time="at") for n in range(2)]
    outputs = PLANS[name](streams, (lambda n: f"{n}us") if kind == "calendar" else int)
    named: dict[str, Any] = {f"main {number}": stream.node for number, stream in enumerate(outputs)}
    steps = diverting_steps(*named.values())
    named |= {f"late of {name}": SideOutput(step, LATE) for step, name in steps.items()}
    return ShardPlan.of(named, shards)


_Turn = tuple[int, list[list[dict[str, Any]]]]
"""A micro-batch: its timestamp and the rows of each source; without any rows only timers run."""


def _turns(rng: Random, sources: int) -> list[_Turn]:
    """Rows that come a little after their times; each source pauses, for a while or for ever, and so do all."""
    now, numbers, turns = 100, 0, []
    for _ in range(rng.randint(3, 14)):
        now += rng.choice([1, 1, 2, 3, 5, 8, 13])
        rows: list[list[dict[str, Any]]] = []
        for _ in range(sources):
            sent = rng.choice([0, 0, 1, 3, 6])
            rows.append([
                {"at": now - rng.choice([0, 0, 1, 2, 5, 9, 14]), "k": rng.choice("abc"), "n": numbers + one}
                for one in range(sent)
            ])  # fmt: skip
            numbers += sent
        turns.append((now, rows if rng.random() < 0.6 else [[] for _ in rows]))
    return turns


@dataclass
class _Hosted:
    """Shards as Spark hosts them: rows go in, or timers that have expired; stored after each micro-batch, or not."""

    plan: ShardPlan
    store: bool = False
    given: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    rows_in: int = 0

    def __post_init__(self) -> None:
        self.shards = {key: Shard(self.plan, timeout=_TIMEOUT) for key in shard_keys(self.plan.shards)}
        self.timers: dict[int, Instant | None] = dict.fromkeys(self.shards)
        self._segments = {key: Segments() for key in self.shards}
        self._bounds = LateBounds("", self.plan.shards, len(self.plan.pipelines), is_new=True)
        self._numbers = count()

    def micro_batch(self, turn: _Turn) -> None:
        """What Spark does at a trigger: shards that get rows forget their timers, in others those expire."""
        (now, tables), number = turn, next(self._numbers)
        known = self._bounds.known_in(number)
        worked: dict[int, list[Instant]] = {}
        arrivals = {key: Arrivals() for key in self.shards}
        for pack, rows in zip(packs_of(self.plan, chunk_rows=3), tables, strict=False):
            table = pa.Table.from_pylist(rows, pack.schema.shown)
            self.rows_in += table.num_rows
            in_time_from = FOREVER if known is None else known[pack.pipeline]
            for packed in pack.packed(0, table.to_batches(), in_time_from):
                arrivals[packed.shard].add(packed)
        for key, arrived in arrivals.items():
            timer = self.timers[key]
            if arrived.high_water:
                worked[key] = self._work(key, self.shards[key].on_micro_batch(arrived, now))
            elif timer is not None and timer <= now:
                worked[key] = self._work(key, self.shards[key].on_timer(timer))
        self._bounds.learn(number, worked.items())

    def _work(self, key: int, outputs: Iterator[tuple[str, pa.RecordBatch]]) -> list[Instant]:
        """Take what a shard gives; return from when on rows are in time, as it says afterwards."""
        for output, rows in outputs:
            self.given += [(output, row) for row in rows.to_pylist()]
        shard = self.shards[key]
        self.timers[key] = shard.look_again_at
        if self.store:
            self.shards[key] = Shard(self.plan, self._segments[key].stored(shard), _TIMEOUT)
        return shard.in_time_from()

    def pause(self) -> None:
        """No rows come any more; triggers go on until no timer is set."""
        for _ in range(1_000):
            timers = [timer for timer in self.timers.values() if timer is not None]
            if not timers:
                return
            self.micro_batch((max(timers), []))
        raise AssertionError("timers are set again and again")

    def end(self) -> None:
        """Flush."""
        for key, shard in self.shards.items():
            self._work(key, shard.flush())

    def rows(self) -> Counter[str]:
        """All that came out, in whatever order."""
        return Counter(map(str, self.given))

    def numbers(self, output: str) -> list[int]:
        """The numbers of the rows that went to an output."""
        return sorted(row["n"] for name, row in self.given if name.startswith(output))

    def buffered(self) -> int:
        return sum(shard.buffered() for shard in self.shards.values())


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("name", PLANS)
@_EXAMPLES
@given(seed=st.integers(0, 10**6), store=st.booleans())
def test_however_many_shards_there_are_they_punctuate_alike(name: str, kind: str, seed: int, store: bool) -> None:
    """After every micro-batch the same rows and late rows, and the same timers, in one shard and in three.

    Aggregates of lifetimes go out in order of their starts: of a key that others hold back they may come earlier.
    """
    one, three = _Hosted(_plan(name, kind, 1)), _Hosted(_plan(name, kind, 3), store)
    for turn in _turns(Random(seed), len(one.plan.pipelines)):
        for hosted in (one, three):
            hosted.micro_batch(turn)
        assert set(three.timers.values()) == set(one.timers.values())
        assert three.rows() == one.rows() or (name == "sliding" and three.rows() >= one.rows())
    for hosted in (one, three):
        hosted.pause()
    assert three.rows() == one.rows() or (name, kind) == ("sliding", "numbers")


@pytest.mark.parametrize("name", PLANS)
@_EXAMPLES
@given(seed=st.integers(0, 10**6))
def test_on_calendar_time_a_pause_leaves_nothing_behind(name: str, seed: int) -> None:
    """When no timer is set any more, what came out is what would have come out if all sources had ended."""
    hosted = _Hosted(_plan(name, "calendar", 3))
    for turn in _turns(Random(seed), len(hosted.plan.pipelines)):
        hosted.micro_batch(turn)
    hosted.pause()
    before = hosted.rows()
    hosted.end()
    assert hosted.rows() == before


@dataclass
class _SlowSorts:
    """One sort for each source, row by row."""

    sources: int
    calendar: bool

    def __post_init__(self) -> None:
        self.history: _History = []
        self.bounds = [-(10**9)] * self.sources
        self.held: list[list[dict[str, Any]]] = [[] for _ in range(self.sources)]
        self.out: list[int] = []
        self.late: list[int] = []

    def micro_batch(self, turn: _Turn, look: Instant | None) -> None:
        """Find late rows by the punctuations before; then punctuate, and let go."""
        now, tables = turn
        for source, rows in enumerate(tables):
            for row in rows:
                (self.held[source].append(row) if row["at"] >= self.bounds[source] else self.late.append(row["n"]))
        if any(tables):
            self.history.append((now, {n: max(row["at"] for row in rows) for n, rows in enumerate(tables) if rows}))
            for source in range(self.sources):
                newest = [t for _, one in self.history for n, t in one.items() if n == source]
                self.bounds[source] = max([self.bounds[source], *(t - _PATIENCE for t in newest)])
        else:
            now = look if look is not None and look <= now else self.history[-1][0] if self.history else 0
        if self.history:
            rule = IdleTimeout(_TIMEOUT, (self.calendar,) * self.sources)
            for source, bound in _slow_punctuations(rule, self.history, now).items():
                self.bounds[source] = max(self.bounds[source], bound)
        for source, rows in enumerate(self.held):
            # A union lets go what all of its sources have reached.
            bound = min(self.bounds[source], min(self.bounds) + 1)
            self.out += [row["n"] for row in rows if row["at"] < bound]
            self.held[source] = [row for row in rows if row["at"] >= bound]


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("name", ["sort", "union"])
@given(seed=st.integers(0, 10**6))
def test_rows_are_late_by_punctuations_and_for_nothing_else(name: str, kind: str, seed: int) -> None:
    """Micro-batch by micro-batch as a slow sort says, and every row is out, late, or still held."""
    hosted = _Hosted(_plan(name, kind, 1))
    sources = len(hosted.plan.pipelines)
    slow = _SlowSorts(sources, kind == "calendar")
    (key,) = hosted.shards
    for turn in _turns(Random(seed), sources):
        slow.micro_batch(turn, hosted.timers[key])
        hosted.micro_batch(turn)
        assert hosted.numbers("main") == sorted(slow.out)
        assert hosted.numbers("late") == sorted(slow.late)
        assert hosted.rows_in == len(slow.out) + len(slow.late) + hosted.buffered()


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("name", ["sort", "union"])
@given(seed=st.integers(0, 10**6))
def test_a_clock_that_goes_back_loses_nothing(name: str, kind: str, seed: int) -> None:
    """Of the driver, while rows come or pause: each row is out, late or held, once, in one shard as in three."""
    rng = Random(seed)
    one, three = _Hosted(_plan(name, kind, 1)), _Hosted(_plan(name, kind, 3), store=True)
    back = 0
    for now, rows in _turns(rng, len(one.plan.pipelines)):
        back += rng.choice([0, 0, 7, 60])
        for hosted in (one, three):
            hosted.micro_batch((now - back, rows))
            found = hosted.numbers("main") + hosted.numbers("late")
            assert len(set(found)) == len(found)
            assert hosted.rows_in == len(found) + hosted.buffered()
        assert three.rows() == one.rows()
    for hosted in (one, three):
        hosted.pause()
        if kind == "calendar":
            assert hosted.buffered() == 0


def test_why_names_the_timeout_as_an_assumption_and_not_the_patience() -> None:
    """Until a source is given up it is waited for by the patience."""
    schema, second = pa.schema({"at": pa.timestamp("us", "UTC")}), 1_000_000
    plan = ShardPlan.of({"main": sw.stream(sw.PushSource(schema), time="at").sort("1h", late=sw.Late.drop()).node}, 1)
    shard, arrivals = Shard(plan, timeout=30 * second), Arrivals()
    rows = pa.table({"at": [second, 2 * second]}).cast(schema)
    for row in packs_of(plan)[0].packed(0, rows.to_batches()):
        arrivals.add(row)
    list(shard.on_micro_batch(arrivals, 100 * second))
    (waiting,) = reasons_together([shard.why()])
    assert waiting.ground is sw.Grounds.PATIENCE
    list(shard.on_timer(130 * second))
    (given_up,) = reasons_together([shard.why()])
    assert (given_up.ground, given_up.complete_before) == (sw.Grounds.ASSUMED, 2 * second + 1)
    assert given_up.rule == "a source that is silent for 30s has nothing older"
