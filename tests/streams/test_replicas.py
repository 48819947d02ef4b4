"""merge_replicas: each event once, whoever tells it, by the cheapest case that allows what is known."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.errors import NeedsOrder, PlanError, SchemaMismatch
from slackwater.plan.merging_steps import Case, MergeReplicas
from slackwater.plan.node import walk

if TYPE_CHECKING:
    from slackwater.streams.event_stream import EventStream

_ROWS = [{"at": at, "k": "ab"[at % 2], "v": at * at} for at in range(12)]


def _ordered(rows: list[dict[str, object]]) -> sw.OrderedStream:
    schema = pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64()})
    return sw.stream(pa.Table.from_pylist(rows, schema), time="at").assume_ordered()


def _case(stream: EventStream) -> Case:
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
def test_answers_of_several_replicas_are_told_once(keys: tuple[str, ...]) -> None:
    """In order, whichever is read first."""
    whole = _counts(_ordered(_ROWS), *keys).run().table
    merged = sw.merge_replicas(*(_counts(_ordered(_ROWS), *keys) for _ in range(3)))
    assert merged.run().table.equals(whole)


@given(cut=st.integers(0, 12), copies=st.integers(1, 3), seed=st.integers(0, 100))
def test_rows_of_which_nothing_is_known_are_told_as_often_as_they_are(cut: int, copies: int, seed: int) -> None:
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


def test_what_cannot_be_merged_is_refused_when_it_is_written() -> None:
    """Other columns, no progress, no streams, an agreement that would revise what nobody takes revisions of."""
    ordered = _ordered(_ROWS)
    with pytest.raises(SchemaMismatch, match="merge_replicas takes streams of the same columns"):
        sw.merge_replicas(ordered, ordered.select("k"))
    with pytest.raises(NeedsOrder):
        sw.merge_replicas(ordered, sw.stream(_ROWS, time="at"))
    with pytest.raises(PlanError, match="takes streams"):
        sw.merge_replicas([ordered, ordered])  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="no step takes the revisions"):
        sw.merge_replicas(ordered, ordered, agreement=sw.Agreement.first())
