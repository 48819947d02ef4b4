"""merge_replicas: each event once, whoever sends it, by the cheapest case that allows what is known."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import BadElement, NeedsOrder, PlanError, SchemaMismatch
from slackwater.plan.node import walk
from slackwater.plan.nodes.replicas import Case, MergeReplicas
from slackwater.policies.agreement import Revise
from slackwater.testing.change_rows import change_rows, change_schema, events_of
from slackwater.testing.merging_cases import keyed_tables, tables_with_duplicates
from slackwater.testing.presentations import Presentation, present
from slackwater.testing.tables import assert_same_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slackwater.events.elements import Element
    from slackwater.streams.event_stream import EventStream
    from slackwater.streams.stream import Stream
    from slackwater.temporal.table import TemporalTable

_ROWS = [{"at": at, "k": "ab"[at % 2], "v": at * at} for at in range(12)]


def _ordered(rows: list[dict[str, object]]) -> sw.OrderedStream:
    schema = pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64()})
    return sw.stream(pa.Table.from_pylist(rows, schema), time="at").assume_ordered()


def _case(stream: Stream) -> Case:
    (merge,) = [node for node in walk(stream.node) if isinstance(node, MergeReplicas)]
    return merge.case


def _counts(stream: EventStream, *keys: str) -> sw.OrderedStream:
    return stream.tumbling(3).group_by(*keys).aggregate(n=sw.count())


def test_the_case_follows_from_what_is_known() -> None:
    """Windowed aggregates are strictly ordered, grouped ones have a key; of rows nothing is known."""
    blue, green = _ordered(_ROWS), _ordered(_ROWS)
    assert _case(sw.merge_replicas(_counts(blue), _counts(green))) is Case.R0
    assert _case(sw.merge_replicas(_counts(blue, "k"), _counts(green, "k"))) is Case.R2
    assert _case(sw.merge_replicas(_counts(blue), _counts(green, "k").select("n"))) is Case.R4
    assert _case(sw.merge_replicas(blue, green)) is Case.R4
    assert _case(sw.merge_replicas(_counts(blue, "k").hopping(6, 3), _counts(green, "k").hopping(6, 3))) is Case.R3


def test_explain_says_the_case_and_why() -> None:
    """In the line of the step."""
    text = sw.merge_replicas(_counts(_ordered(_ROWS)), _counts(_ordered(_ROWS))).explain()
    assert text.startswith("merge_replicas#1 of 2, case R0")
    assert "the newest time is all that is remembered" in text


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_answers_of_several_replicas_are_emitted_once(keys: tuple[str, ...]) -> None:
    """In order, whichever is read first."""
    whole = _counts(_ordered(_ROWS), *keys).run().table
    merged = sw.merge_replicas(*(_counts(_ordered(_ROWS), *keys) for _ in range(3)))
    assert merged.run().table.equals(whole)


@given(cut=st.integers(0, 12), copies=st.integers(1, 3), seed=st.integers(0, 100))
def test_rows_of_which_nothing_is_known_are_emitted_as_often_as_they_are(cut: int, copies: int, seed: int) -> None:
    """Equal rows count; a replica that ends early takes none away."""
    rng = Random(seed)
    rows = sorted((row for row in _ROWS for _ in range(rng.randint(1, 2))), key=lambda row: int(str(row["at"])))
    replicas = [_ordered(rows) for _ in range(copies)] + [_ordered(rows[:cut])]
    merged = sw.merge_replicas(*replicas)
    assert merged.run().table.to_pylist() == rows
    assert sw.merge_replicas(*reversed(replicas)).run().table.num_rows == len(rows)


def test_disordered_replicas_with_punctuations_are_merged() -> None:
    """Windows that overlap come in no order, and say how far they are complete."""
    one = _counts(_ordered(_ROWS), "k").hopping(6, 3)
    merged = sw.merge_replicas(one, *(_counts(_ordered(_ROWS), "k").hopping(6, 3) for _ in range(2)))
    order = [("window_start", "ascending"), ("window_start_before", "ascending"), ("k", "ascending")]
    assert merged.run().table.sort_by(order).equals(one.sort().run().table.sort_by(order))


# ---- revised replicas ------------------------------------------------------------------------------------------------


_PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64()})
_REVISED = Presentation(disorder=5, early_values=0.5, removed_extras=0.3, punctuations=0.3)
_AGREEMENTS = [
    sw.Agreement.first(),
    sw.Agreement.first().revising(Revise.ALWAYS),
    sw.Agreement.quorum_of(0.5),
    sw.Agreement.leading().revising(Revise.LEADING),
    sw.Agreement.newest(),
    sw.Agreement.fullest(),
    sw.Agreement.half_frozen().lagging(3),
    sw.Agreement.frozen(),
]


def _revised(elements: Iterable[Element], *, keyed: bool = True) -> sw.RevisedStream:
    table = pa.Table.from_pylist(change_rows(elements, _PAYLOAD), change_schema(_PAYLOAD))
    return sw.changes(table, time="at", until="until", keyed=keyed)


def _events(rows: pa.Table) -> list[Element]:
    return [*events_of(rows.to_pylist())]


@given(
    table=keyed_tables(),
    seed=st.integers(0, 10**6),
    replicas=st.integers(1, 3),
    agreement=st.sampled_from(_AGREEMENTS),
    cut=st.integers(1, 6),
)
def test_revised_replicas_come_to_the_table_by_every_agreement(
    table: TemporalTable, seed: int, replicas: int, agreement: sw.Agreement, cut: int
) -> None:
    """However they are sent, cut and interleaved; what is emitted on the way is a log by itself."""
    streams = [_revised(present(table, seed + port, _REVISED)) for port in range(replicas)]
    merged = sw.merge_replicas(*streams, agreement=agreement)
    assert isinstance(merged, sw.OrderedStream if agreement == sw.Agreement.frozen() else sw.RevisedStream)
    seen: list[pa.RecordBatch] = []
    with merged.open(seen.append, batch_rows=cut) as query:
        query.run_to_end()
    log = pa.Table.from_batches(seen, merged.schema)
    if isinstance(merged, sw.RevisedStream):
        again = sw.changes(log, time="at", until="until", keyed=True)
        assert_same_table(_events(again.settle().run().table), table)
    else:
        assert_same_table(_events(log), table)
    assert_same_table(_events(merged.settle().run().table), table)


@given(table=tables_with_duplicates(), seed=st.integers(0, 10**6), first=st.booleans())
def test_equal_events_of_revised_replicas_count(table: TemporalTable, seed: int, first: bool) -> None:
    """Emitted at once, or when they are frozen."""
    streams = [_revised(present(table, seed + port, _REVISED), keyed=False) for port in range(2)]
    merged = sw.merge_replicas(*streams, agreement=sw.Agreement.first() if first else sw.Agreement.frozen())
    assert_same_table(_events(merged.settle().run().table), table)


@given(table=tables_with_duplicates(), seed=st.integers(0, 10**6), replicas=st.integers(1, 3), cut=st.integers(1, 6))
def test_settled_replicas_are_merged_row_by_row(table: TemporalTable, seed: int, replicas: int, cut: int) -> None:
    """Settling puts ties in one order, whoever sends them (case R1, which compares them)."""
    streams = [_revised(present(table, seed + port, _REVISED), keyed=False).settle() for port in range(replicas)]
    merged = sw.merge_replicas(*streams)
    assert _case(merged) is Case.R1
    seen: list[pa.RecordBatch] = []
    with merged.open(seen.append, batch_rows=cut) as query:
        query.run_to_end()
    assert pa.Table.from_batches(seen, merged.schema).equals(streams[0].run().table.combine_chunks())


def test_points_that_are_emitted_early_are_inserted_and_removed() -> None:
    """They have no ends to be revised: the log has no columns for them."""
    sent = [_ordered(_ROWS[:5]).hopping(6, 3), _ordered(_ROWS).hopping(6, 3)]
    points = [stream.select("v").where(nw.col("v") >= 0) for stream in sent]
    early = sw.merge_replicas(*points, agreement=sw.Agreement.first())
    assert early.schema.names == ["window_start", "window_end", "v", "change", "window_end_before"]
    rows = [sw.stream(_ROWS[:cut], time="at").sort(patience=2) for cut in (4, 12)]
    merged = sw.merge_replicas(*rows, agreement=sw.Agreement.first())
    assert merged.schema.names == ["at", "k", "v", "change"]
    assert set(merged.run().table["change"].to_pylist()) == {"insert"}
    assert merged.settle().run().table.to_pylist() == _ROWS


# ---- ties in the same order ------------------------------------------------------------------------------------------


@given(copies=st.integers(1, 3), cut=st.integers(0, 30), seed=st.integers(0, 100))
def test_ties_that_are_declared_to_come_alike_are_emitted_once_each(copies: int, cut: int, seed: int) -> None:
    """Equal rows too, as often as they are there, whoever ends early."""
    rng = Random(seed)
    rows = sorted(({"at": rng.randint(0, 5), "k": rng.choice("ab"), "v": 1} for _ in range(30)), key=_time)
    replicas = [_ordered(rows[:cut]), *(_ordered(rows) for _ in range(copies))]
    merged = sw.merge_replicas(*replicas, same_tie_order=True)
    assert _case(merged) is Case.R1
    assert merged.run().table.to_pylist() == rows


def _time(row: dict[str, Any]) -> int:
    return int(row["at"])


def test_ties_that_do_not_come_alike_are_an_error_that_names_the_row() -> None:
    """Where the user declared that they do."""
    rows = [{"at": 1, "k": "a", "v": 1}, {"at": 1, "k": "b", "v": 1}]
    with pytest.raises(BadElement) as refused:
        sw.merge_replicas(_ordered(rows), _ordered(rows[::-1]), same_tie_order=True).run()
    assert "expects ties in the same order in every replica" in str(refused.value)
    assert "insert(('b', 1), 1, 2)" in str(refused.value)


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_what_cannot_be_merged_is_refused_when_it_is_written() -> None:
    """Other columns, no progress, no streams."""
    ordered = _ordered(_ROWS)
    with pytest.raises(SchemaMismatch, match="merge_replicas takes streams of the same columns"):
        sw.merge_replicas(ordered, ordered.select("k"))
    with pytest.raises(NeedsOrder):
        sw.merge_replicas(ordered, sw.stream(_ROWS, time="at"))
    with pytest.raises(PlanError, match="takes streams"):
        sw.merge_replicas([ordered, ordered])  # type: ignore[call-overload]
