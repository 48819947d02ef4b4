"""Packing: chunks of one size whatever comes in, and arrivals in the order of tasks whatever order they come in."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw
from slackwater.events.batch import EventBatch
from slackwater.runners.spark.input.pack import packs_of
from slackwater.runners.spark.planning.shard_plan import ShardPlan
from slackwater.runners.spark.shard.arrivals import Arrivals
from slackwater.runners.spark.wire.arrow_bytes import to_buffer
from slackwater.runners.spark.wire.chunks import CHUNK_BYTES, in_chunks
from slackwater.runners.spark.wire.packed_rows import PackedRow, as_rows

_ROWS = pa.record_batch({"n": list(range(10))})


@pytest.mark.parametrize("cuts", [[10], [0, 10], [1] * 10, [3, 4, 3], [4, 0, 4, 2], [0]])
def test_batches_arein_chunks_and_cut_to_chunks_of_one_size(cuts: list[int]) -> None:
    """In their order; only the last may be smaller."""
    batches, first = [], 0
    for length in cuts:
        batches.append(_ROWS.slice(first, length))
        first += length
    chunks = list(in_chunks(batches, 4))
    sizes = [4] * (first // 4) + ([first % 4] if first % 4 else [])
    assert [chunk.num_rows for chunk in chunks] == sizes
    assert [n for chunk in chunks for n in chunk.column("n").to_pylist()] == list(range(first))


@given(st.lists(st.lists(st.integers(0, 60), max_size=12), max_size=6), st.integers(1, 9), st.integers(20, 200))
def test_no_chunk_has_more_bytes_than_it_may_but_for_one_row(
    lengths: list[list[int]], chunk_rows: int, chunk_bytes: int
) -> None:
    """Nor more rows; and with the first row of the next it would have more."""
    batches = [pa.record_batch({"n": ["x" * one for one in some]}, _TEXTS) for some in lengths]
    chunks = list(in_chunks(batches, chunk_rows, chunk_bytes))
    texts = [text for batch in batches for text in batch.column(0).to_pylist()]
    assert [text for chunk in chunks for text in chunk.column(0).to_pylist()] == texts
    first = 0
    for number, chunk in enumerate(chunks):
        assert chunk.num_rows <= chunk_rows
        assert chunk.nbytes <= chunk_bytes or chunk.num_rows == 1
        first += chunk.num_rows
        if number < len(chunks) - 1 and chunk.num_rows < chunk_rows:
            assert _size([*chunk.column(0).to_pylist(), texts[first]]) > chunk_bytes - 4 * len(batches)


_TEXTS = pa.schema({"n": pa.string()})


def _size(texts: list[str]) -> int:
    return int(pa.record_batch({"n": texts}, _TEXTS).nbytes)


def test_rows_that_steps_have_made_wider_are_cut_once_more() -> None:
    """What is packed has no more bytes than a chunk, though it was a few numbers before; nothing is lost."""
    source = sw.PushSource({"at": pa.int64()}, name="numbers")

    def widened(rows: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"text": pa.array(["x" * 10_000] * rows.num_rows)})

    ordered = sw.stream(source, time="at").map_batches(widened).sort(patience=5, late=sw.Late.drop())
    plan = ShardPlan.of({"main": ordered.node}, 1)
    (pack,) = packs_of(plan)
    *chunks, statistics = pack.packed(0, [pa.record_batch({"at": list(range(1_500))})])
    assert [chunk.number for chunk in chunks] == [0, 1, 2, 3]
    assert all(len(chunk.body or b"") < CHUNK_BYTES + 10_000 for chunk in chunks)
    assert sum(chunk.rows for chunk in chunks) == statistics.rows == 1_500


def _events(n: int) -> EventBatch:
    return EventBatch.inserts(pa.record_batch({"n": [n]}), start=[n])


def test_arrivals_are_in_the_order_of_their_tasks() -> None:
    """A shuffle keeps no order; statistics may come first or last, and from tasks that sent no rows here."""
    arrivals = Arrivals()
    for task, number, high_water in ((1, 0, 7), (0, 1, 5), (2, -1, 90), (0, -1, 5), (0, 0, 4), (1, -1, 7)):
        body = None if number < 0 else to_buffer(as_rows(_events(10 * task + number))).to_pybytes()
        arrivals.add(PackedRow(0, 0, task, number, 1, high_water, body))
    arrivals.add(PackedRow(0, 1, 0, 0, 1, 3, to_buffer(as_rows(_events(99))).to_pybytes()))
    no_rows = _events(0).payload.slice(0, 0)
    assert [batch.payload["n"][0].as_py() for batch in arrivals.events(0, no_rows)] == [0, 1, 10]
    assert [batch.start.tolist() for batch in arrivals.events(1, no_rows)] == [[99]]
    assert arrivals.high_water == {0: 90}
    assert arrivals.rows == 4
