"""Packing: chunks of one size whatever comes in, and arrivals in the order of tasks whatever order they come in."""

from __future__ import annotations

import pyarrow as pa
import pytest

from slackwater.events.batch import EventBatch
from slackwater.runners.spark.arrow_bytes import to_buffer
from slackwater.runners.spark.packing import Arrivals, PackedRow, as_rows, in_chunks

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
