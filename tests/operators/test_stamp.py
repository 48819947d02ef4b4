"""Latent events get the processing time, as ticks give it, and never an earlier one than before."""

from __future__ import annotations

import pyarrow as pa

from slackwater.events.batch import EventBatch
from slackwater.operators.stamp import StampOperator
from slackwater.progress.instants import BEGINNING

_NO_ROWS = pa.RecordBatch.from_pylist([], schema=pa.schema({"v": pa.int64()}))


def _rows(*values: int) -> EventBatch:
    return EventBatch.inserts(pa.record_batch({"v": pa.array(values, pa.int64())}), [0] * len(values))


def test_rows_get_the_time_of_the_latest_tick() -> None:
    """All rows of a batch the same, and their payload untouched."""
    operator = StampOperator(_NO_ROWS)
    assert operator.ticks
    operator.on_tick(7)
    batch = _rows(1, 2)
    (out,) = operator.on_batch(0, batch).batches
    out.check()
    assert out.start.tolist() == [7, 7]
    assert out.payload is batch.payload


def test_stamps_never_go_back() -> None:
    """Neither with a tick that does, nor after a restore."""
    operator = StampOperator(_NO_ROWS)
    operator.on_tick(7)
    operator.on_tick(5)
    resumed = StampOperator(_NO_ROWS, operator.snapshot())
    resumed.on_tick(6)
    (out,) = resumed.on_batch(0, _rows(1)).batches
    assert out.start.tolist() == [7]
    resumed.on_tick(9)
    (out,) = resumed.on_batch(0, _rows(1)).batches
    assert out.start.tolist() == [9]


def test_a_fresh_stamp_has_seen_no_time() -> None:
    """Its state is the beginning."""
    assert StampOperator(_NO_ROWS).snapshot() == BEGINNING
    assert StampOperator(_NO_ROWS).on_tick(7).batches == ()


def test_nothing_is_sent_for_nothing() -> None:
    """No rows, no stamps; the end flushes nothing."""
    operator = StampOperator(_NO_ROWS)
    operator.on_tick(7)
    assert operator.on_batch(0, _rows()).batches == ()
    assert operator.on_end(0).batches == ()


def test_ends_are_replaced_with_the_starts() -> None:
    """A stamped event is a point."""
    operator = StampOperator(_NO_ROWS)
    operator.on_tick(7)
    lasting = EventBatch.inserts(pa.record_batch({"v": [1]}), [1], [9])
    (out,) = operator.on_batch(0, lasting).batches
    assert (out.start.tolist(), out.ends().tolist()) == ([7], [8])


def test_a_stamp_that_is_asked_guarantees_the_latest_tick() -> None:
    """Whatever comes will be stamped with it or later; the same again is no news, nor is it after a restore."""
    operator = StampOperator(_NO_ROWS)
    assert operator.on_demand().batches == ()
    operator.on_tick(7)
    (emitted,) = operator.on_demand().batches
    emitted.check()
    assert (emitted.last_punctuation(), emitted.payload.schema) == (7, _NO_ROWS.schema)
    assert operator.on_demand().batches == ()
    assert StampOperator(_NO_ROWS, operator.snapshot()).on_demand().batches == ()
    operator.on_tick(8)
    (emitted,) = operator.on_demand().batches
    assert emitted.last_punctuation() == 8
