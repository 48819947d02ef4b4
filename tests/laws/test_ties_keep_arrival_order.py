"""Law 5: events of one stream that share a time keep the order in which they came."""

from __future__ import annotations

import narwhals as nw
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import slackwater as sw

_STARTS = st.lists(st.integers(0, 5), max_size=30)


@given(first=_STARTS, second=_STARTS, batch_rows=st.integers(1, 7))
def test_union_keeps_the_order_within_each_stream(first: list[int], second: list[int], batch_rows: int) -> None:
    """Numbered rows of one stream come out in their numbers' order."""
    streams = [_numbered(which, starts) for which, starts in enumerate((first, second))]
    collected: list[dict[str, int]] = []
    union = sw.union(*streams).where(nw.col("n") >= 0)
    union.open(lambda rows: collected.extend(rows.to_pylist()), batch_rows=batch_rows).run_to_end()
    for which, starts in enumerate((first, second)):
        assert [row["n"] for row in collected if row["of"] == which] == list(range(len(starts)))


def _numbered(which: int, starts: list[int]) -> sw.OrderedStream:
    times = pa.array(sorted(starts), pa.int64())
    numbers = pa.array(range(len(starts)), pa.int64())
    table = pa.table({"at": times, "n": numbers, "of": pa.array([which] * len(starts), pa.int64())})
    return sw.stream(table, time="at").assume_ordered()
