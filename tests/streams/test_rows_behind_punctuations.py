"""A row behind a guarantee that its source made by the clock follows the policy for late rows, and ends no query."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import LateEvent, PlanError

_SECOND = 1_000_000
_AT = pa.timestamp("us", "UTC")
_SKEW = sw.Punctuations.on_demand(skew="2s")
_PERIODIC = sw.Punctuations.periodic("1s", skew="2s")


def _rows(*seconds: float) -> pa.RecordBatch:
    return pa.record_batch({"at": pa.array([int(s * _SECOND) for s in seconds]).view(_AT)})


def _seconds(rows: pa.RecordBatch, name: str = "at") -> list[float]:
    return [time / _SECOND for time in rows[name].cast(pa.int64()).to_pylist()]


class _Case:
    """A live source that has guaranteed that all before 8 is complete, and then gets stragglers."""

    def __init__(
        self, build: Any, punctuations: sw.Punctuations = _SKEW, rows: tuple[float, ...] = (7, 9, 8, 7.5), **more: Any
    ) -> None:
        self.clock, self.source = sw.ManualClock(1_000 * _SECOND), sw.PushSource({"at": _AT}, name="sensor")
        self.seen: list[float] = []
        self.late: list[pa.RecordBatch] = []
        stream = build(sw.stream(self.source, time="at", punctuations=punctuations, **more))
        on_late = None if "late" in more and more["late"] != sw.Late.divert() else self.late.append
        self.query = stream.open(lambda rows: self.seen.extend(_seconds(rows)), clock=self.clock, on_late=on_late)
        self.source.push(_rows(5))
        self.query.work()
        self.clock.advance(5 * _SECOND)
        self.query.work()
        self.source.push(_rows(*rows[:2]))
        self.source.push(_rows(*rows[2:]))
        self.query.work()

    def late_rows(self) -> list[tuple[float, float]]:
        return [pair for rows in self.late for pair in zip(_seconds(rows), _seconds(rows, "late_bound"), strict=True)]

    def counted_late(self) -> int:
        return sum(counters.late for counters in self.query.counters().values())


@pytest.mark.parametrize("punctuations", [_SKEW, _PERIODIC])
@pytest.mark.parametrize(
    "build",
    [
        lambda stream: stream.sort(),
        lambda stream: stream.sort(patience="100s"),
        lambda stream: stream.where(lambda rows: pa.array([True] * rows.num_rows)).sort(patience="100s"),
        lambda stream: stream.in_bands("100s", "200s")[0],
    ],
    ids=["sort", "patience", "patience behind where", "bands"],
)
def test_late_rows_are_diverted_with_the_bound_that_was_guaranteed(build: Any, punctuations: sw.Punctuations) -> None:
    """Whoever checks: they are counted and in the late output, and the query goes on. At the bound is in time."""
    case = _Case(build, punctuations)
    assert case.late_rows() == [(7, 8), (7.5, 8)]
    assert case.counted_late() == 2
    case.query.close()
    assert case.seen == [5, 8, 9]


def test_an_ordered_stream_by_declaration_takes_no_harm() -> None:
    """A row behind the guarantee goes to the late output before its order is looked at."""
    case = _Case(lambda stream: stream.assume_ordered(), _PERIODIC, (7, 9, 7.5, 10), late=sw.Late.divert())
    assert case.late_rows() == [(7, 8), (7.5, 8)]
    assert case.seen == [5, 9, 10]


def test_a_row_out_of_order_is_still_refused_where_order_was_declared() -> None:
    """Lateness is checked by guarantees; that 8 comes after 9 breaks another guarantee."""
    source = sw.PushSource({"at": _AT})
    query = sw.stream(source, time="at", punctuations=_SKEW).assume_ordered().open(print, on_late=print)
    source.push(_rows(9, 8))
    with pytest.raises(sw.errors.BrokenOrder):
        query.work()


def test_late_rows_are_dropped_moved_or_refused_as_the_user_says() -> None:
    """By the policy of the stream, where no step with a patience checks."""
    dropped = _Case(lambda stream: stream.sort(), late=sw.Late.drop())
    dropped.query.close()
    assert (dropped.seen, dropped.counted_late()) == ([5, 8, 9], 2)
    moved = _Case(lambda stream: stream.sort(), late=sw.Late.adjust())
    moved.query.close()
    assert moved.seen == [5, 8, 8, 8, 9]
    with pytest.raises(LateEvent, match=r"(?s)step 'source_lateness#1'.*complete before"):
        _Case(lambda stream: stream.sort(), late=sw.Late.raise_error())


def test_a_policy_of_the_stream_is_kept_behind_a_step_with_a_patience_too() -> None:
    """Each checks by what it knows; without one, the step with the patience checks alone."""
    source = sw.PushSource({"at": _AT})
    chosen = sw.stream(source, time="at", punctuations=_SKEW, late=sw.Late.drop()).sort(patience="1s")
    assert "source_lateness#1 late rows dropped" in chosen.explain()
    alone = sw.stream(source, time="at", punctuations=_SKEW).sort(patience="1s")
    assert "source_lateness" not in alone.explain()


def test_what_was_guaranteed_is_remembered_by_a_query_that_is_resumed() -> None:
    """Its source begins anew; its guarantees do not."""
    case = _Case(lambda stream: stream.sort())
    source = sw.PushSource({"at": _AT}, name="sensor")
    late: list[pa.RecordBatch] = []
    again = sw.stream(source, time="at", punctuations=_SKEW).sort()
    query = again.open(lambda _: None, clock=case.clock, on_late=late.append, resume=case.query.snapshot())
    source.push(_rows(7))
    query.work()
    assert [_seconds(rows) for rows in late] == [[7]]


def test_a_policy_for_late_rows_needs_guarantees() -> None:
    """Without them, no row of the stream could be late."""
    with pytest.raises(PlanError, match=r"(?s)sources that punctuate by the clock.*sort\(patience"):
        sw.stream([{"at": 1}], time="at", late=sw.Late.drop())


# ---- feeders that die -----------------------------------------------------------------------------------------------


def test_a_feeder_that_dies_stops_the_query_after_what_it_sent() -> None:
    """SourceFailed, with the error as its cause; rows that it pushed before go out first."""
    source, seen = sw.PushSource({"x": pa.int64()}, name="orders"), []
    query = sw.arrivals(source).open(lambda rows: seen.extend(rows["x"].to_pylist()))
    cause = ConnectionError("the broker is gone")
    source.push([{"x": 1}, {"x": 2}])
    source.fail(cause)
    with pytest.raises(sw.errors.SourceFailed, match=r"(?s)orders.*the broker is gone.*fail\(\)") as raised:
        query.work()
    assert raised.value.__cause__ is cause
    assert seen == [1, 2]
    with pytest.raises(sw.errors.SlackwaterError, match="source that failed"):
        source.push({"x": 3})


def test_a_failed_source_guarantees_nothing_and_does_not_end() -> None:
    """Nobody goes on as if it had sent everything."""
    source = sw.PushSource({"x": pa.int64()})
    source.fail(RuntimeError("first"))
    source.fail(RuntimeError("second"))
    assert not source.ended
    assert source.quiet_until() is None
    with pytest.raises(sw.errors.SourceFailed, match="first"):
        source.poll_together(10)


def test_a_source_fails_with_an_error_and_before_its_end() -> None:
    """A word is no error, and what is closed has sent everything."""
    any_source: Any = sw.PushSource({"x": pa.int64()})
    with pytest.raises(sw.errors.SlackwaterError, match=r"(?s)fails with an error.*source\.fail\(error\)"):
        any_source.fail("gone")
    any_source.close()
    with pytest.raises(sw.errors.SlackwaterError, match="closed cannot fail"):
        any_source.fail(RuntimeError("gone"))
