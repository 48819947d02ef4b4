"""Estimated bounds as users have them: sort(bounds=...), what is late by them, and how that is reported."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import ceil
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import PlanError
from slackwater.testing.oracles.heartbeats.shares import Shares, by_shares

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Row = tuple[int, int, int]
"""When it arrived, who sent it, and its time."""


def _stream(rows: Sequence[Row], batch: int | None = None) -> sw.DisorderedStream:
    landed, who, at = (pa.array(column, pa.int64()) for column in zip(*rows, strict=True))
    table = pa.table({"landed": landed, "who": who, "at": at, "n": pa.array(range(len(rows)), pa.int64())})
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=batch))
    return sw.stream(reader, time="at", origin="who", arrived="landed")


_EVERY_TICK = sw.Every.time(1)


def _weather() -> Iterator[Row]:
    """Rows of three sources in calm, a storm in which a third of them is long under way, and calm again."""
    rng = Random(18)
    rows = []
    for time in range(60_000):
        stormy = 12_000 <= time < 14_000 and rng.random() < 1 / 3
        rows.append((time + (rng.randrange(100, 400) if stormy else rng.randrange(4)), rng.randrange(3), time))
    yield from sorted(rows)


_PATIENCE, _LOSS, _BATCH = 500, 0.01, 200


def test_a_storm_takes_the_patience_back_and_calm_brings_the_estimate_again() -> None:
    """The share that was late stays near what was asked for, and rows wait less than by the patience."""
    rows = list(_weather())
    ordered = _stream(rows, batch=_BATCH).sort(_PATIENCE, bounds=sw.Bounds.estimated(_LOSS), every=_EVERY_TICK)
    query = ordered.open(id, on_late=id)
    grounds: list[sw.Grounds] = []
    delays: list[int] = []
    losses: list[sw.ObservedLoss] = []
    for number in range(len(rows) // _BATCH):
        query.step()
        (why,) = query.why()
        assert why.estimate is not None
        grounds.append(why.ground)
        losses.append(why.estimate)
        delays.append(rows[_BATCH * number + _BATCH - 1][2] - why.complete_before)
    query.close()
    learning, calm, storm, after, again = slice(0, 2), slice(5, 59), slice(62, 70), slice(72, 90), slice(-20, None)
    assert set(grounds[learning]) == {sw.Grounds.PROVEN}, "nothing is known yet but the patience"
    assert set(grounds[calm]) == {sw.Grounds.ESTIMATED}
    assert max(delays[calm]) < 20
    assert losses[59].late == 0
    assert all(loss.taken_back for loss in losses[storm])
    assert losses[62].late == losses[-1].late > 0, "by the patience nothing is late, nor by what the storm showed"
    assert min(delays[after]) > 100, "the patience counts, or what the storm showed"
    assert set(grounds[again]) == {sw.Grounds.ESTIMATED}
    assert losses[-1] == sw.ObservedLoss(len(rows), losses[62].late, _LOSS, taken_back=False, times_taken_back=1)
    assert max(delays[again]) < 20, "and what was long ago is forgotten"
    counters = query.counters()
    assert counters["heartbeats#1"].late_by_estimate == losses[-1].late == sum(one.late for one in counters.values())
    assert losses[-1].share <= _LOSS
    assert "the clock, by an estimate" in " ".join(why.broken.values())


def test_without_estimates_the_same_rows_wait_for_the_patience() -> None:
    """What the storm test is measured against: nothing is late, and everything waits."""
    rows = list(_weather())
    result = _stream(rows).sort(_PATIENCE).run()
    assert result.late.num_rows == 0
    assert result.counters["sort#1"].peak_buffered > _PATIENCE


@st.composite
def _drawn(draw: st.DrawFn) -> tuple[int, list[Row]]:
    n = draw(st.integers(1, 3))
    steps = st.tuples(st.sampled_from([0, 0, 1, 2]), st.integers(0, n - 1), st.sampled_from([0, 0, 0, 1, 2, 9, 20]))
    rows, tick = [], 0
    for step, who, behind in draw(st.lists(steps, min_size=10, max_size=60)):
        tick += step
        rows.append((tick, who, tick - behind))
    return n, rows


@given(_drawn(), st.sampled_from([0.2, 0.5]), st.integers(1, 7))
def test_late_is_what_the_slow_histogram_says_however_rows_are_cut_into_batches(
    drawn: tuple[int, list[Row]], loss: float, batch: int
) -> None:
    """By the estimate, and by the patience; all others come out in order."""
    n, rows = drawn
    found = by_shares(rows, n, rows[-1][0], Shares(loss, 12, memory=ceil(20 / loss), enough=ceil(1 / loss)))
    bounds = sw.Bounds.estimated(loss).only(*range(n)) if n else sw.Bounds.estimated(loss)
    result = _stream(rows, batch).sort(12, bounds=bounds, every=_EVERY_TICK).run()
    by_patience = set(range(len(rows))) - set(found.counted)
    assert sorted(result.late["n"].to_pylist()) == sorted({*found.late, *by_patience})
    assert result.counters["heartbeats#1"].late_by_estimate == len(found.late)
    kept = sorted(row[2] for number, row in enumerate(rows) if number not in {*found.late, *by_patience})
    assert result.table["at"].to_pylist() == kept


def test_why_shows_the_estimate_and_what_it_has_cost() -> None:
    """In words that somebody can check."""
    rows = [(tick, tick % 2, tick - tick % 3) for tick in range(2_000)]
    query = _stream(rows).sort(50, bounds=sw.Bounds.estimated(0.01), every=_EVERY_TICK).open(id, on_late=id)
    query.step()
    (why,) = query.why()
    assert why.ground is sw.Grounds.ESTIMATED
    assert "estimate   0 of 2,000 rows late by it (0 %), at most 1 % asked" in str(why)
    assert "behind" in why.rule or "after their time" in why.rule
    query.close()


def test_the_clock_lets_the_last_rows_go_in_silence_once_it_is_learnt() -> None:
    """A live stream, whose rows are never more than two seconds under way."""
    clock, source = sw.ManualClock(0), sw.PushSource({"at": pa.timestamp("us", "UTC"), "x": pa.int64()})
    bounds = sw.Bounds.estimated(0.05)
    with pytest.warns(UserWarning, match="the last rows"):
        stream = sw.stream(source, time="at").sort("1m", bounds=bounds)
    got: list[int] = []
    query = stream.open(lambda rows: got.extend(rows["x"].to_pylist()), clock=clock, on_late=print)
    begin = datetime(1970, 1, 1, tzinfo=UTC)
    for second in range(200):
        clock.advance(1_000_000)
        source.push([{"at": begin + timedelta(seconds=second - second % 2), "x": second}])
        query.work()
    assert len(got) < 200
    for _ in range(10):
        clock.advance(1_000_000)
        query.work()
    assert sorted(got) == list(range(200))
    query.stop()


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        (sw.Bounds.estimated(0.01), "estimates start from a patience"),
        (sw.Bounds.estimated(0.01) & sw.Bounds.in_order(), "estimates start from a patience"),
        (sw.Bounds.estimated(0.01) & sw.Bounds.uniform({7: 5}), "estimates start from a patience"),
    ],
)
def test_estimates_without_anything_to_start_from_are_refused(bounds: sw.Bounds, says: str) -> None:
    """There would be nothing to go back to."""
    with pytest.raises(PlanError, match=says):
        _stream([(1, 1, 1)]).sort(bounds=bounds)


def test_a_delay_by_the_clock_is_something_to_start_from() -> None:
    """As is a patience among the bounds, where a step has several of its own."""
    rows = [(tick, 0, tick) for tick in range(500)]
    assert _stream(rows).sort(bounds=sw.Bounds.estimated(0.1) & sw.Bounds.delay(50)).run().table.num_rows == 500
    bounds = sw.Bounds.estimated(0.1) & sw.Bounds.patience(50)
    soon, _ = _stream(rows).tumbling(10).in_bands(5, 50, bounds=bounds, n=sw.count()).run()
    assert soon.table["n"].to_pylist() == [10] * 50


def test_fleets_learn_as_one_source() -> None:
    """What one member shows, all of its fleet are waited for by; nothing else is."""
    rows = [(tick, tick % 4, tick - 3 * (tick % 4 == 3)) for tick in range(3_000)]
    bounds = (sw.Bounds.estimated(0.01) & sw.Bounds.patience(100)).in_fleets({"even": [0, 2], "odd": [1, 3]})
    query = _stream(rows, batch=100).sort(bounds=bounds, every=_EVERY_TICK).open(id, on_late=id)
    for _ in range(30):
        query.step()
    (why,) = query.why()
    assert (why.source, why.ground) == ("odd", sw.Grounds.ESTIMATED)
    assert why.newest - why.complete_before <= 4
    query.close()
    assert query.counters()["sort#1"].rows_out == 3_000


def test_a_source_that_ends_without_arrivals_is_refused() -> None:
    """A file does not say when its rows came; nor does the greatest skew need to know."""
    rows: list[dict[str, Any]] = [{"at": datetime(2026, 1, 1, tzinfo=UTC)}]
    with pytest.raises(PlanError, match="when rows arrived"):
        sw.stream(rows, time="at").sort("5s", bounds=sw.Bounds.estimated(0.01))
    assert sw.stream(rows, time="at").sort(bounds=sw.Bounds.greatest()).run().table.num_rows == 1


def test_the_greatest_skew_loses_what_shows_more_than_any_row_before() -> None:
    """Section 6.1 in a plan: it starts from nothing; each row that is further behind than any is late, once."""
    rows = [(1, 0, 10), (2, 0, 12), (3, 0, 7), (4, 0, 20), (5, 0, 15), (6, 0, 30), (7, 0, 22)]
    result = _stream(rows).sort(bounds=sw.Bounds.greatest(), every=_EVERY_TICK).run()
    assert result.late["at"].to_pylist() == [7, 22]
    assert result.counters["heartbeats#1"].late_by_estimate == 2
