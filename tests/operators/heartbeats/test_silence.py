"""Silence in process: what the clock proves goes out though nobody sends anything, and nobody is woken for nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

import slackwater as sw

_SECOND = 1_000_000
_START = datetime(2024, 1, 1, tzinfo=UTC)
_DELAY = sw.Bounds.delay("2s")


def _clock() -> sw.ManualClock:
    return sw.ManualClock(start=int(_START.timestamp()) * _SECOND)


def _source(name: str) -> sw.PushSource:
    return sw.PushSource({"at": pa.timestamp("us", "UTC")}, name=name)


def _at(second: int) -> dict[str, Any]:
    return {"at": _START + timedelta(seconds=second)}


def _seconds(clock: sw.ManualClock) -> int:
    return clock.now() // _SECOND - int(_START.timestamp())


def test_the_last_window_is_closed_by_the_clock() -> None:
    """It ends after the newest row: no row waits for that, but the window does."""
    clock, source, out = _clock(), _source("rows"), []
    counts = sw.stream(source, time="at").tumbling("10s").sort(bounds=_DELAY).aggregate(n=sw.count())
    query = counts.open(lambda rows: out.append((_seconds(clock), rows["n"].to_pylist())), clock, on_late=print)
    for second in range(30):
        if second < 9:
            source.push(_at(second))
        query.work()
        clock.advance(_SECOND)
    assert out == [(12, [9])]
    query.close()


def test_a_stream_that_never_sent_anything_holds_up_a_union_no_longer_than_its_bound() -> None:
    """The clock says how far it is complete, as of any other; why() says so, too."""
    clock, sources, out = _clock(), [_source("loud"), _source("silent")], []
    both = sw.union(*(sw.stream(source, time="at").sort(bounds=_DELAY) for source in sources))
    query = both.open(lambda rows: out.append((_seconds(clock), rows.num_rows)), clock, on_late=print)
    for second in range(8):
        if second < 3:
            sources[0].push(_at(second))
        query.work()
        clock.advance(_SECOND)
    assert out == [(2, 1), (3, 1), (4, 1)]
    newest = int(_START.timestamp() + 2) * _SECOND
    assert [reason.complete_before for reason in query.why()] == [newest + 1] * 2
    query.close()


def test_nobody_is_woken_where_nothing_waits() -> None:
    """Past the newest row the clock would move heartbeats for ever, and nobody would notice."""
    clock, source = _clock(), _source("rows")
    query = sw.stream(source, time="at").sort(bounds=_DELAY).open(lambda _: None, clock, on_late=print)
    source.push(_at(0))
    query.work()
    clock.advance(5 * _SECOND)
    query.work()
    complete = query.why()[0].complete_before
    clock.advance(100 * _SECOND)
    query.work()
    assert query.why()[0].complete_before == complete
    query.close()
