"""Replicas that are cut off, fall silent, end and come back: nothing is lost while one has everything."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import permutations
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import BadElement, PlanError, RunError, SlackwaterError

_AT = pa.schema({"at": pa.int64()})


def _at(rows: Any) -> list[int]:
    return [int(at) for at in rows["at"].to_pylist()]


def _shuffled(rows: int, reach: int, seed: int) -> list[dict[str, int]]:
    rng = Random(seed)
    return [{"at": at} for at in sorted(range(rows), key=lambda at: at + rng.randrange(reach))]


# ---- cut off -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"attachable": True}, {"agreement": sw.Agreement.first()}], ids=str)
@given(seed=st.integers(0, 10**6), cut=st.integers(0, 100), first=st.booleans())
def test_a_sorted_replica_that_is_cut_off_takes_no_row_of_a_complete_one(
    options: dict[str, Any], seed: int, cut: int, first: bool
) -> None:
    """What its sort flushes at the end lacks what was still on its way."""
    rows = _shuffled(100, 20, seed)
    whole, part = (sw.stream(one, time="at", schema=_AT).sort(patience=20) for one in (rows, rows[:cut]))
    merged = sw.merge_replicas(*((part, whole) if first else (whole, part)), **options)
    assert _at(merged.settle().run().table) == list(range(100))


@given(seed=st.integers(0, 10**6), cut=st.integers(0, 100), first=st.booleans())
def test_a_sorted_replica_that_is_cut_off_contradicts_nobody(seed: int, cut: int, first: bool) -> None:
    """It is compared as far as it had guaranteed; what its sort flushes at the end guarantees nothing."""
    rows = _shuffled(100, 20, seed)
    whole, part = (sw.stream(one, time="at", schema=_AT).sort(patience=20) for one in (rows, rows[:cut]))
    assert not sw.compare_replicas(*((part, whole) if first else (whole, part))).run().table.num_rows


def test_a_replica_of_two_sources_goes_on_when_one_of_them_ends() -> None:
    """What comes from the other is no flush: it goes out while the query runs."""
    one, two, other = (sw.PushSource({"at": pa.int64()}, name=name) for name in ("one", "two", "other"))
    both, rival = (sw.stream(source, time="at").assume_ordered() for source in (two, other))
    both = sw.union(sw.stream(one, time="at").assume_ordered(), both)
    out: list[int] = []
    query = sw.merge_replicas(both, rival).open(lambda rows: out.extend(_at(rows)), clock=sw.ManualClock())
    with query:
        one.push({"at": 1})
        two.push({"at": 2})
        one.close()
        query.work()
        two.push([{"at": at} for at in (5, 6, 9)])
        query.work()
        assert out == [1, 2, 5, 6], "the last waits for what it guarantees"
    assert out == [1, 2, 5, 6, 9]


@pytest.mark.parametrize("attachable", [False, True])
@pytest.mark.parametrize("keys", [(), ("k",)])
@pytest.mark.parametrize("order", list(permutations((0, 1))))
def test_a_silent_replica_does_not_answer_for_a_window_of_which_it_saw_a_part(
    order: tuple[int, int], keys: tuple[str, ...], attachable: bool
) -> None:
    """Nobody closes its source but the query, in the end."""
    sources = [sw.PushSource({"at": pa.int64(), "k": pa.string()}, name=name) for name in ("dublin", "oslo")]
    counted = [
        sw.stream(source, time="at").assume_ordered().tumbling(10).group_by(*keys).aggregate(n=sw.count())
        for source in sources
    ]
    out: list[Any] = []
    merged = sw.high_availability(*(counted[number] for number in order), attachable=attachable)
    with merged.open(lambda rows: out.extend(rows.to_pylist()), clock=sw.ManualClock()) as query:
        for at in range(38):
            for source, until in zip(sources, (32, 38), strict=True):
                if at < until:
                    source.push({"at": at, "k": "in"})
            query.work()
    assert [(row["window_start"], row["n"]) for row in out] == [(0, 10), (10, 10), (20, 10), (30, 8)]


def test_a_seed_may_be_sorted_and_its_end_is_believed() -> None:
    """Whoever says from when on a seed has everything declares that it is not cut off."""
    seed = sw.stream([{"at": at} for at in (2, 1, 0)], time="at").sort(patience=5)
    live = sw.stream([{"at": at} for at in range(2, 9)], time="at").assume_ordered()
    assert _at(sw.jumpstart(seed, live, since=3).settle().run().table) == list(range(9))


@pytest.mark.parametrize("attachable", [False, True])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_of_replicas_that_have_come_equally_far_those_win_that_agree(
    order: tuple[int, ...], counted: bool, attachable: bool
) -> None:
    """The one that lacks a row is the first to be named, or the last: two others say the same, and it does not."""
    rows = [{"at": at} for at in range(20)]
    lacking = [row for row in rows if row["at"] != 15]
    streams = [sw.stream(sent, time="at", schema=_AT).sort(patience=50) for sent in (lacking, rows, rows)]
    if counted:
        windows = [stream.tumbling(10).aggregate(n=sw.count()) for stream in streams]
        merged = sw.merge_replicas(*(windows[number] for number in order), attachable=attachable)
        assert merged.run().table["n"].to_pylist() == [10, 10]
    else:
        merged = sw.merge_replicas(*(streams[number] for number in order), attachable=attachable)
        assert _at(merged.run().table) == list(range(20))


# ---- resumed -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"attachable": True}, {"agreement": sw.Agreement.first()}], ids=str)
def test_a_replica_that_had_ended_when_a_snapshot_was_taken_may_go_on_after_it(options: dict[str, Any]) -> None:
    """A resumed query has new sources, and hears all of them."""
    out: list[int] = []

    def opened(resume: Any = None) -> tuple[list[sw.PushSource], sw.Query]:
        sources = [sw.PushSource(_AT, name=name) for name in "ab"]
        replicas = [sw.stream(source, time="at").assume_ordered() for source in sources]
        merged = sw.merge_replicas(*replicas, **options).settle()
        return sources, merged.open(lambda rows: out.extend(_at(rows)), clock=sw.ManualClock(), resume=resume)

    (a, b), query = opened()
    a.push([{"at": at} for at in range(10)])
    b.push([{"at": at} for at in range(5)])
    b.close()
    query.work()
    (a, b), query = opened(query.snapshot())
    b.push([{"at": at} for at in range(5, 15)])
    a.push([{"at": at} for at in range(10, 15)])
    query.work()
    a.close()
    query.work()
    b.push([{"at": at} for at in range(15, 30)])
    query.close()
    assert out == list(range(30))


def test_a_snapshot_is_taken_between_two_steps() -> None:
    """In a callback, or after a failure, parts of the graph have seen what others have not."""
    source = sw.PushSource(_AT)

    def fail(rows: pa.RecordBatch) -> None:
        if rows.num_rows > 1:
            raise ValueError("too many")
        query.snapshot()

    query = sw.stream(source, time="at").open(fail, clock=sw.ManualClock())
    source.push({"at": 1})
    with pytest.raises(SlackwaterError, match="between two steps"):
        query.work()
    with pytest.raises(RunError, match="has failed and cannot go on"):
        query.snapshot()


# ---- equal events that replicas send a part of ----------------------------------------------------------------------


def test_an_equal_event_that_ended_before_a_replica_came_is_not_missed_there() -> None:
    """The live stream sends the event that lasts, not its twin that was over."""
    lasting = pa.schema({"start": pa.int64(), "end": pa.int64(), "user": pa.string()})
    rows = [{"start": 29, "end": 32, "user": "ann"}, {"start": 29, "end": None, "user": "ann"}]
    seed = sw.stream(pa.Table.from_pylist(rows, lasting), time="start", until="end")
    changes = pa.schema([("change", pa.string()), *lasting, ("end_before", pa.int64())])
    sent = [{"change": "insert", "start": 29, "end": 49, "user": "ann"}, {"change": "punctuate", "start": 100}]
    live = sw.changes(pa.Table.from_pylist(sent, changes), time="start", until="end")
    assert sw.jumpstart(seed, live, since=40).settle().run().table["end"].to_pylist() == [32, 49]


# ---- refusals ------------------------------------------------------------------------------------------------------


def test_replicas_that_live_by_a_clock_are_refused() -> None:
    """Their times differ, or a dead one would go on guaranteeing."""
    with pytest.raises(PlanError, match=r"(?s)stamped on arrival.*stream\(\.\.\., time=\.\.\.\)"):
        sw.merge_replicas(*(sw.arrivals(sw.PushSource({"x": pa.int64()}, name=name)) for name in "ab"))
    punctuations = sw.Punctuations.periodic("1s", skew="500ms")
    source = sw.PushSource({"at": pa.timestamp("us", "UTC")})
    with pytest.raises(PlanError, match=r"(?s)keep advancing by the clock.*leave punctuations= out"):
        sw.merge_replicas(sw.stream(source, time="at", punctuations=punctuations).assume_ordered())


def test_an_event_that_ends_when_it_starts_is_refused_where_it_could_not_be_distinguished_from_one_taken_back() -> None:
    """With the element; merged as they come, such events pass."""
    rows = [{"at": 1, "until": 4}, {"at": 5, "until": 5}]
    replicas = [sw.stream(rows, time="at", until="until").assume_ordered() for _ in "ab"]
    with pytest.raises(SlackwaterError, match=r"(?s)ends when it starts.*insert\(\(\), 5, 5\)") as raised:
        sw.merge_replicas(*replicas).run()
    assert isinstance(raised.value, BadElement) or isinstance(raised.value.__cause__, BadElement)
    assert sw.merge_replicas(*replicas, same_tie_order=True).run().table.num_rows == 2


_sw: Any = sw
"""The library as those see it who have no type checker."""


@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        (lambda a, b: _sw.merge_replicas(a, b, agreement="first"), "agreement= takes an Agreement"),
        (lambda a, b: _sw.merge_replicas(a, b, agreement=sw.Agreement.first), "agreement= takes an Agreement"),
        (lambda a, b: _sw.merge_replicas(a, b, standby=b), "standby= is a list of replicas"),
        (lambda a, b: _sw.merge_replicas(a, b, complete_from=[b]), "complete_from= maps some to a time"),
        (lambda _a, _b: _sw.Agreement.first().lagging(1.5), "lag= is not a duration"),
        (lambda _a, _b: _sw.Agreement.first().lagging(2**80), "lag= cannot be negative"),
        (lambda a, b: _sw.merge_replicas(a, b, agreement=sw.Agreement.first().lagging("5s")), "sequence numbers"),
        (lambda _a, _b: _sw.Agreement.first().revising("always"), "agreement= takes an Agreement"),
        (lambda _a, _b: _sw.Agreement.quorum_of("half"), "a quorum is a fraction"),
        (lambda _a, b: _sw.jumpstart([], b, since=3), "jumpstart takes streams"),
        (lambda a, b: _sw.merge_replicas(a, b).open(print).attach("b", complete_from=3), "a replica is a stream"),
        (lambda a, b: _sw.merge_replicas(a, b).open(print).detach("b"), "a replica is a stream"),
        (lambda a, b: _sw.merge_replicas(a, b).open(print).ignore_before(2.5), "a bound is a whole number"),
        (lambda _a, _b: _sw.Race(), "a race needs plans"),
        (lambda _a, _b: _sw.PushSource(_AT).push(3), "these are no rows"),
    ],
)
def test_wrong_arguments_are_refused_in_words(call: Any, refusal: str) -> None:
    """Where they are written."""
    replicas = [sw.stream([{"at": 1}], time="at", name=name).assume_ordered() for name in "ab"]
    with pytest.raises(SlackwaterError, match=refusal):
        call(*replicas)


def test_rows_may_be_pushed_by_an_iterator() -> None:
    """It is read once, and whole."""
    source = sw.PushSource(_AT)
    source.push({"at": at} for at in range(3))
    assert source.waiting == 3


def test_an_hour_that_is_emitted_twice_in_a_night_is_a_time_like_others() -> None:
    """The same moment in two zones is the same moment."""
    source = sw.PushSource({"at": pa.timestamp("us", "Europe/Berlin")})
    source.push({"at": datetime(2024, 10, 27, 0, 30, tzinfo=UTC)})
    assert source.waiting == 1


def test_a_lag_may_be_written_as_a_duration() -> None:
    """Where times are those of a calendar."""
    rows = [{"at": datetime(2024, 1, 1, tzinfo=UTC)}]
    replicas = [sw.stream(rows, time="at", name=name).assume_ordered() for name in "ab"]
    merged = sw.merge_replicas(*replicas, agreement=sw.Agreement.first().lagging("5s"), attachable=True)
    assert "lag=5000000" in merged.explain()
