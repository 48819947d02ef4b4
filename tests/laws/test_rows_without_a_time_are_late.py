"""Rows without a time are late, where the user says so: they change nothing else, and none of them is lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from effort import FEWER
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import BadTime, PlanError
from slackwater.plan.nodes.ordering import Punctuate, Sort
from slackwater.policies.lateness import Lateness

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Rows = list[dict[str, Any]]

_SCHEMA = pa.schema({"at": pa.int64(), "to": pa.int64(), "k": pa.string(), "v": pa.int64()})
_EVERY = st.sampled_from([sw.Every.rows(1), sw.Every.rows(4), sw.Every.time(6), sw.Every.batch()])
_ROWS = st.tuples(st.one_of(st.none(), st.integers(0, 40)), st.one_of(st.none(), st.integers(0, 15)))
_PUSHES = st.lists(st.lists(_ROWS, min_size=1, max_size=8), max_size=6)


def _doubled(rows: pa.RecordBatch) -> pa.RecordBatch:
    columns = {name: rows[name] for name in ("at", "to", "k", "v")}
    return pa.record_batch({**columns, "twice": pa.array([2 * v for v in rows["v"].to_pylist()], pa.int64())})


def _checked_behind(windows: sw.DisorderedStream, **options: Any) -> list[sw.OrderedStream]:
    """Check lateness by the times of windows; users' own plans check by the times before them."""
    return [sw.OrderedStream(Sort(Punctuate(windows.node, Lateness((5,), options["every"], options["late"]))))]


PLANS: dict[str, Callable[..., Sequence[sw.OrderedStream]]] = {
    "sort": lambda s, **how: [s.sort(5, **how)],
    "where, by another column": lambda s, **how: [s.where(nw.col("v") % 3 > 0).sort(5, **how)],
    "where, by the time": lambda s, **how: [s.where((nw.col("at") > 9) | (nw.col("v") % 2 == 0)).sort(5, **how)],
    "select": lambda s, **how: [s.select("k", "v", is_late=nw.col("at").is_null()).sort(5, **how)],
    "a function over rows": lambda s, **how: [s.map_batches(_doubled).sort(5, **how)],
    "windows, then sort": lambda s, **how: [s.tumbling(7).sort(5, **how)],
    "overlapping windows, then sort": lambda s, **how: [s.hopping(9, 4).sort(5, **how)],
    "tumbling windows before the patience": lambda s, **how: _checked_behind(s.tumbling(7), **how),
    "hopping windows before the patience": lambda s, **how: _checked_behind(s.hopping(9, 4), **how),
    "windows with gaps before the patience": lambda s, **how: _checked_behind(s.hopping(3, 5), **how),
    "sliding windows before the patience": lambda s, **how: _checked_behind(s.sliding(6), **how),
    "windows of windows before the patience": lambda s, **how: _checked_behind(s.tumbling(4).sliding(6), **how),
    "counts": lambda s, **how: [s.sort(5, **how).tumbling(7).group_by("k").aggregate(n=sw.count())],
    "bands": lambda s, **how: list(s.in_bands(2, 5, 12, **how)),
    "bands of counts": lambda s, **how: list(s.tumbling(7).group_by("k").in_bands(2, 5, 12, n=sw.count(), **how)),
}


@dataclass
class _Given:
    """What a query has given out, output by output, and what it has counted."""

    mains: list[Rows]
    late: Rows = field(default_factory=list)
    counted_late: int = 0
    checked_rows: tuple[int, int] = (0, 0)
    """How many rows have come to the step with the patience, and left it."""


def _run(name: str, pushes: list[Rows], *, batch_rows: int = 1_000, **how: Any) -> _Given:
    source = sw.PushSource(_SCHEMA)
    streams = PLANS[name](sw.stream(source, time="at", until="to", untimed_is_late=True), **how)
    given = _Given([[] for _ in streams])
    sinks = [(stream, _extend(rows)) for stream, rows in zip(streams, given.mains, strict=True)]
    with sw.Query(sinks, clock=sw.ManualClock(), on_late=_extend(given.late), batch_rows=batch_rows) as query:
        for rows in pushes:
            source.push(rows)
            query.work()
        source.close()
        query.run_to_end()
        checked = query.counters()["punctuate#1"]
    given.counted_late, given.checked_rows = checked.late, (checked.rows_in, checked.rows_out)
    return given


def _extend(rows: Rows) -> Callable[[pa.RecordBatch], None]:
    return lambda batch: rows.extend(batch.to_pylist())


def _rows(pushes: list[list[tuple[int | None, int | None]]]) -> list[Rows]:
    """Rows with numbers; some have no time, some no end, and of those without a time some end at any time."""
    made: list[Rows] = []
    for push in pushes:
        first = sum(map(len, made))
        made.append(
            [
                {"at": at, "to": None if lasts is None else (at or 0) + lasts, "k": "ab"[number % 2], "v": number}
                for number, (at, lasts) in enumerate(push, start=first)
            ]
        )
    return made


def _timed(pushes: list[Rows]) -> list[Rows]:
    return [[row for row in push if row["at"] is not None] for push in pushes]


def _spelled(rows: Rows) -> Counter[str]:
    return Counter(map(str, rows))


def _is_untimed(row: dict[str, Any]) -> bool:
    return row["late_by"] is None


@pytest.mark.parametrize("late", [sw.Late.divert(), sw.Late.drop()], ids=str)
@pytest.mark.parametrize("name", PLANS)
@FEWER
@given(pushes=_PUSHES, every=_EVERY)
def test_the_outputs_are_those_of_the_other_rows(
    name: str, late: sw.Late, pushes: list[list[tuple[int | None, int | None]]], every: sw.Every
) -> None:
    """Row by row, in the same order; the late output has all rows without a time besides, and no others."""
    rows = _rows(pushes)
    ours, others = (_run(name, one, every=every, late=late) for one in (rows, _timed(rows)))
    assert ours.mains == others.mains
    assert [row for row in ours.late if not _is_untimed(row)] == others.late
    untimed = [row for push in rows for row in push if row["at"] is None]
    if name == "where, by another column":
        untimed = [row for row in untimed if row["v"] % 3 > 0]
    if name == "where, by the time":
        untimed = [row for row in untimed if row["v"] % 2 == 0]
    diverted = [row for row in ours.late if _is_untimed(row)]
    assert [row["v"] for row in diverted] == ([row["v"] for row in untimed] if late == sw.Late.divert() else [])
    assert all(row["late_bound"] is None for row in diverted)
    assert all(row[time] is None for row in diverted for time in row if time in {"at", "window_start", "window_end"})
    assert ours.counted_late == others.counted_late + len(untimed)
    came, went = ours.checked_rows
    assert came == went + ours.counted_late
    if name == "sort" and late == sw.Late.divert():
        assert _spelled([{key: row[key] for key in _SCHEMA.names} for row in diverted]) == _spelled(untimed)


@pytest.mark.parametrize("name", ["sort", "bands", "windows, then sort"])
@given(pushes=_PUSHES, every=_EVERY)
def test_moved_to_the_bound_they_change_nothing_for_the_others(
    name: str, pushes: list[list[tuple[int | None, int | None]]], every: sw.Every
) -> None:
    """They are in the last band, at a time that it had not closed, or counted as late."""
    rows = _rows(pushes)
    ours, others = (_run(name, one, every=every, late=sw.Late.adjust()) for one in (rows, _timed(rows)))
    untimed = {row["v"] for push in rows for row in push if row["at"] is None}
    for mine, theirs in zip(ours.mains, others.mains, strict=True):
        assert [row for row in mine if row["v"] not in untimed] == theirs
    moved = [row for row in ours.mains[-1] if row["v"] in untimed]
    assert len(moved) + ours.counted_late - others.counted_late == len(untimed)
    assert all(row["v"] not in untimed for main in ours.mains[:-1] for row in main)
    assert all(row["at"] is not None for row in moved)


@given(pushes=_PUSHES, every=_EVERY.filter(lambda every: every != sw.Every.batch()), batch_rows=st.integers(1, 5))
def test_cuts_decide_nothing(
    pushes: list[list[tuple[int | None, int | None]]], every: sw.Every, batch_rows: int
) -> None:
    """Under the policy for which the place of a row matters most: it is moved to the bound that it meets."""
    rows = _rows(pushes)
    whole, cut = (
        _run("bands", rows, every=every, late=sw.Late.adjust(), batch_rows=size) for size in (1_000, batch_rows)
    )
    assert whole == cut


@given(pushes=_PUSHES)
def test_the_first_one_stops_a_query_that_refuses_late_rows(
    pushes: list[list[tuple[int | None, int | None]]],
) -> None:
    """No other row is late here: all have the same time."""
    rows = [[{**row, "at": row["at"] and 3, "to": None} for row in push] for push in _rows(pushes)]
    untimed = [row["v"] for push in rows for row in push if row["at"] is None]
    if not untimed:
        _run("sort", rows, every=sw.Every.rows(1), late=sw.Late.raise_error())
        return
    with pytest.raises(BadTime, match=rf"(?s)without a time, and such rows are late.*'v': {untimed[0]}\b"):
        _run("sort", rows, every=sw.Every.rows(1), late=sw.Late.raise_error())


@given(pushes=_PUSHES)
def test_late_rows_can_be_checked_again(pushes: list[list[tuple[int | None, int | None]]]) -> None:
    """What had no time before has none now."""
    table = pa.Table.from_pylist([row for push in _rows(pushes) for row in push], _SCHEMA)
    late = sw.stream(table, time="at", untimed_is_late=True).sort(5, every=sw.Every.rows(2)).late
    assert late.properties.untimed
    again = late.select("v", first_missed_by="late_by").sort(50).run()
    assert again.table.num_rows + again.late["table#2"].num_rows == late.run().table.num_rows
    numbers = again.late["table#2"]["v"].to_pylist()
    assert [v for v in numbers if table["at"][v].as_py() is None] == [
        v for v, at in enumerate(table["at"].to_pylist()) if at is None
    ]


def test_measures_of_disorder_leave_them_out() -> None:
    """The same profile as without them."""
    times = [3, None, 1, 2, None, 8]
    profiles = [
        sw.stream(pa.table({"at": pa.array(at, pa.int64())}), time="at", untimed_is_late=True).tumbling(1).disorder()
        for at in (times, [at for at in times if at is not None])
    ]
    assert profiles[0] == profiles[1]
    assert profiles[0].events == 4


@pytest.mark.parametrize("kind", [pa.timestamp("ms", "UTC"), pa.date32(), pa.int16()], ids=str)
def test_every_kind_of_time_may_be_missing(kind: pa.DataType) -> None:
    """The late output shows the column in its own type."""
    numbers = pa.array([5, None, 3], pa.int32() if kind == pa.date32() else pa.int64())
    table = pa.table({"at": numbers.cast(kind)})
    ordered = sw.stream(table, time="at", untimed_is_late=True).sort(3 if kind == pa.int16() else "3d")
    result = ordered.run()
    assert result.table["at"].equals(table["at"].take(pa.array([2, 0])))
    late = result.late
    assert late.schema.field("at").type == kind
    assert late.schema.field("at").nullable
    assert [list(row.values()) for row in late.to_pylist()] == [[None, None, None]]


def test_without_the_policy_such_a_row_stops_the_query() -> None:
    """As ever."""
    table = pa.table({"at": pa.array([1, None], pa.int64())})
    with pytest.raises(BadTime, match="got a row without a time"):
        sw.stream(table, time="at").sort(5).run()


def test_what_takes_the_order_or_the_word_of_a_source_on_trust_is_refused() -> None:
    """When it is written."""
    source = sw.PushSource({"at": pa.timestamp("us"), "x": pa.int64()})
    rows = sw.stream([{"at": 1}], time="at", untimed_is_late=True)
    with pytest.raises(PlanError, match=r"(?s)needs a time in every row.*sort\(patience="):
        rows.assume_ordered()
    with pytest.raises(PlanError, match="needs a time in every row"):
        rows.tumbling(5).sort()
    with pytest.raises(PlanError, match="needs a time in every row"):
        rows.sort(5).late.sort()
    with pytest.raises(PlanError, match="does not go with punctuations"):
        sw.stream(source, time="at", punctuations=sw.Punctuations.on_demand(skew="2s"), untimed_is_late=True)
    with pytest.raises(PlanError, match="is True or False"):
        sw.stream(source, time="at", untimed_is_late="late")  # type: ignore[arg-type]
    assert "rows without one are late" in rows.sort(5).explain()
