"""The in-process runner: who is executed when, who waits how long, what is counted, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.runners.in_process.ticks import ASK_AGAIN_AT_MOST_SECONDS, ASK_AGAIN_SECONDS, next_wake
from slackwater.runners.result import Counters

if TYPE_CHECKING:
    from slackwater.streams.stream import Stream

_VALUES = pa.schema({"v": pa.int64()})
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class _Live:
    """A query over named push sources, driven by hand under a manual clock."""

    punctuations: sw.Punctuations = field(default_factory=sw.Punctuations.on_demand)
    clock: sw.ManualClock = field(default_factory=sw.ManualClock)

    def __post_init__(self) -> None:
        self.sources: dict[str, sw.PushSource] = {}
        self.seen: list[int] = []

    def arrivals(self, name: str, punctuations: sw.Punctuations | None = None) -> sw.OrderedStream:
        source = self.sources[name] = sw.PushSource(_VALUES, name=name)
        return sw.arrivals(source, punctuations=punctuations or self.punctuations)

    def unstamped(self, name: str) -> sw.OrderedStream:
        source = self.sources[name] = sw.PushSource(_VALUES, name=name)
        return sw.unstamped(source)

    def open(self, stream: Stream, **options: Any) -> sw.Query:
        self.query = stream.open(self._deliver, clock=self.clock, **options)
        return self.query

    def _deliver(self, rows: pa.RecordBatch) -> None:
        self.seen += rows.column("v").to_pylist() if "v" in rows.schema.names else [rows.num_rows]

    def push(self, name: str, *values: int) -> None:
        self.sources[name].push([{"v": value} for value in values])

    def at(self, instant: int) -> None:
        """Move the clock and work."""
        self.clock.advance(instant - self.clock.now())
        self.query.work()

    def counters(self, step: str) -> Counters:
        return self.query.counters()[step]


# ---- counters -------------------------------------------------------------------------------------------------------


def test_every_step_counts_rows_and_punctuations_exactly() -> None:
    """In and out, of sources and steps; what is dropped is the difference."""
    live = _Live()
    union = sw.union(live.arrivals("a").where(nw.col("v") > 2), live.arrivals("b"))
    live.open(union)
    live.push("a", 1, 2, 3)
    live.at(10)
    assert live.counters("source#1") == Counters(rows_in=3, rows_out=3)
    assert live.counters("where#1") == Counters(rows_in=3, rows_out=1)
    assert live.counters("source#2") == Counters(punctuations_out=1)
    union_counters = live.counters("union#1")
    assert (union_counters.rows_in, union_counters.rows_out) == (1, 1)
    assert (union_counters.punctuations_in, union_counters.buffered, union_counters.peak_buffered) == (1, 0, 1)


def test_buffered_rows_are_counted_now_and_at_their_peak() -> None:
    """The peak stays when the buffer is empty again; a row that comes to those that wait is one more, for a moment."""
    live = _Live(sw.Punctuations.none())
    live.open(sw.union(live.arrivals("a"), live.arrivals("b")))
    live.push("a", 1, 2, 3)
    live.at(10)
    assert (live.counters("union#1").buffered, live.counters("union#1").peak_buffered) == (3, 3)
    live.push("b", 4)
    live.at(20)
    assert live.seen == [1, 2, 3]
    assert (live.counters("union#1").buffered, live.counters("union#1").peak_buffered) == (1, 4)
    live.query.close()
    assert live.counters("union#1").buffered == 0
    assert sorted(live.seen) == [1, 2, 3, 4]


def test_the_rows_of_every_step_add_up() -> None:
    """What goes into the union came out of its inputs, and comes out of it."""
    result = sw.union(
        *(sw.stream([{"at": at} for at in range(first, 100, 3)], time="at").assume_ordered() for first in range(3))
    ).run()
    counters = result.counters
    assert counters["union#1"].rows_in == sum(counters[f"assume_ordered#{i}"].rows_out for i in (1, 2, 3)) == 100
    assert counters["union#1"].rows_out == result.table.num_rows == 100


def test_counters_are_written_for_people() -> None:
    """On one line."""
    counters = Counters(rows_in=5, punctuations_in=1, rows_out=3, buffered=2, peak_buffered=4, idle_waiting=1_500_000)
    assert str(counters) == "total in 5 +1p, out 3 +0p, idle-waiting 1s500ms; now held 2 (peak 4)"


def test_the_peak_counts_what_waits_everywhere_at_once() -> None:
    """In queues and for silent inputs."""
    live = _Live(sw.Punctuations.none())
    live.open(sw.union(live.arrivals("a"), live.arrivals("b")))
    for value in range(5):
        live.push("a", value)
        live.at(value)
    assert live.query.peak_queued == 5


# ---- idle-waiting, to the microsecond -------------------------------------------------------------------------------


def test_without_punctuations_a_union_waits_until_the_other_input_sends() -> None:
    """From the instant the row came to the instant the other input has come as far."""
    live = _Live(sw.Punctuations.none())
    live.open(sw.union(live.arrivals("a"), live.arrivals("b")))
    live.at(100)
    live.push("a", 1)
    live.at(100)
    live.at(250)
    assert live.counters("union#1").idle_waiting == 150
    live.clock.advance(7)
    live.push("b", 2)
    live.at(257)
    assert live.seen == [1]
    assert live.counters("union#1").idle_waiting == 157
    live.at(300)
    assert live.counters("union#1").idle_waiting == 157 + 43
    live.push("a", 3)
    live.at(300)
    assert live.seen == [1, 2]


def test_on_demand_a_union_does_not_wait_at_all() -> None:
    """The source is asked in the same instant."""
    live = _Live()
    live.open(sw.union(live.arrivals("a"), live.arrivals("b")))
    for instant in range(100, 1_000, 100):
        live.clock.advance(100)
        live.push("a", instant)
        live.at(instant)
        assert live.seen[-1] == instant
    assert live.counters("union#1").idle_waiting == 0
    assert live.counters("source#2").punctuations_out == 9


def test_with_periodic_punctuations_a_union_waits_until_the_next_beat() -> None:
    """A beat every 100: a row that comes at 130 goes at 200."""
    live = _Live(sw.Punctuations.periodic(timedelta(microseconds=100)))
    live.open(sw.union(live.arrivals("a"), live.arrivals("b")))
    live.at(100)
    live.at(130)
    live.push("a", 1)
    live.query.work()
    live.at(199)
    assert live.seen == []
    live.at(200)
    assert live.seen == [1]
    assert live.counters("union#1").idle_waiting == 70


def test_beats_that_were_missed_are_not_made_up_for() -> None:
    """One punctuation says as much as ten; the next beat is on the grid."""
    live = _Live(sw.Punctuations.periodic(timedelta(microseconds=100)))
    live.open(sw.union(live.arrivals("a"), live.arrivals("b")))
    live.at(1_050)
    assert live.counters("source#1").punctuations_out == 1
    live.at(1_099)
    assert live.counters("source#1").punctuations_out == 1
    live.at(1_100)
    assert live.counters("source#1").punctuations_out == 2


def test_a_beat_is_not_lost_because_rows_wait_when_it_is_due() -> None:
    """Once per period: the rows are read first, and then the source says how far it is."""
    live = _Live(sw.Punctuations.periodic(timedelta(microseconds=100)))
    live.open(sw.union(live.arrivals("a"), live.arrivals("b")))
    live.clock.advance(50)
    live.push("b", 1)
    live.clock.advance(50)
    live.push("a", 2)
    live.at(100)
    assert live.counters("source#2").punctuations_out == 1
    assert live.seen == [1, 2]


def test_periodic_external_punctuations_are_t_plus_elapsed_minus_skew() -> None:
    """At the beat, and only then."""
    clock, seen = sw.ManualClock(10_000), []
    rows = pa.schema({"at": pa.timestamp("us", "UTC"), "v": pa.int64()})
    a, b = sw.PushSource(rows), sw.PushSource(rows)
    punctuations = sw.Punctuations.periodic(timedelta(microseconds=100), skew=timedelta(microseconds=30))
    union = sw.union(
        sw.stream(a, time="at").assume_ordered(), sw.stream(b, time="at", punctuations=punctuations).assume_ordered()
    )
    take = lambda batch: seen.extend(batch.column("v").to_pylist())  # noqa: E731
    query = union.open(take, clock=clock, on_late=lambda _: None)
    b.push({"at": _EPOCH + timedelta(microseconds=1_000), "v": 0})
    a.push([{"at": _EPOCH + timedelta(microseconds=at), "v": at} for at in (1_070, 1_071)])
    query.work()
    clock.advance(99)
    query.work()
    assert seen == [0]
    clock.advance(1)
    query.work()
    assert seen == [0, 1_070]


def test_rows_that_only_live_on_in_a_join_do_not_count_as_waiting() -> None:
    """They wait for partners, not for time."""
    live = _Live()
    live.open(live.arrivals("a").join(live.arrivals("b"), within="1s"))
    live.push("a", 1)
    live.at(10)
    live.at(500)
    assert live.counters("join#1").idle_waiting == 0
    assert live.counters("join#1").buffered == 1


# ---- demand through the graph ---------------------------------------------------------------------------------------


def test_a_union_that_waits_on_a_union_demands_through_it() -> None:
    """Both sources behind the inner one are asked, though it holds nothing itself."""
    live = _Live()
    inner = sw.union(live.arrivals("b"), live.arrivals("c"))
    live.open(sw.union(live.arrivals("a"), inner))
    live.push("a", 1)
    live.at(10)
    assert live.seen == [1]
    assert live.counters("union#1").idle_waiting == live.counters("union#2").idle_waiting == 0


def test_demand_goes_through_deep_trees_of_unions() -> None:
    """Eight sources, one of which speaks."""
    live = _Live()
    level = [live.arrivals(name) for name in "abcdefgh"]
    while len(level) > 1:
        level = [sw.union(*level[i : i + 2]) for i in range(0, len(level), 2)]
    live.open(level[0])
    for instant, name in enumerate("hadgbecf", start=1):
        live.clock.advance(10)
        live.push(name, instant)
        live.query.work()
        assert live.seen == list(range(1, instant + 1))


def test_demand_goes_through_selections_windows_and_aggregates() -> None:
    """Whatever is between the union and the silent source passes the guarantee on."""
    live = _Live()
    counted = live.arrivals("b").where(nw.col("v") > 0).tumbling("1s").aggregate(v=sw.sum("v"))
    windows = live.arrivals("a").tumbling("1s").select("v")
    live.open(sw.union(windows, counted))
    live.at(2_500_000)
    live.push("a", 1)
    live.query.work()
    assert live.seen == [1]


def test_demand_goes_through_a_join_to_both_of_its_sources() -> None:
    """The join emits a punctuation although it has nothing to join."""
    live = _Live()
    joined = live.arrivals("b").join(live.arrivals("c").select(w="v"), within="1s").select("v")
    windows = live.arrivals("a").join(live.arrivals("d").select(w="v"), within="1s").select("v")
    live.open(sw.union(windows, joined))
    live.push("a", 1)
    live.push("d", 2)
    live.at(10)
    assert live.seen == [1]


def test_a_punctuated_but_disordered_live_source_is_asked_by_the_aggregate_that_waits_for_it() -> None:
    """An open window that only a guarantee can close is something to wait for."""
    clock = sw.ManualClock(100_000_000)
    source = sw.PushSource({"at": pa.timestamp("us", "UTC")})
    punctuations = sw.Punctuations.on_demand(skew="1s")
    rows: list[dict[str, Any]] = []
    counted = sw.stream(source, time="at", punctuations=punctuations).tumbling("10s").aggregate(n=sw.count())
    take = lambda batch: rows.extend(batch.to_pylist())  # noqa: E731
    query = counted.open(take, clock=clock, on_late=lambda _: None)
    source.push([{"at": _EPOCH + timedelta(seconds=s)} for s in (8, 3)])
    query.work()
    assert rows == []
    clock.advance(2_000_000)
    query.work()
    assert rows == []
    clock.advance(1_000_000)
    query.work()
    assert [row["n"] for row in rows] == [2]


def test_latent_streams_pass_a_union_without_any_punctuation() -> None:
    """Nobody waits, nobody is asked."""
    live = _Live()
    live.open(sw.union(live.unstamped("a"), live.unstamped("b")))
    live.push("a", 1, 2)
    live.at(10)
    assert live.seen == [1, 2]
    assert live.counters("source#2").punctuations_out == 0


# ---- back-pressure --------------------------------------------------------------------------------------------------


def test_sources_that_a_full_operator_does_not_wait_for_are_left_unread() -> None:
    """Rows stay in the source, whose feeder is held up in turn; the one that is waited for is read."""
    live = _Live(sw.Punctuations.none())
    live.open(sw.union(live.arrivals("a"), live.arrivals("b")), batch_rows=1, buffer_limit=3)
    live.push("a", *range(10))
    live.at(10)
    assert live.counters("union#1").buffered == 3
    assert live.sources["a"].waiting == 7
    live.at(20)
    live.push("b", 99)
    live.at(20)
    assert live.seen == list(range(10))
    assert live.sources["a"].waiting == 0


def test_back_pressure_does_not_stop_other_components() -> None:
    """Only the sources of the full operator are held up."""
    live = _Live(sw.Punctuations.none())
    full = sw.union(live.arrivals("a"), live.arrivals("b"))
    free = live.arrivals("c")
    live.query = sw.Query(
        [(full, live._deliver), (free, live._deliver)], clock=live.clock, batch_rows=1, buffer_limit=2
    )
    live.push("a", *range(5))
    live.push("c", 50, 51, 52)
    live.at(10)
    assert live.seen == [50, 51, 52]
    assert live.sources["a"].waiting == 3


def test_a_source_that_feeds_both_inputs_is_never_held_up_by_itself() -> None:
    """A diamond cannot lock itself."""
    live = _Live(sw.Punctuations.none())
    a = live.arrivals("a")
    live.open(sw.union(a.where(nw.col("v") < 5), a.where(nw.col("v") >= 5)), batch_rows=1, buffer_limit=1)
    live.push("a", *range(10))
    live.query.close()
    assert sorted(live.seen) == list(range(10))


# ---- shapes of graphs -----------------------------------------------------------------------------------------------


def test_several_components_run_in_one_query() -> None:
    """Each to its own end."""
    live = _Live()
    first, second = live.arrivals("a"), live.arrivals("b")
    live.query = sw.Query([(first, live._deliver), (second, live._deliver)], clock=live.clock)
    live.push("a", 1)
    live.push("b", 2)
    live.at(10)
    assert sorted(live.seen) == [1, 2]
    live.sources["a"].close()
    live.at(10)
    assert not live.query.finished
    live.push("b", 3)
    live.sources["b"].close()
    live.at(10)
    assert live.query.finished
    assert sorted(live.seen) == [1, 2, 3]


def test_what_one_step_puts_out_goes_to_all_that_read_it() -> None:
    """Fan-out, and in again."""
    live = _Live()
    a = live.arrivals("a")
    parts = [a.where(nw.col("v") % 3 == rest) for rest in range(3)]
    live.open(sw.union(*parts))
    live.push("a", *range(9))
    live.at(10)
    assert sorted(live.seen) == list(range(9))
    assert live.counters("source#1").rows_out == 9
    assert [live.counters(f"where#{i}").rows_in for i in (1, 2, 3)] == [9, 9, 9]


def test_an_output_in_the_middle_of_a_plan_is_served_too() -> None:
    """A step may feed a sink and another step."""
    live, middle = _Live(), []
    a = live.arrivals("a")
    live.query = sw.Query(
        [(a, lambda rows: middle.extend(rows.column("v").to_pylist())), (a.where(nw.col("v") > 1), live._deliver)],
        clock=live.clock,
    )
    live.push("a", 1, 2)
    live.query.close()
    assert (middle, live.seen) == ([1, 2], [2])


# ---- ends -----------------------------------------------------------------------------------------------------------


def test_a_source_that_ends_while_others_wait_lets_them_go() -> None:
    """An ended input holds nobody back, at once."""
    live = _Live(sw.Punctuations.none())
    live.open(sw.union(live.arrivals("a"), live.arrivals("b")))
    live.push("a", 1)
    live.at(10)
    live.clock.advance(5)
    live.sources["b"].close()
    live.query.work()
    assert live.seen == [1]
    assert live.counters("union#1").idle_waiting == 5
    assert not live.query.finished


def test_sources_that_are_all_empty_end_the_query_at_once() -> None:
    """No rows, no waiting, the right columns."""
    empty = [sw.stream([], time="at", schema=pa.schema({"at": pa.int64()})).assume_ordered() for _ in range(3)]
    result = sw.union(*empty).run()
    assert result.table.num_rows == 0
    assert result.peak_queued == 0
    live = _Live()
    live.open(sw.union(live.arrivals("a"), live.arrivals("b")))
    live.query.close()
    assert live.query.finished
    assert live.seen == []


def test_one_empty_source_among_others_changes_nothing() -> None:
    """It has ended before it began."""
    schema = pa.schema({"at": pa.int64()})
    streams = [
        sw.stream([{"at": at} for at in ats], time="at", schema=schema).assume_ordered() for ats in ([1, 3], [], [2])
    ]
    assert sw.union(*streams).run().table.column("at").to_pylist() == [1, 2, 3]


def test_closing_flushes_what_every_step_holds() -> None:
    """Rows in sources, in the waiting room, in windows; nothing is left."""
    live = _Live(sw.Punctuations.none())
    live.open(sw.union(live.arrivals("a"), live.arrivals("b")).tumbling("1s").aggregate(v=sw.count()))
    live.push("a", 1, 2)
    live.at(10)
    live.push("b", 3)
    live.query.close()
    assert live.seen == [3]
    assert all(counters.buffered == 0 for counters in live.query.counters().values())
    assert live.query.finished


def test_the_invariant_that_queues_are_empty_between_calls_holds() -> None:
    """What is held is held inside operators."""
    live = _Live(sw.Punctuations.none())
    live.open(sw.union(live.arrivals("a").where(nw.col("v") > 0), live.arrivals("b")), batch_rows=1)
    live.push("a", 1, 2, 3)
    live.at(10)
    runner = live.query._runner
    assert all(not arc.queue for step in runner._graph.steps for arc in step.inputs)


@pytest.mark.parametrize("rounds", [["ab", "ab"], ["b", "ab", "ab"], ["ab", "", "ab"]])
def test_no_reader_of_a_source_is_left_behind_when_another_demands_its_rows(rounds: list[str]) -> None:
    """After any step all rows that were read have been taken, also by a step that stands before who waited for them."""
    live = _Live(sw.Punctuations.none())
    a, b = live.arrivals("a"), live.arrivals("b")
    seen: list[int] = []
    outputs = [
        (b.where(nw.col("v") > 0), lambda rows: seen.extend(rows.column("v").to_pylist())),
        (sw.union(a, b), lambda _: None),
    ]
    query = sw.Query(outputs, clock=live.clock, batch_rows=1)
    for names in rounds:
        live.clock.advance(1)
        for name in names:
            live.push(name, 1)
        query.step()
        assert len(seen) == query.counters()["source#1"].rows_out
        assert all(not arc.queue for step in query._runner._graph.steps for arc in step.inputs)


# ---- waking up ------------------------------------------------------------------------------------------------------


def _graph(live: _Live) -> Any:
    return live.query._runner._graph


def test_a_query_sleeps_until_the_next_beat() -> None:
    """Not longer, and not at all when it is due."""
    live = _Live(sw.Punctuations.periodic("1s"))
    live.open(live.arrivals("a"))
    assert next_wake(_graph(live), 0, None) == 1.0
    assert next_wake(_graph(live), 750_000, None) == 0.25
    assert next_wake(_graph(live), 2_000_000, None) == 0.0


def test_a_query_that_idle_waits_looks_again_soon_and_then_less_often() -> None:
    """A guarantee by the clock grows by itself; without anybody waiting only a source can wake the query."""
    live = _Live()
    live.open(live.arrivals("a"))
    pauses = [next_wake(_graph(live), 0, asked_in_vain) for asked_in_vain in (0, 1, 2, 100)]
    assert pauses == [ASK_AGAIN_SECONDS, 2 * ASK_AGAIN_SECONDS, 4 * ASK_AGAIN_SECONDS, ASK_AGAIN_AT_MOST_SECONDS]
    assert next_wake(_graph(live), 0, None) is None


def test_without_punctuations_only_a_source_wakes_a_query() -> None:
    """Looking again would not help."""
    live = _Live(sw.Punctuations.none())
    live.open(live.arrivals("a"))
    assert next_wake(_graph(live), 0, 0) is None


@pytest.mark.parametrize("batch_rows", [1, 2, 1_000])
def test_the_size_of_batches_changes_nothing_but_their_size(batch_rows: int) -> None:
    """The same rows in the same order."""
    rows: list[int] = []
    sizes: list[int] = []

    def deliver(batch: pa.RecordBatch) -> None:
        rows.extend(batch.column("at").to_pylist())
        sizes.append(batch.num_rows)

    sw.stream([{"at": at} for at in range(5)], time="at").open(deliver, batch_rows=batch_rows).run_to_end()
    assert rows == list(range(5))
    assert max(sizes) <= batch_rows
