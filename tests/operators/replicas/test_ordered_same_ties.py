"""same_tie_order: case R1, emitted as the paper's algorithm does, and a replica with other ties is refused."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import BadElement
from slackwater.events.elements import Insert, Punctuate, batch_of, elements_of
from slackwater.operators.replicas.ordered_same_ties import MergeOrderedSameTies
from slackwater.testing.merging_cases import tables_with_duplicates
from slackwater.testing.oracles.merging import R1
from slackwater.testing.presentations import Presentation, present

if TYPE_CHECKING:
    from slackwater.temporal.table import TemporalTable

_PAYLOAD = pa.schema({"k": pa.string(), "v": pa.int64()})
_NO_ROWS = batch_of([], _PAYLOAD).payload


@given(table=tables_with_duplicates(), seed=st.integers(0, 10**6), replicas=st.integers(1, 4), restore=st.booleans())
def test_the_output_is_that_of_the_papers_algorithm(
    table: TemporalTable, seed: int, replicas: int, restore: bool
) -> None:
    """Element by element, restored or not."""
    sent, rng = present(table, seed, Presentation(punctuations=0.3)), Random(seed)
    merge, oracle = MergeOrderedSameTies(replicas, _NO_ROWS), R1(replicas)
    waiting = [list(sent) for _ in range(replicas)]
    while any(waiting):
        port = rng.choice([port for port, left in enumerate(waiting) if left])
        part = [waiting[port].pop(0) for _ in range(min(len(waiting[port]), rng.randint(1, 3)))]
        if restore:
            merge = MergeOrderedSameTies(replicas, _NO_ROWS, resume=merge.snapshot())
        out = [one for batch in merge.on_batch(port, batch_of(part, _PAYLOAD)).batches for one in elements_of(batch)]
        assert out == [one for element in part for one in oracle.take(port, element)]
        merge.check()


def test_a_replica_with_other_ties_is_refused_with_the_row() -> None:
    """Sent in one batch or row by row; counting alone would lose one row and double the other."""
    rows = [Insert(("a", 1), 3, 4), Insert(("b", 1), 3, 4)]
    for part in (rows[::-1], rows[1:]):
        merge = MergeOrderedSameTies(2, _NO_ROWS)
        merge.on_batch(0, batch_of(rows, _PAYLOAD))
        with pytest.raises(BadElement) as refused:
            merge.on_batch(1, batch_of(part, _PAYLOAD))
        assert str(refused.value) == (
            "merge_replicas expects ties in the same order in every replica, and got another row\n"
            "    replica      1\n"
            "    element      insert(('b', 1), 3, 4)\n"
            "    others sent  another row as number 0 of its time\n"
            "    hint: leave same_tie_order=True out if rows of one time may come in any order"
        )


def test_rows_that_are_over_are_not_compared() -> None:
    """A replica that lags behind sends nothing that goes out."""
    merge = MergeOrderedSameTies(2, _NO_ROWS)
    merge.on_batch(0, batch_of([Insert(("a", 1), 3, 4), Insert(("b", 1), 5, 6)], _PAYLOAD))
    assert merge.on_batch(1, batch_of([Insert(("x", 1), 3, 4)], _PAYLOAD)).batches == ()
    merge.on_batch(0, batch_of([Punctuate(9)], _PAYLOAD))
    assert merge.on_batch(1, batch_of([Insert(("x", 1), 5, 6)], _PAYLOAD)).batches == ()
