"""Rows as bytes and back: Arrow's stream format, one batch with its schema."""

from __future__ import annotations

import pyarrow as pa


def to_buffer(rows: pa.RecordBatch) -> pa.Buffer:
    """Write rows, of a slice only what it shows. Cost: one copy."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return sink.getvalue()


def from_buffer(data: bytes | pa.Buffer) -> pa.RecordBatch:
    """Read rows without a copy: their columns lie in the bytes given.

    >>> from_buffer(to_buffer(pa.record_batch({"x": [1, 2]}))).to_pydict()
    {'x': [1, 2]}
    """
    with pa.ipc.open_stream(data) as stream:
        return stream.read_next_batch()
