"""The live source: rows pushed from any thread, back-pressure, and a clean end."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import SlackwaterError

_SECONDS = 10.0
"""How long a thread may take before a test gives up."""


def _source(capacity: int = 1_000) -> sw.PushSource:
    return sw.PushSource({"v": pa.int64()}, name="clicks", capacity=capacity)


def _values(source: sw.PushSource, max_rows: int = 1_000) -> list[int]:
    values: list[int] = []
    while (polled := source.poll(max_rows)) is not None:
        values += polled[0].column("v").to_pylist()
    return values


@pytest.mark.parametrize(
    "rows",
    [
        {"v": 1},
        [{"v": 1}],
        ({"v": 1},),
        pa.record_batch({"v": [1]}),
        pa.table({"v": [1]}),
    ],
    ids=["mapping", "list", "tuple", "batch", "table"],
)
def test_rows_may_be_pushed_in_many_forms(rows: Any) -> None:
    """One or several mappings, or Arrow data."""
    source = _source()
    source.push(rows)
    assert source.waiting == 1
    assert _values(source) == [1]
    assert source.waiting == 0


def test_rows_come_out_as_they_went_in_in_pieces_no_larger_than_asked_for() -> None:
    """Rows that arrived together stay together where they can."""
    source = _source()
    source.push([{"v": v} for v in range(5)])
    source.push({"v": 5})
    sizes = []
    while (polled := source.poll(2)) is not None:
        sizes.append(polled[0].num_rows)
    assert sizes == [2, 2, 1, 1]


def test_rows_are_stamped_when_they_are_pushed() -> None:
    """By the clock of the query that reads them; those pushed before it was opened arrive when it is."""
    source, clock = _source(), sw.ManualClock(100)
    source.push({"v": 1})
    source.open(clock, lambda: None)
    clock.advance(5)
    source.push({"v": 2})
    clock.advance(5)
    stamps = [polled[1] for polled in (source.poll(10), source.poll(10)) if polled is not None]
    assert stamps == [100, 105]


def test_the_present_is_guaranteed_only_while_nothing_waits() -> None:
    """A row that waits was stamped before."""
    source, clock = _source(), sw.ManualClock(100)
    source.open(clock, lambda: None)
    assert source.quiet_until() == 100
    source.push({"v": 1})
    assert source.quiet_until() is None
    source.poll(1)
    assert source.quiet_until() == 100


def test_a_push_into_a_full_source_waits_until_rows_are_taken() -> None:
    """Back-pressure: the feeder is as fast as the query."""
    source = _source(capacity=2)
    source.push([{"v": 1}, {"v": 2}])
    done = threading.Event()

    def feed() -> None:
        source.push({"v": 3}, timeout=_SECONDS)
        done.set()

    feeder = threading.Thread(target=feed)
    feeder.start()
    assert not done.wait(0.05)
    assert source.waiting == 2
    assert source.poll(10) is not None
    assert done.wait(_SECONDS)
    feeder.join(_SECONDS)
    assert _values(source) == [3]


def test_a_query_that_runs_makes_room_for_its_feeder() -> None:
    """A thousand rows through a source that holds ten."""
    source = _source(capacity=10)
    stream = sw.arrivals(source)
    seen: list[int] = []
    running = threading.Thread(
        target=stream.for_each, args=(lambda rows: seen.extend(rows.column("v").to_pylist()),), daemon=True
    )
    running.start()
    for value in range(1_000):
        source.push({"v": value}, timeout=_SECONDS)
    source.close()
    running.join(_SECONDS)
    assert not running.is_alive()
    assert seen == list(range(1_000))


def test_a_query_is_woken_before_its_feeder_waits_for_it() -> None:
    """A table of several chunks that fills the source must not wait for a query that nobody has informed of it."""
    source, woken = _source(capacity=1), threading.Event()
    source.open(sw.ManualClock(), woken.set)
    chunks = pa.table({"v": pa.chunked_array([[1], [2]])})
    feeder = threading.Thread(target=source.push, args=(chunks,), kwargs={"timeout": _SECONDS})
    feeder.start()
    was_woken = woken.wait(1.0)
    assert source.poll(10) is not None
    feeder.join(_SECONDS)
    assert not feeder.is_alive()
    assert was_woken


def test_a_push_that_waits_too_long_says_what_is_the_matter() -> None:
    """The source, how many rows wait, and the likely cause; nothing was added."""
    source = _source(capacity=1)
    source.push({"v": 1})
    with pytest.raises(
        TimeoutError, match=r"(?s)push waited too long.*clicks.*rows waiting +1.*taken +0.*hint: the query is slower"
    ):
        source.push({"v": 2}, timeout=0)
    assert _values(source) == [1]


def test_a_feeder_that_waits_is_informed_when_the_source_is_closed() -> None:
    """Nobody will make room any more."""
    source = _source(capacity=1)
    source.push({"v": 1})
    failures: list[BaseException] = []

    def feed() -> None:
        try:
            source.push({"v": 2}, timeout=_SECONDS)
        except SlackwaterError as error:
            failures.append(error)

    feeder = threading.Thread(target=feed)
    feeder.start()
    source.close()
    feeder.join(_SECONDS)
    assert "closed source" in str(failures[0])


def test_nothing_can_be_pushed_after_the_end() -> None:
    """What was pushed before is still read; then it has ended."""
    source = _source()
    source.push({"v": 1})
    source.close()
    with pytest.raises(SlackwaterError, match=r"(?s)closed source.*clicks"):
        source.push({"v": 2})
    assert not source.ended
    assert _values(source) == [1]
    assert source.ended
    source.close()


@pytest.mark.parametrize(
    "rows",
    [
        pa.record_batch({"w": [1]}),
        pa.record_batch({"v": ["a"]}),
        pa.table({"v": [1], "w": [2]}),
        {"v": 1, "w": 2},
        {"w": 2},
        [{"v": 1}, {"v": 2, "w": 3}],
        {"v": "a"},
    ],
    ids=["name", "type", "one too many", "unknown key", "other key", "unknown key later", "type of a value"],
)
def test_rows_of_other_columns_are_refused(rows: Any) -> None:
    """A misspelt key must not become a null in silence; the source is named and nothing is added."""
    source = _source()
    with pytest.raises(SlackwaterError, match="clicks"):
        source.push(rows)
    assert source.waiting == 0


def test_a_column_that_may_be_null_may_be_left_out() -> None:
    """A mapping says what it knows."""
    source = sw.PushSource({"v": pa.int64(), "w": pa.string()})
    source.push({"v": 1})
    polled = source.poll(1)
    assert polled is not None
    assert polled[0].to_pylist() == [{"v": 1, "w": None}]


def test_rows_pushed_from_several_threads_all_arrive_each_thread_in_its_order() -> None:
    """Nothing is lost, nothing is doubled."""
    source = _source(capacity=50)
    seen: list[int] = []
    running = threading.Thread(
        target=sw.arrivals(source).for_each,
        args=(lambda rows: seen.extend(rows.column("v").to_pylist()),),
        daemon=True,
    )

    def feed(first: int) -> None:
        for value in range(first, first + 500):
            source.push({"v": value}, timeout=_SECONDS)

    feeders = [threading.Thread(target=feed, args=(1_000 * which,)) for which in range(4)]
    running.start()
    for feeder in feeders:
        feeder.start()
    for feeder in feeders:
        feeder.join(_SECONDS)
    source.close()
    running.join(_SECONDS)
    assert not running.is_alive()
    for which in range(4):
        assert [v for v in seen if v // 1_000 == which] == list(range(1_000 * which, 1_000 * which + 500))


def test_a_source_that_is_being_read_is_not_read_twice() -> None:
    """Its rows would be split between two queries; the hint says what to do."""
    source = _source()
    stream = sw.arrivals(source)
    stream.open(lambda _: None, clock=sw.ManualClock())
    with pytest.raises(SlackwaterError, match=r"(?s)being read already.*clicks.*hint: a push source feeds one query"):
        stream.open(lambda _: None, clock=sw.ManualClock())


def test_a_source_used_twice_in_one_plan_is_read_once() -> None:
    """The same stream in two places is one step."""
    source = _source()
    stream = sw.arrivals(source)
    seen: list[int] = []
    query = sw.union(stream, stream).open(
        lambda rows: seen.extend(rows.column("v").to_pylist()), clock=sw.ManualClock()
    )
    source.push({"v": 1})
    query.work()
    assert seen == [1, 1]


def test_two_streams_made_of_one_source_in_one_plan_are_refused_or_share_it() -> None:
    """Calling arrivals() twice on one source must not split its rows between them in silence."""
    source = _source()
    with pytest.raises(SlackwaterError, match=r"(?s)clicks.*hint"):
        sw.union(sw.arrivals(source), sw.arrivals(source)).open(lambda _: None, clock=sw.ManualClock())


def test_pushing_no_rows_is_no_news() -> None:
    """Nothing waits, and the present can be guaranteed."""
    source = _source()
    source.open(sw.ManualClock(5), lambda: None)
    source.push([])
    assert source.waiting == 0
    assert source.poll(1) is None
    assert source.quiet_until() == 5
