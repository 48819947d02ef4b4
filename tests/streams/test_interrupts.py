"""Ctrl-C stops a query between two steps, says what it holds, and the query can go on."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import Interrupted, StepFailed

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _python_listens() -> Iterator[None]:
    """As at a terminal: a process that was started in the background is deaf to Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


_ROWS = [{"at": at} for at in (1, 5, 3, 9, 12, 11, 20)]


class _CtrlC:
    """A callback that lets Ctrl-C come in the middle of a step, once."""

    def __init__(self, times: int = 1) -> None:
        self.seen: list[int] = []
        self.left = times

    def __call__(self, rows: pa.RecordBatch) -> None:
        self.seen += rows["at"].to_pylist()
        for _ in range(self.left):
            self.left -= 1
            os.kill(os.getpid(), signal.SIGINT)


def _sorted() -> sw.OrderedStream:
    return sw.stream(_ROWS, time="at").sort(patience=3, every=sw.Every.rows(1))


def test_a_step_ends_before_the_query_stops_and_it_goes_on() -> None:
    """What is held, how far it is complete, and how to go on are shown; nothing is lost or emitted twice."""
    take = _CtrlC()
    query = _sorted().open(take, on_late=lambda _: None, batch_rows=2)
    with pytest.raises(
        KeyboardInterrupt, match=r"(?s)between two steps.*complete before 2; held 1: sort#1 1"
    ) as raised:
        query.work()
    stop = raised.value
    assert isinstance(stop, Interrupted)
    assert stop.query is query
    assert take.seen == [1]
    assert query.snapshot()
    query.work()
    query.close()
    assert take.seen == [1, 3, 5, 9, 11, 12, 20]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_run_goes_on_where_it_was_interrupted() -> None:
    """The error has what came out so far, and runs on to the whole result."""
    take = _CtrlC(times=0)

    def watch(rows: pa.RecordBatch) -> pa.Array:
        take(rows)
        return pa.array([True] * rows.num_rows)

    watched = _sorted().where(watch)
    take.left = 1  # not while the plan is tried
    with pytest.raises(Interrupted) as raised:
        watched.run()
    assert len(raised.value.emitted) == 1
    (result,) = raised.value.go_on()
    assert result.table["at"].to_pylist() == [1, 3, 5, 9, 11, 12, 20]


def test_a_query_that_waits_is_stopped_at_once() -> None:
    """It sleeps between two steps already."""
    source = sw.PushSource({"x": pa.int64()})
    query = sw.arrivals(source).open(lambda _: None)
    killer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    killer.start()
    with pytest.raises(Interrupted, match="held 0"):
        query.run_to_end()
    killer.join()
    source.push({"x": 1})
    query.work()
    assert query.progress().total_out == 1


def test_a_second_one_stops_the_step_itself() -> None:
    """Whoever will not wait for the end of a step has a query that is over."""
    query = _sorted().open(_CtrlC(times=2), on_late=lambda _: None)
    with pytest.raises(KeyboardInterrupt) as raised:
        query.work()
    assert not isinstance(raised.value, Interrupted)
    with pytest.raises(sw.errors.RunError, match="cannot go on"):
        query.work()


def test_handlers_of_others_are_left_alone() -> None:
    """Only Python's own is replaced while a query works."""
    calls: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: calls.append(number))
    try:
        take = _CtrlC()
        _sorted().for_each(take)
        assert calls == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_callback_that_fails_is_no_interrupt() -> None:
    """Its error is what it was."""

    def fail(rows: pa.RecordBatch) -> Any:
        raise ValueError(rows.num_rows)

    with pytest.raises(StepFailed):
        _sorted().for_each(fail)


# ---- progress and peaks ---------------------------------------------------------------------------------------------


def test_progress_speaks_in_timestamps_and_distinguishes_now_from_total() -> None:
    """Calendar time is written as such; numbers are numbers."""
    kind = pa.timestamp("us", "UTC")
    source = sw.PushSource({"at": kind}, name="sensor")
    ordered = sw.stream(source, time="at").sort(patience="1s", every=sw.Every.rows(1))
    query = ordered.open(lambda _: None, on_late=lambda _: None)
    source.push(pa.record_batch({"at": pa.array([0, 5_000_000, 2_000_000, 4_500_000]).view(kind)}))
    query.work()
    assert str(query.progress()) == (
        "now    complete before 1970-01-01T00:00:04.000000Z\n"
        "       held 2: sort#1 2\n"
        "       read up to: source#1 1970-01-01T00:00:05.000000Z\n"
        "total  rows in 4, out 1, late 1"
    )
    query.close()
    assert query.progress().complete_before == sw.FOREVER
    assert query.progress().held == {}


@pytest.mark.parametrize("batch_rows", [1, 3, 1_000])
def test_the_peak_is_what_was_held_at_the_highest(batch_rows: int) -> None:
    """Eleven wait between batches; all rows of a batch are taken in beside them before any goes."""
    rows = [{"at": at} for at in range(100)]
    query = (
        sw.stream(rows, time="at")
        .sort(patience=10, every=sw.Every.rows(1))
        .open(lambda _: None, on_late=lambda _: None, batch_rows=batch_rows)
    )
    query.work()
    held = query.counters()["sort#1"]
    assert held.buffered == 0
    assert held.peak_buffered == {1: 12, 3: 14, 1_000: 100}[batch_rows]


def test_the_peak_of_an_aggregate_counts_the_groups_of_a_batch() -> None:
    """Though all but the last are complete when the batch has been read."""
    counted = (
        sw.stream([{"at": at} for at in range(100)], time="at").assume_ordered().tumbling(10).aggregate(n=sw.count())
    )
    assert counted.run().counters["aggregate#1"].peak_buffered == 10


def test_the_peak_of_a_union_counts_rows_that_come_to_those_that_wait() -> None:
    """Five wait for the other input, and go with the one that comes there."""
    a, b = sw.PushSource({"x": pa.int64()}), sw.PushSource({"x": pa.int64()})
    none = sw.Punctuations.none()
    union = sw.union(sw.arrivals(a, punctuations=none), sw.arrivals(b, punctuations=none))
    query = union.open(lambda _: None, clock=sw.ManualClock(5))
    a.push([{"x": 1}] * 5)
    query.work()
    b.push({"x": 2})
    query.work()
    assert query.counters()["union#1"].peak_buffered == 6
