"""Law 5: events of one stream that share a time keep the order in which they came."""

from __future__ import annotations

from typing import Any

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


_ORDERINGS = st.fixed_dictionaries(
    {
        "every": st.sampled_from([sw.Every.rows(1), sw.Every.rows(4), sw.Every.time(2), sw.Every.batch()]),
        "late": st.sampled_from([sw.Late.divert(), sw.Late.drop(), sw.Late.adjust()]),
    }
)


def _disordered(starts: list[int]) -> sw.DisorderedStream:
    numbers = pa.array(range(len(starts)), pa.int64())
    return sw.stream(pa.table({"at": pa.array(starts, pa.int64()), "n": numbers}), time="at")


def _assert_stable(stream: sw.OrderedStream, batch_rows: int) -> None:
    collected: list[dict[str, int]] = []
    query = stream.open(lambda rows: collected.extend(rows.to_pylist()), batch_rows=batch_rows, on_late=lambda _: None)
    query.run_to_end()
    assert collected == sorted(collected, key=lambda row: (row["at"], row["n"]))


@given(starts=_STARTS, patience=st.none() | st.integers(0, 6), options=_ORDERINGS, batch_rows=st.integers(1, 7))
def test_sort_is_stable(starts: list[int], patience: int | None, options: dict[str, Any], batch_rows: int) -> None:
    """With any patience or none; late rows that were moved to a bound come in their order of arrival too."""
    stream = _disordered(starts)
    _assert_stable(stream.sort() if patience is None else stream.sort(patience, **options), batch_rows)


@given(
    starts=_STARTS,
    patiences=st.sets(st.integers(0, 6), min_size=1, max_size=3).map(sorted),
    options=_ORDERINGS,
    batch_rows=st.integers(1, 7),
)
def test_every_stream_of_bands_is_stable(
    starts: list[int], patiences: list[int], options: dict[str, Any], batch_rows: int
) -> None:
    """Also between bands: what a more patient band takes came after what the bands before it took."""
    for stream in _disordered(starts).in_bands(*patiences, **options):
        _assert_stable(stream, batch_rows)
