"""Latent streams put together: rows pass at once, whatever the other inputs do."""

from __future__ import annotations

import pyarrow as pa

from slackwater.events.batch import EventBatch
from slackwater.operators.pass_through import PassThroughOperator


def _rows(*values: int) -> EventBatch:
    return EventBatch.inserts(pa.record_batch({"v": pa.array(values, pa.int64())}), [0] * len(values))


def test_rows_pass_at_once_from_every_input() -> None:
    """Nobody is waited for, nothing is held."""
    operator = PassThroughOperator()
    for port in (1, 0, 2):
        batch = _rows(port)
        assert operator.on_batch(port, batch).batches == (batch,)
        assert operator.idle_waiting_on() is None
        assert operator.buffered() == 0


def test_punctuations_of_one_input_are_left_out() -> None:
    """They would say too much about the others."""
    operator = PassThroughOperator()
    assert operator.on_batch(0, _rows().punctuation(5)).batches == ()
    (out,) = operator.on_batch(0, EventBatch.concat([_rows(1), _rows().punctuation(5), _rows(2)])).batches
    out.check()
    assert out.payload.column("v").to_pylist() == [1, 2]
    assert out.last_punctuation() is None


def test_empty_batches_and_ends_say_nothing() -> None:
    """There is nothing to flush and nothing to remember."""
    operator = PassThroughOperator()
    assert operator.on_batch(0, _rows()).batches == ()
    assert operator.on_end(0).batches == ()
    assert operator.snapshot() is None  # type: ignore[func-returns-value]
