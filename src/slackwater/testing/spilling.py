"""A spillway for tests: rows lie in it as bytes, in blocks so small that a few rows are several of them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from slackwater.columns.spillway import SpilledRows

_FEW_BYTES: Final = 64
"""Two or three rows of small columns."""


class SpillwayInMemory:
    """Keeps rows as bytes, so that whoever reads them gets others than were put there.

    >>> spillway = SpillwayInMemory()
    >>> spilled = spillway.put(pa.record_batch({"x": [1, 2]}))
    >>> spilled.read().to_pydict(), spilled.number
    ({'x': [1, 2]}, 0)
    """

    def __init__(self, block_bytes: int = _FEW_BYTES) -> None:
        self.block_bytes = block_bytes
        self.stored: list[bytes] = []

    def put(self, rows: pa.RecordBatch) -> SpilledRows:
        """Put rows there."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_batch(rows)
        self.stored.append(sink.getvalue().to_pybytes())
        return SpilledRows(len(self.stored) - 1, self._read)

    def _read(self, number: int) -> pa.RecordBatch:
        return pa.ipc.open_stream(self.stored[number]).read_next_batch()
