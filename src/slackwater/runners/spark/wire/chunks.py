"""Chunks: rows that are moved and stored together, so many and no more, in number and in bytes.

To Spark a chunk is one value. Few large ones cost less than many small ones, until one is so large that Java, which
copies it several times on its way, has no room for it.

Cost: a chunk that is put together of several batches is copied; bytes are counted in O(columns), and where rows must be
cut by bytes, in O(columns * log rows).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

CHUNK_ROWS: Final = 65_536
"""Rows of a chunk: enough to make Spark's cost for a row small, and a block of the sort."""

CHUNK_BYTES: Final = 4 << 20
"""Bytes of a chunk, unless a single row has more: a block of the sort, in rows of 64 bytes."""


def in_chunks(
    batches: Iterable[pa.RecordBatch], chunk_rows: int = CHUNK_ROWS, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[pa.RecordBatch]:
    """Put batches together, and cut them, to chunks as large as they may be; only the last may be smaller.

    >>> [chunk.num_rows for chunk in in_chunks([pa.record_batch({"x": list(range(10))})], chunk_rows=4)]
    [4, 4, 2]
    >>> [chunk.num_rows for chunk in in_chunks([pa.record_batch({"x": list(range(10))})], chunk_bytes=24)]
    [3, 3, 3, 1]
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        left = batch
        while left.num_rows:
            taken = left.slice(0, _fitting(left, chunk_rows - rows, chunk_bytes - size, at_least=0 if waiting else 1))
            left = left.slice(taken.num_rows)
            if taken.num_rows:
                waiting.append(taken)
                rows, size = rows + taken.num_rows, size + taken.nbytes
            if left.num_rows or rows == chunk_rows:
                yield _joined(waiting)
                waiting, rows, size = [], 0, 0
    if waiting:
        yield _joined(waiting)


def places_of_chunks(rows: pa.RecordBatch, chunk_bytes: int = CHUNK_BYTES) -> list[tuple[int, int]]:
    """Where rows are to be cut so that no part has more bytes than a chunk: first row and stop of each part.

    >>> places_of_chunks(pa.record_batch({"x": list(range(5))}), 16)
    [(0, 2), (2, 4), (4, 5)]
    """
    places, first = [], 0
    while first < rows.num_rows:
        left = rows.slice(first)
        places.append((first, first + _fitting(left, left.num_rows, chunk_bytes, at_least=1)))
        first = places[-1][1]
    return places or [(0, 0)]


def _fitting(batch: pa.RecordBatch, most_rows: int, most_bytes: int, *, at_least: int) -> int:
    """How many of the first rows of a batch have no more bytes than that."""
    rows = min(int(batch.num_rows), most_rows)
    if batch.slice(0, rows).nbytes <= most_bytes:
        return rows
    fits, too_many = 0, rows
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if batch.slice(0, middle).nbytes <= most_bytes:
            fits = middle
        else:
            too_many = middle
    return max(fits, at_least)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)  # which would copy one, too
