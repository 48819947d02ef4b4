"""A replica that fails leaves its merge, with its reason, and the others go on: the query fails with the last."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import BadElement, PlanError, ReplicasGone, RunError, SlackwaterError, StepFailed
from slackwater.events.elements import Insert, Punctuate
from slackwater.testing.change_rows import change_rows, change_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_AT = pa.schema({"at": pa.int64(), "x": pa.int64()})
_EVENTS = 40


def _at(rows: Any) -> list[int]:
    return [int(at) for at in rows["at"].to_pylist()]


def _refuse(doomed: int) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """A function of the user's that fails of one row."""

    def check(rows: pa.RecordBatch) -> pa.RecordBatch:
        if doomed in rows["at"].to_pylist():
            raise ZeroDivisionError("of all rows, this one")
        return rows.select(["x"])

    return check


class _Live:
    """A query over live replicas, and what has come out."""

    def __init__(self, streams: list[Any], sources: list[sw.PushSource], resume: Any = None, **options: Any) -> None:
        self.sources, self.streams = sources, streams
        self.out: list[int] = []
        merged = sw.merge_replicas(*streams, **options).settle()
        self.query = merged.open(lambda rows: self.out.extend(_at(rows)), clock=sw.ManualClock(), resume=resume)

    @classmethod
    def ordered(cls, *names: str, resume: Any = None, **options: Any) -> _Live:
        """Replicas that come in order."""
        sources = [sw.PushSource(_AT, name=name) for name in names]
        streams = [sw.stream(source, time="at").assume_ordered() for source in sources]
        return cls(streams, sources, resume, **options)

    def send(self, replica: int, *times: int) -> None:
        self.sources[replica].push([{"at": at, "x": 0} for at in times])
        self.query.work()


_OPTIONS: list[dict[str, Any]] = [{}, {"attachable": True}, {"agreement": sw.Agreement.first(), "attachable": True}]


# ---- the law --------------------------------------------------------------------------------------------------------


def _raising(rows: list[dict[str, int]]) -> Iterator[dict[str, int]]:
    yield from rows
    raise ConnectionError("the line is dead")


def _doomed(rng: Random, manner: str) -> Any:
    """A replica that fails somewhere; what it had sent until then is true."""
    dies = rng.randrange(_EVENTS - 1)
    rows = [{"at": at, "x": 0} for at in range(_EVENTS)]
    if manner == "its source raises":
        return sw.stream(_raising(rows[:dies]), time="at", schema=_AT).assume_ordered()
    if manner == "it goes back in time":
        again = rows[rng.randint(0, dies) :]
        return sw.stream([*rows[: dies + 2], *again[:-1]], time="at", schema=_AT).assume_ordered()
    if manner == "its function fails":
        return sw.stream(rows, time="at", schema=_AT).assume_ordered().map_batches(_refuse(dies), schema=_AT.remove(0))
    return sw.stream([*rows[:dies], {"at": None, "x": 0}], time="at", schema=_AT).assume_ordered()


@pytest.mark.parametrize("options", _OPTIONS, ids=["ordered", "event by event", "emitted early"])
@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    manners=st.lists(
        st.sampled_from(["its source raises", "it goes back in time", "its function fails", "a row has no time"]),
        min_size=1,
        max_size=3,
    ),
    batch_rows=st.sampled_from([1, 3, 100]),
)
def test_whatever_happens_to_the_others_one_that_lives_sends_everything(
    options: dict[str, Any], seed: int, manners: list[str], batch_rows: int
) -> None:
    """Each event once and in order, however rows are cut and whichever of them fail, in whichever order."""
    rng = Random(seed)
    replicas = [_doomed(rng, manner) for manner in manners]
    lives = sw.stream([{"at": at, "x": 0} for at in range(_EVENTS)], time="at", schema=_AT).assume_ordered()
    replicas.insert(rng.randint(0, len(replicas)), lives)
    out: list[int] = []
    merged = sw.merge_replicas(*replicas, **options).settle()
    with merged.open(lambda rows: out.extend(_at(rows)), clock=sw.ManualClock(), batch_rows=batch_rows) as query:
        query.run_to_end()
        standings = query.replicas()
        counters = query.counters()
    assert out == list(range(_EVENTS))
    assert not standings[replicas.index(lives)].left
    # Rows that nobody is interested in any more are left out before they can do harm.
    assert counters["merge_replicas#1"].left == sum(bool(one.left) for one in standings) <= len(manners)


@pytest.mark.parametrize("options", _OPTIONS[1:], ids=["event by event", "emitted early"])
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_replicas_that_start_again_are_attached_on_their_own_sources_again_and_again(
    options: dict[str, Any], seed: int
) -> None:
    """Two that go back in time by turns, one at a time; nobody needs a new source, and nothing is lost or doubled."""
    rng, live = Random(seed), _Live.ordered("blue", "green", **options)
    sent, most = [0, 0], 0
    while min(sent) < 30:
        who = rng.randrange(2)
        live.send(who, *range(sent[who], sent[who] + 5))
        sent[who] += 5
        most = max(most, *sent)
        if rng.random() < 0.3 and sent[who] and all(one.joined for one in live.query.replicas()):
            live.send(who, most + 3, most + 2)
            assert live.query.why_left(live.streams[who]).startswith("BrokenOrder")
            live.send(who, most)  # it is dropped, and nobody is held up
            sent[who] = rng.randrange(sent[who])
            live.query.attach(live.streams[who], complete_from=sent[who])
    assert live.sources[0].waiting == live.sources[1].waiting == 0
    live.send(0, *range(sent[0], most))
    live.query.close()
    assert live.out == list(range(most))


# ---- who leaves, and why --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", _OPTIONS, ids=["ordered", "event by event", "emitted early"])
def test_a_replica_that_goes_back_in_time_leaves_with_its_reason(options: dict[str, Any]) -> None:
    """It is counted and shown; what it sends from then on is dropped, and its feeder is not held up."""
    live = _Live.ordered("blue", "green", **options)
    live.send(0, 1, 2, 3)
    live.send(1, 1, 2)
    live.send(1, 5, 4)
    live.send(1, 3, 4, 5)
    blue, green = live.query.replicas()
    assert (blue.left, blue.joined) == ("", True)
    assert (green.attached, green.joined, green.ended, green.times_left) == (False, False, False, 1)
    assert green.left.startswith("BrokenOrder: ")
    assert green.reason == f"has left: {green.left}"
    assert str(green).startswith("merge_replicas#1, replica 1 (green): has left: BrokenOrder")
    assert live.query.counters()["merge_replicas#1"].left == 1
    assert "replicas left 1" in str(live.query.counters()["merge_replicas#1"])
    assert live.sources[1].waiting == 0
    live.send(0, 6)
    live.query.close()
    assert live.out == [1, 2, 3, 6]


@pytest.mark.parametrize("strictly", [False, True])
def test_a_replica_that_lags_and_goes_back_in_time_leaves_as_well(strictly: bool) -> None:
    """Nobody is interested in its rows, which are left out where they are read: its order is checked all the same."""
    for wrong in (-7, 4, *([5] if strictly else [])):
        sources = [sw.PushSource(_AT, name=name) for name in ("blue", "green")]
        streams = [sw.stream(source, time="at").assume_ordered(strictly=strictly) for source in sources]
        live = _Live(streams, sources)
        live.send(0, 0, 20)
        live.send(1, 0, 5)
        live.send(1, wrong)
        assert live.query.why_left(streams[1]).startswith("BrokenOrder: step 'assume_ordered#2'"), wrong
        live.query.close()
        assert live.out == [0, 20]


def test_a_replica_that_breaks_its_own_punctuation_leaves() -> None:
    """A revised one, as its source sees it."""
    payload = pa.schema({"k": pa.string()})
    sources = [sw.PushSource(change_schema(payload), name=name) for name in ("blue", "green")]
    streams = [sw.changes(source, time="at", until="until") for source in sources]
    out: list[str] = []
    query = sw.merge_replicas(*streams).open(lambda rows: out.extend(rows["k"].to_pylist()), clock=sw.ManualClock())
    for source in sources:
        source.push(change_rows([Insert(("a",), 1, 2), Punctuate(5)], payload))
    sources[1].push(change_rows([Insert(("old",), 3, 4)], payload))
    sources[0].push(change_rows([Insert(("b",), 6, 7), Punctuate(9)], payload))
    query.work()
    assert out == ["a", "b"]
    assert query.why_left(streams[1]).startswith("BrokenPunctuation: source 'source#2' got a row behind")


def test_a_replica_that_is_detached_may_fail_and_the_query_goes_on() -> None:
    """Its reason is kept; attached again on its own source, it begins anew."""
    live = _Live.ordered("blue", "green", attachable=True)
    live.send(0, 1, 2)
    live.send(1, 1, 2)
    live.query.detach(live.streams[1])
    live.send(1, 9, 8)
    assert live.query.why_left(live.streams[1]).startswith("BrokenOrder")
    live.query.attach(live.streams[1], complete_from=2)
    assert live.query.why_left(live.streams[1]) == ""
    live.send(0, 3)
    live.send(1, 2, 3, 4, 5)
    live.query.detach(live.streams[0])
    live.send(1, 6)
    live.query.close()
    assert live.out == [1, 2, 3, 4, 5, 6]
    assert live.query.replicas()[1].times_left == 1


def test_late_rows_of_a_replica_that_leaves_do_not_keep_the_query_from_ending() -> None:
    """They went where they go until it left, and go there again when it is attached again."""
    sources = [sw.PushSource(_AT, name=name) for name in ("blue", "green")]

    def planned(source: sw.PushSource) -> sw.OrderedStream:
        return sw.stream(source, time="at").sort(patience=2).map_batches(_refuse(33), schema=_AT.remove(0))

    streams = [planned(source) for source in sources]
    out: list[int] = []
    late: list[int] = []
    merged = sw.merge_replicas(*streams, attachable=True)
    query = merged.open(lambda rows: out.extend(_at(rows)), on_late=lambda rows: late.extend(_at(rows)))
    for again in range(2):
        sources[1].push([{"at": at, "x": 0} for at in (20, 30, 25)])
        query.work()
        assert late == [25] * (again + 1)
        sources[1].push([{"at": 33, "x": 0}])
        sources[1].push([{"at": 44, "x": 0}])  # so that the sort lets go of it
        query.work()
        assert "ZeroDivisionError" in query.why_left(streams[1])
        sources[1].push([{"at": 44, "x": 0}, {"at": 1, "x": 0}])
        query.work()
        if not again:
            query.attach(streams[1], complete_from=0)
    sources[0].push([{"at": 20, "x": 0}, {"at": 30, "x": 0}])
    for source in sources:
        source.close()
    query.run_to_end()
    assert out == [20, 30]
    assert late == [25, 25]


def test_a_step_that_only_one_replica_needs_takes_no_other_with_it() -> None:
    """Two plans over one source: the one whose function fails leaves, and the source goes on for the other."""
    source = sw.PushSource(_AT, name="both")
    rows = sw.stream(source, time="at").assume_ordered()
    checked, plain = rows.map_batches(_refuse(3), schema=_AT.remove(0)), rows.where(nw.col("at") >= 0)
    out: list[int] = []
    query = sw.merge_replicas(checked, plain).open(lambda rows: out.extend(_at(rows)), clock=sw.ManualClock())
    for at in range(6):
        source.push({"at": at, "x": 0})
        query.work()
    assert "ZeroDivisionError" in query.why_left(checked)
    source.close()
    query.run_to_end()
    assert out == list(range(6))


def test_a_replica_that_is_a_merge_itself_leaves_when_the_last_of_its_own_has() -> None:
    """The reasons of all are in its own."""
    rows = [{"at": at, "x": 0} for at in range(9)]
    inner = sw.merge_replicas(*(sw.stream(_raising(rows[:n]), time="at", schema=_AT).assume_ordered() for n in (3, 5)))
    other = sw.stream(rows, time="at").assume_ordered()
    out: list[int] = []
    with sw.merge_replicas(inner, other).open(lambda batch: out.extend(_at(batch)), clock=sw.ManualClock()) as query:
        query.run_to_end()
        reasons = [one.left for one in query.replicas()]
    assert out == list(range(9))
    assert sum("lost its last replica" in reason for reason in reasons) == 1
    assert sum(reason.startswith("SourceFailed") for reason in reasons) == 2


# ---- when the query fails -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", _OPTIONS, ids=["ordered", "event by event", "emitted early"])
def test_the_query_fails_with_the_last_replica_and_says_why_each_has_left(options: dict[str, Any]) -> None:
    """Then it is over; what was emitted stays emitted."""
    live = _Live.ordered("blue", "green", **options)
    live.send(0, 1, 2, 9)
    live.send(1, 1, 2, 9)
    live.send(0, 11, 10)
    with pytest.raises(
        ReplicasGone, match=r"(?s)has lost its last replica.*\(blue\) +BrokenOrder.*\(green\) +BrokenOrder.*hint"
    ):
        live.send(1, 11, 10)
    assert live.out[:2] == [1, 2]
    with pytest.raises(RunError, match="has failed and cannot go on"):
        live.query.work()


def test_when_the_others_had_ended_the_merged_stream_ends_with_them() -> None:
    """One that ended well is no replica that has gone: what it sent is there."""
    live = _Live.ordered("blue", "green", attachable=True)
    live.send(0, 1, 2, 3)
    live.send(1, 1, 2)
    live.sources[0].close()
    live.query.work()
    live.send(1, 9, 8)
    assert live.query.finished
    assert live.out == [1, 2, 3]


def test_what_others_need_as_well_ends_the_query_when_it_fails() -> None:
    """Another output of it would end in the middle, without a word."""
    rows = [{"at": at, "x": 0} for at in range(6)]
    shared = sw.stream(_raising(rows), time="at", schema=_AT).assume_ordered()
    other = sw.stream(rows, time="at").assume_ordered()
    with pytest.raises(SlackwaterError, match="the line is dead"):
        sw.run_together(sw.merge_replicas(shared, other), shared)


def test_a_sink_that_fails_ends_the_query() -> None:
    """No replica is at fault."""

    def fail(_: pa.RecordBatch) -> None:
        raise ValueError("full")

    replicas = [sw.stream([{"at": 1, "x": 0}], time="at", name=name).assume_ordered() for name in "ab"]
    with pytest.raises(StepFailed, match="full"), sw.merge_replicas(*replicas).open(fail) as query:
        query.run_to_end()


def test_what_was_declared_falsely_of_all_replicas_ends_the_query() -> None:
    """Nobody knows which of them is wrong: no order of time was broken."""
    streams = [sw.stream([{"at": 1, "x": x} for x in order], time="at").assume_ordered() for order in ("ab", "ba")]
    with pytest.raises(BadElement, match="ties in the same order"):
        sw.merge_replicas(*streams, same_tie_order=True).run()


# ---- attached again, and resumed ------------------------------------------------------------------------------------


def test_a_source_that_cannot_be_read_any_more_is_replaced_by_another() -> None:
    """Attached on its own source, it is refused, with what to do."""
    rows = [{"at": at, "x": 0} for at in range(9)]
    blue_source, again = (sw.PushSource(_AT, name=name) for name in ("blue", "green again"))
    blue = sw.stream(blue_source, time="at").assume_ordered()
    green = sw.stream(_raising(rows[:3]), time="at", schema=_AT, name="green").assume_ordered()
    out: list[int] = []
    query = sw.merge_replicas(blue, green, attachable=True).open(lambda batch: out.extend(_at(batch)))
    query.work()
    assert query.why_left(green).startswith("SourceFailed")
    assert query.replicas()[1].ended
    with pytest.raises(PlanError, match=r"(?s)this replica has ended.*instead_of=old"):
        query.attach(green, complete_from=0)
    new = sw.stream(again, time="at").assume_ordered()
    query.attach(new, complete_from=0, instead_of=green)
    assert query.replicas()[1].left == ""
    again.push(rows)
    query.close()
    assert out == list(range(9))


def test_who_has_left_and_why_is_part_of_a_snapshot() -> None:
    """A resumed query does not hear it until it is attached again."""
    live = _Live.ordered("blue", "green", attachable=True)
    live.send(0, 1, 2, 3)
    live.send(1, 1, 2)
    live.send(1, 9, 8)
    why = live.query.why_left(live.streams[1])
    resumed = _Live.ordered("blue", "green", resume=live.query.snapshot(), attachable=True)
    assert resumed.query.why_left(resumed.streams[1]) == why
    assert resumed.query.replicas()[1].times_left == 1
    resumed.send(1, 50)
    assert resumed.sources[1].waiting == 0
    resumed.query.attach(resumed.streams[1], complete_from=3)
    resumed.send(1, 3, 4, 5)
    resumed.send(0, 4)
    resumed.query.detach(resumed.streams[0])
    resumed.query.close()
    assert live.out + resumed.out == [1, 2, 3, 4, 5]


def test_to_change_over_to_a_replica_that_fails_is_an_error() -> None:
    """The old one stays attached."""
    sources = [sw.PushSource(_AT, name=name) for name in ("blue", "green")]
    blue, green = (sw.stream(source, time="at").assume_ordered() for source in sources)
    out: list[int] = []
    query = sw.merge_replicas(blue, green, standby=[green]).open(lambda rows: out.extend(_at(rows)))
    sources[0].push([{"at": 1, "x": 0}, {"at": 2, "x": 0}])
    sources[1].push([{"at": 5, "x": 0}, {"at": 4, "x": 0}])
    with pytest.raises(SlackwaterError, match="the new replica has left before it had joined"):
        sw.cutover(query, blue, green, complete_from=4)
    sources[0].push({"at": 3, "x": 0})
    query.close()
    assert out == [1, 2, 3]
