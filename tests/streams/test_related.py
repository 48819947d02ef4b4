"""Bounds between several streams, in process: late is what the paper's heartbeats of each stream leave behind."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from effort import FEWER
from hypothesis import given
from hypothesis import strategies as st
from related_streams import PATIENT, ROWS, bounds_between, late_by_figure_2, name_of, tables_of

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.progress.instants import BEGINNING
from slackwater.testing.oracles.heartbeats import NOTHING_YET, System, figure_2
from slackwater.testing.oracles.heartbeats.simulate import Sent, arrivals_of
from slackwater.testing.oracles.heartbeats.strategies import simulations, systems

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from slackwater.testing.oracles.heartbeats.system import Arrival

pytestmark = pytest.mark.filterwarnings("ignore:when all is silent")

_SENT = simulations(systems(most_sources=3), most_rows=30)
_DRIFT = st.lists(st.sampled_from([0, 0, 0, -9, -3, 3, 9]), min_size=30, max_size=30)


def _several(system: System) -> bool:
    return len(system.sources) > 1


def _drifted(arrivals: Sequence[Arrival], drift: Sequence[int]) -> list[Arrival]:
    return [(tick, source, time + one) for (tick, source, time), one in zip(arrivals, drift, strict=False)]


@given(_SENT.filter(lambda drawn: _several(drawn[0])), _DRIFT | st.none(), st.integers(1, 9), st.data())
def test_with_a_column_of_arrivals_late_is_what_the_paper_leaves_behind(
    drawn: tuple[System, list[Sent]], drift: list[int] | None, batch_rows: int, data: st.DataObject
) -> None:
    """In any cut, whichever stream is read first: none while bounds hold, and with broken ones all add up."""
    system, sent = drawn
    arrivals = arrivals_of(sent)
    arrivals = arrivals if drift is None else _drifted(arrivals, drift)
    tables = tables_of(system, arrivals)
    order = data.draw(st.permutations(list(system.sources)))
    streams = [sw.stream(tables[one], time="at", arrived="landed", name=name_of(one)) for one in order]
    related = sw.related(*streams, bounds=bounds_between(system, by_clock=False), every=sw.Every.time(1))
    first, *others = (stream.sort() for stream in related)
    out, late = _taken(first.union(*others), batch_rows)
    assert {row["n"] for row in late} == late_by_figure_2(system, arrivals)
    assert drift is not None or not late
    assert sorted(row["n"] for row in [*out, *late]) == list(range(len(arrivals)))
    assert [row["at"] for row in out] == sorted(row["at"] for row in out)


def _taken(stream: sw.OrderedStream, batch_rows: int) -> tuple[list[Any], list[Any]]:
    out: list[Any] = []
    late: list[Any] = []
    query = stream.open(
        lambda rows: out.extend(rows.to_pylist()),
        on_late=lambda rows: late.extend(rows.to_pylist()),
        batch_rows=batch_rows,
    )
    while query.step():
        pass
    broken = sum(one.broken_bounds for one in query.counters().values())
    query.close()
    assert broken == len(late), "late is who broke a bound, and nobody else"
    return out, late


@FEWER
@given(_SENT.filter(lambda drawn: _several(drawn[0])), st.booleans(), st.randoms(use_true_random=False))
def test_by_the_clock_heartbeats_are_those_of_the_paper(
    drawn: tuple[System, list[Sent]], restored: bool, rng: Random
) -> None:
    """Whatever waits to be read is one instant, in whatever order and pieces it was pushed; restarts change nothing."""
    system, sent = drawn
    arrivals = arrivals_of(sent)
    beats = figure_2(system, arrivals, arrivals[-1][0])
    out: list[int] = []
    clock, state = sw.ManualClock(0), None
    query, sources = _live(system, clock, state, out)
    for tick in dict.fromkeys(tick for tick, _, _ in arrivals):
        clock.advance(tick - clock.now())
        now = [(n, one) for n, one in enumerate(arrivals) if one[0] == tick]
        for n, (_, source, time) in rng.sample(now, len(now)):
            sources[source].push([{"at": time, "landed": tick, "n": n}])
        query.work()
        found = {reason.source: reason.complete_before for reason in query.why()}
        newest = max(time for at, _, time in arrivals if at <= tick)
        for source in system.sources:
            least = max(beats[tick][source], newest - PATIENT - 1)
            assert found[name_of(source)] == (BEGINNING if least == NOTHING_YET else least + 1), (tick, source)
        if restored:
            state = query.snapshot()
            query, sources = _live(system, clock, state, out)
    query.close()
    assert sorted(out) == list(range(len(arrivals))), "none is late while bounds hold"


def _live(system: System, clock: sw.ManualClock, state: Any, out: list[int]) -> tuple[sw.Query, list[sw.PushSource]]:
    sources = [sw.PushSource(ROWS, name=name_of(one)) for one in system.sources]
    bounds = bounds_between(system, by_clock=True)
    streams = sw.related(*(sw.stream(source, time="at", name=source.name) for source in sources), bounds=bounds)
    first, *others = (stream.sort(late=sw.Late.raise_error(), patience=10 * PATIENT) for stream in streams)
    query = first.union(*others).open(lambda rows: out.extend(rows["n"].to_pylist()), clock=clock, resume=state)
    return query, sources


# ---- silence, ends, and what is read first --------------------------------------------------------------------------

_SECOND = 1_000_000
_TIMES = pa.schema({"at": pa.timestamp("us", "UTC")})


def _timed(*seconds: int) -> list[dict[str, datetime]]:
    return [{"at": datetime.fromtimestamp(one, UTC)} for one in seconds]


def _late_of(first: sw.OrderedStream, second: sw.OrderedStream) -> dict[str, list[int]]:
    """The times of the late rows of each stream of a union."""
    late = first.union(second).run().late
    assert isinstance(late, dict)
    return {name: rows["at"].to_pylist() for name, rows in late.items()}


def test_a_stream_that_pauses_holds_up_a_join_no_longer_than_its_bound_on_the_other() -> None:
    """Orders are at most 5 s behind clicks: windows close with clicks alone."""
    clock, out = sw.ManualClock(0), []
    sources = [sw.PushSource(_TIMES, name=name) for name in ("clicks", "orders")]
    clicks, orders = (sw.stream(source, time="at", name=source.name) for source in sources)
    bounds = sw.Bounds.in_order() & sw.Bounds(
        {("clicks", "orders"): [sw.Bound("5s")], ("orders", "clicks"): [sw.Bound("5s")]}
    )
    clicks, orders = sw.related(clicks, orders, bounds=bounds)
    counts = clicks.sort().union(orders.sort()).tumbling("10s").aggregate(n=sw.count())
    query = counts.open(lambda rows: out.extend(rows["n"].to_pylist()), clock=clock, on_late=print)
    sources[1].push(_timed(1, 2))
    for second in range(16):
        sources[0].push(_timed(second))
        query.work()
        clock.advance(_SECOND)
    assert out == [12], "10 clicks and 2 orders, though orders are silent"
    query.close()


def test_a_delay_by_the_clock_closes_the_last_window_of_silent_streams() -> None:
    """Each is woken as one stream with bounds is."""
    clock, out = sw.ManualClock(0), []
    sources = [sw.PushSource(_TIMES, name=name) for name in ("clicks", "orders")]
    streams = (sw.stream(source, time="at", name=source.name) for source in sources)
    clicks, orders = sw.related(*streams, bounds=sw.Bounds.delay("2s", orders="4s"))
    counts = clicks.sort().union(orders.sort()).tumbling("10s").aggregate(n=sw.count())
    query = counts.open(
        lambda rows: out.append((clock.now() // _SECOND, rows["n"].to_pylist())), clock=clock, on_late=print
    )
    sources[0].push(_timed(0))
    for _ in range(30):
        query.work()
        clock.advance(_SECOND)
    assert out == [(14, [1])]
    query.close()


def test_rows_that_waited_to_be_read_are_compared_with_none_that_came_with_them() -> None:
    """After an hour in which the query stood still: whichever stream is read first, none is late."""
    late: list[pa.RecordBatch] = []
    clock = sw.ManualClock(0)
    sources = [sw.PushSource(_TIMES, name=name) for name in ("clicks", "orders")]
    streams = (sw.stream(source, time="at", name=source.name) for source in sources)
    clicks, orders = sw.related(*streams, bounds=sw.Bounds.uniform("5s") & sw.Bounds.delay("10s"))
    both = clicks.sort().union(orders.sort())
    query = both.open([].append, clock=clock, on_late=late.append)
    for source in sources:
        source.push(_timed(0))
    query.work()
    clock.advance(3_600 * _SECOND)
    for source in sources:
        for second in (10, 1_000, 3_599):
            source.push(_timed(second))
    query.work()
    assert not late
    sources[1].push(_timed(20))
    query.work()
    assert [rows["at"].to_pylist()[0].minute for rows in late] == [0]
    query.stop()


def test_a_stream_that_has_ended_is_not_waited_for() -> None:
    """Neither for its rows nor for its arrivals, whatever was still to be proven of it."""
    ended = sw.stream([{"at": 5, "landed": 5}], time="at", arrived="landed", name="ended")
    source = sw.PushSource({"at": pa.int64(), "landed": pa.int64()}, name="live")
    live = sw.stream(source, time="at", arrived="landed", name="live")
    ended, live = sw.related(ended, live, bounds=sw.Bounds.in_order())
    out: list[int] = []
    query = ended.sort().union(live.sort()).open(lambda rows: out.extend(rows["at"].to_pylist()), on_late=print)
    source.push([{"at": at, "landed": at} for at in (1, 9, 10)])
    query.work()
    assert out == [1, 5, 9, 10][: len(out)]
    assert 5 in out
    query.close()
    assert out == [1, 5, 9, 10]


def test_a_row_ahead_of_the_clock_moves_no_stream() -> None:
    """It goes to the late output of its own stream; the other goes on by honest rows."""
    rows = {"clicks": [(1, 1), (2, 9_000), (3, 3)], "orders": [(2, 2), (3, 2), (4, 4)]}
    streams = [
        sw.stream([{"landed": one, "at": at} for one, at in some], time="at", arrived="landed", name=name)
        for name, some in rows.items()
    ]
    clicks, orders = sw.related(*streams, bounds=sw.Bounds.uniform(5), ahead=100)
    result = clicks.sort().union(orders.sort()).run()
    assert result.table["at"].to_pylist() == [1, 2, 2, 3, 4]
    ahead = result.late["clicks"].to_pylist()[0]
    assert (ahead["at"], ahead["latest_allowed"]) == (9_000, 102)
    broken = sw.related(*streams, bounds=sw.Bounds.uniform(5))
    assert _late_of(broken[0].sort(), broken[1].sort()) == {"clicks": [3], "orders": [2, 4]}, "one fast clock"


def test_what_a_filter_drops_has_arrived_all_the_same() -> None:
    """Heartbeats are made behind the source, wherever related() was written."""
    rows = {"clicks": [(1, 10), (5, 60)], "orders": [(2, 8), (3, 54)]}
    clicks, orders = (
        sw.stream([{"landed": one, "at": at} for one, at in some], time="at", arrived="landed", name=name)
        for name, some in rows.items()
    )
    bounds = sw.Bounds.in_order() & sw.Bounds({("orders", "clicks"): [sw.Bound(2)]})
    kept = sw.related(clicks, orders.where(nw.col("at") < 50), bounds=bounds, late=sw.Late.drop())
    text = kept[1].explain()
    assert text.index("where#1") < text.index("related#1")
    late = sw.related(clicks, orders.where(nw.col("at") < 50), bounds=sw.Bounds.uniform({"orders": 9, "clicks": 2}))
    assert _late_of(late[0].sort(), late[1].sort()) == {"clicks": [], "orders": []}


def test_late_rows_follow_the_policy_of_the_step_with_a_patience_or_that_of_related() -> None:
    """As with streams that punctuate: without one they are diverted, named by their stream."""
    rows = {"clicks": [(1, 10), (2, 50), (3, 12)], "orders": [(3, 20)]}

    def streams() -> Any:
        return (
            sw.stream([{"landed": one, "at": at} for one, at in some], time="at", arrived="landed", name=name)
            for name, some in rows.items()
        )

    bounds = sw.Bounds.uniform(10)
    clicks, orders = sw.related(*streams(), bounds=bounds)
    result = clicks.sort().union(orders.sort()).run()
    assert {name: late.num_rows for name, late in result.late.items()} == {"clicks": 1, "orders": 1}
    dropped = clicks.sort(5_000, late=sw.Late.drop()).union(orders.sort()).run()
    assert (dropped.late["at"].to_pylist(), dropped.table["at"].to_pylist()) == ([20], [10, 50])
    clicks, orders = sw.related(*streams(), bounds=bounds, late=sw.Late.drop())
    assert _late_of(clicks.sort(), orders.sort()) == {}


def test_a_patience_caps_what_bounds_wait_for_by_the_newest_of_all_streams() -> None:
    """It is one more bound, of each stream on every other."""
    arrived = {"clicks": [(one, one) for one in range(100)], "orders": [(50, 0)]}
    clicks, orders = (
        sw.stream([{"landed": one, "at": at} for one, at in some], time="at", arrived="landed", name=name)
        for name, some in arrived.items()
    )
    bounds = sw.Bounds.in_order()
    late = sw.related(clicks, orders, bounds=bounds, patience=20)
    assert _late_of(late[0].sort(), late[1].sort()) == {"clicks": [], "orders": [0]}
    patient = sw.related(clicks, orders, bounds=bounds)
    assert _late_of(patient[0].sort(), patient[1].sort()) == {"clicks": [], "orders": []}


# ---- plans ----------------------------------------------------------------------------------------------------------


def _pair(**options: Any) -> tuple[sw.DisorderedStream, sw.DisorderedStream]:
    a, b = (sw.stream([{"at": 1, "landed": 1, "k": 1}], time="at", name=name, **options) for name in ("a", "b"))
    return a, b


def test_explain_names_the_streams_and_their_bounds() -> None:
    """One line for each stream, with what it goes by."""
    bounds = sw.Bounds.in_order() & sw.Bounds({("a", "b"): [sw.Bound(5)]})
    a, b = sw.related(*_pair(arrived="landed"), bounds=bounds)
    text = a.sort().join(b.sort(), on="k", within=3).explain()
    assert "related#1 a of a, b, from each source: in order; a -> b: at most 5 behind" in text
    assert "related#2 b of a, b" in text
    assert "complete as far as rows of any of these streams prove it" in text


_IN_ORDER = sw.Bounds.in_order()
_ARRIVED: dict[str, Any] = {"arrived": "landed"}


@pytest.mark.parametrize(
    ("streams", "options", "says"),
    [
        (_pair(), {"bounds": _IN_ORDER}, "came before which"),
        (_pair(**_ARRIVED, origin="k"), {"bounds": _IN_ORDER}, "each stream as one source"),
        (_pair(**_ARRIVED), {"bounds": sw.Bounds.delay("1s", c="2s")}, "name a stream that there is not"),
        (_pair(**_ARRIVED), {"bounds": sw.Bounds({("a", "a"): [sw.Bound()]})}, "no bound says anything of a source"),
        (_pair(**_ARRIVED), {"bounds": _IN_ORDER.once_seen()}, "names all sources there are"),
        (_pair(**_ARRIVED), {"bounds": _IN_ORDER.only("a")}, "names all sources there are"),
        (_pair(**_ARRIVED), {"bounds": sw.Bounds.uniform(1).in_fleets({"x": ["a", "b"]})}, "no fleets"),
        (_pair(**_ARRIVED), {"bounds": sw.Bounds.greatest()}, "learnt from the rows of one stream"),
        (_pair(**_ARRIVED), {"bounds": "5s"}, "takes Bounds"),
        ((_pair(**_ARRIVED)[0],) * 2, {"bounds": _IN_ORDER}, "two of these have one name"),
        ((_pair(**_ARRIVED)[0], _pair()[1]), {"bounds": _IN_ORDER}, "of others none does"),
        ((_pair(**_ARRIVED)[0], _pair()[1].sort(5)), {"bounds": _IN_ORDER}, "streams in order of arrival"),
    ],
)
def test_what_would_mean_nothing_is_refused(streams: Any, options: Any, says: str) -> None:
    """With the reason."""
    with pytest.raises(PlanError, match=says):
        sw.related(*streams, **options)


def test_streams_of_different_kinds_of_time_are_refused() -> None:
    """Times, and arrivals."""
    numbers = sw.stream([{"at": 1, "landed": 1}], time="at", arrived="landed", name="a")
    times = pa.table({"at": [1], "landed": [1]}).cast(pa.schema({"at": pa.timestamp("us"), "landed": pa.int64()}))
    with pytest.raises(PlanError, match="cannot be compared"):
        sw.related(numbers, sw.stream(times, time="at", arrived="landed", name="b"), bounds=_IN_ORDER)
    landed = pa.table({"at": [1], "landed": [1]}).cast(pa.schema({"at": pa.int64(), "landed": pa.timestamp("us")}))
    with pytest.raises(PlanError, match="arrivals of these streams"):
        sw.related(numbers, sw.stream(landed, time="at", arrived="landed", name="b"), bounds=_IN_ORDER)


def test_bounds_are_given_once() -> None:
    """Behind related() a sort has none of its own."""
    a, _ = sw.related(*_pair(**_ARRIVED), bounds=_IN_ORDER)
    with pytest.raises(PlanError, match="has bounds already"):
        a.sort(bounds=_IN_ORDER)
