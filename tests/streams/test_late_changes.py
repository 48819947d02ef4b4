"""sw.changes(..., late=...): a log that contradicts its own punctuations does not end the query."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import BrokenPunctuation, PlanError

_ROWS: list[dict[str, Any]] = [
    {"change": "insert", "at": 1, "until": 4, "until_before": None, "k": "a"},
    {"change": "punctuate", "at": 5, "until": None, "until_before": None, "k": None},
    {"change": "insert", "at": 3, "until": 8, "until_before": None, "k": "late"},
    {"change": "adjust", "at": 3, "until": 9, "until_before": 8, "k": "late"},
    {"change": "insert", "at": 6, "until": 7, "until_before": None, "k": "b"},
]


_SCHEMA = pa.Table.from_pylist(_ROWS).schema


def _log(rows: list[dict[str, Any]] = _ROWS, **options: Any) -> sw.RevisedStream:
    return sw.changes(rows, time="at", until="until", schema=_SCHEMA, **options)


@pytest.mark.parametrize("keyed", [False, True])
def test_late_changes_are_diverted_and_the_rest_goes_on(keyed: bool) -> None:
    """With the bound that they missed; a change of an event that came late goes with it."""
    result = _log(late=sw.Late.divert(), keyed=keyed).settle().run()
    assert result.table["k"].to_pylist() == ["a", "b"]
    assert result.late.to_pylist() == [
        {"at": 3, "until": 8, "k": "late", "change": "insert", "until_before": None, "late_bound": 5, "late_by": 2},
        {"at": 3, "until": 9, "k": "late", "change": "adjust", "until_before": 8, "late_bound": 5, "late_by": 0},
    ]
    assert result.counters["late_changes#1"].late == 2


def test_late_changes_are_dropped_and_counted_or_refused() -> None:
    """As for any other step with a policy; without one they are refused by the source."""
    dropped = _log(late=sw.Late.drop()).settle().run()
    assert dropped.table["k"].to_pylist() == ["a", "b"]
    assert dropped.counters["late_changes#1"].late == 2
    with pytest.raises(BrokenPunctuation, match="step 'late_changes#1'"):
        _log(late=sw.Late.raise_error()).run()
    with pytest.raises(BrokenPunctuation, match="source 'source#1'"):
        _log().run()


def test_rows_in_are_rows_out_and_late_rows_of_a_live_log() -> None:
    """Each batch is checked by the punctuations before it, whoever pushed them."""
    source = sw.PushSource({"change": pa.string(), "at": pa.int64(), "k": pa.string()}, name="log")
    out: list[Any] = []
    late: list[Any] = []
    log = sw.changes(source, time="at", late=sw.Late.divert())
    with log.open(
        lambda rows: out.extend(rows.to_pylist()), on_late=lambda rows: late.extend(rows.to_pylist())
    ) as query:
        for change, at in (("insert", 1), ("punctuate", 4), ("insert", 2), ("remove", 1), ("insert", 4)):
            source.push({"change": change, "at": at, "k": "a"})
            query.work()
    assert [(row["change"], row["at"]) for row in out] == [("insert", 1), ("insert", 4)]
    assert [(row["change"], row["at"], row["late_by"]) for row in late] == [("insert", 2, 2), ("remove", 1, 3)]


def test_a_replica_that_contradicts_itself_stays_if_its_late_changes_have_a_place_to_go() -> None:
    """Otherwise it leaves, as ever (docs/decisions/0025)."""
    sound = [row for row in _ROWS if row["k"] != "late"]
    for late, left in ((None, 1), (sw.Late.drop(), 0)):
        replicas = _log(late=late), _log(sound)
        merged = sw.merge_replicas(*replicas).run()
        assert merged.table["k"].to_pylist() == ["a", "b"]
        assert merged.counters["merge_replicas#1"].left == left


def test_policies_that_mean_nothing_here_are_refused() -> None:
    """To move a change would make another event of it; without punctuations nothing is late."""
    with pytest.raises(PlanError, match="late changes cannot be adjusted"):
        _log(late=sw.Late.adjust())
    with pytest.raises(PlanError, match="late= needs punctuations in the change log"):
        _log(late=sw.Late.drop(), punctuated=False)
    with pytest.raises(PlanError, match="late= takes a Late policy"):
        _log(late="drop")
    with pytest.raises(PlanError, match="nobody takes them"):
        _log(late=sw.Late.divert()).open(lambda _: None)
