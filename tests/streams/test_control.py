"""What is asked of a query in process while it runs: sources that pause and retire, other patiences, flushes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.operators.why import Grounds

_AT = pa.schema({"at": pa.int64()})
_WHO = pa.schema({"at": pa.int64(), "who": pa.string(), "landed": pa.int64()})


class _Query:
    """A query over push sources, and what it gave since somebody looked."""

    def __init__(self, plan: Any, *names: str, resume: Any = None, schema: pa.Schema = _AT, **columns: str) -> None:
        self.sources = {name: sw.PushSource(schema, name=name) for name in names}
        self.rows: list[Any] = []
        self.late: list[Any] = []
        streams = [sw.stream(source, time="at", **columns) for source in self.sources.values()]  # type: ignore[arg-type]
        self.query = sw.Query(
            [(plan(*streams), lambda rows: self.rows.extend(rows["at"].to_pylist()))],
            clock=sw.ManualClock(),
            on_late=lambda rows: self.late.extend(rows["at"].to_pylist()),
            resume=resume,
        )
        self.control = self.query.control

    def send(self, name: str, *rows: Any) -> None:
        """Send rows of one source, and let the query work."""
        self.sources[name].push([row if isinstance(row, dict) else {"at": row} for row in rows])
        self.query.work()

    def given(self) -> list[Any]:
        """What has come out since."""
        given, self.rows = self.rows, []
        return given


def _union(*streams: sw.DisorderedStream) -> sw.OrderedStream:
    return sw.union(*(stream.sort(patience=2, every=sw.Every.batch()) for stream in streams))


def _sorted(stream: sw.DisorderedStream) -> sw.OrderedStream:
    return stream.sort(patience=5, every=sw.Every.batch())


def test_a_stream_that_is_paused_holds_nobody_back_and_the_assumption_is_named() -> None:
    """It goes as far as the others have come, and with them."""
    one = _Query(_union, "orders", "refunds")
    one.send("orders", 1, 9)
    assert one.given() == []
    assert one.control.pause("refunds") == 1
    assert one.given() == [1]
    one.send("orders", 20)
    assert one.given() == [9]
    (_, refunds) = one.query.why()
    assert (refunds.ground, refunds.rule) == (Grounds.ASSUMED, "refunds is paused, and sends nothing")
    assert refunds.complete_before == 18


def test_rows_of_a_paused_stream_are_late_behind_the_others_and_in_time_before() -> None:
    """And a pause is not over because they come."""
    one = _Query(_union, "orders", "refunds")
    one.control.pause("refunds")
    one.send("orders", 20)
    one.send("refunds", 17, 18, 19)
    assert one.late == [17]
    one.send("orders", 40)
    assert one.given() == [18, 19, 20]


def test_a_stream_that_is_resumed_is_waited_for_again_and_nothing_is_taken_back() -> None:
    """What was complete meanwhile stays complete."""
    one = _Query(_union, "orders", "refunds")
    one.control.pause("refunds")
    one.send("orders", 1, 20)
    one.control.resume("refunds")
    one.send("orders", 40)
    assert one.given() == [1]
    assert all(why.ground is not Grounds.ASSUMED for why in one.query.why())
    one.send("refunds", 17, 25)
    assert (one.given(), one.late) == ([20], [17])


def test_where_all_are_paused_everything_that_came_goes_out() -> None:
    """As in a lull."""
    one = _Query(_union, "orders", "refunds")
    one.send("orders", 1, 9)
    one.send("refunds", 4)
    one.control.pause("orders")
    one.control.pause("refunds")
    assert one.given() == [1, 4, 9]


def test_a_retired_stream_is_no_assumption_and_can_be_taken_back() -> None:
    """It has ended, as far as anybody knows."""
    one = _Query(_union, "orders", "refunds")
    one.send("orders", 1, 9)
    one.control.retire("refunds")
    assert one.given() == [1]
    assert all(why.ground is not Grounds.ASSUMED for why in one.query.why())
    one.control.resume("refunds")
    one.send("orders", 20)
    assert one.given() == []


def _by_bounds(stream: sw.DisorderedStream) -> sw.OrderedStream:
    bounds = sw.Bounds.in_order() & sw.Bounds.uniform(100) & sw.Bounds.lull(1000)
    return stream.sort(bounds=bounds.only("a", "b"))


def _from(who: str, *times: int) -> list[dict[str, Any]]:
    return [{"at": at, "who": who, "landed": at} for at in times]


def test_one_of_several_sources_is_paused_and_resumed() -> None:
    """Bounds go on for the others; the heartbeat of the one that was paused stays its own."""
    one = _Query(_by_bounds, "readings", schema=_WHO, origin="who", arrived="landed")
    one.send("readings", *_from("a", 1), *_from("b", 2), *_from("a", 9, 12))
    assert one.given() == [1]
    one.control.pause("b")
    (why,) = one.query.why()
    assert (why.ground, why.source) == (Grounds.ASSUMED, "a")
    assert why.rule.startswith("b is paused, and sends nothing; else ")
    assert one.given() == [2]
    one.send("readings", *_from("a", 20), *_from("b", 21))
    one.control.resume("b")
    one.send("readings", *_from("a", 40, 90))
    assert one.given() == [9, 12, 20]


def test_a_source_that_nobody_knows_is_refused() -> None:
    """One that bounds do not name is there from its first row on."""
    one = _Query(_by_bounds, "readings", schema=_WHO, origin="who", arrived="landed")
    with pytest.raises(PlanError, match=r"(?s)no source of that name has come.*buoy 7.*streams +readings"):
        one.control.pause("buoy 7")
    other = _Query(_union, "orders", "refunds")
    with pytest.raises(PlanError, match=r"(?s)this query has no such source.*there are +orders, refunds"):
        other.control.pause("returns")
    assert other.control.records() == []


def test_a_smaller_patience_lets_out_what_waits_and_rows_behind_it_are_late() -> None:
    """Every record is counted from then on."""
    one = _Query(_sorted, "orders")
    one.send("orders", 1, 6, 9)
    assert one.given() == [1]
    one.control.patience(1)
    assert one.given() == [6]
    one.send("orders", 7)
    assert one.late == [7]
    assert one.query.why()[0].rule == "patience 1"


def test_a_greater_patience_takes_nothing_back() -> None:
    """Until rows are so far ahead nothing more is complete, and what is behind stays late."""
    one = _Query(_sorted, "orders")
    one.send("orders", 1, 9)
    one.control.patience(20)
    one.send("orders", 3, 12)
    assert one.late == [3]
    one.send("orders", 5, 24)
    assert (one.given(), one.late) == ([1], [3])
    one.send("orders", 26)
    assert one.given() == [5]


def test_a_flush_lets_out_rows_and_windows_and_what_comes_behind_it_is_late() -> None:
    """Windows that no row was in are still open."""
    counted: list[Any] = []
    late: list[Any] = []
    source = sw.PushSource(_AT, name="orders")
    counts = sw.stream(source, time="at").tumbling(10).sort(patience=50, every=sw.Every.batch()).aggregate(n=sw.count())
    query = counts.open(
        lambda rows: counted.extend(rows.to_pylist()), on_late=lambda rows: late.extend(rows.to_pylist())
    )
    source.push([{"at": 3}, {"at": 14}])
    query.work()
    query.control.flush()
    assert [one["window_start"] for one in counted] == [0, 10]
    source.push([{"at": 19}, {"at": 20}])
    query.work()
    assert [one["at"] for one in late] == [19]
    query.control.flush()
    assert [one["window_start"] for one in counted] == [0, 10, 20]


def test_what_was_asked_is_remembered_by_a_snapshot() -> None:
    """The pause and the patience hold in the next life, and numbers go on."""
    one = _Query(_union, "orders", "refunds")
    one.send("orders", 1, 9)
    one.control.pause("refunds")
    one.control.patience(7, step="punctuate#1")
    other = _Query(_union, "orders", "refunds", resume=one.query.snapshot())
    other.send("orders", 18)
    assert other.given() == [9]
    assert other.control.flush() == 3


def test_a_query_of_which_nothing_was_asked_has_the_snapshot_that_it_had() -> None:
    """Snapshots of before can be read, and those of now by a version of before."""
    one = _Query(_union, "orders", "refunds")
    assert set(one.query.snapshot()) == {"punctuate#1", "sort#1", "punctuate#2", "sort#2", "union#1"}


@pytest.mark.parametrize(
    ("plan", "because"),
    [
        (lambda a, b: sw.merge_replicas(_sorted(a), _sorted(b)), "it is a replica"),
    ],
)
def test_who_cannot_be_paused_says_why(plan: Any, because: str) -> None:
    """A replica that is silent holds nobody back."""
    one = _Query(plan, "blue", "green")
    with pytest.raises(PlanError, match=because):
        one.control.pause("blue")


def test_a_stream_of_replicas_that_a_column_names_cannot_be_paused() -> None:
    """Each of them would be complete up to its newest row, and lose what it has not sent yet."""
    source = sw.stream(sw.PushSource(_WHO, name="log"), time="at", arrived="landed")
    bounds = sw.Bounds.in_order() & sw.Bounds.lull(50)
    merged = source.merge_replicas(by="who", patience=100, bounds=bounds, late=sw.Late.drop())
    query = merged.open(print)
    for ask in (query.control.pause, query.control.retire):
        with pytest.raises(PlanError, match="a column names its replicas"):
            ask("log")


def test_two_streams_of_one_name_cannot_be_distinguished() -> None:
    """They are to be named."""
    a, b = (sw.stream(sw.PushSource(_AT, name="orders"), time="at") for _ in range(2))
    query = _union(a, b).open(print, on_late=print)
    with pytest.raises(PlanError, match="several streams of the query are called so"):
        query.control.pause("orders")


def test_the_patience_of_bands_and_of_bounds_is_fixed() -> None:
    """With the reason."""
    source = sw.stream(sw.PushSource(_WHO, name="readings"), time="at", origin="who", arrived="landed")
    bands = source.tumbling(10).in_bands(5, 20, n=sw.count())
    query = sw.Query([(band, print) for band in bands], on_late=print)
    with pytest.raises(PlanError, match="a patience for each band"):
        query.control.patience(1)
    other = sw.stream(sw.PushSource(_WHO, name="readings"), time="at", origin="who", arrived="landed")
    query = _by_bounds(other).open(print, on_late=print)
    with pytest.raises(PlanError, match="bounds, or the punctuations of its input, decide"):
        query.control.patience(1)


def test_nothing_is_asked_from_a_callback() -> None:
    """A query is asked between two steps."""
    source = sw.PushSource(_AT, name="orders")
    asked: list[int] = []

    def ask(rows: pa.RecordBatch) -> None:
        with pytest.raises(PlanError, match="between two steps"):
            query.control.flush()
        asked.extend(rows["at"].to_pylist())

    query = sw.stream(source, time="at").sort(patience=0).open(ask, on_late=print)
    source.push([{"at": 1}, {"at": 2}])
    query.work()
    assert asked == [1], asked


def _merged(*streams: sw.DisorderedStream) -> sw.EventStream:
    return sw.merge_replicas(*(stream.sort(patience=2, every=sw.Every.batch()) for stream in streams), attachable=True)


def test_replicas_come_and_go_by_their_names() -> None:
    """As by attach() and detach() of the query, with the same refusals."""
    one = _Query(_merged, "blue", "green")
    one.control.detach("green")
    one.send("blue", 1, 9)
    one.send("green", 1)
    assert one.given() == [1]
    assert one.control.attach("green", complete_from=7) == 2
    assert [standing.attached for standing in one.query.replicas()] == [True, True]
    one.control.detach("blue")
    one.send("green", 9, 20)
    assert one.given() == [9]
    with pytest.raises(PlanError, match="this is the only replica that is attached"):
        one.control.detach("green")
    with pytest.raises(PlanError, match=r"(?s)this query has no such replica.*there are +blue, green"):
        one.control.attach("red", complete_from=1)
    with pytest.raises(PlanError, match="complete_from does not fit a stream of sequence numbers"):
        one.control.attach("blue", complete_from="soon")  # type: ignore[arg-type]
    assert [record.applied for record in one.control.records()] == [True, True, True]


def test_replicas_that_take_part_for_good_say_why() -> None:
    """The plan has to allow it."""
    one = _Query(lambda a, b: sw.merge_replicas(_sorted(a), _sorted(b)), "blue", "green")
    with pytest.raises(PlanError, match=r"(?s)cannot be asked to detach.*attachable=True"):
        one.control.detach("green")


def test_a_paused_stream_goes_no_further_than_the_slowest_of_those_beside_it() -> None:
    """Nobody waits for it then, and as few of its rows are late as may be."""
    one = _Query(_union, "orders", "refunds", "returns")
    one.send("orders", 100)
    one.send("refunds", 50)
    one.control.pause("returns")
    one.send("returns", 47, 60)
    assert one.late == [47]
    one.send("refunds", 90)
    assert one.given() == [50, 60]


def test_rows_behind_a_flush_are_late_for_their_own_source_too() -> None:
    """Where each source goes by its own heartbeat."""
    bounds = (sw.Bounds.in_order() & sw.Bounds.lull(1000)).only("a", "b")
    one = _Query(
        lambda rows: rows.sort_within_origins(bounds=bounds),
        "readings",
        schema=_WHO,
        origin="who",
        arrived="landed",
    )
    one.send("readings", *_from("a", 40), *_from("b", 7))
    one.control.flush()
    assert sorted(one.given()) == [7, 40]
    one.send("readings", {"at": 39, "who": "b", "landed": 900}, {"at": 41, "who": "b", "landed": 901})
    assert one.late == [39]
