"""Pushes that wait are taken together: the cost of a backlog follows its rows, not its pushes. Counted, not timed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Callable

_V = pa.schema({"v": pa.int64()})
_TIMED = pa.schema({"at": pa.int64(), "v": pa.int64()})


class _Counted:
    """A function over batches that counts its calls."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        self.calls.append(rows.num_rows)
        return rows


def _into(taken: list[Any]) -> Callable[[pa.RecordBatch], None]:
    return lambda rows: taken.extend(rows.to_pylist())


def test_a_backlog_of_small_pushes_is_one_batch() -> None:
    """5,000 pushes of one row: a step is called once, as it is for one push of 5,000 rows."""
    counted = _Counted()
    source, seen = sw.PushSource(_V), []
    query = (
        sw.arrivals(source)
        .map_batches(counted, schema=_V)
        .open(lambda rows: seen.extend(rows["v"].to_pylist()), clock=sw.ManualClock(5))
    )
    for v in range(5_000):
        source.push({"v": v})
    query.work()
    assert counted.calls == [5_000]
    assert seen == list(range(5_000))
    source.push({"v": 7})
    query.work()
    assert counted.calls == [5_000, 1]


def test_each_push_keeps_the_time_of_its_arrival() -> None:
    """Though all are taken at once, and later."""
    clock, source, seen = sw.ManualClock(100), sw.PushSource(_V), []
    query = sw.arrivals(source).open(lambda rows: seen.extend(rows["arrived_at"].cast(pa.int64()).to_pylist()), clock)
    for place in range(20):
        source.push([{"v": 0}] * (1 + place % 2))
        clock.advance(10)
    assert query.step()
    assert seen == [100 + 10 * place for place in range(20) for _ in range(1 + place % 2)]


def test_no_more_rows_are_taken_at_once_than_the_query_wants() -> None:
    """A push that does not fit is cut, and the rest comes next."""
    source, batches = sw.PushSource(_V), []
    query = sw.arrivals(source).open(lambda rows: batches.append(rows["v"].to_pylist()), batch_rows=20)
    for first in range(0, 48, 3):
        source.push([{"v": v} for v in range(first, first + 3)])
    query.step()
    assert batches == [list(range(20))]
    query.work()
    assert [v for batch in batches for v in batch] == list(range(48))
    assert source.waiting == 0


@pytest.mark.parametrize("batch_rows", [1, 3, 4, 6, 9, 1_000])
def test_however_many_pushes_make_a_batch_all_of_their_rows_come(batch_rows: int) -> None:
    """One, part of one, two, three, or all."""
    source, batches = sw.PushSource(_V), []
    query = sw.arrivals(source).open(lambda rows: batches.append(rows["v"].to_pylist()), batch_rows=batch_rows)
    for first in range(0, 90, 3):
        source.push([{"v": v} for v in range(first, first + 3)])
    query.work()
    assert [v for batch in batches for v in batch] == list(range(90))
    assert len(batches[0]) == min(batch_rows, 90)


def test_of_few_pushes_each_goes_its_own_way() -> None:
    """One that stops the query does not take those before it along."""
    source, seen = sw.PushSource(_TIMED), []
    query = sw.stream(source, time="at").assume_ordered().open(lambda rows: seen.extend(rows["at"].to_pylist()))
    for at in (1, 5, 3):
        source.push({"at": at, "v": 0})
    with pytest.raises(sw.errors.BrokenOrder):
        query.work()
    assert seen == [1, 5]


def test_batches_that_mean_something_are_not_taken_together() -> None:
    """With Every.batch() no row is late against another of its push, and those of the next push are."""
    results = []
    for pushes in ([[9, 1]], [[9], [1]]):
        source = sw.PushSource(_TIMED)
        late: list[Any] = []
        stream = sw.stream(source, time="at").sort(patience=2, every=sw.Every.batch())
        query = stream.open(lambda _: None, on_late=_into(late))
        for push in pushes:
            source.push([{"at": at, "v": 0} for at in push])
        query.work()
        results.append(late)
    assert [[row["at"] for row in late] for late in results] == [[], [1]]


def test_rows_without_times_pass_a_union_in_turn() -> None:
    """A push of each source, as they would if the query had kept up."""
    a, b = sw.PushSource(_V), sw.PushSource(_V)
    seen: list[int] = []
    query = sw.union(sw.unstamped(a), sw.unstamped(b)).open(lambda rows: seen.extend(rows["v"].to_pylist()))
    for v in range(3):
        a.push({"v": v})
        b.push({"v": 10 + v})
    query.work()
    assert seen == [0, 10, 1, 11, 2, 12]


def test_rows_before_one_that_cannot_be_read_go_out() -> None:
    """As if each push had been taken by itself; the error names the row."""
    source, seen = sw.PushSource(pa.schema({"at": pa.int64()})), []
    query = sw.stream(source, time="at").open(lambda rows: seen.extend(rows["at"].to_pylist()))
    for at in (*range(20), None, 4):
        source.push({"at": at})
    with pytest.raises(sw.errors.BadTime, match="without a time"):
        query.work()
    assert seen == list(range(20))


def test_punctuations_stay_in_their_places() -> None:
    """Those of a log of changes, among rows that came in other pushes."""
    source = sw.PushSource(pa.schema({"at": pa.int64(), "change": pa.string()}))
    seen: list[int] = []
    query = sw.changes(source, time="at").settle().open(lambda rows: seen.extend(rows["at"].to_pylist()))
    sent = ((3, "insert"), (1, "insert"), (2, "punctuate"), (5, "insert"), (5, "punctuate"), *[(9, "insert")] * 15)
    for at, change in sent:
        source.push({"at": at, "change": change})
    query.work()
    assert seen == [1, 3]
    source.push({"at": 3, "change": "insert"})
    source.push({"at": 6, "change": "insert"})
    with pytest.raises(sw.errors.BrokenPunctuation):
        query.work()


def test_words_of_dictionaries_need_not_fit_together() -> None:
    """Pushes of which any column has a dictionary are taken one by one, whatever words they have."""
    kind = pa.dictionary(pa.int8(), pa.string())
    source, seen = sw.PushSource(pa.schema({"word": kind, "v": pa.int64()})), []
    query = sw.unstamped(source).open(lambda rows: seen.extend(rows["word"].to_pylist()))
    words = [f"word {number}" for number in range(300)]
    for word in words:
        source.push(pa.record_batch({"word": pa.array([word]).dictionary_encode().cast(kind), "v": [1]}))
    query.work()
    assert seen == words


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 20)), max_size=6), max_size=6),
    st.integers(1, 5),
)
def test_a_query_that_lags_behind_says_the_same_as_one_that_keeps_up(
    rounds: list[list[tuple[str, int]]], batch_rows: int
) -> None:
    """A union of sorted streams with late rows: the same table, the same late rows, however many pushes wait."""
    found = []
    for keeps_up in (True, False):
        sources = {name: sw.PushSource(_TIMED, name=name) for name in "ab"}
        streams = [sw.stream(source, time="at").sort(patience=3, every=sw.Every.rows(1)) for source in sources.values()]
        seen: list[Any] = []
        late: list[Any] = []
        query = sw.union(*streams).open(
            _into(seen),
            on_late=_into(late),
            batch_rows=batch_rows if keeps_up else 262_144,
        )
        for pushes in rounds:
            for name, at in pushes:
                sources[name].push({"at": at, "v": at})
                if keeps_up:
                    query.work()
            query.work()
        query.close()
        found.append((seen, sorted(late, key=lambda row: (row["at"], row["late_bound"]))))
    assert found[0] == found[1]
