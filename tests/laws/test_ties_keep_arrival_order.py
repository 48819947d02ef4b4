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
    streams = [
        sw.stream(
            pa.table(
                {"at": pa.array(sorted(starts), pa.int64()), "n": list(range(len(starts))), "of": [which] * len(starts)}
            ),
            time="at",
            schema=None,
        ).assume_ordered()
        for which, starts in enumerate((first, second))
        if starts
    ]
    if len(streams) < 2:
        return
    collected: list[dict[str, int]] = []
    query = (
        sw.union(*streams)
        .where(nw.col("n") >= 0)
        .open(lambda rows: collected.extend(rows.to_pylist()), batch_rows=batch_rows)
    )
    query.run_to_end()
    for which in range(2):
        numbers = [row["n"] for row in collected if row["of"] == which]
        assert numbers == sorted(numbers)
