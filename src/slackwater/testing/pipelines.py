"""A few whole pipelines over two ordered streams, for laws that must hold of every plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import narwhals as nw
import pyarrow as pa

import slackwater as sw

if TYPE_CHECKING:
    from collections.abc import Callable

    from slackwater.events.batch import EventBatch
    from slackwater.streams.stream import Stream

Pipeline: TypeAlias = "Callable[[sw.OrderedStream, sw.OrderedStream], Stream]"
"""Makes a stream of two ordered streams with columns at, k and v."""

ROWS = pa.schema({"at": pa.int64(), "k": pa.string(), "v": pa.int64()})
"""The columns of the two streams: a sequence number as time, a key and a number."""


def _union(a: sw.OrderedStream, b: sw.OrderedStream) -> sw.OrderedStream:
    return sw.union(a, b)


def _row_by_row(a: sw.OrderedStream, b: sw.OrderedStream) -> sw.OrderedStream:
    return sw.union(a.where(nw.col("v") > 1), b).select("k", twice=nw.col("v") * 2)


def _tumbling(a: sw.OrderedStream, b: sw.OrderedStream) -> sw.OrderedStream:
    return sw.union(a, b).tumbling(10).group_by("k").aggregate(n=sw.count(), total=sw.sum("v"), top=sw.top_k("v", 2))


def _hopping(a: sw.OrderedStream, b: sw.OrderedStream) -> sw.OrderedStream:
    return sw.union(a, b).hopping(10, 4).aggregate(n=sw.count(), kinds=sw.count_distinct("k"))


def _sliding(a: sw.OrderedStream, b: sw.OrderedStream) -> sw.OrderedStream:
    return sw.union(a, b).sliding(5).group_by("k").aggregate(n=sw.count(), mean=sw.mean("v"))


def _join(a: sw.OrderedStream, b: sw.OrderedStream) -> sw.OrderedStream:
    return a.join(b, on="k", within=3)


def _overlap(a: sw.OrderedStream, b: sw.OrderedStream) -> sw.OrderedStream:
    return a.sliding(4).join(b.sliding(2).select("k", w="v"), on="k")


def _followed_by(a: sw.OrderedStream, b: sw.OrderedStream) -> sw.OrderedStream:
    return a.followed_by(b, on="k", within=5)


def _deduplicated(a: sw.OrderedStream, b: sw.OrderedStream) -> sw.OrderedStream:
    return sw.union(a.deduplicate(on="k", within=6), b).deduplicate(on=["k", "v"], within=3, keep="last")


def _diamond(a: sw.OrderedStream, b: sw.OrderedStream) -> sw.OrderedStream:
    both = sw.union(a, b)
    return sw.union(both.where(nw.col("v") > 1), both.where(nw.col("v") <= 1), a)


PIPELINES: dict[str, Pipeline] = {
    "union": _union,
    "row by row": _row_by_row,
    "tumbling windows": _tumbling,
    "hopping windows": _hopping,
    "sliding windows": _sliding,
    "join": _join,
    "overlapping lifetimes": _overlap,
    "followed by": _followed_by,
    "deduplicated": _deduplicated,
    "diamond": _diamond,
}
"""The pipelines by name: together they use every step there is."""


def rows_of_batch(batch: EventBatch) -> pa.RecordBatch:
    """The events of a batch as rows that a source could bring."""
    data = batch.data()
    columns = [pa.array(data.start, pa.int64()), *(data.payload.column(name) for name in ("k", "v"))]
    return pa.RecordBatch.from_arrays(columns, schema=ROWS)
