"""Puts punctuations between the rows of a batch, and takes them out again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from slackwater.events.batch import EventBatch
from slackwater.events.kinds import Kind
from slackwater.kernels.progress.split_by_lateness import put_between

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from slackwater.events.batch import Times


def insert_punctuations(rows: EventBatch, places: NDArray[np.int64], punctuations: Times) -> EventBatch:
    """Return inserts with punctuations between them, each before the row whose number is its place; none fall.

    >>> import pyarrow as pa
    >>> rows = EventBatch.inserts(pa.record_batch({"x": ["a", "b"]}), start=[3, 5])
    >>> insert_punctuations(rows, np.array([1, 2]), np.array([4, 6])).start.tolist()
    [3, 4, 5, 6]
    """
    if not len(punctuations):
        return rows
    kind = np.zeros(len(rows) + len(punctuations), dtype=np.int8)
    kind[places + np.arange(len(punctuations))] = Kind.PUNCTUATE
    end = None if rows.end is None else put_between(rows.end, places, punctuations)
    return EventBatch(rows.payload, put_between(rows.start, places, punctuations), end, kind)


def split_punctuations(batch: EventBatch) -> tuple[EventBatch, NDArray[np.int64], Times]:
    """Return the inserts of a batch, how many of them come before each punctuation, and the punctuations.

    >>> import pyarrow as pa
    >>> rows = EventBatch.inserts(pa.record_batch({"x": ["a", "b"]}), start=[3, 5])
    >>> _, places, punctuations = split_punctuations(insert_punctuations(rows, np.array([1, 2]), np.array([4, 6])))
    >>> places.tolist(), punctuations.tolist()
    ([1, 2], [4, 6])
    """
    data, punctuated_at = batch.data(), batch.punctuated_at()
    rows = data if data.kind is None else EventBatch(data.payload, data.start, data.end)
    return rows, punctuated_at - np.arange(len(punctuated_at)), batch.start[punctuated_at]
