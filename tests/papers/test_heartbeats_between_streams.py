"""The heartbeat paper's S1 and S2 as separate inputs of one operator: section 3.3's matrix, and one that goes on.

B = ((-, 0) (-, 5)
     (-, -) (-, 0))      rows of S2 are newer than those of S1 less 5; nothing is known of S1 from S2
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Callable

_SECOND = 1_000_000
_ROWS = pa.schema({"at": pa.int64(), "k": pa.int64()})
_B = sw.Bounds.in_order(strictly=True) & sw.Bounds({("s1", "s2"): [sw.Bound(5, strictly=True)]})
_LULL = sw.Bounds.lull("10s")


def _union(s1: sw.DisorderedStream, s2: sw.DisorderedStream) -> sw.OrderedStream:
    return s1.sort().union(s2.sort())


def _join(s1: sw.DisorderedStream, s2: sw.DisorderedStream) -> sw.OrderedStream:
    return s1.sort().join(s2.sort(), on="k", within=5).select("k")


_BOTH = pytest.mark.parametrize("together", [_union, _join])
_PAUSES = pytest.mark.filterwarnings("ignore:when all is silent")


class _Two:
    """Both streams in one query, pushed by hand; a second passes with each push."""

    def __init__(self, together: Callable[..., sw.OrderedStream], bounds: sw.Bounds, resume: Any = None) -> None:
        self.sources = {name: sw.PushSource(_ROWS, name=name) for name in ("s1", "s2")}
        streams = (sw.stream(source, time="at", name=name) for name, source in self.sources.items())
        self.stream = together(*sw.related(*streams, bounds=bounds))
        self.clock = sw.ManualClock()
        self.out: list[int] = []
        self.late: list[int] = []
        self.query = self.stream.open(
            lambda rows: self.out.extend(rows.column(0).to_pylist()),
            clock=self.clock,
            resume=resume,
            on_late=lambda rows: self.late.extend(rows["at"].to_pylist()),
        )

    def push(self, name: str, *times: int) -> None:
        """Push rows of one stream, and do all that can be done."""
        self.sources[name].push([{"at": at, "k": 0} for at in times])
        self.pass_time(1)

    def pass_time(self, seconds: int) -> None:
        """Let the clock go on."""
        for _ in range(seconds):
            self.query.work()
            self.clock.advance(_SECOND)
        self.query.work()


@_PAUSES
@_BOTH
def test_when_both_pause_the_last_rows_of_s1_are_stuck_without_a_timeout(together: Any) -> None:
    """S1 is at 100, S2 at 95: nothing past 95 is proven of S2, however long the silence."""
    two = _Two(together, _B)
    two.push("s2", 95)
    two.push("s1", *range(90, 101))
    before = list(two.out)
    two.pass_time(1_000)
    assert two.out == before
    # S2 is complete before 96; what is as old as that may go, since nothing older can come.
    assert max(before) == 96
    assert len(before) == (8 if together is _union else 7)  # pairs of 95 with 90 ... 96
    two.push("s2", 100)
    assert max(two.out) == 100
    assert not two.late


@_BOTH
def test_after_the_timeout_of_all_they_go(together: Any) -> None:
    """Section 3.3: nothing came of any stream for the time-out, so that all is taken to be complete."""
    two = _Two(together, _B & _LULL)
    two.push("s2", 95)
    two.push("s1", *range(90, 101))
    assert max(two.out) == 96
    two.pass_time(7)
    assert max(two.out) == 96, "the pause is not as long yet"
    two.pass_time(5)
    assert max(two.out) == 100
    assert len(two.out) == (12 if together is _union else 11)
    two.push("s2", 97)
    assert two.late == [97], "it came although that was ruled out"


@_PAUSES
@_BOTH
def test_s1_lets_s2_go_on_though_s2_is_silent_and_not_the_other_way_round(together: Any) -> None:
    """The matrix is not symmetric: S1 waits for itself alone."""
    two = _Two(together, _B)
    two.push("s1", *range(90, 101))
    assert (two.out[-1:] or [96]) == [96], "S2 is complete before 96 though it has sent nothing"
    one = _Two(together, _B)
    one.push("s2", *range(90, 101))
    assert not one.out, "of S1 nothing is known"
    reasons = {reason.source: reason for reason in one.query.why()}
    assert (reasons["s2"].complete_before, reasons["s1"].ground) == (101, sw.Grounds.NOTHING)


@_PAUSES
@_BOTH
def test_a_query_that_is_restored_goes_on_with_what_was_proven(together: Any) -> None:
    """After each push, in a new query: the same rows, of which none is late."""
    pushes = [("s1", (90, 93)), ("s2", (89, 91)), ("s1", (100,)), ("s2", (96, 97)), ("s1", (104,)), ("s2", (103,))]
    whole, state, out = _Two(together, _B), None, []
    for name, times in pushes:
        whole.push(name, *times)
        part = _Two(together, _B, state)
        part.push(name, *times)
        assert not part.late
        out += part.out
        state = part.query.snapshot()
    assert out == whole.out
    assert not whole.late


def test_why_names_the_streams_and_the_bound() -> None:
    """S2 is as far as a row of S1 proves it."""
    two = _Two(_union, _B & _LULL)
    two.push("s1", 90, 100)
    two.push("s2", 91)
    reason = next(reason for reason in two.query.why() if reason.source == "s2")
    assert (reason.complete_before, reason.ground, reason.sender, reason.time) == (96, sw.Grounds.PROVEN, "s1", 100)
    assert "s1 -> s2" in reason.rule
    assert "waits for  s2" in str(reason)
    assert "a row of s1 at 100" in str(reason)
