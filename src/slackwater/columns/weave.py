"""Lays ordered insert-only batches together into one ordered batch, all columns at once."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from slackwater.events.batch import EventBatch
from slackwater.events.gather import gather_column, no_columns
from slackwater.kernels.sorting.merge_ordered import merge, weave, weave_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


_WOVEN_WIDTHS = {8, 16, 32, 64}
"""The widths, in bits, for which there is a kernel."""


def weave_batches(ordered: Sequence[EventBatch]) -> EventBatch:
    """Merge ordered batches into one; ties keep the order of the arguments.

    The two smallest neighbours are merged first, so that no row is moved more often than it must be.
    Cost: each row is copied once per merge it takes part in, O(log batches) times for equal sizes.
    """
    batches = list(ordered)
    while len(batches) > 1:
        sizes = [len(first) + len(second) for first, second in itertools.pairwise(batches)]
        least = sizes.index(min(sizes))
        batches[least : least + 2] = [_weave_two(batches[least], batches[least + 1])]
    return batches[0]


def _weave_two(a: EventBatch, b: EventBatch) -> EventBatch:
    if not len(a) or not len(b):
        return a if len(a) else b
    if a.start[-1] <= b.start[0]:
        return EventBatch.concat([a, b])
    start, from_b = merge(a.start, b.start)
    end = None if a.end is None and b.end is None else weave(from_b, a.ends(), b.ends()).view(np.int64)
    order: pa.Array | None = None
    columns = []
    for column_a, column_b in zip(a.payload.columns, b.payload.columns, strict=True):
        if _has_fixed_width(column_a) and _has_fixed_width(column_b):
            columns.append(_weave_column(from_b, column_a, column_b))
            continue
        order = pa.array(weave_order(from_b)) if order is None else order
        columns.append(gather_column([column_a, column_b], order))
    payload = pa.RecordBatch.from_arrays(columns, schema=a.payload.schema) if columns else no_columns(len(start))
    return EventBatch(payload, start, end)


def _has_fixed_width(column: pa.Array) -> bool:
    return bool(pa.types.is_primitive(column.type)) and column.type.bit_width in _WOVEN_WIDTHS and not column.null_count


def _weave_column(from_b: NDArray[np.bool_], a: pa.Array, b: pa.Array) -> pa.Array:
    woven = weave(from_b, _bits(a), _bits(b))
    return pa.Array.from_buffers(a.type, len(woven), [None, pa.py_buffer(woven)])


def _bits(column: pa.Array) -> NDArray[np.generic]:
    """The column's values as integers of their width, without a copy."""
    width = column.type.bit_width // 8
    values = np.frombuffer(column.buffers()[1], dtype=f"i{width}")
    return values[column.offset : column.offset + len(column)]
