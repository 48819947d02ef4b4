"""Feedback in the running graph: from merges and from outside, up to the sources, and never more than all agree to."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.operators.emission import Emission, band_output
from slackwater.operators.operator import StatelessOperator
from slackwater.plan.node import SideOutput
from slackwater.plan.nodes.rows import UnaryNode
from slackwater.plan.traits import Traits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from slackwater.events.batch import EventBatch
    from slackwater.events.schema import EventSchema
    from slackwater.operators.operator import Operator
    from slackwater.plan.properties import Properties
    from slackwater.progress.frontier import Port
    from slackwater.progress.instants import Instant

_ROWS = pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64()})


def _table(times: range | list[int]) -> pa.Table:
    columns = [list(times), ["xyz"[at % 3] for at in times], [at * at % 17 for at in times]]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, _ROWS, strict=True)], schema=_ROWS)


def _replica(name: str = "push") -> tuple[sw.PushSource, sw.OrderedStream]:
    source = sw.PushSource(_ROWS, name=name)
    return source, sw.stream(source, time="at").assume_ordered()


@dataclass
class _Costly:
    """A predicate that notes the times of the rows it is asked about."""

    seen: list[int] = field(default_factory=list)

    def __call__(self, rows: pa.RecordBatch) -> pa.Array:
        """Even numbers, after long thought."""
        self.seen += rows["at"].to_pylist()
        return pc.equal(pc.bit_wise_and(rows["v"], 1), 0)


def _keep(kept: list[dict[str, Any]]) -> Callable[[pa.RecordBatch], None]:
    return lambda rows: kept.extend(rows.to_pylist())


# ---- fast-forward ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("same_tie_order", [False, True])
def test_a_replica_far_behind_is_spared_what_the_other_has_sent(same_tie_order: bool) -> None:
    """Its function is asked about few of its rows, and the merged stream is what each would have sent alone."""
    (ahead, fast), (behind, slow) = _replica("ahead"), _replica("behind")
    quick, dear = _Costly(), _Costly()
    merged = sw.merge_replicas(fast.where(quick), slow.where(dear), same_tie_order=same_tie_order)
    emitted: list[dict[str, Any]] = []
    query = merged.open(_keep(emitted), clock=sw.ManualClock())
    quick.seen.clear()
    dear.seen.clear()  # what it was tried on
    for first in range(0, 1_000, 100):
        ahead.push(_table(range(first, first + 100)))
        query.work()
        behind.push(_table(range(first // 10, first // 10 + 10)))
        query.work()
    assert len(quick.seen) == 1_000
    assert len(dear.seen) < 15  # the first ten, before anything was known of which it could be spared
    behind.push(_table(range(100, 1_000)))
    query.close()
    assert len(dear.seen) < 30
    assert query.counters()["source#2"].ignored > 970
    alone = sw.stream(_table(range(1_000)), time="at").where(_Costly()).run().table
    assert emitted == alone.to_pylist()


def test_a_replica_that_was_spared_work_takes_over_when_the_other_stops() -> None:
    """It has caught up, and nothing is missing."""
    (ahead, fast), (behind, slow) = _replica("ahead"), _replica("behind")
    dear = _Costly()
    emitted: list[dict[str, Any]] = []
    query = sw.merge_replicas(fast.where(_Costly()), slow.where(dear)).open(_keep(emitted), clock=sw.ManualClock())
    dear.seen.clear()
    ahead.push(_table(range(500)))
    query.work()
    ahead.close()
    for first in range(0, 1_000, 50):
        behind.push(_table(range(first, first + 50)))
        query.work()
    query.close()
    assert min(dear.seen) > 450
    assert emitted == sw.stream(_table(range(1_000)), time="at").where(_Costly()).run().table.to_pylist()


_PLANS: dict[str, Callable[[sw.OrderedStream], sw.OrderedStream]] = {
    "rows": lambda rows: rows,
    "where": lambda rows: rows.where(nw.col("v") > 5),
    "select": lambda rows: rows.select("k", w=nw.col("v") * 2),
    "map_batches": lambda rows: rows.map_batches(lambda batch: batch.select(["v"])),
    "tumbling": lambda rows: rows.tumbling(7).group_by("k").aggregate(n=sw.count(), v=sw.sum("v")),
    "hopping": lambda rows: rows.hopping(9, 4).aggregate(n=sw.count(), top=sw.top_k("v", 2)),
    "sort": lambda rows: rows.hopping(9, 4).where(nw.col("v") > 2).sort(),
    "sliding": lambda rows: rows.sliding(4).aggregate(n=sw.count()),
    "map_windows": lambda rows: rows.tumbling(5).map_windows(lambda window: window.select(["v"])),
    "union": lambda rows: sw.union(rows.where(nw.col("v") > 3), rows.where(nw.col("v") <= 8)),
    "join": lambda rows: rows.join(rows.where(nw.col("v") > 3), on="k", within=3),
    "windows of windows": lambda rows: rows.tumbling(3).aggregate(n=sw.count()).tumbling(9).aggregate(n=sw.sum("n")),
}


@pytest.mark.parametrize("name", _PLANS)
@given(
    times=st.lists(st.integers(0, 60), max_size=40).map(sorted),
    replicas=st.integers(2, 3),
    seed=st.integers(0, 10**6),
    restored_at=st.sets(st.integers(0, 12), max_size=2),
)
def test_replicas_at_any_pace_merge_to_what_one_sends_alone(
    name: str, times: list[int], replicas: int, seed: int, restored_at: set[int]
) -> None:
    """Some far behind, some resumed from a snapshot; every step between is informed of what is of no interest."""
    rng, table = Random(seed), _table(times)
    emitted: list[dict[str, Any]] = []
    state: Any = None
    places = [0] * replicas
    paces = [rng.choice([1, 5, 20]) for _ in range(replicas)]

    def opened() -> tuple[list[sw.PushSource], sw.Query]:
        sources, streams = zip(*(_replica(str(number)) for number in range(replicas)), strict=True)
        merged = sw.merge_replicas(*map(_PLANS[name], streams))
        return list(sources), merged.open(_keep(emitted), clock=sw.ManualClock(), resume=state)

    sources, query = opened()
    for turn in range(13):
        if turn in restored_at:
            state = query.snapshot()
            sources, query = opened()
        for number in rng.sample(range(replicas), replicas):
            sources[number].push(table.slice(places[number], paces[number]))
            places[number] += paces[number]
            query.work()
    for number in range(replicas):
        sources[number].push(table.slice(places[number]))
    query.close()
    alone = _PLANS[name](sw.stream(table, time="at").assume_ordered()).run().table
    assert sorted(map(repr, emitted)) == sorted(map(repr, alone.to_pylist()))


# ---- from outside ---------------------------------------------------------------------------------------------------


@given(
    times=st.lists(st.integers(0, 60), max_size=40).map(sorted),
    cuts=st.lists(st.integers(1, 10), max_size=8),
    bounds=st.lists(st.integers(-5, 70), max_size=8),
    name=st.sampled_from(sorted(_PLANS)),
)
def test_a_query_that_is_informed_leaves_out_nothing_that_reaches_past_the_bound(
    times: list[int], cuts: list[int], bounds: list[int], name: str
) -> None:
    """Whatever is declared between which batches."""
    table, place = _table(times), 0
    source, rows = _replica()
    got: list[dict[str, Any]] = []
    stream = _PLANS[name](rows)
    query = stream.open(_keep(got), clock=sw.ManualClock())
    for cut, bound in zip(cuts, bounds, strict=False):
        source.push(table.slice(place, cut))
        place += cut
        query.ignore_before(bound)
        query.work()
    source.push(table.slice(place))
    query.close()
    greatest = max(bounds[: len(cuts)], default=sw.BEGINNING)
    time, until = stream.node.schema.time, stream.node.schema.until

    def past(rows: list[dict[str, Any]]) -> list[str]:
        ends = (row[time.name] + 1 if until is None else row[until.name] for row in rows)
        return sorted(repr(row) for row, end in zip(rows, ends, strict=True) if end > greatest)

    alone = _PLANS[name](sw.stream(table, time="at").assume_ordered()).run().table
    assert past(got) == past(alone.to_pylist())


def test_a_source_shows_what_is_wanted_and_counts_what_was_left_out() -> None:
    """Nothing is lost silently: rows in are rows out and rows ignored."""
    source, rows = _replica()
    seen: list[dict[str, Any]] = []
    query = rows.open(_keep(seen), clock=sw.ManualClock())
    assert source.wanted_from == sw.BEGINNING
    source.push(_table(range(10)))
    query.ignore_before(7)
    assert source.wanted_from == sw.BEGINNING  # the query has not worked yet
    query.work()
    assert source.wanted_from == 7
    assert [row["at"] for row in seen] == [7, 8, 9]
    counters = query.counters()["source#1"]
    assert (counters.rows_in, counters.rows_out, counters.ignored) == (10, 3, 7)
    assert "ignored 7" in str(counters)
    query.ignore_before(3)
    query.work()
    assert source.wanted_from == 7


def test_steps_count_what_they_left_out() -> None:
    """Rows that were inside when the query was informed."""
    source = sw.PushSource(_ROWS)
    ordered = sw.stream(source, time="at").sort(100, late=sw.Late.drop())
    query = ordered.open(lambda _: None, clock=sw.ManualClock())
    source.push(_table([5, 3, 9]))
    query.work()
    assert query.counters()["sort#1"].buffered == 3
    query.ignore_before(6)
    query.step()
    counters = query.counters()["sort#1"]
    assert (counters.buffered, counters.ignored) == (1, 2)


def test_a_query_may_be_informed_from_another_thread() -> None:
    """It wakes, heeds it, and shows it to its feeder."""
    source, rows = _replica()
    query = rows.open(lambda _: None)
    query.work()
    teller = threading.Thread(target=query.ignore_before, args=[5])
    teller.start()
    query.wait_for_more()  # for ever, if it were not woken
    teller.join()
    query.work()
    assert source.wanted_from == 5
    query.close()


def test_a_source_that_guarantees_by_the_clock_guarantees_the_same_though_its_rows_are_left_out() -> None:
    """They have been seen, and show how far the source is ahead of the clock."""
    stamped = pa.schema({"at": pa.timestamp("us", "UTC")})
    guarantees = []
    for bound in (sw.BEGINNING, 2_000):
        clock, sources = sw.ManualClock(1_000), [sw.PushSource(stamped), sw.PushSource(stamped)]
        streams = [
            sw.stream(source, time="at", punctuations=sw.Punctuations.on_demand(skew="0s")).assume_ordered()
            for source in sources
        ]
        query = sw.union(*streams).open(lambda _: None, clock=clock, on_late=lambda _: None)
        query.ignore_before(bound)
        sources[0].push(pa.record_batch({"at": pa.array([1_500], stamped.field("at").type)}))
        sources[1].push(pa.record_batch({"at": pa.array([3_000], stamped.field("at").type)}))
        clock.advance(700)
        query.work()
        guarantees.append(query.counters()["source#1"].punctuations_out)
    assert guarantees == [1, 1]


def test_rows_without_times_are_never_left_out() -> None:
    """Nobody has given them any, so nobody can say that they are over."""
    source = sw.PushSource({"v": pa.int64()})
    seen: list[dict[str, Any]] = []
    rows = sw.unstamped(source).where(nw.col("v") > 0)
    query = rows.open(_keep(seen), clock=sw.ManualClock(10))
    query.ignore_before(1_000)
    source.push([{"v": 1}, {"v": 2}])
    query.work()
    assert [row["v"] for row in seen] == [1, 2]


# ---- who must agree -------------------------------------------------------------------------------------------------


def test_what_several_read_is_left_out_when_none_of_them_wants_it() -> None:
    """A merge that needs no more of a stream must not take it away from a sink."""
    (ahead, fast), (behind, slow) = _replica("ahead"), _replica("behind")
    dear = _Costly()
    shared = slow.where(dear)
    all_of_it: list[dict[str, Any]] = []
    outputs = [(sw.merge_replicas(fast.where(_Costly()), shared), lambda _: None), (shared, _keep(all_of_it))]
    query = sw.Query(outputs, clock=sw.ManualClock())
    dear.seen.clear()
    ahead.push(_table(range(100)))
    query.work()
    behind.push(_table(range(100)))
    query.work()
    assert dear.seen == list(range(100))
    assert (ahead.wanted_from > 90, behind.wanted_from) == (True, sw.BEGINNING)
    query.ignore_before(50)
    query.work()
    assert behind.wanted_from == 50
    query.close()
    assert len(all_of_it) == sum(at * at % 17 % 2 == 0 for at in range(100))


def test_of_two_steps_that_read_a_stream_the_one_that_wants_more_decides() -> None:
    """A merge that is far, and one that has heard of nothing yet."""
    (ahead, fast), (_, never), (behind, slow) = (_replica(name) for name in ("ahead", "never", "behind"))
    merges = [sw.merge_replicas(fast, slow), sw.merge_replicas(never, slow)]
    query = sw.Query([(merged, lambda _: None) for merged in merges], clock=sw.ManualClock())
    ahead.push(_table(range(100)))
    query.work()
    assert (ahead.wanted_from, behind.wanted_from) == (98, sw.BEGINNING)
    behind.push(_table(range(50)))
    query.work()
    assert behind.wanted_from == 48


class _TwoOutputs(StatelessOperator):
    """Sends everything to both of its outputs, and notes what it is informed of."""

    def __init__(self, bounds: list[Instant]) -> None:
        self._bounds = bounds

    def on_batch(self, port: Port, batch: EventBatch) -> Emission:  # noqa: ARG002 - there is one port
        """Send the batch twice."""
        return Emission((batch,), ((band_output(1), batch),))

    def ignore_before(self, bound: Instant) -> None:
        """Note it."""
        self._bounds.append(bound)


@dataclass(frozen=True, eq=False)
class _Twofold(UnaryNode):
    """The plan node of the operator above."""

    bounds: list[Instant]
    verb = "twofold"
    traits = Traits()

    def details(self) -> str:
        """Nothing was chosen."""
        return ""

    def reason(self) -> str:
        """It is for tests."""
        return "for tests"

    def side_outputs(self) -> Mapping[str, tuple[EventSchema, Properties]]:
        """One beside the main one."""
        return {band_output(1): (self.schema, self.properties)}

    def build(self, step: str, resume: None = None) -> Operator[Any]:  # noqa: ARG002 - it raises nothing
        """Make the operator."""
        return _TwoOutputs(self.bounds)


def test_a_step_is_informed_of_the_least_of_what_its_outputs_are_wanted_from() -> None:
    """Each output counts, read by a merge or by a sink; one that nobody reads does not."""
    for reads_side in (False, True):
        bounds: list[Instant] = []
        (ahead, fast), (_, slow) = _replica("ahead"), _replica("behind")
        twofold = _Twofold(slow.node, bounds)
        outputs: list[Any] = [(sw.merge_replicas(fast, sw.OrderedStream(twofold)), lambda _: None)]
        if reads_side:
            outputs.append((sw.OrderedStream(SideOutput(twofold, band_output(1))), lambda _: None))
        query = sw.Query(outputs, clock=sw.ManualClock())
        ahead.push(_table(range(100)))
        query.work()
        assert bool(bounds) is not reads_side
        query.ignore_before(30)
        query.work()
        assert bounds[-1] == (30 if reads_side else 98)
        assert bounds == sorted(set(bounds))


class _Unasked(_TwoOutputs):
    """Fails when it is asked what is of interest to it."""

    def of_interest_from(self, port: Port) -> Instant:
        """Nobody should ask."""
        raise AssertionError(port)


@dataclass(frozen=True, eq=False)
class _NeverAsked(_Twofold):
    """The plan node of the operator above."""

    def build(self, step: str, resume: None = None) -> Operator[Any]:  # noqa: ARG002 - it raises nothing
        """Make the operator."""
        return _Unasked(self.bounds)


def test_a_plan_without_feedback_does_not_ask_for_it() -> None:
    """So it costs nothing there."""
    stream = sw.stream(_table(range(10)), time="at").assume_ordered()
    assert sw.OrderedStream(_NeverAsked(stream.node, [])).run().table.num_rows == 10
    source, rows = _replica()
    query = sw.OrderedStream(_NeverAsked(rows.node, [])).open(lambda _: None, clock=sw.ManualClock())
    source.push(_table(range(10)))
    query.ignore_before(5)
    with pytest.raises(AssertionError):
        query.work()


# ---- snapshots ------------------------------------------------------------------------------------------------------


def test_a_query_that_is_resumed_learns_anew_what_is_of_no_interest() -> None:
    """At once: its merge remembers how far it was, and nothing else need be remembered."""

    def opened(resume: Any = None) -> tuple[sw.PushSource, sw.PushSource, sw.Query]:
        (ahead, fast), (behind, slow) = _replica("ahead"), _replica("behind")
        merged = sw.merge_replicas(fast.where(nw.col("v") >= 0), slow.where(nw.col("v") >= 0))
        return ahead, behind, merged.open(lambda _: None, clock=sw.ManualClock(), resume=resume)

    ahead, behind, query = opened()
    ahead.push(_table(range(100)))
    query.work()
    assert behind.wanted_from == 98
    _, behind, resumed = opened(query.snapshot())
    assert behind.wanted_from == 98
    behind.push(_table(range(50)))
    resumed.work()
    assert resumed.counters()["source#2"].ignored == 50
