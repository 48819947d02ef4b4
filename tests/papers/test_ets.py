"""Bai, Thakkar, Wang, Zaniolo: Optimizing Timestamp Management in Data Stream Management Systems (ICDE 2007), as tests.

Each test is named by the section or figure it is taken from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.events.batch import EventBatch
from slackwater.events.elements import Insert, elements_of
from slackwater.events.schema import EventSchema
from slackwater.operators.match.join import JoinOperator
from slackwater.operators.union import UnionOperator
from slackwater.plan.nodes.rows import Where
from slackwater.policies.matching import Within

if TYPE_CHECKING:
    from collections.abc import Callable

    from slackwater.operators.emission import Emission
    from slackwater.operators.operator import Operator
    from slackwater.streams.stream import Stream

_SCHEMA = EventSchema.of(pa.schema({"at": pa.int64(), "x": pa.string()}), time="at")
_SECOND = 1_000_000


def _tuples(**at: int) -> EventBatch:
    return EventBatch.inserts(pa.record_batch({"x": pa.array(list(at), pa.string())}), list(at.values()))


def _punctuation(complete_before: int) -> EventBatch:
    return _tuples().punctuation(complete_before)


def _names(emission: Emission) -> list[str]:
    """The tuples of an emission by name (of both sides, for a join), punctuations by their instant."""
    emitted = []
    for batch in emission.batches:
        for element in elements_of(batch):
            if isinstance(element, Insert):
                assert isinstance(element.payload, tuple)
                emitted.append("".join(value for value in element.payload if isinstance(value, str)))
            else:
                emitted.append(f"|{element.complete_before}")  # type: ignore[union-attr]
    return emitted


def _join(within: int) -> JoinOperator:
    return JoinOperator(_SCHEMA, _SCHEMA, (), Within.of(within))


# ---- section 2, figure 1: the basic rules, which still hold where all inputs have tuples ----------------------------


def test_figure_1_union_takes_tuples_in_order_of_time_when_all_inputs_have_some() -> None:
    """A tuple with minimal time-stamp is produced and consumed; the union stops when an input would be empty."""
    union = UnionOperator(2, _SCHEMA.no_rows)
    union.on_batch(0, _tuples(a1=1, a4=4))
    assert _names(union.on_batch(1, _tuples(b2=2, b3=3))) == ["a1", "b2", "b3"]
    assert union.held_back() == 1


def test_figure_1_a_joined_tuple_takes_its_time_from_the_later_partner() -> None:
    """The tuple that is processed finds those in the window of the other stream."""
    join = _join(within=5)
    join.on_batch(0, _tuples(a=1))
    assert _names(join.on_batch(1, _tuples(b=3))) == ["|1"]
    (matched,) = join.on_batch(0, _punctuation(3)).batches
    assert matched.start.tolist() == [3]


def test_figure_1_expired_tuples_leave_the_window() -> None:
    """A partner that comes later than the window is long finds nobody."""
    join = _join(within=5)
    join.on_batch(0, EventBatch.concat([_tuples(a=1), _punctuation(7)]))
    assert _names(join.on_batch(1, _tuples(b=7))) == ["|7"]


# ---- section 4.1: simultaneous tuples; figures 5 and 6 --------------------------------------------------------------


def test_section_4_1_simultaneous_tuples_go_although_the_other_input_is_empty() -> None:
    """By figure 1, B would be left holding its simultaneous tuples when A is emptied; by figure 6 all of them go."""
    union = UnionOperator(2, _SCHEMA.no_rows)
    union.on_batch(0, _tuples(a=5))
    assert _names(union.on_batch(1, _tuples(b1=5, b2=5, b3=5))) == ["a", "b1", "b2", "b3"]
    assert union.held_back() == 0


def test_section_4_1_simultaneous_tuples_that_come_later_do_not_wait() -> None:
    """The register remembers the time of the last tuple, although the tuple itself is long gone."""
    union = UnionOperator(2, _SCHEMA.no_rows)
    union.on_batch(0, _tuples(a=5))
    union.on_batch(1, _tuples(b=5))
    for port, late in ((0, "c"), (1, "d"), (0, "e")):
        assert _names(union.on_batch(port, _tuples(**{late: 5}))) == [late]
        assert union.idle_waiting_on() is None


def test_section_4_1_simultaneous_tuples_meet_in_a_join_and_nobody_waits() -> None:
    """Whichever comes first, and also those that come after the others were processed."""
    join = _join(within=0)
    join.on_batch(0, _tuples(a=5))
    assert "ab" in _names(join.on_batch(1, _tuples(b=5)))
    assert _names(join.on_batch(0, _tuples(c=5))) == ["cb"]
    assert _names(join.on_batch(1, _tuples(d=5))) == ["ad", "cd"]
    assert join.held_back() == 0


def test_figure_5_more_holds_for_a_tuple_at_the_least_register_only() -> None:
    """A tuple one instant younger than the least register waits for the input that has it."""
    union = UnionOperator(2, _SCHEMA.no_rows)
    union.on_batch(0, _tuples(a5=5, a6=6))
    assert _names(union.on_batch(1, _tuples(b=5))) == ["a5", "b"]
    assert (union.held_back(), union.idle_waiting_on()) == (1, 1)


def test_figure_5_an_input_that_never_sent_anything_holds_all_others_back() -> None:
    """Its register is before every time."""
    union = UnionOperator(3, _SCHEMA.no_rows)
    union.on_batch(0, _tuples(a=5))
    assert union.on_batch(1, _tuples(b=5)).batches == ()
    assert union.idle_waiting_on() == 2


# ---- section 4.2: punctuation tuples --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build", [lambda: UnionOperator(2, _SCHEMA.no_rows), lambda: _join(within=5)], ids=["union", "join"]
)
def test_section_4_2_a_punctuation_lets_an_idle_waiting_operator_go_on(build: Callable[[], Operator[Any]]) -> None:
    """It carries nothing but time; that is what was missing."""
    operator = build()
    operator.on_batch(0, _tuples(a=5))
    assert operator.idle_waiting_on() == 1
    operator.on_batch(1, _punctuation(5))
    assert operator.idle_waiting_on() is None


def test_figure_6_a_join_that_can_generate_no_tuple_produces_a_punctuation() -> None:
    """For the benefit of the idle-waiting-prone operators down the path."""
    join = _join(within=2)
    join.on_batch(0, _tuples(a=5))
    assert _names(join.on_batch(1, _punctuation(5))) == ["|5"]
    assert _names(join.on_batch(1, _punctuation(9))) == []
    assert _names(join.on_batch(0, _punctuation(8))) == ["|8"]


def test_figure_6_a_join_that_generates_a_tuple_needs_no_punctuation_at_its_time() -> None:
    """A tuple of an ordered stream says as much."""
    join = _join(within=2)
    join.on_batch(0, _tuples(a=5))
    assert _names(join.on_batch(1, _tuples(b=5))) == ["ab"]


def test_section_4_2_punctuations_go_through_operators_that_are_not_idle_waiting_prone() -> None:
    """Unchanged, even when the selection drops every tuple."""
    operator = Where(sw.stream([{"at": 1, "x": "a"}], time="at").node, nw.col("x") == "never").build("where#1")
    assert _names(operator.on_batch(0, EventBatch.concat([_tuples(a=1), _punctuation(5)]))) == ["|5"]


# ---- sections 3.1 and 3.2: forward, encore, backtrack ---------------------------------------------------------------


@dataclass
class _Trace:
    """Notes every execution of a user's function, and every delivery, in the order they happen."""

    steps: list[str] = field(default_factory=list)

    def passing(self, name: str) -> Callable[[pa.RecordBatch], pa.Array]:
        """A predicate that keeps every row and notes which ones it saw."""

        def predicate(rows: pa.RecordBatch) -> pa.Array:
            self.steps.append(f"{name}:{','.join(map(str, rows.column('v').to_pylist()))}")
            return pa.array([True] * rows.num_rows, pa.bool_())

        return predicate

    def open(self, stream: Stream, **options: Any) -> sw.Query:
        """Open a query and forget what was noted while it was built: a plan tries functions on made-up rows."""
        query = stream.open(self.sink, **options)
        self.steps.clear()
        return query

    def sink(self, rows: pa.RecordBatch) -> None:
        self.steps.append(f"sink:{','.join(map(str, rows.column('v').to_pylist()))}")


def _source(name: str) -> sw.PushSource:
    return sw.PushSource({"v": pa.int64()}, name=name)


def test_figure_2_each_batch_goes_depth_first_to_the_sink_before_the_next_is_taken() -> None:
    """Forward from Q1 to Q2 and the sink as soon as something is produced; then backtrack to the source for more."""
    trace, source = _Trace(), _source("s")
    path = sw.arrivals(source).where(trace.passing("Q1")).where(trace.passing("Q2"))
    query = trace.open(path, clock=sw.ManualClock(), batch_rows=2)
    for value in (10, 11):
        source.push({"v": value})
    source.push([{"v": 12}, {"v": 13}, {"v": 14}])
    query.work()
    one_by_one = ["10", "11", "12,13", "14"]
    assert trace.steps == [f"{step}:{rows}" for rows in one_by_one for step in ("Q1", "Q2", "sink")]


def test_figure_2_a_step_that_puts_nothing_out_hands_back_to_its_source() -> None:
    """Without yield there is no forward: Q2 is not executed."""
    trace, source = _Trace(), _source("s")
    path = sw.arrivals(source).where(trace.passing("Q1")).where(nw.col("v") > 11).where(trace.passing("Q2"))
    query = trace.open(path, clock=sw.ManualClock(), batch_rows=1)
    source.push([{"v": 10}, {"v": 11}, {"v": 12}])
    query.work()
    assert trace.steps == ["Q1:10", "Q1:11", "Q1:12", "Q2:12", "sink:12"]


def test_figure_4_a_union_backtracks_to_the_input_that_is_empty() -> None:
    """A is processed first and idle-waits; the walk goes to B's selection and B's source, not to A's next rows."""
    trace, a, b = _Trace(), _source("a"), _source("b")
    clock = sw.ManualClock()
    union = sw.union(sw.arrivals(a).where(trace.passing("QA")), sw.arrivals(b).where(trace.passing("QB")))
    query = trace.open(union, clock=clock, batch_rows=1)
    a.push([{"v": 10}, {"v": 11}])
    b.push([{"v": 20}])
    query.work()
    assert trace.steps == ["QA:10", "QB:20", "sink:10,20", "QA:11", "sink:11"]


def test_figure_4_a_union_that_finds_an_empty_source_gets_a_punctuation_from_it() -> None:
    """Backtracking all the way to B's source, which has nothing, makes it say how far it is; A's tuple goes on."""
    trace, a, b = _Trace(), _source("a"), _source("b")
    clock = sw.ManualClock(100)
    union = sw.union(sw.arrivals(a).where(trace.passing("QA")), sw.arrivals(b).where(trace.passing("QB")))
    query = trace.open(union, clock=clock)
    a.push({"v": 10})
    query.work()
    assert trace.steps == ["QA:10", "sink:10"]
    counters = query.counters()
    assert (counters["source#2"].rows_out, counters["source#2"].punctuations_out) == (0, 1)
    assert (counters["where#2"].punctuations_in, counters["where#2"].punctuations_out) == (1, 1)
    assert counters["union#1"].idle_waiting == 0


def test_section_3_several_components_run_in_one_query() -> None:
    """Paths that share nothing are scheduled side by side, and one that waits does not stop the other."""
    trace, a, b, c = _Trace(), _source("a"), _source("b"), _source("c")
    waiting = sw.union(
        sw.arrivals(a, punctuations=sw.Punctuations.none()), sw.arrivals(b, punctuations=sw.Punctuations.none())
    )
    query = sw.Query([(waiting, trace.sink), (sw.arrivals(c), trace.sink)], clock=sw.ManualClock())
    a.push({"v": 10})
    c.push({"v": 30})
    query.work()
    assert trace.steps == ["sink:30"]


# ---- section 5: time-stamps and their generation --------------------------------------------------------------------


def _collected(stream: Stream, clock: sw.ManualClock) -> tuple[sw.Query, list[int]]:
    seen: list[int] = []
    take = lambda rows: seen.extend(rows.column("v").to_pylist())  # noqa: E731
    return stream.open(take, clock=clock, on_late=lambda _: None), seen


def test_section_5_an_internal_punctuation_is_the_clock() -> None:
    """A tuple stamped now does not wait for a silent input, and the guarantee is exactly the present."""
    clock = sw.ManualClock(1_000)
    a, b = _source("a"), _source("b")
    query, seen = _collected(sw.union(sw.arrivals(a), sw.arrivals(b)), clock)
    a.push({"v": 1})
    clock.advance(7)
    query.work()
    assert seen == [1]
    state = query.snapshot()["union#1"]
    assert state.room.registers == (1_000, 1_007)
    b.push({"v": 2})
    query.work()
    assert seen == [1, 2]


def test_section_5_nobody_is_asked_while_nobody_waits() -> None:
    """On-demand punctuations cost nothing when they are not needed."""
    clock = sw.ManualClock(1_000)
    a, b = _source("a"), _source("b")
    query, _ = _collected(sw.union(sw.arrivals(a), sw.arrivals(b)), clock)
    for _ in range(10):
        clock.advance(10)
        query.work()
    assert query.counters()["source#1"].punctuations_out == 0
    assert query.counters()["source#2"].punctuations_out == 0


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROWS = pa.schema({"at": pa.timestamp("us", "UTC"), "v": pa.int64()})


def _row(at: int, v: int) -> dict[str, Any]:
    return {"at": _EPOCH + timedelta(microseconds=at), "v": v}


@dataclass
class _External:
    """A union of two live inputs whose rows bring their own times; the slow one punctuates, with a skew of 100."""

    clock: sw.ManualClock = field(default_factory=lambda: sw.ManualClock(50_000))

    def __post_init__(self) -> None:
        self.fast, self.slow = (sw.PushSource(_ROWS, name=name) for name in ("fast", "slow"))
        punctuations = sw.Punctuations.on_demand(skew=timedelta(microseconds=100))
        fast = sw.stream(self.fast, time="at").assume_ordered()
        slow = sw.stream(self.slow, time="at", punctuations=punctuations).assume_ordered()
        self.query, self.seen = _collected(sw.union(fast, slow), self.clock)


def test_section_5_an_external_punctuation_is_t_plus_elapsed_minus_delta() -> None:
    """The last tuple had t = 1000; 700 have passed; the skew is at most 100: complete before 1600, not 1601."""
    case = _External()
    case.slow.push(_row(1_000, 0))
    case.fast.push(_row(1_600, 1))
    case.fast.push(_row(1_601, 2))
    case.query.work()
    assert case.seen == [0]
    case.clock.advance(699)
    case.query.work()
    assert case.seen == [0]
    case.clock.advance(1)
    case.query.work()
    assert case.seen == [0, 1]
    assert case.query.snapshot()["union#1"].room.registers[1] == 1_600
    case.clock.advance(1)
    case.query.work()
    assert case.seen == [0, 1, 2]


def _guaranteed_1600() -> _External:
    case = _External()
    case.slow.push(_row(1_000, 0))
    case.fast.push(_row(1_600, 1))
    case.query.work()
    case.clock.advance(700)
    case.query.work()
    assert case.seen == [0, 1]
    return case


def test_section_5_a_tuple_exactly_at_the_guarantee_is_on_time() -> None:
    """The guarantee closes what is before it."""
    case = _guaranteed_1600()
    case.slow.push(_row(1_600, 2))
    case.query.work()
    assert case.seen == [0, 1, 2]


def test_section_5_a_tuple_before_the_guarantee_is_late() -> None:
    """One microsecond is enough: the skew was larger than declared. The query goes on."""
    case = _guaranteed_1600()
    case.slow.push(_row(1_599, 2))
    case.slow.push(_row(1_601, 3))
    case.query.work()
    assert case.query.counters()["source_lateness#1"].late == 1
    case.query.close()
    assert case.seen == [0, 1, 3]


def test_section_5_an_external_source_that_has_sent_nothing_guarantees_nothing() -> None:
    """There is no t to count from."""
    case = _External()
    case.fast.push(_row(1_000, 1))
    case.clock.advance(10 * _SECOND)
    case.query.work()
    assert case.seen == []


def test_section_5_the_guarantee_is_kept_while_it_would_go_back() -> None:
    """An event that arrives late, with an older lead over its arrival, does not lower the bound."""
    case = _guaranteed_1600()
    case.clock.advance(1_000)
    case.slow.push(_row(1_650, 2))
    case.query.work()
    case.fast.push(_row(2_600, 3))
    case.query.work()
    assert case.seen == [0, 1, 2, 3]


def test_section_5_latent_tuples_never_idle_wait_in_a_union() -> None:
    """They are added to the output as soon as they arrive, and no punctuation is made for them."""
    clock = sw.ManualClock(1_000)
    a, b = _source("a"), _source("b")
    query, seen = _collected(sw.union(sw.unstamped(a), sw.unstamped(b)), clock)
    for value in range(3):
        a.push({"v": value})
        clock.advance(10)
        query.work()
        assert seen == list(range(value + 1))
    counters = query.counters()
    assert counters["union#1"].idle_waiting == 0
    assert counters["union#1"].peak_buffered == 0
    assert counters["source#2"].punctuations_out == 0


def test_section_5_latent_tuples_are_stamped_on_the_fly_by_the_operator_that_needs_times() -> None:
    """A join stamps them with the time at which it processes them, and waits for nobody."""
    clock = sw.ManualClock(1_000)
    a, b = _source("a"), _source("b")
    seen: list[dict[str, Any]] = []
    joined = sw.unstamped(a).join(sw.unstamped(b), within="1s")
    query = joined.open(lambda rows: seen.extend(rows.to_pylist()), clock=clock)
    a.push({"v": 1})
    query.work()
    clock.advance(_SECOND)
    b.push({"v": 2})
    query.work()
    assert [(row["v"], row["v_right"], row["matched_at"]) for row in seen] == [
        (1, 2, _EPOCH + timedelta(microseconds=1_000 + _SECOND))
    ]
    assert query.counters()["join#1"].idle_waiting == 0


@pytest.mark.parametrize("how", ["join of windows", "union of windows"])
def test_section_5_latent_tuples_do_not_idle_wait_behind_a_window_either(how: str) -> None:
    """A window needs times and stamps; what comes after it still need not wait, for stamps follow the clock."""
    clock = sw.ManualClock(1_000)
    a, b = _source("a"), _source("b")
    left, right = sw.unstamped(a).sliding("1s"), sw.unstamped(b).sliding("1s")
    stream = left.join(right.select(w="v")) if how == "join of windows" else sw.union(left, right)
    query, seen = _collected(stream, clock)
    b.push({"v": 1})
    query.work()
    clock.advance(10)
    a.push({"v": 2})
    query.work()
    assert len(seen) == (1 if how == "join of windows" else 2)
    assert query.counters()[f"{how.split(maxsplit=1)[0]}#1"].idle_waiting == 0


# ---- section 6: the four scenarios, in small ------------------------------------------------------------------------


def _uneven(punctuations: sw.Punctuations) -> sw.Query:
    """A hundred tuples on one input and none on the other, ten milliseconds apart, then the end."""
    clock = sw.ManualClock()
    a, b = _source("a"), _source("b")
    union = sw.union(sw.arrivals(a, punctuations=punctuations), sw.arrivals(b, punctuations=punctuations))
    query, seen = _collected(union, clock)
    for value in range(100):
        a.push({"v": value})
        query.work()
        clock.advance(10_000)
        query.work()
    query.close()
    assert seen == list(range(100))
    return query


def test_section_6_scenario_a_waits_all_the_time_without_punctuations() -> None:
    """Every tuple waits for the end: 100 in the buffer, a second of waiting."""
    counters = _uneven(sw.Punctuations.none()).counters()["union#1"]
    assert (counters.idle_waiting, counters.peak_buffered) == (100 * 10_000, 100)


def test_section_6_scenario_b_waits_for_the_next_periodic_punctuation() -> None:
    """Ten tuples come between two punctuations."""
    counters = _uneven(sw.Punctuations.periodic("100ms")).counters()["union#1"]
    assert counters.peak_buffered == 10
    assert 0 < counters.idle_waiting <= 100 * 10_000


def test_section_6_scenario_c_waits_not_at_all_on_demand() -> None:
    """One tuple at a time, and no time lost."""
    counters = _uneven(sw.Punctuations.on_demand()).counters()["union#1"]
    assert (counters.idle_waiting, counters.peak_buffered) == (0, 1)


def test_section_5_latent_streams_of_which_one_is_cut_into_windows_keep_their_order() -> None:
    """A window moves the stamps of one side back; the join then waits for a guarantee instead of breaking its order."""
    clock = sw.ManualClock(1_000)
    a, b = _source("a"), _source("b")
    seen: list[dict[str, Any]] = []
    joined = sw.unstamped(a).join(sw.unstamped(b).tumbling("1ms"), within="1s")
    query = joined.open(lambda rows: seen.extend(rows.to_pylist()), clock=clock)
    for value in range(3):
        a.push({"v": value})
        query.work()
        clock.advance(700)
        b.push({"v": value})
        query.work()
        clock.advance(700)
    query.close()
    assert len(seen) == 9
