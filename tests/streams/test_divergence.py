"""compare_replicas on streams: who contradicts whom, beside a merge, for ordered, disordered and revised replicas."""

from __future__ import annotations

import pyarrow as pa
import pytest

import slackwater as sw
from slackwater.errors import NeedsOrder, PlanError, SchemaMismatch

_ROWS = [{"at": at, "x": "abcdefgh"[at]} for at in range(8)]


def _replica(*left_out: int, rows: int = 8) -> sw.OrderedStream:
    sent = [row for row in _ROWS[:rows] if row["at"] not in left_out]
    return sw.stream(pa.Table.from_pylist(sent), time="at").assume_ordered()


def test_replicas_that_agree_give_no_rows_wherever_one_was_cut_off() -> None:
    """What a replica that ended did not send any more is no contradiction."""
    for rows in range(1, 9):
        assert sw.compare_replicas(_replica(), _replica(rows=rows), _replica()).run().table.num_rows == 0


def test_the_replica_that_differs_from_most_is_named_with_the_row() -> None:
    """One lacks an event, another one has the same; the third is right with the majority."""
    found = sw.compare_replicas(_replica(), _replica(2), _replica(4)).run().table.to_pylist()
    assert found == [
        {"at": 2, "x": "c", "replica": 1, "divergence": "missing"},
        {"at": 4, "x": "e", "replica": 2, "divergence": "missing"},
    ]


def test_two_that_are_complete_are_compared_to_their_ends() -> None:
    """A file that is shorter than the other lacks what it does not have."""
    found = sw.compare_replicas(_replica(), _replica(rows=7), whole=True).run().table.to_pylist()
    assert found == [{"at": 7, "x": "h", "replica": 1, "divergence": "missing"}]


def test_it_runs_beside_a_merge_and_disordered_replicas_are_compared_as_well() -> None:
    """The merge goes on by its own rule; both read each source once."""
    shuffled = [_ROWS[place] for place in (1, 0, 3, 2, 5, 4, 7, 6)]
    blue = sw.stream(shuffled, time="at").sort(2)
    green = sw.stream([row for row in shuffled if row["at"] != 3], time="at").sort(2)
    merged, differ = sw.run_together(sw.merge_replicas(blue, green), sw.compare_replicas(blue, green))
    assert merged.table.num_rows >= 7
    assert differ.table.to_pylist() == [{"at": 3, "x": "d", "replica": 1, "divergence": "missing"}]


def test_a_revised_replica_with_another_end_is_named() -> None:
    """The end that the others have, and its own."""
    log = [
        {"change": "insert", "at": 1, "to": 9, "to_before": None, "x": "a"},
        {"change": "adjust", "at": 1, "to": 5, "to_before": 9, "x": "a"},
    ]
    table = pa.Table.from_pylist(log)
    sent = [sw.changes(table[:rows], time="at", until="to", prior="to_before") for rows in (2, 2, 1)]
    found = sw.compare_replicas(*sent, whole=True).run().table.to_pylist()
    assert [(row["to"], row["replica"], row["divergence"]) for row in found] == [
        (5, 2, "missing end"),
        (9, 2, "different end"),
    ]


def test_what_cannot_be_compared_is_refused_when_it_is_written() -> None:
    """No order, other columns, a clash of names, something else than a stream."""
    with pytest.raises(NeedsOrder):
        sw.compare_replicas(_replica(), sw.stream(_ROWS, time="at"))
    with pytest.raises(SchemaMismatch):
        sw.compare_replicas(_replica(), _replica().select(y="x"))
    renamed = _replica().select(replica="x")
    with pytest.raises(SchemaMismatch, match="replica"):
        sw.compare_replicas(renamed, renamed)
    with pytest.raises(PlanError, match="takes streams"):
        sw.compare_replicas(_replica(), [_replica()])  # type: ignore[arg-type]
