"""aggregate_early() as users type it: answers at once, revised on the way, and in the end those of an aggregate."""

from __future__ import annotations

import pickle
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import LateEvent, NeedsOrder, PlanError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SCHEMA = pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64()})
_WHAT: dict[str, Any] = {"n": sw.count(), "total": sw.sum("v"), "top": sw.top_k("v", 2)}


def _rows(times: Sequence[int]) -> pa.Table:
    """Rows with these times, in this order, with keys and values in turn."""
    keys = [("a", "b", None)[i % 3] for i in range(len(times))]
    return pa.table({"at": times, "k": keys, "v": [i % 5 - 2 for i in range(len(times))]}, schema=_SCHEMA)


def _as_multiset(rows: Iterable[dict[str, Any]]) -> Counter[str]:
    return Counter(map(repr, rows))


def _applied(changes: Iterable[dict[str, Any]]) -> Counter[str]:
    """What all changes come to: a removal takes away an answer that is there."""
    left: Counter[str] = Counter()
    for change in changes:
        row = {name: value for name, value in change.items() if name not in {"change", "window_end_before"}}
        if change["change"] == "remove":
            row["window_end"] = change["window_end_before"]
            assert left[repr(row)] > 0, change
        left[repr(row)] += {"insert": 1, "remove": -1}[change["change"]]
    return +left


_TIMES = st.lists(st.integers(0, 60), max_size=40)
_LATE = st.sampled_from([sw.Late.divert(), sw.Late.drop(), sw.Late.adjust()])


@given(
    times=_TIMES,
    patience=st.sampled_from([0, 3, 15, 100]),
    every=st.sampled_from([None, sw.Every.rows(3), sw.Every.time(7)]),
    late=_LATE,
    hop=st.sampled_from([None, 4]),
    batch_rows=st.sampled_from([1, 7, 1_000]),
)
def test_in_the_end_answers_are_those_of_a_sorted_stream(
    times: list[int], patience: int, every: sw.Every | None, late: sw.Late, hop: int | None, batch_rows: int
) -> None:
    """The same rows are late, and the same answers stand, whatever the batches; settled, each is emitted once."""
    rows = sw.stream(_rows(times), time="at")
    patient: dict[str, Any] = {"patience": patience, "every": every, "late": late}
    windows = rows.tumbling(10) if hop is None else rows.hopping(10, hop)
    # A patience behind windows that lie side by side checks them whole.
    sorted_windows = windows.sort(**patient) if hop is None else rows.sort(**patient).hopping(10, hop)
    expected = sorted_windows.group_by("k").aggregate(**_WHAT).run()
    early = windows.group_by("k").aggregate_early(patience, every=every, late=late, **_WHAT)
    changes: list[dict[str, Any]] = []
    too_late: list[dict[str, Any]] = []
    with early.open(
        lambda batch: changes.extend(batch.to_pylist()),
        clock=sw.ManualClock(),
        on_late=lambda batch: too_late.extend(batch.to_pylist()),
        batch_rows=batch_rows,
    ) as query:
        query.run_to_end()
    answers = _as_multiset(expected.table.to_pylist())
    assert _applied(changes) == answers
    assert too_late == [row for diverted in expected.late_by_source.values() for row in diverted.to_pylist()]
    assert _as_multiset(early.settle().run().table.to_pylist()) == answers


def test_answers_come_at_once_from_a_live_source() -> None:
    """Before anything is complete; a window that is complete is not held any more."""
    source = sw.PushSource({"at": pa.int64(), "k": pa.string()})
    early = sw.stream(source, time="at").tumbling(10).group_by("k").aggregate_early(patience=20, n=sw.count())
    seen: list[tuple[Any, ...]] = []

    def see(batch: pa.RecordBatch) -> None:
        seen.extend((row["change"], row["window_start"], row["n"]) for row in batch.to_pylist())

    query = early.open(see, clock=sw.ManualClock(), on_late=_refuse)
    source.push({"at": 3, "k": "a"})
    query.work()
    assert seen == [("insert", 0, 1)]
    source.push([{"at": 25, "k": "a"}, {"at": 6, "k": "a"}])
    query.work()
    assert _applied_counts(seen) == {(0, 2), (20, 1)}
    assert query.counters()["aggregate_early#1"].buffered == 2
    source.push({"at": 31, "k": "a"})
    query.work()
    assert query.counters()["aggregate_early#1"].buffered == 2
    query.close()
    assert _applied_counts(seen) == {(0, 2), (20, 1), (30, 1)}
    assert query.counters()["aggregate_early#1"].buffered == 0


def _refuse(batch: pa.RecordBatch) -> None:
    raise AssertionError(batch.to_pylist())


def _applied_counts(changes: Iterable[tuple[Any, ...]]) -> set[tuple[int, int]]:
    left: Counter[tuple[int, int]] = Counter()
    for change, start, n in changes:
        left[start, n] += 1 if change == "insert" else -1
    return set(+left)


def test_late_rows_are_checked_by_the_times_they_came_with_and_go_where_they_are_sent() -> None:
    """Diverted, beside the answers; or refused by name."""
    table = _rows([5, 50, 4])
    windows = sw.stream(table, time="at").tumbling(10).group_by()
    early = windows.aggregate_early(patience=20, every=sw.Every.rows(1), n=sw.count())
    result = early.run()
    assert result.late.to_pylist() == [{"at": 4, "k": None, "v": 0, "late_bound": 30, "late_by": 26}]
    assert early.late.run().table.num_rows == 1
    with pytest.raises(LateEvent):
        windows.aggregate_early(patience=20, every=sw.Every.rows(1), late=sw.Late.raise_error(), n=sw.count()).run()


def test_an_ordered_stream_needs_no_patience() -> None:
    """Its order says which windows are complete; a patience does no harm."""
    ordered = sw.stream(_rows([1, 2, 12, 31]), time="at").assume_ordered().tumbling(10).group_by()
    for early in (ordered.aggregate_early(n=sw.count()), ordered.aggregate_early(patience=5, n=sw.count())):
        with early.open(lambda _: None, clock=sw.ManualClock(), on_late=lambda _: None, batch_rows=1) as query:
            query.run_to_end()
        # A window that a row closes is there beside the row's own, for a moment.
        assert query.counters()["aggregate_early#1"].peak_buffered == 2
        settled = early.settle().run().table
        assert settled.select(["window_start", "n"]).to_pydict() == {"window_start": [0, 10, 30], "n": [2, 1, 1]}


def test_calendar_times_and_narrow_dictionaries() -> None:
    """Keys whose numbers are too small for the words of several batches are widened."""
    noon = datetime(2026, 11, 15, 12, tzinfo=UTC)
    batches = [
        pa.record_batch(
            {
                "at": pa.array([noon + timedelta(minutes=i) for i in range(100)], pa.timestamp("us", "UTC")),
                "k": pa.array([f"{part} {i}" for i in range(100)]).cast(pa.dictionary(pa.int8(), pa.string())),
            }
        )
        for part in range(3)
    ]
    stream = sw.stream(pa.Table.from_batches(batches), time="at").tumbling("1h")
    early = stream.group_by("k").aggregate_early(patience="3h", n=sw.count())
    with early.open(lambda _: None, clock=sw.ManualClock(), on_late=lambda _: None, batch_rows=100) as query:
        query.run_to_end()
    table = early.settle().run().table
    assert table.num_rows == 300
    assert set(table["n"].to_pylist()) == {1}


def test_a_query_resumed_in_the_middle_goes_on_undisturbed() -> None:
    """From bytes; what is emitted is what one query would have emitted."""
    rng = Random(3)
    times = [10 * i - rng.randrange(60) for i in range(60)]
    rows = _rows(times)
    seen: dict[bool, list[dict[str, Any]]] = {}
    for resumed in (False, True):
        emitted: list[dict[str, Any]] = []
        state = None
        for first in range(0, 60, 20):
            source = sw.PushSource(_SCHEMA)
            windows = sw.stream(source, time="at").hopping(30, 10).group_by("k")
            early = windows.aggregate_early(patience=40, late=sw.Late.drop(), **_WHAT)
            if resumed or not first:
                taken = partial(lambda out, batch: out.extend(batch.to_pylist()), emitted)
                query = early.open(taken, clock=sw.ManualClock(), resume=state)
                live = source
            for row in rows.slice(first, 20).to_pylist():
                live.push(row)
                query.work()
            if resumed and first < 40:
                state = pickle.loads(pickle.dumps(query.snapshot()))  # noqa: S301 - our own bytes
        query.close()
        seen[resumed] = emitted
    assert seen[True] == seen[False]
    assert {row["change"] for row in seen[True]} == {"insert", "remove"}


_AGREEMENTS = [
    None,
    sw.Agreement.first(),
    sw.Agreement.leading(),
    sw.Agreement.quorum_of(1),
    sw.Agreement.half_frozen(),
]


@pytest.mark.parametrize("agreement", _AGREEMENTS, ids=str)
@given(times=_TIMES, seed=st.integers(0, 10**6))
def test_replicas_that_answer_early_are_merged(agreement: sw.Agreement | None, times: list[int], seed: int) -> None:
    """Each has the rows in another order; the merged answers are those of all rows."""
    rng, table = Random(seed), _rows(times)
    what: dict[str, Any] = {"n": sw.count(), "total": sw.sum("v")}
    replicas = []
    for _ in range(2):
        order = rng.sample(range(len(times)), len(times))
        windows = sw.stream(table.take(pa.array(order, pa.int64())), time="at").tumbling(10).group_by("k")
        # The patience is more than any row is late.
        replicas.append(windows.aggregate_early(patience=61, every=sw.Every.rows(4), **what))
    merged = sw.merge_replicas(*replicas) if agreement is None else sw.merge_replicas(*replicas, agreement=agreement)
    assert "case R3" in merged.explain()
    settled = merged.settle() if isinstance(merged, sw.RevisedStream) else merged
    expected = sw.stream(table, time="at").sort().tumbling(10).group_by("k").aggregate(**what).run()
    assert _as_multiset(settled.run().table.to_pylist()) == _as_multiset(expected.table.to_pylist())


def test_columns_that_nobody_reads_are_left_out_where_late_rows_are_dropped() -> None:
    """As on the way to any aggregate."""
    windows = sw.stream(_rows([1]), time="at").tumbling(10).group_by("k")
    assert (
        "only these columns are read"
        in windows.aggregate_early(patience=5, late=sw.Late.drop(), n=sw.count()).explain()
    )


def test_what_cannot_be_emitted_early_is_refused() -> None:
    """No aggregate, no window, no end in sight, and choices that go with a patience."""
    rows = sw.stream(_rows([1]), time="at")
    grouped = rows.tumbling(10).group_by("k")
    with pytest.raises(PlanError, match="aggregate_early was given no aggregates"):
        grouped.aggregate_early(patience=5)
    with pytest.raises(PlanError, match="this is not an aggregate"):
        grouped.aggregate_early(patience=5, n=sw.count)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="aggregate_early needs windows"):
        rows.group_by("k").aggregate_early(patience=5, n=sw.count())
    with pytest.raises(NeedsOrder, match="the answers of this step would never become final"):
        grouped.aggregate_early(n=sw.count())
    choices: list[dict[str, Any]] = [{"every": sw.Every.rows(1)}, {"late": sw.Late.drop()}]
    for choice in choices:
        with pytest.raises(PlanError, match="every= and late= need a patience"):
            grouped.aggregate_early(n=sw.count(), **choice)
